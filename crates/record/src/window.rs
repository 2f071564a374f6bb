//! Window: the recorded part of a program, by time, by training steps, or as one of N steps.

use crate::overhead::{self, Overhead};
use crate::tree::NodeId;
use dlmonitor::clock;
use stackline_recording::OPTIMIZER_STEP;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Part of the program to record, by step numbers and times; all conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// First and last step, both included; counted from 0.
    pub(crate) steps: Option<(u64, u64)>,
    /// Record one of this many steps.
    pub(crate) every: Option<u64>,
    /// Begin after this time, counted from the begin of the recording.
    pub(crate) after: Option<Duration>,
    /// Record for this time.
    pub(crate) duration: Option<Duration>,
}

impl Selection {
    /// Parse the options of a window: steps `A..B`, and times such as `30s` or `2m`. `None` for invalid texts.
    pub(crate) fn parse(
        steps: Option<&str>,
        every: Option<&str>,
        after: Option<&str>,
        duration: Option<&str>,
    ) -> Option<Self> {
        let steps = match steps {
            Some(text) => Some(range(text)?),
            None => None,
        };
        let every = match every {
            Some(text) => Some(text.parse().ok().filter(|&every| every > 0)?),
            None => None,
        };
        let time = |text: Option<&str>| text.map_or(Some(None), |text| seconds(text).map(Some));
        Some(Self { steps, every, after: time(after)?, duration: time(duration)? })
    }

    /// True if the step with this number is recorded at the time `elapsed` after the begin.
    fn holds(&self, step: u64, elapsed: Duration) -> bool {
        let after = self.after.unwrap_or_default();
        self.steps.is_none_or(|(from, to)| (from..=to).contains(&step))
            && self.every.is_none_or(|every| step.is_multiple_of(every))
            && elapsed >= after
            && self.duration.is_none_or(|duration| elapsed < after + duration)
    }
}

/// Convert a duration to ns; the largest number if it is too long.
pub(crate) fn nanos(elapsed: Duration) -> i64 {
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}

/// Parse a range of steps `A..B`, both included; a missing bound is 0 or the largest number. `None` if invalid.
fn range(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once("..")?;
    let bound = |text: &str, default| if text.is_empty() { Some(default) } else { text.parse().ok() };
    let (from, to) = (bound(from, 0)?, bound(to, u64::MAX)?);
    (from <= to).then_some((from, to))
}

/// Parse a time such as `500ms`, `30s`, `2m` or `1h`; without unit, in seconds. `None` if invalid.
fn seconds(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * unit).ok()
}

/// A change of the window: recording of operators begins or pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Time in ticks.
    pub(crate) at: u64,
    /// Number of steps that had ended.
    pub(crate) step: u64,
    /// True for a begin.
    pub(crate) open: bool,
    /// True at the end of a step, or at the very beginning.
    pub(crate) at_step: bool,
}

/// Ends of steps, relative to the begin of the recording, because the begin of the process is unknown here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Number of steps that ended.
    pub(crate) count: u64,
    /// End of the first step.
    pub(crate) first: Duration,
    /// End of the last step.
    pub(crate) last: Duration,
}

/// Step count, changes and measurements of a window, guarded by its lock.
#[derive(Debug, Default)]
struct WindowState {
    /// Number of steps that ended.
    step: u64,
    /// Changes so far, if they are kept.
    changes: Vec<Change>,
    /// Measurement of the overhead, which pauses operators.
    overhead: Option<Overhead>,
    /// Ends of steps.
    ends: Option<Ends>,
    /// True while operators are not reported, because this part of the program is outside of the window.
    is_left_out: bool,
}

/// The recorded window: its selection, whether it is open now, and its changes.
#[derive(Debug)]
pub(crate) struct Window {
    selection: Selection,
    open: AtomicBool,
    state: Mutex<WindowState>,
    /// True if changes are kept for the stream. False if the whole program is recorded.
    kept: bool,
    /// True if each call is kept with its times.
    keeps_calls: bool,
    /// Total time in which operators were paused, and begin of the current pause (0: none), in ticks.
    paused_before: AtomicU64,
    paused_since: AtomicU64,
}

