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
mod parallel;
mod record;
mod resync;
mod seal;

use super::{Content, Sniff};
use crate::diagnostics;
use crate::scan::{Cursor, Fail};
use crate::text::without_byte_order_mark;
use crate::window::{Refill, Text, Window};
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

/// Number of bytes of damaged text that are shown as its example.
const MAX_EXAMPLE: usize = 120;

/// Limit on foreign text after the document that is read, in bytes.
const MAX_TRAILING: u64 = 1 << 20;

/// Limit on the text after a damaged document, or after the point at which reading gave up, that is read in search of
/// damage of its compression, in bytes. A stream may have no end.
const MAX_AFTER_DAMAGE: u64 = 1 << 30;

/// Detect JSON: any JSON may be a Chrome trace.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    match content {
        Content::Bytes { head, .. } if is_json(head) => Sniff::Maybe,
        _ => Sniff::No,
    }
}

/// Read Chrome trace JSON into one trace.
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

/// Position of the first bracket of the document: a bracket at the start of a line, followed by a key, a record or the
/// end of the list. A log line may start with a bracket, too (`[W123 file.cpp]`).
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

/// State of the reader: its position in the structure of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaderState {
    /// Before the first bracket.
    Start,
    /// Between the members of the top-level object.
    Members,
    /// In the event list; `member` is true if the list is a member of the top-level object.
    Events { member: bool },
    /// In the event list, in search of the next record after damage; `before` is the last byte that is not white space.
    Lost { member: bool, before: Option<u8> },
    /// After the document.
    Done,
}

/// Result of a parser's pass over the available text: the next state, or the need for more text.
enum Step {
    /// Continue in this state, after this many bytes.
    Go(ReaderState, usize),
    /// This many bytes are processed; the rest needs more text.
    More(usize),
}

/// Text of a document from which other threads may already have read records.
trait TextSource: Text {
    /// Add records that were read ahead to the trace, and return the next state; `None` if there are none here.
    fn add_ready(&mut self, place: ReaderState, builder: &mut Builder) -> Option<ReaderState>;
}

impl<R: Read> TextSource for Window<R> {
    fn add_ready(&mut self, _: ReaderState, _: &mut Builder) -> Option<ReaderState> {
        None
    }
}

/// Read a trace from decompressed Chrome trace JSON.
pub(crate) fn read(name: &str, mut input: impl Read, options: &ReadOptions) -> Result<Trace, Error> {
    match parallel::Plan::for_threads(options.threads) {
        Some(plan) => parallel::read(name, &mut input, &plan, options),
        None => read_text(name, &mut Window::new(input), options),
    }
}

/// Run the parser of each state over the text, and finish the trace. The result does not depend on the positions at
/// which the text is cut into pieces.
fn read_text(name: &str, text: &mut impl TextSource, options: &ReadOptions) -> Result<Trace, Error> {
    let mut builder = Builder::new(name);
    let mut place = ReaderState::Start;
    text.refill();
    if text.bytes().starts_with(b"\xef\xbb\xbf") {
        text.consume(3);
    }
    loop {
        let (offset, last) = (text.offset(), text.is_final());
        let step = match place {
            ReaderState::Start => start(text.bytes(), name, offset, last, &mut builder)?,
            ReaderState::Members => header::members(text.bytes(), offset, last, &mut builder),
            ReaderState::Events { member } => events(text.bytes(), offset, SliceContext { last, member }, &mut builder),
            ReaderState::Lost { member, before } => resync::find_record(text.bytes(), member, before, last),
            ReaderState::Done => break,
        };
        match step {
            Step::Go(next, consumed) => {
                place = next;
                text.consume(consumed);
            }
            Step::More(consumed) => {
                text.consume(consumed);
                match text.add_ready(place, &mut builder) {
                    Some(next) => place = next,
                    None if read_more(text, place, &mut builder) => {}
                    None => break,
                }
            }
        }
    }
    // A canceled read breaks the stream, so the remaining work is skipped.
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let (counted, limit) = read_trailing(text, place, &mut builder);
    let end = text.offset() + text.bytes().len() as u64;
    if let Some(error) = text.take_failure().filter(|_| end <= limit) {
        builder.garbled = error.kind() != std::io::ErrorKind::UnexpectedEof;
        diagnostics::DAMAGED_STREAM.count(&mut builder.trace.report, Some(text.offset()), &error.to_string());
    }
    builder.trace.report.bytes = counted.min(end);
    builder.finish(name, options)
}

/// Read more text; false if the document ends here, or an element is too large.
fn read_more(text: &mut impl TextSource, place: ReaderState, builder: &mut Builder) -> bool {
    match text.refill() {
        Refill::More => true,
        // One more pass, because the text is now known to be final.
        Refill::End if !builder.final_pass => {
            builder.final_pass = true;
            true
        }
        Refill::End => {
            builder.note_end(place, text.offset());
            false
        }
        Refill::TooLarge => {
            diagnostics::TOO_LARGE_ENTRY.count(&mut builder.trace.report, Some(text.offset()), "");
            false
        }
    }
}

