//! GPU operations in the analyzed window, by stream and by launch call.

use super::window::Window;
use rustc_hash::FxHashMap;
use stackline_model::launch_times::LaunchTimes;
use stackline_model::{EventId, Trace, TrackId};

/// Number of a GPU stream: its position in [`Gpu::streams`].
pub(super) type StreamId = u32;

/// GPU operation, with its times limited to the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Op {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) event: EventId,
    pub(super) stream: StreamId,
    /// Launch call; [`EventId::NONE`] if the trace has none.
    pub(super) launch: EventId,
    /// Start of the launch call, or of the operation if there is none.
    pub(super) launched_at: i64,
}

/// All GPU operations in the window, by stream.
#[derive(Debug, Default)]
pub(super) struct Gpu {
    /// Operations by stream, then by start.
    pub(super) ops: Vec<Op>,
    /// Tracks of the streams, in an order independent of the file.
    pub(super) streams: Vec<TrackId>,
    /// First operation of each stream in `ops`, plus the total number.
    offsets: Vec<u32>,
    /// Operations by (launch, position), and the range of each launch.
    by_launch: Vec<u32>,
    launch_index: FxHashMap<EventId, (u32, u32)>,
    /// Positions of operations, sorted by end.
    by_end: Vec<u32>,
    /// Stream by device and number.
    numbers: FxHashMap<(i32, i64), StreamId>,
}

impl Gpu {
    /// Collect the GPU operations that overlap the window.
    pub(super) fn collect(trace: &Trace, window: Window) -> Self {
        let mut gpu = Self::default();
        let mut ops: Vec<(TrackId, Op)> = Vec::new();
        let times = LaunchTimes::new(trace);
        for id in trace.gpu.ids() {
            let event = trace.gpu.event[id.index()];
            let (start, end) = (trace.events.start[event.index()], trace.events.end(event));
            if !trace.events.is_plausible(event) || start > window.end || end < window.start {
                continue;
            }
            let launch = trace.gpu.launch[id.index()];
            let launched_at = times.launch_of(id).at;
            let (start, end) = (start.max(window.start), end.min(window.end));
            let op = Op { start, end, event, stream: 0, launch, launched_at };
            ops.push((trace.events.track[event.index()], op));
        }
        gpu.number_streams(trace, &mut ops);
        let name = |op: &Op| trace.name(op.event);
        ops.sort_by(|(_, a), (_, b)| {
            let key = |op: &Op| (op.stream, op.start, op.end, op.launched_at);
            key(a).cmp(&key(b)).then_with(|| name(a).cmp(name(b)))
        });
        gpu.ops = ops.into_iter().map(|(_, op)| op).collect();
        gpu.offsets =
            (0..=gpu.streams.len() as u32).map(|s| gpu.ops.partition_point(|op| op.stream < s) as u32).collect();
        gpu.index_launches();
        gpu.by_end = (0..gpu.ops.len() as u32).collect();
        gpu.by_end.sort_by_key(|&op| (gpu.ops[op as usize].end, op));
        gpu
    }

    /// Number the streams in an order independent of the file, and set the stream number of each operation.
    fn number_streams(&mut self, trace: &Trace, ops: &mut [(TrackId, Op)]) {
        let mut tracks: Vec<TrackId> = ops.iter().map(|(track, _)| *track).collect();
        tracks.sort_unstable();
        tracks.dedup();
        tracks.sort_by_cached_key(|&t| {
            let track = trace.tracks.get(t);
            (track.device, track.stream, trace.key_text(trace.tracks.pid(t)), trace.key_text(track.tid))
        });
        let mut number: FxHashMap<TrackId, StreamId> = FxHashMap::default();
        for (&track, id) in tracks.iter().zip(0u32..) {
            number.insert(track, id);
            let row = trace.tracks.get(track);
            self.numbers.entry((row.device, row.stream)).or_insert(id);
        }
        for (track, op) in ops {
            op.stream = number.get(track).copied().unwrap_or(0);
        }
        self.streams = tracks;
    }

    /// Build the index from launch calls to the operations that they launched.
    fn index_launches(&mut self) {
        let launched = |op: u32| self.ops[op as usize].launch;
        let mut order: Vec<u32> = (0..self.ops.len() as u32).filter(|&op| launched(op) != EventId::NONE).collect();
        order.sort_by_key(|&op| (launched(op), self.ops[op as usize].start, op));
        let mut from = 0;
        for at in 1..=order.len() {
            if at == order.len() || launched(order[at]) != launched(order[from]) {
                self.launch_index.insert(launched(order[from]), (from as u32, at as u32));
                from = at;
            }
        }
        self.by_launch = order;
    }

    /// GPU operations that a call launched, as positions in [`Self::ops`], by start.
    pub(super) fn launched_by(&self, call: EventId) -> &[u32] {
        let range = self.launch_index.get(&call).copied().unwrap_or((0, 0));
        &self.by_launch[range.0 as usize..range.1 as usize]
    }

    /// GPU streams of a list of operations, ascending and without duplicates.
    pub(super) fn streams_of(&self, ops: &[u32]) -> Vec<StreamId> {
        let mut streams: Vec<StreamId> = ops.iter().map(|&op| self.ops[op as usize].stream).collect();
        streams.sort_unstable();
        streams.dedup();
        streams
    }

    /// Range of positions in the list of operations that belong to a GPU stream.
    pub(super) fn ops_of_stream(&self, stream: StreamId) -> std::ops::Range<u32> {
        let at = |s: usize| self.offsets.get(s).copied().unwrap_or(0);
        at(stream as usize)..at(stream as usize + 1)
    }

    /// Infer the operation that an operation without recorded launch waited for: the last to end before its start.
    /// Candidates are operations of other streams on the device. `None` if the operation's own stream delayed it.
    pub(super) fn inferred_prerequisite(&self, trace: &Trace, op: u32) -> Option<u32> {
        let own = &self.ops[op as usize];
        if own.launch.is_some() || !self.ops_of_stream(own.stream).contains(&op.checked_sub(1)?) {
            return None;
        }
        let before = self.by_end.partition_point(|&o| self.ops[o as usize].end <= own.start).checked_sub(1)?;
        let last = self.by_end[before];
        let device = |op: &Op| trace.tracks.get(self.streams[op.stream as usize]).device;
        let other = &self.ops[last as usize];
        let delayed_by_own_stream = self.ops[op as usize - 1].end >= other.end;
        (other.stream != own.stream && device(other) == device(own) && !delayed_by_own_stream).then_some(last)
    }

    /// GPU operations that ended at or before a time, latest end first.
    pub(super) fn ended_by(&self, at: i64) -> impl Iterator<Item = &Op> {
        let ended = self.by_end.partition_point(|&op| self.ops[op as usize].end <= at);
        self.by_end[..ended].iter().rev().map(|&op| &self.ops[op as usize])
    }

    /// Find the GPU stream with a stream number on a device; `None` if the window has no work on that stream.
    pub(super) fn stream_by_number(&self, device: i32, stream: i64) -> Option<StreamId> {
        self.numbers.get(&(device, stream)).copied()
    }
}