impl Window {
    /// Create a window. With `keep`, its changes are kept, beginning with the initial state. `overhead_steps` is the
    /// number of steps that may run unrecorded to measure the overhead; it is ignored if changes are kept or if only a
    /// part of the program is recorded. `elapsed` is the time since the begin of the recording, which may be that of
    /// another process.
    pub(crate) fn new(selection: Selection, keep: bool, overhead_steps: u64, elapsed: Duration) -> Self {
        let overhead =
            (!keep && selection == Selection::default() && overhead_steps > 0).then(|| Overhead::new(overhead_steps));
        let kept = keep && selection != Selection::default();
        let open = selection.holds(0, elapsed);
        let first = Change { at: clock::ticks(), step: 0, open, at_step: true };
        let state =
            WindowState { changes: if kept { vec![first] } else { Vec::new() }, overhead, ..WindowState::default() };
        Self {
            selection,
            open: AtomicBool::new(open),
            state: Mutex::new(state),
            kept,
            keeps_calls: keep,
            paused_before: AtomicU64::new(0),
            paused_since: AtomicU64::new(0),
        }
    }

    /// True if operators are recorded now.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// True if samples are taken now. None are taken while operators are paused, so that all sums cover the same
    /// steps.
    #[inline]
    pub(crate) fn is_sampled(&self) -> bool {
        self.is_open() && self.paused_since.load(Ordering::Relaxed) == 0
    }

    /// True if a span of this name ends a step.
    pub(crate) fn is_step(name: &CStr) -> bool {
        name.to_bytes().starts_with(OPTIMIZER_STEP.as_bytes())
    }

    /// Count a step that ended `elapsed` after the begin of the recording with a span at `node`, and open or close the
    /// window. `report` is called if reports of operators start or stop: to measure overhead, or because the next step
    /// is inside or outside of the window. They stop only if a writer `looks` at the time, too, and would resume them.
    ///
    /// `report` runs under the lock, so that changes take effect in the order of their decisions, for any
    /// interleaving of threads.
    pub(crate) fn step_ended(
        &self,
        elapsed: Duration,
        node: NodeId,
        looks: bool,
        report: impl FnOnce(overhead::Change),
    ) {
        let mut state = self.state();
        state.step += 1;
        let first = state.ends.map_or(elapsed, |ends| ends.first);
        state.ends = Some(Ends { count: state.step, first, last: elapsed });
        let mark = (std::thread::current().id(), node);
        let overhead = state.overhead.as_mut().filter(|_| looks);
        let change = overhead.and_then(|overhead| overhead.step_ended(mark, nanos(elapsed)));
        match change {
            Some(overhead::Change::Pause) => self.pause(),
            Some(overhead::Change::Resume) => self.resume(),
            None => {}
        }
        if let Some(change) = change.or(self.change(&mut state, elapsed, true, looks)) {
            report(change);
        }
    }

    /// Open or close the window by the time since the begin, and drop a stalled overhead measurement. `report` is
    /// called if reports of operators start or stop. For the writer's periodic check.
    pub(crate) fn check_time(&self, elapsed: Duration, report: impl FnOnce(overhead::Change)) {
        let mut state = self.state();
        let gave_up = state.overhead.as_mut().is_some_and(|overhead| overhead.drop_stalled_comparison(nanos(elapsed)));
        if gave_up {
            self.resume();
        }
        let change = self.change(&mut state, elapsed, false, true);
        if let Some(change) = if gave_up { Some(overhead::Change::Resume) } else { change } {
            report(change);
        }
    }

    /// Call `report` with a pause if the program is outside of the recorded window, after reports of operators started.
    pub(crate) fn operators_started(&self, report: impl FnOnce(overhead::Change)) {
        let state = self.state();
        if state.is_left_out {
            report(overhead::Change::Pause);
        }
    }

    /// Note that operators are paused from now on to measure overhead.
    fn pause(&self) {
        self.paused_since.store(clock::ticks(), Ordering::Relaxed);
    }

    /// End the pause, if there is one, and add its time to the total.
    fn resume(&self) {
        let since = self.paused_since.swap(0, Ordering::Relaxed);
        if since != 0 {
            self.paused_before.fetch_add(clock::ticks().saturating_sub(since), Ordering::Relaxed);
        }
    }

    /// Total time in which recording was paused for the overhead measurement until `now`, in ticks.
    #[inline]
    pub(crate) fn paused(&self, now: u64) -> u64 {
        let since = self.paused_since.load(Ordering::Relaxed);
        let running = if since == 0 { 0 } else { now.saturating_sub(since) };
        self.paused_before.load(Ordering::Relaxed).saturating_add(running)
    }

