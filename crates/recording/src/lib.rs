//! The stream that a watched process appends to its own file: what the recorder writes and the launcher reads.
//!
//! A file is a [header](HEADER) and then chunks, each written with one `write` call: a length, a CRC-32 and that many bytes
//! (both numbers of four bytes, little endian). A process that is killed leaves at most one incomplete chunk at the end. The [`Reader`]
//! skips damaged chunks, goes on at the next whole one, and says which bytes it skipped.
//!
//! A chunk is a sequence of blocks: the number of a kind of [records](Record), how many records follow and how many bytes they have
//! (varints), then the records, one behind the other, as postcard encodes their fields. A block of a kind that the reader does not
//! know is skipped and counted ([`Reader::unknown`]), so that new kinds need no new version. In files of format 1, which open as well, a
//! chunk holds records with a number each, and the first unknown one hides the rest of its chunk.
//!
//! Times of single calls are differences, which begin anew in each chunk ([`Record::Restart`]): a chunk needs none before it
//! but those that define its ids. Other records carry absolute values: the metrics of a node are written again whenever they changed, and the last ones
//! count. So a reader needs no state but the tables of ids, and a writer may drop the file and start anew at any time.
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
mod frame;
pub mod inputs;
mod reader;
mod record;
mod stats;
mod tensors;
mod v1_calls;

pub use begin::{BEGIN, Begin, boot};
pub use chunk::{ChunkWriter, HEADER, NotARecording};
pub use frame::{FrameKey, IDENTIFIER, NUMBER, OTHER_NAMES};
pub use reader::{Damage, Reader};
pub use record::{
    COUNTERS, CallDetail, Cost, Interval, LEAST_UNRECORDED_STEPS, MAX_COUNTERS, Metric, OPENMP, OPTIMIZER_STEP,
    Overhead, Process, Processors, Record, Role, Source, StepEnds, Thread,
};
pub use stats::Stats;
pub use tensors::{TensorPart, TouchKind};
