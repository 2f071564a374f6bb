//! Step marks: origin of a trace's steps, and spans that could mark steps in a trace without them.

use crate::launch_pattern::LaunchPattern;
use rustc_hash::FxHashMap;
use stackline_model::format::{count, duration};
use stackline_model::names::OPTIMIZER_STEP;
use stackline_model::vocabulary::{FRAMEWORKS, StepRole};
use stackline_model::{EventId, EventKind, INFERRED, Step, Trace, TrackId, TrackKind};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Minimum number of numbered spans in a loop.
const MIN_SPANS: usize = 3;
/// Minimum share, in percent, of their loop that the spans take.
const MIN_LOOP_PERCENT: i64 = 20;
/// In traces with steps: maximum number of steps per span.
const MAX_STEPS_PER_SPAN: usize = 2;
/// Category of operators and program spans in PyTorch of 2021.
const OLD_OPERATORS: &str = "Operator";

/// Spans of a thread with increasing numbers in their names, such as `request 0`, `request 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedSpans {
    /// The name without the number.
    pub prefix: String,
    /// The first two numbers.
    pub numbers: [i64; 2],
    /// Number of spans.
    pub spans: usize,
    /// Median duration, in ns.
    pub median_ns: i64,
}

impl NumberedSpans {
    /// Find the spans with the most total time.
    #[must_use]
    pub fn find(trace: &Trace) -> Option<Self> {
        Self::all(trace).into_iter().max_by_key(|(all_ns, _)| *all_ns).map(|(_, found)| found)
    }

    /// Find the spans whose count is nearest to that of the trace's steps. This excludes epochs, which are much fewer.
    fn find_nearest_to_steps(trace: &Trace) -> Option<Self> {
        let steps = trace.steps.len();
        let like = Self::all(trace).into_iter().filter(|(_, found)| MAX_STEPS_PER_SPAN * found.spans >= steps);
        like.min_by_key(|(all_ns, found)| (found.spans.abs_diff(steps), Reverse(*all_ns))).map(|(_, found)| found)
    }

    /// All non-overlapping spans of a thread with increasing numbers, each with their total time in ns.
    fn all(trace: &Trace) -> Vec<(i64, Self)> {
        let Some((start, end)) = trace.span() else { return Vec::new() };
        let inferred = trace.attr(INFERRED);
        let names: FxHashMap<_, _> =
            (0usize..).zip(trace.strings.iter()).filter_map(|(id, name)| Some((id, numbered(name)?))).collect();
        let mut loops: BTreeMap<(TrackId, &str), Vec<(i64, EventId)>> = BTreeMap::new();
        for event in trace.events.ids().filter(|&event| may_mark(trace, event)) {
            // Marks that Stackline inferred are not the program's.
            if inferred.get(event).is_some() {
                continue;
            }
            if let Some(&(prefix, number)) = names.get(&trace.events.name[event.index()].index()) {
                loops.entry((trace.events.track[event.index()], prefix)).or_default().push((number, event));
            }
        }
        let found = loops.into_iter().filter_map(|((_, prefix), spans)| Self::from_loop(trace, prefix, spans));
        // Imports and preparations may take longer than the loop.
        found.filter(|(all_ns, _)| *all_ns >= (end - start) / 100).collect()
    }

    /// Numbered spans and their total time in ns, if they form a loop.
    fn from_loop(trace: &Trace, prefix: &str, mut spans: Vec<(i64, EventId)>) -> Option<(i64, Self)> {
        let at = |event: EventId| (trace.events.start[event.index()], trace.events.end(event));
        spans.sort_by_key(|&(_, event)| at(event));
        // Names of operators may also end with a number: `MulBackward0`.
        let grows = || spans.windows(2).all(|two| two[0].0 < two[1].0);
        if spans.iter().any(|&(_, event)| trace.kind(event) == EventKind::Operator) && !grows() {
            return None;
        }
        let is_loop = spans.windows(2).all(|two| two[0].0 < two[1].0 && at(two[0].1).1 <= at(two[1].1).0);
        let mut lengths: Vec<i64> = spans.iter().map(|&(_, event)| at(event).1 - at(event).0).collect();
        lengths.sort_unstable();
        let all_ns: i64 = lengths.iter().sum();
        let [(one, first), (two, _), .., (_, last)] = spans[..] else { return None };
        let is_large = all_ns >= (at(last).1 - at(first).0) / 100 * MIN_LOOP_PERCENT;
        let found = || Self {
            prefix: prefix.to_owned(),
            numbers: [one, two],
            spans: spans.len(),
            median_ns: lengths[lengths.len() / 2],
        };
        (spans.len() >= MIN_SPANS && is_loop && is_large).then(|| (all_ns, found()))
    }