    /// Overhead of the recorder measured so far; `None` without a measurement, or before the first step.
    pub(crate) fn overhead(&self) -> Option<stackline_recording::Overhead> {
        self.state().overhead.as_ref()?.measured()
    }

    /// Ends of steps so far; `None` if individual calls contain them, or if only a part of the program is recorded.
    pub(crate) fn step_ends(&self) -> Option<Ends> {
        let is_whole_program = !self.keeps_calls && self.selection == Selection::default();
        self.state().ends.filter(|_| is_whole_program)
    }

    /// Changes of the window so far, from index `from` on; empty if they are not kept.
    pub(crate) fn changes(&self, from: usize) -> Vec<Change> {
        self.state().changes.get(from..).unwrap_or(&[]).to_vec()
    }

    /// Lock the state.
    fn state(&self) -> MutexGuard<'_, WindowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Open or close the window by step and time. Returns the change if reports of operators must start or stop.
    fn change(
        &self,
        state: &mut WindowState,
        elapsed: Duration,
        at_step: bool,
        looks: bool,
    ) -> Option<overhead::Change> {
        let open = self.selection.holds(state.step, elapsed);
        if self.open.swap(open, Ordering::Relaxed) != open && self.kept {
            state.changes.push(Change { at: clock::ticks(), step: state.step, open, at_step });
        }
        let leave_out = !open && looks;
        if std::mem::replace(&mut state.is_left_out, leave_out) == leave_out {
            return None;
        }
        Some(if leave_out { overhead::Change::Pause } else { overhead::Change::Resume })
    }
}

#[cfg(test)]
mod tests {
    use super::{Ends, Selection, Window};
    use crate::overhead::Change;
    use crate::tree::NodeId;
    use std::sync::{Barrier, Mutex};
    use std::time::Duration;

    fn parse_selection(
        steps: Option<&str>,
        every: Option<&str>,
        after: Option<&str>,
        duration: Option<&str>,
    ) -> Option<Selection> {
        Selection::parse(steps, every, after, duration)
    }

    #[test]
    fn operators_pause_in_overhead_steps_of_full_windows() {
        dlmonitor::clock::start();
        let paused = |selection: Selection, keep, measures| {
            let window = Window::new(selection, keep, 4, Duration::ZERO);
            let (mut closed, mut unsampled) = (0, 0);
            for step in 0..100 {
                window.step_ended(Duration::from_millis(step), NodeId(1), measures, drop);
                closed += usize::from(!window.is_open());
                unsampled += usize::from(!window.is_sampled());
            }
            let is_timed = window.paused(dlmonitor::clock::ticks()) > 0 && unsampled > 0;
            (closed, window.overhead().map(|overhead| overhead.unrecorded_steps), is_timed)
        };
        assert_eq!(paused(Selection::default(), false, true), (0, Some(4), true));
        assert_eq!(paused(Selection::default(), true, true), (0, None, false), "individual calls are kept");
        assert_eq!(paused(Selection::default(), false, false), (0, None, false), "nobody would end a pause");
        assert_eq!(paused(parse_selection(Some("..1000"), None, None, None).unwrap(), false, true), (0, None, false));
    }

    #[test]
    fn first_and_last_step_ends_are_known_in_profile_mode() {
        let ends = |selection: Selection, keep| {
            let window = Window::new(selection, keep, 0, Duration::from_secs(1));
            assert_eq!(window.step_ends(), None);
            for (second, node) in [(4, 1), (5, 1), (7, 2)] {
                window.step_ended(Duration::from_secs(second), NodeId(node), true, drop);
            }
            window.step_ends()
        };
        let expected = Ends { count: 3, first: Duration::from_secs(4), last: Duration::from_secs(7) };
        assert_eq!(ends(Selection::default(), false), Some(expected));
        assert_eq!(ends(Selection::default(), true), None);
        assert_eq!(ends(parse_selection(Some("1..2"), None, None, None).unwrap(), false), None);
    }

