//! Results of each method and ground truth of one program, in the same form.

use stackline_critical_path::ctda;
use stackline_critical_path::ctda::CtdaOptions;
use stackline_critical_path::exact::{Category, Exact, WindowChoice};
use stackline_critical_path::hta;
use stackline_critical_path::hta::HtaOptions;
use stackline_critical_path::{EdgeKind, PathEvents};
use stackline_model::{EventId, EventKind, Trace, TrackId};
use stackline_testkit::simulator::{Simulated, TrueSegment};
use stackline_timeline::kernel_type::{KernelType, NameTypes, RULES};
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of time, in the order of [`Found::kinds_ns`]. Waiting in between belongs to none.
pub(crate) const KINDS: [&str; 4] = ["GPU compute", "GPU communication", "GPU copy", "host"];

const HOST: usize = 3;

/// Contents of a critical path: time per kind, GPU operations and framework operators.
#[derive(Default)]
pub(crate) struct Found {
    /// Time of the window that the path covers, ns.
    pub(crate) covered_ns: f64,
    /// Time per kind, ns.
    pub(crate) kinds_ns: [f64; 4],
    /// GPU operations.
    pub(crate) gpu: BTreeSet<EventId>,
    /// Framework operators with exclusive time on the path.
    pub(crate) operators: BTreeSet<EventId>,
}

impl Found {
    fn gpu(&mut self, trace: &Trace, event: EventId, ns: f64) {
        self.gpu.insert(event);
        let kind = match NameTypes::new(trace, RULES).of_event(event) {
            KernelType::Computation | KernelType::Other => 0,
            KernelType::Communication => 1,
            KernelType::Memory => 2,
        };
        self.kinds_ns[kind] += ns;
    }

    fn host(&mut self, trace: &Trace, event: EventId, ns: f64) {
        if event.is_some() && trace.kind(event) == EventKind::Operator {
            self.operators.insert(event);
        }
        self.kinds_ns[HOST] += ns;
    }
}

/// A method: `None` without result.
type Method = fn(&Trace) -> Option<Found>;

/// Critical-path methods that are compared, by name.
pub(crate) const METHODS: [(&str, Method); 3] = [("hta", by_hta), ("ctda", by_ctda), ("exact", by_exact)];

/// Kind of a category of the ground truth; `None` for waiting in between.
fn kind_of(category: &str) -> Option<usize> {
    match category {
        "gpu_compute" => Some(0),
        "gpu_communication" => Some(1),
        "gpu_copy" => Some(2),
        "profiler" => Some(HOST),
        _ => category.starts_with("host_").then_some(HOST),
    }
}

/// Ground truth of the path.
pub(crate) fn truth(run: &Simulated, trace: &Trace) -> Found {
    let mut found = Found { covered_ns: run.truth().window_ns as f64, ..Found::default() };
    let places = Places::new(run, trace);
    for segment in &run.truth().segments {
        let Some(kind) = kind_of(segment.category) else { continue };
        found.kinds_ns[kind] += (segment.end_ns - segment.start_ns) as f64;
        if kind != HOST {
            found.gpu.insert(places.operation(segment));
        } else if let Some(event) = places.span(segment).filter(|&e| trace.kind(e) == EventKind::Operator) {
            found.operators.insert(event);
        }
    }
    found
}

/// Lookup of the ground truth's names among the events of the trace.
struct Places<'a> {
    trace: &'a Trace,
    threads: BTreeMap<String, TrackId>,
    operations: BTreeMap<(String, i64), EventId>,
    base: i64,
}

impl<'a> Places<'a> {
    fn new(run: &Simulated, trace: &'a Trace) -> Self {
        let label =
            |t: TrackId| format!("{}/{}", trace.key_text(trace.tracks.pid(t)), trace.key_text(trace.tracks.get(t).tid));
        let threads = trace.tracks.ids().map(|t| (label(t), t)).collect();
        let place = |event: EventId| {
            let stream = trace.tracks.get(trace.events.track[event.index()]).stream;
            ((format!("stream {stream}"), trace.events.start[event.index()]), event)
        };
        let operations = trace.gpu.ids().map(|gpu| place(trace.gpu.event[gpu.index()])).collect();
        Self { trace, threads, operations, base: run.started_ns() }
    }

