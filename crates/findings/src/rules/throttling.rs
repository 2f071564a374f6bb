//! SL034: falling GPU clock, with kernels that get slower.

use crate::requirement::is_clock;
use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{AttrValue, EventId, EventKind, Key, StrId, Unit};
use stackline_timeline::confidence::Confidence;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL034",
    name: "throttling",
    area: Area::Measurement,
    about: "the GPU clock falls during the recording, and kernels get slower",
    why: "A GPU that is too hot or at its power limit lowers its clock, so the same work takes longer.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate shortens kernels that started at a low clock to their time at a high clock (what-if \
         operation `scale`). The factor is a mean ratio: times at the low clock to times at the high clock, for \
         kernels with the same name and grid that ran at both. The bounds differ from this ratio by three standard \
         errors, and by at least 3 % of the slowdown.",
    advice: "Check temperature, power limit and cooling (nvidia-smi -q -d PERFORMANCE, rocm-smi). Compare runs with a \
         locked clock (nvidia-smi -lgc).",
    example: ("python train.py", "nvidia-smi -lgc 1410,1410\npython train.py"),
    cost: "the code does not change; with a locked clock, the GPU may run below its highest clock",
    false_positives: "The finding is wrong if the clock was low only because the GPU was idle, because then kernels do \
                      not take longer. The finding is also wrong if the work changed at the same time as the clock.",
    source: "common practice",
    needs: &[Requirement::GpuWork, Requirement::ClockCounters],
    settings: &[
        Setting {
            name: "drop",
            default: 10.0,
            range: (1.0, 100.0),
            about: "a GPU clock counts as low if it is at least this percentage below the highest clock",
        },
        Setting {
            name: "slower",
            default: 5.0,
            range: (0.0, 1000.0),
            about: "report only if the same kernels take at least this percentage longer while the clock is low",
        },
    ],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Values of a counter over time: (ns, value).
type Series = Vec<(i64, f64)>;

/// Least number of calls of a kernel for a mean duration.
const MIN_RUNS: usize = 3;

/// Find clocks that fall while kernels get slower; at most one candidate, for the clock with the slowest kernels.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let found = clocks(context).into_iter().filter_map(|(name, series)| candidate(context, name, &series));
    // Select the clock with the most affected kernels.
    found.max_by(|a, b| a.facts[1].value.total_cmp(&b.facts[1].value)).into_iter().collect()
}

/// Counter arguments that identify the device of a clock.
const DEVICE_ARGUMENTS: &[&str] = &["device", "gpu", "index", "id"];

/// Clock counters with their values in time order: one entry (counter name, values) per process, device and argument.
fn clocks<'a>(context: &RuleContext<'a>) -> Vec<(&'a str, Series)> {
    let trace = context.trace();
    let mut found: BTreeMap<(Key, &str, Option<u64>, StrId), Series> = BTreeMap::new();
    for event in trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Counter && is_clock(trace.name(e))) {
        let process = trace.tracks.pid(trace.events.track[event.index()]);
        let is_device_argument =
            |key: StrId| DEVICE_ARGUMENTS.contains(&trace.strings.get(key).to_ascii_lowercase().as_str());
        let values = || trace.attrs.of_event(event).filter_map(|(key, value)| Some((key, AttrValue::as_f64(value)?)));
        let device = values().find(|&(key, _)| is_device_argument(key)).map(|(_, value)| value.to_bits());
        for (key, value) in
            values().filter(|&(key, value)| !is_device_argument(key) && value.is_finite() && value > 0.0)
        {
            let series = found.entry((process, trace.name(event), device, key)).or_default();
            series.push((trace.events.start[event.index()], value));
        }
    }
    let sorted = |((_, name, ..), mut series): ((Key, &'a str, Option<u64>, StrId), Series)| {
        series.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        (name, series)
    };
    found.into_iter().map(sorted).collect()
}

