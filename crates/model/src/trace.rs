//! Traces, immutable after reading, and sets of the traces of several ranks.

use crate::names::module_class;
use crate::parents::Parent;
use crate::{
    AttrTable, DeviceClock, EventId, EventKind, EventTable, GpuOpId, GpuRecords, GpuTable, Key, LaunchedWork, Level,
    LinkTable, Pause, ReadReport, SampleTable, StackTable, StrId, StringTable, TrackId, TrackKind, TrackTable,
};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Training or inference step, marked by a profiler, a framework or an optimizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Number.
    pub number: i64,
    /// Annotation on the CPU.
    pub event: EventId,
    /// Start in ns since the base.
    pub start: i64,
    /// End in ns since the base.
    pub end: i64,
}

/// Metadata of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceMeta {
    /// Label: the file name, with the archive's name before it, if any.
    pub name: String,
    /// Source format, such as `kineto` or `chrome`.
    pub format: String,
    /// Epoch time in ns of event time 0 (`baseTimeNanoseconds`, 0 if the file has none).
    pub base_ns: i64,
    /// Rank in a distributed job, if the file has it.
    pub rank: Option<i64>,
    /// Number of ranks of the job, if the file has it.
    pub world_size: Option<i64>,
    /// Other top-level entries of the file: key and compact JSON text, in file order. They may contain private data.
    pub entries: Vec<(String, String)>,
    /// True if any record had a fractional or missing `ts` in µs. HTA rounds to whole µs in such traces (its
    /// section 2.1).
    pub fractional_ts: bool,
    /// Possible clock offsets between each device and the host, by device number; empty without linked GPU work.
    pub clocks: Vec<DeviceClock>,
}

impl TraceMeta {
    /// JSON text of a top-level entry; of duplicate keys, the last one.
    pub fn entry(&self, key: &str) -> Option<&str> {
        self.entries.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// Sealed trace: immutable tables that refer to each other by handles.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Metadata.
    pub meta: TraceMeta,
    /// Strings.
    pub strings: StringTable,
    /// Events, in source order.
    pub events: EventTable,
    /// Arguments of events.
    pub attrs: AttrTable,
    /// Tracks.
    pub tracks: TrackTable,
    /// GPU operations, with launches and operators.
    pub gpu: GpuTable,
    /// Links in addition to nesting: arrows of the source, and from forward to backward operators (by sequence number
    /// and forward thread, or by an arrow).
    pub links: LinkTable,
    /// Stacks that the source attached to events.
    pub stacks: StackTable,
    /// Steps in time order.
    pub steps: Vec<Step>,
    /// Read report: repaired, skipped and lost records.
    pub report: ReadReport,
    /// Events of all tracks, by track, then by (start, longer first, row).
    track_order: Vec<EventId>,
    /// Start of each track's range in `track_order`; one entry more than tracks.
    track_offset: Vec<u32>,
    /// See [`Self::pauses`].
    pub(crate) pauses: OnceLock<Vec<Pause>>,
    /// See [`Self::gpu_records`].
    pub(crate) gpu_records: OnceLock<GpuRecords>,
    /// See [`Self::launched_work`].
    pub(crate) launched_work: OnceLock<LaunchedWork>,
    /// See [`Self::unrecorded_launches`].
    pub(crate) unrecorded_launches: OnceLock<Vec<EventId>>,
    /// Logical parents that need a search of the whole trace, ascending by event: see [`Self::logical_parent`].
    pub(crate) other_parents: OnceLock<Vec<Parent>>,
    /// See [`Self::samples`].
    pub(crate) samples: OnceLock<SampleTable>,
}

impl Trace {
    /// Set the level of module calls (Python frames that begin with `nn.Module:`) to layer.
    pub fn mark_layers(&mut self) {
        let is_module: Vec<bool> = self.strings.iter().map(|name| module_class(name).is_some()).collect();
        let frames = self.events.kind.iter().zip(&self.events.name).zip(&mut self.events.level);
        for ((kind, name), level) in frames {
            if *kind == EventKind::PythonFunction && is_module.get(name.index()).is_some_and(|is_module| *is_module) {
                *level = Level::Layer;
            }
        }
    }

    /// Level of an event in the software stack, such as operator or layer.
    pub fn level(&self, event: EventId) -> Level {
        self.events.level[event.index()]
    }

    /// Drop the cached values of the trace (pauses, launched work, samples …), which are then computed again on use.
    /// Call it after a change of times.
    pub fn forget_computed(&mut self) {
        self.pauses = OnceLock::new();
        self.gpu_records = OnceLock::new();
        self.launched_work = OnceLock::new();
        self.unrecorded_launches = OnceLock::new();
        self.other_parents = OnceLock::new();
        self.samples = OnceLock::new();
    }