    fn operation(&self, segment: &TrueSegment) -> EventId {
        let event = self.operations[&(segment.track.clone(), segment.start_ns + self.base)];
        assert_eq!(self.trace.name(event), segment.event);
        event
    }

    /// Innermost span of a segment's thread; none between spans.
    fn span(&self, segment: &TrueSegment) -> Option<EventId> {
        let (trace, events) = (self.trace, &self.trace.events);
        let (start, end) = (segment.start_ns + self.base, segment.end_ns + self.base);
        let on_track = trace.track_events(self.threads[&segment.track]);
        let before = on_track.partition_point(|e| events.start[e.index()] <= start);
        let last = *on_track.get(before.checked_sub(1)?)?;
        let around = std::iter::once(last).chain(trace.ancestors(last));
        let found = around.filter(|&e| trace.kind(e) != EventKind::Recording).find(|&e| events.end(e) >= end);
        assert_eq!(found.map_or("", |e| trace.name(e)), segment.event);
        found
    }
}

fn by_exact(trace: &Trace) -> Option<Found> {
    let exact = Exact::new(trace);
    let path = exact.path(&WindowChoice::Whole).ok()?;
    let mut found = Found::default();
    for segment in path.segments.iter() {
        let ns = (segment.end - segment.start) as f64;
        if segment.category != Category::Unknown {
            found.covered_ns += ns;
        }
        match kind_of(segment.category.name()) {
            Some(HOST) => found.host(trace, segment.event, ns),
            Some(_) => found.gpu(trace, segment.event, ns),
            None => {}
        }
    }
    Some(found)
}

/// Event of the trace for each row of a path's events.
fn events_of(trace: &Trace, rows: &PathEvents) -> Vec<EventId> {
    let of_source: BTreeMap<u32, EventId> =
        trace.events.ids().map(|e| (trace.events.source_index[e.index()], e)).collect();
    rows.index.iter().map(|index| of_source[index]).collect()
}

fn by_ctda(trace: &Trace) -> Option<Found> {
    let path = ctda::analyze(trace, &CtdaOptions::default()).ok()?;
    let events = events_of(trace, &path.events);
    let mut found = Found { covered_ns: path.executed_ns() as f64, ..Found::default() };
    for (_, piece) in path.path_pieces() {
        let (event, ns) = (events[piece.event as usize], (piece.end_ns - piece.start_ns) as f64);
        if path.events.is_gpu(piece.event) { found.gpu(trace, event, ns) } else { found.host(trace, event, ns) }
    }
    Some(found)
}

fn by_hta(trace: &Trace) -> Option<Found> {
    // HTA drops the last step by default; the other methods cover the whole program.
    let options = HtaOptions { include_last_profiler_step: true, ..HtaOptions::default() };
    let path = hta::analyze(trace, &options).ok()?;
    let (events, nodes) = (events_of(trace, &path.events), &path.graph.nodes);
    let mut found = Found { covered_ns: path.path.weight_us * 1e3, ..Found::default() };
    for edge in path.path_edges() {
        let ns = edge.search_weight_us() * 1e3;
        match edge.kind {
            EdgeKind::OperatorKernel => {
                let event = events[edge.attributed as usize];
                if path.events.is_gpu(edge.attributed) {
                    found.gpu(trace, event, ns);
                } else {
                    found.host(trace, event, ns);
                }
            }
            // HTA's launch delay begins with the call; the call's own time is the host's for everyone else.
            EdgeKind::KernelLaunchDelay => {
                let call = nodes.event[edge.from as usize] as usize;
                let call_end = path.events.start_ns[call] + path.events.dur_ns[call];
                found.kinds_ns[HOST] += ns.min((call_end - nodes.time_ns[edge.from as usize]).max(0) as f64);
            }
            EdgeKind::Dependency | EdgeKind::KernelKernelDelay | EdgeKind::SyncDependency => {}
        }
    }
    Some(found)
}
