//! SL043: Python code of one function takes a large share of the step, in a program without a GPU.

use super::{dataloader_starved, garbage_collection, host_waits, logging_in_step, preprocessing, rebuilt_constants};
use crate::sampled_work::SampledWork;
use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::Category;
use stackline_critical_path::exact::what_if::Action;
use stackline_model::names::{MODULE_PREFIX, is_compilation};
use stackline_model::vocabulary::{TORCH, is_framework_code, is_in_package};
use stackline_model::{EventId, EventKind, Key, SampleMetric, StrId, TrackId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;

pub(crate) const RULE: Rule = Rule {
    code: "SL043",
    name: "busy-python",
    area: Area::Host,
    about: "a Python function takes a large share of the step outside of operators, in a program without a GPU",
    why: "Parsing, string processing and loops over numbers are slow in Python, and are often repeated in each step.",
    gain_methods: &[GainMethod::Speculative],
    gain_text: "In a recording, the measured time is the part of the time between operators in which CPU samples show \
                the function but no framework code. In a trace with every call, it is the time of the function and \
                its callees on the critical path. The estimate halves this time (what-if operation `scale`), and the \
                upper bound removes it. The bounds also cover the sampling error. The reported line is the line with \
                most of the samples.",
    advice: "Move the work before the loop and keep its result, or move it into a DataLoader worker. Read a format \
        without parsing, and write loops over numbers as tensor operators.",
    example: (
        "def step(batch):\n    table = torch.tensor(json.load(open(path)))",
        "table = torch.tensor(json.load(open(path)))\n\ndef step(batch):\n    ...",
    ),
    cost: "the effort depends on the Python code",
    false_positives: "The time cannot be saved if the work differs from step to step and cannot run concurrently. A \
                      trace does not show how much of the work is avoidable: the gain assumes half of it, the lower \
                      bound none and the upper bound all. In recordings, the upper bound also includes time without \
                      samples. The upper bound also assumes that operators become as fast as the fastest tenth of \
                      their calls, because they find more data in caches. If a profiler records each Python call \
                      (torch.profiler: with_stack), short functions seem slower than they are (SL033). Python code of \
                      frameworks, data loading (SL009), preprocessing (SL010), logging (SL029) and garbage collection \
                      (SL025) is not reported here.",
    source: "common practice",
    needs: &[Requirement::PythonFrames, Requirement::PythonTimes],
    settings: &[
        Setting {
            name: "share",
            default: 20.0,
            range: (0.0, 100.0),
            about: "report only functions that take at least this percentage of the time (in recordings, of the time \
                    in which the function's thread does not wait for a processor)",
        },
        Setting {
            name: "stretch_us",
            default: 200.0,
            range: (0.0, 1e6),
            about: "check only functions with at least this mean time between two operators, in µs (in traces with \
                    every call: mean time per call, without operators)",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Find Python functions that take a large share of the step outside of operators, in programs without a GPU.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    // SL005 covers programs with a GPU.
    if context.uses_gpu() {
        return Vec::new();
    }
    let names = Names::new(context);
    let least_ns = (context.setting("stretch_us") * 1e3) as i64;
    if context.host_gaps().all.is_empty() {
        return call_candidates(context, &names, least_ns);
    }
    // Conversion of lists to tensors belongs to SL045.
    let lists = rebuilt_constants::list_lines(context);
    let is_of_list = |sample: EventId| !lists.is_empty() && lists.contains(&context.line_of(sample));
    let plain = |sample: EventId| names.user_frame(context.frames_of_sample(sample)).is_some() && !is_of_list(sample);
    let (seen, times) = (context.sampled_computation(least_ns, plain), CpuTimes::new(context));
    seen.into_iter().filter_map(|(place, seen)| sampled_candidate(context, place, (&seen, &times))).collect()
}

/// Classification of each name in the trace: framework code, or code that other rules cover.
struct Names<'s, 'a> {
    context: &'s RuleContext<'a>,
    /// Names of framework code.
    framework: Vec<bool>,
    /// Names that other rules cover.
    other: Vec<bool>,
}

impl<'s, 'a> Names<'s, 'a> {
    /// Classify all names of the trace.
    fn new(context: &'s RuleContext<'a>) -> Self {
        let names = || context.trace().strings.iter();
        Self { context, framework: names().map(is_framework).collect(), other: names().map(is_of_other_rule).collect() }
    }

    /// Innermost user function of a stack, given innermost first. None if framework code runs below it, or if another
    /// rule covers any of the frames.
    fn user_frame(&self, frames: impl Iterator<Item = StrId>) -> Option<StrId> {
        let is = |of: &[bool], name: StrId| of.get(name.index()).copied().unwrap_or(false);
        let mut found = None;
        for name in frames {
            if is(&self.other, name) || (found.is_none() && is(&self.framework, name)) {
                return None;
            }
            if found.is_none() && self.context.is_own_name(name) {
                found = Some(name);
            }
        }
        found
    }
}

/// True for frames of a framework, whose Python code the user cannot change.
pub(crate) fn is_framework(name: &str) -> bool {
    name.starts_with(MODULE_PREFIX) || is_in_package(name, TORCH) || is_framework_code(name)
}

/// Test if another rule covers a frame: waits, logging, preprocessing, loading, garbage collection or compilation.
fn is_of_other_rule(name: &str) -> bool {
    let kinds = [host_waits::kind_of, logging_in_step::kind_of, preprocessing::kind_of];
    dataloader_starved::takes_batch(name)
        || garbage_collection::is_collection(name)
        || is_compilation(name)
        || kinds.iter().any(|kind_of| kind_of(name).is_some())
}

/// Candidate from CPU samples of a Python function between operators; `None` if the share is small.
fn sampled_candidate(
    context: &RuleContext<'_>,
    place: SourceLocation,
    (seen, times): (&SampledWork, &CpuTimes),
) -> Option<Candidate> {
    // Threads run it concurrently: the gain is at most the time of one thread.
    let of_time = context.percent(seen.max_thread_ns() as i64);
    let share = times.share_of_processor(context, seen).max(of_time);
    if share < context.setting("share") || is_start(context, seen.occurrences.len()) {
        return None;
    }
    let mut facts =
        vec![Fact { name: "share of the analyzed time in the function", value: of_time, unit: Unit::Percent }];
    let is_delayed = share > of_time + NOTED_PERCENT;
    facts.extend(is_delayed.then_some(Fact {
        name: "share of the function in the time in which its thread did not wait for a processor",
        value: share,
        unit: Unit::Percent,
    }));
    facts.extend(seen.facts(context));
    Some(Candidate {
        title: title(of_time),
        facts,
        events: seen.samples.clone(),
        kind: None,
        support: Support::Inferred,
        confidence: seen.confidence(),
        gain_estimate: seen.speculative_gain(context, &place)?,
        place,
    })
}

/// Minimum share of waiting for a processor that is reported, in percent.
const NOTED_PERCENT: f64 = 2.0;

/// CPU time in the window by samples, in ns.
#[derive(Default)]
struct CpuTimes {
    by_thread: BTreeMap<TrackId, f64>,
    by_process: BTreeMap<i64, f64>,
}

impl CpuTimes {
    /// Read the samples of a recording; empty for other traces.
    fn new(context: &RuleContext<'_>) -> Self {
        let (trace, (from, to)) = (context.trace(), context.window());
        let mut found = Self::default();
        if context.recording().is_none() {
            return found;
        }
        for (track, samples) in trace.samples().of_metric(SampleMetric::CpuTime) {
            let Key::Int(pid) = trace.tracks.pid(track) else { continue };
            let inside = samples.filter(|sample| (from..to).contains(&sample.time));
            let ns: f64 = inside.map(|sample| sample.weight as f64).sum();
            *found.by_thread.entry(track).or_default() += ns;
            *found.by_process.entry(pid).or_default() += ns;
        }
        found
    }

    /// Share of the sampled time in the time in which its thread did not wait for a processor, in percent; 0 if
    /// unknown.
    ///
    /// Other programs on the machine lengthen steps, but not the Python code. The wait for processors, as counted by
    /// the system for the process, is split among threads by their CPU time, and subtracted.
    fn share_of_processor(&self, context: &RuleContext<'_>, seen: &SampledWork) -> f64 {
        let (from, to) = context.window();
        let window = context.steps_ns() as f64;
        let most = seen.by_thread.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let Some((Some(track), ns)) = most else { return 0.0 };
        let pid = context.trace().tracks.pid(*track);
        let (Some(recording), Key::Int(pid)) = (context.recording(), pid) else { return 0.0 };
        let own = self.by_thread.get(track).copied().unwrap_or(0.0);
        let all = self.by_process.get(&pid).copied().unwrap_or(0.0);
        let delayed = recording.processor_wait_ns(pid, from, to) * own / all.max(1.0);
        (100.0 * ns / (window - delayed).max(own).clamp(1.0, window)).min(100.0)
    }
}

/// True for work that occurs once in a trace without steps: probably the start of the program.
fn is_start(context: &RuleContext<'_>, times: usize) -> bool {
    times < 2 && context.trace().steps.is_empty()
}

/// Title for Python code outside of operators, with its share of the time in percent.
pub(crate) fn title(share: f64) -> String {
    format!("Python code outside of operators: {share:.0} % of the time (gain assumes that half of it is saved)")
}

/// Candidates from recorded calls: self time of a function on the critical path, including its callees that are no
/// operators.
fn call_candidates(context: &RuleContext<'_>, names: &Names<'_, '_>, least_ns: i64) -> Vec<Candidate> {
    let trace = context.trace();
    let mut by_call: BTreeMap<EventId, i64> = BTreeMap::new();
    for segment in
        context.segments().filter(|segment| segment.category == Category::HostPython && segment.event.is_some())
    {
        let functions = || context.stack(segment.event).filter(|&e| trace.kind(e) == EventKind::PythonFunction);
        let name = |event: EventId| trace.events.name[event.index()];
        let own = names.user_frame(functions().map(name));
        if let Some(call) = own.and_then(|own| functions().find(|&e| name(e) == own)) {
            *by_call.entry(call).or_default() += segment.end - segment.start;
        }
    }
    let by_place = context.sums_by_place(by_call.into_iter().collect()).into_iter();
    let long = by_place.filter(|(_, ns, calls)| *ns >= least_ns.saturating_mul(calls.len() as i64));
    long.filter_map(|(place, ns, calls)| location_candidate(context, place, (ns, calls))).collect()
}

/// Candidate for recorded calls at one source location, with their Python time in ns; `None` if the share is small.
fn location_candidate(
    context: &RuleContext<'_>,
    place: SourceLocation,
    (ns, calls): (i64, Vec<EventId>),
) -> Option<Candidate> {
    let share = context.percent(ns);
    if share < context.setting("share") || is_start(context, calls.len()) {
        return None;
    }
    let outermost = context.outermost(&calls);
    let all = context.total(&outermost).max(1) as f64;
    let edit = |part: f64| {
        let left = (1.0 - part * ns as f64 / all).clamp(0.0, 1.0);
        Some(vec![context.edit(Action::Scale(left), format!("Python at {}", place.text()), &outermost)?])
    };
    Some(Candidate {
        title: title(share),
        facts: vec![
            Fact::count("calls", calls.len()),
            Fact { name: "share of the critical path in the function", value: share, unit: Unit::Percent },
            Fact::time("Python time outside of operators per step", context.per_step(ns)),
        ],
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::speculative_range(edit(0.5)?, edit(1.0)?),
        events: calls,
        place,
    })
}
