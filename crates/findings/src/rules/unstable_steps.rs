//! SL031: steps that are longer than the others.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::FxHashSet;
use stackline_critical_path::exact::Category;
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::format::duration;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{EventId, INFERRED, Key, StrId, Trace, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::steps::with_gpu_work;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    code: "SL031",
    name: "unstable-steps",
    area: Area::Measurement,
    about: "some steps are much longer than the others; the finding names the work that takes longer in them",
    why: "The mean over all steps hides a few slow steps, and in each slow step, the other ranks wait.",
    gain_methods: &[GainMethod::Model, GainMethod::Nothing],
    gain_text: "The estimate shortens each slow step, and the step after it, to the length of the median step. It \
         divides the saved time by the number of steps. The lower bound is 0. For the upper bound, it shortens these \
         steps further: to the median minus twice the difference between median and shortest step. The rule compares \
         the critical path of the slowest step with that of usual steps to find the work that takes longer. In \
         recordings, a step that is slow without additional work may be a random variation; a note reports it \
         instead of a finding.",
    advice: "Analyze the named step (`stackline critical-path --steps` with its number) and the work that takes longer \
         in it. Common causes: allocations, a compilation, garbage collection, data loading, checkpoints, or another \
         program on the machine.",
    example: (
        "if step % 100 == 0:\n    torch.save(model.state_dict(), \"last.pt\")",
        "if step % 100 == 0:  # write while the next steps run\n    state = {k: v.clone() for k, v in model.state_dict().items()}\n    \
         pending = writer.submit(torch.save, state, \"last.pt\")",
    ),
    cost: "the cost depends on the cause",
    false_positives: "Steps may differ by design: evaluation, checkpoints, inputs of different lengths. In a \
         recording, the rule estimates a gain only for a known cause of at least half of the additional time. The \
         cause must occur more often in the slow step than in any usual step, or be something else than host \
         computation. An operator or function that is slower only once may have \
         waited for a processor that another program used: a note reports it instead of a finding. A step lasts until \
         its GPU work ends. The first step of a trace never counts as slow, because it is a warm-up and starts with an \
         idle GPU. The last step of a process does not count either. It includes the end of the program or profile, \
         such as a wait for the GPU or saving the trace.",
    source: "common practice",
    needs: &[Requirement::Steps],
    settings: &[
        Setting {
            name: "percent",
            default: 15.0,
            range: (1.0, 1000.0),
            about: "a step is slow only if it exceeds the median step by more than this percentage; it must also \
                exceed the limit of the setting `deviations`",
        },
        Setting {
            name: "deviations",
            default: 5.0,
            range: (0.0, 100.0),
            about: "a step is slow only if it exceeds the median step by more than this number of median absolute \
                    deviations; it must also exceed the limit of the setting `percent`",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Least number of steps that show the usual length.
const MIN_STEPS: usize = 4;

/// Reason why a slow step without known additional work is no finding.
const NOISE: &str = "no work of the program is known to cause the delay, so another program may have used the \
    processor";

/// Reason why a slow step with more operators is no finding.
const MORE_WORK: &str = "the slow step runs more operators than the other steps, possibly in an evaluation or a \
                         checkpoint; see the findings on evaluations and checkpoints";

/// Description of the gain model.
const MODEL: &str = "model: each slow step, and the step after it, takes as long as the median step";

/// Step of the window: number, start, end and event.
type Timed = (i64, i64, i64, EventId);

/// Find steps that are longer than the others; at most one candidate, named after the slowest.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let all = timed(context);
    let steps: Vec<Timed> = all.iter().filter(|step| length(step) > 0).copied().collect();
    let usual = median(steps.iter().map(length).collect());
    let deviation = median(steps.iter().map(|s| (length(s) - usual).abs()).collect());
    let least =
        (usual as f64 * context.setting("percent") / 100.0).max(deviation as f64 * context.setting("deviations"));
    // The first step of a process fills caches and allocators: it is longer, by an amount that varies between runs.
    let (first, last) = (first_steps(context.trace()), last_steps(context.trace()));
    let is_slow = |s: &Timed| !first.contains(&s.3) && !last.contains(&s.3) && (length(s) - usual) as f64 > least;
    let (slow, others): (Vec<Timed>, Vec<Timed>) = steps.iter().partition(|s| is_slow(s));
    // If every third step is slow, slow steps are part of the program.
    if steps.len() < MIN_STEPS || slow.len() * 3 > steps.len() {
        return Vec::new();
    }
    let Some(&worst) = slow.iter().max_by_key(|s| length(s)) else { return Vec::new() };
    let are_slow = slow.iter().copied().collect();
    vec![candidate(context, &Steps { all, slow, others, are_slow, worst }, usual)]
}

/// Steps of the window, divided into slow and other steps.
struct Steps {
    /// All steps, also those without a length.
    all: Vec<Timed>,
    slow: Vec<Timed>,
    /// Steps with a length that are not slow.
    others: Vec<Timed>,
    are_slow: FxHashSet<Timed>,
    /// Slowest step.
    worst: Timed,
}

impl Steps {
    /// Test if a step is one of the slow steps.
    fn is_slow(&self, step: &Timed) -> bool {
        self.are_slow.contains(step)
    }
}

/// Events of the first step of each process.
fn first_steps(trace: &Trace) -> BTreeSet<EventId> {
    let mut first: BTreeMap<Key, EventId> = BTreeMap::new();
    for step in &trace.steps {
        first.entry(trace.process_of(step)).or_insert(step.event);
    }
    first.into_values().collect()
}

/// Events of the last step of each process.
fn last_steps(trace: &Trace) -> BTreeSet<EventId> {
    let mut last: BTreeMap<Key, (i64, EventId)> = BTreeMap::new();
    for step in &trace.steps {
        let known = last.entry(trace.process_of(step)).or_insert((step.start, step.event));
        *known = (*known).max((step.start, step.event));
    }
    last.into_values().map(|(_, event)| event).collect()
}

/// Steps of the window, each until its GPU work ends. The host steps alone vary arbitrarily if the host runs ahead.
fn timed(context: &RuleContext<'_>) -> Vec<Timed> {
    let trace = context.trace();
    let (from, to) = context.window();
    let steps = trace.steps.iter().zip(with_gpu_work(trace)).filter(|(s, _)| s.end > s.start && s.start < to);
    // If work of an earlier step outlasts that of a step, the step has no length.
    let is_of_window = |span: &(i64, i64)| span.0 < to && span.1 > from;
    let of_window = steps.filter(|(_, span)| is_of_window(span));
    of_window.map(|(s, span)| (s.number, span.0.clamp(from, to), span.1.clamp(from, to), s.event)).collect()
}

/// Length of a step with its GPU work, in ns.
fn length(step: &Timed) -> i64 {
    step.2 - step.1
}

/// Lower median; 0 for no values.
fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

/// Candidate for all slow steps, with the category and name that grew most on the critical path.
fn candidate(context: &RuleContext<'_>, of: &Steps, usual: i64) -> Candidate {
    let Steps { all: steps, slow, worst, .. } = of;
    // The step after a slow one starts with an idle GPU, and is longer for that reason. If work of the slow step
    // outlasts that of later steps, these have no length, and the step after them is shorter.
    let mut follows = false;
    let successors = steps.iter().filter(|step| {
        let is_successor = follows && !of.is_slow(step);
        follows = of.is_slow(step) || is_successor && length(step) == 0;
        is_successor
    });
    let lost: Vec<i64> = slow.iter().chain(successors).map(length).collect();
    let excess = |usual: i64| lost.iter().map(|ns| ns - usual).sum::<i64>() / context.steps() as i64;
    let shortest = steps.iter().skip(1).map(length).filter(|ns| *ns > 0).min().unwrap_or(usual);
    let grown = growth(context, of);
    let Growth { category, name, event, ns } = grown;
    // A cause of less than half of the excess is not an explanation. An event as long as the step names no location.
    let is_all = |event: EventId| 10 * context.dur(event) >= 9 * length(worst);
    let is_known = 2 * ns >= length(worst) - usual && !event.is_some_and(is_all);
    // Recordings come from busy machines: possible noise gains nothing.
    let is_noise = context.recording().is_some() && !(is_known && grown.is_more_work(context, of));
    let (name, event) = if is_known { (name, event) } else { ("", None) };
    let category = category.name().replace('_', " ");
    let cause = if name.is_empty() { category } else { format!("{category}, mostly in {}", super::shorten_name(name)) };
    Candidate {
        title: title((worst, usual), (slow.len(), steps.len()), &cause),
        place: event.map(|event| context.place(event)).unwrap_or_default(),
        events: slow.iter().map(|s| s.3).collect(),
        facts: vec![
            Fact::count("slow steps", slow.len()),
            Fact::count("steps", steps.len()),
            Fact {
                name: "the slowest step is longer than the median step by",
                value: 100.0 * (length(worst) - usual) as f64 / usual.max(1) as f64,
                unit: Unit::Percent,
            },
        ],
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Low,
        gain_estimate: if is_noise {
            GainEstimate::Insignificant(if runs_more(context, of) { MORE_WORK } else { NOISE })
        } else {
            // Later steps may make up for more than the slow ones lose.
            let likely = excess(usual);
            GainEstimate::Model(Gain::new(likely, likely.min(0), excess(2 * shortest - usual)), MODEL)
        },
    }
}

/// Title from the slowest step, the length of the median step, the numbers of slow and of all steps, and the cause.
fn title((worst, usual): (&Timed, i64), (slow, all): (usize, usize), cause: &str) -> String {
    let (number, takes, usual) = (worst.0, duration(length(worst)), duration(usual));
    match slow {
        0 | 1 => {
            format!("Slow step: step {number} takes {takes}, median {usual}; the additional time is in {cause}")
        }
        _ => format!(
            "Slow step: step {number} takes {takes}, median {usual}; {slow} of {all} steps are slow; the additional \
             time is in {cause}"
        ),
    }
}

/// Check if the worst step runs more operators than any usual step, by at least half of its excess in time.
fn runs_more(context: &RuleContext<'_>, Steps { others, worst, .. }: &Steps) -> bool {
    let begun = Starts::from_trace(context.trace(), context.operators());
    let starts = |s: &Timed| begun.in_step(s) as f64;
    let most = others.iter().map(starts).fold(0.0, f64::max);
    let longest = others.iter().map(length).max().unwrap_or(0).max(1) as f64;
    starts(worst) > most * (1.0 + (length(worst) as f64 / longest - 1.0) / 2.0)
}

/// Starts of events, ascending.
struct Starts(Vec<i64>);

impl Starts {
    /// Collect and sort the start times of events.
    fn from_trace(trace: &Trace, events: impl IntoIterator<Item = EventId>) -> Self {
        let mut starts: Vec<i64> = events.into_iter().map(|e| trace.events.start[e.index()]).collect();
        starts.sort_unstable();
        Self(starts)
    }

    /// Number of start times that lie within a step.
    fn in_step(&self, step: &Timed) -> usize {
        let before = |at: i64| self.0.partition_point(|&start| start < at);
        before(step.2) - before(step.1)
    }
}

/// Growth of the critical path from the usual steps to the worst step.
struct Growth<'a> {
    /// Category that grew most.
    category: Category,
    /// Name within the category that grew most, and its growth in ns.
    name: &'a str,
    ns: i64,
    /// Longest event of that name.
    event: Option<EventId>,
}

impl Growth<'_> {
    /// Check if the worst step does work that usual steps lack or do less often. Longer computation alone may be due
    /// to a busy machine, and samples see work in some steps by chance.
    fn is_more_work(&self, context: &RuleContext<'_>, Steps { others, worst, .. }: &Steps) -> bool {
        let (trace, Some(event)) = (context.trace(), self.event) else { return false };
        if trace.attr(INFERRED).get(event).is_some() {
            return false;
        }
        if !matches!(self.category, Category::HostOperator | Category::HostPython | Category::HostBlocked) {
            return true;
        }
        let same = |e: &EventId| trace.events.name[e.index()] == trace.events.name[event.index()];
        let calls = Starts::from_trace(trace, trace.events.ids().filter(|e| same(e) && trace.events.is_timed(*e)));
        calls.in_step(worst) > others.iter().map(|s| calls.in_step(s)).max().unwrap_or(0)
    }
}

