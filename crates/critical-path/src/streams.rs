//! GPU streams of a trace, with their operations in order.

use rustc_hash::FxHashMap;
use stackline_model::{GpuId, Key, Trace};

/// GPU operations of each stream, in order.
pub(crate) struct Streams {
    /// Stream per operation.
    pub(crate) of: Vec<u32>,
    /// Previous operation on the same stream, per operation.
    pub(crate) previous: Vec<GpuId>,
    /// Operations per stream, in execution order.
    pub(crate) operations: Vec<Vec<GpuId>>,
    /// Process that launches on each stream; none if no record states it.
    pub(crate) process: Vec<Key>,
    /// Device per stream.
    pub(crate) device: Vec<i32>,
    /// True if no two processes share a stream number on a device number.
    pub(crate) is_one_process: bool,
    /// Device of all streams, if all belong to one device of one process.
    pub(crate) only_device: Option<i32>,
    /// Position in time order per operation, with ties in the order of device, stream, correlation ID and name,
    /// independent of the order of rows.
    pub(crate) rank: Vec<u32>,
    /// Stream by device and number; `None` if several processes of a file use the same device and number.
    by_number: FxHashMap<(i32, i64), Option<u32>>,
}

impl Streams {
    pub(super) fn new(trace: &Trace) -> Self {
        let gpu = &trace.gpu;
        let none = vec![u32::MAX; gpu.len()];
        let previous = vec![GpuId::NONE; gpu.len()];
        let by_number = FxHashMap::default();
        let (operations, device, rank) = (Vec::new(), Vec::new(), vec![u32::MAX; gpu.len()]);
        let (is_one_process, only_device) = (true, None);
        let process = Vec::new();
        let mut streams =
            Self { of: none, previous, operations, process, device, is_one_process, only_device, rank, by_number };
        // Devices of several processes (ranks in one file) may have the same number; tracks distinguish them.
        let mut by_process: FxHashMap<(Key, i32, i64), u32> = FxHashMap::default();
        // Tracks distinguish streams without number.
        let mut by_track: FxHashMap<u32, u32> = FxHashMap::default();
        let mut ids: Vec<GpuId> = gpu.ids().filter(|id| is_usable(trace, *id)).collect();
        ids.sort_by_key(|&id| (start(trace, id), end(trace, id), tie_breaker(trace, id)));
        for (rank, id) in ids.into_iter().enumerate() {
            streams.rank[id.index()] = rank as u32;
            let (device, number) = (gpu.device[id.index()], gpu.stream[id.index()]);
            let next = streams.operations.len() as u32;
            let track = trace.events.track[gpu.event[id.index()].index()];
            let stream = if number >= 0 {
                *by_process.entry((trace.tracks.pid(track), device, number)).or_insert(next)
            } else {
                *by_track.entry(track.0).or_insert(next)
            };
            if stream == next {
                if number >= 0 {
                    streams.by_number.entry((device, number)).and_modify(|known| *known = None).or_insert(Some(next));
                }
                streams.operations.push(Vec::new());
                streams.device.push(device);
            }
            streams.of[id.index()] = stream;
            streams.operations[stream as usize].push(id);
        }
        streams.is_one_process = streams.by_number.values().all(Option::is_some);
        let is_one_device = streams.is_one_process && streams.device.windows(2).all(|d| d[0] == d[1]);
        streams.only_device = streams.device.first().copied().filter(|_| is_one_device);
        for operations in &streams.operations {
            for pair in operations.windows(2) {
                streams.previous[pair[1].index()] = pair[0];
            }
        }
        streams.process = processes(trace, &streams.operations);
        streams
    }

    /// Process that launched a GPU operation, or else the process of its stream.
    pub(crate) fn process_of(&self, trace: &Trace, id: GpuId) -> Key {
        launched_by(trace, id).unwrap_or_else(|| self.process[self.of[id.index()] as usize])
    }

    /// Find the stream with a number on a device. A negative `device` matches any, if all streams are on one device.
    pub(crate) fn stream_by_number(&self, device: i32, number: i64) -> Option<usize> {
        let known = |device: i32| self.by_number.get(&(device, number)).copied().flatten().map(|s| s as usize);
        known(device).or_else(|| self.only_device.filter(|_| device < 0).and_then(known))
    }
}

/// Process of the call that launched an operation.
fn launched_by(trace: &Trace, id: GpuId) -> Option<Key> {
    let call = trace.gpu.launch[id.index()].some()?;
    Some(trace.tracks.pid(trace.events.track[call.index()]))
}

/// Process per stream: the one that launches on it. Streams without launches belong to the process that uses their
/// device, or to the only process with launches.
fn processes(trace: &Trace, operations: &[Vec<GpuId>]) -> Vec<Key> {
    let known: Vec<Option<Key>> =
        operations.iter().map(|ids| ids.iter().find_map(|&id| launched_by(trace, id))).collect();
    let device = |ids: &Vec<GpuId>| {
        let event = trace.gpu.event[ids.first()?.index()];
        Some(trace.tracks.pid(trace.events.track[event.index()]))
    };
    let mut by_device: FxHashMap<Key, Key> = FxHashMap::default();
    for (ids, process) in operations.iter().zip(&known) {
        if let (Some(device), Some(process)) = (device(ids), process) {
            by_device.entry(device).or_insert(*process);
        }
    }
    let first = known.iter().flatten().next().copied();
    let only = first.filter(|first| known.iter().flatten().all(|other| other == first)).unwrap_or(Key::None);
    let of = |(ids, known): (&Vec<GpuId>, &Option<Key>)| {
        known.or_else(|| by_device.get(&device(ids)?).copied()).unwrap_or(only)
    };
    operations.iter().zip(&known).map(of).collect()
}

/// The GPU operation that ended last, and the last one on any other stream. For every stream, one of the two is from a
/// different stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastOfTwo<S, T> {
    slots: [Option<(S, T)>; 2],
}

impl<S: PartialEq + Copy, T: Copy> LastOfTwo<S, T> {
    pub(crate) fn new() -> Self {
        Self { slots: [None; 2] }
    }

    /// Register that an operation ended on a stream, later than all operations before.
    pub(crate) fn ended(&mut self, stream: S, what: T) {
        if self.slots[0].is_some_and(|(last, _)| last != stream) {
            self.slots[1] = self.slots[0];
        }
        self.slots[0] = Some((stream, what));
    }

    /// GPU operation that ended last on any stream except the given one.
    pub(crate) fn ended_on_other_stream(&self, stream: S) -> Option<T> {
        self.slots.iter().flatten().find(|(of, _)| *of != stream).map(|(_, what)| *what)
    }
}

/// True if the times of an operation are usable.
pub(crate) fn is_usable(trace: &Trace, id: GpuId) -> bool {
    trace.events.is_plausible(trace.gpu.event[id.index()])
}

/// Start of an operation in ns since the base.
pub(crate) fn start(trace: &Trace, id: GpuId) -> i64 {
    trace.events.start[trace.gpu.event[id.index()].index()]
}

/// End of an operation in ns since the base.
pub(crate) fn end(trace: &Trace, id: GpuId) -> i64 {
    trace.events.end(trace.gpu.event[id.index()])
}

/// Sort key for operations with equal times, independent of the order of rows.
fn tie_breaker(trace: &Trace, id: GpuId) -> (i32, i64, i64, &str) {
    let row = &trace.gpu;
    let name = trace.name(row.event[id.index()]);
    (row.device[id.index()], row.stream[id.index()], row.correlation[id.index()], name)
}
