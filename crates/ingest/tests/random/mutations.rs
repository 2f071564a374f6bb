//! Any damage: reading ends, and the result is a valid trace.

use crate::random::{STEP, invariants};
use proptest::collection::vec;
use proptest::prelude::*;
use stackline_ingest::{ReadOptions, read_bytes};

/// One change of a text, at a position given as a fraction of its length.
#[derive(Clone, Debug)]
enum Edit {
    Set(u16, u8),
    Insert(u16, Vec<u8>),
    Delete(u16, u16),
    Repeat(u16, u16, u8),
    Swap(u16, u16),
}

fn edit() -> impl Strategy<Value = Edit> {
    let tokens: Vec<&'static [u8]> = vec![
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"{\"ph\":\"X\"",
        b"\\u",
        b"\\ud800",
        b"1e400",
        b"-",
        b"null",
        b"nan",
        b"\n",
        b"\x00",
        b"\xff\xfe",
        b"\"traceEvents\": [",
        b"]}",
        b"\"args\": {",
        b"99999999999999999999",
    ];
    let token = prop::sample::select(tokens).prop_map(<[u8]>::to_vec);
    prop_oneof![
        (any::<u16>(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (any::<u16>(), token).prop_map(|(at, token)| Edit::Insert(at, token)),
        (any::<u16>(), vec(any::<u8>(), 1..6)).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (any::<u16>(), 1u16..200).prop_map(|(at, length)| Edit::Delete(at, length)),
        (any::<u16>(), 1u16..300, 1u8..4).prop_map(|(at, length, times)| Edit::Repeat(at, length, times)),
        (any::<u16>(), any::<u16>()).prop_map(|(a, b)| Edit::Swap(a, b)),
    ]
}

fn apply(edit: &Edit, text: &mut Vec<u8>) {
    let place = |at: u16| usize::from(at) * text.len() / (usize::from(u16::MAX) + 1);
    match edit {
        Edit::Set(at, byte) => {
            let at = place(*at);
            if let Some(slot) = text.get_mut(at) {
                *slot = *byte;
            }
        }
        Edit::Insert(at, bytes) => {
            let at = place(*at);
            text.splice(at..at, bytes.iter().copied());
        }
        Edit::Delete(at, length) => {
            let from = place(*at);
            let to = (from + usize::from(*length)).min(text.len());
            text.drain(from..to);
        }
        Edit::Repeat(at, length, times) => {
            let from = place(*at);
            let to = (from + usize::from(*length)).min(text.len());
            let copy = text[from..to].repeat(usize::from(*times));
            text.splice(to..to, copy);
        }
        Edit::Swap(a, b) => {
            let (a, b) = (place(*a), place(*b));
            if a.max(b) < text.len() {
                text.swap(a, b);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_documents(edits in vec(edit(), 1..8), clip in any::<bool>()) {
        let mut text = STEP.as_bytes().to_vec();
        edits.iter().for_each(|edit| apply(edit, &mut text));
        let options = ReadOptions { threads: 1, clip_overlaps: clip, ..ReadOptions::default() };
        match read_bytes("damaged", &text, &options) {
            Ok(trace) => invariants::check(&trace).map_err(TestCaseError::fail)?,
            Err(reason) => {
                let reason = reason.to_string();
                prop_assert!(reason.starts_with("damaged: ") && !reason.contains('\n'), "{}", reason);
            }
        }
    }

    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..200), list in any::<bool>()) {
        let text = [if list { &b"["[..] } else { b"{\"traceEvents\":[" }, &bytes].concat();
        if let Ok(trace) = read_bytes("any", &text, &ReadOptions { threads: 1, ..ReadOptions::default() }) {
            invariants::check(&trace).map_err(TestCaseError::fail)?;
        }
    }
}
