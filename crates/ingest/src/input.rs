//! Reading of files, directories, archives and streams. The content determines the format, never the name.

use crate::content_kinds::{ContentKind, ContentKinds, Found};
use crate::runs::PendingFile;
use crate::sources::{Content, PartReaders, Reader, Source};
use crate::text::without_byte_order_mark;
use crate::unsupported::{READS, could_be_read, unsupported};
use crate::{Error, ReadOptions, databases, diagnostics, sources};
use flate2::read::MultiGzDecoder;
use stackline_model::Trace;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

/// Limit on nested containers, against zip bombs.
pub(crate) const MAX_DEPTH: usize = 4;
/// Number of bytes from which the format is detected.
pub(crate) const SNIFF: usize = 64 << 10;

pub(crate) type Stream<'a> = Box<dyn Read + Send + 'a>;

/// First words of the text that error messages show for an unknown format.
pub(crate) const UNKNOWN: &str = "the format of the input is unknown";

/// Read one file, folder of a single run, or standard input (`-`), and append its content to `found`.
pub(crate) fn read_into(path: &Path, label: &str, options: &ReadOptions, found: &mut Found) -> Result<(), Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let stream: Stream<'_> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        let file = File::open(path).map_err(io)?;
        // Opening a directory or a device may succeed where reading does not.
        if file.metadata().map_err(io)?.is_dir() {
            return read_directory(path, label, options, found);
        }
        Box::new(file)
    };
    let stream = Box::new(ProgressReader { inner: stream, options: options.clone() });
    read_stream(path, label, stream, 0, options, found)
}

/// Read a directory that as a whole is one input: a recording, or memory data (DrGPUM). Any other directory is an
/// error.
fn read_directory(path: &Path, label: &str, options: &ReadOptions, found: &mut Found) -> Result<(), Error> {
    let content = Content::Directory(path);
    match source(label, &content)?.map(|source| source.read) {
        Some(Reader::Parts(readers)) => read_parts(path, &readers, options, found),
        Some(Reader::Memory(read)) if found.requested.memory => {
            found.memory.push(read(label, content, options)?);
            Ok(())
        }
        Some(Reader::Memory(_)) => Err(ContentKind::Memory.refusal(label)),
        _ => Err(Error::NoTrace { path: path.to_owned() }),
    }
}

/// Read the requested parts of a directory with several kinds of data into `found`.
fn read_parts(path: &Path, readers: &PartReaders, options: &ReadOptions, found: &mut Found) -> Result<(), Error> {
    let ContentKinds { traces, calls, memory } = found.requested;
    match (traces, memory) {
        (true, true) => {
            let read = (readers.traces_and_memory)(path, options)?;
            found.traces.extend(read.traces.traces);
            // The read report of the traces lists unreadable streams.
            found.memory.extend(read.memory.unwrap_or_default());
        }
        (true, false) => found.traces.extend((readers.traces)(path, options)?.traces),
        (false, true) => found.memory.extend((readers.memory)(path, options)?),
        (false, false) => {}
    }
    if calls {
        found.calls.push((readers.calls)(path)?);
    }
    Ok(())
}

