//! Slack: time by which an event may take longer without moving the end of a window.

use super::graph::NONE;
use super::path::ExactPath;
use super::thread_timelines::is_span;
use super::{Exact, NodeKind, Window};
use rustc_hash::FxHashMap;
use serde::Serialize;
use stackline_model::{EventId, EventKind, StrId};

/// False hotspot: an event name with large total time, of which little is on the critical path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FalseHotspot {
    /// Name of kernels or operators.
    pub name: String,
    /// `gpu` or `host`.
    pub resource: &'static str,
    /// Number of events in the window.
    pub calls: usize,
    /// Total time in the window in ns; for operators without their callees.
    pub total_ns: i64,
    /// Time on the critical path in ns.
    pub on_path_ns: i64,
    /// Minimum slack of the events in ns.
    pub min_slack_ns: i64,
    /// Median slack in ns.
    pub median_slack_ns: i64,
}

/// An event with its slack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSlack<'a> {
    /// Position in the source's event list.
    pub event: u32,
    /// Name of the event.
    pub name: &'a str,
    /// Kind of the event.
    pub kind: EventKind,
    /// Start in ns since the start of the window.
    pub start_ns: i64,
    /// Length of the event in ns.
    pub dur_ns: i64,
    /// Time in ns by which the event may end later without moving the end of the window.
    pub slack_ns: i64,
}

/// Total time, time on the path and slacks, in ns, of the events of one name.
#[derive(Default)]
struct Sum {
    total: i64,
    on_path: i64,
    slacks: Vec<i64>,
}

