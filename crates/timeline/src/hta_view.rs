//! Rows of a trace as HTA 0.6.1 loads them: kept records, rounded times, links between calls and GPU work, and the step
//! filter (section 2.1 of our specification of rule set "hta").
//!
//! Rows are in file order. HTA's *event index* is [`stackline_model::EventTable::source_index`].

use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::names::STEP_NAME;
use stackline_model::{AttrColumn, AttrValue, EventId, Phase, RECORDED_DURATION, StrId, Trace, flags};

/// Calls that enqueue an operation on a stream, by HTA's rules.
pub const LAUNCHES: &[&str] = &[
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "hipLaunchKernel",
    "hipExtModuleLaunchKernel",
    "hipMemcpyAsync",
    "hipMemsetAsync",
    "hipMemcpyWithStream",
    "runFunction - job_prep_and_submit_for_execution",
];

/// Value for "no row" in [`HtaView::partner`].
pub const NO_ROW: u32 = u32::MAX;

/// Rows of a trace as HTA loads them, as columns of equal length.
#[derive(Clone, Debug, Default)]
pub struct HtaView {
    /// Event of each row, ascending.
    pub event: Vec<EventId>,
    /// Start in ns; a multiple of 1,000 with HTA's rounding.
    pub start: Vec<i64>,
    /// End in ns. HTA's rounding, of starts up and of ends down, may put it 1 µs before the start.
    pub end: Vec<i64>,
    /// `args.stream`; -1 if missing or not a number.
    pub stream: Vec<i64>,
    /// `args.correlation`; -1 if missing or not a number.
    pub correlation: Vec<i64>,
    /// The row that HTA links to this row (call to GPU work and back); [`NO_ROW`] if none. With several partners, the
    /// last in file order. HTA uses 0 for "none", so a partner with event index 0 counts as none.
    pub partner: Vec<u32>,
    /// True for rows that HTA links as GPU side: stream and correlation not negative, or a synchronization record of an
    /// event or context.
    pub on_gpu: Vec<bool>,
    /// Previous GPU-side row with the same correlation (launches of several kernels), [`NO_ROW`] if none; an empty
    /// column if no correlation occurs twice.
    pub sibling: Vec<u32>,
    /// True if the step filter was applied, which puts GPU-side rows first in HTA's row order.
    pub steps_filtered: bool,
    /// Earliest start in ns of all rows before the step filter; HTA's time 0.
    pub origin: i64,
}

impl HtaView {
    /// Load a trace as HTA does. With `include_last_step` the step filter keeps the calls of the last profiler step.
    pub fn load(trace: &Trace, include_last_step: bool) -> Self {
        let mut view = Self::collect(trace);
        view.origin = view.start.iter().copied().min().unwrap_or(0);
        view.link(trace);
        view.filter_steps(trace, include_last_step);
        view
    }

    /// Number of trace rows that HTA keeps.
    pub fn len(&self) -> usize {
        self.event.len()
    }

    /// True if HTA keeps no rows of the trace.
    pub fn is_empty(&self) -> bool {
        self.event.is_empty()
    }

    /// Duration of a row in ns; rounding can make it -1,000.
    pub fn dur(&self, row: usize) -> i64 {
        self.end[row].saturating_sub(self.start[row])
    }

    /// Test if HTA's `index_correlation` of a row is not negative: the row has a partner, or a correlation without
    /// partner.
    pub fn is_correlated(&self, row: usize) -> bool {
        self.partner[row] != NO_ROW || self.correlation[row] >= 0
    }

    /// Partner of a row: the GPU work of a call, or the call of GPU work; `None` if there is none.
    pub fn partner_of(&self, row: usize) -> Option<usize> {
        Some(self.partner[row]).filter(|&p| p != NO_ROW).map(|p| p as usize)
    }

