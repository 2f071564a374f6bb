//! Writes the original trace file with an [`Overlay`] on top, event by event in bounded memory. Bytes that the overlay
//! does not touch stay as they are.

use super::scan::{blank, find, members};
use super::{FlowPair, Overlay};
use serde::Serialize;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use thiserror::Error;

/// Why an overlay cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OverlayError {
    /// Reading or writing failed.
    #[error("cannot write the overlay: {0}")]
    Io(#[from] std::io::Error),
    /// There is no list of events.
    #[error("the file has no list of trace events (`traceEvents` or an array) to lay the critical path over")]
    NoEvents,
    /// The text is not JSON.
    #[error("the file is not well-formed JSON near byte {offset}: {what}; an overlay needs a sound file")]
    Malformed {
        /// Position in the (decompressed) text.
        offset: u64,
        /// What was found.
        what: &'static str,
    },
    /// Events on the path were not met. What has been written so far is of no use.
    #[error(
        "only {marked} of {expected} events on the critical path were found in the file: it is damaged; repair it (or \
         export the trace anew) before drawing an overlay"
    )]
    EventsMissing {
        /// Events found and marked.
        marked: u64,
        /// Events to mark.
        expected: u64,
    },
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverlaySummary {
    /// Events of the original met.
    pub events: u64,
    /// Events marked as critical.
    pub marked: u64,
    /// Events left out.
    pub left_out: u64,
    /// Arrow events added, two per arrow.
    pub flow_events: u64,
    /// Whether the original ended early; what was complete has been written and closed.
    pub truncated: bool,
}

/// Copies the (decompressed) JSON text of a trace, marks the events on the path with `"critical": 1` among their
/// arguments, adds the arrows at the end of the event list, and leaves out what the overlay's mode leaves out. A file that
/// ends early is closed after its last whole event; it is an error if events on the path are not among those before.
pub fn write_overlay(original: impl Read, out: impl Write, overlay: &Overlay) -> Result<OverlaySummary, OverlayError> {
    let mut writer = Writer {
        input: Input { reader: BufReader::with_capacity(1 << 16, original), offset: 0 },
        out: BufWriter::with_capacity(1 << 16, out),
        overlay,
        critical: overlay.critical.iter().copied().peekable(),
        summary: OverlaySummary::default(),
        written: 0,
    };
    writer.document()?;
    writer.out.flush()?;
    let (marked, expected) = (writer.summary.marked, overlay.critical.len() as u64);
    if marked != expected {
        return Err(OverlayError::EventsMissing { marked, expected });
    }
    Ok(writer.summary)
}

struct Input<R> {
    reader: BufReader<R>,
    offset: u64,
}

impl<R: Read> Input<R> {
    fn peek(&mut self) -> Result<Option<u8>, OverlayError> {
        Ok(self.reader.fill_buf()?.first().copied())
    }

    fn next(&mut self) -> Result<Option<u8>, OverlayError> {
        let byte = self.peek()?;
        if byte.is_some() {
            self.reader.consume(1);
            self.offset += 1;
        }
        Ok(byte)
    }

    fn malformed(&self, what: &'static str) -> OverlayError {
        OverlayError::Malformed { offset: self.offset, what }
    }

    /// Appends white space to `text` and gives the byte after it, not consumed.
    fn blank(&mut self, text: &mut Vec<u8>) -> Result<Option<u8>, OverlayError> {
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            text.push(byte);
            self.next()?;
        }
        Ok(None)
    }

    /// Appends one whole JSON value to `text`; `false` if the input ends before it does.
    fn value(&mut self, text: &mut Vec<u8>) -> Result<bool, OverlayError> {
        let mut state = ValueState::default();
        let from = text.len();
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(false);
            }
            let end = buffer.iter().position(|&byte| state.ends_before(byte));
            let taken = end.unwrap_or(buffer.len());
            text.extend_from_slice(&buffer[..taken]);
            self.reader.consume(taken);
            self.offset += taken as u64;
            if end.is_some() {
                return if text.len() > from { Ok(true) } else { Err(self.malformed("a value is missing")) };
            }
        }
    }
}

/// Where in a JSON value the reading stands.
#[derive(Default)]
struct ValueState {
    depth: usize,
    in_string: bool,
    escaped: bool,
    done: bool,
}

