//! Formats of memory traces for the registry of sources, and functions that read memory files directly.

use super::values::{Value, Values};
use super::{SUPPORTED_INPUTS, drgpum, execution_trace, json, pickle, snapshot, text, timeline, viz};
use crate::content_kinds::{ContentKinds, Found};
use crate::format_detection::{Detected, detect_format, source_of};
use crate::input::{self, SNIFF};
use crate::sources::{Content, Reader, Sniff, Source};
use crate::{Error, ReadOptions};
use stackline_model::MemoryTrace;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Limit on texts that are read as a whole, in bytes.
const MAX_TEXT: u64 = 2 << 30;

/// Format of a memory trace, detected from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A PyTorch snapshot (pickle).
    Pickle,
    /// A page of `_memory_viz`, or its list of files, with a snapshot.
    Page,
    /// A snapshot as JSON.
    Snapshot,
    /// Rows of `export_memory_timeline`.
    Timeline,
    /// A PyTorch execution trace.
    ExecutionTrace,
    /// Memory text (`docs/formats/memory-text.md`).
    Text,
    /// A DrGPUM file, which is incomplete without the others.
    Drgpum,
}

/// Detect a snapshot of PyTorch's allocator: a pickle, a `_memory_viz` page, or JSON.
pub(crate) fn sniff_snapshot(content: &Content<'_>) -> Sniff {
    sniff(content, |form| match form {
        Form::Pickle => Sniff::Yes("the file is a pickle"),
        Form::Page => Sniff::Yes("the file is a web page of _memory_viz"),
        Form::Snapshot => Sniff::Yes("the file has the key blocks, segments or device_traces"),
        _ => Sniff::No,
    })
}

/// Detect files of PyTorch's `export_memory_timeline` by their content.
pub(crate) fn sniff_timeline(content: &Content<'_>) -> Sniff {
    sniff(content, |form| if form == Form::Timeline { Sniff::Yes("the file is a list of lists") } else { Sniff::No })
}

/// Detect PyTorch execution traces by their content.
pub(crate) fn sniff_execution_trace(content: &Content<'_>) -> Sniff {
    sniff(content, |form| {
        if form == Form::ExecutionTrace { Sniff::Yes("the file has the keys nodes and schema") } else { Sniff::No }
    })
}

/// Detect memory text, or a text that begins like it.
pub(crate) fn sniff_text(content: &Content<'_>) -> Sniff {
    let Content::Bytes { head, .. } = content else { return Sniff::No };
    match form(head) {
        Some(Form::Text) if has_statements_alone(head) => {
            Sniff::Yes("the file contains only statements of memory text")
        }
        Some(Form::Text) => Sniff::Maybe,
        _ => Sniff::No,
    }
}

/// Detect a DrGPUM folder, or one of its files.
pub(crate) fn sniff_drgpum(content: &Content<'_>) -> Sniff {
    match content {
        Content::Directory(path) if drgpum::has_all_files(path) => {
            Sniff::Yes("the folder contains the files of DrGPUM")
        }
        Content::Directory(path) if drgpum::is_drgpum(path) => Sniff::Maybe,
        _ => sniff(content, |form| {
            if form == Form::Drgpum {
                Sniff::Yes("the file lists memory objects with their operations")
            } else {
                Sniff::No
            }
        }),
    }
}

/// Result of `sniff_form` for the memory format of a file; [`Sniff::No`] for folders and all other formats.
fn sniff(content: &Content<'_>, sniff_form: impl Fn(Form) -> Sniff) -> Sniff {
    let Content::Bytes { head, .. } = content else { return Sniff::No };
    form(head).map_or(Sniff::No, sniff_form)
}

/// Read a memory trace from the content of a memory file or DrGPUM folder, in any of the formats of this module.
pub(crate) fn open(label: &str, content: Content<'_>, _: &ReadOptions) -> Result<MemoryTrace, Error> {
    match content {
        Content::Directory(directory) => drgpum::read(label, directory),
        Content::Bytes { head, stream } => {
            let mut counted = CountingReader { inner: stream, read: 0 };
            let mut trace = read_plain(label, head, &mut counted)?;
            trace.report.bytes = counted.read;
            Ok(trace)
        }
        Content::Tables(_) | Content::Files(_) => Err(no_memory(label, &[])),
    }
}

