//! Data model of Stackline: traces of events, call trees, memory traces and result tables.
//!
//! Everything that a deep-learning program does is an *event* on a *track* (a CPU thread, a GPU stream), with a kind, a
//! parent by nesting, attributes, and links. Sources build a [`Trace`], which is immutable afterwards; analyses read
//! it.
//!
//! ```
//! use stackline_model::{EventKind, Key, NewEvent, Phase, StrId, Trace, TrackKind, flags};
//! let mut trace = Trace::default();
//! let name = trace.strings.intern("aten::mm");
//! let track = trace.tracks.track(Key::Int(7), Key::Int(7), TrackKind::Thread);
//! let event = trace.events.push(NewEvent {
//!     start: 1_000, dur: 500, track, name, category: StrId::NONE, kind: EventKind::Operator,
//!     phase: Phase::Complete, flags: flags::HAS_DURATION, source_index: 0,
//! });
//! trace.attrs.push(&[], &[]);
//! trace.index_tracks();
//! assert_eq!(trace.track_events(track), [event]);
//! assert_eq!(trace.span(), Some((1_000, 1_500)));
//! ```
#![forbid(unsafe_code)]

mod attrs;
pub mod caching_allocator;
mod call_tree;
mod clock;
mod counters;
mod device_peaks;
mod devices;
mod events;
pub mod format;
mod frames;
mod fusions;
mod gpu;
pub mod gpu_calls;
mod gpu_records;
mod ids;
mod inductor;
mod kernel_launches;
pub mod kernel_names;
mod kind;
pub mod launch_times;
mod launched_work;
pub mod library_workspaces;
mod links;
mod memory;
pub mod names;
pub mod native_names;
mod parents;
mod pauses;
mod rank_name;
mod read_report;
mod repeats;
mod samples;
mod stacks;
mod step_index;
mod strings;
mod table;
mod trace;
mod tracks;
pub mod vocabulary;
pub mod waiting_calls;

pub use attrs::{AttrColumn, AttrLayout, AttrTable, AttrType, AttrValue};
pub use call_tree::{
    CallChildren, CallMetric, CallMetrics, CallNodes, CallOverhead, CallProcess, CallRole, CallSource, CallStats,
    CallStepEnds, CallThread, CallingContextTree, CallingContextTreeBuilder, MAX_SUM_OF_SQUARES, OverheadFraction,
    thread_words,
};
pub use clock::{DeviceClock, ShiftRange};
pub use counters::{CounterSeries, CounterTable};
pub use device_peaks::{DataSheet, PeakFlops};
pub use devices::{CLOCK_RATE, DEVICE_PROPERTIES, Device, MEMORY_BANDWIDTH, PEAK_FLOPS, VENDOR, Vendor};
pub use events::{EventTable, NewEvent};
pub use frames::{CONTENT, Frame, FrameKind, FrameTable};
pub use fusions::{FUSED_OPERATORS, Fusion, FusionEvidence};
pub use gpu::GpuTable;
pub use gpu_records::{GpuRecords, INCOMPLETE_GPU_TIMES, lack_times};
pub use ids::{
    AttrLayoutId, CallNodeId, CallProcessId, CallThreadId, EventId, FrameId, GpuOpId, MemoryCallId, MemoryDeviceId,
    MemoryObjectId, MemoryStackId, MemoryStreamId, ProcessId, StackId, StrId, TrackId,
};
pub use kernel_launches::KernelLaunches;
pub use kind::{
    EventKind, INFERRED, INSTRUCTION_SAMPLE, LINE, Level, OPENMP, Phase, RECORDED_DURATION, RECORDING,
    RECORDING_FORMAT, UNRECORDED, flags,
};
pub use launched_work::LaunchedWork;
pub use links::{CONTEXT_FLOW, LinkKind, LinkTable};
pub use memory::{
    AccessEvidence, AccessExtent, AccessMode, AddressMap, ByteRange, DelayedFree, MemoryAccess, MemoryAccesses,
    MemoryAllocatorSettings, MemoryBlock, MemoryBlockState, MemoryCallKind, MemoryCalls, MemoryDevice,
    MemoryKindChange, MemoryLookup, MemoryObjectKind, MemoryObjects, MemoryPhase, MemorySegment, MemorySegmentEvent,
    MemorySegmentEventKind, MemoryStacks, MemoryStream, MemoryTotals, MemoryTrace, NewCall, NewObject, OutOfMemory,
    call_flags,
};
pub use parents::ParentEvidence;
pub use pauses::Pause;
pub use rank_name::RankInName;
pub use read_report::{LOST_DATA, MAX_OFFSETS, Problem, ReadReport, Severity};
pub use samples::{Sample, SampleLocation, SampleMetric, SampleSeries, SampleTable, SampleWeights};
pub use stacks::StackTable;
pub use step_index::StepIndex;
pub use strings::StringTable;
pub use table::{Column, Table, Unit, Values};
pub use trace::{Step, Trace, TraceMeta, TraceSet};
pub use tracks::{Key, Process, Track, TrackKind, TrackTable};
