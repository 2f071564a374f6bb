//! Rule context: the trace, the critical path and the time range that a rule examines.

use super::compilations::Compilations;
use super::gain_estimate::GainEstimate;
use super::host_gaps::HostGaps;
use super::launches::Launches;
use super::recorded_operators::RecordedOperators;
use super::settings::{DeclaredSettings, Settings};
use super::span_index::SpanIndexes;
use super::standstill::Standstill;
use super::step_words::StepWords;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_critical_path::exact::what_if::{Action, Chosen, Edit, Selector};
use stackline_critical_path::exact::{Category, Exact, ExactPath, LoaderWorkers, PathSegment, Window};
use stackline_model::gpu_calls::{CopyDirection, copy_direction};
use stackline_model::launch_times::LaunchTimes;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{EventId, EventKind, Step, StepIndex, StrId, Trace};
use stackline_timeline::kernel_type::{NameTypes, RULES};
use stackline_timeline::recording::Recording;
use stackline_timeline::source_location::{SourceLocation, SourceLocationKey, SourceLocations};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Data of a trace and its critical path that all rules share.
pub(super) struct SharedContext<'a> {
    pub(super) exact: &'a Exact<'a>,
    pub(super) window: Window,
    /// Number of steps in the window; 1 if there are none.
    pub(super) steps: usize,
    /// True if the window has steps.
    pub(super) has_steps: bool,
    pub(super) settings: &'a Settings,
    /// True if the program does not mark its steps; `has_used_steps` is set when a rule uses their number.
    are_inferred: bool,
    has_used_steps: AtomicBool,
    path: OnceLock<ExactPath>,
    on_path: OnceLock<FxHashMap<EventId, i64>>,
    places: OnceLock<SourceLocations<'a>>,
    launches: OnceLock<Launches>,
    gpu_ns: OnceLock<i64>,
    recorded: OnceLock<Option<RecordedOperators>>,
    host_gaps: OnceLock<HostGaps>,
    launch_times: OnceLock<LaunchTimes<'a>>,
    indexes: SpanIndexes,
    step_index: OnceLock<StepIndex>,
    standstill: OnceLock<Standstill>,
    compilations: OnceLock<Compilations>,
}

impl<'a> SharedContext<'a> {
    /// Create the shared context of a window with a number of steps; indexes are computed on first use.
    pub(super) fn new(
        exact: &'a Exact<'a>,
        (window, steps): (Window, usize),
        (settings, are_inferred): (&'a Settings, bool),
    ) -> Self {
        let (path, on_path, places) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (launches, gpu_ns, recorded) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (host_gaps, launch_times, step_index) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self {
            exact,
            window,
            steps: steps.max(1),
            has_steps: steps > 0,
            settings,
            are_inferred,
            has_used_steps: AtomicBool::new(false),
            path,
            on_path,
            places,
            launches,
            gpu_ns,
            recorded,
            host_gaps,
            launch_times,
            indexes: SpanIndexes::default(),
            step_index,
            standstill: OnceLock::new(),
            compilations: OnceLock::new(),
        }
    }

    /// Run a rule's check, and return its result with a flag that is true if the result depends on inferred steps.
    pub(super) fn track_use_of_steps<T>(&self, check: impl FnOnce() -> T) -> (T, bool) {
        self.has_used_steps.store(false, Ordering::Relaxed);
        let found = check();
        (found, self.are_inferred && self.has_used_steps.load(Ordering::Relaxed))
    }

    /// Launch times of the trace's GPU operations, computed on first use.
    pub(super) fn launch_times(&self) -> &LaunchTimes<'a> {
        self.launch_times.get_or_init(|| LaunchTimes::new(self.exact.trace()))
    }
}