/// Check if an input contains memory data: a plain or compressed memory file, an archive with memory files and no other
/// known ones, or a DrGPUM folder. Pipes are not read.
///
/// # Errors
/// If the input cannot be read.
pub fn is_memory_file(path: &Path) -> Result<bool, Error> {
    let source = source_of(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let is_memory = matches!(source, Some(Source { read: Reader::Memory(_), .. }));
    Ok(is_memory || path.is_dir() && drgpum::has_all_files(path))
}

/// Name of the format of a memory file or an archive of them, such as `snapshot`; `None` for folders, pipes and other
/// files.
#[must_use]
pub fn format_of(path: &Path) -> Option<&'static str> {
    let source = source_of(path).ok()??;
    matches!(source.read, Reader::Memory(_)).then_some(source.name)
}

/// Number of memory files in an input: those in an archive, or 1 for any other input. Files without the name of an
/// archive are not opened.
///
/// # Errors
/// If the file cannot be read.
pub fn count_memory_files(path: &Path) -> Result<usize, Error> {
    if !input::is_named_like_archive(path) {
        return Ok(1);
    }
    match detect_format(path).map_err(|source| Error::Io { path: path.to_owned(), source })? {
        Detected::Memory(_, count) => Ok(count),
        Detected::Source(_) | Detected::Other | Detected::Unknown => Ok(1),
    }
}

/// Memory files of a directory, each with its path below the directory; empty if there are also traces or profiles.
/// Files of unknown formats, such as settings, are skipped.
///
/// # Errors
/// If the directory cannot be read.
pub fn files_of_memory(directory: &Path) -> Result<Vec<(PathBuf, String)>, Error> {
    let files =
        input::files_below(directory, &[]).map_err(|source| Error::Io { path: directory.to_owned(), source })?;
    let mut memory = Vec::new();
    for path in files {
        let name = path.strip_prefix(directory).unwrap_or(&path).to_string_lossy().into_owned();
        match detect_format(&path) {
            Ok(Detected::Memory(..) | Detected::Source(Source { read: Reader::Memory(_), .. })) => {
                memory.push((path, name));
            }
            Ok(Detected::Unknown) => {}
            Ok(Detected::Source(source)) if source.name == "chrome" && is_without_events(&path) => {}
            _ => return Ok(Vec::new()),
        }
    }
    memory.sort();
    Ok(memory)
}

/// Check if a JSON file is a short object without an event list, such as settings or a summary.
fn is_without_events(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SNIFF as u64).read_to_end(&mut head));
    let has_events = memchr::memmem::find(&head, b"\"traceEvents\"").is_some();
    read.is_ok() && head.len() < SNIFF && head.trim_ascii_start().starts_with(b"{") && !has_events
}

/// Read the memory trace of a plain or compressed file or of a DrGPUM folder. `-` is standard input.
///
/// # Errors
/// If the file cannot be read, has another format, contains several memory traces, or is damaged beyond use.
pub fn read_path(path: &Path) -> Result<MemoryTrace, Error> {
    let label = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy()).into_owned();
    let mut found = Found::new(ContentKinds::MEMORY);
    input::read_into(path, &label, &ReadOptions::default(), &mut found)
        .map_err(|error| as_memory_error(error.located(&label, path)))?;
    one_trace(path, found.memory)
}

/// Read a memory trace from bytes in memory. `label` is the name that users see.
///
/// # Errors
/// Same as [`read_path`].
pub fn read_bytes(label: &str, bytes: &[u8]) -> Result<MemoryTrace, Error> {
    let mut found = Found::new(ContentKinds::MEMORY);
    input::read_stream(Path::new(label), label, Box::new(bytes), 0, &ReadOptions::default(), &mut found)
        .map_err(as_memory_error)?;
    one_trace(Path::new(label), found.memory)
}

/// Take the only memory trace of an input.
///
/// # Errors
/// If there is none, or several.
pub fn one_trace(path: &Path, mut traces: Vec<MemoryTrace>) -> Result<MemoryTrace, Error> {
    match (traces.pop(), traces.len()) {
        (Some(trace), 0) => Ok(trace),
        (Some(_), others) => Err(several_memory_traces(path, others + 1)),
        (None, _) => Err(as_memory_error(Error::NoTrace { path: path.to_owned() })),
    }
}

