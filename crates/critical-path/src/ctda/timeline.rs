//! Merge of the threads of a process into one logical thread (section 3.2.2 of the paper). Under the GIL, only one
//! thread runs at a time.

use super::stacks::{Priority, Segment, Thread};
use stackline_model::EventId;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// CPython's switch interval in ns. Between two pieces of work of one thread with a smaller distance, Python frames of
/// other threads wait, because a thread that got the GIL would keep it as long.
const SWITCH_INTERVAL_NS: i64 = 5_000_000;

/// Time range of a logical thread in which one event runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Event that ran; [`EventId::NONE`] for a Python frame that is too short to matter.
    pub(super) event: EventId,
    /// Position of the piece's thread among those of the process.
    pub(super) thread: u32,
    pub(super) priority: Priority,
}

/// Merge the activity of all threads of a process into disjoint pieces in time order.
pub(super) fn merge(threads: &[Thread]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    if let [only] = threads {
        only.segments.iter().for_each(|s| pieces.push(piece(s, 0, s.start, s.end)));
        return pieces;
    }
    let mut work: Vec<(Segment, u32)> = Vec::new();
    for (thread, t) in (0u32..).zip(threads) {
        work.extend(t.segments.iter().filter(|s| s.priority == Priority::Work).map(|&s| (s, thread)));
    }
    // Threads have a fixed order, so the result does not depend on the order of the file.
    work.sort_by_key(|(s, thread)| (s.start, Reverse(s.end), *thread));
    let mut gaps = GapFiller { threads, position: vec![0; threads.len()] };
    let mut now = i64::MIN;
    let mut last = None;
    for (i, &(segment, thread)) in work.iter().enumerate() {
        if segment.start > now {
            gaps.fill(now, segment.start, last, Some(thread), &mut pieces);
            now = segment.start;
        }
        // A segment that starts later takes precedence, as the latest activity of the process.
        let until = work.get(i + 1).map_or(i64::MAX, |(next, _)| next.start).min(segment.end);
        if until > now {
            pieces.push(piece(&segment, thread, now, until));
            now = until;
        }
        last = Some(thread);
    }
    gaps.fill(now, i64::MAX, last, None, &mut pieces);
    join(&mut pieces);
    pieces
}

/// Create the piece of a thread's segment, limited to the time range from `start` to `end`.
fn piece(segment: &Segment, thread: u32, start: i64, end: i64) -> Piece {
    Piece { start, end, event: segment.event, thread, priority: segment.priority }
}

/// Join adjacent pieces of one event.
fn join(pieces: &mut Vec<Piece>) {
    pieces.dedup_by(|next, kept| {
        let same = kept.event == next.event && kept.end == next.start;
        if same {
            kept.end = next.end;
        }
        same
    });
}

/// Search for the Python code and waits that fill the gaps between operators and calls of all threads.
struct GapFiller<'a> {
    threads: &'a [Thread],
    /// Per thread: the first segment that may overlap the next gap.
    position: Vec<usize>,
}

impl GapFiller<'_> {
    /// Append pieces of Python code and waits for the gap from `start` to `end`, which lies between work of the threads
    /// `before` and `after`.
    fn fill(&mut self, start: i64, end: i64, before: Option<u32>, after: Option<u32>, pieces: &mut Vec<Piece>) {
        let mut found = Vec::new();
        match (before, after) {
            (Some(a), Some(b)) if a == b && end.saturating_sub(start) < SWITCH_INTERVAL_NS => {
                self.collect_segments(a, start, end, &mut found);
            }
            _ => (0..self.threads.len() as u32).for_each(|t| self.collect_segments(t, start, end, &mut found)),
        }
        if found.iter().all(|p| Some(p.piece.thread) == found.first().map(|f| f.piece.thread)) {
            pieces.extend(found.into_iter().map(|c| c.piece));
        } else {
            choose(&found, pieces);
        }
    }

    /// Add the segments of a thread in a gap to the candidates `found`, limited to the gap.
    fn collect_segments(&mut self, thread: u32, start: i64, end: i64, found: &mut Vec<Candidate>) {
        let segments = &self.threads[thread as usize].segments;
        let at = &mut self.position[thread as usize];
        while segments.get(*at).is_some_and(|s| s.end <= start) {
            *at += 1;
        }
        for segment in segments[*at..].iter().take_while(|s| s.start < end) {
            let piece = piece(segment, thread, segment.start.max(start), segment.end.min(end));
            found.push(Candidate { piece, since: segment.start });
        }
    }
}

