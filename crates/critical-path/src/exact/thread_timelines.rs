//! Thread timelines: the innermost span of each host thread over time.

use stackline_model::{EventId, EventKind, Key, Trace, TrackId, TrackKind};

/// Piece of a thread's timeline with one innermost span, `event` (none in gaps). The piece ends at the start of the
/// next one. The struct is packed, because pieces outnumber events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(super) struct Piece {
    pub(super) start: i64,
    pub(super) event: EventId,
}

/// Timeline of one host thread: its innermost span over time.
pub(super) struct ThreadTimeline {
    pub(super) track: TrackId,
    /// Pieces in time order; adjacent ones differ. The last piece is a gap at the end of the lane.
    pub(super) pieces: Vec<Piece>,
    /// Starts of the gaps, in time order.
    pub(super) gaps: Vec<i64>,
    /// Kinds of spans on the thread.
    pub(super) span_counts: SpanCounts,
}

/// Number of spans of a thread by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpanCounts {
    pub(super) operators: u32,
    pub(super) python: u32,
    pub(super) annotations: u32,
    pub(super) calls: u32,
}

impl ThreadTimeline {
    /// Create the timelines of all host threads with spans, ordered by process and thread number.
    pub(super) fn all(trace: &Trace) -> Vec<Self> {
        let mut tracks: Vec<TrackId> =
            trace.tracks.ids().filter(|&t| trace.tracks.get(t).kind == TrackKind::Thread).collect();
        let number = |key: Key| (key.as_int(), trace.key_text(key));
        tracks.sort_by_cached_key(|&t| (number(trace.tracks.pid(t)), number(trace.tracks.get(t).tid)));
        tracks.into_iter().filter_map(|track| Self::new(trace, track)).collect()
    }

    /// Create the timeline of one host thread; `None` if the thread has no spans.
    fn new(trace: &Trace, track: TrackId) -> Option<Self> {
        let mut spans: Vec<EventId> =
            trace.track_events(track).iter().copied().filter(|&e| is_span(trace, e)).collect();
        outermost_first(trace, &mut spans);
        let mut sweep = Sweep::default();
        let mut span_counts = SpanCounts::default();
        for event in spans {
            match trace.kind(event) {
                EventKind::Operator => span_counts.operators += 1,
                EventKind::PythonFunction => span_counts.python += 1,
                EventKind::Annotation => span_counts.annotations += 1,
                EventKind::Runtime | EventKind::Driver => span_counts.calls += 1,
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
        (!pieces.is_empty()).then_some(Self { track, pieces, gaps, span_counts })
    }

    /// Start of the thread's first span; 0 without spans.
    pub(super) fn start(&self) -> i64 {
        self.pieces.first().map_or(0, |p| p.start)
    }

    /// End of the thread's last span; 0 without spans.
    pub(super) fn end(&self) -> i64 {
        self.pieces.last().map_or(0, |p| p.start)
    }

    /// Number of the piece of the timeline that contains a time (start included); `None` before the first.
    pub(super) fn piece_at(&self, at: i64) -> Option<usize> {
        self.pieces.partition_point(|p| p.start <= at).checked_sub(1)
    }

    /// Number of the piece of the timeline that contains a time (end included); `None` up to the first span's start.
    pub(super) fn piece_before(&self, at: i64) -> Option<usize> {
        self.pieces.partition_point(|p| p.start < at).checked_sub(1)
    }

    /// End time of a piece of the timeline; [`i64::MAX`] for the last piece, which is a gap.
    pub(super) fn piece_end(&self, piece: usize) -> i64 {
        self.pieces.get(piece + 1).map_or(i64::MAX, |p| p.start)
    }

    /// True if the thread is in a span right before a time.
    pub(super) fn is_busy_before(&self, at: i64) -> bool {
        self.piece_before(at).is_some_and(|p| self.pieces[p].event.is_some())
    }
}

/// True if an event is a span of host time, such as an operator or a call.
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

/// Sort adjacent spans with equal start and duration by level, then by name, independent of the order of rows.
fn outermost_first(trace: &Trace, spans: &mut [EventId]) {
    let times = |e: &EventId| (trace.events.start[e.index()], trace.events.dur[e.index()]);
    for run in spans.chunk_by_mut(|a, b| times(a) == times(b)) {
        if run.len() > 1 {
            run.sort_by_key(|&e| (trace.kind(e).level(), trace.kind(e), trace.name(e)));
        }
    }
}

/// State of the sweep over a thread's spans that builds its timeline: open spans and pieces so far.
#[derive(Default)]
struct Sweep {
    open: Vec<(EventId, i64)>,
    pieces: Vec<Piece>,
}

impl Sweep {
    /// Begin a piece with the innermost span `event` at a time, unless the last piece already has that span.
    fn emit(&mut self, start: i64, event: EventId) {
        match self.pieces.last_mut() {
            Some(last) if last.event == event => {}
            Some(last) if last.start == start => {
                last.event = event;
                // The previous piece may now be the same span.
                if let [.., a, b] = self.pieces[..]
                    && a.event == b.event
                {
                    self.pieces.pop();
                }
            }
            _ => self.pieces.push(Piece { start, event }),
        }
    }

    /// Close spans that end at or before a time. A span that ends after its parent stays open.
    fn close_until(&mut self, at: i64) {
        while let Some(&(_, end)) = self.open.last().filter(|(_, end)| *end <= at) {
            while self.open.last().is_some_and(|&(_, e)| e <= end) {
                self.open.pop();
            }
            self.emit(end, self.open.last().map_or(EventId::NONE, |o| o.0));
        }
    }
}
