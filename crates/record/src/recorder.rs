//! The observer of DLMonitor: adds each operator to the call tree of its thread.

use crate::client_words::{CALLEES_TIME, IS_COLLECTION, NODE, SEQUENCE, SPAN, START, STEP};
use crate::event_queue::{Call, MemoryAccess, Sequence};
use crate::session::Session;
use crate::state::State;
use crate::tree::NodeId;
use crate::window::Window;
use dlmonitor::{Compilation, Input, Observer, OpenOperator, Operator, Scope, Tensor, Thread, clock};
use stackline_recording::{Metric, TouchKind};
use std::ffi::c_void;
use std::ptr::NonNull;

/// The observer, registered with `DLMonitor` for the life of the process, which records into the current [`Session`].
#[derive(Debug)]
pub(crate) struct Recorder;

/// Current recording session, for callbacks of DLMonitor only; `None` if nothing is recorded.
#[inline]
fn session() -> Option<&'static Session> {
    // SAFETY: only callbacks of operators, compilations and allocations call this, which `DLMonitor` counts, and
    // which keep no reference.
    unsafe { Session::current() }
}

/// Recorder's state of the calling thread, created at the first call; `client` is [`Thread::client`].
#[inline]
fn state<'a>(session: &'static Session, client: &'a mut Option<NonNull<c_void>>) -> &'a mut State {
    let state = *client.get_or_insert_with(|| NonNull::from(Box::leak(session.enter_thread())).cast());
    // SAFETY: the pointer came from the box above, nothing else has it, and it lives until `thread_ends`, which
    // clears `client`. `client` is borrowed as long as the reference.
    unsafe { state.cast::<State>().as_mut() }
}

/// True if the thread's state belongs to a recording that has ended.
#[inline]
fn is_from_ended_recording(session: &'static Session, thread: &Thread) -> bool {
    // SAFETY: as in `state`; the reference ends with the expression.
    let client_process = thread.client.map(|state| unsafe { state.cast::<State>().as_ref() }.process);
    client_process.is_some_and(|process| process != session.process.number())
}

/// Release the thread's state if it belongs to a recording that has ended; `true` if it did. The operators in progress
/// are not recorded.
#[inline]
fn release_ended(session: &'static Session, thread: &mut Thread) -> bool {
    let left_over = is_from_ended_recording(session, thread);
    if left_over {
        release_state(thread);
        thread.open.clear();
    }
    left_over
}

/// Pass the thread's state back to its recording, at the end of the thread or when another recording begins.
#[cold]
fn release_state(thread: &mut Thread) {
    if let Some(state) = thread.client.take() {
        // SAFETY: `state` leaked this box, and `client` was its only copy.
        let state = unsafe { Box::from_raw(state.cast::<State>().as_ptr()) };
        state.published.enter(0);
        if let Some(session) = Session::hold() {
            session.leave_thread(state);
        }
    }
}

/// Detail of an individual call, as one number: that of a span's exact name, or autograd's packed [`Sequence`].
fn call_detail(state: &State, operator: &Operator, scope: Scope) -> u64 {
    if scope == Scope::User { state.last_name.into() } else { sequence(operator, scope).0 }
}

/// Autograd's sequence number and forward thread of an operator, by which forward operators and backward nodes are
/// joined.
fn sequence(operator: &Operator, scope: Scope) -> Sequence {
    match scope {
        Scope::Function => Sequence::new(operator.sequence_number(), None),
        Scope::Backward => Sequence::new(operator.sequence_number(), operator.forward_thread()),
        _ => Sequence::default(),
    }
}

/// Add an allocation, a free or a failed allocation at the current node of the thread. Sums cover the recorded
/// window: memory that was allocated in it may be freed after it, and vice versa. Single events are kept for the
/// whole program, because the live memory at a time depends on all earlier events.
fn add_at_current_node(session: &'static Session, thread: &mut Thread, kind: TouchKind, address: usize, bytes: u64) {
    let is_summed = session.window.is_open();
    if !is_summed && !session.process.records_memory_events() {
        return;
    }
    release_ended(session, thread);
    let Thread { open, client, .. } = thread;
    let state = state(session, client);
    let node = state.current_node(&session.process, open);
    match kind {
        TouchKind::Allocated if is_summed => state.add(node, Metric::Allocated, bytes),
        TouchKind::Freed if is_summed => state.add(node, Metric::Freed, bytes),
        _ => {}
    }
    if let Some(touches) = &mut state.touches
        && touches.post(MemoryAccess { at: clock::now_ns(), address, bytes, node, kind })
    {
        session.wake_writer();
    }
}