    /// All rows in HTA's row order: file order, or GPU side first where the step filter applied.
    pub fn rows_in_hta_order(&self) -> impl Iterator<Item = usize> + '_ {
        let filtered = self.steps_filtered;
        let first = (0..self.len()).filter(move |&r| !filtered || self.on_gpu[r]);
        let second = (0..self.len()).filter(move |&r| filtered && !self.on_gpu[r]);
        first.chain(second)
    }

    /// Collect the rows that HTA loads, with rounded times: recorded events with a duration and a category.
    fn collect(trace: &Trace) -> Self {
        let events = &trace.events;
        let recording = trace.strings.find("Trace");
        let (stream, correlation) = (trace.attr("stream"), trace.attr("correlation"));
        let recorded = trace.attr(RECORDED_DURATION);
        let syncs = [trace.strings.find("Event Sync"), trace.strings.find("Context Sync")];
        let rounded = trace.meta.fractional_ts;
        let mut view = Self::default();
        view.reserve(events.len());
        for event in events.ids() {
            let i = event.index();
            let category = events.category[i];
            let timed = events.flags[i] & (flags::HAS_DURATION | flags::NO_TIME) == flags::HAS_DURATION;
            if !timed || category.is_none() || Some(category) == recording || events.phase[i] == Phase::Async {
                continue;
            }
            // Where reading cut a span at its caller's end, HTA uses the recorded duration.
            let cut = if events.has(event, flags::CLAMPED) { recorded.i64(event) } else { None };
            let (start, dur) = (events.start[i], cut.unwrap_or(events.dur[i]));
            let (start, end) = if rounded { round(start, dur) } else { (start, start.saturating_add(dur)) };
            let stream = number(&stream, event, trace);
            let correlation = number(&correlation, event, trace);
            view.event.push(event);
            view.start.push(start);
            view.end.push(end);
            view.stream.push(stream);
            view.correlation.push(correlation);
            view.on_gpu.push((stream >= 0 && correlation >= 0) || syncs.contains(&Some(events.name[i])));
        }
        view
    }

    /// Reserve memory for a number of rows in each column.
    fn reserve(&mut self, rows: usize) {
        self.event.reserve(rows);
        self.start.reserve(rows);
        self.end.reserve(rows);
        self.stream.reserve(rows);
        self.correlation.reserve(rows);
        self.on_gpu.reserve(rows);
    }

    /// Set the partner of each call and GPU row: the row of the other side with equal correlation.
    fn link(&mut self, trace: &Trace) {
        let mut last_gpu: FxHashMap<i64, u32> = FxHashMap::default();
        let mut last_cpu: FxHashMap<i64, u32> = FxHashMap::default();
        let mut siblings: Vec<(usize, u32)> = Vec::new();
        for row in 0..self.len() {
            let correlation = self.correlation[row];
            if correlation == -1 {
                continue;
            }
            if self.on_gpu[row] {
                if let Some(previous) = last_gpu.insert(correlation, row as u32) {
                    siblings.push((row, previous));
                }
            } else {
                last_cpu.insert(correlation, row as u32);
            }
        }
        self.partner = (0..self.len())
            .map(|row| {
                let correlation = self.correlation[row];
                if correlation == -1 {
                    return NO_ROW;
                }
                let partners = if self.on_gpu[row] { &last_cpu } else { &last_gpu };
                let partner = partners.get(&correlation).copied().unwrap_or(NO_ROW);
                let usable = partner != NO_ROW && trace.events.source_index[self.event[partner as usize].index()] != 0;
                if usable { partner } else { NO_ROW }
            })
            .collect();
        if !siblings.is_empty() {
            self.sibling = vec![NO_ROW; self.len()];
            for (row, previous) in siblings {
                self.sibling[row] = previous;
            }
        }
    }

    /// With two or more profiler steps, drop calls that begin in the last step or later, and GPU work without a kept
    /// call. With `include_last_step`, drop only calls after the last step.
    fn filter_steps(&mut self, trace: &Trace, include_last_step: bool) {
        let Some((last_start, last_end)) = self.last_step(trace) else { return };
        let keeps =
            |row: usize| if include_last_step { self.start[row] <= last_end } else { self.start[row] < last_start };
        let mut kept_correlations: FxHashSet<i64> = FxHashSet::default();
        let mut keep = vec![false; self.len()];
        let mut previous = None;
        for row in (0..self.len()).filter(|&r| !self.on_gpu[r] && keeps(r)) {
            keep[row] = true;
            // Consecutive rows without correlation are common: do not hash each of them.
            if previous != Some(self.correlation[row]) {
                previous = Some(self.correlation[row]);
                kept_correlations.insert(self.correlation[row]);
            }
        }
        for row in (0..self.len()).filter(|&r| self.on_gpu[r]) {
            keep[row] = kept_correlations.contains(&self.correlation[row]);
        }
        self.steps_filtered = true;
        self.retain(&keep);
    }

    /// Latest start and latest end of the CPU-side step annotations; `None` with fewer than two distinct steps.
    fn last_step(&self, trace: &Trace) -> Option<(i64, i64)> {
        let mut known: Vec<Option<bool>> = vec![None; trace.strings.len()];
        let (mut distinct, mut first_name): (bool, Option<StrId>) = (false, None);
        let mut last: Option<(i64, i64)> = None;
        for row in 0..self.len() {
            let name = trace.events.name[self.event[row].index()];
            let Some(memo) = known.get_mut(name.index()) else { continue };
            if !*memo.get_or_insert_with(|| is_step_name(trace.strings.get(name))) {
                continue;
            }
            distinct |= first_name.is_some_and(|first| first != name);
            first_name = first_name.or(Some(name));
            if !self.on_gpu[row] {
                let (start, end) = (self.start[row], self.end[row]);
                last = Some(last.map_or((start, end), |(s, e)| (s.max(start), e.max(end))));
            }
        }
        last.filter(|_| distinct)
    }

    /// Delete all rows of HTA's view that are not marked in `keep`.
    fn retain(&mut self, keep: &[bool]) {
        let mut next = 0;
        let new_row: Vec<u32> = keep
            .iter()
            .map(|&kept| {
                next += u32::from(kept);
                if kept { next - 1 } else { NO_ROW }
            })
            .collect();
        let moved = |row: u32| new_row.get(row as usize).copied().unwrap_or(NO_ROW);
        for link in self.partner.iter_mut().chain(self.sibling.iter_mut()) {
            *link = moved(*link);
        }
        fn drop_rows<T>(column: &mut Vec<T>, keep: &[bool]) {
            let mut marks = keep.iter();
            column.retain(|_| marks.next().copied().unwrap_or(true));
        }
        drop_rows(&mut self.event, keep);
        drop_rows(&mut self.start, keep);
        drop_rows(&mut self.end, keep);
        drop_rows(&mut self.stream, keep);
        drop_rows(&mut self.correlation, keep);
        drop_rows(&mut self.partner, keep);
        drop_rows(&mut self.on_gpu, keep);
        drop_rows(&mut self.sibling, keep);
    }
}

