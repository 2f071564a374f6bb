//! The documentation page of the format lists every code of the read report with the message of the source.

use stackline_ingest::diagnostics;
use std::collections::BTreeSet;
use std::path::Path;

const PAGE: &str = "../../docs/formats/chrome.md";
const FROM: &str = "<!-- codes: generated -->\n";
const TO: &str = "<!-- end of codes -->";

fn table() -> String {
    let mut rows: Vec<String> = diagnostics::ALL
        .iter()
        .map(|c| format!("| `{}` | {} | {} |\n", c.code, c.severity.name(), c.message))
        .collect();
    rows.sort();
    format!("| code | severity | meaning |\n|---|---|---|\n{}", rows.concat())
}

#[test]
fn the_page_lists_every_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(FROM).expect("the page has the mark where the codes begin");
    let (listed, after) = rest.split_once(TO).expect("the page has the mark where the codes end");
    if listed != table() && std::env::var_os("STACKLINE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, [before, FROM, &table(), TO, after].concat()).unwrap();
        return;
    }
    assert_eq!(listed, table(), "docs/formats/chrome.md is stale: run this test with STACKLINE_UPDATE_DOCS=1");
}

#[test]
fn codes_are_stable_words_and_messages_are_sentences() {
    let codes: BTreeSet<&str> = diagnostics::ALL.iter().map(|c| c.code).collect();
    assert_eq!(codes.len(), diagnostics::ALL.len(), "a code occurs twice");
    for code in diagnostics::ALL {
        assert!(code.code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{}", code.code);
        assert!(!code.message.ends_with('.') && !code.message.contains('\n'), "{}", code.message);
    }
}
