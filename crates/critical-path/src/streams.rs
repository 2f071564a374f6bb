//! GPU streams of a trace, with their operations in order.

use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::{GpuOpId, Key, Trace, TrackId};

/// GPU operations of each stream, in order.
pub(crate) struct Streams {
    /// Stream per operation.
    pub(crate) of: Vec<u32>,
    /// Previous operation on the same stream, per operation.
    pub(crate) previous: Vec<GpuOpId>,
    /// Operations per stream, in execution order.
    pub(crate) operations: Vec<Vec<GpuOpId>>,
    /// Process that launches on each stream; none if no record states it.
    pub(crate) process: Vec<Key>,
    /// Device per stream.
    pub(crate) device: Vec<i32>,
    /// True if no two processes share a stream number on a device number.
    pub(crate) is_one_process: bool,
    /// Process whose calls launch on each stream, or else on its device; `None` if no record states it.
    user: Vec<Option<Key>>,
    /// Device of all streams of a process; `None` if there are several.
    only_device: FxHashMap<Option<Key>, Option<i32>>,
    /// Processes by device.
    users_of_device: FxHashMap<i32, Vec<Option<Key>>>,
    /// Position in time order per operation, with ties in the order of device, stream, correlation ID and name,
    /// independent of the order of rows.
    pub(crate) rank: Vec<u32>,
    /// Stream by its process, device and number; `None` if there are several.
    by_number: FxHashMap<(Option<Key>, i32, i64), Option<u32>>,
}

impl Streams {
    /// Assign the GPU operations with usable times to streams, by process, device and stream number, in time order.
    pub(super) fn new(trace: &Trace) -> Self {
        let gpu = &trace.gpu;
        let mut streams = Self {
            of: vec![u32::MAX; gpu.len()],
            previous: vec![GpuOpId::NONE; gpu.len()],
            operations: Vec::new(),
            process: Vec::new(),
            device: Vec::new(),
            is_one_process: true,
            user: Vec::new(),
            only_device: FxHashMap::default(),
            users_of_device: FxHashMap::default(),
            rank: vec![u32::MAX; gpu.len()],
            by_number: FxHashMap::default(),
        };
        let mut ids: Vec<GpuOpId> = gpu.ids().filter(|id| is_usable(trace, *id)).collect();
        ids.sort_by_key(|&id| (start(trace, id), end(trace, id), tie_breaker(trace, id)));
        let main_process = main_processes(trace, &ids);
        // Devices of several processes (ranks in one file) may have the same number; tracks distinguish them. Processes
        // that share a device may have streams of the same number on one track; their launches distinguish them.
        let mut by_process: FxHashMap<(Option<Key>, Key, i32, i64), u32> = FxHashMap::default();
        // Tracks distinguish streams without number.
        let mut by_track: FxHashMap<(Option<Key>, TrackId), u32> = FxHashMap::default();
        for (rank, id) in ids.into_iter().enumerate() {
            streams.rank[id.index()] = rank as u32;
            let (device, number) = (gpu.device[id.index()], gpu.stream[id.index()]);
            let next = streams.operations.len() as u32;
            let track = track_of(trace, id);
            let user = launching_process(trace, id).or_else(|| main_process.get(&track).copied());
            let stream = if number >= 0 {
                *by_process.entry((user, trace.tracks.pid(track), device, number)).or_insert(next)
            } else {
                *by_track.entry((user, track)).or_insert(next)
            };
            if stream == next {
                streams.operations.push(Vec::new());
                streams.device.push(device);
            }
            streams.of[id.index()] = stream;
            streams.operations[stream as usize].push(id);
        }
        for operations in &streams.operations {
            for pair in operations.windows(2) {
                streams.previous[pair[1].index()] = pair[0];
            }
        }
        streams.user = user_processes(trace, &streams.operations);
        streams.process = processes(&streams.user);
        streams.index(trace);
        streams
    }

    /// Fill the indexes of streams by number, and of processes by device.
    fn index(&mut self, trace: &Trace) {
        let mut numbers = FxHashSet::default();
        for (stream, operations) in self.operations.iter().enumerate() {
            let (user, device) = (self.user[stream], self.device[stream]);
            let only = self.only_device.entry(user).or_insert(Some(device));
            *only = only.filter(|&known| known == device);
            let users = self.users_of_device.entry(device).or_default();
            if !users.contains(&user) {
                users.push(user);
            }
            let number = operations.first().map_or(-1, |id| trace.gpu.stream[id.index()]);
            if number >= 0 {
                self.is_one_process &= numbers.insert((device, number));
                let known = self.by_number.entry((user, device, number));
                known.and_modify(|known| *known = None).or_insert(Some(stream as u32));
            }
        }
    }

    /// Process that launched a GPU operation, or else the process of its stream.
    pub(crate) fn process_of(&self, trace: &Trace, id: GpuOpId) -> Key {
        launching_process(trace, id).unwrap_or_else(|| self.process[self.of[id.index()] as usize])
    }

    /// True if calls of a process may wait for a stream: the process uses it, or its process is unknown.
    pub(crate) fn may_wait(&self, process: Key, stream: usize) -> bool {
        self.user[stream].is_none_or(|user| user == process)
    }

    /// True if calls of a process may wait for a GPU operation, by its stream. The operation must have usable times.
    pub(crate) fn may_wait_for(&self, process: Key, id: GpuOpId) -> bool {
        self.may_wait(process, self.of[id.index()] as usize)
    }

