//! Writes the original trace file with an [`Overlay`] on top, event by event in bounded memory. Bytes that the overlay
//! does not touch stay as they are.

mod event;
mod input;
mod scan;

use event::{fits, is_left_out, mark};
use input::Input;
use serde::Serialize;
use stackline_critical_path::{FlowPair, Mark, Overlay, TrackKey};
use std::io::{BufWriter, Read, Write};
use thiserror::Error;

/// Error of writing an overlay.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OverlayError {
    /// Writing failed.
    #[error("cannot write the trace file with the critical path overlaid: {0}")]
    Io(#[from] std::io::Error),
    /// The original cannot be read.
    #[error("cannot read the trace file: {0}")]
    Source(std::io::Error),
    /// There is no list of events.
    #[error(
        "the file has no list of trace events, so an overlay cannot be added. The list is a member `traceEvents`, or an \
         array as the whole file"
    )]
    NoEvents,
    /// The text is not JSON.
    #[error("the file is not valid JSON near byte {offset}: {what}; an overlay can only be added to an undamaged file")]
    Malformed {
        /// Position in the (decompressed) text.
        offset: u64,
        /// Description of the error.
        what: &'static str,
    },
    /// Events on the path are missing. The output so far is incomplete.
    #[error(
        "the file is damaged: it contains only {marked} of the {expected} events on the critical path. Repair the file \
         or export the trace again, then write the overlay"
    )]
    EventsMissing {
        /// Events found and marked.
        marked: u64,
        /// Events to mark.
        expected: u64,
    },
    /// Other events are at the positions of the path.
    #[error(
        "the critical path is from another trace: only {fitting} of its {expected} events have the same name and start \
         time in this file. Give the trace file from which the path was computed"
    )]
    OtherTrace {
        /// Events that fit.
        fitting: u64,
        /// Events to mark.
        expected: u64,
    },
}

/// Numbers of read, marked, omitted and added events of a written overlay.
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
    /// The original was truncated; its complete part has been written and closed.
    pub truncated: bool,
}

/// Copy the JSON text of a trace. Mark events on the critical path, add arrows at the end of the event list, and omit
/// events that the overlay's mode excludes.
///
/// The arguments of marked events get `"critical": 1`. A file that ends early is closed after its last whole event.
/// Events on the path that are missing, or have other names or starts at their positions, are an error.
pub fn write_overlay(original: impl Read, out: impl Write, overlay: &Overlay) -> Result<OverlaySummary, OverlayError> {
    let mut writer = Writer {
        input: Input::new(original),
        out: BufWriter::with_capacity(1 << 16, out),
        overlay,
        marks: overlay.critical.iter().peekable(),
        fitting: 0,
        summary: OverlaySummary::default(),
        written: 0,
    };
    writer.document()?;
    writer.out.flush()?;
    let (marked, fitting, expected) = (writer.summary.marked, writer.fitting, overlay.critical.len() as u64);
    if fitting < marked || (fitting == 0 && expected > 0) {
        return Err(OverlayError::OtherTrace { fitting, expected });
    }
    if marked != expected {
        return Err(OverlayError::EventsMissing { marked, expected });
    }
    Ok(writer.summary)
}

struct Writer<'a, R: Read, W: Write> {
    input: Input<R>,
    out: BufWriter<W>,
    overlay: &'a Overlay,
    marks: std::iter::Peekable<std::slice::Iter<'a, Mark>>,
    /// Marked events whose name and start are those of the path's.
    fitting: u64,
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

    /// Copy all members of the trace file's outer object, and edit the event list.
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
                Some(_) => return Err(self.input.malformed("an object key was expected")),
                None => return Err(self.input.malformed("the file is truncated")),
            }
            let key_at = text.len();
            let complete = self.input.value(&mut text)?;
            let is_events = complete && &text[key_at..] == b"\"traceEvents\"";
            if !complete || self.input.blank(&mut text)? != Some(b':') {
                return Err(self.input.malformed("a colon was expected after an object key"));
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
                return Err(self.input.malformed("the file is truncated inside a JSON value"));
            }
        }
        self.out.write_all(&text)?;
        if found { Ok(()) } else { Err(OverlayError::NoEvents) }
    }

    /// Copy and edit the event list of the trace file, from its opening to its closing bracket.
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
        if let Some(expected) = self.marks.next_if(|m| m.index == index) {
            self.fitting += u64::from(fits(element, expected));
            let marked = mark(element)
                .ok_or_else(|| self.input.malformed("an event on the critical path is not a JSON object"))?;
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
    pid: &'a TrackKey,
    tid: &'a TrackKey,
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

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_critical_path::FlowEnd;

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
        let mark = |index| Mark { index, name: "a".into(), start_ns: 0, clock_shift_ns: 0 };
        Overlay { critical: vec![mark(0), mark(2), mark(3)], flows: vec![flow], only_critical }
    }

    #[test]
    fn the_path_of_another_trace_is_refused() {
        let event = |name: &str, ts: i64| format!(r#"{{"ph":"X","name":"{name}","ts":{ts}}}"#);
        let list = |third: &str| format!("[{},{},{},{third}]", event("a", 0), event("b", 7), event("a", 0));
        assert!(write(&list(&event("a", 0)), false).is_ok());
        for other in [event("c", 0), event("a", 9_000)] {
            let refused = write(&list(&other), false);
            assert!(matches!(refused, Err(OverlayError::OtherTrace { fitting: 2, expected: 3 })), "{refused:?}");
        }
    }

    fn write(text: &str, only_critical: bool) -> Result<(serde_json::Value, OverlaySummary), OverlayError> {
        let mut out = Vec::new();
        let summary = write_overlay(text.as_bytes(), &mut out, &overlay(only_critical))?;
        Ok((serde_json::from_slice(&out).unwrap(), summary))
    }

    const EVENTS: &str = r#"[{"ph":"X","args":{}}, {"ph":"X","name":"}],{"} ,{"ph":"X","args":{"a":[1]}},{ "ph" : "X" },
        {"ph":"X","cat":"python_function"}, {"ph":"M"}]"#;

    #[test]
    fn marks_and_arrows_are_added_and_the_rest_is_unchanged() {
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
    fn only_critical_omits_complete_events() {
        let (json, summary) = write(EVENTS, true).unwrap();
        assert_eq!(json.as_array().unwrap().len(), 7);
        assert_eq!(summary.left_out, 1);
    }

    #[test]
    fn truncated_files_are_closed_and_malformed_ones_refused() {
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
}