impl SharedContext<'_> {
    /// Metadata of a Stackline recording; none for traces of other profilers.
    pub(super) fn recording(&self) -> Option<&Recording> {
        self.exact.recording()
    }

    /// Critical path through the analyzed window, computed on first use.
    pub(super) fn path(&self) -> &ExactPath {
        self.path.get_or_init(|| self.exact.path_of(self.window))
    }

    /// Standstills of the window: gaps on the critical path much longer than a step.
    pub(super) fn standstill(&self) -> &Standstill {
        self.standstill.get_or_init(|| match self.has_steps {
            true => Standstill::new(self.exact.trace(), (self.window, self.path()), (self.step_ns(), self.steps)),
            false => Standstill::default(),
        })
    }

    /// Recorded operators, from which the overhead of their recording follows; none if it is unknown.
    pub(super) fn recorded_operators(&self) -> Option<&RecordedOperators> {
        self.recorded.get_or_init(|| RecordedOperators::from_trace(self.exact.trace(), self.recording())).as_ref()
    }

    /// Mean step length in the window without the overhead of recording, in ns.
    pub(super) fn step_ns(&self) -> i64 {
        let recording = self.recorded_operators().map_or(0, |recorded| recorded.window_overhead_ns(self.window));
        (self.window.length_ns() - recording) / self.steps.max(1) as i64
    }
}

/// Check if an event ran in a critical-path segment. In a wait of unknown cause, the segment's event comes after the
/// wait.
fn event_ran(segment: &PathSegment) -> bool {
    segment.event.is_some() && segment.category != Category::Unknown
}

/// Check if an operator event with this name is an operator: traces of 2021 and before record step markers as
/// operators, too.
pub(super) fn is_operator_name(name: &str) -> bool {
    !name.starts_with(STEP_PREFIX)
}

/// Rule context: access to the trace for one rule. Only rules of this crate read it.
#[derive(Clone, Copy)]
pub struct RuleContext<'a> {
    shared: &'a SharedContext<'a>,
    declared: DeclaredSettings,
}

impl<'a> RuleContext<'a> {
    /// Create the access of one rule, with these settings, to the shared data.
    pub(super) fn new(shared: &'a SharedContext<'a>, declared: DeclaredSettings) -> Self {
        Self { shared, declared }
    }