    /// True if a process may use a device, or if nothing of the trace runs on the device.
    pub(crate) fn may_use(&self, process: Key, device: i32) -> bool {
        let is_user = |user: &Option<Key>| user.is_none_or(|user| user == process);
        self.users_of_device.get(&device).is_none_or(|users| users.iter().any(is_user))
    }

    /// Device for which calls of a process without a recorded device wait: the only one with streams of the process.
    /// `None` if there are several.
    pub(crate) fn only_device(&self, process: Key) -> Option<i32> {
        let unknown = self.only_device.get(&None).copied();
        match (self.only_device.get(&Some(process)).copied(), unknown) {
            (Some(own), Some(other)) => own.filter(|_| own == other),
            (own, other) => own.or(other).flatten(),
        }
    }

    /// True if it is known for each operation of a device which process may wait for it.
    pub(crate) fn are_processes_known(&self) -> bool {
        self.is_one_process || !self.only_device.contains_key(&None)
    }

    /// Stream of a process with a number on a device; `None` if the trace has none or several.
    ///
    /// On the process's only device if `device` is negative.
    pub(crate) fn stream_by_number(&self, process: Key, device: i32, number: i64) -> Option<usize> {
        let device = if device < 0 { self.only_device(process).unwrap_or(device) } else { device };
        let of_user = |user: Option<Key>| self.by_number.get(&(user, device, number));
        of_user(Some(process)).or_else(|| of_user(None)).copied().flatten().map(|stream| stream as usize)
    }
}

/// Track (row of the trace) of a GPU operation.
fn track_of(trace: &Trace, id: GpuOpId) -> TrackId {
    trace.events.track[trace.gpu.event[id.index()].index()]
}

/// First process that launches on each track, of operations in time order.
fn main_processes(trace: &Trace, ids: &[GpuOpId]) -> FxHashMap<TrackId, Key> {
    let mut found = FxHashMap::default();
    for &id in ids {
        if let Some(process) = launching_process(trace, id) {
            found.entry(track_of(trace, id)).or_insert(process);
        }
    }
    found
}

/// Process of the call that launched an operation; `None` without a launch call.
fn launching_process(trace: &Trace, id: GpuOpId) -> Option<Key> {
    let call = trace.gpu.launch[id.index()].some()?;
    Some(trace.tracks.pid(trace.events.track[call.index()]))
}

/// Process that launches on each stream, if known. Streams without launches belong to the process that uses their
/// device.
fn user_processes(trace: &Trace, operations: &[Vec<GpuOpId>]) -> Vec<Option<Key>> {
    let known: Vec<Option<Key>> =
        operations.iter().map(|ids| ids.iter().find_map(|&id| launching_process(trace, id))).collect();
    let device = |ids: &Vec<GpuOpId>| {
        let &first = ids.first()?;
        Some((trace.tracks.pid(track_of(trace, first)), trace.gpu.device[first.index()]))
    };
    let mut by_device: FxHashMap<(Key, i32), Key> = FxHashMap::default();
    for (ids, process) in operations.iter().zip(&known) {
        if let (Some(device), Some(process)) = (device(ids), process) {
            by_device.entry(device).or_insert(*process);
        }
    }
    let of = |(ids, known): (&Vec<GpuOpId>, &Option<Key>)| known.or_else(|| by_device.get(&device(ids)?).copied());
    operations.iter().zip(&known).map(of).collect()
}

/// Process per stream: its user, or else the only process that uses any stream.
fn processes(users: &[Option<Key>]) -> Vec<Key> {
    let first = users.iter().flatten().next().copied();
    let only = first.filter(|first| users.iter().flatten().all(|other| other == first)).unwrap_or(Key::None);
    users.iter().map(|user| user.unwrap_or(only)).collect()
}

/// Operation that ended last, and the one that ended last on any other stream. For every stream, one of the two is from
/// a different stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastOnTwoStreams<S, T> {
    slots: [Option<(S, T)>; 2],
}

impl<S: PartialEq + Copy, T: Copy> LastOnTwoStreams<S, T> {
    /// Start with no ended operation.
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

    /// GPU operation that ended last on any stream except the given one; `None` without one.
    pub(crate) fn ended_on_other_stream(&self, stream: S) -> Option<T> {
        self.slots.iter().flatten().find(|(of, _)| *of != stream).map(|(_, what)| *what)
    }
}

/// True if the start and end of a GPU operation are plausible.
pub(crate) fn is_usable(trace: &Trace, id: GpuOpId) -> bool {
    trace.events.is_plausible(trace.gpu.event[id.index()])
}

/// Start of a GPU operation in ns since the trace's base.
pub(crate) fn start(trace: &Trace, id: GpuOpId) -> i64 {
    trace.events.start[trace.gpu.event[id.index()].index()]
}

/// End of a GPU operation in ns since the trace's base.
pub(crate) fn end(trace: &Trace, id: GpuOpId) -> i64 {
    trace.events.end(trace.gpu.event[id.index()])
}

/// Sort key for operations with equal times, independent of the order of rows.
fn tie_breaker(trace: &Trace, id: GpuOpId) -> (i32, i64, i64, &str) {
    let row = &trace.gpu;
    let name = trace.name(row.event[id.index()]);
    (row.device[id.index()], row.stream[id.index()], row.correlation[id.index()], name)
}