/// Largest number of tensors of a call's lists that are read.
const MAX_INPUTS: usize = 4096;

/// Post the input tensors of an operator that begins to the queue of memory events, in the order of its arguments.
#[cold]
fn post_inputs(session: &'static Session, operator: &Operator, thread: &mut Thread) {
    let Some((inputs, opened)) = operator.inputs().zip(thread.open.last()) else { return };
    let (node, at) = (NodeId(opened.client[NODE] as u32), opened.client[START].cast_signed());
    if at == 0 {
        return;
    }
    let Some(touches) = &mut state(session, &mut thread.client).touches else { return };
    let mut wake = false;
    let (mut left, mut left_out) = (MAX_INPUTS, 0);
    let mut post = |argument: usize, tensor: &Tensor<'_>| {
        let Some(address) = tensor.storage() else { return };
        if left == 0 {
            left_out += 1;
        } else {
            left -= 1;
            let kind = TouchKind::Input(u8::try_from(argument).unwrap_or(u8::MAX));
            wake |= touches.post(MemoryAccess { at, address, bytes: tensor.bytes().unwrap_or(0), node, kind });
        }
    };
    for (argument, input) in inputs.enumerate() {
        match input {
            Input::Tensor(tensor) => post(argument, &tensor),
            Input::Tensors(tensors) | Input::Gaps(tensors) => {
                tensors.flatten().for_each(|tensor| post(argument, &tensor));
            }
            _ => {}
        }
    }
    if left_out > 0 {
        session.process.count_unread_inputs(left_out);
    }
    if wake {
        session.wake_writer();
    }
}

/// Add an operator or span that begins to the tree, if the window is open. `place` finds its node and the detail of its
/// call. `mark` is [`STEP`] if its end ends a training step, [`IS_COLLECTION`], or 0.
#[inline]
fn begin(
    session: &'static Session,
    thread: &mut Thread,
    mark: u64,
    place: impl FnOnce(&mut State, &[OpenOperator], &mut OpenOperator) -> (NodeId, u64),
) {
    if !session.window.is_open() {
        if let Some(opened) = thread.open.last_mut() {
            opened.client[NODE] = mark;
        }
        if !session.has_started() {
            session.start_in_child();
        }
        return;
    }
    if is_from_ended_recording(session, thread) {
        let opened = thread.open.pop();
        release_state(thread);
        thread.open.clear();
        thread.open.extend(opened);
    }
    let Thread { open, client, .. } = thread;
    if let Some((opened, outer)) = open.split_last_mut() {
        if !session.records_python() {
            // An earlier recording of this process may have recorded Python frames.
            opened.python = None;
        }
        let state = state(session, client);
        let (node, sequence) = place(state, outer, opened);
        state.tree.prefetch_call(node);
        state.published.push(outer.len(), node.0, opened);
        let now = state.now();
        let is_span = opened.client[NODE] & SPAN != 0;
        let last = if is_span && !state.keeps_times() { session.window.paused(now) } else { sequence };
        opened.client = [opened.client[NODE] | mark | u64::from(node.0), now, 0, last];
    }
}

/// Add the times of an operator or span that ended to its node, and process the end of a training step. `add` receives
/// the exclusive and the inclusive time in ns.
#[inline]
fn end(
    session: &'static Session,
    ended: &OpenOperator,
    thread: &mut Thread,
    add: impl FnOnce(&mut State, NodeId, u64, u64),
) {
    end_of_call(session, ended, thread, add);
    if ended.client[NODE] & STEP != 0 {
        session.step_ended(NodeId(ended.client[NODE] as u32));
    }
}

