//! Reader of the Chrome trace format: all generations of Kineto (torch.profiler) and all other writers.
//!
//! The object form (`{"traceEvents": [...], ...}`) and the array form are read in one pass over a sliding window, so
//! memory holds the model and one window, not the text. An unreadable record is counted, and reading continues at the
//! next one.

mod builder;
mod categories;
mod empty_record;
mod event;
mod flows;
mod header;
mod record;
mod resync;
mod seal;

use super::{Content, Sniff};
use crate::diagnostics;
use crate::scan::{Cursor, Fail};
use crate::text::without_byte_order_mark;
use crate::window::{Refill, Window};
use crate::{Error, ReadOptions};
use builder::Builder;
use event::EventReader;
use stackline_model::Trace;
use std::io::Read;

pub(crate) use categories::{API_FLOWS, BACKWARD_FLOWS, LAUNCH_FLOWS};
pub(crate) use flows::{FlowPoint, link as link_flows};

/// Number of bytes in which the start of the document is searched.
const SNIFF: usize = 64 << 10;

/// Limit on the length of a record in bytes; longer ones are damaged.
const MAX_RECORD: usize = 16 << 20;

/// Detect JSON: any JSON may be a Chrome trace.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    match content {
        Content::Bytes { head, .. } if is_json(head) => Sniff::Maybe,
        _ => Sniff::No,
    }
}

/// Read the Chrome trace JSON of an input.
pub(crate) fn open(name: &str, content: Content<'_>, options: &ReadOptions) -> Result<Vec<Trace>, Error> {
    match content {
        Content::Bytes { stream, .. } => read(name, stream, options).map(|trace| vec![trace]),
        Content::Tables(_) | Content::Files(_) | Content::Directory(_) => Ok(Vec::new()),
    }
}

/// Check if the first bytes look like JSON, possibly after log lines.
fn is_json(first: &[u8]) -> bool {
    let text = without_byte_order_mark(first);
    let starts = matches!(text.iter().find(|b| !b.is_ascii_whitespace()), Some(b'{' | b'['));
    starts || document_start(text).is_some_and(|at| memchr::memmem::find(&text[at..], b"\"ph\"").is_some())
}

/// Start of the document: a bracket at the start of a line, followed by a key, a record or the end of the list. A log
/// line may start with a bracket, too (`[W123 file.cpp]`).
fn document_start(text: &[u8]) -> Option<usize> {
    let mut line = 0;
    loop {
        let mut cursor = Cursor { bytes: text, at: line };
        let found = cursor.peek().ok()?;
        let bracket = cursor.at;
        cursor.at += 1;
        let fits = match found {
            b'{' => matches!(cursor.peek(), Ok(b'"' | b'}' | b',')),
            b'[' => matches!(cursor.peek(), Ok(b'{' | b']' | b',')),
            _ => false,
        };
        if fits {
            return Some(bracket);
        }
        line = bracket + memchr::memchr(b'\n', &text[bracket..])? + 1;
    }
}

/// State of the reader within the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first bracket.
    Start,
    /// Between the members of the top-level object.
    Members,
    /// In the event list; `member` is true if the list is a member of the top-level object.
    Events { member: bool },
    /// In the event list, in search of the next record after damage.
    Lost { member: bool },
    /// After the document.
    Done,
}

/// Result of one pass over the window.
enum Step {
    /// Continue in this state, after this many bytes.
    Go(Place, usize),
    /// This many bytes are processed; the rest needs more text.
    More(usize),
}

