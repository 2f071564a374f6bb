//! Pieces of memory from their allocation to their release.

use crate::{MemoryCallId, MemoryDeviceId, MemoryObjectId, MemoryStackId, MemoryStreamId, StrId};

/// What an object is for.
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
    /// Made by forward and needed by backward.
    Activation,
    /// Input data.
    Input,
    /// Made and gone within one operator or phase.
    Temporary,
    /// Scratch memory of a library.
    Workspace,
    /// Held by a cache (of the allocator, of keys and values).
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

    /// Stable name.
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

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// An object that is to be added. What a source does not know stays at its default.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewObject {
    /// First byte; 0 if not known.
    pub address: u64,
    /// Bytes that it takes (after the allocator's rounding).
    pub bytes: u64,
    /// Bytes that were asked for; 0 if not known, then `bytes` counts.
    pub requested: u64,
    /// Where it lies.
    pub device: MemoryDeviceId,
    /// The stream that it was allocated on.
    pub stream: MemoryStreamId,
    /// The pool that it comes from (a private pool of CUDA graphs, `managed`); none for the usual one.
    pub pool: StrId,
    /// Call path of its allocation.
    pub stack: MemoryStackId,
    /// What it is called: `encoder.layer.0.weight`.
    pub name: StrId,
    /// The module that it belongs to or that made it.
    pub module: StrId,
    /// The operator that made it: `aten::mm`.
    pub operator: StrId,
    /// Type of its elements, as PyTorch writes it.
    pub dtype: StrId,
    /// `[32, 64, 56, 56]`.
    pub shape: StrId,
    /// What it is for.
    pub kind: MemoryObjectKind,
}

/// Objects as columns of equal length; see [`NewObject`] for what they mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryObjects {
    /// First byte.
    pub address: Vec<u64>,
    /// Bytes taken.
    pub bytes: Vec<u64>,
    /// Bytes asked for.
    pub requested: Vec<u64>,
    /// Where it lies.
    pub device: Vec<MemoryDeviceId>,
    /// The stream of its allocation.
    pub stream: Vec<MemoryStreamId>,
    /// Its pool.
    pub pool: Vec<StrId>,
    /// Call path of its allocation.
    pub stack: Vec<MemoryStackId>,
    /// Its name.
    pub name: Vec<StrId>,
    /// Its module.
    pub module: Vec<StrId>,
    /// The operator that made it.
    pub operator: Vec<StrId>,
    /// Type of its elements.
    pub dtype: Vec<StrId>,
    /// Its shape.
    pub shape: Vec<StrId>,
    /// What it is for.
    pub kind: Vec<MemoryObjectKind>,
    /// The call that made it; none if it is older than the trace.
    pub allocated_by: Vec<MemoryCallId>,
    /// The call that freed it; none if it is alive at the end.
    pub freed_by: Vec<MemoryCallId>,
}

impl MemoryObjects {
    /// Adds an object that no call made yet.
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

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All handles, in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = MemoryObjectId> + DoubleEndedIterator + use<> {
        (0..self.len()).map(MemoryObjectId::new)
    }

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
            Err("columns of objects differ in length".to_owned())
        }
    }
}
