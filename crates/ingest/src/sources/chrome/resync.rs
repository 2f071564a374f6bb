//! Search for the next event record after damage in Chrome trace JSON.

use super::{ReaderState, Step};
use crate::scan::{Cursor, is_space};
use memchr::memchr2;

/// Keys at the start of records.
const FIRST_KEYS: &[&str] = &["ph", "name", "cat", "pid", "tid", "ts", "args", "id", "dur", "bp", "s"];

/// Top-level keys that may follow the event list; they distinguish its end from the end of a list in an argument.
const NEXT_KEYS: &[&str] = &[
    "traceName",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "deviceProperties",
    "schemaVersion",
    "distributedInfo",
    "trace_id",
    "record_shapes",
    "with_stack",
    "with_flops",
    "with_modules",
    "profile_memory",
    "metadata",
    "otherData",
    "stackFrames",
    "samples",
    "systemTraceEvents",
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
    "traceEvents",
];

/// Limit on the bytes that a decision examines.
const LOOK_AHEAD: usize = 256;

/// Search for the next event record, or the end of the event list, after damage. `before` is the last byte before
/// `bytes` that is not white space. The decisions do not depend on the end of `bytes` if more text follows.
pub(super) fn find_record(bytes: &[u8], member: bool, before: Option<u8>, last: bool) -> Step {
    let mut at = 0;
    while let Some(found) = memchr2(b'{', b']', &bytes[at..]) {
        let here = at + found;
        if !last && bytes.len() - here < LOOK_AHEAD {
            return continue_at(bytes, here, member, before);
        }
        let previous = previous(&bytes[..here]).or(before);
        let is_place = if bytes[here] == b'{' {
            is_record(bytes, here, previous)
        } else {
            is_list_end(bytes, here, previous, member)
        };
        if is_place {
            return Step::Go(ReaderState::Events { member }, here);
        }
        at = here + 1;
    }
    if last { Step::More(bytes.len()) } else { continue_at(bytes, bytes.len(), member, before) }
}

/// Step that continues the search at this position once more text is available.
fn continue_at(bytes: &[u8], here: usize, member: bool, before: Option<u8>) -> Step {
    match here {
        0 => Step::More(0),
        _ => Step::Go(ReaderState::Lost { member, before: previous(&bytes[..here]).or(before) }, here),
    }
}

/// Text up to the limit of a decision: a longer search would take unlimited time in hostile text.
fn bounded_text(bytes: &[u8], at: usize) -> &[u8] {
    &bytes[..bytes.len().min(at + LOOK_AHEAD)]
}

/// Last byte that is not white space.
fn previous(bytes: &[u8]) -> Option<u8> {
    bytes.iter().rev().copied().find(|&b| !is_space(b))
}

/// Check if a brace begins an event record: no colon precedes the brace, and the first key is one of a record.
fn is_record(bytes: &[u8], at: usize, previous: Option<u8>) -> bool {
    if previous == Some(b':') {
        return false;
    }
    let mut cursor = Cursor { bytes: bounded_text(bytes, at), at: at + 1 };
    matches!(cursor.key(), Ok((key, false)) if FIRST_KEYS.iter().any(|k| k.as_bytes() == key.raw))
}

/// Check if a bracket ends the event list, by the text before the bracket and the end or top-level key after it.
fn is_list_end(bytes: &[u8], at: usize, previous: Option<u8>, member: bool) -> bool {
    if !matches!(previous, Some(b'}' | b',')) {
        return false;
    }
    let mut cursor = Cursor { bytes: bounded_text(bytes, at), at: at + 1 };
    match cursor.peek() {
        // No text follows: the end of an array-form file.
        Err(_) => !member,
        Ok(b'}') if member => {
            cursor.at += 1;
            cursor.peek().is_err()
        }
        Ok(b',') if member => {
            cursor.at += 1;
            matches!(cursor.key(), Ok((key, false)) if NEXT_KEYS.iter().any(|k| k.as_bytes() == key.raw))
        }
        Ok(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Option<usize> {
        match find_record(text.as_bytes(), true, None, true) {
            Step::Go(_, at) => Some(at),
            Step::More(_) => None,
        }
    }

    #[test]
    fn finds_records_and_the_end_but_not_arguments() {
        assert_eq!(place(r#"x"}}, {"ph": "X"}"#), Some(6));
        assert_eq!(place(r#""args": {"name": 1}, { "ph": "X"}"#), Some(21));
        assert_eq!(place(r#"x"}], "other": {"a": 1}"#), None);
        assert_eq!(place(r#"x"}], "traceName": 1}"#), Some(3));
        assert_eq!(place(r#"x"}]}"#), Some(3));
    }
}