/// Piece that could fill part of a gap, with the start of its whole segment.
struct Candidate {
    piece: Piece,
    since: i64,
}

/// Append the pieces of a gap: at each time, the candidate that began last. Waiting candidates have the lowest
/// priority.
fn choose(found: &[Candidate], pieces: &mut Vec<Piece>) {
    let mut points: Vec<(i64, bool, usize)> = Vec::with_capacity(2 * found.len());
    for (i, candidate) in found.iter().enumerate() {
        points.push((candidate.piece.start, true, i));
        points.push((candidate.piece.end, false, i));
    }
    points.sort_unstable();
    let key = |i: usize| (found[i].piece.priority != Priority::Wait, found[i].since, Reverse(found[i].piece.thread), i);
    let mut active = BTreeSet::new();
    let mut now = i64::MIN;
    for (at, begins, i) in points {
        if at > now
            && let Some(&(_, _, _, best)) = active.last()
        {
            let best: &Candidate = &found[best];
            pieces.push(Piece { start: now, end: at, ..best.piece });
        }
        now = now.max(at);
        if begins {
            active.insert(key(i))
        } else {
            active.remove(&key(i))
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::TrackId;

    fn thread(segments: &[(i64, i64, u32, Priority)]) -> Thread {
        let segment = |&(start, end, event, priority): &(i64, i64, u32, Priority)| Segment {
            start,
            end,
            event: EventId(event),
            priority,
        };
        Thread { track: TrackId(0), segments: segments.iter().map(segment).collect(), calls: Vec::new() }
    }

    fn shown(threads: &[Thread]) -> Vec<(i64, i64, u32)> {
        merge(threads).iter().map(|p| (p.start, p.end, p.event.0)).collect()
    }

    #[test]
    fn work_alternates_and_waits_have_lowest_priority() {
        let main = thread(&[(0, 10, 1, Priority::Work), (10, 60, 2, Priority::Wait), (60, 70, 3, Priority::Work)]);
        let autograd = thread(&[(20, 30, 4, Priority::Work), (33, 50, 5, Priority::Work)]);
        // The gap of 3 between the backward pieces stays empty. During handovers only the waiting frame is active.
        let expected = [(0, 10, 1), (10, 20, 2), (20, 30, 4), (33, 50, 5), (50, 60, 2), (60, 70, 3)];
        assert_eq!(shown(&[main, autograd]), expected);
    }

    #[test]
    fn preempted_work_resumes_only_after_a_long_gap() {
        let long = 2 * SWITCH_INTERVAL_NS;
        let main = thread(&[(0, 100 + long, 1, Priority::Work)]);
        let other = thread(&[
            (10, 20, 2, Priority::Work),
            (30, 40, 3, Priority::Work),
            (40 + long, 50 + long, 4, Priority::Work),
        ]);
        let end = 50 + long;
        let expected =
            [(0, 10, 1), (10, 20, 2), (30, 40, 3), (40, 40 + long, 1), (40 + long, end, 4), (end, 100 + long, 1)];
        assert_eq!(shown(&[main, other]), expected);
    }

    #[test]
    fn python_is_attributed_to_the_latest_start() {
        let a = thread(&[(0, 100, 1, Priority::Python)]);
        let b = thread(&[(20, 40, 2, Priority::Python), (40, 90, 3, Priority::Wait)]);
        assert_eq!(shown(&[a, b]), [(0, 20, 1), (20, 40, 2), (40, 100, 1)]);
    }
}
