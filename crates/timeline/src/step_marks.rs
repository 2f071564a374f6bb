//! Notes on step marks: origin of a trace's steps, and search for spans that could mark steps in a trace without them.

use crate::launch_pattern::LaunchPattern;
use stackline_model::format::{count, duration};
use stackline_model::names::OPTIMIZER_STEP;
use stackline_model::vocabulary::{FRAMEWORKS, StepRole};
use stackline_model::{EventId, EventKind, INFERRED, Step, StrId, Trace, TrackId, TrackKind};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Minimum number of numbered spans in a loop.
const MIN_SPANS: usize = 3;
/// Minimum share, in percent, of their loop that the spans take.
const MIN_LOOP_PERCENT: i64 = 20;
/// Minimum share of spans of one name, in percent, so that phases of a step are not taken for steps.
const MIN_EQUAL_NAMES_PERCENT: i64 = 50;
/// Maximum length of the text before a step number, in bytes. The suggested pattern contains this text.
const MAX_TEXT_BEFORE: usize = 128;
/// Names of the spans around graphs that torch.compile (Inductor) generated. A step may have several.
const INDUCTOR_SPANS: &str = "## ";
/// Step number in a `--step-annotation` pattern.
const NUMBER: &str = r"(\d+)";
/// In traces with steps: maximum number of steps per span.
const MAX_STEPS_PER_SPAN: usize = 2;
/// Category of operators and program spans in PyTorch of 2021.
const OLD_OPERATORS: &str = "Operator";

/// Spans with the number in each name.
type NumberedEvents = Vec<(i64, EventId)>;

/// Span name with digits on one thread, with the first span of this name.
struct NumberedName<'t> {
    text: &'t str,
    /// First of the spans.
    first: EventId,
    has_several: bool,
}

/// Repeated spans of a thread that could be steps: with increasing numbers in their names, such as `request 0`,
/// `request 1`, or with one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedSpans {
    /// The `--step-annotation` pattern that selects these spans.
    pub pattern: String,
    /// Names of the first two spans.
    pub first_names: [String; 2],
    /// Number of spans.
    pub spans: usize,
    /// Median duration, in ns.
    pub median_ns: i64,
}

impl RepeatedSpans {
    /// Find the loop of numbered spans with the most total time.
    fn find_numbered(trace: &Trace) -> Option<Self> {
        Self::all_numbered(trace).into_iter().max_by_key(|(all_ns, _)| *all_ns).map(|(_, found)| found)
    }

    /// Find the loop of numbered spans whose count is nearest to that of the trace's steps. Epochs, which are much
    /// fewer, are thereby excluded.
    fn find_nearest_to_steps(trace: &Trace) -> Option<Self> {
        let steps = trace.steps.len();
        let like = Self::all_numbered(trace).into_iter().filter(|(_, found)| MAX_STEPS_PER_SPAN * found.spans >= steps);
        like.min_by_key(|(all_ns, found)| (found.spans.abs_diff(steps), Reverse(*all_ns))).map(|(_, found)| found)
    }

    /// Find the loop of equally named spans with the most total time, at least a fifth of the trace. Spans within other
    /// spans of the program are excluded, and so are spans that contain nothing, such as waits, and operators.
    fn find_equally_named(trace: &Trace) -> Option<Self> {
        let (start, end) = trace.span()?;
        let mut loops: BTreeMap<(TrackId, StrId), Vec<(i64, EventId)>> = BTreeMap::new();
        let is_possible = |&event: &EventId| trace.kind(event) != EventKind::Operator && is_outermost(trace, event);
        for event in candidate_spans(trace).filter(is_possible) {
            let row = event.index();
            let spans = loops.entry((trace.events.track[row], trace.events.name[row])).or_default();
            spans.push((trace.events.start[row], event));
        }
        loops.retain(|(_, name), spans| {
            let name = trace.strings.get(*name);
            spans.len() >= MIN_SPANS && can_be_quoted(name) && !name.starts_with(INDUCTOR_SPANS)
        });
        if loops.is_empty() {
            return None;
        }
        let mut has_content = vec![false; trace.events.len()];
        trace.events.parent.iter().filter_map(|parent| parent.some()).for_each(|it| has_content[it.index()] = true);
        let is_work = |spans: &[(i64, EventId)]| {
            2 * spans.iter().filter(|(_, event)| has_content[event.index()]).count() >= spans.len()
        };
        let found = loops.into_iter().filter(|(_, spans)| is_work(spans)).filter_map(|((_, name), spans)| {
            Self::from_loop(trace, spans, MIN_EQUAL_NAMES_PERCENT, || format!("^{}$", escape(trace.strings.get(name))))
        });
        let main = found.filter(|(all_ns, _)| *all_ns >= (end - start) / 100 * MIN_LOOP_PERCENT);
        main.max_by_key(|(all_ns, _)| *all_ns).map(|(_, found)| found)
    }

