//! Names of the threads in one recorder stream.

use super::calls::{Calls, ThreadCalls};
use crate::recording::thread_names::replace_inherited;
use rustc_hash::FxHashSet;
use stackline_recording::FrameKey;

impl Calls {
    /// Replace names that threads inherited from their creators.
    pub(super) fn name_threads(&mut self, is_damaged: bool) {
        let is_python = |&(_, frame): &(u32, u32)| {
            matches!(self.frames.get(frame as usize), Some(FrameKey::Python { .. })) && !self.is_own(frame)
        };
        // The first node is the root.
        let runs_python = |thread: &&ThreadCalls| thread.nodes.iter().skip(1).any(is_python);
        // Operators and samples of a thread have separate trees.
        let python: FxHashSet<u32> =
            self.threads.iter().filter(runs_python).map(|open_thread| open_thread.thread.tid).collect();
        let process = (self.process.pid, self.process.command.as_slice());
        for open_thread in &mut self.threads {
            let (name, tid) = (&open_thread.thread.name, open_thread.thread.tid);
            if let Some(name) = replace_inherited(name, tid, process, is_damaged || python.contains(&tid)) {
                open_thread.thread.name = name;
            }
        }
    }
}
