//! Detection of times that the profiler never filled in: starts of 0, one start that many records share far from all
//! others (such as `0x80000000`), and durations of 0 or of one absurd value. A start of 0 is also unset if the launch
//! call of a GPU operation begins later, since small times may be near 0.
//!
//! A buffer that was never written contains zeros. Such records are marked independent of their share.

use super::launches;
use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, Key, Phase, StrId, Trace, flags};
use std::collections::BTreeMap;

/// A start of 0 with duration 0 is unset if its distance to all others exceeds this, in ns, and their length.
const EMPTY_NS: i64 = 100_000_000;
/// Any other repeated start is unset if its distance to all others exceeds this, in ns, and [`FAR_LENGTHS`] times their
/// length.
const FAR_NS: i64 = 1_000_000_000;
/// Factor for [`FAR_NS`].
const FAR_LENGTHS: i64 = 10;
/// A single record that starts at 0 is unset if its distance to all others exceeds this, in ns.
const DAY_NS: i64 = 24 * 3600 * FAR_NS;
/// Several GPU operations at 0 are unset if their launch calls begin later than this, in ns; clocks of host and device
/// differ by less in most traces.
const BEFORE_LAUNCH_NS: i64 = 100_000;
/// The same for fewer than [`REPEATED`] operations, of which one may be the first of a trace that begins at 0.
const FEW_BEFORE_LAUNCH_NS: i64 = 1_000_000;
/// Smallest duration, in ns, of other records with the name from which on a duration of 0 µs is impossible.
const SEVERAL_US: i64 = 5_000;
/// Number of records in which repeated values are searched.
const SAMPLE: usize = 4096;
/// Number of records, and at least one in a hundred, that must share a repeated value.
const REPEATED: usize = 4;

/// Kinds whose durations of 0 are checked. Kernels come first: they decide about copies and fills.
const CHECKED_KINDS: [EventKind; 5] =
    [EventKind::Kernel, EventKind::Memcpy, EventKind::Memset, EventKind::Operator, EventKind::Runtime];

/// Mark records whose start or duration the profiler never filled in as implausible, and count them. Runs before any
/// other use of times.
pub(crate) fn mark(trace: &mut Trace, places: &ByteOffsets) {
    let mut starts = unset_starts(trace);
    starts.extend(zeros_before_launch(trace));
    starts.sort_unstable();
    starts.dedup();
    let mut marked = ProblemTally::default();
    for &event in &starts {
        trace.events.flags[event.index()] |= flags::IMPLAUSIBLE;
        marked.add(event, || format!("{} at {} ns", trace.name(event), trace.events.start[event.index()]));
    }
    marked.report(diagnostics::ZERO_TIME, places, &mut trace.report);
    let mut marked = ProblemTally::default();
    for event in unset_durations(trace) {
        trace.events.flags[event.index()] |= flags::IMPLAUSIBLE;
        marked.add(event, || format!("{}, {} ns long", trace.name(event), trace.events.dur[event.index()]));
    }
    marked.report(diagnostics::ZERO_DURATION, places, &mut trace.report);
}

/// Records whose start time the profiler never filled in; see the module.
fn unset_starts(trace: &Trace) -> Vec<EventId> {
    let events = &trace.events;
    let timed = || events.ids().filter(|&e| !events.has(e, flags::NO_TIME));
    let mut counts: FxHashMap<i64, usize> = FxHashMap::default();
    let suspects = suspects(trace);
    if suspects.is_empty() {
        return Vec::new();
    }
    for event in timed() {
        *counts.entry(events.start[event.index()]).or_default() += 1;
    }
    let all: usize = counts.values().sum();
    let is_repeated = |value: i64| counts.get(&value).is_some_and(|&n| n >= REPEATED.max(all / 100));
    // A trace may begin at 0: one record there is its first, unless all others have times of day.
    let is_suspect = |value: i64| value == 0 || suspects.contains(&value) && is_repeated(value);
    let zeros = counts.get(&0).copied().unwrap_or(0);
    let mut others: Vec<i64> = timed().map(|e| events.start[e.index()]).filter(|&s| !is_suspect(s)).collect();
    others.sort_unstable();
    let Some(length) = usual_length(&others) else {
        // If all starts are 0, they are unset if no record has a duration.
        let zeros: Vec<EventId> = timed().filter(|e| events.has(*e, flags::HAS_DURATION)).collect();
        let is_empty = |e: &EventId| events.start[e.index()] == 0 && events.dur[e.index()] == 0;
        return if zeros.len() >= REPEATED && zeros.iter().all(is_empty) { zeros } else { Vec::new() };
    };
    let distance = |value: i64| {
        let at = others.partition_point(|&other| other < value);
        let near = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(|i| others.get(i));
        near.map(|other| other.saturating_sub(value).saturating_abs()).min().unwrap_or(0)
    };
    let far: FxHashMap<i64, i64> =
        counts.keys().filter(|&&v| is_suspect(v)).map(|&value| (value, distance(value))).collect();
    let is_unset = |event: &EventId| {
        let (start, dur) = (events.start[event.index()], events.dur[event.index()]);
        let Some(&distance) = far.get(&start) else { return false };
        if start == 0 && zeros == 1 && distance < DAY_NS {
            return false;
        }
        match start == 0 && dur == 0 {
            true => distance >= EMPTY_NS.max(length),
            false => distance >= FAR_NS.max(length.saturating_mul(FAR_LENGTHS)),
        }
    };
    timed().filter(is_unset).collect()
}

