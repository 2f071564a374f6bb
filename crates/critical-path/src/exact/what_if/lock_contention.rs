//! Uncertainty of a prediction because threads may get locks and the GIL in another order after an edit.
//!
//! A thread that requests a lock waits until the current holder releases it. The replay keeps the recorded waits. This
//! module finds waits that an edit would add or remove.

use super::super::Exact;
use super::super::graph::{Dependency, NodeKind};
use super::super::names::bits;
use super::super::thread_timelines::ThreadTimeline;
use super::super::wakeups::ThreadRule;
use super::order_conflicts::{Interval, Point, covered, find_order_conflicts};
use crate::gpu_dependency::Reason;
use stackline_model::{EventId, EventKind};

/// Lock holders and requests of one process.
#[derive(Default)]
struct Group {
    /// Per lane: disjoint time ranges in which it holds the lock, in time order.
    holds: Vec<(u32, Vec<(i64, i64)>)>,
    /// Lane and time of each request.
    requests: Vec<(u32, i64)>,
}

impl Group {
    /// True if the spans of a group of threads can hold one lock in turn. If on average more than two threads hold the
    /// lock at a time, the spans do not identify the holder.
    fn can_hold_in_turn(&self) -> bool {
        let all: Vec<(i64, i64)> = self.holds.iter().flat_map(|(_, holds)| holds).copied().collect();
        let sum: i64 = all.iter().map(|(from, to)| to - from).sum();
        sum / 2 <= covered(all)
    }
}

/// Groups of threads that contend for a lock or the GIL, with the times at which each thread holds it.
pub(super) struct LockContention {
    /// Per node: true if a lock, the GIL or a full queue released it.
    pub(super) is_lock_release: Vec<bool>,
    groups: Vec<Group>,
}

/// Maximum change of a window's length, in ns, if threads get locks in another order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OrderUncertainty {
    pub(super) longer: i64,
    pub(super) shorter: i64,
}

impl LockContention {
    /// Find the waits for locks, the GIL and full queues, and the holders of locks and the GIL per process.
    pub(super) fn new(exact: &Exact<'_>) -> Self {
        let graph = &exact.graph;
        let mut is_lock_release = vec![false; graph.len()];
        for node in 0..graph.len() as u32 {
            let Some(edge) = graph.binding_edge(node) else { continue };
            is_lock_release[node as usize] = match edge.dependency {
                Dependency::Sync(Reason::BackPressure) | Dependency::Thread(ThreadRule::InterpreterLock, _) => true,
                Dependency::Thread(ThreadRule::Wakes, _) => follows_lock_wait(exact, node),
                _ => false,
            };
        }
        let mut groups = Vec::new();
        groups.extend(lock_groups(exact));
        groups.extend(gil_groups(exact).into_iter().filter(Group::can_hold_in_turn));
        groups.retain(|group| group.holds.len() > 1);
        Self { is_lock_release, groups }
    }

    /// Create a state in which no thread waits for locks or the GIL.
    #[cfg(test)]
    pub(super) fn no_contention(nodes: usize) -> Self {
        Self { is_lock_release: vec![false; nodes], groups: Vec::new() }
    }

    /// Maximum time that another order of lock holders may add or remove. `moved` returns the time of a point on a lane
    /// after an edit.
    pub(super) fn order_uncertainty(&self, moved: impl Fn(u32, i64) -> i64) -> OrderUncertainty {
        let (mut uncertainty, mut longest) = (OrderUncertainty::default(), 0);
        for group in &self.groups {
            let of_lane = |(lane, holds): &(u32, Vec<(i64, i64)>)| {
                let lane = *lane;
                let both = |&(from, to): &(i64, i64)| Interval {
                    group: lane,
                    x: (from, to),
                    y: (moved(lane, from), moved(lane, to)),
                    length: to - from,
                };
                holds.iter().map(both).collect::<Vec<_>>()
            };
            let before: Vec<Interval> = group.holds.iter().flat_map(of_lane).collect();
            let point = |&(lane, at): &(u32, i64)| Point { group: lane, x: at, y: moved(lane, at) };
            let requests: Vec<Point> = group.requests.iter().map(point).collect();
            let after: Vec<Interval> = before.iter().map(|s| Interval { x: s.y, y: s.x, ..*s }).collect();
            let requests_after: Vec<Point> = requests.iter().map(|m| Point { x: m.y, y: m.x, ..*m }).collect();
            // Removed waits, and added ones.
            let (removed, new) =
                (find_order_conflicts(&before, &requests), find_order_conflicts(&after, &requests_after));
            uncertainty.shorter = uncertainty.shorter.saturating_add(removed.left);
            uncertainty.longer = uncertainty.longer.saturating_add(new.left);
            longest = longest.max(removed.longest).max(new.longest);
        }
        // One changed wait affects others.
        OrderUncertainty {
            longer: uncertainty.longer.saturating_add(longest),
            shorter: uncertainty.shorter.saturating_add(longest),
        }
    }
}

