//! Pauses of a recording: time between steps without any event.
//!
//! A profiler with a schedule (`torch.profiler.schedule(..., repeat=2)`) records a cycle of steps, pauses, and records
//! the next cycle. A file with several cycles has no event of the pause, so the state of the GPU is unknown in it. The
//! profiler also numbers the steps that it does not record. Silence between steps with consecutive numbers is therefore
//! a waiting program, and so is silence between marks that are not the profiler's.
//!
//! A recording of selected steps (`stackline record --every`) lists its unrecorded time ranges ([`UNRECORDED`]). Other
//! processes may have events in them.

use crate::names::STEP_PREFIX;
use crate::{EventKind, Key, RECORDING_FORMAT, Step, Trace, TrackId, UNRECORDED};
use std::collections::BTreeMap;

/// Time between two steps that was not recorded. In other traces than recordings, no thread and no device has an event
/// in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// End of the last event before the pause, in ns since the trace's base. In recordings, the time at which the
    /// recording or the step before the pause ended, the later of the two.
    pub start: i64,
    /// Start of the first event after the pause, in ns since the trace's base. In recordings, the time at which the
    /// recording continued.
    pub end: i64,
    /// Number of the step that ends last before the pause.
    pub before: i64,
    /// Number of the step that begins first after the pause.
    pub after: i64,
    /// True if no process has steps on both sides: the steps of one process ended before those of another began.
    pub separates_processes: bool,
}

impl Pause {
    /// Length of a pause of the recording, in ns.
    #[must_use]
    pub fn length_ns(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }

    /// Number of steps in the pause by the numbers of the steps around it; 0 if the numbers do not increase.
    #[must_use]
    pub fn missing_steps(&self) -> u64 {
        u64::try_from(self.after.saturating_sub(self.before).saturating_sub(1)).unwrap_or(0)
    }
}

/// Gap between steps that may contain a pause, and the least length in ns of a silence in it.
struct StepGap {
    start: i64,
    end: i64,
    before: i64,
    after: i64,
    least_ns: i64,
}

impl Trace {
    /// Pauses of the recording, in time order: silence that is longer than the median step, between [`Self::steps`] of
    /// a profiler's schedule (`ProfilerStep#n`) whose numbers jump or restart, over all processes. Silence between the
    /// steps of a process and those of another that begins later is included ([`Pause::separates_processes`]).
    /// In recordings of `stackline record`, the time between two steps that was not recorded, of any length. Computed
    /// on the first call; call it after all events and steps were added.
    #[must_use]
    pub fn pauses(&self) -> &[Pause] {
        self.pauses.get_or_init(|| self.find_pauses())
    }

    /// True if a thread's time range overlaps unrecorded time between two steps of a recording (`stackline record
    /// --every`). Processes without steps are recorded meanwhile.
    #[must_use]
    pub fn overlaps_unrecorded(&self, track: TrackId, (from, to): (i64, i64)) -> bool {
        if self.meta.format != RECORDING_FORMAT {
            return false;
        }
        let first = self.pauses().partition_point(|pause| pause.end <= from);
        let overlaps = self.pauses().get(first).is_some_and(|pause| pause.start < to);
        overlaps && self.steps.iter().any(|step| self.process_of(step) == self.tracks.pid(track))
    }

    /// Compute the pauses of the recording: the listed ones of `stackline record`, else long silences between steps
    /// whose numbers jump.
    fn find_pauses(&self) -> Vec<Pause> {
        if self.meta.format == RECORDING_FORMAT {
            return self.unrecorded_between_steps();
        }
        let candidates = self.candidates();
        if candidates.is_empty() {
            return Vec::new();
        }
        let events = self.events_within(&candidates);
        let mut pauses: Vec<Pause> =
            candidates.iter().zip(events).filter_map(|(between, events)| longest_silence(between, events)).collect();
        let spans = self.step_spans();
        for pause in &mut pauses {
            pause.separates_processes = !spans.values().any(|&(first, last)| first < pause.end && pause.end <= last);
        }
        pauses
    }