/// Read the requested content of a stream into `found`, with decompression and unpacking.
pub(crate) fn read_stream(
    path: &Path,
    label: &str,
    mut stream: Stream<'_>,
    depth: usize,
    options: &ReadOptions,
    found: &mut Found,
) -> Result<(), Error> {
    let mut head = Vec::new();
    let mut failure = stream.by_ref().take(SNIFF as u64).read_to_end(&mut head).err();
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    if head.is_empty()
        && let Some(source) = failure
    {
        return Err(Error::Io { path: path.to_owned(), source });
    }
    let packed = Packing::detect(&head);
    // A failure within the head must still be reported after the head.
    let broken = FailingReader(failure.take());
    let stream: Stream<'_> = Box::new(Cursor::new(head.clone()).chain(broken).chain(stream));
    if packed != Packing::None && depth >= MAX_DEPTH {
        let reason =
            format!("archives or compressed files are nested more than {MAX_DEPTH} levels deep; unpack them first");
        return Err(Error::Malformed { path: label.into(), reason, offset: 0 });
    }
    match packed {
        Packing::Gzip => {
            let stream = MultiGzDecoder::new(io::BufReader::with_capacity(256 << 10, stream));
            read_stream(path, label, Box::new(stream), depth + 1, options, found)
        }
        Packing::Zstd => {
            let stream = zstd::Decoder::new(stream).map_err(|source| Error::Io { path: path.to_owned(), source })?;
            read_stream(path, label, Box::new(stream), depth + 1, options, found)
        }
        Packing::Tar => read_tar(path, label, stream, depth, options, found),
        Packing::Zip => read_zip(path, label, stream, depth, options, found),
        Packing::None if head.starts_with(stackline_sqlite::MAGIC) => {
            let own = (depth == 0).then_some(path).filter(|path| is_file_with_head(path, &head));
            if !found.requested.traces {
                return Err(found.requested.refusal_of_trace(label, &head));
            }
            found.traces.extend(databases::read(label, own, stream, options)?);
            Ok(())
        }
        Packing::None => read_plain(path, label, &head, stream, depth > 0, options, found),
    }
}

/// Read an unpacked stream with the reader of its format; a file of a run is kept for reading with the others.
fn read_plain(
    path: &Path,
    label: &str,
    head: &[u8],
    stream: Stream<'_>,
    packed: bool,
    options: &ReadOptions,
    found: &mut Found,
) -> Result<(), Error> {
    if let Some(error) = unsupported(label, head) {
        return Err(error);
    }
    let Some(source) = source(label, &Content::Bytes { head, stream: &mut io::empty() })? else {
        if head.iter().all(u8::is_ascii_whitespace) {
            let reason = "the file is empty: the profiler wrote nothing".to_owned();
            return Err(Error::Malformed { path: label.into(), reason, offset: 0 });
        }
        let start = String::from_utf8_lossy(&head[..head.len().min(24)]).escape_debug().to_string();
        return Err(Error::Unsupported {
            path: label.into(),
            found: format!("{UNKNOWN} (it starts with \"{start}\")"),
            advice: format!("{READS}. JSON files may be compressed or archived (gzip, zstd, zip, tar)"),
        });
    };
    let run_of = (source.run_of)(label);
    let is_plain = !packed && run_of.is_some() && is_file_with_head(path, head);
    // The Chrome reader counts bytes of the file and handles the byte order mark itself.
    let bare = if source.name == "chrome" { head } else { without_byte_order_mark(head) };
    let mut stream = stream;
    stream
        .read_exact(&mut [0; 3][..head.len() - bare.len()])
        .map_err(|source| Error::Io { path: label.into(), source })?;
    let head = bare;
    let read = match source.read {
        Reader::Traces(read) => read,
        // Only folders have several parts.
        Reader::Parts(_) => return Err(Error::NoTrace { path: label.into() }),
        Reader::Calls(_) if !found.requested.calls => return Err(ContentKind::Profile.refusal(label)),
        Reader::Memory(_) if !found.requested.memory => return Err(ContentKind::Memory.refusal(label)),
        Reader::Calls(read) => {
            found.calls.push(read(label, Content::Bytes { head, stream: &mut stream }, options)?);
            return if options.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) };
        }
        Reader::Memory(read) => {
            let read = read(label, Content::Bytes { head, stream: &mut stream }, options);
            // A canceled stream looks like a truncated one.
            found.memory.push(if options.is_cancelled() { Err(Error::Cancelled) } else { read }?);
            return Ok(());
        }
    };
    if !found.requested.traces {
        return Err(found.requested.refusal_of_trace(label, head));
    }
    if run_of.is_some() {
        found.parts.push(PendingFile::new(source, path, label, stream, is_plain, options)?);
        return Ok(());
    }
    // One thread parses compressed text: unpacking has a thread of its own, and gzip is unpacked more slowly.
    let own = ReadOptions { threads: if packed { 1 } else { found.threads }, ..options.clone() };
    let traces = if packed && options.threads != 1 {
        crate::prefetch::with_prefetch(stream, |stream| read(label, Content::Bytes { head, stream }, &own))
    } else {
        read(label, Content::Bytes { head, stream: &mut stream }, &own)
    };
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    found.traces.extend(traces?);
    Ok(())
}

