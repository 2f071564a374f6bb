//! The stream that a watched process appends to its own file: what the recorder writes and the launcher reads.
//!
//! A file is a [header](HEADER) and then chunks. A chunk is a length, a CRC-32 and that many bytes of [records](Record),
//! written with one `write` call. A process that is killed leaves at most one incomplete chunk at the end. The [`Reader`]
//! skips damaged chunks, goes on at the next whole one, and says which bytes it skipped.
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

mod chunk;
pub mod inputs;
mod reader;
mod record;
mod stats;
mod tensors;

pub use chunk::{ChunkWriter, HEADER, NotARecording};
pub use reader::{Damage, Reader};
pub use record::{
    COUNTERS, Cost, FrameKey, IDENTIFIER, Interval, MAX_COUNTERS, Metric, NUMBER, OPENMP, OPTIMIZER_STEP, OTHER_NAMES,
    Overhead, Process, Processors, Record, Role, Source, Thread,
};
pub use stats::Stats;
pub use tensors::{TensorPart, TouchKind};
