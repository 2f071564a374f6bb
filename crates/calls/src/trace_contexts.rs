//! Callers of the events of a trace: enclosing call, launch call of GPU work, or forward operator of backward work.

use super::call_events::is_call;
use super::idle::Idle;
use stackline_model::{EventId, LinkKind, Trace};

/// Parent of each event in the call tree.
pub(super) struct TraceContexts {
    /// By event: its launch, its forward operator, or the enclosing call.
    parent: Vec<EventId>,
    /// By event: true for backward work of an operator.
    pub(super) is_backward: Vec<bool>,
    /// By event: time of its direct children, in ns.
    pub(super) inside: Vec<i64>,
    /// By call of a thread: idle GPU time during it, excluding direct children, in ns; empty if not requested.
    pub(super) own_idle: Vec<i64>,
}

impl TraceContexts {
    /// Find the caller of each event of a trace, and sum the time of direct callees. `idle` is the GPU idle time to
    /// divide among calls.
    pub(super) fn from_trace(trace: &Trace, idle: &Idle) -> Self {
        let many = trace.events.len();
        let mut parent = vec![EventId::NONE; many];
        let mut is_backward = vec![false; many];
        for (_, backward, _) in trace.links.of_kind(LinkKind::Backward) {
            if let Some((forward, _)) = trace.forward_of(backward) {
                (parent[backward.index()], is_backward[backward.index()]) = (forward, true);
            }
        }
        let own_idle = if idle.has_threads() { vec![0; many] } else { Vec::new() };
        let mut all = Self { parent, is_backward, inside: vec![0; many], own_idle };
        all.add_enclosing(trace, idle);
        all
    }

    /// Set the launch of GPU work, and the enclosing call of other events without a forward operator. Also sum time and
    /// idle time of direct callees.
    fn add_enclosing(&mut self, trace: &Trace, idle: &Idle) {
        let mut operations = trace.gpu.ids().peekable();
        for event in trace.events.ids() {
            let up = trace.ancestors(event).find(|&up| is_call(trace, up));
            let at = event.index();
            if let Some(operation) = operations.next_if(|operation| trace.gpu.event[operation.index()] == event) {
                self.parent[at] = trace.gpu.launcher(operation).into();
            } else if !self.is_backward[at] {
                self.parent[at] = up.unwrap_or(EventId::NONE);
            }
            if !is_call(trace, event) || trace.kind(event).is_gpu_work() || !trace.events.is_timed(event) {
                continue;
            }
            let (start, end) = (trace.events.start[at], trace.events.end(event));
            let idle_until = |end| idle.within(trace.events.track[at], start, end);
            let own_idle = self.own_idle.get_mut(at).map(|own| {
                let during = idle_until(end);
                *own = own.saturating_add(during);
                during
            });
            let Some(up) = up else { continue };
            let counted_until = end.min(trace.events.end(up));
            let child_ns = counted_until.saturating_sub(start).max(0);
            self.inside[up.index()] = self.inside[up.index()].saturating_add(child_ns);
            if let Some(during) = own_idle {
                let child_ns = if counted_until == end { during } else { idle_until(counted_until) };
                self.own_idle[up.index()] = self.own_idle[up.index()].saturating_sub(child_ns);
            }
        }
    }

    /// Caller of an event in the call tree: its launch, its forward operator, or the enclosing call.
    pub(super) fn of_event(&self, event: EventId) -> Option<EventId> {
        self.parent[event.index()].some()
    }
}
