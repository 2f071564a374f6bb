//! SL004: calls in which the host waits for the GPU, such as `item()`, instead of launching further work.

use crate::{
    AdviceVariant, Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support,
};
use stackline_critical_path::exact::what_if::Action;
use stackline_critical_path::value_reads::is_read;
use stackline_model::format::duration;
use stackline_model::gpu_calls::{CallKind, kind_of_name};
use stackline_model::names::STEP_PREFIX;
use stackline_model::{EventId, EventKind, Trace};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::intervals;
use stackline_timeline::vocabulary::aten;

pub(super) const RULE: Rule = Rule {
    code: "SL004",
    name: "host-sync",
    area: Area::Synchronization,
    about: "the host waits for the GPU: item(), cpu(), nonzero(), synchronize(), or copies from unpinned memory",
    why: "While the host waits, it launches no kernels. So the GPU is idle from the end of its work until the next \
        launch.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes the waits of calls that waited for at least `SL004.wait_us`, so that the thread \
         continues at once (what-if operation `remove`). If an operator only reads a value (`item`), the estimate \
         removes the operator and its copy. If an operator reads the size of its result (`nonzero`), the estimate \
         removes only the copy to the host. If sends or receives between two ranks run during a wait, the lower bound \
         is 0, because they last until the other rank is ready.",
    advice: "Keep values on the GPU: do not use .item(), print or `if tensor` in each step. Collect the values and \
        read them every N steps, or with a non-blocking copy.",
    example: ("total += loss.item()", "total += loss.detach()  # .item() once, at the end"),
    cost: "a few lines; values are available some steps later",
    false_positives: "The wait is needed if the value decides the next action of the program. If the GPU is the \
        bottleneck, the gain is 0. If the trace shows no GPU work during a call, the call waits for work that was not \
        recorded, or the call itself takes the time. If the trace shows no GPU work during most calls, the finding is \
        marked as inferred.",
    source: "common practice; DeepContext paper, section 4.3, CPU latency analysis",
    needs: &[Requirement::GpuWork, Requirement::RuntimeCalls],
    settings: &[Setting {
        name: "wait_us",
        default: 5.0,
        range: (0.0, 1e6),
        about: "shortest host call that counts as a wait for the GPU, in µs",
    }],
    advice_variants: &[AdviceVariant::for_jax(
        "Keep values on the GPU: do not use float(value), print or numpy.asarray in each step. Keep the arrays and \
         read them every N steps, or call value.copy_to_host_async() and read the value one step later.",
        ("losses.append(float(loss))", "losses.append(loss)  # jax.device_get(losses) once, at the end"),
    )],
    properties: &[],
    check,
};

/// Find calls in which the host waits for the GPU, one candidate per source location.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let least = (context.setting("wait_us") * 1e3) as i64;
    let mut calls = context.waiting_calls().to_vec();
    let launches = trace.gpu.launch.iter().filter_map(|launch| launch.some());
    let last_launch = launches.map(|launch| trace.events.start[launch.index()]).max().unwrap_or(i64::MIN);
    let of_searches = super::autotuning::events_of_searches(context);
    calls.retain(|&call| {
        let is_of_other_rule = of_searches.contains(&call) || is_end_of_recording(context, call, last_launch);
        context.dur(call) >= least && !is_of_other_rule
    });
    let (gpu, messages) = (GpuWork::new(trace, &trace.gpu.event), GpuWork::new(trace, &context.messages()));
    let by_place = context.by_place(&calls).into_iter();
    by_place
        .filter_map(|(place, of)| {
            let what = place.operator.clone().unwrap_or_else(|| trace.name(of[0]).to_owned());
            let edit = context.edit(Action::Remove, format!("wait:{what}"), &with_value_reads(context, &of))?;
            // The work that a read waits for was not recorded.
            let idle = of.iter().filter(|&&call| !gpu.runs_during(trace, call)).count();
            let (support, confidence) = match of.iter().any(|&e| is_read(trace.name(e))) {
                _ if 2 * idle > of.len() => (Support::Inferred, Confidence::Low),
                true => (Support::Inferred, Confidence::Medium),
                false => (Support::Exact, Confidence::High),
            };
            let without_work = (idle > 0).then(|| Fact::count("waits during which the trace shows no GPU work", idle));
            let facts = [
                Fact::count("waits", of.len()),
                Fact::time("time of the waits for the GPU per step", context.per_step(context.total(&of))),
            ];
            Some(Candidate {
                title: format!("{} waits for the GPU{}", super::shorten_name(&what), frequency_and_time(context, &of)),
                place,
                facts: facts.into_iter().chain(without_work).collect(),
                kind: None,
                support,
                confidence,
                gain_estimate: match of.iter().any(|&call| messages.runs_during(trace, call)) {
                    true => GainEstimate::range(vec![edit], vec![Vec::new()]),
                    false => GainEstimate::edits(vec![edit]),
                },
                events: of,
            })
        })
        .collect()
}

