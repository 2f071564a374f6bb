//! What-if: prediction of a window's length after edits of durations and dependencies.
//!
//! The dependency graph is replayed forward with the edits. Some facts are missing in a trace: lags of dependencies
//! that did not bind, correctness of inferred dependencies, and free capacity of the GPU. The prediction uses usual
//! values for them, the upper bound favorable ones, and the lower bound unfavorable ones.

mod applier;
mod apply;
mod cancellation;
mod capacity;
mod cases;
mod clocks;
mod diagnostics;
mod edit;
mod functions;
mod gain;
mod host_time;
mod index;
mod ineffective_edits;
mod lags;
mod launches;
mod listed;
mod loader;
mod loader_ranges;
mod lock_contention;
mod main_process_loader;
mod missing_work_bounds;
mod order_conflicts;
mod path;
mod replay;
mod sampled;
mod scaled;
mod select;
mod selector;
mod suggest;
mod sweep;
mod tables;
mod timer_waits;
mod waits;

pub use clocks::{Gains, predict, predict_in, sweep};
pub use edit::{Action, Case, Edit};
pub use gain::Gain;
pub use index::module_class;
pub use listed::Chosen;
pub use main_process_loader::own_loading;
pub use path::{NewPath, NewSegment};
pub use select::spans_of;
pub use selector::{NameKind, Selector};
pub use stackline_timeline::name_pattern::Pattern;
pub use sweep::{Candidate, Sweep, SweepOptions};
pub use tables::{PATH, path_table, sweep_table, sweep_tables, tables};
pub use timer_waits::event_loop_note;

use super::Exact;
use super::graph::{NONE, NodeKind};
use super::window::Window;
use crate::CriticalPathError;
use apply::{Applied, apply};
use cancellation::Stop;
use cases::{Cases, NO_GAIN};
use index::Index;
use lags::Mode;
use lock_contention::OrderUncertainty;
use path::End;
use replay::{Changes, Plan};
use stackline_timeline::window_choice::WindowChoice;
use timer_waits::TimerWaits;

const CLOCKS_DISAGREE: &str = "the clocks of host and GPU disagree, so the prediction and its bounds may be wrong by \
                               the difference of the clocks; `stackline doctor` shows the difference";

/// Trace prepared for what-if, to try many edits.
pub struct WhatIf<'e, 'a> {
    exact: &'e Exact<'a>,
    plan: Plan,
    index: Index,
    /// Per lane: true if its end can be the end of the work.
    works: Vec<bool>,
    /// Waits that may absorb saved time.
    timer_waits: TimerWaits,
}

/// Predicted effect of edits on a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Window before the edits.
    pub window: Window,
    /// Length of the window after the edits, in ns.
    pub after_ns: i64,
    /// Gain with bounds.
    pub gain: Gain,
    /// Text and number of affected events per edit.
    pub edits: Vec<(String, usize)>,
    /// Path before the edits.
    pub before: NewPath,
    /// Path after the edits.
    pub after: NewPath,
    /// Notes for readers, one or two sentences each.
    pub notes: Vec<String>,
}

impl Prediction {
    /// Length of the window before the edits, in ns.
    pub fn before_ns(&self) -> i64 {
        self.window.length_ns()
    }

    /// Convert a gain in ns to percent of the window.
    pub fn percent(&self, ns: i64) -> f64 {
        percent(ns, self.before_ns())
    }
}