/// Error for an input of several memory traces where one is needed.
#[must_use]
pub fn several_memory_traces(path: &Path, count: usize) -> Error {
    unsupported(
        path,
        &format!("the input contains {count} memory traces"),
        "give only one memory trace (if the input is an archive, unpack it first), or compare all with \
         `stackline memory`",
    )
}

/// Adapt an error for a caller that requested memory: the advice for an unknown format lists memory formats.
#[must_use]
pub fn as_memory_error(error: Error) -> Error {
    let advice = SUPPORTED_INPUTS.to_owned();
    match error {
        Error::Unsupported { path, found, .. } if found.starts_with(input::UNKNOWN) => {
            let found = found.replacen(input::UNKNOWN, "the input is not a memory trace", 1);
            Error::Unsupported { path, found, advice }
        }
        Error::NoTrace { path } => {
            Error::Unsupported { path, found: "the input contains no memory trace".to_owned(), advice }
        }
        other => other,
    }
}

/// Error for an input whose format has no memory data.
pub(crate) fn no_memory(label: &str, head: &[u8]) -> Error {
    let start = String::from_utf8_lossy(&head[..head.len().min(24)]).escape_debug().to_string();
    unsupported(
        Path::new(label),
        &format!("the input is not a memory trace (it starts with \"{start}\")"),
        SUPPORTED_INPUTS,
    )
}

/// Reader that counts the bytes that it passes on.
struct CountingReader<'a> {
    inner: &'a mut dyn Read,
    read: u64,
}

impl Read for CountingReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.read += count as u64;
        Ok(count)
    }
}

/// Read an uncompressed memory file in the format that its first bytes (`head`) show.
fn read_plain(label: &str, head: &[u8], stream: &mut dyn Read) -> Result<MemoryTrace, Error> {
    let path = Path::new(label);
    match form(head).ok_or_else(|| no_memory(label, head))? {
        Form::Pickle => {
            let read = pickle::read(stream, pickle::Limits::default());
            let (values, root) = read.map_err(|error| malformed(path, &error.reason, error.offset))?;
            read_values(path, label, values, root)
        }
        Form::Page => {
            let text = whole_text(path, stream)?;
            let bytes = viz::pickle_in(&text).ok_or_else(|| {
                unsupported(path, "the web page contains no memory snapshot", "give the snapshot file itself")
            })?;
            let read = pickle::read(&bytes[..], pickle::Limits::default());
            let (values, root) = read.map_err(|e| {
                malformed(path, &format!("the pickle in the web page is invalid: {}", e.reason), e.offset)
            })?;
            read_values(path, label, values, root)
        }
        Form::Snapshot | Form::Timeline | Form::ExecutionTrace => {
            let (values, root) = json::read(stream, pickle::Limits::default())
                .map_err(|error| malformed(path, &error.to_string(), 0))?;
            read_values(path, label, values, root)
        }
        Form::Text => {
            let text = whole_text(path, stream)?;
            text::read(label, &text).map_err(|error| {
                unsupported(
                    path,
                    &format!("the memory text is invalid: {error}"),
                    "see docs/formats/memory-text.md for all statements",
                )
            })
        }
        Form::Drgpum => Err(drgpum::incomplete_folder_error(path)),
    }
}

/// Convert a parsed pickle or JSON document to a memory trace, as snapshot, timeline or execution trace.
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
    if timeline::is_sums_document(&values, root) {
        let found = "the file contains only memory totals per category, without individual tensors, as \
                     export_memory_timeline writes to a .json file";
        return Err(unsupported(
            path,
            found,
            "call export_memory_timeline with a name that ends in .raw.json.gz and give that file",
        ));
    }
    let advice =
        "give the file of `torch.cuda.memory._dump_snapshot()` or `pickle.dump(torch.cuda.memory._snapshot(), file)`";
    Err(unsupported(path, "the input is not a memory snapshot (it lacks the keys segments and device_traces)", advice))
}

/// Read a stream to its end as UTF-8 text of at most 2 GiB.
fn whole_text(path: &Path, stream: &mut dyn Read) -> Result<String, Error> {
    let mut bytes = Vec::new();
    stream.take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    if bytes.len() as u64 > MAX_TEXT {
        return Err(malformed(path, "the text is larger than the limit of 2 GiB", MAX_TEXT));
    }
    String::from_utf8(bytes)
        .map_err(|error| malformed(path, "the text is not valid UTF-8", error.utf8_error().valid_up_to() as u64))
}

