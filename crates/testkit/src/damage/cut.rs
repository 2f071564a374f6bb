//! Damage to the file as a whole: truncation, trailing data, wrong compression or copying.

use super::doc::Doc;
use crate::io::gzip;
use crate::rng::Rng;

/// Bytes of the damaged file; `None` if the damage consists of edits of the document.
type Out = Option<Vec<u8>>;

/// Bytes of a file before position `at`.
fn cut(text: &[u8], at: usize) -> Out {
    Some(text[..at].to_vec())
}

/// Cut the trace text at a random position within its event array.
pub(super) fn truncated_text(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let array = doc.layout.events.clone();
    cut(doc.text, array.start + 1 + rng.below(array.len() - 1))
}

/// Cut the trace text within the name of an event.
pub(super) fn truncated_in_string(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let index = *doc.some(rng, 1, |doc, i| doc.value(i, "name").len() > 3).first()?;
    let name = doc.member(index, "name")?.value;
    cut(doc.text, name.start + 2 + rng.below(name.len() - 2))
}

/// Remove the closing quote of some event names.
pub(super) fn unterminated_string(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, 3, Doc::is_slice) {
        if let Some(name) = doc.member(index, "name") {
            doc.replace(name.value.end - 1..name.value.end, "");
        }
    }
    None
}

/// Cut the trace text after its last event, without the closing brackets.
pub(super) fn missing_close(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let last = doc.events.last()?.end;
    match rng.below(3) {
        0 => cut(doc.text, last),
        1 => Some([&doc.text[..last], b",\n"].concat()),
        _ => Some([&doc.text[..last], b"\n"].concat()),
    }
}

/// Compress the trace by gzip, and cut the result at a random position.
pub(super) fn truncated_gzip(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let packed = gzip(doc.text);
    let at = 1 + rng.below(packed.len() - 1);
    // Files of less than two bytes have no recognizable format.
    cut(&packed, at.max(2))
}

/// Compress the trace by gzip, and flip one to four random bits of the result.
pub(super) fn corrupt_gzip(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let mut packed = gzip(doc.text);
    for _ in 0..=rng.below(3) {
        // After the 10 bytes of the header.
        let at = 10 + rng.below(packed.len() - 10);
        packed[at] ^= 1 << rng.below(8);
    }
    Some(packed)
}

/// Compress the trace by gzip, and replace invalid UTF-8 in the result, as a program does that reads it as text.
pub(super) fn gzip_through_text(doc: &mut Doc<'_>, _: &mut Rng) -> Out {
    let packed = gzip(doc.text);
    let mut out = Vec::with_capacity(packed.len() * 2);
    for byte in packed {
        // The effect of a program that decodes bytes as UTF-8 with U+FFFD for invalid ones, and writes the text back.
        if byte < 0x80 { out.push(byte) } else { out.extend_from_slice("\u{fffd}".as_bytes()) }
    }
    Some(out)
}

/// Append a second JSON document to the trace text.
pub(super) fn two_documents(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let second: &[u8] = match rng.below(3) {
        0 => doc.text,
        1 => b"{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"second\", \"pid\": 1, \"tid\": 1, \"ts\": 1, \"dur\": 1}]}",
        _ => b"{}",
    };
    Some([doc.text, b"\n", second].concat())
}

/// Replace the trace by an empty file, or by JSON without events.
pub(super) fn empty_file(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let (open, close): (&[u8], &[u8]) = if doc.layout.object { (b"{\"traceEvents\": [", b"]}") } else { (b"[", b"]") };
    Some(match rng.below(5) {
        0 => Vec::new(),
        1 => b" \n".to_vec(),
        2 => b"{}".to_vec(),
        3 => b"null".to_vec(),
        _ => [open, close].concat(),
    })
}

/// Append zeros, random bytes or closing brackets to the trace text.
pub(super) fn binary_tail(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let tail: Vec<u8> = match rng.below(3) {
        0 => vec![0; 4096],
        1 => (0..512).map(|_| rng.bits() as u8).collect(),
        _ => b"\n}}]\n".to_vec(),
    };
    Some([doc.text, &tail].concat())
}