/// Number in an argument of an event, as in HTA's numeric columns: -1 if missing or not a number. Decimal text counts
/// as a number.
pub fn number(column: &AttrColumn<'_>, event: EventId, trace: &Trace) -> i64 {
    match column.get(event) {
        None => -1,
        Some(AttrValue::Int(i)) => i,
        Some(AttrValue::Float(f)) if f.is_finite() => f as i64,
        Some(AttrValue::Uint(u)) => i64::try_from(u).unwrap_or(-1),
        Some(AttrValue::Str(s)) => decimal(trace.strings.get(s).trim()),
        Some(_) => -1,
    }
}

/// Parse a text as a whole number; -1 if it is none. Beyond 2^53 only integers in digits are exact.
fn decimal(text: &str) -> i64 {
    let whole = || text.parse::<f64>().ok().filter(|f| f.fract() == 0.0 && f.abs() < i64::MAX as f64);
    text.parse::<i64>().ok().or_else(|| whole().map(|f| f as i64)).unwrap_or(-1)
}

/// Match `ProfilerStep#<n>`, with optional blanks around `#`.
fn is_step_name(name: &str) -> bool {
    name.strip_prefix(STEP_NAME)
        .and_then(|rest| rest.trim_start().strip_prefix('#'))
        .is_some_and(|rest| rest.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}

/// Convert a start and duration in ns by HTA's rounding to whole µs: the start up, the end down. Returns start and end
/// in ns.
///
/// HTA adds in `f64`, whose rounding error near whole numbers affects its results, so this function uses the same
/// arithmetic.
fn round(start: i64, dur: i64) -> (i64, i64) {
    let start_us = ns_to_us(start);
    let end_us = start_us + ns_to_us(dur);
    // Truncation and a comparison are several times faster than calls of ceil and floor.
    let (start, end) = (start_us as i64, end_us as i64);
    let start = start.saturating_add(i64::from((start as f64) < start_us));
    let end = end.saturating_sub(i64::from((end as f64) > end_us));
    (start.saturating_mul(1000), end.saturating_mul(1000))
}

/// Convert ns to the nearest `f64` in µs, which is the result of a JSON reader for the decimal text.
fn ns_to_us(ns: i64) -> f64 {
    const EXACT: u64 = 1 << 53;
    if ns.unsigned_abs() < EXACT {
        return ns as f64 / 1000.0;
    }
    // Beyond 2^53 ns do not fit an f64, but µs do. The sum is then the only relevant rounding.
    (ns.div_euclid(1000)) as f64 + ns.rem_euclid(1000) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_equals_json_floats() {
        assert_eq!(round(1_000, 2_000), (1_000, 3_000));
        assert_eq!(round(1_001, 1_999), (2_000, 3_000));
        assert_eq!(round(1_100, 300), (2_000, 1_000), "spans inside one microsecond end before they start");
        for text in ["1695835585836833.123", "6869181224115.277", "0.001", "1695835585836833.25"] {
            let ns: i64 = (text.parse::<f64>().unwrap().trunc() as i64) * 1000
                + text.split('.').nth(1).map_or(0, |f| format!("{f:0<3}").parse().unwrap());
            assert_eq!(ns_to_us(ns), text.parse::<f64>().unwrap(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn rounding_is_ceil_and_floor(start in -(1i64 << 60)..1 << 60, dur in 0i64..1 << 50, shift in 0u32..60) {
            let (start, dur) = (start >> shift, dur >> (shift / 2));
            let (start_us, dur_us) = (ns_to_us(start), ns_to_us(dur));
            let expected = (start_us.ceil() as i64 * 1000, (start_us + dur_us).floor() as i64 * 1000);
            proptest::prop_assert_eq!(round(start, dur), expected);
        }
    }

    #[test]
    fn clipped_spans_have_their_recorded_duration() {
        let json = stackline_testkit::mini::trace(
            "7/7  python_function  main       0..100
             7/7  python_function  caller     10..30
             7/7  python_function  lost       15..100
             7/7  cpu_op           aten::add  40..90",
        );
        let trace = stackline_ingest::read_bytes("t", json.as_bytes(), &Default::default()).unwrap();
        assert_eq!(trace.events.dur[2], 15_000);
        assert_eq!(HtaView::load(&trace, false).end[2], 100_000);
    }

    #[test]
    fn ids_in_text() {
        for (text, id) in [("7", 7), ("9007199254740993", 9_007_199_254_740_993), ("7.0", 7), ("1e3", 1000)] {
            assert_eq!(decimal(text), id, "{text}");
        }
        for text in ["", "inf", "-inf", "nan", "NaN", "1.5", "1e300", "9223372036854775808", "seven"] {
            assert_eq!(decimal(text), -1, "{text}");
        }
    }

    #[test]
    fn step_names() {
        assert!(is_step_name("ProfilerStep#12"));
        assert!(is_step_name("ProfilerStep # 1"));
        assert!(!is_step_name("ProfilerStep*"));
        assert!(!is_step_name("my ProfilerStep#1"));
    }
}
