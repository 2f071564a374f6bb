//! Names of the threads in one recorder stream.

use super::calls::{Calls, ThreadCalls};
use crate::recording::thread_names::InheritableNames;
use rustc_hash::FxHashSet;
use stackline_recording::FrameKey;

impl Calls {
    /// Replace thread names that were inherited from the thread's creator.
    pub(super) fn name_threads(&mut self, is_damaged: bool) {
        let is_python = |&(_, frame): &(u32, u32)| {
            matches!(self.frames.get(frame as usize), Some(FrameKey::Python { .. })) && !self.is_own(frame)
        };
        // The first node is the root.
        let runs_python = |thread: &&ThreadCalls| thread.nodes.iter().skip(1).any(is_python);
        // Operators and samples of a thread have separate trees.
        let python: FxHashSet<u32> =
            self.threads.iter().filter(runs_python).map(|open_thread| open_thread.thread.tid).collect();
        let of_python = self.threads.iter().map(|open| &open.thread).filter(|thread| python.contains(&thread.tid));
        let of_python = of_python.map(|thread| thread.name.as_str());
        let names = InheritableNames::new(self.process.pid, &self.process.command, of_python);
        for open_thread in &mut self.threads {
            let (name, tid) = (&open_thread.thread.name, open_thread.thread.tid);
            if let Some(name) = names.replace(name, tid, is_damaged || python.contains(&tid)) {
                open_thread.thread.name = name;
            }
        }
    }
}