/// Memory format of a file by its first bytes; `None` for traces, profiles and all other files.
fn form(head: &[u8]) -> Option<Form> {
    if let [0x80, ..] = head {
        return Some(Form::Pickle);
    }
    // Pickles of protocol 0 and 1 begin with a dict or list and its number. Their reader gives advice.
    if head.starts_with(b"(dp")
        || head.starts_with(b"(lp")
        || head.starts_with(b"}q\x00")
        || head.starts_with(b"]q\x00")
    {
        return Some(Form::Pickle);
    }
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let holds = |words: &[&str]| words.iter().any(|word| text.contains(word));
    // Names in traces and profiles may contain any of the words that are searched below.
    if holds(&OTHER_FORMATS) {
        return None;
    }
    let has_key = |key: &str| text.split(key).skip(1).any(|rest| rest.trim_start().starts_with(':'));
    match text.as_bytes().first()? {
        b'<' if holds(&["MemoryViz", "\"base64\""]) => Some(Form::Page),
        b'[' if holds(&["\"base64\""]) => Some(Form::Page),
        b'[' if text[1..].trim_start().starts_with('[') => Some(Form::Timeline),
        b'[' if drgpum::is_liveness(text) => Some(Form::Drgpum),
        b'[' | b'{' if ["\"blocks\"", "\"segments\"", "\"device_traces\""].into_iter().any(has_key) => {
            Some(Form::Snapshot)
        }
        b'{' if has_key("\"nodes\"") && has_key("\"schema\"") => Some(Form::ExecutionTrace),
        _ if is_memory_text(text) => Some(Form::Text),
        _ => None,
    }
}

/// Keys of traces and profiles that are also JSON.
const OTHER_FORMATS: [&str; 5] =
    ["\"traceEvents\"", "\"ph\"", "\"$schema\"", "\"preprocessedProfileVersion\"", "\"rocprofiler-sdk-tool\""];

/// Check if the first line is memory text: it begins with an object, a kernel or a device, or consists of statements.
fn is_memory_text(text: &str) -> bool {
    let line = first_line(text);
    let mut words = line.split([' ', ';']);
    let is_begin = matches!(words.next(), Some("a" | "o" | "k" | "device")) && words.next().is_some();
    // `f;g 10` is a collapsed stack with its samples.
    is_begin || !line.is_empty() && line.split(';').map(str::trim).all(|one| one.is_empty() || is_statement(one))
}

/// First line of a memory text that is neither empty nor a comment, without its comment.
fn first_line(text: &str) -> &str {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.into_iter().find(|line| !line.is_empty()).unwrap_or_default()
}

/// Check if all complete lines of a text are statements of memory text.
fn has_statements_alone(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let whole = if head.len() < SNIFF { &text[..] } else { text.rsplit_once('\n').map_or("", |(whole, _)| whole) };
    let lines = whole.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.flat_map(|line| line.split(';')).map(str::trim).all(|one| one.is_empty() || is_statement(one))
}

/// Check if a statement has a keyword of memory text followed by its required parts.
fn is_statement(statement: &str) -> bool {
    let mut words = statement.split_whitespace();
    let (first, rest) = (words.next().unwrap_or_default(), words.next());
    match first {
        "f" | "y" => true,
        "end" => rest.is_none(),
        // A name and a size, two parts, or lists.
        "a" | "o" => rest.is_some() && words.next().is_some(),
        "c" => rest.is_some_and(|list| list.contains('>') || words.next().is_some()),
        "k" | "s" | "h" | "d" | "e" | "w" | "device" => rest.is_some(),
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
    use super::form;

    #[test]
    fn a_text_may_begin_with_any_statement() {
        for text in
            ["f\n", "e ev\n", "y; a x 10; f x\n", "s > \n", "w e\n", "end\n", "# what\n\nf; end # over\n", "h x\n"]
        {
            assert!(form(text.as_bytes()).is_some(), "{text:?}");
        }
        for other in ["f;g 10\n", "y;main;step 3\n", "end of file\n", "e\n", "hello", "", "#\n", "find x\n"] {
            assert!(form(other.as_bytes()).is_none(), "{other:?}");
        }
    }
}
