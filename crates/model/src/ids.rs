//! Typed row handles: rows of tables are referred to by these instead of plain integers.

/// Declare a `u32` handle with a reserved "none" value, so that optional references take no extra space.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// Reference to no row.
            pub const NONE: Self = Self(u32::MAX);

            /// Handle of row `index`. Indices of 2^32 - 1 and above become [`Self::NONE`].
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }

            /// Row index; only valid if [`Self::is_some`].
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// True if the handle refers to a row.
            pub fn is_some(self) -> bool {
                self != Self::NONE
            }

            /// True if the handle refers to no row.
            pub fn is_none(self) -> bool {
                self == Self::NONE
            }

            /// Convert a row handle to an `Option`; [`Self::NONE`] becomes `None`.
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
    /// String in a [`crate::StringTable`].
    StrId
);
handle!(
    /// Row of an [`crate::EventTable`].
    EventId
);
handle!(
    /// Row of a [`crate::TrackTable`]: one CPU thread, GPU stream, counter or asynchronous lane.
    TrackId
);
handle!(
    /// Process of a [`crate::TrackTable`].
    ProcessId
);
handle!(
    /// Attribute layout (keys and types) of an [`crate::AttrTable`].
    AttrLayoutId
);
handle!(
    /// Row of a [`crate::GpuTable`]: one operation on a GPU stream.
    GpuOpId
);
handle!(
    /// Node of a [`crate::StackTable`].
    StackId
);
handle!(
    /// Row of a [`crate::FrameTable`].
    FrameId
);
handle!(
    /// Node of a [`crate::CallingContextTree`].
    CallNodeId
);
handle!(
    /// Row of [`crate::CallingContextTree::threads`].
    CallThreadId
);
handle!(
    /// Row of [`crate::CallingContextTree::processes`].
    CallProcessId
);
handle!(
    /// Row of [`crate::MemoryCalls`]: one call that allocates, frees, copies, sets, launches or waits.
    MemoryCallId
);
handle!(
    /// Row of [`crate::MemoryObjects`]: one object from its allocation to its free.
    MemoryObjectId
);
handle!(
    /// Row of [`crate::MemoryTrace::streams`].
    MemoryStreamId
);
handle!(
    /// Row of [`crate::MemoryTrace::devices`].
    MemoryDeviceId
);
handle!(
    /// Node of [`crate::MemoryStacks`]: a whole call path.
    MemoryStackId
);
