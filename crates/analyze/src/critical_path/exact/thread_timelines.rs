//! Thread timelines: the innermost span of each host thread at each moment.

use stackline_model::{EventId, EventKind, Key, Trace, TrackId, TrackKind};

/// From `start` to the start of the next piece, `event` was the innermost span; none in gaps. Packed, since there are
/// more of them than events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(super) struct Piece {
    pub(super) start: i64,
    pub(super) event: EventId,
}

/// Timeline of one host thread.
pub(super) struct ThreadTimeline {
    pub(super) track: TrackId,
    /// In time order; neighbours differ. The last one is a gap that starts at the end of the lane.
    pub(super) pieces: Vec<Piece>,
    /// Starts of the gaps, in time order.
    pub(super) gaps: Vec<i64>,
    /// What the thread runs.
    pub(super) has: Has,
}

/// Which kinds of spans a thread has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Has {
    pub(super) operators: u32,
    pub(super) python: u32,
    pub(super) annotations: u32,
    pub(super) calls: u32,
}

impl ThreadTimeline {
    /// All host threads that have spans, by process and thread number.
    pub(super) fn all(trace: &Trace) -> Vec<Self> {
        let mut tracks: Vec<TrackId> =
            trace.tracks.ids().filter(|&t| trace.tracks.get(t).kind == TrackKind::Thread).collect();
        let number = |key: Key| (key.as_int(), trace.key_text(key));
        tracks.sort_by_cached_key(|&t| (number(trace.tracks.pid(t)), number(trace.tracks.get(t).tid)));
        tracks.into_iter().filter_map(|track| Self::new(trace, track)).collect()
    }

    fn new(trace: &Trace, track: TrackId) -> Option<Self> {
        let mut spans: Vec<EventId> =
            trace.track_events(track).iter().copied().filter(|&e| is_span(trace, e)).collect();
        outermost_first(trace, &mut spans);
        let mut sweep = Sweep::default();
        let mut has = Has::default();
        for event in spans {
            match trace.kind(event) {
                EventKind::Operator => has.operators += 1,
                EventKind::PythonFunction => has.python += 1,
                EventKind::Annotation => has.annotations += 1,
                EventKind::Runtime | EventKind::Driver => has.calls += 1,
                _ => {}
            }
            let start = trace.events.start[event.index()];
            sweep.close_until(start);
            sweep.emit(start, event);
            sweep.open.push((event, trace.events.end(event)));
        }
        sweep.close_until(i64::MAX);
        let mut pieces = sweep.pieces;
        pieces.shrink_to_fit();
        let gaps = pieces.iter().filter(|p| p.event.is_none()).map(|p| p.start).collect();
        (!pieces.is_empty()).then_some(Self { track, pieces, gaps, has })
    }

    /// Start of the first span.
    pub(super) fn start(&self) -> i64 {
        self.pieces.first().map_or(0, |p| p.start)
    }

    /// End of the last span.
    pub(super) fn end(&self) -> i64 {
        self.pieces.last().map_or(0, |p| p.start)
    }

    /// The piece in which a moment lies (a piece owns its start); `None` before the lane.
    pub(super) fn piece_at(&self, at: i64) -> Option<usize> {
        self.pieces.partition_point(|p| p.start <= at).checked_sub(1)
    }

    /// The piece that runs up to a moment (a piece owns its end).
    pub(super) fn piece_before(&self, at: i64) -> Option<usize> {
        self.pieces.partition_point(|p| p.start < at).checked_sub(1)
    }

    /// Where a piece ends; the last one never does.
    pub(super) fn piece_end(&self, piece: usize) -> i64 {
        self.pieces.get(piece + 1).map_or(i64::MAX, |p| p.start)
    }

    /// Whether something runs right before a moment.
    pub(super) fn is_busy_before(&self, at: i64) -> bool {
        self.piece_before(at).is_some_and(|p| self.pieces[p].event.is_some())
    }
}

/// Whether an event is a span of host time.
pub(super) fn is_span(trace: &Trace, event: EventId) -> bool {
    let kind = trace.kind(event);
    let timed = trace.events.is_timed(event) && trace.events.dur[event.index()] > 0;
    timed
        && matches!(
            kind,
            EventKind::Operator
                | EventKind::PythonFunction
                | EventKind::Annotation
                | EventKind::Runtime
                | EventKind::Driver
                | EventKind::Overhead
                | EventKind::Other
        )
}

/// Puts spans of equal times in an order that the rows of the trace do not decide: by level, then by name.
fn outermost_first(trace: &Trace, spans: &mut [EventId]) {
    let times = |e: &EventId| (trace.events.start[e.index()], trace.events.dur[e.index()]);
    for run in spans.chunk_by_mut(|a, b| times(a) == times(b)) {
        if run.len() > 1 {
            run.sort_by_key(|&e| (trace.kind(e).level(), trace.kind(e), trace.name(e)));
        }
    }
}

/// Open spans and the pieces so far.
#[derive(Default)]
struct Sweep {
    open: Vec<(EventId, i64)>,
    pieces: Vec<Piece>,
}

impl Sweep {
    fn emit(&mut self, start: i64, event: EventId) {
        match self.pieces.last_mut() {
            Some(last) if last.event == event => {}
            Some(last) if last.start == start => {
                last.event = event;
                // The piece before may now be the same span.
                if let [.., a, b] = self.pieces[..]
                    && a.event == b.event
                {
                    self.pieces.pop();
                }
            }
            _ => self.pieces.push(Piece { start, event }),
        }
    }

    /// Closes what ends at or before a moment. A span that outlives the one it began in stays open.
    fn close_until(&mut self, at: i64) {
        while let Some(&(_, end)) = self.open.last().filter(|(_, end)| *end <= at) {
            while self.open.last().is_some_and(|&(_, e)| e <= end) {
                self.open.pop();
            }
            self.emit(end, self.open.last().map_or(EventId::NONE, |o| o.0));
        }
    }
}
