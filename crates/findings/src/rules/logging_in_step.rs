//! SL029: printing, logging and file writes within steps.

use super::dataloader_starved::takes_batch;
use super::host_waits;
pub(crate) use super::logging_frames::kind_of;
use super::logging_frames::{SAFETENSORS, TORCH_SAVE};
use crate::estimate::Estimate;
use crate::host_gaps::{HostGap, Spans};
use crate::sampled_work::SampledWork;
use crate::{
    AdviceVariant, Area, Candidate, CandidateKind, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext,
    Setting, Support,
};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::format::duration;
use stackline_model::{EventId, EventKind};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;

pub(crate) const RULE: Rule = Rule {
    code: "SL029",
    name: "logging-in-step",
    area: Area::Host,
    about: "print, logging, progress bars, TensorBoard, wandb, torch.save, json.dump, to_csv or savefig block the step",
    why: "While the host formats and writes text, it launches no kernels. If the text contains the value of a GPU \
         tensor, the host also waits for the GPU.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The estimate removes calls that log, print or save, and the waits for the GPU in them (what-if \
         operation `remove`). If only CPU samples show such calls, their begin and end are unknown. The estimate \
         then shortens the time between two operators by the percentage of CPU samples in this time that show such \
         calls (`scale`). If nearly all of these samples show such calls, the estimate removes all of this time, \
         including waits.",
    advice: "Log only every N steps. Until then, collect the values as GPU tensors without reading them. Write the \
             log from another thread.",
    example: ("print(f\"loss {loss.item()}\")", "if step % 100 == 0:\n    print(f\"loss {loss.item()}\")"),
    cost: "the change takes one line; values are logged less often",
    false_positives: "The estimated gain is too high if the program logs less often in steps that were not recorded. \
                      Recordings of `stackline record` contain no frames of functions in C, such as print. In such \
                      recordings, the rule finds only Python code that logs, such as the logging module. If nearly \
                      all samples between two operators show logging, all waits there (for a file or a processor) \
                      count as logging. The bounds cover the sampling error. Operators may also get faster, because \
                      logging no longer evicts their data from caches; the bounds do not include this effect.",
    source: "common practice",
    needs: &[Requirement::PythonFrames],
    settings: &[Setting {
        name: "share",
        default: 0.5,
        range: (0.0, 100.0),
        about: "report only source locations whose logging or saving calls take at least this percentage of the \
            critical path",
    }],
    advice_variants: &[
        AdviceVariant::for_all(
            "programs that save checkpoints in the training loop",
            CandidateKind::Checkpoints,
            "Save less often, for example every ten minutes. Copy the state to the CPU and write it from another \
                 thread (torch.distributed.checkpoint.async_save does both).",
            (
                "torch.save(model.state_dict(), path)  # every few steps",
                "if time.monotonic() - saved > 600:\n    torch.save(model.state_dict(), path)\n    saved = time.monotonic()",
            ),
        ),
        AdviceVariant::without_gpu(
            "Log only every N steps, and keep the values as tensors until then. Write the log from another thread.",
            ("print(f\"loss {loss.item()}\")", "if step % 100 == 0:\n    print(f\"loss {loss.item()}\")"),
        ),
    ],
    properties: &[],
    check,
};

/// Kind of candidates for one kind of logging: checkpoints for `torch.save` and safetensors, `None` for others.
pub(crate) fn candidate_kind(kind: &str) -> Option<CandidateKind> {
    [TORCH_SAVE, SAFETENSORS].contains(&kind).then_some(CandidateKind::Checkpoints)
}

/// Find source locations that print, log or write files, from recorded calls and from samples.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let frames = context.outermost(&context.named(&[EventKind::PythonFunction], |name| kind_of(name).is_some()));
    // In recordings, samples describe functions without operators better than their inferred spans.
    let frames = context.not_covered_by_gaps(frames);
    let known = Spans::from_trace(context.trace(), &host_waits::calls(context));
    let unexplained = |host_gap: &HostGap| non_computing_time(context, host_gap, &known);
    let seen = context.sampled_work(|name| kind_of(name).is_some(), &frames, unexplained);
    let on_path = context.path_inside(&frames);
    let by_place = context.sums_by_place(frames.into_iter().zip(on_path).filter(|&(_, ns)| ns > 0).collect());
    let mut found: BTreeMap<SourceLocation, Logging> = BTreeMap::new();
    for (place, ns, frames) in by_place {
        let line = if seen.is_empty() { place } else { SourceLocation { module: None, operator: None, ..place } };
        let logging = found.entry(line).or_default();
        logging.on_path += ns;
        logging.frames.extend(frames);
    }
    for (place, seen) in seen {
        found.entry(place).or_default().seen = Some(seen);
    }
    found.into_iter().filter_map(|(place, logging)| candidate(context, place, logging)).collect()
}

