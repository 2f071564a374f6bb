//! Time of host threads that edits shorten or lengthen.

use super::super::Exact;
use super::super::graph::NodeKind;
use super::replay::{Changes, Plan};
use super::scaled::scaled;

/// Time range of a host thread that one edit scales, with its factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) lane: u32,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) factor: f64,
}

/// Time range with the combined factor of all edits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    from: i64,
    to: i64,
    factor: f64,
}

/// Scaled time ranges of each host thread, disjoint and in time order.
pub(super) struct HostTime(Vec<Box<[Segment]>>);

impl HostTime {
    /// Group scaled time ranges by thread. Where ranges overlap, their factors are multiplied.
    pub(super) fn new(lanes: usize, mut cuts: Vec<Cut>) -> Self {
        cuts.sort_unstable_by(|a, b| {
            (a.lane, a.from, a.to).cmp(&(b.lane, b.from, b.to)).then(a.factor.total_cmp(&b.factor))
        });
        let mut segments = vec![Box::default(); lanes];
        for of_lane in cuts.chunk_by(|a, b| a.lane == b.lane) {
            if let Some(list) = segments.get_mut(of_lane[0].lane as usize) {
                *list = merged(of_lane).into();
            }
        }
        Self(segments)
    }

    /// Start of the first changed time range of any thread; `None` without changed ranges.
    pub(super) fn first_change(&self) -> Option<i64> {
        self.0.iter().filter_map(|segments| segments.first()).map(|segment| segment.from).min()
    }

    /// Total change, in ns, of a thread's time between two recorded times.
    pub(super) fn change(&self, lane: u32, from: i64, to: i64) -> i64 {
        let list = &self.0[lane as usize];
        let first = list.partition_point(|s| s.to <= from);
        list[first..].iter().take_while(|s| s.from < to).map(|s| s.change(from, to)).sum()
    }

    /// Add the time that the scaled ranges remove or add to the durations of host nodes in `changes`.
    pub(super) fn apply(&self, exact: &Exact<'_>, plan: &Plan, changes: &mut Changes) {
        let graph = &exact.graph;
        for (lane, list) in self.0.iter().enumerate() {
            let (first, last) = exact.lane_nodes[lane];
            let ends = &graph.end[first as usize..last as usize];
            for segment in list {
                let mut node = first + ends.partition_point(|&end| end <= segment.from) as u32;
                while node < last && graph.start[node as usize] < segment.to {
                    if graph.kind[node as usize] == NodeKind::Host {
                        let change = segment.change(graph.start[node as usize], graph.end[node as usize]);
                        changes.add_time(plan, plan.position[node as usize], change);
                    }
                    node += 1;
                }
            }
        }
    }
}

impl Segment {
    /// Change, in ns, of the time that the segment shares with the range from `from` to `to`.
    fn change(&self, from: i64, to: i64) -> i64 {
        let shared = (self.to.min(to) - self.from.max(from)).max(0);
        scaled(shared, self.factor) - shared
    }
}

/// Remove host time that may be a wait from scaled ranges; `None` if they contain no such time. The end of such a wait
/// is not in the trace, so an edit may not affect it.
pub(super) fn cuts_without_waits(exact: &Exact<'_>, cuts: &[Cut]) -> Option<Vec<Cut>> {
    let may_wait = exact.may_wait();
    let mut kept = Vec::with_capacity(cuts.len());
    let mut found = false;
    for cut in cuts {
        if cut.factor >= 1.0 {
            kept.push(*cut);
            continue;
        }
        let lane = &exact.lanes[cut.lane as usize];
        let first = lane.piece_at(cut.from).unwrap_or(0);
        let inside = (first..lane.pieces.len()).take_while(|&piece| lane.pieces[piece].start < cut.to);
        for piece in inside {
            let (from, to) = (lane.pieces[piece].start.max(cut.from), lane.piece_end(piece).min(cut.to));
            if may_wait.in_span(lane.pieces[piece].event) {
                found |= from < to;
            } else if from < to {
                match kept.last_mut().filter(|last| (last.lane, last.to, last.factor) == (cut.lane, from, cut.factor)) {
                    Some(last) => last.to = to,
                    None => kept.push(Cut { from, to, ..*cut }),
                }
            }
        }
    }
    found.then_some(kept)
}

/// Merge cuts of one lane, sorted by start, into disjoint segments with multiplied factors.
fn merged(cuts: &[Cut]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut open: Vec<Cut> = Vec::new();
    let mut at = i64::MIN;
    let mut next = cuts.iter().peekable();
    while next.peek().is_some() || !open.is_empty() {
        let begins = next.peek().map_or(i64::MAX, |c| c.from);
        let ends = open.iter().map(|c| c.to).min().unwrap_or(i64::MAX);
        let to = begins.min(ends);
        if !open.is_empty() && at < to {
            let factor = open.iter().map(|c| c.factor).product();
            segments.push(Segment { from: at, to, factor });
        }
        at = to;
        open.retain(|c| c.to > at);
        while let Some(cut) = next.next_if(|c| c.from <= at) {
            open.push(*cut);
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_of_nested_cuts_multiply() {
        let cut = |from, to, factor| Cut { lane: 0, from, to, factor };
        let time = HostTime::new(1, vec![cut(10, 30, 0.5), cut(15, 20, 0.0), cut(40, 50, 2.0)]);
        let segment = |from, to, factor| Segment { from, to, factor };
        let expected = vec![segment(10, 15, 0.5), segment(15, 20, 0.0), segment(20, 30, 0.5), segment(40, 50, 2.0)];
        assert_eq!(*time.0[0], *expected);
        assert_eq!(time.change(0, 0, 100), -2 - 5 - 5 + 10);
        assert_eq!(time.change(0, 16, 18), -2);
        assert_eq!(time.change(0, 30, 40), 0);
    }
}