    /// Unrecorded time ranges of a recording that lie between two of its steps.
    fn unrecorded_between_steps(&self) -> Vec<Pause> {
        let listed = self.meta.entry(UNRECORDED);
        let mut ranges: Vec<(i64, i64)> = listed.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        ranges.sort_unstable();
        let mut pauses: Vec<Pause> = Vec::new();
        for (start, end) in ranges {
            let next = self.steps.partition_point(|step| step.start < end);
            let before = next.checked_sub(1).and_then(|at| self.steps.get(at));
            let (Some(before), Some(after)) = (before, self.steps.get(next)) else { continue };
            // A step that was unrecorded in part is recorded until its end.
            let start = start.max(before.end);
            if start >= end {
                continue;
            }
            match pauses.last_mut() {
                // No step began since the last pause.
                Some(last) if before.start < last.end => last.end = end.max(last.end),
                _ => pauses.push(Pause {
                    start,
                    end,
                    before: before.number,
                    after: after.number,
                    separates_processes: false,
                }),
            }
        }
        pauses
    }

    /// Begin times of the first and of the last step, by process.
    fn step_spans(&self) -> BTreeMap<Key, (i64, i64)> {
        let mut spans: BTreeMap<Key, (i64, i64)> = BTreeMap::new();
        for step in &self.steps {
            let span = spans.entry(self.process_of(step)).or_insert((step.start, step.start));
            *span = (span.0.min(step.start), span.1.max(step.start));
        }
        spans
    }

    /// True if the number of the step at index `at` continues that of its process's previous step. For the first step
    /// of a process, processes with steps before and after it decide; without any, it does not continue.
    fn follows(&self, at: usize, numbers: &BTreeMap<Key, i64>) -> bool {
        let is_next = |step: &Step, number: &i64| number.checked_add(1) == Some(step.number);
        let step = &self.steps[at];
        if let Some(number) = numbers.get(&self.process_of(step)) {
            return is_next(step, number);
        }
        let mut open = numbers.clone();
        let mut is_any = false;
        for later in &self.steps[at..] {
            if open.is_empty() {
                break;
            }
            let Some(number) = open.remove(&self.process_of(later)) else { continue };
            if !is_next(later, &number) {
                return false;
            }
            is_any = true;
        }
        is_any
    }

    /// Gaps between a profiler's steps (`ProfilerStep#n`) that are longer than the median step, and whose step numbers
    /// are not consecutive.
    fn candidates(&self) -> Vec<StepGap> {
        let mut lengths: Vec<i64> =
            self.steps.iter().map(|step| step.end.saturating_sub(step.start)).filter(|&ns| ns > 0).collect();
        lengths.sort_unstable();
        let Some(&median) = lengths.get(lengths.len() / 2) else { return Vec::new() };
        let mut numbers: BTreeMap<Key, i64> = BTreeMap::new();
        let mut last: Option<(i64, i64)> = None;
        let mut found = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            if !self.name(step.event).starts_with(STEP_PREFIX) {
                continue;
            }
            let is_long = |end: &i64| step.start.saturating_sub(*end) > median;
            if let Some((end, before)) = last.filter(|(end, _)| is_long(end) && !self.follows(at, &numbers)) {
                found.push(StepGap { start: end, end: step.start, before, after: step.number, least_ns: median });
            }
            numbers.insert(self.process_of(step), step.number);
            last = last.max(Some((step.end, step.number)));
        }
        found
    }

    /// Time ranges in ns of the events in each gap, cut to the gap; unordered.
    fn events_within(&self, gaps: &[StepGap]) -> Vec<Vec<(i64, i64)>> {
        let mut within = vec![Vec::new(); gaps.len()];
        let counts =
            |event: &crate::EventId| self.events.is_plausible(*event) && self.kind(*event) != EventKind::Recording;
        for event in self.events.ids().filter(counts) {
            let (start, end) = (self.events.start[event.index()], self.events.end(event));
            let from = gaps.partition_point(|gap| gap.end < start);
            let to = gaps.partition_point(|gap| gap.start <= end);
            for at in from..to.max(from) {
                within[at].push((start.max(gaps[at].start), end.min(gaps[at].end)));
            }
        }
        within
    }

    /// Process (PID) of the thread with a step's annotation.
    #[must_use]
    pub fn process_of(&self, step: &Step) -> Key {
        self.tracks.pid(self.events.track[step.event.index()])
    }
}