/// Read text after the document. Returns the offset up to which it counts as read, and the offset up to which damage of
/// its compression counts.
fn read_trailing(text: &mut impl TextSource, place: ReaderState, builder: &mut Builder) -> (u64, u64) {
    if place != ReaderState::Done && !builder.gave_up {
        return (u64::MAX, u64::MAX);
    }
    // Damage of the compression explains damaged text, and may be found only later in the stream.
    let most = if builder.trace.report.is_clean() { MAX_TRAILING } else { MAX_AFTER_DAMAGE };
    let given_up = builder.gave_up.then(|| text.offset());
    let mut limit = given_up.map(|offset| offset + most);
    loop {
        if let Some(at) = text.bytes().iter().position(|b| !b.is_ascii_whitespace()).filter(|_| limit.is_none()) {
            let offset = text.offset() + at as u64;
            diagnostics::TRAILING.count(&mut builder.trace.report, Some(offset), "");
            limit = Some(offset + most);
        }
        text.consume(text.bytes().len());
        if limit.is_some_and(|limit| text.offset() >= limit) || text.refill() != Refill::More {
            let limit = limit.unwrap_or(u64::MAX);
            return (given_up.unwrap_or(limit), limit);
        }
    }
}

/// Find the first bracket of the document, count foreign text before it, and enter its state; an error for empty or
/// other text.
fn start(bytes: &[u8], name: &str, offset: u64, last: bool, builder: &mut Builder) -> Result<Step, Error> {
    let mut cursor = Cursor::new(bytes);
    let _ = cursor.peek();
    if !last && bytes.len() - cursor.at < SNIFF {
        return Ok(Step::More(cursor.at));
    }
    // Text before a clear start of the document is foreign; without a clear start the first bracket is used.
    let head = &bytes[cursor.at..bytes.len().min(cursor.at + SNIFF)];
    if let Some(length) = document_start(head).filter(|&at| at > 0) {
        let example = String::from_utf8_lossy(&head[..length.min(MAX_EXAMPLE)]).into_owned();
        diagnostics::FOREIGN_TEXT.count(&mut builder.trace.report, Some(offset + cursor.at as u64), &example);
        cursor.at += length;
    }
    match cursor.peek() {
        Ok(b'{') => Ok(Step::Go(ReaderState::Members, cursor.at + 1)),
        Ok(b'[') => Ok(Step::Go(ReaderState::Events { member: false }, cursor.at + 1)),
        Ok(_) => {
            let reason = "the text starts with neither an object nor a list".to_owned();
            Err(Error::Malformed { path: name.into(), reason, offset: offset + cursor.at as u64 })
        }
        Err(_) => {
            let reason = "the file is empty: the profiler wrote nothing".to_owned();
            Err(Error::Malformed { path: name.into(), reason, offset: 0 })
        }
    }
}

/// Context of a slice of the event list: if text follows the slice, and the container of the list.
#[derive(Clone, Copy)]
struct SliceContext {
    /// True if no text follows the slice.
    last: bool,
    /// True if the list is a member of the top-level object.
    member: bool,
}

/// Read all complete event records in a slice of Chrome trace JSON, which starts at offset `base`.
fn events(bytes: &[u8], base: u64, tail: SliceContext, builder: &mut Builder) -> Step {
    let mut at = 0;
    loop {
        let mut cursor = Cursor { bytes, at };
        let Ok(first) = cursor.peek() else { return Step::More(cursor.at) };
        at = cursor.at;
        match first {
            b'{' => {
                // The limit makes the result independent of the slice's end.
                cursor.bytes = up_to_limit(bytes, at);
                match (EventReader { builder, base }).read(&mut cursor) {
                    Ok(()) => {
                        if builder.commas == 0 {
                            diagnostics::MISSING_COMMA.count(&mut builder.trace.report, Some(base + at as u64), "");
                        }
                        builder.commas = 0;
                        builder.commit(base + at as u64);
                        at = cursor.at;
                    }
                    Err(fail) if needs_more(fail, bytes.len() - at, tail) => return Step::More(at),
                    Err(fail) => {
                        let vain = token_end(fail, cursor.bytes).saturating_sub(at);
                        return handle_damaged(bytes, base, at, vain, tail, builder);
                    }
                }
            }
            b',' => {
                builder.commas = builder.commas.saturating_add(1);
                if builder.commas > 1 {
                    diagnostics::EXTRA_COMMA.count(&mut builder.trace.report, Some(base + at as u64), "");
                }
                at += 1;
            }
            b']' => {
                if builder.commas > 0 && builder.trace.report.records > 0 {
                    diagnostics::EXTRA_COMMA.count(&mut builder.trace.report, Some(base + at as u64), "");
                }
                return Step::Go(if tail.member { ReaderState::Members } else { ReaderState::Done }, at + 1);
            }
            _ => return not_an_event(bytes, base, at, tail, builder),
        }
    }
}

