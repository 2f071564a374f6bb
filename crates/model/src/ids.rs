//! Small typed handles: rows of tables are referred to by these, never by a bare integer.

/// Declares a `u32` handle with a reserved "none" value, so that optional references cost no extra space.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// "Refers to nothing".
            pub const NONE: Self = Self(u32::MAX);

            /// The handle of row `index`. Indices of 2^32 - 1 and above become [`Self::NONE`].
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }

            /// Row index; only meaningful when [`Self::is_some`].
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// Whether this refers to a row.
            pub fn is_some(self) -> bool {
                self != Self::NONE
            }

            /// Whether this refers to nothing.
            pub fn is_none(self) -> bool {
                self == Self::NONE
            }

            /// As an `Option`.
            pub fn some(self) -> Option<Self> {
                if self.is_some() { Some(self) } else { None }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::NONE
            }
        }

        impl From<Option<$name>> for $name {
            fn from(value: Option<$name>) -> Self {
                value.unwrap_or(Self::NONE)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.some() {
                    Some(id) => write!(f, "{}({})", stringify!($name), id.0),
                    None => write!(f, "{}(none)", stringify!($name)),
                }
            }
        }
    };
}

handle!(
    /// A string in a [`crate::StringTable`].
    StrId
);
handle!(
    /// A row of an [`crate::EventTable`].
    EventId
);
handle!(
    /// A row of a [`crate::TrackTable`]: one CPU thread, GPU stream, counter or asynchronous lane.
    TrackId
);
handle!(
    /// A process of a [`crate::TrackTable`].
    ProcessId
);
handle!(
    /// An attribute layout (which keys, which types) of an [`crate::AttrTable`].
    AttrLayoutId
);
handle!(
    /// A row of a [`crate::GpuTable`]: one operation on a GPU stream.
    GpuId
);
handle!(
    /// A node of a [`crate::StackTable`].
    StackId
);
handle!(
    /// A row of a [`crate::FrameTable`].
    FrameId
);
handle!(
    /// A node of a [`crate::CallingContextTree`].
    CallNodeId
);
handle!(
    /// A row of [`crate::CallingContextTree::threads`].
    CallThreadId
);
handle!(
    /// A row of [`crate::CallingContextTree::processes`].
    CallProcessId
);
handle!(
    /// A row of [`crate::MemoryCalls`]: one call that allocates, frees, copies, sets, launches or waits.
    MemoryCallId
);
handle!(
    /// A row of [`crate::MemoryObjects`]: one piece of memory from its allocation to its release.
    MemoryObjectId
);
handle!(
    /// A row of [`crate::MemoryTrace::streams`].
    MemoryStreamId
);
handle!(
    /// A row of [`crate::MemoryTrace::devices`].
    MemoryDeviceId
);
handle!(
    /// A node of [`crate::MemoryStacks`]: a whole call path.
    MemoryStackId
);
