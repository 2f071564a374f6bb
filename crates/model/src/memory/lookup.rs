//! Index of devices by name and of streams by key, because a damaged file may name a million of each.

use super::{MemoryDevice, MemoryStream};
use crate::{MemoryDeviceId, MemoryStreamId, StrId};
use rustc_hash::FxHashMap;

/// Index of a memory trace's devices by name, and of its streams. Rows that were added directly are indexed at the next
/// lookup.
#[derive(Clone, Debug, Default)]
pub struct MemoryLookup {
    devices: FxHashMap<StrId, u32>,
    streams: FxHashMap<MemoryStream, u32>,
    /// Number of indexed rows of each.
    known: (usize, usize),
}

impl MemoryLookup {
    /// First device of a memory trace with this name.
    pub(super) fn device(&mut self, devices: &[MemoryDevice], name: StrId) -> Option<MemoryDeviceId> {
        for (row, device) in devices.iter().enumerate().skip(self.known.0) {
            self.devices.entry(device.name).or_insert(row as u32);
        }
        self.known.0 = devices.len();
        let row = self.devices.get(&name).map(|row| *row as usize)?;
        devices.get(row).is_some_and(|device| device.name == name).then(|| MemoryDeviceId::new(row))
    }

    /// First stream of a memory trace that equals this one.
    pub(super) fn stream(&mut self, streams: &[MemoryStream], stream: MemoryStream) -> Option<MemoryStreamId> {
        for (row, known) in streams.iter().enumerate().skip(self.known.1) {
            self.streams.entry(*known).or_insert(row as u32);
        }
        self.known.1 = streams.len();
        let row = self.streams.get(&stream).map(|row| *row as usize)?;
        (streams.get(row) == Some(&stream)).then(|| MemoryStreamId::new(row))
    }
}
