//! All kinds of damage on the demo trace: they change the bytes, depend only on the seed, and give valid JSON if they
//! should.

use serde_json::Value;
use stackline_testkit::{damage, demo};

/// Kinds whose output is not valid JSON.
const NOT_JSON: &[&str] = &[
    "bare-quote-in-name",
    "bare-backslash",
    "bad-unicode-escape",
    "control-character",
    "invalid-utf8",
    "lone-surrogate",
    "bare-word-argument",
    "non-finite-duration",
    "log-line-between-events",
    "log-line-between-keys",
    "empty-metadata",
    "missing-key-quote",
    "trailing-comma",
    "leading-comma",
    "missing-comma",
    "truncated-text",
    "truncated-in-string",
    "unterminated-string",
    "missing-close",
    "truncated-gzip",
    "corrupt-gzip",
    "gzip-through-text",
    "two-documents",
    "binary-tail",
];

fn demo_text() -> String {
    demo::generate(&demo::Config { steps: 2, layers: 1, ..demo::Config::default() })
}

#[test]
fn each_kind_damages_and_is_reproducible() {
    let text = demo_text();
    for kind in damage::kinds() {
        let mut different = std::collections::BTreeSet::new();
        for seed in 0..12 {
            let hit = damage::mutate(kind, text.as_bytes(), seed);
            assert_ne!(hit.bytes, text.as_bytes(), "{} seed {seed} changed nothing", kind.name);
            assert!(!hit.offsets.is_empty(), "{} seed {seed} names no place", kind.name);
            assert!(hit.offsets.iter().all(|&at| at <= hit.bytes.len()), "{}", kind.name);
            assert_eq!(hit.bytes, damage::apply(kind, text.as_bytes(), seed), "{} seed {seed}", kind.name);
            different.insert(hit.bytes);
        }
        assert!(!different.is_empty());
    }
}

#[test]
fn content_damage_keeps_valid_json() {
    let text = demo_text();
    for name in NOT_JSON {
        assert!(damage::kind(name).is_some(), "no kind {name}");
    }
    for kind in damage::kinds() {
        for seed in 0..6 {
            let bytes = damage::apply(kind, text.as_bytes(), seed);
            let parsed = serde_json::from_slice::<Value>(&bytes);
            match NOT_JSON.contains(&kind.name) {
                true => assert!(parsed.is_err(), "{} seed {seed} is still valid JSON", kind.name),
                false if kind.name == "empty-file" || kind.name == "overflowing-time" => {}
                false => assert!(parsed.is_ok(), "{} seed {seed}: {}", kind.name, parsed.unwrap_err()),
            }
        }
    }
}

#[test]
fn lossless_damage_keeps_all_events() {
    let text = demo_text();
    let count = |bytes: &[u8]| {
        let json: Value = serde_json::from_slice(bytes).unwrap();
        json.as_array().or_else(|| json["traceEvents"].as_array()).unwrap().len()
    };
    let before = count(text.as_bytes());
    for kind in damage::kinds().iter().filter(|k| k.kept == damage::Kept::All && !NOT_JSON.contains(&k.name)) {
        assert!(count(&damage::apply(kind, text.as_bytes(), 3)) >= before, "{}", kind.name);
    }
}

#[test]
fn non_traces_are_unchanged() {
    for kind in damage::kinds() {
        for text in [&b""[..], b"hello", b"{\"a\": 1}", b"[1"] {
            assert_eq!(damage::apply(kind, text, 1), text, "{}", kind.name);
        }
    }
}