/// GPU operations that start at 0, long before their launch calls. If most other operations of the device also start
/// before their launches, its clock differs from the host's, and 0 may be the start of its first operation.
fn zeros_before_launch(trace: &Trace) -> Vec<EventId> {
    let events = &trace.events;
    let start = |event: EventId| events.start[event.index()];
    let timed = || events.ids().filter(|&event| !events.has(event, flags::NO_TIME));
    let work = || timed().filter(|&event| trace.kind(event).is_gpu_work());
    if work().all(|event| start(event) != 0) {
        return Vec::new();
    }
    let correlation = launches::correlation(trace);
    // Calls of merged ranks may share an ID: the first one counts.
    let mut launched: FxHashMap<i64, i64> = FxHashMap::default();
    for call in timed().filter(|&call| trace.kind(call).is_api_call()) {
        let first = launched.entry(correlation(call)).or_insert(start(call));
        *first = start(call).min(*first);
    }
    // By device: the operations at 0 with the starts of their calls, and how many of the others start after their
    // launches, minus those before.
    let mut devices: BTreeMap<Key, (Vec<(EventId, i64)>, i64)> = BTreeMap::new();
    for event in work() {
        let id = correlation(event);
        let Some(call) = launched.get(&id).filter(|_| id > 0) else { continue };
        let is_early = call.saturating_sub(start(event)) > BEFORE_LAUNCH_NS;
        let (zeros, after) = devices.entry(trace.tracks.pid(events.track[event.index()])).or_default();
        match is_early {
            true if start(event) == 0 => zeros.push((event, *call)),
            true => *after -= 1,
            false => *after += 1,
        }
    }
    let mut found = Vec::new();
    for (zeros, after) in devices.into_values() {
        let are_several = zeros.len() >= REPEATED;
        if after > 0 || after == 0 && are_several {
            let unset = zeros.into_iter().filter(|&(_, call)| are_several || call > FEW_BEFORE_LAUNCH_NS);
            found.extend(unset.map(|(event, _)| event));
        }
    }
    found
}

/// Candidate values of unset starts: 0, and values that several records of a sample share. Most files have none.
fn suspects(trace: &Trace) -> Vec<i64> {
    let starts = &trace.events.start;
    let mut sample: Vec<i64> = starts.iter().copied().step_by(starts.len() / SAMPLE + 1).collect();
    sample.sort_unstable();
    let runs = sample.chunk_by(|a, b| a == b).filter(|run| run.len() >= REPEATED);
    let mut found: Vec<i64> = runs.filter_map(|run| run.first().copied()).collect();
    if starts.contains(&0) {
        found.push(0);
    }
    found
}

/// Usual length of a recording in ns: twice the range of the middle nine tenths of sorted times; `None` without times.
fn usual_length(sorted: &[i64]) -> Option<i64> {
    let cut = sorted.len() / 20;
    let (first, last) = (*sorted.get(cut)?, *sorted.get(sorted.len() - 1 - cut)?);
    Some(last.saturating_sub(first).saturating_mul(2))
}

