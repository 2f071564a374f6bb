//! Self and inclusive time of operators on the host and on GPUs.

use crate::gpu_view::GpuView;
use crate::op_tree::{OpTree, ROOT};
use stackline_model::{EventId, EventKind, GpuOpId, Trace};

/// Cost of one or more calls of an operator, self and inclusive. Times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Number of calls.
    pub calls: i64,
    /// Time on the host without operators inside.
    pub host_self: i64,
    /// Time on the host.
    pub host_total: i64,
    /// Time of GPU work that the call itself launched.
    pub gpu_self: i64,
    /// Time of GPU work, with that of operators inside.
    pub gpu_total: i64,
    /// Launch calls of the call itself.
    pub launches_self: i64,
    /// Launch calls, with those of operators inside.
    pub launches_total: i64,
    /// Linked GPU operations of the call itself.
    pub work_self: i64,
    /// Linked GPU operations, with those of operators inside.
    pub work_total: i64,
    /// Launch calls without recorded or linked work, and linked work without plausible times.
    pub unrecorded_self: i64,
    /// The same, with those of operators inside.
    pub unrecorded_total: i64,
}

impl Cost {
    /// Add the cost of another call of the operator.
    pub fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.host_self = self.host_self.saturating_add(other.host_self);
        self.host_total = self.host_total.saturating_add(other.host_total);
        self.gpu_self = self.gpu_self.saturating_add(other.gpu_self);
        self.gpu_total = self.gpu_total.saturating_add(other.gpu_total);
        self.launches_self = self.launches_self.saturating_add(other.launches_self);
        self.launches_total = self.launches_total.saturating_add(other.launches_total);
        self.work_self += other.work_self;
        self.work_total += other.work_total;
        self.unrecorded_self += other.unrecorded_self;
        self.unrecorded_total += other.unrecorded_total;
    }

    /// Self GPU time in ns; `None` if it is unknown, because missing records are not 0. `is_linked` is true if the
    /// trace links any GPU work to an operator.
    pub fn gpu_self(&self, is_linked: bool) -> Option<i64> {
        let is_known = self.unrecorded_self == 0 && (self.work_self > 0 || is_linked);
        (self.gpu_self > 0 || is_known).then_some(self.gpu_self)
    }

    /// Inclusive GPU time in ns; `None` if it is unknown, because missing records are not 0. `is_linked` is true if the
    /// trace links any GPU work to an operator.
    pub fn gpu_total(&self, is_linked: bool) -> Option<i64> {
        let is_known = self.unrecorded_total == 0 && (self.work_total > 0 || is_linked);
        (self.gpu_total > 0 || is_known).then_some(self.gpu_total)
    }
}

/// Compute the cost of each operator call (node of `tree`), with all GPU work that it launched. `view` must cover the
/// whole trace.
pub fn costs(trace: &Trace, view: &GpuView<'_>, tree: &OpTree) -> Vec<Cost> {
    let work = tree.gpu_work(trace, &vec![true; trace.gpu.len()]);
    let mut costs = vec![Cost::default(); tree.len()];
    for &call in trace.unrecorded_launches() {
        let operator = trace.ancestors(call).find(|e| trace.kind(*e) == EventKind::Operator);
        if let Some(node) = operator.and_then(|op| tree.node_of(op)) {
            costs[node as usize].unrecorded_self += 1;
        }
    }
    // Children come after their parents, so in reverse order a node is complete when it is reached.
    for node in (0..tree.len()).rev() {
        let (op, parent) = (tree.op[node], tree.parent[node]);
        let dur = trace.events.dur[op.index()];
        let own = work.own(node as u32);
        let duration = |g: &GpuOpId| trace.events.dur[trace.gpu.event[g.index()].index()];
        let timed = || own.iter().filter(|g| view.linked[g.index()]);
        let gpu = timed().map(duration).fold(0, i64::saturating_add);
        // Work that is linked only by its operator has no launch call.
        let mut calls: Vec<EventId> = own.iter().filter_map(|g| trace.gpu.launch[g.index()].some()).collect();
        calls.sort_unstable();
        calls.dedup();
        let cost = &mut costs[node];
        cost.calls = 1;
        cost.host_total = dur;
        // Until here `host_self` has the time of the operators inside. If they cross the end of this one, their time
        // may exceed its duration.
        cost.host_self = dur.saturating_sub(cost.host_self).max(0);
        cost.gpu_self = gpu;
        cost.gpu_total = cost.gpu_total.saturating_add(gpu);
        cost.launches_self = calls.len() as i64 + cost.unrecorded_self;
        cost.launches_total += cost.launches_self;
        cost.work_self = timed().count() as i64;
        cost.work_total += cost.work_self;
        cost.unrecorded_self += own.len() as i64 - cost.work_self;
        cost.unrecorded_total += cost.unrecorded_self;
        let Cost { gpu_total, launches_total, work_total, unrecorded_total, .. } = *cost;
        if parent != ROOT {
            let outer = tree.op[parent as usize];
            let end = trace.events.end(op).min(trace.events.end(outer));
            let inside = end.saturating_sub(trace.events.start[op.index()]).max(0);
            let above = &mut costs[parent as usize];
            above.host_self = above.host_self.saturating_add(inside);
            above.gpu_total = above.gpu_total.saturating_add(gpu_total);
            above.launches_total += launches_total;
            above.work_total += work_total;
            above.unrecorded_total += unrecorded_total;
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::Cost;

    #[test]
    fn lost_times_are_not_zero() {
        let cost = |gpu_self: i64, work_self: i64, unrecorded_self: i64| {
            Cost { gpu_self, work_self, unrecorded_self, ..Cost::default() }.gpu_self(true)
        };
        assert_eq!([cost(0, 0, 0), cost(0, 1, 0), cost(5, 1, 3)], [Some(0), Some(0), Some(5)]);
        assert_eq!([cost(0, 0, 3), cost(0, 1, 3)], [None, None], "one copy of 0 ns, and three lost times");
    }
}
