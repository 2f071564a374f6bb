//! The observer: puts every operator into the tree of its thread.

use crate::process::Process;
use crate::state::State;
use crate::tree::NodeId;
use dlmonitor::{Observer, OpenOperator, Operator, Thread, clock};
use std::ptr::NonNull;
use std::sync::Arc;

/// Nodes that the tree of a thread may have, unless options say otherwise.
pub(crate) const DEFAULT_LIMIT: u32 = 1 << 20;

/// Registered with `DLMonitor` for the life of the process.
#[derive(Debug)]
pub(crate) struct Recorder {
    process: Arc<Process>,
}

/// Indices into [`OpenOperator::client`].
const NODE: usize = 0;
const START: usize = 1;
/// Ticks of the operators that this one called.
const INSIDE: usize = 2;

impl Recorder {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process }
    }

    /// The state of the calling thread.
    #[inline]
    fn state<'a>(&self, thread: &'a mut Thread) -> &'a mut State {
        let state = *thread.client.get_or_insert_with(|| NonNull::from(Box::leak(self.process.enter_thread())).cast());
        // SAFETY: the pointer came from the box above, nobody else has it, and it lives until `thread_ends`, which
        // takes `client` away. `thread` is borrowed as long as the reference.
        unsafe { state.cast::<State>().as_mut() }
    }
}

impl Observer for Recorder {
    #[inline]
    fn operator_begins(&self, operator: &Operator, thread: &mut Thread, opened: &mut OpenOperator) {
        let open = std::mem::take(&mut thread.open);
        let node = self.state(thread).begin(&self.process, operator, &open, opened.python);
        thread.open = open;
        opened.client = [u64::from(node.0), clock::ticks(), 0];
    }

    #[inline]
    fn operator_ends(&self, ended: &OpenOperator, thread: &mut Thread) {
        let took = clock::ticks().saturating_sub(ended.client[START]);
        if let Some(caller) = thread.open.last_mut() {
            caller.client[INSIDE] = caller.client[INSIDE].saturating_add(took);
        }
        let own = took.saturating_sub(ended.client[INSIDE]);
        let node = NodeId(ended.client[NODE] as u32);
        self.state(thread).tree.add_call(node, clock::ns(own), clock::ns(took));
    }

    fn thread_ends(&self, thread: &mut Thread) {
        if let Some(state) = thread.client.take() {
            // SAFETY: `state` leaked this box, and `client` was its only copy.
            let state = unsafe { Box::from_raw(state.cast::<State>().as_ptr()) };
            self.process.leave_thread(state);
        }
    }
}
