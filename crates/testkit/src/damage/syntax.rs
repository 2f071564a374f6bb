//! Damage to the JSON syntax of a trace, such as broken strings.

use super::doc::Doc;
use crate::rng::Rng;

/// Largest number of positions per variant.
const PLACES: usize = 6;

/// Bytes of the damaged file; `None` if the damage consists of edits of the document.
type Out = Option<Vec<u8>>;

/// Insert one of `texts` into the name of each of some random slices.
fn insert_into_names(doc: &mut Doc<'_>, rng: &mut Rng, texts: &[&[u8]]) -> Out {
    for index in doc.some(rng, PLACES, Doc::is_slice) {
        let (Some(name), Some(text)) = (doc.member(index, "name"), rng.pick(texts)) else { continue };
        let at = position_in_string(doc.text, name.value.start, name.value.end, rng);
        doc.insert(at, *text);
    }
    None
}

/// Draw a position inside the string that spans `start..end` with its quotes, outside of escapes and multi-byte
/// characters.
fn position_in_string(text: &[u8], start: usize, end: usize, rng: &mut Rng) -> usize {
    let at = start + 1 + rng.below(end - start - 1);
    let boundary = std::str::from_utf8(&text[start..at]).is_ok();
    if boundary && !text[start..at].contains(&b'\\') { at } else { start + 1 }
}

/// Insert unescaped quotes into some event names.
pub(super) fn bare_quote(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    insert_into_names(doc, rng, &[b"\"", b"f(\"x\")", b"\" ", b"say \"hi\" to"])
}

/// Insert unescaped backslashes into some event names.
pub(super) fn bare_backslash(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    insert_into_names(doc, rng, &[b"C:\\Python\\Lib\\site.py", b"\\d+\\s", b"D:\\work\\model.py", b"\\x1b["])
}

/// Insert invalid `\u` escapes into some event names.
pub(super) fn bad_unicode_escape(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    insert_into_names(doc, rng, &[b"C:\\users\\me", b"\\u12", b"\\uXYZW", b"\\u 0041"])
}

/// Insert raw control characters, such as line breaks, into some event names.
pub(super) fn control_character(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    insert_into_names(doc, rng, &[b"\n", b"\r\n", b"\t", b"\x01", b"\x1b[31m", b"\x7f", b"\0"])
}

/// Insert bytes that are not UTF-8 into some event names.
pub(super) fn invalid_utf8(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    insert_into_names(doc, rng, &[b"\xff", b"\x80\x80", b"\xe2\x82", b"\xc0\xaf", b"\xed\xa0\x80", b"caf\xe9"])
}

/// Insert `\u` escapes of unpaired surrogates into some event names.
pub(super) fn lone_surrogate(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    insert_into_names(doc, rng, &[b"\\ud83d", b"\\ude00\\ud83d", b"\\udc80"])
}

const WORDS: &[&str] =
    &["inf", "-inf", "nan", "NaN", "Infinity", "-Infinity", "N/A", "ncclFloat32", "None", "undefined", "-nan(ind)"];

/// Replace some argument values by words that are not JSON, such as `inf` or `None`.
pub(super) fn bare_word_argument(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    // Ids and links are unchanged, so that a test can compare all other data.
    let harmless =
        ["Input type", "memory bandwidth (GB/s)", "est. achieved occupancy %", "warps per SM", "queued", "Ev Idx"];
    let has = |doc: &Doc<'_>, index| harmless.iter().any(|key| doc.argument(index, key).is_some());
    for index in doc.some(rng, PLACES, has) {
        let found: Vec<_> = harmless.iter().filter_map(|key| doc.argument(index, key)).collect();
        let (Some(member), Some(word)) = (rng.pick(&found), rng.pick(WORDS)) else { continue };
        doc.replace(member.value.clone(), *word);
    }
    None
}

/// Replace some durations by words that are not JSON, such as `inf` or `nan`.
pub(super) fn non_finite_duration(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, PLACES, |doc, i| doc.member(i, "dur").is_some()) {
        let (Some(member), Some(word)) = (doc.member(index, "dur"), rng.pick(WORDS)) else { continue };
        doc.replace(member.value, *word);
    }
    None
}

const LOG_LINES: &[&str] = &[
    "\nWARNING:2024-09-30 12:00:01 4242:4242 init.cpp:155] function cbapi->getCuptiStatus() failed with code 15\n",
    "\n[W1120 10:11:12.345678901 ProcessGroupNCCL.cpp:1250] Warning: process group has NOT been destroyed\n",
    "\nSTAGE:2023-01-01 00:00:00 17:17 ActivityProfilerController.cpp:317] Completed Stage: Collection\n",
    "\nTraceback (most recent call last):\n  File \"train.py\", line 12, in <module>\nKeyError: 'x'\n",
];

/// Insert lines of a log between some events.
pub(super) fn log_line_between_events(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, 3, |_, index| index > 0) {
        if let Some(line) = rng.pick(LOG_LINES) {
            doc.insert(doc.events[index].start, *line);
        }
    }
    None
}

/// Insert lines of a log before a key of some slices.
pub(super) fn log_line_between_keys(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, 3, Doc::is_slice) {
        let members = doc.members(index);
        if let (Some(member), Some(line)) = (rng.pick(&members), rng.pick(LOG_LINES)) {
            doc.insert(member.key.start, *line);
        }
    }
    None
}

/// Add a header member without a value, which is invalid JSON.
pub(super) fn empty_metadata(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let empty = ["\"trace_metadata\": ", "\"gpu_pm_counters\": {,}", "\"host\": ,\n  \"\": "];
    if let Some(text) = rng.pick(&empty) {
        doc.add_header(text);
    }
    None
}

/// Remove the opening or closing quote of a key in some slices.
pub(super) fn missing_key_quote(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, PLACES, Doc::is_slice) {
        let mut members = doc.members(index);
        members.extend(doc.arguments(index));
        if let Some(member) = rng.pick(&members) {
            let quote = if rng.below(2) == 0 { member.key.start } else { member.key.end - 1 };
            doc.replace(quote..quote + 1, "");
        }
    }
    None
}

/// Add a comma after the last member of some slices, and after the last event.
pub(super) fn trailing_comma(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, PLACES, Doc::is_slice) {
        doc.insert(doc.events[index].end - 1, ",");
    }
    if let Some(last) = doc.events.last() {
        doc.insert(last.end, ",\n");
    }
    None
}

/// Add a comma before the first member of some slices, and before the first event.
pub(super) fn leading_comma(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, PLACES, Doc::is_slice) {
        doc.insert(doc.events[index].start + 1, ",");
    }
    if let Some(first) = doc.events.first() {
        doc.insert(first.start, ",");
    }
    None
}

/// Remove the comma before some events.
pub(super) fn missing_comma(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, PLACES, |_, index| index > 0) {
        let gap = doc.events[index - 1].end..doc.events[index].start;
        doc.replace(gap, "\n");
    }
    None
}