/// Text up to the limit of a record that starts at `at`.
fn up_to_limit(bytes: &[u8], at: usize) -> &[u8] {
    &bytes[..bytes.len().min(at.saturating_add(MAX_RECORD))]
}

/// Check if more text may change the failure of a token, or its example; `length` bytes are available.
fn needs_more(fail: Fail, length: usize, tail: SliceContext) -> bool {
    !tail.last && length < if fail == Fail::End { MAX_RECORD } else { MAX_EXAMPLE }
}

/// End position of the text that a failed token covered.
fn token_end(fail: Fail, bytes: &[u8]) -> usize {
    match fail {
        Fail::End => bytes.len(),
        Fail::Bad(at) => at,
    }
}

/// Count an unreadable record, or the truncation of the file if no later record follows, and return the next state.
#[cold]
fn handle_damaged(bytes: &[u8], base: u64, at: usize, vain: usize, tail: SliceContext, builder: &mut Builder) -> Step {
    let SliceContext { last, member } = tail;
    if !builder.count_unused_bytes(vain, base + at as u64) {
        return Step::Go(ReaderState::Done, at);
    }
    let found = resync::find_record(&bytes[at + 1..], member, None, last);
    if last && matches!(found, Step::More(_)) {
        diagnostics::TRUNCATED.count(&mut builder.trace.report, Some(base + at as u64), "");
        builder.truncated = true;
        return Step::Go(ReaderState::Done, bytes.len());
    }
    let example = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + MAX_EXAMPLE)]).into_owned();
    diagnostics::DAMAGED_EVENT.count(&mut builder.trace.report, Some(base + at as u64), &example);
    builder.skip_record();
    builder.commas = 1;
    Step::Go(ReaderState::Lost { member, before: None }, at + 1)
}

/// Count a value in the event list that is not an object, or foreign text, and return the next state.
#[cold]
fn not_an_event(bytes: &[u8], base: u64, at: usize, tail: SliceContext, builder: &mut Builder) -> Step {
    let member = tail.member;
    let mut cursor = Cursor { bytes: up_to_limit(bytes, at), at };
    let value = cursor.value();
    let follows = value.and_then(|_| cursor.peek());
    if let Err(fail) = follows {
        if needs_more(fail, bytes.len() - at, tail) {
            return Step::More(at);
        }
        if !builder.count_unused_bytes(token_end(fail, cursor.bytes).saturating_sub(at), base + at as u64) {
            return Step::Go(ReaderState::Done, at);
        }
    }
    match follows {
        Ok(b',' | b']') if cursor.at > at => {
            diagnostics::NOT_AN_EVENT.count(&mut builder.trace.report, Some(base + at as u64), "");
            builder.skip_record();
            builder.commas = 0;
            Step::Go(ReaderState::Events { member }, cursor.at)
        }
        _ if !tail.last && bytes.len() - at < MAX_EXAMPLE => Step::More(at),
        _ => {
            let example = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + MAX_EXAMPLE)]).into_owned();
            diagnostics::FOREIGN_TEXT.count(&mut builder.trace.report, Some(base + at as u64), &example);
            Step::Go(ReaderState::Lost { member, before: None }, at)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that is far longer than the part that is read after damage.
    struct LongText {
        left: u64,
    }

    impl Read for LongText {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
            self.left -= count as u64;
            Ok(count)
        }
    }

    /// Text that is read after a document, with the offset up to which it counts as read.
    fn read_after(prepare: impl FnOnce(&mut Builder)) -> (u64, u64) {
        let mut builder = Builder::new("t");
        prepare(&mut builder);
        let mut window = Window::new(LongText { left: 4 << 30 });
        let (counted, _) = read_trailing(&mut window, ReaderState::Done, &mut builder);
        (window.offset(), counted)
    }

    #[test]
    fn endless_text_after_damage_is_read_up_to_a_limit() {
        assert_eq!(read_after(|_| {}), (1 << 20, 1 << 20));
        let damaged = |builder: &mut Builder| diagnostics::EXTRA_COMMA.count(&mut builder.trace.report, None, "");
        assert_eq!(read_after(damaged), (1 << 30, 1 << 30));
        let gave_up = |builder: &mut Builder| {
            damaged(builder);
            builder.gave_up = true;
        };
        assert_eq!(read_after(gave_up), (1 << 30, 0));
    }
}