/// Add the times of an ended call to its node and its caller, and post the call in `trace` mode. Nothing is added if
/// the call began outside of the window or in an earlier recording.
#[inline]
fn end_of_call(
    session: &'static Session,
    ended: &OpenOperator,
    thread: &mut Thread,
    add: impl FnOnce(&mut State, NodeId, u64, u64),
) {
    // The operator began before the window opened.
    if ended.client[START] == 0 || release_ended(session, thread) {
        return;
    }
    let Thread { open, client, .. } = thread;
    let state = state(session, client);
    let now = state.now();
    let took = now.saturating_sub(ended.client[START]);
    // Operators during a pause are not recorded: the paused time is not the span's own.
    let paused = match ended.client[NODE] & SPAN != 0 && !state.keeps_times() {
        true => session.window.paused(now).saturating_sub(ended.client[SEQUENCE]).min(took),
        false => 0,
    };
    if let Some(caller) = open.last_mut() {
        caller.client[CALLEES_TIME] = caller.client[CALLEES_TIME].saturating_add(took - paused);
    }
    state.published.set_running(open);
    let own = took.saturating_sub(ended.client[CALLEES_TIME]).saturating_sub(paused);
    let (own, took) = (state.ns(own), state.ns(took));
    add(state, NodeId(ended.client[NODE] as u32), own, took);
    if let Some(outbox) = &mut state.outbox {
        let is_span = ended.client[NODE] & SPAN != 0;
        let (sequence, name) = if is_span { (0, ended.client[SEQUENCE] as u32) } else { (ended.client[SEQUENCE], 0) };
        let start = ended.client[START].cast_signed();
        let node = NodeId(ended.client[NODE] as u32);
        if outbox.post(Call { start, took_ns: took, node, sequence: Sequence(sequence), name }) {
            session.wake_writer();
        }
    }
}

impl Observer for Recorder {
    #[inline]
    fn operator_begins(&self, operator: &Operator, thread: &mut Thread) {
        let Some(session) = session() else { return };
        let scope = operator.scope();
        let step = if scope == Scope::User && Window::is_step(operator.name().text()) { STEP } else { 0 };
        begin(session, thread, step, |state, outer, opened| {
            let node = state.begin_operator(&session.process, operator, scope, outer, opened);
            (node, if state.outbox.is_some() { call_detail(state, operator, scope) } else { 0 })
        });
        if session.process.records_memory_events() && scope == Scope::Function {
            post_inputs(session, operator, thread);
        }
    }

    #[inline]
    fn operator_ends(&self, ended: &OpenOperator, thread: &mut Thread) {
        if let Some(session) = session() {
            end(session, ended, thread, |state, node, own, took| state.tree.add_call(node, own, took));
        }
    }

    fn compilation_begins(&self, compilation: &Compilation<'_>, thread: &mut Thread) {
        let Some(session) = session() else { return };
        let mark = if compilation.is_collection() { IS_COLLECTION } else { 0 };
        begin(session, thread, mark, |state, outer, opened| {
            (state.begin_compilation(&session.process, compilation, outer, opened), 0)
        });
    }

    fn compilation_ends(&self, ended: &OpenOperator, thread: &mut Thread) {
        if let Some(session) = session() {
            end(session, ended, thread, |state, node, own, took| match ended.client[NODE] & IS_COLLECTION {
                0 => state.tree.add_call(node, own, took),
                _ => state.add(node, Metric::GcTime, own),
            });
        }
    }

    fn allocated(&self, address: usize, bytes: u64, thread: &mut Thread) {
        let Some(session) = session() else { return };
        session.process.live.put(address, bytes);
        add_at_current_node(session, thread, TouchKind::Allocated, address, bytes);
    }

    fn freed(&self, address: usize, thread: &mut Thread) {
        let Some(session) = session() else { return };
        if let Some(bytes) = session.process.live.take(address) {
            add_at_current_node(session, thread, TouchKind::Freed, address, bytes);
        }
    }

    fn allocation_failed(&self, bytes: u64, thread: &mut Thread) {
        if let Some(session) = session() {
            add_at_current_node(session, thread, TouchKind::Failed, 0, bytes);
        }
    }

    fn thread_ends(&self, thread: &mut Thread) {
        release_state(thread);
    }

    fn forked(&self) {
        Session::continue_in_child();
    }
}
