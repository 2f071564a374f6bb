//! SL040: rank that arrives last at collectives.

use crate::{
    Area, Fact, Finding, GainBasis, GainMethod, RankGain, RankTimes, Requirement, Rule, RuleContext, Setting, Settings,
    Support,
};
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::Unit;
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;

pub(super) const RULE: Rule = Rule {
    code: "SL040",
    name: "straggler",
    area: Area::Communication,
    about: "one rank arrives last at the collectives, and all other ranks wait for it",
    why: "A collective ends when the last rank arrives. So the slowest rank determines the speed of all ranks, and \
          waits least itself. The waits of the other ranks are an effect of the slow rank, so findings about these \
          waits are not listed. A finding that occurs only on the slow rank, or has at least twice the gain there, \
          is the cause of the delay. If this finding explains all of the wait, only this finding has an estimated \
          gain.",
    gain_methods: &[GainMethod::Model],
    gain_text: "For each rank, the rule measures the exposed collective time: the time in which collectives run \
         alone. The rank that arrives last has the shortest exposed collective time. The gain is the second shortest \
         exposed collective time minus that of the last rank. The lower bound is 0, and the upper bound is the \
         median exposed collective time of the other ranks minus that of the last rank. The gain excludes the gain \
         of the finding that is the cause on the last rank, so that no time counts twice.",
    advice: "Check the other findings of that rank, and compare it with another rank (`stackline diff`). Common \
         causes: more data or longer sequences, a slower or hotter GPU, a busier host, or work that rank 0 does for \
         all ranks.",
    example: ("if rank == 0:\n    log(model)  # in each step", "if rank == 0 and step % 100 == 0:\n    log(model)"),
    cost: "the cost depends on the cause of the delay",
    false_positives: "The ranks may have different work by design, as in pipelines. The rule compares how long \
                      collectives run alone on each rank; it does not need synchronized clocks. The rule leaves out \
                      ranks without collectives and traces with missing records. If the input lacks ranks of the job, \
                      one of these may arrive even later: a note names them, and the confidence is lower. It reports nothing if step lengths \
                      differ by more than a quarter between ranks. The gain comes from a model: it is the second \
                      shortest exposed collective time minus that of the last rank.",
    source: "common practice; HTA's and XProf's straggler analyses",
    needs: &[Requirement::Ranks, Requirement::Collectives],
    settings: &[Setting {
        name: "share",
        default: 2.0,
        range: (0.0, 100.0),
        about: "report only if the other ranks wait for the last rank for at least this percentage of the step",
    }],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Description of the gain model.
const MODEL: &str = "model: second shortest exposed collective time among the ranks, minus the shortest, that of the \
     last rank";
/// Largest difference of step lengths between ranks that train together, in percent.
const MAX_DIFFERENCE_PERCENT: i64 = 25;

/// Report nothing for one rank: stragglers only show between ranks.
fn check(_: &RuleContext<'_>) -> Vec<crate::Candidate> {
    Vec::new()
}

/// Check that step lengths of all ranks are similar enough to compare.
pub(crate) fn are_similar(ranks: &[RankTimes]) -> bool {
    let lengths = || ranks.iter().map(|rank| rank.step_ns);
    let (longest, shortest) = (lengths().max().unwrap_or(0), lengths().min().unwrap_or(0));
    (longest - shortest).saturating_mul(100) <= longest.saturating_mul(MAX_DIFFERENCE_PERCENT)
}

/// Finding on the rank that arrives last at collectives; `None` if the others hardly wait, or if steps are not
/// comparable.
pub(crate) fn find(ranks: &[RankTimes], settings: &Settings) -> Option<Finding> {
    let mut by_wait: Vec<(i64, i64)> =
        ranks.iter().filter_map(|rank| Some((rank.exposed_collectives_ns?, rank.rank))).collect();
    by_wait.sort_unstable();
    let (&(least, last), others) = by_wait.split_first()?;
    let (&(first, _), &(longest, _)) = (others.first()?, others.last()?);
    let (median, _) = others[others.len() / 2];
    let step_ns = ranks.iter().map(|rank| rank.step_ns).max()?;
    let (next, usual) = (first - least, median - least);
    let share = 100.0 * next as f64 / step_ns.max(1) as f64;
    if share < settings.get(&RULE, "share") || next == 0 || !are_similar(ranks) {
        return None;
    }
    let fact = |name: &str, ns: i64| Fact { name: name.to_owned(), value: ns as f64 / 1e3, unit: Unit::Us };
    Some(Finding {
        rule: RULE.info(),
        title: format!(
            "Straggler: rank {last} arrives last at collectives, and the others wait for at least \
             {share:.0} % of the step"
        ),
        place: SourceLocation::default(),
        change: None,
        events: Vec::new(),
        facts: vec![
            Fact { name: "ranks".to_owned(), value: ranks.len() as f64, unit: Unit::None },
            fact("exposed collective time of the last rank per step", least),
            fact("median exposed collective time of the other ranks per step", median),
            fact("maximum exposed collective time of the other ranks per step", longest),
        ],
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Medium,
        gain: Some(Gain::new(next, 0, usual.max(next))),
        memory: None,
        on_top_ns: None,
        basis: GainBasis::Model(MODEL),
        edits: Vec::new(),
        edit_labels: Vec::new(),
        ranks: vec![RankGain { rank: last, gain_ns: Some(next) }],
    })
}
