//! Stream format: the file that a recorded process appends to, written by the recorder and read by the launcher.
//!
//! A file is a [header](HEADER) followed by chunks, each written with one `write` call: a length, a CRC-32 and that
//! many bytes (both numbers of four bytes, little endian). A process that is killed leaves at most one incomplete
//! chunk at the end. The [`Reader`] skips damaged chunks, continues at the next intact one, and reports the skipped
//! bytes.
//!
//! A chunk is a sequence of blocks: the number of a kind of [records](Record), the number of records and of their
//! bytes (varints), then the records, with their fields as postcard encodes them. Blocks of an unknown kind are
//! skipped and counted ([`Reader::unknown`]), so that new kinds need no new version. In files of format 1, which are
//! readable, too, a chunk contains records with one number each, and the first unknown one hides the rest of its
//! chunk.
//!
//! Records belong to threads, or to accelerators and their queues: a [`Launch`] of a thread and an [`Activity`] of a
//! queue have the same correlation id. Older readers skip records of accelerators and count them. No recorder writes
//! them yet.
//!
//! Times of individual calls are differences, which restart in each chunk ([`Record::Restart`]): a chunk depends only
//! on earlier chunks that define its ids. Other records have absolute values: changed metrics of a node are written
//! again, and the last values count. A reader therefore needs no state except the tables of ids, and a writer may
//! rewrite the file at any time.
//!
//! ```
//! use stackline_recording::{ChunkWriter, Reader, Record};
//!
//! let mut chunk = ChunkWriter::new();
//! chunk.push(&Record::Text { id: 0, text: "aten::add".into() }).unwrap();
//! let mut file = stackline_recording::HEADER.to_vec();
//! file.extend_from_slice(chunk.finish());
//! let mut reader = Reader::new(&file).unwrap();
//! assert_eq!(reader.next(), Some(Record::Text { id: 0, text: "aten::add".into() }));
//! assert_eq!(reader.next(), None);
//! assert!(reader.damage().is_none());
//! ```

#![forbid(unsafe_code)]

mod begin;
mod block;
mod chunk;
mod compiled;
mod devices;
mod frame;
pub mod inputs;
mod reader;
mod record;
mod stats;
mod tensors;
mod v1_calls;

pub use begin::{BEGIN, Begin, boot};
pub use chunk::{ChunkWriter, HEADER, NotARecording};
pub use compiled::{CompiledOperation, CompiledProgram};
pub use devices::{
    Activity, ClockReading, CopyDirection, Device, DeviceKind, Interface, Launch, MemoryKind, OperationClock,
    PeakRates, Queue, Work,
};
pub use frame::{FrameKey, IDENTIFIER, NUMBER, OTHER_NAMES};
pub use reader::{Damage, Reader};
pub use record::{
    COUNTERS, CallDetail, Cost, Interval, LEAST_UNRECORDED_STEPS, MAX_COUNTERS, Metric, OPENMP, OPTIMIZER_STEP,
    Overhead, Process, Processors, Record, Role, Source, StepEnds, Thread,
};
pub use stats::Stats;
pub use tensors::{TensorPart, TouchKind};
