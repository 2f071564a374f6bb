//! Critical path by the plainest implementation of its definition, from the trace alone: slow, and independent of the
//! simulator.

mod device;

use std::collections::BTreeMap;

use device::{Device, Release};
use stackline_model::{EventKind, Trace, TrackKind};

/// A span of a thread, ns.
pub(crate) struct Span {
    pub(crate) thread: usize,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) name: String,
    pub(crate) kind: EventKind,
    pub(crate) parent: Option<usize>,
    pub(crate) correlation: i64,
}

/// A trace with lookup tables for the walk.
pub(crate) struct Walker {
    /// Process and thread name of each thread.
    threads: Vec<(i64, String)>,
    spans: Vec<Span>,
    device: Device,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Thread(usize),
    Op(usize),
}

const LOADER: [&str; 4] = ["dataloader.py", "enumerate(DataLoader)", "pin_memory.py", "fetch.py"];

impl Walker {
    pub(crate) fn new(trace: &Trace, queue_limit: usize) -> Self {
        let mut threads = Vec::new();
        let mut spans: Vec<Span> = Vec::new();
        let mut row_of = BTreeMap::new();
        let correlation = trace.attr("correlation");
        for track in trace.tracks.ids().filter(|&t| trace.tracks.get(t).kind == TrackKind::Thread) {
            let name = trace.tracks.get(track).name;
            let text = if name.is_none() { String::new() } else { trace.strings.get(name).to_owned() };
            threads.push((trace.tracks.pid(track).as_int().unwrap_or(-1), text));
            for &event in trace.track_events(track) {
                if trace.kind(event) == EventKind::Recording || trace.events.dur[event.index()] == 0 {
                    continue;
                }
                row_of.insert(event, spans.len());
                spans.push(Span {
                    thread: threads.len() - 1,
                    start: trace.events.start[event.index()],
                    end: trace.events.end(event),
                    name: trace.name(event).to_owned(),
                    kind: trace.kind(event),
                    parent: trace.events.parent[event.index()].some().map(|parent| row_of[&parent]),
                    correlation: correlation.i64(event).unwrap_or(-1),
                });
            }
        }
        let device = Device::new(trace, &spans, &row_of, queue_limit);
        Self { threads, spans, device }
    }