/// Candidate for one clock counter; `None` if no kernels are slower while the clock is low.
fn candidate(context: &RuleContext<'_>, name: &str, series: &Series) -> Option<Candidate> {
    let trace = context.trace();
    let highest = series.iter().map(|&(_, value)| value).fold(0.0, f64::max);
    let limit = highest * (1.0 - context.setting("drop") / 100.0);
    let is_low = |event: EventId| {
        let before = series.partition_point(|&(at, _)| at <= trace.events.start[event.index()]).checked_sub(1);
        before.is_some_and(|i| series[i].1 < limit)
    };
    let lowest = series.iter().map(|&(_, value)| value).fold(highest, f64::min);
    let grid = trace.attr("grid");
    let mut kernels: BTreeMap<(StrId, Option<StrId>), [Vec<EventId>; 2]> = BTreeMap::new();
    for event in context.kernels() {
        let of = kernels.entry((trace.events.name[event.index()], grid.text(event))).or_default();
        of[usize::from(is_low(event))].push(event);
    }
    let low: Vec<EventId> = kernels.values().flat_map(|[_, low]| low).copied().collect();
    let (factor, half_width) = slowdown(context, kernels.values())?;
    if factor < 1.0 + context.setting("slower") / 100.0 {
        return None;
    }
    let faster = |times: f64| {
        let edit = context.edit(Action::Scale(1.0 / times), format!("kernel:* while {name} is low"), &low);
        edit.map(|edit| vec![edit])
    };
    let bounds = [factor - half_width, factor + half_width].map(|times| faster(times.max(1.0)));
    let gain_estimate = GainEstimate::range(faster(factor)?, bounds.into_iter().flatten().collect());
    let percent = 100.0 * (factor - 1.0);
    Some(Candidate {
        title: format!(
            "Throttling: kernels take {percent:.0} % longer while {name} is below {limit:.0} (lowest {lowest:.0}, \
                 highest {highest:.0})"
        ),
        place: stackline_timeline::source_location::SourceLocation::default(),
        facts: vec![
            Fact::count("kernels that started at a low GPU clock", low.len()),
            Fact { name: "kernels take longer by", value: percent, unit: Unit::Percent },
        ],
        events: low,
        kind: None,
        support: Support::Inferred,
        confidence: Confidence::Low,
        gain_estimate,
    })
}

/// Half width of the bounds, in standard errors of the mean over kernels.
const STANDARD_ERRORS: f64 = 3.0;
/// Least half width of the bounds, as a share: kernels during the change count to one side.
const MIN_HALF_WIDTH: f64 = 0.03;

/// Slowdown factor of the same kernels at the low clock, with its half width; none if no kernel ran at both clocks. The
/// half width follows from the spread over kernels and over the calls of each kernel.
fn slowdown<'k>(context: &RuleContext<'_>, kernels: impl Iterator<Item = &'k [Vec<EventId>; 2]>) -> Option<(f64, f64)> {
    let mean = |of: &[EventId]| context.total(of) as f64 / of.len() as f64;
    let both: Vec<&[Vec<EventId>; 2]> = kernels.filter(|[high, low]| high.len().min(low.len()) >= MIN_RUNS).collect();
    // For each kernel: expected time of its calls at the high clock, and measured time.
    let times: Vec<(f64, f64)> =
        both.iter().map(|[high, low]| (mean(high) * low.len() as f64, context.total(low) as f64)).collect();
    let (would_be, is) = times.iter().fold((0.0, 0.0), |(a, b), (would_be, is)| (a + would_be, b + is));
    if would_be <= 0.0 {
        return None;
    }
    let factor = is / would_be;
    let squares: f64 = times.iter().map(|(would_be, is)| (is - factor * would_be).powi(2)).sum();
    // A single kernel has no spread over kernels, only one over its calls.
    let of_runs: f64 = both
        .iter()
        .map(|[high, low]| {
            let (runs, as_often) = (low.len() as f64, factor * low.len() as f64);
            variance(context, low) * runs + variance(context, high) / high.len() as f64 * as_often.powi(2)
        })
        .sum();
    let half_width = STANDARD_ERRORS * squares.max(of_runs).sqrt() / would_be;
    Some((factor, half_width.max(MIN_HALF_WIDTH * (factor - 1.0))))
}

/// Variance of the durations of calls, in ns squared.
fn variance(context: &RuleContext<'_>, of: &[EventId]) -> f64 {
    let mean = context.total(of) as f64 / of.len().max(1) as f64;
    let squares: f64 = of.iter().map(|&event| (context.dur(event) as f64 - mean).powi(2)).sum();
    squares / of.len().saturating_sub(1).max(1) as f64
}