    /// All loops of non-overlapping spans with increasing numbers on a thread, each with its total time in ns.
    ///
    /// The names are equal up to the number. If they differ after it, all of them are one loop, and those of each name
    /// another one.
    fn all_numbered(trace: &Trace) -> Vec<(i64, Self)> {
        let Some((start, end)) = trace.span() else { return Vec::new() };
        // By thread and text before the number, then by the text after the number.
        let mut loops: BTreeMap<(TrackId, &str), BTreeMap<&str, NumberedEvents>> = BTreeMap::new();
        for (track, names) in numbered_names(trace) {
            for (at, name) in names.iter().enumerate() {
                for (before, number, after) in numbers(name.text, shared_length(&names, at)) {
                    let spans = loops.entry((track, before)).or_default().entry(after).or_default();
                    spans.push((number, name.first));
                    // One equal number is enough to see that the numbers do not increase.
                    spans.extend(name.has_several.then_some((number, name.first)));
                }
            }
        }
        let has_word = |text: &str| text.chars().any(char::is_alphabetic);
        let mut found = Vec::new();
        for ((_, before), by_text_after) in loops {
            if by_text_after.len() > 1 && has_word(before) {
                let spans = by_text_after.values().flatten().copied().collect();
                let pattern = || format!("^{}{NUMBER}", escape(before));
                found.extend(Self::from_loop(trace, spans, MIN_LOOP_PERCENT, pattern));
            }
            for (after, spans) in by_text_after {
                if can_be_quoted(after) && (has_word(before) || has_word(after)) {
                    let pattern = || format!("^{}{NUMBER}{}$", escape(before), escape(after));
                    found.extend(Self::from_loop(trace, spans, MIN_LOOP_PERCENT, pattern));
                }
            }
        }
        // Imports and preparations may take longer than the loop.
        found.retain(|(all_ns, _)| *all_ns >= (end - start) / 100);
        found
    }

    /// Check if numbered spans form a loop; returns the loop and its total time in ns. In a loop, the numbers increase
    /// in time order, no spans overlap, and they take at least `min_percent` of the loop's time range.
    fn from_loop(
        trace: &Trace,
        mut spans: Vec<(i64, EventId)>,
        min_percent: i64,
        pattern: impl FnOnce() -> String,
    ) -> Option<(i64, Self)> {
        if spans.len() < MIN_SPANS {
            return None;
        }
        let at = |event: EventId| (trace.events.start[event.index()], trace.events.end(event));
        spans.sort_by_key(|&(_, event)| (at(event), event));
        // Names of operators may contain numbers, too: `MulBackward0`. They do not increase.
        let is_loop = spans.windows(2).all(|two| two[0].0 < two[1].0 && at(two[0].1).1 <= at(two[1].1).0);
        if !is_loop {
            return None;
        }
        let mut lengths: Vec<i64> = spans.iter().map(|&(_, event)| at(event).1 - at(event).0).collect();
        lengths.sort_unstable();
        let all_ns: i64 = lengths.iter().sum();
        let [(_, first), (_, second), .., (_, last)] = spans[..] else { return None };
        let is_large = all_ns >= (at(last).1 - at(first).0) / 100 * min_percent;
        let found = || Self {
            pattern: pattern(),
            first_names: [first, second].map(|event| trace.name(event).to_owned()),
            spans: spans.len(),
            median_ns: lengths[lengths.len() / 2],
        };
        is_large.then(|| (all_ns, found()))
    }
}

impl std::fmt::Display for RepeatedSpans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [first, second] = &self.first_names;
        let names = if first == second { format!("'{first}'") } else { format!("'{first}', '{second}', …") };
        write!(
            f,
            "{} spans are named {names} (median length {}); to use them as steps, give --step-annotation '{}'",
            count(self.spans as i64),
            duration(self.median_ns),
            self.pattern
        )
    }
}