    /// The `--step-annotation` pattern that selects these spans.
    #[must_use]
    pub fn pattern(&self) -> String {
        let mut pattern = String::from("^");
        for c in self.prefix.chars() {
            if !c.is_alphanumeric() && !c.is_whitespace() && !matches!(c, '_' | '-' | '/' | ':' | '#' | '=' | ',') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern + r"(\d+)$"
    }
}

impl std::fmt::Display for NumberedSpans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (prefix, [one, two]) = (&self.prefix, self.numbers);
        write!(
            f,
            "{} spans are named '{prefix}{one}', '{prefix}{two}', … (median {}): --step-annotation '{}' uses them as \
             steps",
            count(self.spans as i64),
            duration(self.median_ns),
            self.pattern()
        )
    }
}

/// Split a name that ends with a number into prefix and number.
fn numbered(name: &str) -> Option<(&str, i64)> {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[prefix.len()..].parse().ok()?;
    // A quote would end the pattern in a shell.
    let is_name = prefix.chars().any(char::is_alphabetic) && !prefix.contains(['\'', '\n']);
    is_name.then_some((prefix, number))
}

/// Test if a span is on a CPU thread and named by the program.
fn may_mark(trace: &Trace, event: EventId) -> bool {
    let is_named_by_program = match trace.kind(event) {
        EventKind::Annotation | EventKind::Other => true,
        EventKind::Operator => trace.category(event) == OLD_OPERATORS && !trace.name(event).contains("::"),
        _ => false,
    };
    is_named_by_program
        && trace.tracks.get(trace.events.track[event.index()]).kind == TrackKind::Thread
        && trace.events.is_timed(event)
}

/// Origin of the trace's steps as text; `None` if the program marks them itself.
#[must_use]
pub fn step_origin(trace: &Trace) -> Option<&'static str> {
    let inferred = trace.attr(INFERRED);
    let is_made = |step: &Step| {
        let name = trace.strings.get(trace.events.name[step.event.index()]);
        // A span that is the step itself was selected by the user.
        let ends_with_it = step.start != trace.events.start[step.event.index()];
        let ends_step = || FRAMEWORKS.iter().any(|framework| framework.step_role(name) == Some(StepRole::End));
        (name.starts_with(OPTIMIZER_STEP) || ends_step()) && ends_with_it || inferred.get(step.event).is_some()
    };
    trace.steps.iter().any(is_made).then_some(
        "the program marks no steps: each step ends with Optimizer.step or with the next batch of a data loader",
    )
}

/// Note for a trace whose program marks no steps: the origin of its steps, or candidates for steps.
#[must_use]
pub fn note(trace: &Trace) -> Option<String> {
    if !trace.steps.is_empty() {
        let spans =
            || NumberedSpans::find_nearest_to_steps(trace).map_or_else(String::new, |spans| format!("; {spans}"));
        return step_origin(trace).map(|marks| format!("{marks}{}", spans()));
    }
    likely_steps(trace).map(|steps| match steps {
        LikelySteps::Spans(spans) => format!("no steps are marked, but {spans}"),
        LikelySteps::Pattern(pattern) => pattern.to_string(),
    })
}

/// Candidates for the steps of a trace without steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LikelySteps {
    /// Spans of the program, which the user can select.
    Spans(NumberedSpans),
    /// Repeated launches.
    Pattern(LaunchPattern),
}

/// Find candidates for steps, if the trace has none. Spans that the program names take precedence over repeated
/// launches.
#[must_use]
pub fn likely_steps(trace: &Trace) -> Option<LikelySteps> {
    if !trace.steps.is_empty() {
        return None;
    }
    let spans = NumberedSpans::find(trace).map(LikelySteps::Spans);
    spans.or_else(|| LaunchPattern::find(trace).map(LikelySteps::Pattern))
}

#[cfg(test)]
mod tests {
    use super::{NumberedSpans, numbered};

    #[test]
    fn names_end_with_a_number() {
        assert_eq!(numbered("request 12"), Some(("request ", 12)));
        assert_eq!(numbered("step[3]"), None);
        assert_eq!(numbered("17"), None);
        assert_eq!(numbered("it's 4"), None);
    }

    #[test]
    fn pattern_escapes_special_characters() {
        let spans = NumberedSpans { prefix: "eval (a+b) #".to_owned(), numbers: [7, 8], spans: 3, median_ns: 1 };
        assert_eq!(spans.pattern(), r"^eval \(a\+b\) #(\d+)$");
        assert!(spans.to_string().contains("'eval (a+b) #7', 'eval (a+b) #8', …"), "{spans}");
    }
}