    /// Sort the events of each track by start, and set the time order of the trace. Call it after all events were
    /// added.
    pub fn index_tracks(&mut self) {
        let tracks = self.tracks.len();
        let mut offset = vec![0u32; tracks + 1];
        for track in &self.events.track {
            offset[track.index() + 1] += 1;
        }
        for i in 0..tracks {
            offset[i + 1] += offset[i];
        }
        let mut next = offset.clone();
        let mut order = vec![EventId::NONE; self.events.len()];
        for id in self.events.ids() {
            let slot = &mut next[self.events.track[id.index()].index()];
            order[*slot as usize] = id;
            *slot += 1;
        }
        for i in 0..tracks {
            let run = &mut order[offset[i] as usize..offset[i + 1] as usize];
            let (start, dur) = (&self.events.start, &self.events.dur);
            run.sort_by_key(|e| (start[e.index()], std::cmp::Reverse(dur[e.index()]), e.0));
        }
        self.track_order = order;
        self.track_offset = offset;
    }

    /// Time order of all events by track, as built by [`Self::index_tracks`].
    pub fn track_order(&self) -> &[EventId] {
        &self.track_order
    }

    /// Set a stored time order (see [`Self::track_order`]) instead of sorting again, after a check that each track has
    /// exactly its own events.
    ///
    /// # Errors
    /// If the order does not belong to the events of this trace.
    pub fn set_track_order(&mut self, order: Vec<EventId>) -> Result<(), String> {
        let track = &self.events.track;
        let mut offset = vec![0u32; self.tracks.len() + 1];
        for id in track {
            let slot = offset
                .get_mut(id.index() + 1)
                .ok_or_else(|| format!("an event refers to track {}, which does not exist", id.0))?;
            *slot += 1;
        }
        for i in 1..offset.len() {
            offset[i] += offset[i - 1];
        }
        if order.len() != track.len() {
            return Err(format!(
                "the stored index of events by time is inconsistent: it has {} entries for {} events",
                order.len(),
                track.len()
            ));
        }
        for (lane, run) in offset.windows(2).enumerate() {
            let own = |e: &EventId| track.get(e.index()).is_some_and(|t| t.index() == lane);
            if !order[run[0] as usize..run[1] as usize].iter().all(own) {
                return Err(format!(
                    "the stored index of events by time is inconsistent: under track {lane} it lists an event of \
                     another track"
                ));
            }
        }
        self.track_order = order;
        self.track_offset = offset;
        Ok(())
    }

    /// Events of a track by (start, longer first, row).
    pub fn track_events(&self, track: TrackId) -> &[EventId] {
        match (self.track_offset.get(track.index()), self.track_offset.get(track.index() + 1)) {
            (Some(&from), Some(&to)) => &self.track_order[from as usize..to as usize],
            _ => &[],
        }
    }

    /// Name of an event as text.
    pub fn name(&self, event: EventId) -> &str {
        self.strings.get(self.events.name[event.index()])
    }

    /// Category text of an event, empty if there was none.
    pub fn category(&self, event: EventId) -> &str {
        self.strings.get(self.events.category[event.index()])
    }

    /// Kind of an event, such as operator or kernel.
    pub fn kind(&self, event: EventId) -> EventKind {
        self.events.kind[event.index()]
    }

    /// Row of an event in the GPU table; `None` if the event is not GPU work. Other events need no search.
    pub fn gpu_operation(&self, event: EventId) -> Option<GpuOpId> {
        if self.kind(event).is_gpu_work() { self.gpu.of_event(event) } else { None }
    }

    /// Enclosing events of `event`, innermost first, without `event`.
    pub fn ancestors(&self, event: EventId) -> impl Iterator<Item = EventId> + '_ {
        std::iter::successors(self.events.parent[event.index()].some(), |e| self.events.parent[e.index()].some())
    }

    /// GPU operations by start; those with equal starts in the order of the table.
    pub fn gpu_by_start(&self) -> impl Iterator<Item = GpuOpId> {
        // Operations of one track are mostly sorted, which makes the sort fast; in the table, tracks are interleaved.
        let mut tracks: Vec<Vec<(i64, GpuOpId)>> = vec![Vec::new(); self.tracks.len()];
        for gpu in self.gpu.ids() {
            let event = self.gpu.event[gpu.index()].index();
            tracks[self.events.track[event].index()].push((self.events.start[event], gpu));
        }
        let mut all = tracks.concat();
        all.sort();
        all.into_iter().map(|(_, gpu)| gpu)
    }

    /// First start and last end in ns over all plausible events with a duration; `None` if there is none.
    pub fn span(&self) -> Option<(i64, i64)> {
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        let mut any = false;
        for event in self.events.ids() {
            // Branch-free, because all events are visited.
            let counts = self.events.is_timed(event) & (self.kind(event) != EventKind::Recording);
            let (start, end) = (self.events.start[event.index()], self.events.end(event));
            any |= counts;
            first = first.min(if counts { start } else { i64::MAX });
            last = last.max(if counts { end } else { i64::MIN });
        }
        any.then_some((first, last))
    }

    /// Shift in ns that reading added to the times of a GPU stream's operations, because the device's clock was off
    /// ([`DeviceClock::applied_ns`]); 0 for other tracks. Records of synchronization may have kept the host's time.
    pub fn clock_shift(&self, track: TrackId) -> i64 {
        let track = self.tracks.get(track);
        let clock =
            self.meta.clocks.iter().find(|clock| track.kind == TrackKind::Stream && clock.device == track.device);
        clock.map_or(0, |clock| clock.applied_ns)
    }