/// Longest time without events in a gap, as a pause; `None` if it is no longer than the gap's `least_ns`.
fn longest_silence(gap: &StepGap, mut events: Vec<(i64, i64)>) -> Option<Pause> {
    events.sort_unstable();
    events.push((gap.end, gap.end));
    let mut until = gap.start;
    let mut longest: Option<(i64, i64)> = None;
    for (start, end) in events {
        let length = |(from, to): (i64, i64)| to.saturating_sub(from);
        if start > until && longest.is_none_or(|longest| length((until, start)) > length(longest)) {
            longest = Some((until, start));
        }
        until = until.max(end);
    }
    let (start, end) = longest.filter(|(from, to)| to.saturating_sub(*from) > gap.least_ns)?;
    Some(Pause { start, end, before: gap.before, after: gap.after, separates_processes: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventId, NewEvent, Phase, StrId, TrackKind, flags};

    /// Trace with spans of one process from start to end; those with a number are steps.
    fn trace(mark: &str, spans: &[(Option<i64>, i64, i64)]) -> Trace {
        let of_one: Vec<_> = spans.iter().map(|&(number, start, end)| (1, number, start, end)).collect();
        of_processes(mark, &of_one)
    }

    /// Like `trace`, for several processes; each span has its own.
    fn of_processes(mark: &str, spans: &[(i64, Option<i64>, i64, i64)]) -> Trace {
        let mut trace = Trace::default();
        let [mark, work] = [format!("{mark}7").as_str(), "aten::mm"].map(|name| trace.strings.intern(name));
        for &(pid, number, start, end) in spans {
            let track = trace.tracks.track(Key::Int(pid), Key::Int(1), TrackKind::Thread);
            let event: EventId = trace.events.push(NewEvent {
                start,
                dur: end - start,
                track,
                name: if number.is_some() { mark } else { work },
                category: StrId::NONE,
                kind: EventKind::Operator,
                phase: Phase::Complete,
                flags: flags::HAS_DURATION,
                source_index: 0,
            });
            trace.steps.extend(number.map(|number| Step { number, event, start, end }));
        }
        trace.steps.sort_by_key(|step| step.start);
        trace
    }

    fn steps(numbers: [i64; 4], silence: i64, inside: &[(i64, i64)]) -> Trace {
        marked(STEP_PREFIX, numbers, silence, inside)
    }

    fn marked(mark: &str, numbers: [i64; 4], silence: i64, inside: &[(i64, i64)]) -> Trace {
        let at = [0, 100, 200 + silence, 300 + silence];
        let steps = numbers.into_iter().zip(at).map(|(number, at)| (Some(number), at, at + 100));
        trace(mark, &steps.chain(inside.iter().map(|&(start, end)| (None, start, end))).collect::<Vec<_>>())
    }

    #[test]
    fn silence_where_numbers_jump_is_a_pause() {
        let found = |numbers, silence| steps(numbers, silence, &[]).pauses().to_vec();
        let pause = Pause { start: 200, end: 350, before: 4, after: 9, separates_processes: false };
        assert_eq!(found([3, 4, 9, 10], 150), [pause]);
        assert_eq!(found([0, 1, 0, 1], 150), [Pause { before: 1, after: 0, ..pause }], "numbers begin again");
        assert_eq!(found([3, 4, 9, 10], 100), [], "no longer than a step");
        assert_eq!(found([3, 4, 5, 6], 100_000), [], "the program waits");
        assert_eq!(marked("request ", [3, 4, 9, 10], 150, &[]).pauses(), [], "no schedule left out numbers");
        let mut recording = steps([3, 4, 9, 10], 150, &[]);
        recording.meta.format = RECORDING_FORMAT.to_owned();
        assert_eq!(recording.pauses(), []);
        assert_eq!(Trace::default().pauses(), []);
    }

    #[test]
    fn recordings_list_their_pauses() {
        // Steps from 0 to 100, 100 to 200, 250 to 350 and 350 to 450; an event fills the time between them.
        let found = |numbers, unrecorded: &str| {
            let mut recording = steps(numbers, 50, &[(150, 300)]);
            recording.meta.format = RECORDING_FORMAT.to_owned();
            recording.meta.entries.push((UNRECORDED.to_owned(), unrecorded.to_owned()));
            recording.pauses().to_vec()
        };
        let pause = Pause { start: 200, end: 250, before: 4, after: 14, separates_processes: false };
        assert_eq!(found([3, 4, 14, 15], "[[190, 250]]"), [pause], "the step before it ends in it");
        assert_eq!(pause.missing_steps(), 9);
        let starts_late = Pause { start: 210, ..pause };
        assert_eq!(found([3, 4, 14, 15], "[[210, 220], [230, 250]]"), [starts_late], "no step between them");
        assert_eq!(found([3, 4, 14, 15], "[[-90, 0], [450, 900]]"), [], "before the first and after the last step");
        assert_eq!(found([3, 4, 14, 15], "[[120, 180]]"), [], "within a step");
        assert_eq!(found([3, 4, 14, 15], "damaged"), []);
    }

    #[test]
    fn threads_of_processes_with_steps_have_unrecorded_time() {
        let mut recording = steps([3, 4, 14, 15], 50, &[]);
        recording.meta.format = RECORDING_FORMAT.to_owned();
        recording.meta.entries.push((UNRECORDED.to_owned(), "[[200, 250]]".to_owned()));
        let [own, other] = [1, 2].map(|pid| recording.tracks.track(Key::Int(pid), Key::Int(1), TrackKind::Thread));
        let found =
            [(100, 200), (190, 210), (0, 900), (250, 300)].map(|range| recording.overlaps_unrecorded(own, range));
        assert_eq!(found, [false, true, true, false]);
        assert!(!recording.overlaps_unrecorded(other, (0, 900)), "it has no steps");
    }

    #[test]
    fn pauses_are_distinguished_from_changes_of_process() {
        let found = |spans: &[(i64, Option<i64>, i64, i64)]| {
            let trace = of_processes(STEP_PREFIX, spans);
            trace.pauses().iter().map(|pause| (pause.start, pause.end, pause.separates_processes)).collect::<Vec<_>>()
        };
        let launcher = [(1, Some(0), 0, 100), (1, Some(1), 100, 200)];
        let child = [(2, Some(0), 900, 1000), (2, Some(1), 1000, 1100)];
        assert_eq!(found(&[launcher, child].concat()), [(200, 900, true)]);
        // The launcher continues, so its numbers decide for both.
        let continued = |number| [&launcher[..], &child, &[(1, Some(number), 950, 1050)]].concat();
        assert_eq!(found(&continued(2)), [], "it waited");
        assert_eq!(found(&continued(7)), [(200, 900, false)], "its profiler paused");
    }

    #[test]
    fn what_is_recorded_between_steps_is_no_pause() {
        let found = |inside: &[(i64, i64)]| {
            let trace = steps([3, 4, 9, 10], 300, inside);
            trace.pauses().iter().map(|pause| (pause.start, pause.end)).collect::<Vec<_>>()
        };
        // Work continues after the last step, and before the next.
        assert_eq!(found(&[(150, 240), (480, 510)]), [(240, 480)]);
        assert_eq!(found(&[(190, 505)]), [], "a span around it: it was recorded");
        assert_eq!(found(&[(300, 300), (400, 400)]), [], "points in time");
    }
}
