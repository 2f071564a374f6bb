//! Index of the threads that hold Python's GIL over time, by process.

use super::thread_timelines::ThreadTimeline;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, Key, Trace};

/// Time range in which a thread may hold the GIL: its outermost span is one Python frame, or several adjacent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GilHolder {
    /// Next pause of the thread.
    pause: i64,
    lane: usize,
    from: i64,
    to: i64,
}

/// Python time ranges of one process, sorted by the following pause.
struct ProcessHolders {
    bursts: Vec<GilHolder>,
    /// Segment tree over the ranges with earliest start and latest end. The children of node `i` are `2 i` and `2 i +
    /// 1`.
    spans: Vec<(i64, i64)>,
    leaves: usize,
}

/// Threads that hold Python's GIL over time, by process.
pub(super) struct GilHolders(FxHashMap<Key, ProcessHolders>);

impl GilHolders {
    /// Index the Python time ranges of all threads in processes with several threads.
    pub(super) fn new(trace: &Trace, lanes: &[ThreadTimeline]) -> Self {
        let mut found: FxHashMap<Key, Vec<GilHolder>> = FxHashMap::default();
        let mut is_python = PythonRoots::new(trace);
        let mut threads: FxHashMap<Key, u32> = FxHashMap::default();
        for lane in lanes {
            *threads.entry(trace.tracks.pid(lane.track)).or_default() += 1;
        }
        for (number, lane) in lanes.iter().enumerate().filter(|(_, lane)| lane.span_counts.python > 0) {
            let pid = trace.tracks.pid(lane.track);
            // A single thread waits for no other.
            if threads.get(&pid).is_some_and(|&n| n > 1) {
                add_bursts(&mut is_python, (number, lane), found.entry(pid).or_default());
            }
        }
        Self(found.into_iter().map(|(pid, bursts)| (pid, ProcessHolders::new(bursts))).collect())
    }

    /// Next pause of a thread of the process that runs Python at the time `at`, as (time, lane); `None` if no thread
    /// does.
    ///
    /// Of several threads, the one with the latest pause up to `until` is returned.
    pub(super) fn next_pause(&self, pid: Key, at: i64, until: i64) -> Option<(i64, usize)> {
        let found = self.0.get(&pid)?.latest_range(at, until)?;
        Some((found.pause, found.lane))
    }
}

/// Append the Python time ranges of one thread, each with the thread's next pause; adjacent ranges are joined.
fn add_bursts(roots: &mut PythonRoots<'_>, (number, lane): (usize, &ThreadTimeline), found: &mut Vec<GilHolder>) {
    let begins = found.len();
    let mut pauses = lane.gaps.iter().copied().peekable();
    for (i, piece) in lane.pieces.iter().enumerate() {
        if piece.event.is_none() || !roots.is_python(piece.event) {
            continue;
        }
        while pauses.next_if(|&pause| pause < piece.start).is_some() {}
        let Some(&pause) = pauses.peek() else { break };
        let to = lane.piece_end(i);
        match found[begins..].last_mut() {
            Some(last) if last.to == piece.start => last.to = to,
            _ => found.push(GilHolder { pause, lane: number, from: piece.start, to }),
        }
    }
}

impl ProcessHolders {
    /// Sort the time ranges of a process by pause, and build the segment tree over them.
    fn new(mut bursts: Vec<GilHolder>) -> Self {
        bursts.sort_unstable_by_key(|b| (b.pause, b.lane, b.from));
        let leaves = bursts.len().next_power_of_two();
        let mut spans = vec![(i64::MAX, i64::MIN); 2 * leaves];
        for (span, burst) in spans[leaves..].iter_mut().zip(&bursts) {
            *span = (burst.from, burst.to);
        }
        for i in (1..leaves).rev() {
            let (a, b) = (spans[2 * i], spans[2 * i + 1]);
            spans[i] = (a.0.min(b.0), a.1.max(b.1));
        }
        Self { bursts, spans, leaves }
    }

    /// Python time range that contains the time `at`; of several, the one with the latest pause up to `until`.
    fn latest_range(&self, at: i64, until: i64) -> Option<&GilHolder> {
        let to = self.bursts.partition_point(|b| b.pause <= until);
        self.search((1, 0, self.leaves), to, at).and_then(|i| self.bursts.get(i))
    }

    /// Search the segment tree for the last range before the position `to` that contains a time. The tree node is given
    /// as (number, first leaf, number of leaves).
    fn search(&self, (node, first, count): (usize, usize, usize), to: usize, at: i64) -> Option<usize> {
        let (from, end) = self.spans[node];
        if first >= to || from > at || end <= at {
            return None;
        }
        if count == 1 {
            return Some(first);
        }
        let half = count / 2;
        let later = self.search((2 * node + 1, first + half, half), to, at);
        later.or_else(|| self.search((2 * node, first, half), to, at))
    }
}

/// Cache, per event, of the test whether its outermost enclosing span is a Python frame.
struct PythonRoots<'a> {
    trace: &'a Trace,
    known: Vec<Option<bool>>,
}

impl<'a> PythonRoots<'a> {
    /// Create an empty cache for the events of a trace.
    fn new(trace: &'a Trace) -> Self {
        Self { trace, known: vec![None; trace.events.len()] }
    }

    /// True if the outermost span around an event is a Python frame.
    fn is_python(&mut self, event: EventId) -> bool {
        let mut visited = Vec::new();
        let mut at = event;
        let found = loop {
            if let Some(known) = self.known[at.index()] {
                break known;
            }
            visited.push(at);
            match self.trace.events.parent[at.index()].some() {
                Some(parent) => at = parent,
                None => break self.trace.kind(at) == EventKind::PythonFunction,
            }
        };
        for event in visited {
            self.known[event.index()] = Some(found);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn search_finds_the_last_pause(
            drawn in proptest::collection::vec((0i64..50, 1i64..20, 0i64..10, 0usize..6), 0..40),
            at in 0i64..70,
            until in 0i64..90,
        ) {
            let burst = |(from, length, more, lane)| GilHolder { pause: from + length + more, lane, from, to: from + length };
            let all: Vec<GilHolder> = drawn.into_iter().map(burst).collect();
            let holds = |b: &&GilHolder| b.pause <= until && b.from <= at && at < b.to;
            let expected = all.iter().filter(holds).map(|b| (b.pause, b.lane)).max();
            let found = ProcessHolders::new(all.clone());
            prop_assert_eq!(found.latest_range(at, until).map(|b| (b.pause, b.lane)), expected);
        }
    }
}