/// Escape a text as a regular expression that matches only this text.
fn escape(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        // A backslash before other characters has a meaning of its own (`\<`) or is an error (`\→`).
        if matches!(c, '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// Test if a text can be between single quotes in a shell.
fn can_be_quoted(text: &str) -> bool {
    !text.contains(['\'', '\n'])
}

/// Span names with digits that may mark steps, sorted by text, for each thread. Names are fewer than spans, and spans
/// of a loop have different names.
fn numbered_names(trace: &Trace) -> BTreeMap<TrackId, Vec<NumberedName<'_>>> {
    let mut spans: BTreeMap<(TrackId, StrId), (EventId, bool)> = BTreeMap::new();
    for event in candidate_spans(trace) {
        let key = (trace.events.track[event.index()], trace.events.name[event.index()]);
        spans.entry(key).and_modify(|(_, has_several)| *has_several = true).or_insert((event, false));
    }
    let mut names: BTreeMap<TrackId, Vec<NumberedName<'_>>> = BTreeMap::new();
    for ((track, name), (first, has_several)) in spans {
        let text = trace.strings.get(name);
        if text.contains(|c: char| c.is_ascii_digit()) {
            names.entry(track).or_default().push(NumberedName { text, first, has_several });
        }
    }
    names.values_mut().for_each(|names| names.sort_unstable_by_key(|name| (name.text, name.first)));
    names
}

/// Length in bytes of the longest prefix that a name shares with enough sorted names to form a loop, up to
/// [`MAX_TEXT_BEFORE`]. A number after it has no loop.
fn shared_length(names: &[NumberedName<'_>], at: usize) -> usize {
    let ends = |from: usize| Some((names.get(from)?.text.bytes(), names.get(from + MIN_SPANS - 1)?.text.bytes()));
    let shared = (at.saturating_sub(MIN_SPANS - 1)..=at).filter_map(ends).map(|(first, last)| {
        first.zip(last).take(MAX_TEXT_BEFORE).take_while(|(of_first, of_last)| of_first == of_last).count()
    });
    shared.max().unwrap_or(0)
}

/// Find the numbers in a name, each with the text before and after it, if the text before has at most `most` bytes.
/// Digits before a letter are part of a word, such as a hash.
fn numbers(name: &str, most: usize) -> Vec<(&str, i64, &str)> {
    let mut found = Vec::new();
    let mut from = 0;
    let next = |from: usize| name[from..].find(|c: char| c.is_ascii_digit()).map(|at| from + at);
    while let Some(start) = next(from).filter(|&start| start <= most) {
        let after = name[start..].trim_start_matches(|c: char| c.is_ascii_digit());
        let end = name.len() - after.len();
        let (before, is_word) = (&name[..start], after.starts_with(char::is_alphabetic));
        let number = name[start..end].parse::<i64>().ok().filter(|_| !is_word && can_be_quoted(before));
        found.extend(number.map(|number| (before, number, after)));
        from = end;
    }
    found
}

/// Iterate over the spans that the program names, without marks that Stackline inferred.
fn candidate_spans(trace: &Trace) -> impl Iterator<Item = EventId> + '_ {
    let inferred = trace.attr(INFERRED);
    trace.events.ids().filter(move |&event| is_candidate(trace, event) && inferred.get(event).is_none())
}

/// Test if a span is in no other span of the program and in no operator; it may be in Python functions.
fn is_outermost(trace: &Trace, event: EventId) -> bool {
    let parent = |event: EventId| trace.events.parent[event.index()].some();
    let is_plain = |around: &EventId| {
        matches!(trace.kind(*around), EventKind::Operator | EventKind::Annotation | EventKind::Other)
    };
    !std::iter::successors(parent(event), |&around| parent(around)).any(|around| is_plain(&around))
}

/// Test if a span is on a CPU thread and named by the program.
fn is_candidate(trace: &Trace, event: EventId) -> bool {
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
fn step_origin(trace: &Trace) -> Option<&'static str> {
    let inferred = trace.attr(INFERRED);
    let is_made = |step: &Step| {
        let name = trace.strings.get(trace.events.name[step.event.index()]);
        // A span that is the step itself was selected by the user.
        let ends_with_it = step.start != trace.events.start[step.event.index()];
        let ends_step = || FRAMEWORKS.iter().any(|framework| framework.step_role(name) == Some(StepRole::End));
        (name.starts_with(OPTIMIZER_STEP) || ends_step()) && ends_with_it || inferred.get(step.event).is_some()
    };
    trace
        .steps
        .iter()
        .any(is_made)
        .then_some("the program marks no steps, so each step ends with Optimizer.step or when the next batch is loaded")
}

/// Note for a trace whose program marks no steps: the origin of its steps, or candidates for steps.
#[must_use]
pub fn note(trace: &Trace) -> Option<String> {
    if !trace.steps.is_empty() {
        let spans =
            || RepeatedSpans::find_nearest_to_steps(trace).map_or_else(String::new, |spans| format!("; {spans}"));
        return step_origin(trace).map(|marks| format!("{marks}{}", spans()));
    }
    likely_steps(trace).map(|steps| match steps {
        LikelySteps::Spans(spans) => format!("no steps are marked, but spans repeat like steps: {spans}"),
        LikelySteps::Pattern(pattern) => pattern.to_string(),
    })
}

/// Spans or launch pattern that look like steps, in a trace without steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LikelySteps {
    /// Spans of the program, which the user can select.
    Spans(RepeatedSpans),
    /// Repeated launches.
    Pattern(LaunchPattern),
}

