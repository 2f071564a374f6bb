//! Rule context: the trace, the critical path and the time range that a rule examines.

use super::finding::GainEstimate;
use super::gpu_work_by_launcher::{Launches, is_operators_name};
use super::host_gaps::HostGaps;
use super::recording::RecordedOperators;
use super::rule::Rule;
use super::settings::Settings;
use super::standstill::Standstill;
use super::step_words::StepWords;
use super::within::Indexes;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_critical_path::exact::what_if::{Action, Chosen, Edit, Selector};
use stackline_critical_path::exact::{Category, Exact, ExactPath, LoaderWorkers, PathSegment, Window};
use stackline_model::gpu_calls::{CopyDirection, copy_direction};
use stackline_model::{EventId, EventKind, Step, StepIndex, StrId, Trace};
use stackline_timeline::kernel_type::{NameTypes, RULES};
use stackline_timeline::launch_times::LaunchTimes;
use stackline_timeline::recording::Recording;
use stackline_timeline::source_location::{SourceLocation, SourceLocationKey, SourceLocations};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Context that all rules share.
pub(super) struct SharedContext<'a> {
    pub(super) exact: &'a Exact<'a>,
    pub(super) window: Window,
    /// Steps in the window; 1 if there are none.
    pub(super) steps: usize,
    /// Whether the window has steps.
    pub(super) has_steps: bool,
    pub(super) settings: &'a Settings,
    /// Whether nobody marked these steps, and whether a rule asked how many there are.
    are_inferred: bool,
    asked_for_steps: AtomicBool,
    path: OnceLock<ExactPath>,
    on_path: OnceLock<FxHashMap<EventId, i64>>,
    places: OnceLock<SourceLocations<'a>>,
    launches: OnceLock<Launches>,
    gpu_ns: OnceLock<i64>,
    recorded: OnceLock<Option<RecordedOperators>>,
    host_gaps: OnceLock<HostGaps>,
    launch_times: OnceLock<LaunchTimes<'a>>,
    indexes: Indexes,
    step_index: OnceLock<StepIndex>,
    standstill: OnceLock<Standstill>,
}

impl<'a> SharedContext<'a> {
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
            asked_for_steps: AtomicBool::new(false),
            path,
            on_path,
            places,
            launches,
            gpu_ns,
            recorded,
            host_gaps,
            launch_times,
            indexes: Indexes::default(),
            step_index,
            standstill: OnceLock::new(),
        }
    }

    /// What a rule finds, and whether it depends on steps that are inferred.
    pub(super) fn notes_inferred_steps<T>(&self, check: impl FnOnce() -> T) -> (T, bool) {
        self.asked_for_steps.store(false, Ordering::Relaxed);
        let found = check();
        (found, self.are_inferred && self.asked_for_steps.load(Ordering::Relaxed))
    }

    /// When GPU work was launched.
    pub(super) fn launch_times(&self) -> &LaunchTimes<'a> {
        self.launch_times.get_or_init(|| LaunchTimes::new(self.exact.trace()))
    }
}

impl SharedContext<'_> {
    /// What the recording says that the trace is of.
    pub(super) fn recording(&self) -> Option<&Recording> {
        self.exact.recording()
    }

    /// The critical path through the window.
    pub(super) fn path(&self) -> &ExactPath {
        self.path.get_or_init(|| self.exact.path_of(self.window))
    }

    /// The standstills of the window.
    pub(super) fn standstill(&self) -> &Standstill {
        self.standstill.get_or_init(|| Standstill::new(self))
    }

    /// What the recording of operators cost; none if that is not known.
    pub(super) fn recorded(&self) -> Option<&RecordedOperators> {
        self.recorded.get_or_init(|| RecordedOperators::from_trace(self.exact.trace(), self.recording())).as_ref()
    }
}

/// Whether an event ran in a part of the path: an operation is not what a wait of unknown cause before it is spent on.
fn ran(hop: &PathSegment) -> bool {
    hop.event.is_some() && hop.category != Category::Unknown
}

/// Rule context: a trace as one rule sees it.
#[derive(Clone, Copy)]
pub struct RuleContext<'a> {
    shared: &'a SharedContext<'a>,
    rule: &'static Rule,
}

impl<'a> RuleContext<'a> {
    pub(super) fn new(shared: &'a SharedContext<'a>, rule: &'static Rule) -> Self {
        Self { shared, rule }
    }

