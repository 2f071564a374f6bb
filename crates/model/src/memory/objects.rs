//! Table of memory objects: pieces of memory from their allocation to their free.

use crate::{MemoryCallId, MemoryDeviceId, MemoryObjectId, MemoryStackId, MemoryStreamId, StrId};

/// Kind of a memory object, such as parameter, gradient or activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MemoryObjectKind {
    /// Not known.
    #[default]
    Unknown,
    /// A parameter of the model.
    Parameter,
    /// A gradient of a parameter.
    Gradient,
    /// State of the optimizer.
    OptimizerState,
    /// Allocated by forward and needed by backward.
    Activation,
    /// Input data.
    Input,
    /// Freed within the allocating operator or phase.
    Temporary,
    /// Scratch memory of a library.
    Workspace,
    /// Kept by a cache (of the allocator, of keys and values).
    Cache,
    /// Not allocated by the framework.
    Foreign,
}

impl MemoryObjectKind {
    /// All kinds, in their order.
    pub const ALL: [Self; 10] = [
        Self::Unknown,
        Self::Parameter,
        Self::Gradient,
        Self::OptimizerState,
        Self::Activation,
        Self::Input,
        Self::Temporary,
        Self::Workspace,
        Self::Cache,
        Self::Foreign,
    ];

    /// Stable name of the kind of a memory object.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Parameter => "parameter",
            Self::Gradient => "gradient",
            Self::OptimizerState => "optimizer state",
            Self::Activation => "activation",
            Self::Input => "input",
            Self::Temporary => "temporary",
            Self::Workspace => "workspace",
            Self::Cache => "cache",
            Self::Foreign => "not from the framework",
        }
    }

    /// Kind of memory object with this stable name; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Memory object to add to a memory trace. Unknown values stay at their defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewObject {
    /// First byte; 0 if unknown.
    pub address: u64,
    /// Bytes taken (after the allocator's rounding).
    pub bytes: u64,
    /// Requested bytes; 0 if unknown, then `bytes` counts.
    pub requested: u64,
    /// Device.
    pub device: MemoryDeviceId,
    /// Stream of the allocation.
    pub stream: MemoryStreamId,
    /// Pool (a private pool of CUDA graphs, `managed`); none for the default pool.
    pub pool: StrId,
    /// Call path of the allocation.
    pub stack: MemoryStackId,
    /// Name: `encoder.layer.0.weight`.
    pub name: StrId,
    /// Module that owns or allocated the object.
    pub module: StrId,
    /// Operator that allocated the object: `aten::mm`.
    pub operator: StrId,
    /// Element type, in PyTorch's notation.
    pub dtype: StrId,
    /// Shape: `[32, 64, 56, 56]`.
    pub shape: StrId,
    /// Kind.
    pub kind: MemoryObjectKind,
}

/// Memory objects as columns of equal length; see [`NewObject`] for their meaning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryObjects {
    /// First byte.
    pub address: Vec<u64>,
    /// Bytes taken.
    pub bytes: Vec<u64>,
    /// Requested bytes.
    pub requested: Vec<u64>,
    /// Device.
    pub device: Vec<MemoryDeviceId>,
    /// Stream of the allocation.
    pub stream: Vec<MemoryStreamId>,
    /// Pool.
    pub pool: Vec<StrId>,
    /// Call path of the allocation.
    pub stack: Vec<MemoryStackId>,
    /// Name.
    pub name: Vec<StrId>,
    /// Module.
    pub module: Vec<StrId>,
    /// Operator that allocated the object.
    pub operator: Vec<StrId>,
    /// Element type.
    pub dtype: Vec<StrId>,
    /// Shape.
    pub shape: Vec<StrId>,
    /// Kind.
    pub kind: Vec<MemoryObjectKind>,
    /// Call that allocated the object; none if it is older than the trace.
    pub allocated_by: Vec<MemoryCallId>,
    /// Call that freed the object; none if it is live at the end.
    pub freed_by: Vec<MemoryCallId>,
}

impl MemoryObjects {
    /// Add a memory object without an allocating call.
    pub fn push(&mut self, object: NewObject) -> MemoryObjectId {
        let id = MemoryObjectId::new(self.len());
        self.address.push(object.address);
        self.bytes.push(object.bytes);
        self.requested.push(if object.requested == 0 { object.bytes } else { object.requested });
        self.device.push(object.device);
        self.stream.push(object.stream);
        self.pool.push(object.pool);
        self.stack.push(object.stack);
        self.name.push(object.name);
        self.module.push(object.module);
        self.operator.push(object.operator);
        self.dtype.push(object.dtype);
        self.shape.push(object.shape);
        self.kind.push(object.kind);
        self.allocated_by.push(MemoryCallId::NONE);
        self.freed_by.push(MemoryCallId::NONE);
        id
    }

    /// Number of memory objects.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if there are no memory objects.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Handles of all memory objects, in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = MemoryObjectId> + DoubleEndedIterator + use<> {
        (0..self.len()).map(MemoryObjectId::new)
    }

    /// Check that all columns of the object table are equally long.
    pub(super) fn check(&self) -> Result<(), String> {
        let rows = self.len();
        let lengths = [
            self.address.len(),
            self.requested.len(),
            self.device.len(),
            self.stream.len(),
            self.pool.len(),
            self.stack.len(),
            self.name.len(),
            self.module.len(),
            self.operator.len(),
            self.dtype.len(),
            self.shape.len(),
            self.kind.len(),
            self.allocated_by.len(),
            self.freed_by.len(),
        ];
        if lengths.iter().all(|length| *length == rows) {
            Ok(())
        } else {
            Err("the columns of the table of memory objects differ in length".to_owned())
        }
    }
}
