//! Scanner for byte ranges of values in well-formed JSON text, without building a tree.
//!
//! The replicator and the damage generators change single values in place and copy all other bytes, so they need byte
//! ranges instead of values. The scanner requires valid JSON (its inputs are undamaged traces) and returns `None`
//! otherwise. The parser for real traces is in `stackline-ingest`.

use std::ops::Range;

/// Position of the first byte at or after `at` that is not white space.
#[must_use]
pub(crate) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// End (one past the closing quote) of the string that opens at `at`.
#[must_use]
pub fn string_end(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// End (one past the last byte) of the JSON value of any type that begins at `at`.
#[must_use]
pub fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match *text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' => container_end(text, at),
        _ => {
            let len = text[at..].iter().position(|b| matches!(b, b',' | b']' | b'}') || b.is_ascii_whitespace());
            let end = len.map_or(text.len(), |n| at + n);
            (end > at).then_some(end)
        }
    }
}

/// End of the JSON object or array that begins at `at`.
fn container_end(text: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = at;
    loop {
        match *text.get(at)? {
            b'"' => {
                at = string_end(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Byte ranges of one member of a JSON object: the key with its quotes, and the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The key, quotes included.
    pub key: Range<usize>,
    /// The value without surrounding white space.
    pub value: Range<usize>,
}

impl Member {
    /// Text of a JSON key between its quotes.
    #[must_use]
    pub fn name<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.key.start + 1..self.key.end - 1]
    }
}

/// Members of the JSON object that opens at `at`, and its end.
#[must_use]
pub fn members(text: &[u8], at: usize) -> Option<(Vec<Member>, usize)> {
    let mut found = Vec::new();
    let end = each_member(text, at, |member| found.push(member))?;
    Some((found, end))
}

/// Call `visit` with each member of the object that opens at `at`; returns the end of the object.
pub(crate) fn each_member(text: &[u8], at: usize, mut visit: impl FnMut(Member)) -> Option<usize> {
    if text.get(at) != Some(&b'{') {
        return None;
    }
    let mut at = skip_space(text, at + 1);
    while *text.get(at)? != b'}' {
        let key = at..string_end(text, at)?;
        at = skip_space(text, key.end);
        if text.get(at) != Some(&b':') {
            return None;
        }
        let start = skip_space(text, at + 1);
        let value = start..value_end(text, start)?;
        at = next_item(text, value.end)?;
        visit(Member { key, value });
    }
    Some(at + 1)
}

/// Position of the next item (or closing bracket) after a JSON value that ended at `at`.
fn next_item(text: &[u8], at: usize) -> Option<usize> {
    let at = skip_space(text, at);
    match *text.get(at)? {
        b',' => Some(skip_space(text, at + 1)),
        b'}' | b']' => Some(at),
        _ => None,
    }
}

/// Structure of a trace file: its event array and, in the object form, its other members.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Range from the `[` of the event array to one past its `]`.
    pub events: Range<usize>,
    /// Members of the top-level object other than `traceEvents`; empty in the bare array form.
    pub header: Vec<Member>,
    /// True if the file is an object (`{"traceEvents": [...]}`) instead of a bare array.
    pub object: bool,
}

/// Find the event array of a trace in object or array form.
#[must_use]
pub fn layout(text: &[u8]) -> Option<Layout> {
    let at = skip_space(text, 0);
    match *text.get(at)? {
        b'[' => Some(Layout { events: at..value_end(text, at)?, header: Vec::new(), object: false }),
        b'{' => {
            let (all, _) = members(text, at)?;
            let (mut events, mut header) = (None, Vec::new());
            for member in all {
                if member.name(text) == b"traceEvents" && text[member.value.start] == b'[' {
                    events = Some(member.value.clone());
                } else {
                    header.push(member);
                }
            }
            Some(Layout { events: events?, header, object: true })
        }
        _ => None,
    }
}

/// Byte ranges of the elements of the JSON array that spans `array`.
#[must_use]
pub fn elements(text: &[u8], array: &Range<usize>) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let mut at = skip_space(text, array.start + 1);
    while *text.get(at)? != b']' {
        let end = value_end(text, at)?;
        found.push(at..end);
        at = next_item(text, end)?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        br#" {"a": {"x": "}\"]"}, "traceEvents": [ {"n": 1}, {"n": [2, {"m": 3}]} ,{}], "z": -1.5e3 } "#;

    #[test]
    fn finds_events_and_header() {
        let layout = layout(TEXT).unwrap();
        assert!(layout.object);
        let names: Vec<_> = layout.header.iter().map(|m| m.name(TEXT)).collect();
        assert_eq!(names, [b"a", b"z"]);
        assert_eq!(&TEXT[layout.header[1].value.clone()], b"-1.5e3");
        let events: Vec<_> = elements(TEXT, &layout.events).unwrap().into_iter().map(|r| &TEXT[r]).collect();
        assert_eq!(events, [&br#"{"n": 1}"#[..], br#"{"n": [2, {"m": 3}]}"#, b"{}"]);
    }

    #[test]
    fn bare_array_and_cut_text() {
        let bare = br#"[{"a":1},{"b":2}]"#;
        assert_eq!(elements(bare, &layout(bare).unwrap().events).unwrap().len(), 2);
        assert!(layout(&TEXT[..40]).is_none());
        assert!(layout(b"").is_none());
    }
}