impl ValueState {
    /// Takes the next byte; `true` if the value was complete before it.
    fn ends_before(&mut self, byte: u8) -> bool {
        if self.done {
            return true;
        }
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.done = !self.in_string && self.depth == 0;
            self.escaped = !self.escaped && byte == b'\\';
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' | b',' if self.depth == 0 => return true,
            b'}' | b']' => {
                self.depth -= 1;
                self.done = self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

struct Writer<'a, R: Read, W: Write> {
    input: Input<R>,
    out: BufWriter<W>,
    overlay: &'a Overlay,
    critical: std::iter::Peekable<std::iter::Copied<std::slice::Iter<'a, u32>>>,
    summary: OverlaySummary,
    /// Elements written to the event list.
    written: u64,
}

impl<R: Read, W: Write> Writer<'_, R, W> {
    fn document(&mut self) -> Result<(), OverlayError> {
        let mut text = Vec::new();
        if self.input.peek()? == Some(0xEF) {
            for _ in 0..3 {
                self.input.next()?;
            }
        }
        match self.input.blank(&mut text)? {
            Some(b'[') => {
                self.out.write_all(&text)?;
                self.events()?;
            }
            Some(b'{') => {
                self.out.write_all(&text)?;
                self.object()?;
            }
            _ => return Err(OverlayError::NoEvents),
        }
        text.clear();
        self.input.blank(&mut text)?;
        self.out.write_all(&text)?;
        Ok(())
    }

    /// The file's outer object: copies all members, edits the event list.
    fn object(&mut self) -> Result<(), OverlayError> {
        let mut found = false;
        let mut text = Vec::new();
        self.input.next()?;
        text.push(b'{');
        loop {
            match self.input.blank(&mut text)? {
                Some(b'}') => {
                    self.input.next()?;
                    text.push(b'}');
                    break;
                }
                Some(b',') => {
                    self.input.next()?;
                    text.push(b',');
                    continue;
                }
                Some(b'"') => {}
                None if self.summary.truncated => {
                    text.push(b'}');
                    break;
                }
                Some(_) => return Err(self.input.malformed("a key was expected")),
                None => return Err(self.input.malformed("the file ends too early")),
            }
            let key_at = text.len();
            let complete = self.input.value(&mut text)?;
            let is_events = complete && &text[key_at..] == b"\"traceEvents\"";
            if !complete || self.input.blank(&mut text)? != Some(b':') {
                return Err(self.input.malformed("a colon was expected"));
            }
            self.input.next()?;
            text.push(b':');
            let value = self.input.blank(&mut text)?;
            if is_events && !found && value == Some(b'[') {
                found = true;
                self.out.write_all(&text)?;
                text.clear();
                self.events()?;
            } else if !self.input.value(&mut text)? {
                return Err(self.input.malformed("the file ends inside a value"));
            }
        }
        self.out.write_all(&text)?;
        if found { Ok(()) } else { Err(OverlayError::NoEvents) }
    }

    /// The event list, from its opening to its closing bracket.
    fn events(&mut self) -> Result<(), OverlayError> {
        self.input.next()?;
        self.out.write_all(b"[")?;
        let mut element = Vec::new();
        for index in 0u32.. {
            let mut space = Vec::new();
            while self.input.blank(&mut space)? == Some(b',') {
                self.input.next()?;
            }
            if self.input.peek()? == Some(b']') {
                self.input.next()?;
                break;
            }
            element.clear();
            if self.input.peek()?.is_none() || !self.input.value(&mut element)? {
                self.summary.truncated = true;
                break;
            }
            self.event(index, &element)?;
        }
        for flow in &self.overlay.flows {
            self.flow(flow)?;
        }
        self.out.write_all(b"\n]")?;
        Ok(())
    }

    fn event(&mut self, index: u32, element: &[u8]) -> Result<(), OverlayError> {
        self.summary.events += 1;
        let critical = self.critical.next_if_eq(&index).is_some();
        if critical {
            let marked = mark(element).ok_or_else(|| self.input.malformed("an event on the path is not an object"))?;
            self.summary.marked += 1;
            return self.element(&marked);
        }
        if self.overlay.only_critical && is_left_out(element) {
            self.summary.left_out += 1;
            return Ok(());
        }
        self.element(element)
    }

    fn element(&mut self, text: &[u8]) -> Result<(), OverlayError> {
        self.out.write_all(if self.written == 0 { b"\n" } else { b",\n" })?;
        self.out.write_all(text)?;
        self.written += 1;
        Ok(())
    }

    fn flow(&mut self, flow: &FlowPair) -> Result<(), OverlayError> {
        for (ph, end) in [("s", &flow.from), ("f", &flow.to)] {
            let event = FlowEvent {
                ph,
                id: flow.id,
                pid: &end.pid,
                tid: &end.tid,
                ts: end.ts_us,
                cat: "critical_path",
                name: "critical_path",
                args: FlowArgs { weight: flow.weight_us, critical: flow.critical, kind: flow.kind },
                bp: (ph == "f").then_some("e"),
            };
            let text = serde_json::to_vec(&event).map_err(std::io::Error::from)?;
            self.element(&text)?;
            self.summary.flow_events += 1;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct FlowEvent<'a> {
    ph: &'a str,
    id: u64,
    pid: &'a super::TrackKey,
    tid: &'a super::TrackKey,
    ts: i64,
    cat: &'a str,
    name: &'a str,
    args: FlowArgs<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'a str>,
}

#[derive(Serialize)]
struct FlowArgs<'a> {
    weight: i64,
    critical: bool,
    #[serde(rename = "type")]
    kind: &'a str,
}

/// The event with `"critical": 1` among its arguments.
fn mark(event: &[u8]) -> Option<Vec<u8>> {
    let outer = members(event)?;
    let (at, text): (std::ops::Range<usize>, &[u8]) = match find(event, &outer, "args") {
        Some(args) if event[args.start] == b'{' => {
            let inner = members(&event[args.clone()])?;
            match find(&event[args.clone()], &inner, "critical") {
                Some(value) => (args.start + value.start..args.start + value.end, b"1"),
                None if inner.is_empty() => (args.start + 1..args.start + 1, b"\"critical\": 1"),
                None => (args.start + 1..args.start + 1, b"\"critical\": 1, "),
            }
        }
        Some(args) => (args, b"{\"critical\": 1}"),
        None => {
            let open = blank(event, 0) + 1;
            let text: &[u8] =
                if outer.is_empty() { b"\"args\": {\"critical\": 1}" } else { b"\"args\": {\"critical\": 1}, " };
            (open..open, text)
        }
    };
    Some([&event[..at.start], text, &event[at.end..]].concat())
}

/// Whether an event that is not on the path goes: complete events do, except annotations and Python frames.
fn is_left_out(event: &[u8]) -> bool {
    let Some(found) = members(event) else { return false };
    let is = |key: &str, value: &[u8]| find(event, &found, key).is_some_and(|range| &event[range] == value);
    is("ph", b"\"X\"") && !is("cat", b"\"user_annotation\"") && !is("cat", b"\"python_function\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::critical_path::{FlowEnd, TrackKey};

    fn overlay(only_critical: bool) -> Overlay {
        let end = |ts_us| FlowEnd { pid: TrackKey::Number(1), tid: TrackKey::Text("a \"b\"".into()), ts_us };
        let flow = FlowPair {
            id: 0,
            from: end(1),
            to: end(2),
            weight_us: 3,
            critical: true,
            kind: "critical_path_dependency",
        };
        Overlay { critical: vec![0, 2, 3], flows: vec![flow], only_critical }
    }

    fn write(text: &str, only_critical: bool) -> Result<(serde_json::Value, OverlaySummary), OverlayError> {
        let mut out = Vec::new();
        let summary = write_overlay(text.as_bytes(), &mut out, &overlay(only_critical))?;
        Ok((serde_json::from_slice(&out).unwrap(), summary))
    }

    const EVENTS: &str = r#"[{"ph":"X","args":{}}, {"ph":"X","name":"}],{"} ,{"ph":"X","args":{"a":[1]}},{ "ph" : "X" },
        {"ph":"X","cat":"python_function"}, {"ph":"M"}]"#;

    #[test]
    fn marks_and_arrows_go_in_and_the_rest_stays() {
        let text =
            format!(r#"{{"other": {{"traceEvents": [1]}}, "traceEvents": {EVENTS}, "after": 18446744073709551615}}"#);
        let (json, summary) = write(&text, false).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 8);
        for (i, event) in events.iter().enumerate() {
            let critical = event["args"]["critical"].clone();
            assert_eq!(critical == 1, [0, 2, 3].contains(&i), "{event}");
        }
        assert_eq!(events[2]["args"]["a"][0], 1);
        assert_eq!((events[6]["ph"].as_str(), events[7]["bp"].as_str()), (Some("s"), Some("e")));
        assert_eq!(events[7]["tid"], "a \"b\"");
        assert_eq!(json["after"], 18446744073709551615u64);
        let expected = OverlaySummary { events: 6, marked: 3, left_out: 0, flow_events: 2, truncated: false };
        assert_eq!(summary, expected);
    }

    #[test]
    fn only_critical_leaves_complete_events_out() {
        let (json, summary) = write(EVENTS, true).unwrap();
        assert_eq!(json.as_array().unwrap().len(), 7);
        assert_eq!(summary.left_out, 1);
    }

    #[test]
    fn a_truncated_file_is_closed_and_a_broken_one_refused() {
        let cut = EVENTS.split_at(EVENTS.find("python").unwrap()).0;
        let (json, summary) = write(&format!("{{\"traceEvents\": {cut}"), false).unwrap();
        assert!(summary.truncated);
        assert_eq!((summary.marked, json["traceEvents"].as_array().unwrap().len()), (3, 6));
        let lost = write(r#"{"traceEvents": [{"ph":"X","args":{"b":1}}, {"ph":"X","na"#, false);
        assert!(matches!(lost, Err(OverlayError::EventsMissing { marked: 1, expected: 3 })), "{lost:?}");
        assert!(matches!(write("{\"a\": 1}", false), Err(OverlayError::NoEvents)));
        assert!(matches!(write("7", false), Err(OverlayError::NoEvents)));
        assert!(matches!(write("{\"a\" 1}", false), Err(OverlayError::Malformed { .. })));
        assert!(matches!(write("{\"a\": [1", false), Err(OverlayError::Malformed { .. })));
    }

    #[test]
    fn an_older_mark_is_replaced() {
        let marked = mark(br#"{"args": {"critical": 0, "b": 2}}"#).unwrap();
        assert_eq!(marked, br#"{"args": {"critical": 1, "b": 2}}"#);
    }
}
