//! Table of the memory-related calls of the host, in their order.

use crate::{MemoryCallId, MemoryObjectId, MemoryStackId, MemoryStreamId, StrId};

/// Kind of a memory-related call: allocation, free, fill, copy, kernel, event or synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MemoryCallKind {
    /// Allocates an object, which is its target.
    Allocate,
    /// Frees an object, which is its target ([`MemoryObjectId::NONE`] for an unknown one).
    Free,
    /// Fills memory with a value.
    Set,
    /// Copies from the host to a device.
    CopyToDevice,
    /// Copies from a device to the host.
    CopyToHost,
    /// Copies within or between devices.
    CopyOnDevice,
    /// Runs a kernel or, if kernels are not recorded, a framework operator.
    Kernel,
    /// Records an event in a stream, for which other streams can wait.
    EventRecord,
    /// Makes its stream wait for an earlier call; its target is that call, usually an [`Self::EventRecord`].
    EventWait,
    /// Makes the host wait for all work of a stream; its target is the stream, or none for all streams.
    HostSync,
}

impl MemoryCallKind {
    /// All kinds, in their order.
    pub const ALL: [Self; 10] = [
        Self::Allocate,
        Self::Free,
        Self::Set,
        Self::CopyToDevice,
        Self::CopyToHost,
        Self::CopyOnDevice,
        Self::Kernel,
        Self::EventRecord,
        Self::EventWait,
        Self::HostSync,
    ];

    /// Stable name of the kind of a memory-related call.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Free => "free",
            Self::Set => "set",
            Self::CopyToDevice => "copy to device",
            Self::CopyToHost => "copy to host",
            Self::CopyOnDevice => "copy on device",
            Self::Kernel => "kernel",
            Self::EventRecord => "event record",
            Self::EventWait => "event wait",
            Self::HostSync => "host sync",
        }
    }

    /// Kind of memory-related call with this stable name; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// True for a memory copy in any direction.
    pub fn is_copy(self) -> bool {
        matches!(self, Self::CopyToDevice | Self::CopyToHost | Self::CopyOnDevice)
    }

    /// True for one of DrGPUM's GPU APIs: all but events and synchronization.
    pub fn is_api(self) -> bool {
        self <= Self::Kernel
    }
}

/// Bits of [`MemoryCalls::flags`].
pub mod call_flags {
    /// Opaque kernel: not all of its accesses are known, so it may access any live object.
    pub const OPAQUE: u8 = 1;
    /// The host continues only after this call is done.
    pub const SYNCHRONOUS: u8 = 2;
    /// Inferred, without a record of the source (such as a free that must have occurred).
    pub const INFERRED: u8 = 4;
    /// Allocation in an operator that also contains the first use of its object, or its free. The program cannot change
    /// the order within the operator.
    pub const WITHIN_OPERATOR: u8 = 8;
}

/// Memory-related call to add to a memory trace.
#[derive(Clone, Copy, Debug)]
pub struct NewCall {
    /// Begin, ns; the position of the call if the source has no times.
    pub start_ns: i64,
    /// Duration (for a kernel: on the device), ns; 0 if unknown.
    pub duration_ns: u64,
    /// Stream.
    pub stream: MemoryStreamId,
    /// Kernel, operator or API.
    pub name: StrId,
    /// Call path.
    pub stack: MemoryStackId,
    /// See [`call_flags`].
    pub flags: u8,
    /// See [`MemoryCallKind`]; `u32::MAX` for none.
    pub target: u32,
}

impl Default for NewCall {
    fn default() -> Self {
        Self {
            start_ns: 0,
            duration_ns: 0,
            stream: MemoryStreamId::NONE,
            name: StrId::NONE,
            stack: MemoryStackId::NONE,
            flags: 0,
            target: u32::MAX,
        }
    }
}

/// Memory-related calls of the host, as columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryCalls {
    /// Kind.
    pub kind: Vec<MemoryCallKind>,
    /// See [`NewCall::start_ns`].
    pub start_ns: Vec<i64>,
    /// See [`NewCall::duration_ns`].
    pub duration_ns: Vec<u64>,
    /// See [`NewCall::stream`].
    pub stream: Vec<MemoryStreamId>,
    /// See [`NewCall::name`].
    pub name: Vec<StrId>,
    /// See [`NewCall::stack`].
    pub stack: Vec<MemoryStackId>,
    /// See [`call_flags`].
    pub flags: Vec<u8>,
    /// See [`MemoryCallKind`].
    pub target: Vec<u32>,
    /// End (exclusive) of the call's accesses.
    pub access_end: Vec<u32>,
}

impl MemoryCalls {
    /// Add a call. Push its accesses next, then call [`crate::MemoryTrace::seal_call`].
    pub fn push(&mut self, kind: MemoryCallKind, call: NewCall) -> MemoryCallId {
        let id = MemoryCallId::new(self.len());
        self.kind.push(kind);
        self.start_ns.push(call.start_ns);
        self.duration_ns.push(call.duration_ns);
        self.stream.push(call.stream);
        self.name.push(call.name);
        self.stack.push(call.stack);
        self.flags.push(call.flags);
        self.target.push(call.target);
        let before = self.access_end.last().copied().unwrap_or(0);
        self.access_end.push(before);
        id
    }

    /// Set the end of the last call's accesses to `accesses`, the number of accesses so far.
    pub(super) fn seal(&mut self, accesses: usize) {
        if let Some(end) = self.access_end.last_mut() {
            *end = u32::try_from(accesses).unwrap_or(u32::MAX);
        }
    }

    /// Number of memory-related calls.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// True if there are no memory-related calls.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// Handles of all memory-related calls, in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = MemoryCallId> + DoubleEndedIterator + use<> {
        (0..self.len()).map(MemoryCallId::new)
    }

    /// True if not all accesses of a call are known.
    pub fn is_opaque(&self, call: MemoryCallId) -> bool {
        self.flags[call.index()] & call_flags::OPAQUE != 0
    }

    /// Target of a call as an object handle, for allocations and frees (see [`crate::MemoryTrace::object_of`]).
    pub fn target_object(&self, call: MemoryCallId) -> MemoryObjectId {
        MemoryObjectId(self.target[call.index()])
    }

    /// Rows of the access table that belong to a call.
    pub(super) fn access_rows(&self, call: MemoryCallId) -> std::ops::Range<usize> {
        let row = call.index();
        // A snapshot without history has objects, but no calls.
        let Some(&end) = self.access_end.get(row) else { return 0..0 };
        let first = if row == 0 { 0 } else { self.access_end[row - 1] };
        first as usize..end as usize
    }

    /// Check that columns are equally long, and that the calls cover all `accesses` rows of the access table in order.
    pub(super) fn check(&self, accesses: usize) -> Result<(), String> {
        let rows = self.len();
        let lengths = [
            self.start_ns.len(),
            self.duration_ns.len(),
            self.stream.len(),
            self.name.len(),
            self.stack.len(),
            self.flags.len(),
            self.target.len(),
            self.access_end.len(),
        ];
        if lengths.iter().any(|length| *length != rows) {
            return Err("the columns of the table of memory calls differ in length".to_owned());
        }
        if !self.access_end.is_sorted() || self.access_end.last().map_or(0, |end| *end as usize) != accesses {
            return Err(
                "the table of memory accesses does not have the number of rows that the table of memory calls \
                        requires"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