/// Complete records whose durations the profiler never filled in.
fn unset_durations(trace: &Trace) -> Vec<EventId> {
    let events = &trace.events;
    let is_complete = |e: &EventId| {
        events.is_timed(*e) && events.phase[e.index()] == Phase::Complete && !events.has(*e, flags::CLAMPED)
    };
    let dur = |e: &EventId| events.dur[e.index()];
    let mut found = Vec::new();
    // Most events are Python functions, whose durations may be 0.
    let checked: Vec<EventId> =
        events.ids().filter(|e| CHECKED_KINDS.contains(&trace.kind(*e)) && is_complete(e)).collect();
    let mut are_kernels_lost = false;
    for kind in CHECKED_KINDS {
        let of_kind = || checked.iter().copied().filter(|e| trace.kind(*e) == kind);
        // With times in whole microseconds, as the host's may be next to a GPU's in ns, short operations have duration
        // 0.
        let lasting = of_kind().filter(|e| dur(e) > 0).count();
        let has_ns = of_kind().filter(|e| dur(e) % 1000 != 0).count() * 4 > lasting;
        let zeros: Vec<EventId> = of_kind().filter(|e| dur(e) == 0).collect();
        // A copy or fill may take less than a microsecond, a kernel hardly.
        let are_all_lost = |zeros: usize| match kind {
            EventKind::Kernel => zeros >= REPEATED,
            _ => kind.is_gpu_work() && are_kernels_lost,
        };
        let are_many = zeros.len() >= REPEATED.max(of_kind().count() / 100);
        if has_ns && (are_many || kind.is_gpu_work()) || lasting == 0 && are_all_lost(zeros.len()) {
            found.extend(zeros);
        } else if matches!(kind, EventKind::Kernel | EventKind::Operator) {
            // Copies and fills depend on their bytes, and waits return at once if no work is pending.
            found.extend(impossible_zeros(trace, of_kind(), zeros));
        }
        if kind == EventKind::Kernel {
            are_kernels_lost = found.len() >= REPEATED && 2 * found.len() >= of_kind().count();
        }
    }
    // A missing or negative duration must not enter sums or means.
    let is_without = |e: &EventId| {
        let is_shown = events.is_plausible(*e) && events.phase[e.index()] == Phase::Complete && dur(e) == 0;
        is_shown && (!events.has(*e, flags::HAS_DURATION) || events.has(*e, flags::CLAMPED))
    };
    found.extend(events.ids().filter(|e| trace.kind(*e).is_gpu_work() && is_without(e)));
    if events.dur.iter().any(|&dur| dur >= FAR_NS) {
        let complete: Vec<EventId> = events.ids().filter(is_complete).collect();
        found.extend(shared_absurd_durations(trace, &complete));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Records of one kind with a duration of 0 µs that is impossible: all others of their name last several µs. A few
/// operators are no evidence, because they may return at once.
fn impossible_zeros(
    trace: &Trace,
    of_kind: impl Iterator<Item = EventId>,
    zeros: Vec<EventId>,
) -> impl Iterator<Item = EventId> {
    let (dur, name) = (|e: EventId| trace.events.dur[e.index()], |e: EventId| trace.events.name[e.index()]);
    // Shortest duration and number of records with a duration, by name.
    let mut lasting: FxHashMap<StrId, (i64, usize)> = FxHashMap::default();
    if !zeros.is_empty() {
        for event in of_kind.filter(|&e| dur(e) > 0) {
            let known = lasting.entry(name(event)).or_insert((i64::MAX, 0));
            *known = (known.0.min(dur(event)), known.1 + 1);
        }
    }
    let is_impossible = move |event: &EventId| {
        let least = if trace.kind(*event).is_gpu_work() { 1 } else { REPEATED };
        lasting.get(&name(*event)).is_some_and(|&(ns, count)| ns >= SEVERAL_US && count >= least)
    };
    zeros.into_iter().filter(is_impossible)
}

/// Records with one shared duration (to the ns) that exceeds the length of all other records.
fn shared_absurd_durations(trace: &Trace, complete: &[EventId]) -> Vec<EventId> {
    let dur = |e: &EventId| trace.events.dur[e.index()];
    let mut starts: Vec<i64> = complete.iter().map(|e| trace.events.start[e.index()]).collect();
    starts.sort_unstable();
    let Some(length) = usual_length(&starts) else { return Vec::new() };
    let limit = FAR_NS.max(length.saturating_mul(FAR_LENGTHS));
    let mut counts: FxHashMap<i64, usize> = FxHashMap::default();
    for event in complete.iter().filter(|e| dur(e) >= limit) {
        *counts.entry(dur(event)).or_default() += 1;
    }
    complete.iter().copied().filter(|e| counts.get(&dur(e)).is_some_and(|&n| n >= REPEATED)).collect()
}

#[cfg(test)]
mod tests {
    use super::usual_length;

    #[test]
    fn usual_length_ignores_outliers() {
        let mut times: Vec<i64> = (0..100).collect();
        times[99] = i64::MAX;
        assert_eq!(usual_length(&times), Some(2 * (94 - 5)));
        assert_eq!(usual_length(&[]), None);
    }
}
