//! What is not advised: moving to the host what lies there, and freeing what training keeps.

#![allow(clippy::unwrap_used, reason = "tests")]

use stackline_memory::suggest::{Action, Suggestion, suggestions};
use stackline_memory::{Facts, Rules, patterns};
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, MemoryCallKind, MemoryObjectId, MemoryObjectKind, MemoryTrace, NewCall,
    NewObject,
};

fn kernel(trace: &mut MemoryTrace, objects: &[(MemoryObjectId, AccessMode)]) {
    let start_ns = trace.calls.len() as i64;
    trace.calls.push(MemoryCallKind::Kernel, NewCall { start_ns, ..NewCall::default() });
    for &(object, mode) in objects {
        trace.accesses.push(object, mode, AccessEvidence::Instrumented, AccessExtent::Whole);
    }
    trace.seal_call();
}

/// An object that is written, idle for three kernels, and read; then three more kernels run, and the trace ends.
fn idle(device: &str, kind: MemoryObjectKind) -> Vec<Suggestion> {
    let mut trace = MemoryTrace { saw_end: true, ..MemoryTrace::default() };
    let device = trace.device(device);
    let new = |bytes| NewObject { bytes, device, kind, ..NewObject::default() };
    let (object, other) = (trace.allocate(new(4096), NewCall::default()), trace.allocate(new(64), NewCall::default()));
    kernel(&mut trace, &[(object, AccessMode::Write)]);
    for at in 0..7 {
        let touched = if at == 3 { (object, AccessMode::Read) } else { (other, AccessMode::Both) };
        kernel(&mut trace, &[touched]);
    }
    trace.check().unwrap();
    let facts = Facts::new(&trace, Rules::default());
    let made = suggestions(&facts, &patterns::find(&facts));
    made.into_iter().filter(|suggestion| suggestion.object == object).collect()
}

fn has(made: &[Suggestion], is: impl Fn(&Action) -> bool) -> bool {
    made.iter().any(|suggestion| is(&suggestion.action))
}

#[test]
fn nothing_is_moved_from_the_host_to_the_host() {
    let offload = |action: &Action| matches!(action, Action::Offload { .. });
    assert!(has(&idle("cuda:0", MemoryObjectKind::Unknown), offload));
    assert!(!has(&idle("cpu", MemoryObjectKind::Unknown), offload));
}

#[test]
fn what_training_keeps_is_not_freed_where_the_recording_ends() {
    let free = |action: &Action| matches!(action, Action::MoveFree { .. });
    assert!(has(&idle("cuda:0", MemoryObjectKind::Activation), free));
    assert!(!has(&idle("cuda:0", MemoryObjectKind::Parameter), free));
    assert!(!has(&idle("cuda:0", MemoryObjectKind::OptimizerState), free));
}