    #[test]
    fn operators_pause_in_unrecorded_steps() {
        let changes = |selection: Selection, looks| {
            let window = Window::new(selection, false, 0, Duration::ZERO);
            let mut changes = Vec::new();
            for step in 0..7 {
                window.step_ended(Duration::from_secs(step), NodeId(1), looks, |change| changes.push((step, change)));
            }
            changes
        };
        let every_third = parse_selection(None, Some("3"), None, None).unwrap();
        let expected =
            [(0, Change::Pause), (2, Change::Resume), (3, Change::Pause), (5, Change::Resume), (6, Change::Pause)];
        assert_eq!(changes(every_third.clone(), true), expected);
        assert_eq!(changes(every_third, false), [], "nobody would end it");
        assert_eq!(changes(Selection::default(), true), []);
        let window =
            Window::new(parse_selection(None, None, Some("1s"), Some("1s")).unwrap(), false, 0, Duration::ZERO);
        let looks = [0, 1, 1, 2, 3].map(|second| {
            let mut applied_change = None;
            window.check_time(Duration::from_secs(second), |change| applied_change = Some(change));
            applied_change
        });
        assert_eq!(looks, [Some(Change::Pause), Some(Change::Resume), None, Some(Change::Pause), None]);
    }

    /// A thread that is interrupted before it stops operators must not stop them in the next step, which another
    /// thread began.
    #[test]
    fn changes_take_effect_in_their_order() {
        let window = Window::new(parse_selection(None, Some("2"), None, None).unwrap(), false, 0, Duration::ZERO);
        let (applied, decided) = (Mutex::new(Vec::new()), Barrier::new(2));
        let step = |wait: &dyn Fn()| {
            window.step_ended(Duration::ZERO, NodeId(1), true, |change| {
                wait();
                applied.lock().unwrap().push(change);
            });
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                step(&|| {
                    decided.wait();
                    std::thread::sleep(Duration::from_millis(50));
                });
            });
            decided.wait();
            step(&|| ());
        });
        assert_eq!(*applied.lock().unwrap(), [Change::Pause, Change::Resume]);
    }

    #[test]
    fn invalid_windows_are_refused() {
        for steps in ["5", "7..3", "a..b"] {
            assert_eq!(parse_selection(Some(steps), None, None, None), None, "{steps}");
        }
        for time in ["", "s", "-3s", "3 parsecs"] {
            assert_eq!(parse_selection(None, None, Some(time), None), None, "{time}");
        }
        assert_eq!(parse_selection(None, Some("0"), None, None), None);
    }

    #[test]
    fn later_processes_share_the_window_of_the_recording() {
        let open_at = |millis| {
            let selection = parse_selection(None, None, Some("400ms"), Some("2s")).unwrap();
            Window::new(selection, false, 0, Duration::from_millis(millis)).is_open()
        };
        assert_eq!([0, 399, 400, 2399, 2400].map(open_at), [false, false, true, true, false]);
    }

    #[test]
    fn steps_and_times_open_and_close_the_window() {
        let window = Window::new(
            parse_selection(Some("2..3"), None, Some("1500ms"), Some("2s")).unwrap(),
            true,
            0,
            Duration::ZERO,
        );
        let mut open = Vec::new();
        for second in 0..6 {
            open.push(window.is_open());
            window.step_ended(Duration::from_secs(second), NodeId(1), true, drop);
        }
        assert_eq!(open, [false, false, false, true, false, false]);
        let changes: Vec<_> = window.changes(0).iter().map(|c| (c.step, c.open, c.at_step)).collect();
        assert_eq!(changes, [(0, false, true), (3, true, true), (4, false, true)]);
        assert_eq!(window.changes(2), window.changes(0)[2..]);
        window.check_time(Duration::from_secs(2), drop);
        assert_eq!(window.changes(3), [], "step 6 is none of those that are wanted");
        let window = Window::new(parse_selection(None, Some("3"), None, None).unwrap(), false, 0, Duration::ZERO);
        let steps: Vec<bool> = (0..7)
            .map(|_| {
                let open = window.is_open();
                window.step_ended(Duration::ZERO, NodeId(1), true, drop);
                open
            })
            .collect();
        assert_eq!(steps, [true, false, false, true, false, false, true]);
        assert_eq!(window.changes(0), [], "nobody asked for them");
        assert!(
            Window::new(parse_selection(Some("..5"), None, None, None).unwrap(), true, 0, Duration::ZERO).is_open()
        );
        let window = Window::new(parse_selection(None, None, Some("1s"), None).unwrap(), true, 0, Duration::ZERO);
        window.step_ended(Duration::ZERO, NodeId(1), true, drop);
        window.check_time(Duration::from_secs(2), drop);
        assert_eq!(
            window.changes(1).iter().map(|c| (c.step, c.open, c.at_step)).collect::<Vec<_>>(),
            [(1, true, false)]
        );
        assert_eq!(
            Window::new(Selection::default(), true, 0, Duration::ZERO).changes(0),
            [],
            "all of the program is wanted"
        );
    }
}