/// Compare the critical path in the worst step with that in the usual steps, by category and name.
fn growth<'a>(context: &RuleContext<'a>, of: &Steps) -> Growth<'a> {
    let Steps { others, worst, .. } = of;
    let usual = others.len().max(1) as i64;
    // Weight the worst step by the number of usual steps, then subtract those.
    let weight = |s: &Timed| if s == worst { usual } else { -i64::from(!of.is_slow(s)) };
    let weighed: Vec<(Timed, i64)> = of.all.iter().map(|s| (*s, weight(s))).collect();
    let mut more: BTreeMap<(Category, StrId), i64> = BTreeMap::new();
    let mut longest: BTreeMap<StrId, (i64, EventId)> = BTreeMap::new();
    let trace = context.trace();
    for segment in context.path().segments.iter() {
        let name = segment.event.some().map_or(StrId::NONE, |e| trace.events.name[e.index()]);
        let first = weighed.partition_point(|(s, _)| s.2 <= segment.start);
        for (step, weight) in weighed[first..].iter().take_while(|(s, _)| s.1 < segment.end) {
            let ns = segment.end.min(step.2) - segment.start.max(step.1);
            *more.entry((segment.category, name)).or_default() += ns * weight;
            if step == worst && segment.event.is_some() {
                let known = longest.entry(name).or_default();
                *known = (*known).max((ns, segment.event));
            }
        }
    }
    let of = |category: Category| -> i64 { more.iter().filter(|((c, _), _)| *c == category).map(|(_, ns)| ns).sum() };
    let category = Category::ALL.into_iter().rev().max_by_key(|&c| of(c)).unwrap_or(Category::Unknown);
    let is_step = |name: StrId| trace.strings.get(name).starts_with(STEP_PREFIX);
    let names = more.iter().filter(|((c, name), _)| *c == category && name.is_some() && !is_step(*name));
    let most = names.max_by_key(|(_, ns)| **ns).map(|((_, name), ns)| (*name, *ns / usual));
    let event = most.and_then(|(name, _)| longest.get(&name)).map(|&(_, event)| event);
    let name = most.map_or("", |(name, _)| trace.strings.get(name));
    Growth { category, name, ns: most.map_or(0, |(_, ns)| ns), event }
}