/// Find spans or a launch pattern that look like steps; `None` if the trace has steps, or nothing repeats.
///
/// Spans that the program numbers take precedence over repeated launches. Repeated launches take precedence over spans
/// of one name, which may be a phase of a step.
#[must_use]
pub fn likely_steps(trace: &Trace) -> Option<LikelySteps> {
    if !trace.steps.is_empty() {
        return None;
    }
    let spans = RepeatedSpans::find_numbered(trace).map(LikelySteps::Spans);
    let steps = spans.or_else(|| LaunchPattern::find(trace).map(LikelySteps::Pattern));
    steps.or_else(|| RepeatedSpans::find_equally_named(trace).map(LikelySteps::Spans))
}

#[cfg(test)]
mod tests {
    use super::{EventId, MAX_TEXT_BEFORE, NumberedName, RepeatedSpans, escape, shared_length};

    fn numbers(name: &str) -> Vec<(&str, i64, &str)> {
        super::numbers(name, MAX_TEXT_BEFORE)
    }

    #[test]
    fn text_before_a_step_number_is_shared_by_as_many_names_as_a_loop_has() {
        let shared = |texts: &[&'static str], at: usize| {
            let name = |&text: &&'static str| NumberedName { text, first: EventId(0), has_several: false };
            shared_length(&texts.iter().map(name).collect::<Vec<_>>(), at)
        };
        let texts = ["a 1 of 9: x=1", "a 1 of 9: x=2", "a 2 of 9: x=1", "a 2 of 9: x=4", "b 7"];
        assert_eq!([0, 1, 2, 3, 4].map(|at| shared(&texts, at)), [2, 2, 2, 2, 0]);
        assert_eq!(shared(&["a 1", "a 2"], 0), 0, "two names are no loop");
        let long: &'static str = "x".repeat(MAX_TEXT_BEFORE + 1).leak();
        assert_eq!(shared(&[long; 3], 1), MAX_TEXT_BEFORE);
        assert_eq!(super::numbers("a 1 of 9: x=1", 2), [("a ", 1, " of 9: x=1")]);
    }

    #[test]
    fn numbers_may_be_anywhere_in_a_name() {
        assert_eq!(numbers("request 12"), [("request ", 12, "")]);
        assert_eq!(numbers("step[3]"), [("step[", 3, "]")]);
        assert_eq!(numbers("request 0: batch=16"), [("request ", 0, ": batch=16"), ("request 0: batch=", 16, "")]);
        assert_eq!(numbers("graph f67kii34"), [("graph f67kii", 34, "")], "67 is part of a word");
        assert!(numbers("it's 4").is_empty() && numbers("iteration").is_empty());
    }

    #[test]
    fn pattern_escapes_special_characters() {
        assert_eq!(escape("eval (a+b) #"), r"eval \(a\+b\) #");
        assert_eq!(escape("f.<locals> → x"), r"f\.<locals> → x");
        let spans = RepeatedSpans {
            pattern: r"^eval (\d+)$".to_owned(),
            first_names: ["eval 7".to_owned(), "eval 8".to_owned()],
            spans: 3,
            median_ns: 1,
        };
        assert!(spans.to_string().starts_with("3 spans are named 'eval 7', 'eval 8', … (median "), "{spans}");
    }
}