    /// Runtime and driver calls that put work on a device without an operation in the GPU table, in the order of
    /// events.
    ///
    /// Calls during capture into a graph are excluded. A nested call may be the same launch: see
    /// [`Self::unrecorded_launches`].
    pub(crate) fn launches_without_work(&self) -> Vec<EventId> {
        let captures = self.capture_ranges();
        let is_captured = |event: EventId| {
            let start = self.events.start[event.index()];
            let of_track = captures.get(&self.events.track[event.index()]).map_or(&[][..], Vec::as_slice);
            let begun = of_track.partition_point(|&(from, _)| from <= start);
            begun.checked_sub(1).and_then(|at| of_track.get(at)).is_some_and(|&(_, to)| start <= to)
        };
        let launching: Vec<bool> = self.strings.iter().map(crate::names::is_launch).collect();
        let mut has_work = vec![false; self.events.len()];
        for call in self.gpu.launch.iter().filter_map(|call| call.some()) {
            has_work[call.index()] = true;
        }
        let is_launch = |e: &EventId| {
            let name = self.events.name[e.index()];
            self.kind(*e).is_api_call() && !has_work[e.index()] && launching.get(name.index()).is_some_and(|l| *l)
        };
        self.events.ids().filter(|event| is_launch(event) && !is_captured(*event)).collect()
    }

    /// Time ranges in ns in which each thread captured streams into graphs, by track, ascending. An unfinished capture
    /// extends to the end.
    fn capture_ranges(&self) -> BTreeMap<TrackId, Vec<(i64, i64)>> {
        let marks: Vec<Option<bool>> = self.strings.iter().map(crate::names::begins_capture).collect();
        let mut found: BTreeMap<TrackId, Vec<(i64, i64)>> = BTreeMap::new();
        if marks.iter().all(Option::is_none) {
            return found;
        }
        let mark = |event: &EventId| marks.get(self.events.name[event.index()].index()).copied().flatten();
        let mut calls: Vec<(i64, EventId, bool)> = self
            .events
            .ids()
            .filter(|event| self.kind(*event).is_api_call())
            .filter_map(|event| Some((self.events.start[event.index()], event, mark(&event)?)))
            .collect();
        calls.sort_unstable();
        for (start, event, begins) in calls {
            let of_track = found.entry(self.events.track[event.index()]).or_default();
            match of_track.last_mut() {
                Some((_, to)) if !begins && *to == i64::MAX => *to = start,
                Some((_, i64::MAX)) | None if !begins => {}
                _ if begins => of_track.push((start, i64::MAX)),
                _ => {}
            }
        }
        found
    }

    /// Name of a track's process, else the process number.
    #[must_use]
    pub fn process_name(&self, track: TrackId) -> String {
        let process = self.tracks.processes.get(self.tracks.get(track).process.index());
        self.name_or_key(process.map_or(StrId::NONE, |process| process.name), self.tracks.pid(track))
    }

    /// Name of a track, else the track's number.
    #[must_use]
    pub fn track_name(&self, track: TrackId) -> String {
        let track = self.tracks.get(track);
        self.name_or_key(track.name, track.tid)
    }

    /// Text of a name, or of the key if there is no name.
    fn name_or_key(&self, name: StrId, key: Key) -> String {
        name.some().map_or_else(|| self.key_text(key), |name| self.strings.get(name).to_owned())
    }

    /// Text of the key of a process or thread.
    pub fn key_text(&self, key: Key) -> String {
        match key {
            Key::Int(i) => i.to_string(),
            Key::Str(s) => self.strings.get(s).to_owned(),
            Key::None => String::new(),
        }
    }

    /// Interned handle of an attribute's name, for [`AttrTable::column`]; `None` if no text of the trace equals it.
    pub fn key(&self, name: &str) -> Option<StrId> {
        self.strings.find(name)
    }

    /// Column with the values of one attribute over all events: `trace.attr("correlation").i64(event)`.
    pub fn attr(&self, name: &str) -> crate::AttrColumn<'_> {
        self.attrs.column(self.key(name))
    }
}

/// Traces of one job, one per rank or file, in the given order.
#[derive(Clone, Debug, Default)]
pub struct TraceSet {
    /// The traces.
    pub traces: Vec<Trace>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrackKind;

    #[test]
    fn operations_of_several_streams_come_by_start() {
        let mut trace = Trace::default();
        let streams = [7, 9].map(|id| trace.tracks.track(Key::Int(0), Key::Int(id), TrackKind::Stream));
        for (at, (stream, start)) in [(0, 5), (1, 3), (0, 8), (1, 8), (0, 1)].into_iter().enumerate() {
            trace.events.track.push(streams[stream]);
            trace.events.start.push(start);
            trace.gpu.event.push(EventId::new(at));
        }
        assert!(trace.gpu_by_start().eq([4, 1, 0, 2, 3].map(GpuOpId)));
    }
}
