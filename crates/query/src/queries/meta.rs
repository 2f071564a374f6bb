//! What the run is.

use crate::{Answer, Arguments, Opened, QueryError};
use serde_json::{Value, json};
use stackline_analyze::findings::Recording;
use stackline_model::{CallFrameKind, CallProcess, DeviceClock, EventKind, Trace};

/// Metadata of a trace that people ask about, and what it is for them.
const ENTRIES: [&str; 12] = [
    "schemaVersion",
    "trace_name",
    "hostname",
    "torch_version",
    "pytorch_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "hip_runtime_version",
    "with_stack",
    "record_shapes",
    "profile_memory",
    "distributedInfo",
];

pub(super) fn answer(opened: &Opened, _: &Arguments) -> Result<Answer, QueryError> {
    let traces: Vec<Value> = (0..)
        .zip(opened.set.traces.iter().zip(&opened.infos))
        .map(|(at, (trace, info))| of_trace(trace, info, opened.chosen(at)))
        .collect();
    let recording = opened.recording.as_ref();
    Ok(Answer::document(&json!({
        "name": opened.name,
        "hash": opened.hash(),
        "version": env!("CARGO_PKG_VERSION"),
        "traces": traces,
        "recording": recording.map(|tree| json!({
            "processes": tree.processes.iter().map(process).collect::<Vec<_>>(),
            "threads": tree.threads.len(),
            "nodes": tree.nodes.len(),
            "report": tree.report,
        })),
        "memory": memory_alone(opened),
        "has": {
            "timeline": !opened.set.traces.is_empty(),
            "events": opened.set.traces.iter().any(has_events),
            "steps": opened.set.traces.iter().any(|trace| !trace.steps.is_empty()),
            "gpu": opened.set.traces.iter().any(|trace| !trace.gpu.is_empty()),
            "python": has_python(opened),
            "memory": opened.has_memory(),
        },
        "folder": std::env::current_dir().ok().map(|folder| folder.display().to_string()),
        "baseline": opened.baseline.as_ref().map(|baseline| baseline.name()),
        "queries": super::ALL.iter().map(|query| json!({"name": query.name, "about": query.about, "arguments": query.arguments})).collect::<Vec<_>>(),
    })))
}

/// What a file of memory alone is, and what of it was lost. Of other runs' memory the page says so where it shows it.
fn memory_alone(opened: &Opened) -> Option<Value> {
    let memory = opened.is_memory_alone().then(|| opened.memory(None).ok()).flatten()?;
    Some(json!({"label": memory.trace.label, "report": memory.trace.report}))
}

/// Whether anything in a trace lasted: else there is nothing to find in it.
fn has_events(trace: &Trace) -> bool {
    trace.events.ids().any(|event| trace.events.is_timed(event))
}

fn of_trace(trace: &Trace, info: &stackline_present::TraceInfo, chosen: Option<(i64, i64)>) -> Value {
    let origin = info.start_ns.unwrap_or(0);
    let entry = |key: &&'static str| Some((*key, trace.meta.entry(key)?));
    json!({
        "info": info,
        "steps": trace.steps.iter().map(|step| json!([step.number, step.start.saturating_sub(origin), step.end.saturating_sub(origin)])).collect::<Vec<_>>(),
        "chosen": chosen.map(|(first, last)| json!([first, last])),
        "environment": ENTRIES.iter().filter_map(entry).map(|(key, text)| json!([key, super::shortened(text)])).collect::<Vec<_>>(),
        "clocks": trace.meta.clocks.iter().map(clock).collect::<Vec<_>>(),
        "recording_cost": cost(trace),
        "report": trace.report,
    })
}

/// How far the clock of a device may be from the host's.
fn clock(of: &DeviceClock) -> Value {
    json!({
        "device": of.device, "least_ns": of.least_ns, "most_ns": of.most_ns, "shift_ns": of.shift_ns(),
        "applied_ns": of.applied_ns,
        "contradictory": of.is_contradictory(), "early": of.early, "late": of.late,
    })
}

/// What it cost to record the operators of a trace, as the recording measured it of one.
fn cost(trace: &Trace) -> Option<Value> {
    let cost = Recording::of(trace)?.cost()?;
    let operators = trace.events.kind.iter().filter(|kind| **kind == EventKind::Operator).count();
    Some(json!({
        "operator_ns": cost.ns(), "torch_ns": cost.torch_ns, "measured": cost.measured, "operators": operators,
    }))
}

fn process(process: &CallProcess) -> Value {
    json!({
        "pid": process.pid, "role": process.role.name(), "rank": process.rank, "lasted_ns": process.lasted_ns,
        "command": process.command, "python": process.python, "torch": process.torch,
        "sources": process.sources.iter().map(|s| json!({"name": s.name, "on": s.on, "detail": s.detail})).collect::<Vec<_>>(),
        "lost": process.lost.iter().map(|(what, count)| json!({"what": what, "count": count})).collect::<Vec<_>>(),
    })
}

fn has_python(opened: &Opened) -> bool {
    let recorded =
        |tree: &stackline_model::CallTree| tree.frames.iter().any(|frame| frame.kind() == CallFrameKind::Python);
    opened.recording.as_ref().is_some_and(recorded)
        || opened.set.traces.iter().any(|trace| trace.events.kind.contains(&EventKind::PythonFunction))
}