    /// Trace that the rule examines.
    pub(crate) fn trace(&self) -> &'a Trace {
        self.shared.exact.trace()
    }

    /// Properties of Stackline's own recording; `None` for other traces.
    pub(crate) fn recording(&self) -> Option<&'a Recording> {
        self.shared.recording()
    }

    /// Overhead of recording all operators in spans, in ns: the spans are shorter by this time without a recorder. 0 if
    /// unknown.
    pub(crate) fn recording_overhead_ns(&self, spans: &[EventId]) -> i64 {
        let ns = |recorded: &RecordedOperators| recorded.overhead_ns(self.trace(), spans.iter().copied());
        self.shared.recorded_operators().map_or(0, |recorded| ns(recorded) as i64)
    }

    /// Value of one of the rule's settings.
    pub(crate) fn setting(&self, name: &str) -> f64 {
        self.shared.settings.value(self.declared, name)
    }

    /// Settings of all rules, as chosen by the user.
    pub(super) fn settings(&self) -> &'a Settings {
        self.shared.settings
    }

    /// Number of steps in the window, 1 if the trace has none; records that the rule depends on this number.
    pub(crate) fn steps(&self) -> usize {
        self.shared.has_used_steps.store(true, Ordering::Relaxed);
        self.shared.steps
    }

    /// Phrases for titles and facts, such as "per step", by the number of steps in the window.
    pub(super) fn words(&self) -> StepWords {
        StepWords::new(if self.shared.has_steps { self.shared.steps } else { 0 })
    }

    /// Start and end of the window, in ns since the base.
    pub(crate) fn window(&self) -> (i64, i64) {
        (self.shared.window.start, self.shared.window.end)
    }

    /// Length of the window without standstills, in ns.
    pub(crate) fn steps_ns(&self) -> i64 {
        (self.shared.window.length_ns() - self.shared.standstill().ns).max(1)
    }

    /// A time in ns, in percent of the window without standstills (gaps much longer than a step).
    pub(crate) fn percent(&self, ns: i64) -> f64 {
        let percent = 100.0 * ns as f64 / self.steps_ns() as f64;
        // A time that includes a standstill, such as that of a waiting thread, is at most all steps.
        if self.shared.standstill().ns > 0 { percent.min(100.0) } else { percent }
    }

    /// A time in ns, in percent of the whole window, including standstills.
    pub(crate) fn percent_of_window(&self, ns: i64) -> f64 {
        100.0 * ns as f64 / self.shared.window.length_ns().max(1) as f64
    }

    /// Divide a time of the whole window, in ns, by its number of steps.
    pub(crate) fn per_step(&self, ns: i64) -> i64 {
        ns / self.shared.steps.max(1) as i64
    }

    /// Worker processes of data loaders that the trace shows.
    pub(crate) fn loader_workers(&self) -> &'a LoaderWorkers {
        self.shared.exact.loader_workers()
    }

    /// Critical path through the window that the rule examines.
    pub(crate) fn path(&self) -> &'a ExactPath {
        self.shared.path()
    }

    /// Critical-path segments of the window, without those in standstills.
    pub(crate) fn segments(&self) -> impl Iterator<Item = PathSegment> + use<'a> {
        let standstill = self.shared.standstill();
        self.path().segments.iter().filter(|segment| !standstill.contains(segment))
    }

    /// Time on the critical path by event, in ns, without standstills.
    pub(crate) fn on_path(&self) -> &'a FxHashMap<EventId, i64> {
        self.shared.on_path.get_or_init(|| {
            let mut by_event = FxHashMap::default();
            for segment in self.segments().filter(event_ran) {
                *by_event.entry(segment.event).or_default() += segment.end - segment.start;
            }
            by_event
        })
    }

    /// Time on the critical path in segments of a category, in ns, without standstills (gaps much longer than a step).
    pub(crate) fn path_ns_of(&self, category: Category) -> i64 {
        self.segments().filter(|segment| segment.category == category).map(|segment| segment.end - segment.start).sum()
    }

    /// Check if an event is in the window, with valid times. GPU work counts by its launch, or by its start if the host
    /// launched it before the GPU completed earlier steps.
    pub(crate) fn is_in_window(&self, event: EventId) -> bool {
        let trace = self.trace();
        let events = &trace.events;
        if !events.is_timed(event) {
            return false;
        }
        let is_work = trace.kind(event).is_gpu_work();
        let launched = if is_work { self.launch_times().of_event(event) } else { None };
        let (from, to) = self.window();
        let started = events.start[event.index()];
        let launched = launched.map_or(started, |launched| launched.at);
        launched < to && launched.max(started) >= from
    }

    /// Launch times of the trace's GPU operations.
    pub(super) fn launch_times(&self) -> &'a LaunchTimes<'a> {
        self.shared.launch_times()
    }

    /// Names in the trace that mark compilations of torch.compile.
    pub(crate) fn compilations(&self) -> &'a Compilations {
        self.shared.compilations.get_or_init(|| Compilations::from_trace(self.trace()))
    }

    /// Events of the window of the given kinds whose name passes a test; each name is tested once.
    pub(crate) fn named(&self, kinds: &[EventKind], test: impl Fn(&str) -> bool) -> Vec<EventId> {
        let trace = self.trace();
        let matches: Vec<bool> = trace.strings.iter().map(test).collect();
        let matches = |e: EventId| matches.get(trace.events.name[e.index()].index()).copied().unwrap_or(false);
        let is_selected = |e: &EventId| kinds.contains(&trace.kind(*e)) && matches(*e) && self.is_in_window(*e);
        trace.events.ids().filter(is_selected).collect()
    }

    /// GPU operations (kernels, copies, fills) in the window.
    pub(crate) fn gpu_work(&self) -> Vec<EventId> {
        self.trace().gpu.event.iter().copied().filter(|&event| self.is_in_window(event)).collect()
    }

    /// GPU kernels in the window.
    pub(crate) fn kernels(&self) -> Vec<EventId> {
        self.named(&[EventKind::Kernel], |_| true)
    }

    /// Classifier that assigns kernel types to GPU operations by name.
    pub(crate) fn kernel_types(&self) -> NameTypes<'a> {
        NameTypes::new(self.trace(), RULES)
    }

    /// Operators in the window, nested ones included.
    pub(crate) fn operators(&self) -> Vec<EventId> {
        self.named(&[EventKind::Operator], is_operator_name)
    }

    /// Duration of a trace event in ns.
    pub(crate) fn dur(&self, event: EventId) -> i64 {
        self.trace().events.dur[event.index()]
    }

    /// Durations of events, in ns, ascending.
    pub(crate) fn lengths(&self, events: &[EventId]) -> Vec<i64> {
        let mut lengths: Vec<i64> = events.iter().map(|&event| self.dur(event)).collect();
        lengths.sort_unstable();
        lengths
    }

    /// Sum of the durations of events, in ns.
    pub(crate) fn total(&self, events: &[EventId]) -> i64 {
        events.iter().map(|&e| self.dur(e)).sum()
    }

    /// Group events by source location (for GPU work that of its launch), in the order of locations.
    pub(crate) fn by_place(&self, events: &[EventId]) -> Vec<(SourceLocation, Vec<EventId>)> {
        let places = self.places();
        let mut groups: BTreeMap<SourceLocationKey, Vec<EventId>> = BTreeMap::new();
        for &event in events {
            groups.entry(places.key(event)).or_default().push(event);
        }
        groups.into_iter().map(|(key, events)| (places.place(key), events)).collect()
    }

    /// Source location of an event: file, line, function, module.
    pub(crate) fn place(&self, event: EventId) -> SourceLocation {
        self.places().place(self.places().key(event))
    }

    /// Index of GPU work by launching thread and launch time, built on first use.
    pub(super) fn launches(&self) -> &'a Launches {
        self.shared.launches.get_or_init(|| Launches::new(self.trace()))
    }

    /// Total duration of GPU work in the window, in ns; concurrent work counts separately.
    pub(crate) fn gpu_ns(&self) -> i64 {
        *self.shared.gpu_ns.get_or_init(|| self.total(&self.gpu_work()))
    }

    /// Indexes of the events and GPU work within spans.
    pub(super) fn indexes(&self) -> &'a SpanIndexes {
        &self.shared.indexes
    }

    /// Check if an event is a call of a function of the user's own code.
    pub(crate) fn is_own_frame(&self, event: EventId) -> bool {
        self.places().is_own_frame(event)
    }

    /// Check if a name is that of a function of the user's own code.
    pub(super) fn is_own_name(&self, name: StrId) -> bool {
        self.places().is_own_name(name)
    }

    /// Gaps of host threads between operators, with their samples.
    pub(super) fn host_gaps(&self) -> &'a HostGaps {
        self.shared.host_gaps.get_or_init(|| HostGaps::from_trace(self.trace(), self.window()))
    }

    /// Line of the user's own code in a sample; none if the thread ran other code.
    pub(super) fn line_of_sample(&self, sample: EventId) -> Option<SourceLocation> {
        self.places().line_of_sample(sample)
    }

    /// Source locations of the trace's events, built on first use.
    pub(super) fn places(&self) -> &'a SourceLocations<'a> {
        self.shared.places.get_or_init(|| SourceLocations::new(self.trace()))
    }

    /// Select the events that are not nested in another given event.
    pub(crate) fn outermost(&self, events: &[EventId]) -> Vec<EventId> {
        let (trace, all): (_, FxHashSet<EventId>) = (self.trace(), events.iter().copied().collect());
        events.iter().copied().filter(|&e| !trace.ancestors(e).any(|around| all.contains(&around))).collect()
    }

    /// Group spans by source location, and sum a value of each span, such as its time on the path.
    pub(crate) fn sums_by_place(&self, mut spans: Vec<(EventId, i64)>) -> Vec<(SourceLocation, i64, Vec<EventId>)> {
        spans.sort_unstable();
        let events: Vec<EventId> = spans.iter().map(|&(span, _)| span).collect();
        let ns = |span: &EventId| spans.binary_search_by_key(span, |&(event, _)| event).map_or(0, |at| spans[at].1);
        let by_place = self.by_place(&events).into_iter();
        by_place.map(|(place, of)| (place, of.iter().map(ns).sum(), of)).collect()
    }

    /// Check if an event is a copy from a device to the host.
    pub(crate) fn is_copy_to_host(&self, event: EventId) -> bool {
        let trace = self.trace();
        trace.kind(event) == EventKind::Memcpy && copy_direction(trace.name(event)) == Some(CopyDirection::ToHost)
    }

    /// Steps of the window, except for the first step of the trace, which includes one-time work.
    pub(crate) fn later_steps(&self) -> &'a [Step] {
        let (steps, (from, to)) = (&self.trace().steps, self.window());
        let first = steps.partition_point(|s| s.start < from).max(1).min(steps.len());
        let last = steps.partition_point(|s| s.start < to).max(first);
        &steps[first..last]
    }

    /// Index, in a list of steps, of the step in which an event starts. Only steps of the event's own process count.
    pub(crate) fn step_of(&self, steps: &[Step], event: EventId) -> Option<usize> {
        let (trace, at) = (self.trace(), event.index());
        let index = self.shared.step_index.get_or_init(|| StepIndex::new(trace));
        let step = index.running(trace.events.start[at], trace.tracks.pid(trace.events.track[at]))?;
        let step = &trace.steps[step as usize];
        let from = steps.partition_point(|s| s.start < step.start);
        let together = steps[from..].iter().take_while(|s| s.start == step.start);
        together.enumerate().find(|(_, s)| s.event == step.event).map(|(after, _)| from + after)
    }

    /// Indexes, in a list of steps, of the steps in which any of the events starts.
    pub(crate) fn steps_with(&self, steps: &[Step], events: impl IntoIterator<Item = EventId>) -> BTreeSet<usize> {
        events.into_iter().filter_map(|event| self.step_of(steps, event)).collect()
    }

    /// Check if a set of step indexes contains all steps of the window. The first or last step may be missing. If an
    /// optimizer call ends each step, work after it belongs to the next step, and the first step lacks it.
    pub(crate) fn are_all_steps(&self, steps: &BTreeSet<usize>) -> bool {
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return false };
        let is_all_but_one = steps.len() >= 2 && steps.len() + 1 == self.steps() && last - first + 1 == steps.len();
        steps.len() >= self.steps() || is_all_but_one
    }

    /// Group events by name, in order of descending total time.
    pub(crate) fn by_name(&self, events: &[EventId]) -> Vec<(&'a str, Vec<EventId>)> {
        let trace = self.trace();
        let mut groups: BTreeMap<StrId, Vec<EventId>> = BTreeMap::new();
        for &event in events {
            groups.entry(trace.events.name[event.index()]).or_default().push(event);
        }
        let mut groups: Vec<_> = groups.into_iter().map(|(name, events)| (trace.strings.get(name), events)).collect();
        groups.sort_by_key(|(name, events)| (std::cmp::Reverse(self.total(events)), *name));
        groups
    }

    /// Edit that applies an action to events, with a readable label; none if the action does not apply to them.
    pub(crate) fn edit(&self, action: Action, text: impl Into<String>, events: &[EventId]) -> Option<Edit> {
        self.edit_of(action, text, Chosen { events: events.to_vec(), ..Chosen::default() })
    }

    /// Edit that applies an action to events and time ranges, with a readable label; none if the action does not apply
    /// to them.
    pub(crate) fn edit_of(&self, action: Action, text: impl Into<String>, chosen: Chosen) -> Option<Edit> {
        if chosen.events.is_empty() && chosen.between.is_empty() && chosen.ranges.is_empty() {
            return None;
        }
        let action = if let Action::Scale(factor) = action { Action::Scale(rounded(factor)) } else { action };
        Edit::on(action, Selector::new(text, chosen)).ok()
    }

    /// Gain estimate of scaling events to a remaining share of their time (0 to 1). The shares are the likely one and
    /// two bounds; none without events.
    pub(super) fn scaled(
        &self,
        [likely, least, most]: [f64; 3],
        text: &str,
        events: &[EventId],
    ) -> Option<GainEstimate> {
        let edits = |left: f64| Some(vec![self.edit(Action::Scale(left.min(1.0)), text, events)?]);
        Some(GainEstimate::range(edits(likely)?, vec![edits(least)?, edits(most)?]))
    }
}

/// Factor rounded to four significant digits, so that the replayed and the displayed value are equal.
fn rounded(factor: f64) -> f64 {
    format!("{factor:.3e}").parse().unwrap_or(factor)
}
