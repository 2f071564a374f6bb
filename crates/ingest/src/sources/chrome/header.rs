//! Reader of the metadata of a Chrome trace: members of the top-level JSON object other than the event list.

use super::builder::Builder;
use super::event::codes_of;
use super::{MAX_EXAMPLE, MAX_RECORD, ReaderState, Step};
use crate::Error;
use crate::diagnostics::{self, Code};
use crate::scan::{Cursor, Fail, RawValue};
use crate::text;
use stackline_model::{LOST_DATA, Severity, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Read members of the top-level JSON object until the event list begins or the object ends. `base` is the stream
/// offset of `bytes`; `last` is true if no text follows.
pub(super) fn members(bytes: &[u8], base: u64, last: bool, builder: &mut Builder) -> Step {
    let mut cursor = Cursor::new(bytes);
    loop {
        let _ = cursor.peek();
        let done = cursor.at;
        match member(&mut cursor, base, builder) {
            Ok(Some(place)) => return Step::Go(place, cursor.at),
            Ok(None) => {}
            Err(Fail::End) => return Step::More(done),
            Err(Fail::Bad(looked)) => {
                let at = cursor.at;
                let rest = &bytes[..bytes.len().min(at.saturating_add(MAX_RECORD))];
                let next = next_member(rest, at.max(done + 1), last);
                if !last && bytes.len() - at < if next.is_some() { MAX_EXAMPLE } else { MAX_RECORD } {
                    return Step::More(done);
                }
                if !builder.count_unused_bytes(looked.saturating_sub(done), base + at as u64) {
                    return Step::Go(ReaderState::Done, at);
                }
                let example = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 80)]).into_owned();
                diagnostics::DAMAGED_HEADER.count(&mut builder.trace.report, Some(base + at as u64), &example);
                match next {
                    Some(next) => cursor.at = next,
                    None if last => return Step::Go(ReaderState::Done, bytes.len()),
                    None => return Step::More((rest.len() - 128).max(done + 1)),
                }
            }
        }
    }
}

/// Position of the next text that looks like a member; `None` if there is none yet, or more text is needed to decide.
fn next_member(bytes: &[u8], from: usize, last: bool) -> Option<usize> {
    // A longer limit would allow hostile text to cause long scans at each quote.
    const LOOK_AHEAD: usize = 512;
    let mut at = from;
    while let Some(found) = memchr::memchr(b'"', bytes.get(at..)?) {
        let here = at + found;
        if !last && bytes.len() - here < LOOK_AHEAD {
            return None;
        }
        let ahead = &bytes[..bytes.len().min(here + LOOK_AHEAD)];
        if matches!((Cursor { bytes: ahead, at: here }).key(), Ok((_, false))) {
            return Some(here);
        }
        at = here + 1;
    }
    None
}

/// Read one member; the next state if the event list begins or the object ends, else `None`.
fn member(cursor: &mut Cursor<'_>, base: u64, builder: &mut Builder) -> Result<Option<ReaderState>, Fail> {
    // Diagnostics are counted once the member is complete: a member at the window's end is read again.
    let mut met = Vec::new();
    let mut commas = 0;
    loop {
        match cursor.peek()? {
            b',' => {
                commas += 1;
                if commas > 1 {
                    met.push(diagnostics::EXTRA_COMMA);
                }
                cursor.at += 1;
            }
            b'}' => {
                cursor.at += 1;
                return Ok(Some(ReaderState::Done));
            }
            _ => break,
        }
    }
    let (key, repaired) = cursor.key()?;
    met.extend(repaired.then_some(diagnostics::MISSING_QUOTE));
    let next = cursor.peek()?;
    let (key, marks) = text::decode(key.raw);
    met.extend(codes_of(marks));
    if key == "traceEvents" && next == b'[' {
        met.extend(builder.saw_events.then_some(diagnostics::SEVERAL_LISTS));
        cursor.at += 1;
        count(builder, met, base + cursor.at as u64, &key);
        builder.saw_events = true;
        builder.commas = 1;
        return Ok(Some(ReaderState::Events { member: true }));
    }
    let value = cursor.value()?;
    // The value must be complete, which its delimiter shows.
    cursor.peek()?;
    let at = base + cursor.at as u64;
    if key == "stackFrames" {
        count(builder, met, at, &key);
        if let RawValue::Json(raw) = value {
            stack_frames(raw, at, builder);
        }
        return Ok(None);
    }
    let json = json_text(value, &mut met);
    count(builder, met, at, &key);
    builder.store_member(key, json, at);
    Ok(None)
}

/// Count the diagnostics of a member, with its key as the example.
fn count(builder: &mut Builder, met: Vec<Code>, at: u64, key: &str) {
    for code in met {
        code.count(&mut builder.trace.report, Some(at), key);
    }
}

