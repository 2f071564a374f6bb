//! Time windows of critical paths: the whole trace, steps, or an annotation.

use super::Exact;
use super::graph::{NONE, NodeKind};
use super::names::bits;
use super::thread_timelines::ThreadTimeline;
use crate::CriticalPathError;
use crate::nearest::nearest_annotations;
use stackline_model::launch_times::LaunchTimes;
use stackline_model::{EventId, GpuOpId, Key, Step, TrackId};
use stackline_timeline::is_unfinished;
use stackline_timeline::step_cycles::numbered_steps;
use stackline_timeline::steps::bounding_steps;
use stackline_timeline::window_choice::{WindowChoice, annotations};
use std::collections::BTreeMap;

/// Time window, and the graph node in which its critical path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Start in ns since the trace's base.
    pub start: i64,
    /// End in ns since the trace's base.
    pub end: i64,
    /// Node where the backward pass begins.
    pub anchor: u32,
}

impl Window {
    /// Length of the window in ns.
    pub fn length_ns(&self) -> i64 {
        self.end - self.start
    }
}

impl Exact<'_> {
    /// Convert a window choice (whole trace, steps or annotation) to a time range of the trace.
    ///
    /// # Errors
    /// Returns an error if the trace has no work, the step or annotation does not exist, or the window has length 0.
    pub fn window(&self, choice: &WindowChoice) -> Result<Window, CriticalPathError> {
        let window = match choice {
            WindowChoice::Whole => return self.whole(),
            WindowChoice::From(start) => Window { start: *start, ..self.whole()? },
            WindowChoice::Steps(first, last) => self.steps(*first, *last)?,
            WindowChoice::StepsWithWork(first, last) => {
                let (steps, work) = self.steps_and_work(*first, *last)?;
                let with_work = self.with_work(steps, work);
                // Work launched before the steps may end after all of their work.
                if with_work.length_ns() > 0 { with_work } else { self.steps(*first, *last)? }
            }
            WindowChoice::Between(from, to) => self.between(*from, *to)?,
            WindowChoice::Annotation { text, instances } => self.annotation(text, *instances)?,
        };
        if window.length_ns() > 0 { Ok(window) } else { Err(CriticalPathError::EmptyWindow) }
    }

    /// Window of each step with the step's number, in time order; without unfinished steps, unless all are
    /// unfinished.
    pub fn step_windows(&self) -> Vec<(i64, Window)> {
        let window = |s: &Step| (s.number, self.span_window(s.event, s.start, s.end));
        let mut steps: Vec<&Step> = self.trace.steps.iter().filter(|s| s.end > s.start).collect();
        // The length of a step without a recorded end is unknown.
        if steps.iter().any(|step| !is_unfinished(self.trace, step)) {
            steps.retain(|step| !is_unfinished(self.trace, step));
        }
        steps.into_iter().map(window).collect()
    }

    /// Window of the whole trace, from its first start to the end of its last work.
    fn whole(&self) -> Result<Window, CriticalPathError> {
        let graph = &self.graph;
        let works_lane: Vec<bool> = self.lanes.iter().map(|lane| self.is_work_thread(lane)).collect();
        // Spans that are open at the end of the recording end with it on every thread, so threads with operators come
        // first.
        let computes = |n: u32| {
            let lane = self.lanes.get(graph.place[n as usize] as usize);
            graph.kind[n as usize] == NodeKind::Gpu || lane.is_some_and(|lane| lane.span_counts.operators > 0)
        };
        let works = |n: &u32| graph.kind[*n as usize] == NodeKind::Gpu || works_lane[graph.place[*n as usize] as usize];
        let last = |nodes: &mut dyn Iterator<Item = u32>| {
            nodes.max_by_key(|&n| (graph.end[n as usize], computes(n), graph.kind[n as usize], std::cmp::Reverse(n)))
        };
        let all = 0..graph.len() as u32;
        let found = last(&mut all.clone().filter(works)).or_else(|| last(&mut all.clone()));
        let anchor = found.ok_or(CriticalPathError::NoTimedEvents)?;
        let start = graph.start.iter().copied().min().unwrap_or(0);
        Ok(Window { start, end: graph.end[anchor as usize], anchor })
    }

    /// Window from a time to the end of the last GPU work that ended by another time.
    fn between(&self, from: i64, to: i64) -> Result<Window, CriticalPathError> {
        let graph = &self.graph;
        let ends_within = |n: &u32| graph.kind[*n as usize] == NodeKind::Gpu && graph.end[*n as usize] <= to;
        let last = (0..graph.len() as u32).filter(ends_within).max_by_key(|&n| (graph.end[n as usize], n));
        let anchor = last.ok_or(CriticalPathError::EmptyWindow)?;
        Ok(Window { start: from, end: graph.end[anchor as usize], anchor })
    }

    /// True if the work of a window may end on a thread. Excluded are threads that only call the runtime, such as a
    /// polling watchdog, and threads that still wait.
    pub(super) fn is_work_thread(&self, lane: &ThreadTimeline) -> bool {
        let span_counts = lane.span_counts;
        let last = lane.pieces.iter().rev().find(|p| p.event.is_some()).map_or(EventId::NONE, |p| p.event);
        let waits = self.names.flags(self.trace, last) & bits::WAITS != 0;
        let only_calls =
            self.lanes.iter().all(|l| l.span_counts.operators + l.span_counts.python + l.span_counts.annotations == 0);
        (only_calls || span_counts.operators + span_counts.python + span_counts.annotations > 0) && !waits
    }

    /// Window from the first start to the last end of the steps with the numbers from `first` to `last`.
    pub(super) fn steps(&self, first: i64, last: i64) -> Result<Window, CriticalPathError> {
        let chosen = numbered_steps(self.trace, (first, last));
        let from = chosen.iter().map(|step| step.start).min();
        let to = chosen.into_iter().max_by_key(|step| step.end);
        let (Some(from), Some(to)) = (from, to) else { return Err(self.not_found(first, last)) };
        Ok(self.span_window(to.event, from, to.end))
    }

    /// Error that no step has a number from `first` to `last`, with the numbers of the trace's steps.
    fn not_found(&self, first: i64, last: i64) -> CriticalPathError {
        let numbers: Vec<i64> = self.trace.steps.iter().map(|s| s.number).collect();
        CriticalPathError::StepsNotFound { first, last, numbers }
    }

    /// Host time of the steps, and the last GPU work per stream launched before it and before its end. Only work of the
    /// steps' processes counts.
    pub(super) fn steps_and_work(&self, first: i64, last: i64) -> Result<(Window, [Vec<u32>; 2]), CriticalPathError> {
        let Some((from, ends)) = bounding_steps(self.trace, (first, last)) else {
            return Err(self.not_found(first, last));
        };
        let Some(to) = ends.last() else { return Err(self.not_found(first, last)) };
        let times = LaunchTimes::new(self.trace);
        let launched =
            |before: i64, step: &Step| self.last_launched_per_stream(&times, before, self.trace.process_of(step));
        let within = ends.iter().flat_map(|&step| launched(step.end, step)).collect();
        Ok((self.span_window(to.event, from.start, to.end), [launched(from.start, from), within]))
    }

    /// Move the start and end of a thread's window to the last ends of the GPU work launched before it and in it, if
    /// later.
    fn with_work(&self, window: Window, [before, within]: [Vec<u32>; 2]) -> Window {
        let end = |n: &u32| self.graph.end[*n as usize];
        let start = before.iter().map(end).max().unwrap_or(i64::MIN).max(window.start);
        let last = within.into_iter().max_by_key(|n| (end(n), *n));
        match last.filter(|n| end(n) > window.end) {
            Some(anchor) => Window { start, end: end(&anchor), anchor },
            None => Window { start, ..window },
        }
    }

    /// For each stream: the graph node of the operation that ends last, of those launched before a time by a process or
    /// by an unknown one.
    fn last_launched_per_stream(&self, times: &LaunchTimes<'_>, before: i64, process: Key) -> Vec<u32> {
        let rows = &self.trace.gpu;
        let mut last: BTreeMap<(i32, i64), u32> = BTreeMap::new();
        for node in (0..self.graph.len() as u32).filter(|&n| self.graph.kind[n as usize] == NodeKind::Gpu) {
            let row = self.graph.place[node as usize] as usize;
            let launched = times.launch_of(GpuOpId::new(row));
            if launched.process.is_none_or(|by| by == process) && launched.at < before {
                let of_stream = last.entry((rows.device[row], rows.stream[row])).or_insert(node);
                if self.graph.end[node as usize] > self.graph.end[*of_stream as usize] {
                    *of_stream = node;
                }
            }
        }
        last.into_values().collect()
    }

    /// Window from the start of one instance of an annotation to the end of another, both counted from 0.
    fn annotation(&self, text: &str, (first, last): (usize, usize)) -> Result<Window, CriticalPathError> {
        if first > last {
            return Err(CriticalPathError::EmptyRange { from: first, to: last });
        }
        let found = annotations(self.trace, text);
        if found.is_empty() {
            let nearest = nearest_annotations(self.trace, text);
            return Err(CriticalPathError::AnnotationNotFound { annotation: text.to_owned(), nearest });
        }
        let (Some(&from), Some(&to)) = (found.get(first), found.get(last)) else {
            let (annotation, count) = (text.to_owned(), found.len());
            let instance = if first < count { last } else { first };
            return Err(CriticalPathError::InstanceOutOfRange { annotation, instance, count });
        };
        Ok(self.span_window(to, self.trace.events.start[from.index()], self.trace.events.end(to)))
    }

    /// Window with these times. The path ends in the thread or device of the event `last`.
    fn span_window(&self, last: EventId, start: i64, end: i64) -> Window {
        let track = self.trace.events.track[last.index()];
        let lane = self.lanes.iter().position(|l| l.track == track);
        let anchor = match lane {
            Some(lane) => self.node_at(lane, end),
            None => self.last_work(track, (start, end)),
        };
        Window { start, end, anchor }
    }

    /// Graph node of the GPU work that ends last in a time range, for a span on a device row, such as a step mark. Work
    /// of the same device is preferred.
    fn last_work(&self, track: TrackId, (start, end): (i64, i64)) -> u32 {
        let (graph, tracks) = (&self.graph, &self.trace.tracks);
        let is_within = |n: &u32| {
            let n = *n as usize;
            graph.kind[n] == NodeKind::Gpu && graph.start[n] < end && graph.end[n] > start
        };
        let process = tracks.pid(track);
        let of_device = |n: u32| {
            let event = self.trace.gpu.event[graph.place[n as usize] as usize];
            tracks.pid(self.trace.events.track[event.index()]) == process
        };
        let key = |&n: &u32| (of_device(n), graph.end[n as usize].min(end), std::cmp::Reverse(n));
        (0..graph.len() as u32).filter(is_within).max_by_key(key).unwrap_or(NONE)
    }

    /// Graph node of the last GPU work before a window, on the stream of the window's last work; `None` without one.
    pub(super) fn work_before(&self, window: Window) -> Option<u32> {
        let (graph, rows) = (&self.graph, &self.trace.gpu);
        let stream = |n: u32| graph.gpu(n).map(|gpu| (rows.device[gpu.index()], rows.stream[gpu.index()]));
        let of_window = stream(window.anchor)?;
        let is_before = |&n: &u32| graph.end[n as usize] <= window.start && stream(n) == Some(of_window);
        (0..graph.len() as u32).filter(is_before).max_by_key(|&n| (graph.end[n as usize], n))
    }

    /// Graph node of a lane that ends at a time or contains it; the last node if the time is later.
    fn node_at(&self, lane: usize, at: i64) -> u32 {
        let (from, to) = self.lane_nodes[lane];
        let ends = &self.graph.end[from as usize..to as usize];
        let node = from + ends.partition_point(|&end| end < at) as u32;
        if node < to { node } else { to.checked_sub(1).filter(|&n| n >= from).unwrap_or(NONE) }
    }
}