/// Time ranges with GPU work.
struct GpuWork(Vec<(i64, i64)>);

impl GpuWork {
    /// Merge the spans of GPU work.
    fn new(trace: &Trace, work: &[EventId]) -> Self {
        let events = &trace.events;
        let timed = work.iter().filter(|&&e| events.is_timed(e));
        Self(intervals::union(timed.map(|&e| (events.start[e.index()], events.end(e)))))
    }

    /// Test if the GPU work runs during a call.
    fn runs_during(&self, trace: &Trace, call: EventId) -> bool {
        let (from, to) = (trace.events.start[call.index()], trace.events.end(call));
        self.0.get(self.0.partition_point(|&(_, end)| end <= from)).is_some_and(|&(start, _)| start < to)
    }
}

/// Waiting calls, with the work that vanishes with them: operators and copies that read the awaited value. Sorted.
fn with_value_reads(context: &RuleContext<'_>, calls: &[EventId]) -> Vec<EventId> {
    let trace = context.trace();
    let mut removable = calls.to_vec();
    for &call in calls {
        let around = |names: &[&str]| context.stack(call).filter(|&e| names.contains(&trace.name(e))).last();
        if let Some(operator) = around(aten::READS) {
            removable.push(operator);
            removable.extend(context.launched_in(operator));
        } else if let Some(operator) = around(aten::READS_SIZE) {
            removable.extend(context.launched_in(operator).filter(|&work| context.is_copy_to_host(work)));
        }
    }
    removable.sort_unstable();
    removable.dedup();
    removable
}

/// Frequency of calls, the share of steps with some, and their time: the end of a title.
fn frequency_and_time(context: &RuleContext<'_>, calls: &[EventId]) -> String {
    let (per_step, steps) = (calls.len() as f64 / context.steps() as f64, &context.trace().steps);
    let with_calls = context.steps_with(steps, calls.iter().copied());
    let is_outside = with_calls.is_empty() && !steps.is_empty();
    let frequency = match with_calls.len() {
        // Such as calls before the first step, or at the end of a measurement.
        _ if is_outside && calls.len() == 1 => " once, outside of steps".to_owned(),
        _ if is_outside => format!(" {} times, outside of steps", calls.len()),
        with @ 1.. if with < context.steps() => format!(" in {with} of {} steps", context.steps()),
        _ if per_step < 1.5 => context.words().in_each_step().to_owned(),
        _ => format!(" {per_step:.0}{}", context.words().times_per_step_suffix()),
    };
    let ns = context.total(calls);
    let time = match is_outside || context.steps() == 1 {
        true => duration(ns),
        false => context.words().time_per_step(context.per_step(ns)),
    };
    format!("{frequency}: {time}")
}

/// Profiler files that wait for the GPU at their start and end.
const PROFILERS: &[&str] = &["torch/profiler/", "torch/autograd/profiler.py(", "torch/cuda/profiler.py("];

/// Test if a call is the wait of a profiler before its end, which is not part of the program.
///
/// Such a wait is in a profiler function. If functions are not recorded, the wait is for the whole device, after all
/// launches, and outside of operators and frames.
fn is_end_of_recording(context: &RuleContext<'_>, call: EventId, last_launch: i64) -> bool {
    let trace = context.trace();
    if trace.ancestors(call).any(|e| PROFILERS.iter().any(|file| trace.name(e).contains(file))) {
        return true;
    }
    if kind_of_name(trace.name(call)) != Some(CallKind::DeviceSync) {
        return false;
    }
    let of_program = |e: EventId| match trace.kind(e) {
        EventKind::Operator | EventKind::PythonFunction => true,
        EventKind::Annotation => !trace.name(e).starts_with(STEP_PREFIX),
        _ => false,
    };
    trace.events.end(call) >= last_launch && !trace.ancestors(call).any(of_program)
}
