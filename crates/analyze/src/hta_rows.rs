//! Rows from which HTA's tables are computed: [`HtaView`] in HTA's row order, with times in microseconds.
//!
//! Other analyses must not use these rows, because rounding to whole microseconds loses much of a trace in nanoseconds.

use rustc_hash::FxHashMap;
use stackline_model::{EventId, Key, StrId, Table, Trace};
use stackline_timeline::Scope;
use stackline_timeline::hta_view::HtaView;

/// One event of a trace as HTA loads it, with times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The event.
    pub event: EventId,
    /// Position in the source's event list.
    pub index: i64,
    /// Name of the event.
    pub name: StrId,
    /// Start in microseconds since the earliest event.
    pub ts: f64,
    /// Duration in microseconds; -1 if rounding moved the end before the start.
    pub dur: f64,
    /// Stream number, -1 if none.
    pub stream: i64,
    /// Correlation ID, -1 if none.
    pub correlation: i64,
    /// Position of the linked event; 0: correlation without partner; -1: no correlation.
    pub linked: i64,
    /// True if HTA treats the event as a GPU operation: it has a stream and a correlation, or is a synchronization of
    /// the context or of an event.
    pub is_gpu: bool,
}

impl Row {
    /// End of a row in microseconds.
    pub fn end(&self) -> f64 {
        self.ts + self.dur
    }
}

/// Events of a trace that HTA keeps, in HTA's row order.
#[derive(Debug)]
pub struct HtaRows<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// Kept rows.
    pub rows: Vec<Row>,
    /// Index in `rows` by event index.
    by_index: FxHashMap<i64, u32>,
}

/// Maximum number of launch calls with one correlation ID that are paired with every GPU operation of this ID. HTA
/// pairs all with all, which is quadratic in damaged traces with thousands of equal IDs. Valid traces have one or two
/// calls.
pub const MAX_CALLS: usize = 64;

/// Assignment of GPU operations to launch calls of the same correlation ID. Each of the first [`MAX_CALLS`] calls gets
/// all operations, and each later call only the last one.
#[derive(Debug, Default)]
pub(crate) struct CallPairs {
    calls: FxHashMap<i64, usize>,
    /// Number of calls that did not get all operations.
    pub(crate) limited: usize,
}

impl CallPairs {
    /// GPU operations of the next launch call with this correlation ID, taken from all `operations` of the ID.
    pub(crate) fn next<'s, T>(&mut self, correlation: i64, operations: &'s [T]) -> &'s [T] {
        let calls = self.calls.entry(correlation).or_default();
        *calls += 1;
        if *calls <= MAX_CALLS || operations.len() < 2 {
            return operations;
        }
        self.limited += 1;
        &operations[operations.len() - 1..]
    }
}

/// Add a note to a table if some launch calls are paired with only one of several GPU operations.
pub(crate) fn note_limited(table: Table, limited: usize) -> Table {
    match limited {
        0 => table,
        n => table.note(format!(
            "More than {MAX_CALLS} calls have the same correlation ID, so {n} of these calls are each paired with \
             only one GPU operation."
        )),
    }
}

impl<'a> HtaRows<'a> {
    /// Load a trace as HTA does by default, and keep the rows of the scope's steps. As in HTA, the last of several
    /// profiler steps is excluded (see [`HtaView`]). GPU rows count for the step of their launch, other rows for the
    /// step of their start.
    pub fn load(trace: &'a Trace, scope: &Scope) -> Self {
        let view = HtaView::load(trace, false);
        let index = |row: usize| i64::from(trace.events.source_index[view.event[row].index()]);
        let mut rows: Vec<Row> = view
            .rows_in_hta_order()
            .map(|row| {
                let correlation = view.correlation[row];
                Row {
                    event: view.event[row],
                    index: index(row),
                    name: trace.events.name[view.event[row].index()],
                    ts: view.start[row].saturating_sub(view.origin) as f64 / 1000.0,
                    dur: view.dur(row) as f64 / 1000.0,
                    stream: view.stream[row],
                    correlation,
                    linked: view.partner_of(row).map_or(correlation.min(0), index),
                    is_gpu: view.on_gpu[row],
                }
            })
            .collect();
        if scope.steps.is_some() {
            let (work, host) = (scope.gpu_work(trace), scope.host_work(trace));
            rows.retain(|r| match trace.gpu.of_event(r.event) {
                Some(gpu) => work.has(gpu),
                None => host.has(r.event),
            });
        }
        let by_index = rows.iter().enumerate().map(|(at, row)| (row.index, at as u32)).collect();
        Self { trace, rows, by_index }
    }

    /// Rows with a stream, which most tables of HTA count as GPU work. They include operators with a stream and
    /// synchronization records.
    pub fn gpu(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| r.stream != -1)
    }

    /// Row of the event that an event is linked to (launch call or GPU operation); `None` if that row is not kept.
    ///
    /// An event with a correlation ID but no partner is "linked" to event 0, as in HTA.
    pub fn linked(&self, row: &Row) -> Option<&Row> {
        self.by_index.get(&row.linked).map(|&at| &self.rows[at as usize])
    }

    /// Process ID and thread ID of a row.
    pub fn lane(&self, row: &Row) -> (Key, Key) {
        let track = self.trace.events.track[row.event.index()];
        (self.trace.tracks.pid(track), self.trace.tracks.get(track).tid)
    }

    /// Add a note to a table if HTA's rounding makes durations negative.
    pub(crate) fn note_negative(&self, table: Table) -> Table {
        match self.gpu().filter(|r| r.dur < 0.0).count() {
            0 => table,
            n => table.note(format!(
                "HTA's rounding to whole microseconds gives {n} operations a duration of -1 µs. HTA's totals include \
                 these durations."
            )),
        }
    }
}