/// Time of a gap between operators in which the thread does not compute. If nearly all samples of the gap show logging,
/// waits for a file or a processor count as logging. None if the gap contains another known wait.
fn non_computing_time(context: &RuleContext<'_>, host_gap: &HostGap, known: &Spans) -> Option<Estimate> {
    let trace = context.trace();
    let is_loading = |event: EventId| trace.ancestors(event).any(|e| takes_batch(trace.name(e)));
    let is_known = |&(before, after): &(EventId, EventId)| {
        known.begins_between(trace, before, after) || is_loading(before) || is_loading(after)
    };
    if !host_gap.is_one || !host_gap.waits.events.is_empty() || host_gap.occurrences.iter().any(is_known) {
        return None;
    }
    let ns = host_gap.ns as f64 - host_gap.computing().ns;
    Some(Estimate { ns, low: 0.0, high: ns }).filter(|rest| rest.ns > 0.0)
}

/// Logging calls at one source location, and the logging that samples show there.
#[derive(Default)]
struct Logging {
    /// Calls with known begin and end.
    frames: Vec<EventId>,
    /// Time of these calls on the critical path, in ns.
    on_path: i64,
    /// Sampled logging between operators.
    seen: Option<SampledWork>,
}

/// Candidate for logging at one source location; `None` if the share of the time is small.
fn candidate(context: &RuleContext<'_>, place: SourceLocation, logging: Logging) -> Option<Candidate> {
    let Logging { mut frames, on_path, seen } = logging;
    frames.sort_unstable();
    let ns = on_path + seen.as_ref().map_or(0, |seen| seen.time.ns as i64);
    if ns == 0 || context.percent(ns) < context.setting("share") {
        return None;
    }
    let all = context.with_waits(&frames);
    let waits = all.iter().filter(|&&e| context.trace().kind(e).is_api_call()).count();
    let outermost = |sample: EventId| {
        context.frames_of_sample(sample).filter_map(|f| kind_of(context.trace().strings.get(f))).last()
    };
    let kind = match (frames.is_empty(), &seen) {
        (true, Some(seen)) => seen.samples.first().and_then(|&sample| outermost(sample)),
        _ => context.by_name(&frames).first().and_then(|(name, _)| kind_of(name)),
    }?;
    let mut facts = vec![
        Fact::count("calls", frames.len()),
        Fact::count("waits for the GPU in calls that write logs or checkpoints", waits),
    ];
    let (blocked, per_step) = (duration(context.per_step(ns)), context.words().per_step_suffix());
    let title = match waits {
        0 => format!("{kind} blocks the host: {blocked}{per_step}"),
        _ => format!("{kind} blocks the host: {blocked}{per_step}, including waits for the GPU"),
    };
    let kind = candidate_kind(kind);
    let remove = match context.by_name(&frames).first() {
        Some((name, _)) => vec![context.edit(Action::Remove, format!("frame:{name}"), &all)?],
        None => Vec::new(),
    };
    let Some(seen) = seen else {
        facts.push(Fact::time("time of logging or saving on the critical path per step", context.per_step(ns)));
        let (support, confidence, gain_estimate) = (Support::Exact, Confidence::Medium, GainEstimate::edits(remove));
        return Some(Candidate { title, place, facts, events: frames, kind, support, confidence, gain_estimate });
    };
    facts.retain(|fact| fact.value > 0.0);
    facts.extend(seen.facts(context));
    let confidence = seen.confidence();
    let gain_estimate = seen.gain_estimate(context, &place, &remove)?;
    let events = frames.into_iter().chain(seen.samples).collect();
    Some(Candidate { title, place, facts, events, kind, support: Support::Inferred, confidence, gain_estimate })
}
