//! Kinds of events, independent of the source's vocabulary.

/// Declare a fieldless enum with stable text names and discriminants.
macro_rules! named_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum $name { $($(#[$vdoc])* $variant = $value,)* }

        impl $name {
            /// Every variant, in the order of the discriminants.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Stable text name of a variant, used in tables and files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Variant of the enumeration with this discriminant; `None` for an unknown number.
            pub fn from_u8(value: u8) -> Option<Self> {
                Self::ALL.iter().copied().find(|v| *v as u8 == value)
            }

            /// Variant of the enumeration with this text name; `None` for an unknown name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|v| v.name() == name)
            }
        }
    };
}
pub(crate) use named_enum;

named_enum!(
    /// Kind of an event. Sources map their categories to these; the original category text stays in the event table.
    EventKind {
        /// Any event that no other kind describes.
        Other = 0 "other",
        /// A framework operator (`cpu_op`).
        Operator = 1 "operator",
        /// A user annotation on a CPU thread (`record_function`, `ProfilerStep#n`).
        Annotation = 2 "annotation",
        /// A Python frame; `nn.Module` calls included.
        PythonFunction = 3 "python_function",
        /// A call into an accelerator's runtime API (CUDA, HIP, MTIA, XPU).
        Runtime = 4 "runtime",
        /// A call into an accelerator's driver API.
        Driver = 5 "driver",
        /// A kernel running on an accelerator.
        Kernel = 6 "kernel",
        /// A copy done by an accelerator.
        Memcpy = 7 "memcpy",
        /// A fill done by an accelerator.
        Memset = 8 "memset",
        /// A user annotation projected on an accelerator's stream.
        GpuAnnotation = 9 "gpu_annotation",
        /// A synchronization record of an accelerator (`cuda_sync`).
        Sync = 10 "sync",
        /// Work of the profiler itself.
        Overhead = 11 "overhead",
        /// A point in time without more specific kind.
        Instant = 12 "instant",
        /// An allocation or release (`[memory]`).
        Memory = 13 "memory",
        /// A counter's new values.
        Counter = 14 "counter",
        /// A collective communication recorded on its own track (not the kernel, nor the operator).
        Collective = 15 "collective",
        /// A range in which hardware counters were collected.
        ProfilerRange = 16 "profiler_range",
        /// The span of the recording itself (`Trace` category).
        Recording = 17 "recording",
        /// An asynchronous span that may overlap others of its lane.
        Async = 18 "async",
        /// A sample of a sampling profiler.
        Sample = 19 "sample",
    }
);

impl EventKind {
    /// True for work of an accelerator: kernel, copy or fill.
    pub fn is_gpu_work(self) -> bool {
        matches!(self, Self::Kernel | Self::Memcpy | Self::Memset)
    }

    /// True for a runtime or driver API call.
    pub fn is_api_call(self) -> bool {
        matches!(self, Self::Runtime | Self::Driver)
    }

    /// Usual level in the software stack of events of this kind; that of one event is [`crate::EventTable::level`].
    pub fn level(self) -> Level {
        match self {
            Self::Annotation | Self::GpuAnnotation | Self::Recording => Level::Application,
            Self::PythonFunction => Level::Python,
            Self::Operator | Self::Collective | Self::Memory => Level::Operator,
            Self::Runtime | Self::Driver | Self::Sync | Self::Overhead => Level::Runtime,
            Self::Kernel | Self::Memcpy | Self::Memset | Self::ProfilerRange => Level::Kernel,
            _ => Level::Other,
        }
    }
}

named_enum!(
    /// Level of the software and hardware stack (XSP, section III), from the program down to the device.
    Level {
        /// Steps and user annotations.
        Application = 0 "application",
        /// A whole model, or its compiled program (an XLA module).
        Model = 1 "model",
        /// A layer of a model: a call of an `nn.Module`.
        Layer = 2 "layer",
        /// Python frames.
        Python = 3 "python",
        /// Framework operators.
        Operator = 4 "operator",
        /// Calls into libraries, including the operating system's.
        Library = 5 "library",
        /// Runtime and driver API calls.
        Runtime = 6 "runtime",
        /// Work on the accelerator.
        Kernel = 7 "kernel",
        /// Instructions of a kernel.
        Instruction = 8 "instruction",
        /// No level.
        Other = 9 "other",
    }
);

named_enum!(
    /// Form of an event's record in its source.
    Phase {
        /// One record with start and duration (`X`).
        Complete = 0 "complete",
        /// Joined from a begin and an end record (`B`/`E`).
        BeginEnd = 1 "begin_end",
        /// A point in time (`i`, `I`, `R`).
        Instant = 2 "instant",
        /// A counter record (`C`).
        Counter = 3 "counter",
        /// Joined from asynchronous begin and end (`b`/`e`, `S`/`F`).
        Async = 4 "async",
        /// An asynchronous point (`n`, `T`, `p`).
        AsyncInstant = 5 "async_instant",
        /// A sample (`P`).
        Sample = 6 "sample",
        /// Any other letter, kept as a point in time.
        Other = 7 "other",
    }
);

/// Attribute with the recorded duration in ns of a span that was cut at its caller's end ([`flags::CLAMPED`]).
pub const RECORDED_DURATION: &str = "stackline:recorded_dur_ns";

/// Attribute, `true`, of spans that are inferred from records: Python frames and steps of recordings.
pub const INFERRED: &str = "stackline:inferred";

/// Attribute of Python samples: the executed line.
pub const LINE: &str = "line";

/// Category of samples of GPU instructions: events on the stream of their kernel, with the call path of kernel and source
/// line.
pub const INSTRUCTION_SAMPLE: &str = "gpu_instruction_sample";

/// Format of traces of `stackline record`.
pub const RECORDING_FORMAT: &str = "recording";

/// Name of the metadata entry of a recording with its data on processors and overhead.
pub const RECORDING: &str = "stackline:recording";

/// Name of the metadata entry of a recording with the time ranges between recorded parts: a list of start and end, in
/// ns since the trace's base. Missing if the recording never paused.
pub const UNRECORDED: &str = "stackline:unrecorded";
/// Name of samples of a thread in the OpenMP library, where it waits for other threads (spinning or sleeping) or
/// distributes work.
pub const OPENMP: &str = "(OpenMP)";

/// Flag bits of an event.
pub mod flags {
    /// The record had a duration (or an end).
    pub const HAS_DURATION: u8 = 1;
    /// No end was recorded: the span was closed at the end of the trace.
    pub const UNFINISHED: u8 = 2;
    /// The duration was negative and is now 0, or ran past the caller's end and was cut there (then the recorded one is
    /// the attribute [`super::RECORDED_DURATION`]).
    pub const CLAMPED: u8 = 4;
    /// The times are outside of the recording (such as a GPU record at time 0, or garbled text): not used in spans and
    /// totals.
    pub const IMPLAUSIBLE: u8 = 8;
    /// The span crosses the end of its parent instead of nesting in it.
    pub const CROSSING: u8 = 16;
    /// The record had no time stamp, and is placed at time 0.
    pub const NO_TIME: u8 = 32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_discriminants_are_bijective() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_name(kind.name()), Some(*kind));
            assert_eq!(EventKind::from_u8(*kind as u8), Some(*kind));
        }
        assert_eq!(EventKind::from_u8(200), None);
    }
}
