//! SL040: one rank comes last to collectives, and all others wait for it.

use crate::{Area, Fact, Finding, OfRank, RankTimes, Requirement, Rule, RuleContext, Setting, Settings, Support};
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::Unit;
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;

pub(super) const RULE: Rule = Rule {
    code: "SL040",
    name: "straggler",
    area: Area::Communication,
    about: "one rank comes last to the collectives, and all others wait for it",
    why: "A collective ends when the last rank has come: the slowest rank sets the pace of all. It is the one that waits least \
          itself. What the others wait is an effect: on their ranks it is no finding, and this one names what is found on the last rank \
          alone, or gains at least twice as much there.",
    advice: "Look at what else is found on that rank alone, and compare it with another one (`stackline diff`): more data or longer \
             sequences, a slower or hotter GPU, a busier host, work that rank 0 does for all.",
    example: ("if rank == 0:\n    log(model)  # in each step", "if rank == 0 and step % 100 == 0:\n    log(model)"),
    cost: "depends on why it comes late",
    false_positives: "Ranks have different work by design, as in pipelines. Times are told by how long each rank's collectives run with \
                 nothing beside them: no clocks are compared. Ranks whose steps differ in length by more than a quarter are not \
                 compared, nor those without collectives or with a trace of which a part was lost. The gain is a model: what the rank that waits next to least waits more than the last one; where its cause is known, \
                 no more than replay says that its edits gain on that rank.",
    source: "field practice; HTA's and XProf's straggler analyses",
    needs: &[Requirement::Ranks, Requirement::Collectives],
    settings: &[Setting {
        name: "share",
        default: 2.0,
        range: (0.0, 100.0),
        about: "least part of the step that the others wait for the last rank, in percent",
    }],
    advice_variants: &[],
    check,
};

const MODEL: &str = "what the rank that waits next to least waits more than the last one";
/// Steps of ranks that train together differ in length by less, in percent.
const ALIKE: i64 = 25;

/// One rank shows no other.
fn check(_: &RuleContext<'_>) -> Vec<crate::Candidate> {
    Vec::new()
}

/// Whether ranks have steps of about one length, in which they can be compared.
pub(crate) fn are_alike(ranks: &[RankTimes]) -> bool {
    let lengths = || ranks.iter().map(|rank| rank.step_ns);
    let (longest, shortest) = (lengths().max().unwrap_or(0), lengths().min().unwrap_or(0));
    (longest - shortest).saturating_mul(100) <= longest.saturating_mul(ALIKE)
}

/// The rank that comes last, if there is one.
pub(crate) fn find(ranks: &[RankTimes], settings: &Settings) -> Option<Finding> {
    let mut by_wait: Vec<(i64, i64)> = ranks.iter().filter_map(|rank| Some((rank.alone_ns?, rank.rank))).collect();
    by_wait.sort_unstable();
    let (&(least, last), others) = by_wait.split_first()?;
    let (&(first, _), &(longest, _)) = (others.first()?, others.last()?);
    let (median, _) = others[others.len() / 2];
    let step_ns = ranks.iter().map(|rank| rank.step_ns).max()?;
    let (next, usual) = (first - least, median - least);
    let share = 100.0 * next as f64 / step_ns.max(1) as f64;
    if share < settings.get(&RULE, "share") || next == 0 || !are_alike(ranks) {
        return None;
    }
    let fact = |name: &str, ns: i64| Fact { name: name.to_owned(), value: ns as f64 / 1e3, unit: Unit::Us };
    Some(Finding {
        rule: RULE.info(),
        title: format!("rank {last} comes last: the others wait for it {share:.0} % of the step or more"),
        place: SourceLocation::default(),
        change: None,
        events: Vec::new(),
        facts: vec![
            Fact { name: "ranks".to_owned(), value: ranks.len() as f64, unit: Unit::None },
            fact("in collectives alone there, a step", least),
            fact("median of the others", median),
            fact("most of the others", longest),
        ],
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain: Some(Gain { ns: next, low_ns: 0, high_ns: usual.max(next) }),
        memory: None,
        on_top_ns: None,
        method: MODEL,
        edits: Vec::new(),
        edit_labels: Vec::new(),
        ranks: vec![OfRank { rank: last, gain_ns: Some(next) }],
    })
}
