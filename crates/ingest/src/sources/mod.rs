//! Registry of formats: one file or folder and one line in [`ALL`] for each.

pub(crate) mod chrome;
pub(crate) mod device_rows;
pub(crate) mod nsys;
mod processes;
mod profiles;
pub(crate) mod ranges;
mod recording;
pub(crate) mod rocprofv3;
mod row;
mod rpd;
mod streamed_json;
mod tables;
mod xplane;
pub(crate) mod xprof;

use crate::memory::formats as memory;
use crate::recording::TracesAndMemory;
use crate::text::without_byte_order_mark;
use crate::{Error, ReadOptions};
use profiles::{collapsed, firefox, pprof, speedscope};
use stackline_model::{CallingContextTree, MemoryTrace, Trace, TraceSet};
use stackline_sqlite::Database;
use std::io::Read;
use std::path::Path;

/// Decompressed content of an input, for the detection and the reader of a format.
pub enum Content<'a> {
    /// Bytes, read once from their beginning.
    Bytes {
        /// The first bytes, at most 64 KiB.
        head: &'a [u8],
        /// All bytes.
        stream: &'a mut dyn Read,
    },
    /// Tables, read in any order.
    Tables(&'a Database),
    /// The files of one run, for formats that write several.
    Files(Vec<File<'a>>),
    /// A folder that is one input.
    Directory(&'a Path),
}

/// One of the files of a run, with its decompressed content.
pub struct File<'a> {
    /// Name of the file, with the run's name at its start.
    pub name: String,
    /// Decompressed content.
    pub stream: Box<dyn Read + 'a>,
}

/// Result of a format's detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sniff {
    /// The input has another format.
    No,
    /// The input may have the format, without a clear sign. A [`Sniff::Yes`] of another format takes precedence.
    Maybe,
    /// The input has the format, with the sign that was found.
    Yes(&'static str),
}

/// Entry of the format registry: a format that can be read, with its detection and reader.
#[derive(Clone, Copy)]
pub struct Source {
    /// Stable name; its documentation is `docs/formats/<name>.md`.
    pub name: &'static str,
    /// Detection of this format.
    pub sniff: fn(&Content<'_>) -> Sniff,
    /// Reader for an input with a label.
    pub read: Reader,
    /// Run of a file by its name, if the file is read together with others ([`Content::Files`]).
    pub run_of: fn(&str) -> Option<&str>,
}

/// Reader function of a format, by the kind of data that it returns.
#[derive(Clone, Copy)]
pub enum Reader {
    /// Traces, one for each relevant process.
    Traces(fn(&str, Content<'_>, &ReadOptions) -> Result<Vec<Trace>, Error>),
    /// Sums per call path: a calling context tree.
    Calls(fn(&str, Content<'_>, &ReadOptions) -> Result<CallingContextTree, Error>),
    /// Memory objects and their uses.
    Memory(fn(&str, Content<'_>, &ReadOptions) -> Result<MemoryTrace, Error>),
    /// Several kinds of data, each read on request, of an input that is a folder.
    Parts(PartReaders),
}
use Reader::{Calls, Memory, Parts, Traces};

/// Readers of a folder with several kinds of data, such as a recording.
#[derive(Clone, Copy)]
pub struct PartReaders {
    /// Traces, one for each rank.
    pub traces: fn(&Path, &ReadOptions) -> Result<TraceSet, Error>,
    /// Sums per call path: a calling context tree.
    pub calls: fn(&Path) -> Result<CallingContextTree, Error>,
    /// Memory traces, one for each process.
    pub memory: fn(&Path, &ReadOptions) -> Result<Vec<MemoryTrace>, Error>,
    /// Both from one decoding, for callers that need both.
    pub traces_and_memory: fn(&Path, &ReadOptions) -> Result<TracesAndMemory, Error>,
}

/// All formats.
pub const ALL: &[Source] = &[
    Source { name: "chrome", sniff: chrome::sniff, read: Traces(chrome::open), run_of: none },
    Source { name: "collapsed", sniff: collapsed::sniff, read: Calls(collapsed::open), run_of: none },
    Source { name: "drgpum", sniff: memory::sniff_drgpum, read: Memory(memory::open), run_of: none },
    Source { name: "execution-trace", sniff: memory::sniff_execution_trace, read: Memory(memory::open), run_of: none },
    Source { name: "firefox", sniff: firefox::sniff, read: Calls(firefox::open), run_of: none },
    Source { name: "memory-text", sniff: memory::sniff_text, read: Memory(memory::open), run_of: none },
    Source { name: "memory-timeline", sniff: memory::sniff_timeline, read: Memory(memory::open), run_of: none },
    Source { name: "nsys", sniff: nsys::sniff, read: Traces(nsys::open), run_of: none },
    Source { name: "pprof", sniff: pprof::sniff, read: Calls(pprof::open), run_of: none },
    Source { name: "recording", sniff: recording::sniff, read: Parts(recording::READERS), run_of: none },
    Source { name: "rocprofv3", sniff: rocprofv3::sniff, read: Traces(rocprofv3::open), run_of: rocprofv3::run_of },
    Source { name: "rpd", sniff: rpd::sniff, read: Traces(rpd::open), run_of: none },
    Source { name: "snapshot", sniff: memory::sniff_snapshot, read: Memory(memory::open), run_of: none },
    Source { name: "speedscope", sniff: speedscope::sniff, read: Calls(speedscope::open), run_of: none },
    Source { name: "xplane", sniff: xplane::sniff, read: Traces(xplane::open), run_of: none },
];

/// Run of a file for formats whose files are read separately: none.
fn none(_: &str) -> Option<&str> {
    None
}

/// Detect the format of an input by its content; `None` if no format matches.
///
/// # Errors
/// If several formats match with certainty: a sentence that names them.
pub fn detect(content: &Content<'_>) -> Result<Option<&'static Source>, String> {
    match content {
        Content::Bytes { head, .. } => {
            most_certain(ALL, &Content::Bytes { head: without_byte_order_mark(head), stream: &mut std::io::empty() })
        }
        other => most_certain(ALL, other),
    }
}

/// Check if a folder as a whole is the input of a format, such as a recording or DrGPUM's files.
pub(crate) fn is_one_input(folder: &Path) -> bool {
    ALL.iter().any(|source| matches!((source.sniff)(&Content::Directory(folder)), Sniff::Yes(_)))
}

/// Readers of the parts of a folder with several kinds of data, by the detection of all formats; `None` for any other
/// input.
pub fn part_readers(path: &Path) -> Option<&'static PartReaders> {
    match detect(&Content::Directory(path)) {
        Ok(Some(Source { read: Parts(readers), .. })) => Some(readers),
        _ => None,
    }
}

/// Format that matches with certainty, else the first that may match; an error if several match with certainty.
fn most_certain<'s>(sources: &'s [Source], content: &Content<'_>) -> Result<Option<&'s Source>, String> {
    let answers = sources.iter().map(|source| (source, (source.sniff)(content)));
    let (mut sure, mut maybe) = (Vec::new(), None);
    for (source, answer) in answers {
        match answer {
            Sniff::Yes(reason) => sure.push((source, reason)),
            Sniff::Maybe => maybe = maybe.or(Some(source)),
            Sniff::No => {}
        }
    }
    match sure[..] {
        [] => Ok(maybe),
        [(source, _)] => Ok(Some(source)),
        _ => {
            let each = sure.iter().map(|(source, reason)| format!("{} ({reason})", source.name));
            Err(format!("the input matches several formats: {}", each.collect::<Vec<_>>().join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &'static str, sniff: fn(&Content<'_>) -> Sniff) -> Source {
        Source { name, sniff, read: Traces(|_, _, _| Ok(Vec::new())), run_of: none }
    }

    #[test]
    fn most_certain_format_is_chosen() {
        let [no, maybe, also] =
            [named("no", |_| Sniff::No), named("maybe", |_| Sniff::Maybe), named("also", |_| Sniff::Maybe)];
        let [yes, other] =
            [named("yes", |_| Sniff::Yes("it has a key")), named("other", |_| Sniff::Yes("it has a table"))];
        let name = |sources: &[Source]| {
            let content = Content::Bytes { head: b"", stream: &mut std::io::empty() };
            most_certain(sources, &content).map(|found| found.map(|source| source.name))
        };
        assert_eq!(name(&[no]), Ok(None));
        assert_eq!(name(&[no, maybe, also]), Ok(Some("maybe")));
        assert_eq!(name(&[maybe, yes, also]), Ok(Some("yes")));
        assert_eq!(
            name(&[yes, maybe, other]),
            Err("the input matches several formats: yes (it has a key), other (it has a table)".to_owned())
        );
    }
}