impl Exact<'_> {
    /// Slack of each node in ns: the time by which it may end later without moving the end of the window. Nodes without
    /// dependents may last until the end of the window. Nodes that end after the window have slack 0.
    pub fn slack(&self, window: Window) -> Vec<i64> {
        let graph = &self.graph;
        // Work that ends after the window delays nothing in it.
        let unbound = |end: i64| if end > window.end { i64::MAX / 2 } else { window.end };
        let mut late: Vec<i64> = graph.end.iter().map(|&end| unbound(end)).collect();
        if window.anchor != NONE {
            late[window.anchor as usize] = graph.end[window.anchor as usize];
        }
        for &node in graph.order.iter().rev() {
            let dur = graph.end[node as usize] - graph.start[node as usize];
            let late_start = late[node as usize] - dur;
            for edge in graph.edges_into(node) {
                let bound = late_start - edge.lag;
                let slot = &mut late[edge.from as usize];
                *slot = (*slot).min(bound);
            }
        }
        let of = |(&late, &end): (&i64, &i64)| (late.min(window.end) - end).max(0);
        late.iter().zip(&graph.end).map(of).collect()
    }

    /// Slack of a host span in ns: the minimum over the nodes in which the span runs.
    fn slack_of_span(&self, slack: &[i64], lane: usize, start: i64, end: i64) -> i64 {
        let (from, to) = self.lane_nodes[lane];
        let ends = &self.graph.end[from as usize..to as usize];
        let first = from as usize + ends.partition_point(|&e| e <= start);
        let nodes = (first..to as usize).take_while(|&n| self.graph.start[n] < end);
        // A span inside a wait has no node, so the node after the wait counts.
        nodes.map(|n| slack[n]).min().or_else(|| slack[..to as usize].get(first).copied()).unwrap_or(0)
    }

    /// Slack of all events in a window: GPU operations and spans of threads, sorted by start, then in the order of the
    /// source. A span has the minimum slack of all work inside it, so a frame around the whole program has slack 0.
    pub fn event_slacks(&self, window: Window) -> Vec<EventSlack<'_>> {
        let (slack, events) = (self.slack(window), &self.trace.events);
        let inside = |event: EventId| events.start[event.index()] < window.end && events.end(event) > window.start;
        let row = |event: EventId, slack_ns: i64| EventSlack {
            event: events.source_index[event.index()],
            name: self.trace.name(event),
            kind: self.trace.kind(event),
            start_ns: events.start[event.index()] - window.start,
            dur_ns: events.dur[event.index()],
            slack_ns,
        };
        let operations = (0..self.graph.len() as u32).filter_map(|node| {
            let event = self.trace.gpu.event[self.graph.gpu(node)?.index()];
            inside(event).then(|| row(event, slack[node as usize]))
        });
        let spans = self.lanes.iter().enumerate().flat_map(|(lane, of)| {
            let spans = self.trace.track_events(of.track).iter().filter(|&&e| is_span(self.trace, e) && inside(e));
            spans.map(move |&e| (lane, e))
        });
        let spans = spans.map(|(lane, event)| {
            let (start, end) = (events.start[event.index()].max(window.start), events.end(event).min(window.end));
            row(event, self.slack_of_span(&slack, lane, start, end))
        });
        let mut rows: Vec<EventSlack<'_>> = operations.chain(spans).collect();
        rows.sort_unstable_by_key(|row| (row.start_ns, row.event));
        rows
    }

    /// True if slack is unknown, because the clocks of host and GPU disagree by more than 1 % of the window.
    pub fn slack_is_unknown(&self, window: Window) -> bool {
        self.clocks_differ_ns() > window.length_ns() / 100
    }

    /// False hotspots: names with more than 1 % of the window in total, of which less than 10 % is on the path, sorted
    /// by total time. Empty if the clocks of host and GPU disagree by more than 1 %, because slack between them is then
    /// unknown.
    pub fn false_hotspots(&self, path: &ExactPath) -> Vec<FalseHotspot> {
        if self.slack_is_unknown(path.window) {
            return Vec::new();
        }
        let slack = self.slack(path.window);
        let mut sums: FxHashMap<(bool, StrId), Sum> = FxHashMap::default();
        self.sum_gpu(path.window, &slack, &mut sums);
        self.add_operator_sums(path.window, &slack, &mut sums);
        for segment in path
            .segments
            .iter()
            .filter(|h| h.event.is_some() && matches!(h.rule, "record" | "innermost_span" | "wait_samples"))
        {
            let is_gpu = self.trace.kind(segment.event).is_gpu_work();
            if let Some(sum) = sums.get_mut(&(is_gpu, self.trace.events.name[segment.event.index()])) {
                sum.on_path += segment.end - segment.start;
            }
        }
        let floor = path.window.length_ns() / 100;
        let mut found: Vec<FalseHotspot> = sums
            .into_iter()
            .filter(|(_, sum)| sum.total > floor && sum.on_path < sum.total / 10)
            .map(|((is_gpu, name), mut sum)| {
                let middle = sum.slacks.len() / 2;
                FalseHotspot {
                    name: self.trace.strings.get(name).to_owned(),
                    resource: if is_gpu { "gpu" } else { "host" },
                    calls: sum.slacks.len(),
                    total_ns: sum.total,
                    on_path_ns: sum.on_path,
                    min_slack_ns: sum.slacks.iter().copied().min().unwrap_or(0),
                    median_slack_ns: *sum.slacks.select_nth_unstable(middle).1,
                }
            })
            .collect();
        found.sort_by(|a, b| {
            b.total_ns.cmp(&a.total_ns).then_with(|| (a.resource, &a.name).cmp(&(b.resource, &b.name)))
        });
        found
    }

    /// Add the time in the window and the slack of each GPU operation to the sums by name.
    fn sum_gpu(&self, window: Window, slack: &[i64], sums: &mut FxHashMap<(bool, StrId), Sum>) {
        let graph = &self.graph;
        for node in (0..graph.len()).filter(|&n| graph.kind[n] == NodeKind::Gpu) {
            let inside = graph.end[node].min(window.end) - graph.start[node].max(window.start);
            if inside > 0 {
                let event = self.trace.gpu.event[graph.place[node] as usize];
                let sum = sums.entry((true, self.trace.events.name[event.index()])).or_default();
                sum.total += inside;
                sum.slacks.push(slack[node]);
            }
        }
    }

    /// Add the self time and minimum slack of the operators in a window to the sums by name.
    fn add_operator_sums(&self, window: Window, slack: &[i64], sums: &mut FxHashMap<(bool, StrId), Sum>) {
        for (index, lane) in self.lanes.iter().enumerate() {
            let mut least: FxHashMap<EventId, i64> = FxHashMap::default();
            for (i, piece) in lane.pieces.iter().enumerate() {
                let (start, end) = (piece.start.max(window.start), lane.piece_end(i).min(window.end));
                if start >= end || piece.event.is_none() || self.trace.kind(piece.event) != EventKind::Operator {
                    continue;
                }
                let sum = sums.entry((false, self.trace.events.name[piece.event.index()])).or_default();
                sum.total += end - start;
                let found = self.slack_of_span(slack, index, start, end);
                least.entry(piece.event).and_modify(|l| *l = found.min(*l)).or_insert(found);
            }
            let mut least: Vec<(EventId, i64)> = least.into_iter().collect();
            least.sort_unstable();
            for (event, slack) in least {
                let sum = sums.entry((false, self.trace.events.name[event.index()])).or_default();
                sum.slacks.push(slack);
            }
        }
    }
}
