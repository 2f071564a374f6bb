//! Edits of GPU launches: `fuse`, `graph` (CUDA graphs) and `overlap`.

use super::super::graph::{Dependency, NONE, NodeKind};
use super::applier::Applier;
use super::index::{Launched, ThreadRange};
use super::lags::REMOVED_EDGE_SLACK;
use super::selector::Selector;
use crate::CriticalPathError;
use crate::gpu_dependency::Reason;
use rustc_hash::FxHashSet;
use stackline_model::gpu_calls::CallKind;
use stackline_timeline::kernel_type::{KernelType, NameTypes, RULES};

impl Applier<'_, '_> {
    /// Fuse the kernels that each time range launches on its first stream into one kernel, in place of the first. The
    /// error for ranges without such kernels names `selector`.
    pub(super) fn fuse(&mut self, ranges: &[ThreadRange], selector: &Selector) -> Result<(), CriticalPathError> {
        let mut types = NameTypes::new(self.exact.trace, RULES);
        let rows = &self.exact.trace.gpu;
        let mut any = false;
        for &range in ranges {
            let place = |l: &Launched| self.exact.graph.place[l.node as usize] as usize;
            let mut kernels = self.index.launched_in(range).iter().copied().filter(|l| {
                self.index.operations_of(l.call) == 1 && types.of_event(rows.event[place(l)]) == KernelType::Computation
            });
            let Some(first) = kernels.next() else { continue };
            let stream = |l: &Launched| (rows.device[place(l)], rows.stream[place(l)]);
            let others: Vec<u32> = kernels.filter(|l| stream(l) == stream(&first)).map(|l| l.node).collect();
            let time: i64 =
                others.iter().map(|&n| self.length(n) + self.changes.time[self.position_of(n) as usize]).sum();
            any |= !others.is_empty();
            self.remove_operations(&others);
            self.lengthen(first.node, time);
        }
        if any {
            Ok(())
        } else {
            Err(self.refused_edit_error(
                selector,
                "no selected span launches two or more kernels on one stream, so there is nothing to fuse",
            ))
        }
    }

    /// Replace the host work of spans that only launch kernels by one launch of a CUDA graph.
    pub(super) fn capture_graphs(
        &mut self,
        ranges: &[ThreadRange],
        selector: &Selector,
    ) -> Result<(), CriticalPathError> {
        let (mut done, mut left_out) = (0, 0);
        for &range in ranges {
            let launched = self.index.launched_in(range);
            let Some(first) = launched.first().copied() else { continue };
            if launched.iter().all(|l| l.call == first.call) {
                continue;
            }
            if !self.is_capturable(range) {
                left_out += 1;
                continue;
            }
            done += 1;
            self.capture(range, first);
        }
        if done == 0 {
            let reason = match left_out {
                0 => "no selected span has two or more launches, so a CUDA graph would save nothing",
                _ => {
                    "all selected spans wait, record CUDA events or signal other threads, and a CUDA graph cannot \
                     contain such calls"
                }
            };
            return Err(self.refused_edit_error(selector, reason));
        }
        if left_out > 0 {
            let all = done + left_out;
            self.notes.push(format!(
                "{left_out} of {all} spans of {} cannot become CUDA graphs because they wait, \
                                     record CUDA events or signal other threads",
                selector.text
            ));
        }
        Ok(())
    }

    /// True if a time range can become a CUDA graph: no wait, query, CUDA event record or release of another thread
    /// inside.
    fn is_capturable(&self, (lane, from, to): ThreadRange) -> bool {
        let graph = &self.exact.graph;
        let (first, last) = self.exact.lane_nodes[lane as usize];
        let ends = &graph.end[first as usize..last as usize];
        let mut node = first + ends.partition_point(|&end| end <= from) as u32;
        while node < last && graph.start[node as usize] < to {
            // Waits before its start and releases at its end stay unchanged.
            let starts_inside = graph.start[node as usize] > from;
            let ends_inside = graph.end[node as usize] < to;
            let waits = graph.edges_into(node).iter().any(|e| e.dependency != Dependency::Program);
            let returns = graph.kind[node as usize] != NodeKind::Host;
            if returns || (starts_inside && waits) || (ends_inside && self.index.releases_thread[node as usize]) {
                return false;
            }
            node += 1;
        }
        let pieces = &self.exact.lanes[lane as usize].pieces;
        let inside = &pieces[pieces.partition_point(|p| p.start < from)..pieces.partition_point(|p| p.start < to)];
        let orders = |p: &super::super::thread_timelines::Piece| {
            p.event.is_some()
                && matches!(
                    self.index.calls.kind_of(self.exact.trace, p.event),
                    Some(kind) if !matches!(kind, CallKind::Copy | CallKind::Launch | CallKind::GraphLaunch)
                )
        };
        !inside.iter().any(orders)
    }

    /// Remove the host time of a span except its first launch call, which then launches all operations of the span.
    fn capture(&mut self, (lane, from, to): ThreadRange, first: Launched) {
        let (trace, graph, plan) = (self.exact.trace, &self.exact.graph, self.plan);
        let (begins, ends) = (trace.events.start[first.call.index()], trace.events.end(first.call));
        let launches = |d: Dependency| matches!(d, Dependency::Launch | Dependency::LaunchByOperator);
        let source = graph.edges_into(first.node).iter().find(|e| launches(e.dependency)).map(|e| e.from);
        let Some(source) = source else { return };
        self.remove_time((lane, from, begins));
        self.remove_time((lane, ends, to));
        for launched in self.index.launched_in((lane, from, to)).iter().filter(|l| l.call != first.call) {
            let at = self.position_of(launched.node);
            for i in plan.range(at).filter(|&i| self.is_edge(i, launches)).collect::<Vec<_>>() {
                let lag = plan.edge(i).observed - plan.usual_slack(i);
                let slack = graph.start[launched.node as usize] - graph.end[source as usize] - lag;
                self.changes.set_slack(at, i, REMOVED_EDGE_SLACK);
                self.changes.add_edge(at, self.position_of(source), slack);
            }
        }
    }

