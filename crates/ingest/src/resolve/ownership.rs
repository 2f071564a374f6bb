//! Context of GPU operations: operator, Python frame, module, annotation and step around their launch call.

use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, StepIndex, Trace, names};

/// Context of a launch call: the enclosing operator, Python frame, module, annotation and step.
#[derive(Clone, Copy, Default)]
struct LaunchContext {
    operator: EventId,
    python: EventId,
    module: EventId,
    annotation: EventId,
    step: u32,
}

/// Fill the contexts of the launch calls in the GPU table. Requires nesting, steps and launches.
pub(super) fn fill_contexts(trace: &mut Trace) {
    let modules = names_with_prefix(trace, names::MODULE_PREFIX);
    let steps = names_with_prefix(trace, names::STEP_PREFIX);
    let index = StepIndex::new(trace);
    let mut memo: (EventId, LaunchContext) = (EventId::NONE, no_context());
    let by_external_id = operators_by_external_id(trace);
    let external = trace.attr("External id");
    let external_old = trace.attr("external id");
    let mut all = Vec::with_capacity(trace.gpu.len());
    for gpu in trace.gpu.ids() {
        let launch = trace.gpu.launch[gpu.index()];
        let event = trace.gpu.event[gpu.index()];
        let anchor = launch.some().or_else(|| {
            // Without a launch record the external ID still identifies the operator.
            let id = external.i64(event).or_else(|| external_old.i64(event)).filter(|&id| id > 0)?;
            by_external_id.get(&id).copied()
        });
        let Some(anchor) = anchor else {
            all.push(no_context());
            continue;
        };
        if memo.0 != anchor {
            memo = (anchor, launch_context(trace, anchor, &index, [&modules, &steps]));
        }
        all.push(memo.1);
    }
    let gpu = &mut trace.gpu;
    for owner in all {
        gpu.operator.push(owner.operator);
        gpu.python.push(owner.python);
        gpu.module.push(owner.module);
        gpu.annotation.push(owner.annotation);
        gpu.step.push(owner.step);
    }
}

/// Context without operator, frame, module and annotation, outside of all steps (`u32::MAX`).
fn no_context() -> LaunchContext {
    LaunchContext { step: u32::MAX, ..LaunchContext::default() }
}

/// For each interned string: true if it starts with the prefix.
fn names_with_prefix(trace: &Trace, prefix: &str) -> Vec<bool> {
    trace.strings.iter().map(|s| s.starts_with(prefix)).collect()
}

/// Context of an event (`anchor`): the innermost operator, frame, module and annotation around the event, and its step.
fn launch_context(trace: &Trace, anchor: EventId, index: &StepIndex, [modules, steps]: [&[bool]; 2]) -> LaunchContext {
    let mut found = no_context();
    let start = trace.events.start[anchor.index()];
    found.step = index.running(start, trace.tracks.pid(trace.events.track[anchor.index()])).unwrap_or(u32::MAX);
    for event in std::iter::once(anchor).chain(trace.ancestors(anchor)) {
        let name = trace.events.name[event.index()].index();
        let flagged = |set: &[bool]| set.get(name).copied().unwrap_or(false);
        match trace.kind(event) {
            EventKind::Operator if found.operator.is_none() && !flagged(steps) => found.operator = event,
            EventKind::PythonFunction => {
                if found.python.is_none() {
                    found.python = event;
                }
                if found.module.is_none() && flagged(modules) {
                    found.module = event;
                }
            }
            EventKind::Annotation if found.annotation.is_none() && !flagged(steps) => found.annotation = event,
            _ => {}
        }
        if found.operator.is_some() && found.module.is_some() && found.annotation.is_some() {
            break;
        }
    }
    found
}

/// Operators by external ID, without IDs that several processes share; empty if each GPU operation has a launch.
fn operators_by_external_id(trace: &Trace) -> FxHashMap<i64, EventId> {
    if trace.gpu.launch.iter().all(|l| l.is_some()) {
        return FxHashMap::default();
    }
    let column = trace.attr("External id");
    let operators = trace.events.ids().filter(|e| trace.kind(*e) == EventKind::Operator);
    let mut found: FxHashMap<i64, EventId> = FxHashMap::default();
    for event in operators {
        let Some(id) = column.i64(event).filter(|&id| id > 0) else { continue };
        let pid = |e: EventId| trace.tracks.pid(trace.events.track[e.index()]);
        let slot = found.entry(id).or_insert(event);
        // Merged ranks share operator numbers, so the ID is then ambiguous.
        *slot = if slot.is_some() && pid(*slot) == pid(event) { event } else { EventId::NONE };
    }
    found.retain(|_, event| event.is_some());
    found
}
