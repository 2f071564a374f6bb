//! Kinds of frames and their stable names.

use super::Frame;

/// Declare the kinds of frames: variants of [`Frame`] with their names in tables and files.
macro_rules! kinds {
    ($($variant:ident $name:literal,)*) => {
        /// The kind of a frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FrameKind {
            $(#[doc = concat!("See [`Frame::", stringify!($variant), "`].")] $variant,)*
        }

        impl FrameKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Stable name of a frame kind.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        impl Frame {
            /// Kind of a frame: Python, operator, kernel and so on.
            pub fn kind(&self) -> FrameKind {
                match self { $(Self::$variant { .. } => FrameKind::$variant,)* }
            }
        }
    };
}

kinds! {
    Python "python",
    Operator "operator",
    Backward "backward",
    Span "span",
    Module "module",
    Native "native",
    Unmapped "unmapped",
    Runtime "runtime",
    Kernel "kernel",
    DeviceFunction "device_function",
    Instruction "instruction",
    HloOp "hlo_op",
    Overflow "overflow",
}

impl FrameKind {
    /// Frame kind with this stable name; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::FrameKind;

    #[test]
    fn kinds_have_distinct_names() {
        for &kind in FrameKind::ALL {
            assert_eq!(FrameKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(FrameKind::from_name("no kind"), None);
    }
}