    /// Remove all dependencies of other GPU work on these collectives, so that they run concurrently with it.
    /// Collectives of one stream still run one after another.
    pub(super) fn overlap(&mut self, nodes: &[u32]) {
        let chosen: FxHashSet<u32> = nodes.iter().copied().collect();
        let (graph, plan) = (&self.exact.graph, self.plan);
        let mut types = NameTypes::new(self.exact.trace, RULES);
        self.release_waiting_threads(&chosen);
        for at in 0..plan.len() as u32 {
            let node = plan.node[at as usize];
            if graph.kind[node as usize] != NodeKind::Gpu {
                continue;
            }
            let is_collective = self.is_collective(node, &mut types);
            if is_collective {
                self.keep_order_of_collectives(at, &chosen, &mut types);
            }
            if chosen.contains(&node) {
                continue;
            }
            for i in plan.range(at) {
                let edge = *plan.edge(i);
                let from = plan.node[edge.from as usize];
                let is_kept = is_collective && self.is_edge(i, Dependency::is_stream_order);
                if edge.edge == NONE || !chosen.contains(&from) || is_kept {
                    continue;
                }
                self.changes.set_slack(at, i, REMOVED_EDGE_SLACK);
                if self.is_edge(i, |d| !matches!(d, Dependency::Gpu(_)))
                    && let Some(before) = self.before_on_stream(from, |n| !chosen.contains(&n))
                {
                    self.add_order(at, i, before);
                }
            }
        }
        self.notes.push(
            "a trace does not show which GPU work uses the result of a collective. The prediction assumes that only \
             the host waits for the collective, and no GPU work does"
                .to_owned(),
        );
    }

    /// Remove waits for a stream or an event whose target waited for these operations only by stream order.
    fn release_waiting_threads(&mut self, chosen: &FxHashSet<u32>) {
        use CallKind::{EventSync, Query, StreamSync};
        for &(node, call) in &self.index.sync_nodes {
            if !matches!(self.index.calls.kind_of(self.exact.trace, call), Some(StreamSync | EventSync | Query)) {
                continue;
            }
            let at = self.position_of(node);
            let syncs = |i: &usize| self.is_edge(*i, |d| matches!(d, Dependency::Sync(_)));
            let is_chosen = |i: &usize| chosen.contains(&self.plan.node[self.plan.edge(*i).from as usize]);
            let (through, others): (Vec<usize>, Vec<usize>) = self.plan.range(at).filter(syncs).partition(is_chosen);
            for i in through {
                if !others.is_empty() {
                    self.changes.set_slack(at, i, REMOVED_EDGE_SLACK);
                } else if self.is_edge(i, |d| d == Dependency::Sync(Reason::Polling)) {
                    // The target of a polling loop is unknown.
                    self.changes.remove_at_best(at, i);
                }
            }
        }
    }

    /// Let a collective at a position of the plan wait for the last collective before it on its stream. This matters if
    /// that collective is chosen, and other work between both no longer waits for it.
    fn keep_order_of_collectives(&mut self, at: u32, chosen: &FxHashSet<u32>, types: &mut NameTypes<'_>) {
        let plan = self.plan;
        let Some(i) = plan.range(at).find(|&i| self.is_edge(i, Dependency::is_stream_order)) else { return };
        let before = self.before_on_stream(plan.node[at as usize], |n| self.is_collective(n, types));
        let direct = plan.node[plan.edge(i).from as usize];
        if let Some(before) = before.filter(|before| *before != direct && chosen.contains(before)) {
            self.add_order(at, i, before);
        }
    }

    /// Let the operation at a position of the plan start after `before`, with the lag of its edge at `index`.
    fn add_order(&mut self, at: u32, index: usize, before: u32) {
        let (graph, plan) = (&self.exact.graph, self.plan);
        let lag = plan.edge(index).observed - plan.usual_slack(index);
        let node = plan.node[at as usize];
        let slack = graph.start[node as usize] - graph.end[before as usize] - lag;
        self.changes.add_edge(at, self.position_of(before), slack.max(0));
    }

    /// True if a node of GPU work is a collective.
    fn is_collective(&self, node: u32, types: &mut NameTypes<'_>) -> bool {
        let event = self.exact.trace.gpu.event[self.exact.graph.place[node as usize] as usize];
        types.of_event(event) == KernelType::Communication
    }

    /// Last wanted operation before `node` on its stream; `None` without one.
    fn before_on_stream(&self, node: u32, mut is_wanted: impl FnMut(u32) -> bool) -> Option<u32> {
        let into = |n: u32| self.exact.graph.edges_into(n).iter();
        let before = |n: u32| into(n).find(|e| e.dependency.is_stream_order()).map(|e| e.from);
        // Streams are finite; the limit prevents an endless loop in an invalid graph.
        let mut at = before(node)?;
        for _ in 0..self.plan.len() {
            if is_wanted(at) {
                return Some(at);
            }
            at = before(at)?;
        }
        None
    }
}
