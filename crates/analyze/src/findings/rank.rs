//! Rules over a trace, gains by replay, the order of what was found.

use super::finding::{Draft, Finding, REPLAY, Worth};
use super::rule::{Need, Rule};
use super::rules;
use super::settings::Settings;
use super::subject::{Ground, Subject};
use crate::Scope;
use crate::critical_path::CriticalPathError;
use crate::critical_path::exact::what_if::{self, Edit, Gain};
use crate::critical_path::exact::{Exact, WindowChoice};
use stackline_model::{Step, Trace};
use std::cmp::Reverse;

/// How to look.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which steps.
    pub scope: Scope,
    /// When rules fire.
    pub settings: Settings,
    /// Findings that gain less than this much of a step are left out, in percent.
    pub least_percent: f64,
    /// Threads for replay; 0 means one per core. Never changes the result.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { scope: Scope::default(), settings: Settings::default(), least_percent: 0.5, threads: 0 }
    }
}

/// A rule that could not look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unchecked {
    /// The rule.
    pub rule: &'static Rule,
    /// What it misses.
    pub need: Need,
}

/// All that was found in a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Length of a step in ns: the window's by the steps in it.
    pub step_ns: i64,
    /// Steps in the window; 0 if the trace has none and the window is all of it.
    pub steps: usize,
    /// Most gain first; those that are about the measurement itself come last.
    pub findings: Vec<Finding>,
    /// What all findings together gain per step, in ns, as far as they can be made together.
    pub together: Option<Gain>,
    /// Rules that could not look.
    pub unchecked: Vec<Unchecked>,
    /// Findings left out because they gain too little.
    pub small: usize,
    /// What the reader should know, a sentence each.
    pub notes: Vec<String>,
}

/// So many findings are replayed together at most.
const TOGETHER: usize = 12;
/// A first step that takes so many times as long as the median of the others is a warm-up.
const WARM_UP: i64 = 2;

/// Runs all rules over a trace and ranks what they find by the gain that replay predicts.
///
/// # Errors
/// If the trace has no work, or no such steps.
pub fn find(trace: &Trace, options: &Options) -> Result<Findings, CriticalPathError> {
    let exact = Exact::new(trace);
    let (choice, steps, notes) = choose(trace, &options.scope);
    let window = exact.window(&choice)?;
    let ground = Ground::new(&exact, (window, steps.max(1)), &options.settings);
    let (mut drafts, mut unchecked) = (Vec::new(), Vec::new());
    for rule in rules::ALL {
        match rule.needs.iter().find(|need| !need.is_met(trace)) {
            Some(&need) => unchecked.push(Unchecked { rule, need }),
            None => drafts.extend((rule.check)(&Subject::new(&ground, rule)).into_iter().map(|draft| (rule, draft))),
        }
    }
    let edits: Vec<&[Edit]> = drafts.iter().map(|(_, draft)| edits_of(draft)).collect();
    let replayed = what_if::gains(&exact, &choice, &edits, options.threads)?;
    let per_step = |gain: Gain| scaled(gain, steps.max(1) as i64);
    let step_ns = window.length_ns() / steps.max(1) as i64;
    let least_ns = (step_ns as f64 * options.least_percent / 100.0) as i64;
    let (mut found, mut small) = (Vec::new(), 0);
    for ((rule, draft), gain) in drafts.into_iter().zip(replayed) {
        let gain = match &draft.worth {
            Worth::Edits(_) => gain.map(per_step),
            Worth::Model { gain, .. } => Some(*gain),
            Worth::None => None,
        };
        if !matches!(draft.worth, Worth::None) && gain.is_none_or(|gain| gain.ns < least_ns.max(1)) {
            small += 1;
            continue;
        }
        found.push((rule, draft, gain));
    }
    found.sort_by(|a, b| order(a).cmp(&order(b)));
    let (on_top, together) = together(&exact, &choice, &found, options.threads)?;
    let findings = found
        .into_iter()
        .zip(on_top)
        .map(|((rule, draft, gain), on_top)| finished(rule, draft, gain, on_top.map(|ns| ns / steps.max(1) as i64)));
    let (findings, together) = (findings.collect(), together.map(per_step));
    Ok(Findings { step_ns, steps, findings, together, unchecked, small, notes })
}