/// Convert `part` to percent of `whole`; 0 if `whole` is 0.
pub(super) fn percent(part: i64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

impl<'a> Exact<'a> {
    /// Prepare the graph for what-if, in linear time of its edges except for sorting.
    pub fn what_if(&self) -> WhatIf<'_, 'a> {
        let works = self.lanes.iter().map(|lane| self.is_work_thread(lane)).collect();
        let timer_waits = TimerWaits::new(self);
        WhatIf { exact: self, plan: Plan::new(self), index: Index::new(self), works, timer_waits }
    }
}

/// Divisor of the window's length by which bounds widen, for clocks and rounding.
const BOUND_DIVISOR: i64 = 10_000;
/// Additional width of the bounds in ns if any time changes: one more gap or handover.
const LAG_NS: i64 = 4_000;

/// Window whose length a prediction measures, with the nodes that define its start and end.
struct Measured {
    window: Window,
    /// True if the end of the window is the end of the last work.
    is_whole: bool,
    /// Work launched before the window's start and end, for windows of GPU throughput.
    work: Option<ThroughputWindow>,
    /// For a window that ends with GPU work and lies on no thread: the last work before it on that stream.
    before: Option<u32>,
}

/// Throughput window: time range of a thread, and the last GPU operations of streams launched before its start and end.
struct ThroughputWindow {
    /// Time range of the thread.
    host: Window,
    begins: Vec<u32>,
    ends: Vec<u32>,
}

impl WhatIf<'_, '_> {
    /// Predict the effect of edits, applied together, on a window.
    ///
    /// # Errors
    /// Returns an error if the window does not exist, a selector matches no event, or edits contradict each other.
    pub fn predict(&self, choice: &WindowChoice, edits: &[Edit]) -> Result<Prediction, CriticalPathError> {
        self.predict_with_segments(choice, edits, None)
    }

    /// Predict the effect of edits as [`Self::predict`] does. `segments` receives the critical-path segments after the
    /// edits. Each begins at the end of the previous one (the first at the start of the window). Adjacent segments of
    /// one cause and name are merged.
    fn predict_with_segments(
        &self,
        choice: &WindowChoice,
        edits: &[Edit],
        segments: Option<&mut Vec<NewSegment>>,
    ) -> Result<Prediction, CriticalPathError> {
        let measured = self.measured(choice)?;
        let cases = Cases::new(edits)?;
        let edits: &[Edit] = &cases.likely;
        let mut applied = apply(self.exact, (&self.plan, &self.index), edits, measured.window, Stop::NEVER)?;
        let mut shifts = Vec::new();
        let end = self.end_after(&measured, &applied, Mode::Usual, &mut shifts, Stop::NEVER);
        let after = path::path(self.exact, &self.plan, (&applied, &shifts), end, segments);
        let gain = self.gain(&measured, &applied, end.length, &mut shifts, Stop::NEVER);
        let others = self.gains_of_cases(&measured, &cases, Stop::NEVER);
        let gain = gain.bounded_by(&others.gains);
        let none = apply(self.exact, (&self.plan, &self.index), &[], measured.window, Stop::NEVER)?;
        let observed = self.end_after(&measured, &none, Mode::Usual, &mut shifts, Stop::NEVER);
        let before = path::path(self.exact, &self.plan, (&none, &shifts), observed, None);
        let mut notes = std::mem::take(&mut applied.notes);
        notes.extend(edits.iter().filter_map(|edit| edit.missing(self.exact.trace)));
        let taken = self.removed_path_ns(&measured, &applied);
        notes.extend(self.unknown_causes_note());
        notes.extend(self.exact.clocks_disagree().then(|| CLOCKS_DISAGREE.to_owned()));
        notes.extend(self.no_gain(&measured, &applied, (taken, gain.likely_ns)));
        notes.extend(self.replacing_cause(taken, gain.likely_ns, (&before, &after)));
        notes.extend(self.moved_past_end(&measured, &applied, gain.likely_ns));
        let absorbing = self.absorbing_wait(&measured, &applied).filter(|_| gain.likely_ns > 0);
        notes.extend(absorbing.map(str::to_owned));
        notes.extend(others.notes);
        let names = edits.iter().map(ToString::to_string);
        Ok(Prediction {
            window: measured.window,
            after_ns: end.length,
            gain,
            edits: names.zip(applied.counts.iter().copied()).chain(others.edits).collect(),
            before,
            after,
            notes,
        })
    }

    /// Gain of edits applied together, with the bounds from their cases.
    fn gain_of(&self, choice: &WindowChoice, edits: &[Edit]) -> Result<Gain, CriticalPathError> {
        let measured = self.measured(choice)?;
        self.gain_with_cases(&measured, edits, Stop::NEVER).map(|(gain, _)| gain)
    }

    /// Start and end of every node in ns by a replay without edits, which equal the observed times.
    pub fn replayed(&self) -> Vec<(i64, i64)> {
        let mut changes = Changes::none(&self.plan);
        changes.replay_from_start();
        let mut shifts = Vec::new();
        self.plan.replay(&changes, Mode::Usual, (self.plan.len() as u32, Stop::NEVER), &mut shifts);
        let graph = &self.exact.graph;
        let times = |n: usize| (graph.start[n], graph.end[n], shifts[self.plan.position[n] as usize]);
        (0..graph.len()).map(times).map(|(start, end, shift)| (start + shift, end + shift)).collect()
    }

    /// Resolve a window choice to its time range, with the GPU work or node that defines its start and end.
    fn measured(&self, choice: &WindowChoice) -> Result<Measured, CriticalPathError> {
        let work = match *choice {
            WindowChoice::StepsWithWork(first, last) => {
                let (host, [begins, ends]) = self.exact.steps_and_work(first, last)?;
                self.is_on_thread(host).then_some(ThroughputWindow { host, begins, ends })
            }
            _ => None,
        };
        let window = self.exact.window(choice)?;
        let has_lane = work.is_some() || window.anchor == NONE || self.is_on_thread(window);
        let before = if has_lane { None } else { self.exact.work_before(window) };
        Ok(Measured { window, is_whole: *choice == WindowChoice::Whole, work, before })
    }

    /// True if a window ends with a host node, on a thread.
    fn is_on_thread(&self, window: Window) -> bool {
        window.anchor != NONE && self.exact.graph.kind[window.anchor as usize] != NodeKind::Gpu
    }

    /// Gain with bounds for a predicted length of `after` ns. `shifts` are those of its replay.
    fn gain(&self, measured: &Measured, applied: &Applied, after: i64, shifts: &mut Vec<i64>, stop: Stop<'_>) -> Gain {
        let before = measured.window.length_ns();
        let moves = |shifts: &[i64]| shifts.iter().any(|&shift| shift != 0);
        let mut moved = moves(shifts);
        let mut worst = self.end_after(measured, applied, Mode::Pessimistic, shifts, stop).length;
        moved |= moves(shifts);
        let mut uncertainty = self.order_uncertainty(applied, shifts);
        if let Some(for_lower_bound) = applied.for_lower_bound.as_deref() {
            worst = worst.max(self.end_after(measured, for_lower_bound, Mode::Pessimistic, shifts, stop).length);
            uncertainty.longer = uncertainty.longer.max(self.order_uncertainty(for_lower_bound, shifts).longer);
        }
        let favored = applied.for_upper_bound.as_deref().unwrap_or(applied);
        let best = self.end_after(measured, favored, Mode::Optimistic, shifts, stop).length;
        moved |= moves(shifts);
        // If nothing moves under any assumption, the edits have no effect.
        let nothing_moves = !moved && [after, worst, best] == [before; 3] && applied.changes.at_worst.is_none();
        if nothing_moves || self.plan.is_as_before(&applied.changes) {
            return NO_GAIN;
        }
        let other = self.order_uncertainty(favored, shifts);
        uncertainty.longer = uncertainty.longer.max(other.longer);
        uncertainty.shorter = uncertainty.shorter.max(other.shorter);
        let ns = before - after;
        let low = ns.min(before - worst).saturating_sub(uncertainty.longer);
        let high = ns.max(before - best).saturating_add(uncertainty.shorter);
        let low = applied.changes.at_worst.map_or(low, |cost| low.min(-cost));
        let blur = match () {
            () if applied.counts.is_empty() => 0,
            () if low == 0 && high == 0 => before / BOUND_DIVISOR,
            () => before / BOUND_DIVISOR + LAG_NS,
        };
        let low = low.saturating_sub(blur);
        let low = if low > 0 && self.absorbing_wait(measured, applied).is_some() { 0 } else { low };
        // The gain cannot exceed the length of the window.
        Gain::new(ns, low, high.saturating_add(blur).min(before.max(ns)))
    }

    /// Maximum time in ns that another order of lock holders after the edits may add or remove; 0 without changes.
    fn order_uncertainty(&self, applied: &Applied, shifts: &[i64]) -> OrderUncertainty {
        if !applied.changes.any() {
            return OrderUncertainty::default();
        }
        self.plan.lock_contention.order_uncertainty(|lane, at| self.shifted_lane_time(lane, at, applied, shifts))
    }

    /// End and length of the window after the edits.
    fn end_after(
        &self,
        measured: &Measured,
        applied: &Applied,
        mode: Mode,
        shifts: &mut Vec<i64>,
        stop: Stop<'_>,
    ) -> End {
        let window = measured.window;
        if window.anchor == NONE {
            shifts.clear();
            shifts.resize(self.plan.len(), 0);
            return End { node: NONE, at: window.end, length: window.length_ns() };
        }
        let graph = &self.exact.graph;
        if measured.is_whole {
            self.plan.replay(&applied.changes, mode, (self.plan.len() as u32, stop), shifts);
            let end = |n: u32| graph.end[n as usize] + shifts[self.plan.position[n as usize] as usize];
            let works =
                |n: u32| graph.kind[n as usize] == NodeKind::Gpu || self.works[graph.place[n as usize] as usize];
            let counts = |&n: &u32| n == window.anchor || works(n);
            let last = (0..graph.len() as u32).filter(counts).max_by_key(|&n| (end(n), n == window.anchor));
            let node = last.unwrap_or(window.anchor);
            return End { node, at: graph.end[node as usize], length: end(node) - window.start };
        }
        if let Some(work) = &measured.work {
            return self.end_of_work(work, applied, mode, shifts, stop);
        }
        let nodes = measured.before.into_iter().chain([window.anchor]);
        let until = nodes.map(|n| self.plan.position[n as usize]).max().unwrap_or(0) + 1;
        self.plan.replay(&applied.changes, mode, (until, stop), shifts);
        let lane = graph.place[window.anchor as usize];
        let end = self.shifted_time(window.anchor, lane, window.end, applied, shifts);
        let start = match measured.before {
            _ if self.is_on_thread(window) => self.shifted_lane_time(lane, window.start, applied, shifts),
            Some(before) => window.start + shifts[self.plan.position[before as usize] as usize],
            None => window.start,
        };
        let length = (end - start).max(0);
        End { node: window.anchor, at: window.end, length }
    }

    /// End and length of a throughput window, including GPU work launched before its start and end.
    fn end_of_work(
        &self,
        work: &ThroughputWindow,
        applied: &Applied,
        mode: Mode,
        shifts: &mut Vec<i64>,
        stop: Stop<'_>,
    ) -> End {
        let (graph, host) = (&self.exact.graph, work.host);
        let nodes = || work.begins.iter().chain(&work.ends).chain([&host.anchor]);
        let until = nodes().map(|&n| self.plan.position[n as usize]).max().unwrap_or(0) + 1;
        self.plan.replay(&applied.changes, mode, (until, stop), shifts);
        let end_of = |n: u32| graph.end[n as usize] + shifts[self.plan.position[n as usize] as usize];
        let lane = graph.place[host.anchor as usize];
        let start = self.shifted_lane_time(lane, host.start, applied, shifts);
        let start = work.begins.iter().map(|&n| end_of(n)).fold(start, i64::max);
        let on_host = (self.shifted_time(host.anchor, lane, host.end, applied, shifts), host.anchor, host.end);
        let on_gpu = work.ends.iter().map(|&n| (end_of(n), n, graph.end[n as usize]));
        let (end, node, at) = on_gpu.fold(on_host, |last, other| if other.0 > last.0 { other } else { last });
        End { node, at, length: (end - start).max(0) }
    }

    /// Time after the edits, in ns, of a point in or after a node of a thread.
    fn shifted_time(&self, node: u32, lane: u32, at: i64, applied: &Applied, shifts: &[i64]) -> i64 {
        let graph = &self.exact.graph;
        let (from, to) = (graph.start[node as usize], graph.end[node as usize]);
        let position = self.plan.position[node as usize] as usize;
        let shift = shifts.get(position).copied().unwrap_or(0);
        if at >= to || graph.kind[node as usize] != NodeKind::Host {
            return at + shift;
        }
        let began = shift - applied.changes.time[position];
        at + began + applied.host.change(lane, from, at.max(from))
    }

    /// Time after the edits of a point on a thread. Inside a wait, the point moves with the previous node.
    fn shifted_lane_time(&self, lane: u32, at: i64, applied: &Applied, shifts: &[i64]) -> i64 {
        let (first, last) = self.exact.lane_nodes[lane as usize];
        let starts = &self.exact.graph.start[first as usize..last as usize];
        match starts.partition_point(|&start| start <= at) {
            0 => at,
            n => self.shifted_time(first + n as u32 - 1, lane, at, applied, shifts),
        }
    }
}