    /// Time in ns per category, from the first start to the last end.
    pub(crate) fn whole(&self) -> BTreeMap<&'static str, i64> {
        let start = self.spans.iter().map(|s| s.start).min().unwrap();
        let host = self.spans.iter().map(|s| (s.end, Place::Thread(s.thread)));
        let device = self.device.ops.iter().enumerate().map(|(i, op)| (op.end, Place::Op(i)));
        let (end, place) = host.chain(device).max_by_key(|end| end.0).unwrap();
        self.walk(start, end, place)
    }

    /// Time per category in the window of an annotation.
    pub(crate) fn annotation(&self, name: &str) -> BTreeMap<&'static str, i64> {
        let span = self.spans.iter().find(|s| s.name == name && s.kind == EventKind::Annotation).unwrap();
        self.walk(span.start, span.end, Place::Thread(span.thread))
    }

    fn walk(&self, start: i64, end: i64, mut place: Place) -> BTreeMap<&'static str, i64> {
        let (mut at, mut total) = (end, BTreeMap::new());
        while at > start {
            let (from, next, category) = match place {
                Place::Op(op) => {
                    let found = &self.device.ops[op];
                    *total.entry(found.category()).or_insert(0) += at - found.start.max(start);
                    at = found.start;
                    match found.release {
                        Release::Op { op, at } => (at, Place::Op(op), "gpu_queue"),
                        Release::Call { call, at } => (at, Place::Thread(self.spans[call].thread), "launch_latency"),
                    }
                }
                Place::Thread(thread) => self.back(thread, at),
            };
            if at > start {
                *total.entry(category).or_insert(0) += at - from.max(start);
            }
            (at, place) = (from, next);
        }
        total.retain(|_, ns| *ns > 0);
        total
    }

    fn spans_of(&self, thread: usize) -> impl Iterator<Item = (usize, &Span)> {
        self.spans.iter().enumerate().filter(move |(_, s)| s.thread == thread)
    }

    fn top(&self, thread: usize) -> impl Iterator<Item = &Span> {
        self.spans_of(thread).map(|(_, s)| s).filter(|s| s.parent.is_none())
    }

    fn is(&self, thread: usize, name: &str) -> bool {
        self.threads[thread].1.contains(name)
    }

    /// The segment of a thread before `at`: its begin or release, and its category.
    fn back(&self, thread: usize, at: i64) -> (i64, Place, &'static str) {
        let inner =
            self.spans_of(thread).filter(|(_, s)| s.start < at && at <= s.end).min_by_key(|(_, s)| s.end - s.start);
        let edges = self.spans_of(thread).flat_map(|(_, s)| [s.start, s.end]).filter(|&edge| edge < at);
        let begin = edges.max();
        let Some((id, span)) = inner else {
            return self.gap(thread, begin, at);
        };
        if span.end == at
            && let Some(&(end, op)) = self.device.waits.get(&id)
        {
            return (end, Place::Op(op), "sync_return");
        }
        let begin = begin.unwrap_or(span.start);
        if let Some((from, other)) = self.handed_over(span, begin, at) {
            return (from, Place::Thread(other), "thread_handover");
        }
        (begin, Place::Thread(thread), self.category(id))
    }

    fn category(&self, id: usize) -> &'static str {
        let mut around = Some(id);
        let mut loading = false;
        while let Some(outer) = around {
            loading |= LOADER.iter().any(|mark| self.spans[outer].name.contains(mark));
            around = self.spans[outer].parent;
        }
        match self.spans[id].kind {
            EventKind::Runtime | EventKind::Driver => "host_runtime",
            EventKind::Overhead => "profiler",
            _ if loading => "host_data_loading",
            EventKind::Operator => "host_operator",
            _ => "host_python",
        }
    }

    /// The last of these ends in (from, to].
    fn last<'a>(&self, from: i64, to: i64, ends: impl Iterator<Item = &'a Span>) -> Option<(i64, usize)> {
        let inside = ends.filter(|s| s.end > from && s.end <= to);
        inside.max_by_key(|s| s.end).map(|s| (s.end, s.thread))
    }

    fn others(&self, thread: usize) -> impl Iterator<Item = usize> {
        (0..self.threads.len()).filter(move |&other| other != thread)
    }

    /// Handover to a frame in which a thread waits for another one.
    fn handed_over(&self, frame: &Span, from: i64, to: i64) -> Option<(i64, usize)> {
        let top_of = |names: &'static [&'static str]| {
            let fits = move |&t: &usize| names.iter().any(|name| self.is(t, name));
            self.others(frame.thread).filter(fits).flat_map(|t| self.top(t))
        };
        if frame.name.contains("run_backward of torch._C._EngineBase") {
            self.last(from, to, top_of(&["autograd"]))
        } else if frame.name.contains("queues.py(100): get") || frame.name.contains("queue.py(154): get") {
            self.last(from, to, top_of(&["data_worker", "pin_memory"]))
        } else if frame.name.contains("'acquire' of '_thread.lock'") {
            let released = |s: &&Span| s.name.contains("'release' of '_thread.lock'") && s.thread != frame.thread;
            self.last(from, to, self.spans.iter().filter(released))
        } else {
            None
        }
    }

    /// Time without any span.
    fn gap(&self, thread: usize, begin: Option<i64>, at: i64) -> (i64, Place, &'static str) {
        let from = begin.unwrap_or(i64::MIN);
        let puts = || self.spans.iter().filter(|s| s.name.contains("queues.py(86): put"));
        let items = || self.others(thread).filter(|&t| self.is(t, "data_worker")).flat_map(|t| self.top(t));
        let released = if self.is(thread, "data_worker") {
            self.last(from, at, puts())
        } else if self.is(thread, "pin_memory") {
            self.last(from, at, items())
        } else if self.is(thread, "autograd") {
            self.called(from, at)
        } else {
            let pid = self.threads[thread].0;
            let same = self.others(thread).filter(|&t| self.threads[t].0 == pid);
            let frames = same.flat_map(|t| self.top(t)).filter(|s| s.kind == EventKind::PythonFunction);
            self.last(from, at, frames.filter(|s| s.start < from))
        };
        if let Some((from, other)) = released {
            return (from, Place::Thread(other), "thread_handover");
        }
        let own = if self.is(thread, "autograd") {
            "host_operator"
        } else if self.is(thread, "data_worker") || self.is(thread, "pin_memory") {
            "host_data_loading"
        } else {
            "host_python"
        };
        (from.max(0), Place::Thread(thread), own)
    }

    /// The last activity of the main thread in `run_backward` before the engine's thread began at `at`, if the call
    /// is later than that thread's last activity.
    fn called(&self, from: i64, at: i64) -> Option<(i64, usize)> {
        let called = |s: &Span| s.name.contains("run_backward of torch._C") && s.start > from && s.start < at;
        let (id, frame) = self.spans.iter().enumerate().rfind(|(_, s)| called(s))?;
        let children = self.spans.iter().filter(|s| s.parent == Some(id) && s.end <= at);
        let last = children.map(|s| s.end).max().unwrap_or(frame.start);
        Some((last, frame.thread))
    }
}