/// All of the trace, or its steps without a first one that warms up.
fn choose(trace: &Trace, scope: &Scope) -> (WindowChoice, usize, Vec<String>) {
    let count = |from: i64, to: i64| trace.steps.iter().filter(|s| (from..=to).contains(&s.number)).count();
    if let Some((from, to)) = scope.steps {
        return (WindowChoice::Steps(from, to), count(from, to), Vec::new());
    }
    let timed: Vec<&Step> = trace.steps.iter().filter(|s| s.end > s.start).collect();
    let [first, rest @ ..] = timed.as_slice() else { return (WindowChoice::Whole, 0, Vec::new()) };
    let mut lengths: Vec<i64> = rest.iter().map(|s| s.end - s.start).collect();
    lengths.sort_unstable();
    let is_warm_up = rest.len() >= 2 && first.end - first.start > WARM_UP * lengths[lengths.len() / 2];
    let kept = if is_warm_up { rest } else { &timed };
    let numbers = || kept.iter().map(|s| s.number);
    let (Some(from), Some(to)) = (numbers().min(), numbers().max()) else {
        return (WindowChoice::Whole, 0, Vec::new());
    };
    let note = is_warm_up.then(|| {
        format!(
            "step {} took {} times as long as the others and is left out: --steps says otherwise",
            first.number,
            (first.end - first.start) / lengths[lengths.len() / 2].max(1)
        )
    });
    (WindowChoice::Steps(from, to), count(from, to), note.into_iter().collect())
}

fn edits_of(draft: &Draft) -> &[Edit] {
    match &draft.worth {
        Worth::Edits(edits) => edits,
        _ => &[],
    }
}

fn scaled(gain: Gain, steps: i64) -> Gain {
    Gain { ns: gain.ns / steps, low_ns: gain.low_ns / steps, high_ns: gain.high_ns / steps }
}

type Priced = (&'static Rule, Draft, Option<Gain>);

/// Most gain first; ties by code, place and title.
fn order<'f>((rule, draft, gain): &'f Priced) -> impl Ord + use<'f> {
    (Reverse(gain.map(|g| (g.ns, g.low_ns))), rule.code, &draft.place, draft.title.as_str())
}

/// What each finding adds to those above it, and what all gain together, in ns of the whole window.
fn together(
    exact: &Exact<'_>,
    choice: &WindowChoice,
    found: &[Priced],
    threads: usize,
) -> Result<(Vec<Option<i64>>, Option<Gain>), CriticalPathError> {
    let mut on_top = vec![None; found.len()];
    let with_edits: Vec<usize> =
        (0..found.len()).filter(|&i| !edits_of(&found[i].1).is_empty()).take(TOGETHER).collect();
    let mut taken: Vec<usize> = Vec::new();
    let mut best: Option<Gain> = None;
    let mut rest = with_edits.as_slice();
    while !rest.is_empty() {
        // All that follow are tried at once; behind one that contradicts those before it, again without it.
        let lists: Vec<Vec<Edit>> = (1..=rest.len())
            .map(|n| taken.iter().chain(&rest[..n]).flat_map(|&i| edits_of(&found[i].1).iter().cloned()).collect())
            .collect();
        let gains = what_if::gains(exact, choice, &lists, threads)?;
        let fitting = gains.iter().take_while(|gain| gain.is_some()).count();
        for (&i, gain) in rest.iter().zip(&gains).take(fitting) {
            on_top[i] = gain.map(|gain| gain.ns - best.map_or(0, |best| best.ns));
            best = *gain;
            taken.push(i);
        }
        rest = rest.get(fitting + 1..).unwrap_or(&[]);
    }
    Ok((on_top, best))
}

fn finished(rule: &'static Rule, draft: Draft, gain: Option<Gain>, on_top_ns: Option<i64>) -> Finding {
    let edits = edits_of(&draft).iter().map(ToString::to_string).collect();
    let method = match draft.worth {
        Worth::Edits(_) => REPLAY,
        Worth::Model { model, .. } => model,
        Worth::None => "",
    };
    let Draft { title, place, mut events, facts, support, confidence, .. } = draft;
    events.sort_unstable();
    events.dedup();
    Finding { rule, title, place, events, facts, support, confidence, gain, on_top_ns, method, edits }
}