/// Read a trace from decompressed Chrome trace JSON.
pub(crate) fn read(name: &str, input: impl Read, options: &ReadOptions) -> Result<Trace, Error> {
    let mut window = Window::new(input);
    let mut builder = Builder::new(name);
    let mut place = Place::Start;
    window.refill();
    if window.bytes().strip_prefix(b"\xef\xbb\xbf").is_some() {
        window.consume(3);
    }
    loop {
        let (offset, last) = (window.offset(), window.is_final());
        let step = match place {
            Place::Start => start(window.bytes(), name, offset, last, &mut builder)?,
            Place::Members => header::members(window.bytes(), offset, last, &mut builder),
            Place::Events { member } => events(window.bytes(), offset, last, member, &mut builder),
            Place::Lost { member } => resync::find_record(window.bytes(), member, last),
            Place::Done => break,
        };
        match step {
            Step::Go(next, consumed) => {
                place = next;
                window.consume(consumed);
            }
            Step::More(consumed) => {
                window.consume(consumed);
                if !more(&mut window, place, &mut builder) {
                    break;
                }
            }
        }
    }
    // A cancelled read breaks the stream, so the remaining work is skipped.
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    trailing(&mut window, place, &mut builder);
    if let Some(error) = window.failure.take() {
        builder.garbled = error.kind() != std::io::ErrorKind::UnexpectedEof;
        diagnostics::DAMAGED_STREAM.count(&mut builder.trace.report, Some(window.offset()), &error.to_string());
    }
    builder.trace.report.bytes = window.offset() + window.bytes().len() as u64;
    builder.finish(name, options)
}

/// Read more text; false if the document ends here.
fn more<R: Read>(window: &mut Window<R>, place: Place, builder: &mut Builder) -> bool {
    match window.refill() {
        Refill::More => true,
        // One more pass, because the text is now known to be final.
        Refill::End if !builder.final_pass => {
            builder.final_pass = true;
            true
        }
        Refill::End => {
            builder.note_end(place, window.offset());
            false
        }
        Refill::TooLarge => {
            diagnostics::TOO_LARGE_ENTRY.count(&mut builder.trace.report, Some(window.offset()), "");
            false
        }
    }
}

fn trailing<R: Read>(window: &mut Window<R>, place: Place, builder: &mut Builder) {
    if place != Place::Done || builder.gave_up {
        return;
    }
    // The list may have ended in garbage: only the end of the stream then shows that its compression is damaged.
    let is_doubtful = !builder.trace.report.is_clean();
    let mut found = false;
    loop {
        if let Some(at) = window.bytes().iter().position(|b| !b.is_ascii_whitespace()).filter(|_| !found) {
            let offset = window.offset() + at as u64;
            diagnostics::TRAILING.count(&mut builder.trace.report, Some(offset), "");
            found = true;
        }
        window.consume(window.bytes().len());
        if window.refill() != Refill::More {
            return;
        }
        if found && !is_doubtful {
            return;
        }
    }
}

fn start(bytes: &[u8], name: &str, offset: u64, last: bool, builder: &mut Builder) -> Result<Step, Error> {
    let mut cursor = Cursor::new(bytes);
    let _ = cursor.peek();
    // Text before a clear start of the document is foreign; without a clear start the first bracket is used.
    if let Some(at) = document_start(&bytes[..bytes.len().min(SNIFF)])
        && at > cursor.at
    {
        let example = String::from_utf8_lossy(&bytes[cursor.at..at.min(cursor.at + 120)]).into_owned();
        diagnostics::FOREIGN_TEXT.count(&mut builder.trace.report, Some(offset + cursor.at as u64), &example);
        cursor.at = at;
    }
    match cursor.peek() {
        Ok(b'{') => Ok(Step::Go(Place::Members, cursor.at + 1)),
        Ok(b'[') => Ok(Step::Go(Place::Events { member: false }, cursor.at + 1)),
        Ok(_) => {
            let reason = "the text starts with neither an object nor a list".to_owned();
            Err(Error::Malformed { path: name.into(), reason, offset: offset + cursor.at as u64 })
        }
        Err(_) if !last => Ok(Step::More(cursor.at)),
        Err(_) => {
            let reason = "the file is empty: the profiler wrote nothing".to_owned();
            Err(Error::Malformed { path: name.into(), reason, offset })
        }
    }
}