/// Check if a file at this path begins with these bytes. A label of bytes in memory may also be a file name.
fn is_file_with_head(path: &Path, head: &[u8]) -> bool {
    let mut own = Vec::new();
    let read = File::open(path).and_then(|file| file.take(head.len() as u64).read_to_end(&mut own));
    path.is_file() && read.is_ok() && own == head
}

/// Source that recognizes the content; `None` if there is none.
pub(crate) fn source(label: &str, content: &Content<'_>) -> Result<Option<&'static Source>, Error> {
    sources::detect(content).map_err(|reason| Error::Malformed { path: label.into(), reason, offset: 0 })
}

fn read_tar(
    path: &Path,
    label: &str,
    stream: Stream<'_>,
    depth: usize,
    options: &ReadOptions,
    found: &mut Found,
) -> Result<(), Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let mut archive = tar::Archive::new(stream);
    for entry in archive.entries().map_err(io)? {
        let Ok(entry) = entry else {
            // The archive is truncated: earlier members are kept.
            let lost = Error::Malformed { path: label.into(), reason: "the archive is truncated".into(), offset: 0 };
            found.skipped.push((label.to_owned(), lost));
            break;
        };
        let name = entry.path().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
        if entry.header().entry_type().is_file() && !is_hidden(&name) {
            // Entries borrow the archive and are not `Send`, so they are read one after another on this thread.
            let member = format!("{label}/{name}");
            read_member(path, &member, entry, depth, options, found)?;
        }
    }
    // The checksum of a compressed stream follows the archive's end.
    if let Err(error) = io::copy(&mut archive.into_inner(), &mut io::sink()) {
        if options.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let reason = format!("the archive is damaged: {error}");
        found.skipped.push((label.to_owned(), Error::Malformed { path: label.into(), reason, offset: 0 }));
    }
    require_content(label, found)
}

/// Limit on a zip archive that is read into memory, because it is not a file of its own.
const MAX_ZIP_IN_MEMORY: u64 = 1 << 30;

/// `Read` and `Seek` in one trait object.
trait ReadSeek: Read + io::Seek {}
impl<T: Read + io::Seek> ReadSeek for T {}

fn read_zip(
    path: &Path,
    label: &str,
    mut stream: Stream<'_>,
    depth: usize,
    options: &ReadOptions,
    found: &mut Found,
) -> Result<(), Error> {
    let damaged = |e: zip::result::ZipError| Error::Malformed { path: label.into(), reason: e.to_string(), offset: 0 };
    let io = |source| Error::Io { path: path.to_owned(), source };
    // The directory of a zip archive is at its end: a file is read in place, a stream must fit into memory.
    let seekable: Box<dyn ReadSeek> = match File::open(path) {
        Ok(file) if depth == 0 && file.metadata().is_ok_and(|m| m.is_file()) => Box::new(io::BufReader::new(file)),
        _ => {
            let mut bytes = Vec::new();
            stream.by_ref().take(MAX_ZIP_IN_MEMORY + 1).read_to_end(&mut bytes).map_err(io)?;
            if bytes.len() as u64 > MAX_ZIP_IN_MEMORY {
                let reason =
                    "a zip archive from a pipe or inside another archive is larger than 1 GiB; unpack it first"
                        .to_owned();
                return Err(Error::Malformed { path: label.into(), reason, offset: MAX_ZIP_IN_MEMORY });
            }
            Box::new(Cursor::new(bytes))
        }
    };
    let mut archive = zip::ZipArchive::new(seekable).map_err(damaged)?;
    for index in 0..archive.len() {
        let entry = match archive.by_index(index) {
            Ok(entry) => entry,
            Err(error) => {
                found.skipped.push((label.to_owned(), damaged(error)));
                continue;
            }
        };
        let name = entry.name().to_owned();
        if entry.is_file() && !is_hidden(&name) {
            read_member(path, &format!("{label}/{name}"), entry, depth, options, found)?;
        }
    }
    require_content(label, found)
}