/// Format a header value as compact JSON text.
fn json_text(value: RawValue<'_>, met: &mut Vec<Code>) -> String {
    match value {
        RawValue::Json(raw) => {
            let (text, marks) = text::compact(raw);
            met.extend(codes_of(marks));
            if marks & text::dirt::NOT_JSON == 0 { text } else { serde_json::Value::String(text).to_string() }
        }
        RawValue::Int(value) => value.to_string(),
        RawValue::Number(raw) => String::from_utf8_lossy(raw).into_owned(),
        RawValue::Str(raw) => {
            let (text, marks) = text::decode(raw.raw);
            met.extend(codes_of(marks));
            met.extend(raw.bare_quotes.then_some(diagnostics::BARE_QUOTE));
            serde_json::Value::String(text).to_string()
        }
        RawValue::Bool(b) => b.to_string(),
        RawValue::Null => "null".to_owned(),
        RawValue::Odd(text) => {
            met.push(if text.is_empty() { diagnostics::MISSING_VALUE } else { diagnostics::ODD_VALUE });
            "null".to_owned()
        }
    }
}

/// Count data that was missing in the input from which Stackline exported this file, as the file states it.
pub(super) fn count_lost_data(trace: &mut Trace) {
    let Some(at) = trace.meta.entries.iter().position(|(key, _)| key == LOST_DATA) else { return };
    // The read report holds it from here on, and exports write it again.
    let (key, json) = trace.meta.entries.remove(at);
    let Ok(lost) = serde_json::from_str::<BTreeMap<String, u64>>(&json) else {
        diagnostics::DAMAGED_HEADER.count(&mut trace.report, None, &key);
        return;
    };
    for (code, count) in lost {
        let is_it = |known: &&Code| known.code == code && known.severity == Severity::Lost;
        match diagnostics::ALL.iter().find(is_it) {
            Some(known) => {
                let count = count.min(u64::from(u32::MAX));
                known.count_many(&mut trace.report, count, None, "the input of the export already had this problem");
            }
            None => diagnostics::DAMAGED_HEADER.count(&mut trace.report, None, &format!("{key} {code}")),
        }
    }
}

#[derive(serde::Deserialize)]
struct Frame {
    #[serde(default)]
    name: String,
    #[serde(default)]
    category: String,
    #[serde(default)]
    parent: serde_json::Value,
}

/// Read the `stackFrames` dictionary, which ends at byte `at`: frame ID to name, category, parent ID. Parents are added
/// before children.
fn stack_frames(raw: &[u8], at: u64, builder: &mut Builder) {
    let parsed = serde_json::from_slice::<BTreeMap<String, serde_json::Value>>(raw);
    let Ok(parsed) = parsed else {
        diagnostics::DAMAGED_HEADER.count(&mut builder.trace.report, Some(at), "stackFrames");
        return;
    };
    let mut frames = BTreeMap::new();
    for (id, frame) in parsed {
        match serde_json::from_value::<Frame>(frame) {
            Ok(frame) => drop(frames.insert(id, frame)),
            Err(_) => {
                diagnostics::DAMAGED_HEADER.count(&mut builder.trace.report, Some(at), &format!("stackFrames {id}"));
            }
        }
    }
    for id in frames.keys() {
        // Walk up to the first known frame, then add frames downwards; a cycle ends the walk.
        let mut chain = Vec::new();
        let mut met = BTreeSet::new();
        let mut next = Some(id.clone());
        while let Some(current) = next.take() {
            let known = builder.frame_ids.contains_key(&current) || !met.insert(current.clone());
            if let (false, Some(frame)) = (known, frames.get(&current)) {
                next = match &frame.parent {
                    serde_json::Value::String(s) => Some(s.clone()),
                    serde_json::Value::Number(n) => Some(n.to_string()),
                    _ => None,
                };
                chain.push(current);
            }
        }
        while let Some(current) = chain.pop() {
            let Some(frame) = frames.get(&current) else { continue };
            let parent = match &frame.parent {
                serde_json::Value::String(s) => builder.frame_ids.get(s).copied(),
                serde_json::Value::Number(n) => builder.frame_ids.get(&n.to_string()).copied(),
                _ => None,
            };
            let Trace { stacks, strings, .. } = &mut builder.trace;
            let texts = (strings.intern(&frame.name), strings.intern(&frame.category));
            let stack = stacks.push(parent.into(), texts, strings);
            builder.frame_ids.insert(current, stack);
        }
    }
}

/// Error for a JSON object without events, with the name of a recognized format.
pub(super) fn no_events(name: &str, trace: &Trace) -> Error {
    let has = |key: &str| trace.meta.entry(key).is_some();
    let (found, advice) = if has("nodes") && has("schema") {
        (
            "a PyTorch or Chakra execution trace",
            "give the torch.profiler trace (Kineto JSON) of the same run, which has times",
        )
    } else if has("rocprofiler-sdk-tool") {
        ("a rocprofv3 JSON file whose first key is not rocprofiler-sdk-tool", "give the original file of rocprofv3")
    } else {
        ("a JSON object without \"traceEvents\"", "give a Chrome trace or a torch.profiler trace")
    };
    Error::Unsupported { path: name.into(), found: found.to_owned(), advice: advice.to_owned() }
}

/// Error for a JSON list that contains no readable trace events.
pub(super) fn no_records(name: &str, trace: &Trace) -> Error {
    let offset = trace.report.problems.iter().flat_map(|p| p.offsets.first()).min().copied().unwrap_or(0);
    let reason = "the JSON list contains no trace event".to_owned();
    Error::Malformed { path: name.into(), reason, offset }
}