/// True if a node follows a wait for a lock.
fn follows_lock_wait(exact: &Exact<'_>, node: u32) -> bool {
    let graph = &exact.graph;
    if graph.kind[node as usize] == NodeKind::Gpu {
        return false;
    }
    let lane = &exact.lanes[graph.place[node as usize] as usize];
    let event = lane.piece_before(graph.start[node as usize]).map(|p| lane.pieces[p].event);
    event.is_some_and(|e| e.is_some() && exact.names.flags(exact.trace, e) & bits::LOCKS != 0)
}

/// Lanes that pass a test, grouped by process.
fn lanes_by_process(exact: &Exact<'_>, test: impl Fn(&ThreadTimeline) -> bool) -> Vec<Vec<usize>> {
    let mut lanes: Vec<usize> = (0..exact.lanes.len()).filter(|&lane| test(&exact.lanes[lane])).collect();
    let pid = |lane: &usize| exact.trace.tracks.pid(exact.lanes[*lane].track);
    lanes.sort_by_key(|lane| (pid(lane), *lane));
    lanes.chunk_by(|a, b| pid(a) == pid(b)).map(<[usize]>::to_vec).collect()
}

/// Holders and requests of locks, by process. A lock is requested at the start of an acquiring frame, and held from its
/// end to the end of the next releasing frame.
fn lock_groups(exact: &Exact<'_>) -> Vec<Group> {
    let marks = |event: EventId| if event.is_some() { exact.names.flags(exact.trace, event) } else { 0 };
    let acquires = |event: EventId| marks(event) & bits::LOCKS != 0;
    let releases = |event: EventId| marks(event) & bits::RELEASES != 0;
    let of_process = |lanes: Vec<usize>| {
        let mut group = Group::default();
        for number in lanes {
            let lane = &exact.lanes[number];
            let (mut holds, mut since) = (Vec::new(), None);
            for (i, piece) in lane.pieces.iter().enumerate() {
                if acquires(piece.event) {
                    group.requests.push((number as u32, piece.start));
                    since = Some(lane.piece_end(i));
                } else if let Some(from) = since
                    && releases(piece.event)
                {
                    holds.push((from, lane.piece_end(i)));
                    since = None;
                }
            }
            group.holds.push((number as u32, holds));
        }
        group
    };
    lanes_by_process(exact, |lane| lane.pieces.iter().any(|p| acquires(p.event))).into_iter().map(of_process).collect()
}

/// Holders and requests of the GIL, by process. The GIL is requested at the start of each pause between spans of a
/// thread, and held by time ranges of Python.
fn gil_groups(exact: &Exact<'_>) -> Vec<Group> {
    let of_process = |lanes: Vec<usize>| {
        let mut group = Group::default();
        for number in lanes {
            let lane = &exact.lanes[number];
            let (_, requests) = lane.gaps.split_last().unwrap_or((&0, &[]));
            group.requests.extend(requests.iter().map(|&gap| (number as u32, gap)));
            group.holds.push((number as u32, python_ranges(exact, lane)));
        }
        group
    };
    lanes_by_process(exact, |lane| lane.gaps.len() > 1 && lane.span_counts.python > 0)
        .into_iter()
        .map(of_process)
        .collect()
}

/// Time ranges of a lane between two gaps whose first outermost span is a Python frame.
fn python_ranges(exact: &Exact<'_>, lane: &ThreadTimeline) -> Vec<(i64, i64)> {
    let mut began: Option<(i64, EventId)> = None;
    let mut found = Vec::new();
    for piece in &lane.pieces {
        if piece.event.is_some() {
            began = began.or(Some((piece.start, piece.event)));
            continue;
        }
        let Some((from, event)) = began.take() else { continue };
        let root = exact.trace.ancestors(event).last().unwrap_or(event);
        if exact.trace.kind(root) == EventKind::PythonFunction {
            found.push((from, piece.start));
        }
    }
    found
}
