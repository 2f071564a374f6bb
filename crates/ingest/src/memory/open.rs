//! Files to memory traces: unpacks, finds the format by content, reads.

use super::values::{Value, Values};
use super::{drgpum, execution_trace, json, pickle, snapshot, text, timeline, viz};
use crate::Error;
use crate::input::Packing;
use flate2::read::MultiGzDecoder;
use stackline_model::MemoryTrace;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

const SNIFF: usize = 64 << 10;
/// Packed within packed deeper than this is refused.
const MAX_DEPTH: usize = 4;
/// Texts that are read as a whole may be this large.
const MAX_TEXT: u64 = 2 << 30;

type Stream<'a> = Box<dyn Read + 'a>;

/// A format of memory traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pickle,
    /// A page of `_memory_viz`, or the list of files in one.
    Page,
    /// Any JSON that is of memory.
    Json,
    /// Our own text form.
    Text,
    /// One file of DrGPUM's, which says nothing without the others.
    Drgpum,
}

/// Whether these first bytes (up to 64 KiB, unpacked) begin a file that [`read_bytes`] reads.
pub fn is_memory(head: &[u8]) -> bool {
    format_of(head).is_some()
}

/// Whether a file, unpacked, begins like one that [`read_path`] reads, or a directory holds DrGPUM's files.
///
/// # Errors
/// If it cannot be read.
pub fn is_memory_file(path: &Path) -> Result<bool, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(io)?.is_dir() {
        return Ok(drgpum::is_drgpum(path));
    }
    let mut stream: Stream<'_> = Box::new(File::open(path).map_err(io)?);
    for _ in 0..MAX_DEPTH {
        let mut head = Vec::new();
        // What is damaged further on is said by whoever reads it.
        let _ = stream.by_ref().take(SNIFF as u64).read_to_end(&mut head);
        let packing = Packing::of(&head);
        let whole = Cursor::new(head.clone()).chain(stream);
        stream = match packing {
            Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::new(whole))),
            Packing::Zstd => Box::new(zstd::Decoder::new(whole).map_err(io)?),
            _ => return Ok(is_memory(&head)),
        };
    }
    Ok(false)
}

/// Reads the memory trace in a file, packed with gzip or zstd or not, or in a directory of DrGPUM's files. `-` is standard
/// input.
///
/// # Errors
/// If the file cannot be read, is of another format, or is damaged beyond use.
pub fn read_path(path: &Path) -> Result<MemoryTrace, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let label = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
    if path.is_dir() {
        let none = || unsupported(path, "a directory without memory traces", "give a file");
        return if drgpum::is_drgpum(path) { drgpum::read(&label, path) } else { Err(none()) };
    }
    let stream: Stream<'_> =
        if path == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(File::open(path).map_err(io)?) };
    read_stream(path, &label, stream, 0)
}

/// Reads a memory trace from bytes in memory. `label` is what people know it by.
///
/// # Errors
/// As [`read_path`].
pub fn read_bytes(label: &str, bytes: &[u8]) -> Result<MemoryTrace, Error> {
    read_stream(Path::new(label), label, Box::new(bytes), 0)
}

fn read_stream(path: &Path, label: &str, mut stream: Stream<'_>, depth: usize) -> Result<MemoryTrace, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let mut head = Vec::new();
    stream.by_ref().take(SNIFF as u64).read_to_end(&mut head).map_err(io)?;
    let packing = Packing::of(&head);
    let whole: Stream<'_> = Box::new(Cursor::new(head.clone()).chain(stream));
    if packing != Packing::None && depth >= MAX_DEPTH {
        return Err(malformed(path, "packed too many times", 0));
    }
    match packing {
        Packing::Gzip => {
            let unpacked = MultiGzDecoder::new(BufReader::with_capacity(256 << 10, whole));
            read_stream(path, label, Box::new(unpacked), depth + 1)
        }
        Packing::Zstd => read_stream(path, label, Box::new(zstd::Decoder::new(whole).map_err(io)?), depth + 1),
        Packing::Tar | Packing::Zip => Err(unsupported(path, "an archive", "unpack it, and give the file within")),
        Packing::None => {
            let read = Rc::new(Cell::new(0));
            let mut trace = read_plain(path, label, &head, Box::new(Counted { inner: whole, read: Rc::clone(&read) }))?;
            trace.report.bytes = read.get();
            Ok(trace)
        }
    }
}

/// Counts what is read, unpacked.
struct Counted<'a> {
    inner: Stream<'a>,
    read: Rc<Cell<u64>>,
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