/// Read all complete event records in the window of Chrome trace JSON.
fn events(bytes: &[u8], base: u64, last: bool, member: bool, builder: &mut Builder) -> Step {
    let mut cursor = Cursor::new(bytes);
    loop {
        let done = match cursor.peek() {
            Ok(_) => cursor.at,
            Err(_) => return Step::More(cursor.at),
        };
        match bytes[done] {
            b'{' => match (EventReader { builder, base }).read(&mut cursor) {
                Ok(()) => {
                    if builder.commas == 0 {
                        diagnostics::MISSING_COMMA.count(&mut builder.trace.report, Some(base + done as u64), "");
                    }
                    builder.commas = 0;
                    builder.commit(base + done as u64);
                }
                Err(Fail::End) if !last && bytes.len() - done <= MAX_RECORD => return Step::More(done),
                Err(fail) => {
                    return damaged(
                        bytes,
                        base,
                        done,
                        token_end(fail, bytes).saturating_sub(done),
                        Tail { last, member },
                        builder,
                    );
                }
            },
            b',' => {
                builder.commas = builder.commas.saturating_add(1);
                if builder.commas > 1 {
                    diagnostics::EXTRA_COMMA.count(&mut builder.trace.report, Some(base + done as u64), "");
                }
                cursor.at += 1;
            }
            b']' => {
                if builder.commas > 0 && builder.trace.report.records > 0 {
                    diagnostics::EXTRA_COMMA.count(&mut builder.trace.report, Some(base + done as u64), "");
                }
                return Step::Go(if member { Place::Members } else { Place::Done }, done + 1);
            }
            _ => return not_an_event(&mut cursor, base, done, Tail { last, member }, builder),
        }
        if cursor.at == done {
            cursor.at += 1;
        }
    }
}

/// Position of the window in the text.
#[derive(Clone, Copy)]
struct Tail {
    /// True if no text follows the window.
    last: bool,
    /// True if the list is a member of the top-level object.
    member: bool,
}

/// End of the text that a failed token covered.
fn token_end(fail: Fail, bytes: &[u8]) -> usize {
    match fail {
        Fail::End => bytes.len(),
        Fail::Bad(at) => at,
    }
}

/// Handle an unreadable record, or the last one of a truncated file.
#[cold]
fn damaged(bytes: &[u8], base: u64, at: usize, vain: usize, tail: Tail, builder: &mut Builder) -> Step {
    let Tail { last, member } = tail;
    if !builder.count_unused_bytes(vain, base + at as u64) {
        return Step::Go(Place::Done, bytes.len());
    }
    let found = resync::find_record(&bytes[at + 1..], member, last);
    if last && matches!(found, Step::More(_)) {
        diagnostics::TRUNCATED.count(&mut builder.trace.report, Some(base + at as u64), "");
        builder.truncated = true;
        return Step::Go(Place::Done, bytes.len());
    }
    let example = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 120)]).into_owned();
    diagnostics::DAMAGED_EVENT.count(&mut builder.trace.report, Some(base + at as u64), &example);
    builder.skip_record();
    builder.commas = 1;
    Step::Go(Place::Lost { member }, at + 1)
}

#[cold]
fn not_an_event(cursor: &mut Cursor<'_>, base: u64, at: usize, tail: Tail, builder: &mut Builder) -> Step {
    let Tail { last, member } = tail;
    let value = cursor.value();
    let follows = value.and_then(|_| cursor.peek());
    if let Err(fail) = follows {
        if fail == Fail::End && !last && cursor.bytes.len() - at <= MAX_RECORD {
            return Step::More(at);
        }
        if !builder.count_unused_bytes(token_end(fail, cursor.bytes).saturating_sub(at), base + at as u64) {
            return Step::Go(Place::Done, cursor.bytes.len());
        }
    }
    match follows {
        Ok(b',' | b']') if cursor.at > at => {
            diagnostics::NOT_AN_EVENT.count(&mut builder.trace.report, Some(base + at as u64), "");
            builder.skip_record();
            builder.commas = 0;
            Step::Go(Place::Events { member }, cursor.at)
        }
        _ => {
            let end = cursor.bytes.len().min(at + 120);
            let example = String::from_utf8_lossy(&cursor.bytes[at..end]).into_owned();
            diagnostics::FOREIGN_TEXT.count(&mut builder.trace.report, Some(base + at as u64), &example);
            Step::Go(Place::Lost { member }, at)
        }
    }
}
