//! Call paths of events, and files that frames name.

use stackline_model::{CallingContextTree, EventId, EventKind, Trace};
use stackline_timeline::frame_names::frame;
use stackline_timeline::source_location::launch_of;
use std::collections::BTreeSet;

/// Call path of an event, outermost first and without the event; for GPU work that of its launch. A recorded stack
/// replaces Python frames.
pub fn path_of(trace: &Trace, event: EventId) -> Vec<&str> {
    let event_on_host = launch_of(trace, event);
    let mut around: Vec<EventId> = trace.ancestors(event_on_host).collect();
    if event_on_host != event {
        around.insert(0, event_on_host);
    }
    around.reverse();
    let stack = stack_of(trace, event_on_host);
    let has_stack = !stack.is_empty();
    let spans = around.into_iter().filter(|&e| !has_stack || trace.kind(e) != EventKind::PythonFunction);
    stack.into_iter().chain(spans.map(|e| trace.name(e))).collect()
}

/// Stack frames of an event, or of its innermost ancestor with a stack, outermost first.
fn stack_of(trace: &Trace, event: EventId) -> Vec<&str> {
    let stacks = &trace.stacks;
    let innermost = std::iter::once(event).chain(trace.ancestors(event)).find_map(|e| stacks.of_event(e));
    let mut names: Vec<&str> = stacks.names(innermost).map(|name| trace.strings.get(name)).collect();
    names.reverse();
    names
}

/// Files of a trace's Python frames.
pub fn files_of(trace: &Trace) -> BTreeSet<&str> {
    trace.strings.iter().filter_map(|name| Some(frame(name)?.0)).collect()
}

/// Files of a calling context tree's frames.
pub fn files_of_calls(tree: &CallingContextTree) -> BTreeSet<&str> {
    tree.frames.iter().filter_map(|frame| Some(tree.strings.get(frame.file()?))).collect()
}
