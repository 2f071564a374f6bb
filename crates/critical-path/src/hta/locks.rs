//! Edges by the order in which calls acquired the lock of the CUDA runtime (HTA specification, section 2.5 A).

use super::build::Builder;
use crate::EdgeKind;

impl Builder<'_> {
    /// Add edges between overlapping calls that acquire the lock of the CUDA runtime. The call that ends first had the
    /// lock first, so each end depends on every open start and on the previous end.
    pub(super) fn lock_edges(&mut self) {
        let mut open: Vec<u32> = Vec::new();
        let mut previous_end = None;
        for node in 0..self.nodes.len() as u32 {
            if !self.is_lock(node) {
                continue;
            }
            if self.nodes.is_start[node as usize] {
                open.push(node);
                previous_end = None;
                continue;
            }
            let event = self.nodes.event[node as usize];
            while let Some(start) = open.pop() {
                if self.nodes.event[start as usize] == event {
                    self.timed_edge(start, node, EdgeKind::OperatorKernel, event);
                } else {
                    self.free_edge(start, node, EdgeKind::Dependency);
                }
            }
            if let Some(previous) = previous_end {
                self.free_edge(previous, node, EdgeKind::Dependency);
            }
            previous_end = Some(node);
        }
    }
}