fn read_plain(path: &Path, label: &str, head: &[u8], mut stream: Stream<'_>) -> Result<MemoryTrace, Error> {
    let Some(format) = format_of(head) else {
        let start = String::from_utf8_lossy(&head[..head.len().min(24)]).escape_debug().to_string();
        let advice = crate::memory::WHAT_IS_READ;
        return Err(unsupported(path, &format!("no memory trace (starts with \"{start}\")"), advice));
    };
    match format {
        Format::Pickle => {
            let read = pickle::read(&mut stream, pickle::Limits::default());
            let (values, root) = read.map_err(|error| malformed(path, &error.reason, error.offset))?;
            read_values(path, label, values, root)
        }
        Format::Page => {
            let text = whole_text(path, stream)?;
            let bytes = viz::pickle_in(&text)
                .ok_or_else(|| unsupported(path, "a web page without a memory snapshot", "give the snapshot itself"))?;
            let read = pickle::read(&bytes[..], pickle::Limits::default());
            let (values, root) = read.map_err(|e| malformed(path, &format!("its pickle: {}", e.reason), e.offset))?;
            read_values(path, label, values, root)
        }
        Format::Json => {
            let (values, root) = json::read(stream, pickle::Limits::default())
                .map_err(|error| malformed(path, &error.to_string(), 0))?;
            read_values(path, label, values, root)
        }
        Format::Text => {
            let text = whole_text(path, stream)?;
            text::read(label, &text).map_err(|error| {
                unsupported(path, &format!("text of memory, {error}"), "docs/formats/memory-text.md has all statements")
            })
        }
        Format::Drgpum => Err(drgpum::alone(path)),
    }
}

fn read_values(path: &Path, label: &str, values: Values, root: Value) -> Result<MemoryTrace, Error> {
    if snapshot::is_snapshot(&values, root) {
        return Ok(snapshot::read(label, values, root));
    }
    if timeline::is_timeline(&values, root) {
        return Ok(timeline::read(label, &values, root));
    }
    if execution_trace::is_execution_trace(&values, root) {
        return Ok(execution_trace::read(label, &values, root));
    }
    if timeline::is_sums(&values, root) {
        let found = "the sums by category that export_memory_timeline writes into a .json, which tell of no object";
        return Err(unsupported(path, found, "give it a name that ends in .raw.json.gz, and this command that file"));
    }
    let advice =
        "give what `torch.cuda.memory._dump_snapshot()` writes, or `pickle.dump(torch.cuda.memory._snapshot(), file)`";
    Err(unsupported(path, "plain data, but no memory snapshot (neither segments nor device_traces)", advice))
}

fn whole_text(path: &Path, stream: Stream<'_>) -> Result<String, Error> {
    let mut bytes = Vec::new();
    stream.take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    if bytes.len() as u64 > MAX_TEXT {
        return Err(malformed(path, "a text of more than 2 GiB", MAX_TEXT));
    }
    String::from_utf8(bytes)
        .map_err(|error| malformed(path, "text that is not UTF-8", error.utf8_error().valid_up_to() as u64))
}

fn format_of(head: &[u8]) -> Option<Format> {
    if let [0x80, ..] = head {
        return Some(Format::Pickle);
    }
    // Pickles of protocol 0 and 1, for the reader to say what to do: a dict or a list, then its number.
    if head.starts_with(b"(dp")
        || head.starts_with(b"(lp")
        || head.starts_with(b"}q\x00")
        || head.starts_with(b"]q\x00")
    {
        return Some(Format::Pickle);
    }
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let holds = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match text.as_bytes().first()? {
        b'<' if holds(&["MemoryViz", "\"base64\""]) => Some(Format::Page),
        b'[' if holds(&["\"base64\""]) => Some(Format::Page),
        b'[' if text[1..].trim_start().starts_with('[') => Some(Format::Json),
        b'[' if drgpum::is_liveness(text) => Some(Format::Drgpum),
        b'[' | b'{' if holds(&["\"blocks\"", "\"segments\"", "\"device_traces\""]) => Some(Format::Json),
        b'{' if holds(&["\"nodes\""]) && holds(&["\"schema\""]) => Some(Format::Json),
        _ if is_own_text(text) => Some(Format::Text),
        _ => None,
    }
}

/// Whether the first line is of our text form: begins with an object, a kernel or a device, or has nothing but its statements.
fn is_own_text(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let line = lines.into_iter().find(|line| !line.is_empty()).unwrap_or_default();
    let mut words = line.split([' ', ';']);
    let is_begin = matches!(words.next(), Some("a" | "o" | "k" | "device")) && words.next().is_some();
    // `f;g 10` is a stack with its samples, as others write them.
    is_begin || !line.is_empty() && line.split(';').map(str::trim).all(|one| one.is_empty() || is_statement(one))
}

/// Whether a statement has a word of the text form, and what must stand behind it.
fn is_statement(statement: &str) -> bool {
    let mut words = statement.split_whitespace();
    let (first, rest) = (words.next().unwrap_or_default(), words.next());
    match first {
        "f" | "y" => true,
        "end" => rest.is_none(),
        "a" | "o" | "k" | "s" | "h" | "d" | "c" | "e" | "w" | "device" => rest.is_some(),
        _ => false,
    }
}

fn malformed(path: &Path, reason: &str, offset: u64) -> Error {
    Error::Malformed { path: path.to_owned(), reason: reason.to_owned(), offset }
}

fn unsupported(path: &Path, found: &str, advice: &str) -> Error {
    Error::Unsupported { path: path.to_owned(), found: found.to_owned(), advice: advice.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::is_memory;

    #[test]
    fn a_text_may_begin_with_any_statement() {
        for text in
            ["f\n", "e ev\n", "y; a x 10; f x\n", "s > \n", "w e\n", "end\n", "# what\n\nf; end # over\n", "h x\n"]
        {
            assert!(is_memory(text.as_bytes()), "{text:?}");
        }
        for other in ["f;g 10\n", "y;main;step 3\n", "end of file\n", "e\n", "hello", "", "#\n", "find x\n"] {
            assert!(!is_memory(other.as_bytes()), "{other:?}");
        }
    }
}