    /// The trace.
    pub fn trace(&self) -> &'a Trace {
        self.shared.exact.trace()
    }

    /// What the recording says that the trace is of; `None` of other traces.
    pub fn recording(&self) -> Option<&'a Recording> {
        self.shared.recording()
    }

    /// What it cost to record all operators in some spans, in ns: they take so much less without. 0 if that is not known.
    pub fn recording_ns(&self, spans: &[EventId]) -> i64 {
        let ns = |recorded: &RecordedOperators| recorded.ns_in(self.trace(), spans.iter().copied());
        self.shared.recorded().map_or(0, |recorded| ns(recorded) as i64)
    }

    /// The value of one of the rule's settings.
    pub fn setting(&self, name: &str) -> f64 {
        self.shared.settings.get(self.rule, name)
    }

    /// The value of a setting of another rule, whose findings this one leaves out.
    pub fn setting_of(&self, rule: &Rule, name: &str) -> f64 {
        self.shared.settings.get(rule, name)
    }

    /// How many steps the window holds; 1 if the trace has none.
    pub fn steps(&self) -> usize {
        self.shared.asked_for_steps.store(true, Ordering::Relaxed);
        self.shared.steps
    }

    /// Wordings of titles for the steps of the window.
    pub(super) fn words(&self) -> StepWords {
        StepWords::new(if self.shared.has_steps { self.shared.steps } else { 0 })
    }

    /// Start and end of what is looked at, in ns since the base.
    pub fn window(&self) -> (i64, i64) {
        (self.shared.window.start, self.shared.window.end)
    }

    /// Length of the window without standstills, in ns.
    pub fn steps_ns(&self) -> i64 {
        (self.shared.window.length_ns() - self.shared.standstill().ns).max(1)
    }

    /// A time of the whole window in percent of it, without standstills.
    pub fn percent(&self, ns: i64) -> f64 {
        let percent = 100.0 * ns as f64 / self.steps_ns() as f64;
        // A time that goes on through a standstill, such as that of a thread which waits, is that of all steps.
        if self.shared.standstill().ns > 0 { percent.min(100.0) } else { percent }
    }

    /// A time in percent of all of the window, standstills included.
    pub fn percent_of_window(&self, ns: i64) -> f64 {
        100.0 * ns as f64 / self.shared.window.length_ns().max(1) as f64
    }

    /// A time of the whole window per step, in ns.
    pub fn per_step(&self, ns: i64) -> i64 {
        ns / self.shared.steps.max(1) as i64
    }

    /// Worker processes of loaders of data, as far as the trace shows them.
    pub fn loader_workers(&self) -> &'a LoaderWorkers {
        self.shared.exact.loader_workers()
    }

    /// The critical path through the window.
    pub fn path(&self) -> &'a ExactPath {
        self.shared.path()
    }

    /// Hops of the path without standstills.
    pub fn hops(&self) -> impl Iterator<Item = PathSegment> + use<'a> {
        let standstill = self.shared.standstill();
        self.path().hops.iter().filter(|hop| !standstill.holds(hop))
    }

    /// Time on the path by event, in ns, without standstills.
    pub fn on_path(&self) -> &'a FxHashMap<EventId, i64> {
        self.shared.on_path.get_or_init(|| {
            let mut by_event = FxHashMap::default();
            for hop in self.hops().filter(ran) {
                *by_event.entry(hop.event).or_default() += hop.end - hop.start;
            }
            by_event
        })
    }

    /// Time of the path per cause, in ns, without standstills.
    pub fn path_of(&self, category: Category) -> i64 {
        self.hops().filter(|hop| hop.category == category).map(|hop| hop.end - hop.start).sum()
    }

    /// Whether an event lies in the window, with times that can be believed: GPU work by its launch, and by itself where the host runs
    /// so far ahead that it launched the work before the GPU was done with that of earlier steps.
    pub fn counts(&self, event: EventId) -> bool {
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

    /// When GPU work was launched.
    pub(super) fn launch_times(&self) -> &'a LaunchTimes<'a> {
        self.shared.launch_times()
    }

    /// Events of the window of some kinds whose name passes a test; each name is tested once.
    pub fn named(&self, kinds: &[EventKind], test: impl Fn(&str) -> bool) -> Vec<EventId> {
        let trace = self.trace();
        let fits: Vec<bool> = trace.strings.iter().map(test).collect();
        let fits = |e: EventId| fits.get(trace.events.name[e.index()].index()).copied().unwrap_or(false);
        let wanted = |e: &EventId| kinds.contains(&trace.kind(*e)) && fits(*e) && self.counts(*e);
        trace.events.ids().filter(wanted).collect()
    }

    /// GPU work of the window.
    pub fn gpu_work(&self) -> Vec<EventId> {
        self.trace().gpu.event.iter().copied().filter(|&event| self.counts(event)).collect()
    }

    /// Kernels of the window.
    pub fn kernels(&self) -> Vec<EventId> {
        self.named(&[EventKind::Kernel], |_| true)
    }

    /// What names of operations say that they do.
    pub fn kernel_types(&self) -> NameTypes<'a> {
        NameTypes::new(self.trace(), RULES)
    }

    /// Operators of the window.
    pub fn operators(&self) -> Vec<EventId> {
        self.named(&[EventKind::Operator], is_operators_name)
    }

    /// Length of an event in ns.
    pub fn dur(&self, event: EventId) -> i64 {
        self.trace().events.dur[event.index()]
    }

    /// Lengths of some events, in ns, ascending.
    pub fn lengths(&self, events: &[EventId]) -> Vec<i64> {
        let mut lengths: Vec<i64> = events.iter().map(|&event| self.dur(event)).collect();
        lengths.sort_unstable();
        lengths
    }

    /// Sum of lengths, in ns.
    pub fn total(&self, events: &[EventId]) -> i64 {
        events.iter().map(|&e| self.dur(e)).sum()
    }

    /// Events by the place that they come from (GPU work: where it was launched), in the order of the places.
    pub fn by_place(&self, events: &[EventId]) -> Vec<(SourceLocation, Vec<EventId>)> {
        let places = self.places();
        let mut groups: BTreeMap<SourceLocationKey, Vec<EventId>> = BTreeMap::new();
        for &event in events {
            groups.entry(places.key(event)).or_default().push(event);
        }
        groups.into_iter().map(|(key, events)| (places.place(key), events)).collect()
    }

    /// The place of one event.
    pub fn place(&self, event: EventId) -> SourceLocation {
        self.places().place(self.places().key(event))
    }

    pub(super) fn launches(&self) -> &'a Launches {
        self.shared.launches.get_or_init(|| Launches::new(self.trace()))
    }

    /// Length of all GPU work of the window, in ns; what runs at the same time counts each.
    pub fn gpu_ns(&self) -> i64 {
        *self.shared.gpu_ns.get_or_init(|| self.total(&self.gpu_work()))
    }

    /// Indexes of what lies within spans.
    pub(super) fn indexes(&self) -> &'a Indexes {
        &self.shared.indexes
    }

    /// Whether an event is a call of a function of the user's own code.
    pub fn is_own_frame(&self, event: EventId) -> bool {
        self.places().is_own_frame(event)
    }

    /// Whether a name is that of a function of the user's own code.
    pub(super) fn is_own_name(&self, name: StrId) -> bool {
        self.places().is_own_name(name)
    }

    /// What threads do between operators, where samples say it.
    pub(super) fn host_gaps(&self) -> &'a HostGaps {
        self.shared.host_gaps.get_or_init(|| HostGaps::from_trace(self.trace(), self.window()))
    }

    /// The line of the user's own code in which a sample found a thread; none if it was elsewhere.
    pub(super) fn line_of_sample(&self, sample: EventId) -> Option<SourceLocation> {
        self.places().line_of_sample(sample)
    }

    pub(super) fn places(&self) -> &'a SourceLocations<'a> {
        self.shared.places.get_or_init(|| SourceLocations::new(self.trace()))
    }

    /// Those of some events that lie in no other one of them.
    pub fn outermost(&self, events: &[EventId]) -> Vec<EventId> {
        let (trace, all): (_, FxHashSet<EventId>) = (self.trace(), events.iter().copied().collect());
        events.iter().copied().filter(|&e| !trace.ancestors(e).any(|around| all.contains(&around))).collect()
    }

    /// Spans by the place that they come from, with the sum of what is said of each of them (such as its time on the path).
    pub fn sums_by_place(&self, mut spans: Vec<(EventId, i64)>) -> Vec<(SourceLocation, i64, Vec<EventId>)> {
        spans.sort_unstable();
        let events: Vec<EventId> = spans.iter().map(|&(span, _)| span).collect();
        let ns = |span: &EventId| spans.binary_search_by_key(span, |&(event, _)| event).map_or(0, |at| spans[at].1);
        let by_place = self.by_place(&events).into_iter();
        by_place.map(|(place, of)| (place, of.iter().map(ns).sum(), of)).collect()
    }

    /// Whether an event is a copy from a device to the host.
    pub fn is_copy_to_host(&self, event: EventId) -> bool {
        let trace = self.trace();
        trace.kind(event) == EventKind::Memcpy && copy_direction(trace.name(event)) == Some(CopyDirection::ToHost)
    }

    /// The steps of the window behind the first one of the trace, which does what is done once.
    pub fn later_steps(&self) -> &'a [Step] {
        let (steps, (from, to)) = (&self.trace().steps, self.window());
        let first = steps.partition_point(|s| s.start < from).max(1).min(steps.len());
        let last = steps.partition_point(|s| s.start < to).max(first);
        &steps[first..last]
    }

    /// The place in a list of steps of the one of its own process in which an event starts.
    pub fn step_of(&self, steps: &[Step], event: EventId) -> Option<usize> {
        let (trace, at) = (self.trace(), event.index());
        let index = self.shared.step_index.get_or_init(|| StepIndex::new(trace));
        let step = index.running(trace.events.start[at], trace.tracks.pid(trace.events.track[at]))?;
        let step = &trace.steps[step as usize];
        let from = steps.partition_point(|s| s.start < step.start);
        let together = steps[from..].iter().take_while(|s| s.start == step.start);
        together.enumerate().find(|(_, s)| s.event == step.event).map(|(after, _)| from + after)
    }

    /// The places in a list of steps of those in which events start.
    pub fn steps_with(&self, steps: &[Step], events: impl IntoIterator<Item = EventId>) -> BTreeSet<usize> {
        events.into_iter().filter_map(|event| self.step_of(steps, event)).collect()
    }

    /// Whether these are all steps of the window. The first or the last one may lack: where an optimizer's call ends each step, what the
    /// program does after it lies in the next step, and the first step has none of it.
    pub fn are_all_steps(&self, steps: &BTreeSet<usize>) -> bool {
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return false };
        let is_all_but_one = steps.len() >= 2 && steps.len() + 1 == self.steps() && last - first + 1 == steps.len();
        steps.len() >= self.steps() || is_all_but_one
    }

    /// Events by name, most time first.
    pub fn by_name(&self, events: &[EventId]) -> Vec<(&'a str, Vec<EventId>)> {
        let trace = self.trace();
        let mut groups: BTreeMap<StrId, Vec<EventId>> = BTreeMap::new();
        for &event in events {
            groups.entry(trace.events.name[event.index()]).or_default().push(event);
        }
        let mut groups: Vec<_> = groups.into_iter().map(|(name, events)| (trace.strings.get(name), events)).collect();
        groups.sort_by_key(|(name, events)| (std::cmp::Reverse(self.total(events)), *name));
        groups
    }

    /// An edit of these events, under a text for people; none if it cannot be done to such events.
    pub fn edit(&self, action: Action, text: impl Into<String>, events: &[EventId]) -> Option<Edit> {
        self.edit_of(action, text, Chosen { events: events.to_vec(), ..Chosen::default() })
    }

    /// The same, of stretches of time, too.
    pub fn edit_of(&self, action: Action, text: impl Into<String>, chosen: Chosen) -> Option<Edit> {
        if chosen.events.is_empty() && chosen.between.is_empty() && chosen.stretches.is_empty() {
            return None;
        }
        let action = if let Action::Scale(factor) = action { Action::Scale(rounded(factor)) } else { action };
        Edit::on(action, Selector::new(text, chosen)).ok()
    }

    /// What it is worth if events took a part of their time: likely, and the least and most that may be left; none if that cannot be done.
    pub(super) fn scaled(
        &self,
        [likely, least, most]: [f64; 3],
        text: &str,
        events: &[EventId],
    ) -> Option<GainEstimate> {
        let edits = |left: f64| Some(vec![self.edit(Action::Scale(left.min(1.0)), text, events)?]);
        Some(GainEstimate::Range(edits(likely)?, vec![edits(least)?, edits(most)?]))
    }
}

/// A factor as people read it, to four digits: what is replayed is what is told.
fn rounded(factor: f64) -> f64 {
    format!("{factor:.3e}").parse().unwrap_or(factor)
}