/// Read a member of an archive into `found`; a member without requested content is listed as skipped.
fn read_member(
    path: &Path,
    label: &str,
    member: impl Read,
    depth: usize,
    options: &ReadOptions,
    found: &mut Found,
) -> Result<(), Error> {
    let sequential = ReadOptions { threads: 1, ..options.clone() };
    let result = crate::prefetch::with_local(member, |stream| {
        read_stream(path, label, Box::new(stream), depth + 1, &sequential, found)
    });
    match result {
        Ok(()) => Ok(()),
        Err(Error::Cancelled) => Err(Error::Cancelled),
        Err(error) => {
            found.skipped.push((label.to_owned(), error));
            Ok(())
        }
    }
}

/// Error if an archive has no requested content: that of its only skipped member, else that no trace was found.
fn require_content(label: &str, found: &mut Found) -> Result<(), Error> {
    if found.is_empty() {
        let only = if found.skipped.len() == 1 { found.skipped.pop() } else { None };
        return Err(only.map_or(Error::NoTrace { path: label.into() }, |(_, error)| error));
    }
    Ok(())
}

/// Check if the last component of a path begins with a dot, or the path with `__MACOSX`.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|file| file.starts_with('.')) || name.starts_with("__MACOSX")
}

/// Files below a directory, sorted by name, without hidden files and without the directories in `leave_out`.
pub(crate) fn files_below(directory: &Path, leave_out: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in std::fs::read_dir(&next)? {
            let path = entry?.path();
            if is_hidden(&path.to_string_lossy()) || leave_out.contains(&path) {
                continue;
            }
            // Links to directories are not followed, because they may form a cycle.
            if path.is_dir() && !path.is_symlink() {
                pending.push(path);
            } else if path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Check if the first bytes of a file may be those of a trace, a database, an archive or compressed data.
pub(crate) fn could_be_trace(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|f| f.take(512).read_to_end(&mut head));
    read.is_ok()
        && (Packing::detect(&head) != Packing::None
            || head.starts_with(stackline_sqlite::MAGIC)
            || could_be_read(&head))
}

/// Check if a file is named like a trace. Such a file is reported if it is empty or unreadable.
pub(crate) fn is_named_like_trace(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    [
        ".json",
        ".json.gz",
        ".json.zst",
        ".nsys-rep",
        ".qdrep",
        ".sqlite",
        ".rpd",
        "_results.db",
        "_trace.csv",
        ".xplane.pb",
        ".xplane.pb.gz",
        ".zip",
        ".tar",
        ".tar.gz",
        ".tgz",
    ]
    .iter()
    .any(|end| name.ends_with(end))
}

/// Check if a file is named like an archive.
pub(crate) fn is_named_like_archive(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    [".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst"].iter().any(|end| name.ends_with(end))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zstd,
    Zip,
    Tar,
}

impl Packing {
    /// Detect gzip, zstd, zip or tar by the first bytes of a stream.
    pub(crate) fn detect(head: &[u8]) -> Self {
        if head.starts_with(&[0x1f, 0x8b]) {
            Self::Gzip
        } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Self::Zstd
        } else if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
            Self::Zip
        } else if head.get(257..262) == Some(b"ustar") {
            Self::Tar
        } else {
            Self::None
        }
    }
}

/// Reader that fails once with the stored error, if any.
struct FailingReader(Option<io::Error>);

impl Read for FailingReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Reader that passes the number of bytes to the progress callback, and fails once reading is canceled.
struct ProgressReader<R> {
    inner: R,
    options: ReadOptions,
}

impl<R: Read> Read for ProgressReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.options.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        let count = self.inner.read(buffer)?;
        if let Some(progress) = &self.options.progress {
            progress(count as u64);
        }
        Ok(count)
    }
}

/// Add skipped archive members with their errors to the read report of the first trace.
pub(crate) fn note_skipped(traces: &mut [Trace], skipped: &[(String, Error)]) {
    if let Some(first) = traces.first_mut() {
        for (label, error) in skipped {
            diagnostics::SKIPPED_FILE.count(&mut first.report, None, &format!("{label}: {error}"));
        }
        first.report.sort();
    }
}
