//! States of threads: created when a thread begins, and kept after its end for reuse by new threads.

use crate::event_queue::channel;
use crate::process::{Process, Registered, lock};
use crate::state::{Outboxes, State};
use crate::tree::TreeOwner;
use stackline_recording::Thread;
use std::sync::Mutex;

/// Number of ended threads that keep their trees. Beyond it, new threads continue the trees of ended ones, so that
/// memory is bounded by the number of concurrent threads.
const MAX_UNWRITTEN_TREES: usize = 64;

/// States of ended threads with their trees, for reuse by new threads.
#[derive(Debug, Default)]
pub(crate) struct SpareStates {
    #[expect(clippy::vec_box, reason = "threads receive the boxes as pointers")]
    free: Mutex<Vec<Box<State>>>,
}

impl SpareStates {
    /// State for the calling thread: a new one with a registered tree or, after many threads have ended, a reused one.
    pub(crate) fn enter_thread(&self, process: &Process) -> Box<State> {
        let tid = current_tid();
        let name = process.python_name(tid).unwrap_or_else(current_name);
        let mut trees = process.lock_trees();
        let mut free = lock(&self.free);
        // The main thread is never merged with others, because users search for it.
        if free.len() >= MAX_UNWRITTEN_TREES
            && tid != std::process::id()
            && let Some(mut state) = free.pop()
        {
            drop(free);
            trees.continue_tree(state.tree.shared.id, tid, &name);
            drop(trees);
            state.forget_forward(&process.forward_threads);
            state.enter(tid);
            return state;
        }
        drop(free);
        let id = trees.next_id();
        let extra_data = process.extra_data();
        let (outbox, inbox) = extra_data.trace.then(channel).unzip();
        let (touch, touches) = process.records_memory_events().then(channel).unzip();
        let (call_name, names) = extra_data.trace.then(channel).unzip();
        let owner = TreeOwner::new(id, process.limit);
        let outboxes = Outboxes { calls: outbox, touches: touch, names: call_name };
        let state = Box::new(State::new(process.number(), owner, outboxes, extra_data));
        let registered = Registered::new(Thread { id, tid, torch_id: 0, name }, &state.tree);
        trees.add(Registered { inbox, touches, names, ..registered });
        state.published.enter(tid);
        state
    }

    /// End or reuse the tree of a thread that ends; `true` if the writer should be woken.
    pub(crate) fn leave_thread(&self, process: &Process, mut state: Box<State>) -> bool {
        if state.process != process.number() {
            // The state belongs to an ended recording.
            return false;
        }
        // The tree of a single call identifies its thread.
        if process.records_calls() {
            process.forward_threads.forget(&state.tree.shared);
            return process.end_tree(state.tree.shared.id);
        }
        state.leave();
        lock(&self.free).push(state);
        false
    }
}

/// System id of the calling thread.
fn current_tid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// System name of the calling thread.
fn current_name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes, the last of them null.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::SpareStates;
    use crate::process::{ExtraData, Process};

    #[test]
    fn written_ended_threads_leave_no_data() {
        let process = Process::new(100, ExtraData { trace: true, ..ExtraData::default() });
        let states = SpareStates::default();
        for id in 0..3 {
            let state = states.enter_thread(&process);
            assert_eq!(state.tree.shared.id, id, "numbers are never used again");
            states.leave_thread(&process, state);
            assert_eq!(process.trees().len(), 1);
            process.remove_trees(&process.take_ended_trees());
            assert!(process.trees().is_empty());
        }
        assert_eq!(process.add_tree(7, "samples".into()).shared.id, 3);
    }
}
