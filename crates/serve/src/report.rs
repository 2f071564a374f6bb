//! The page in one file, with the answers to what people ask first.
//!
//! Answers stand in the file as base64 of gzip, since a page that was opened from a disk may fetch nothing. They are put
//! in by importance until the file is as large as it may become; what did not fit is said in the page.

use crate::page;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use stackline_query::{OpenRun, ask};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// How large a report may become.
#[derive(Clone, Copy, Debug)]
pub struct ReportOptions {
    /// Bytes of the file at most; answers that do not fit are left out.
    pub most: usize,
}

/// What a report has and lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Answers in it.
    pub kept: usize,
    /// Answers that did not fit, by what they are of, in words.
    pub left_out: BTreeMap<&'static str, usize>,
    /// Bytes of the file.
    pub bytes: usize,
    /// Source files whose text is in it.
    pub source_files: BTreeSet<String>,
}

impl Pruned {
    /// What did not fit, in words; nothing if all did.
    #[must_use]
    pub fn in_words(&self) -> Option<String> {
        let parts: Vec<String> = self.left_out.iter().map(|(kind, many)| format!("{many} {kind}")).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// What the answers to a question are of, in words.
fn kind_of(question: &str) -> &'static str {
    match question {
        "event" => "events",
        "frame" => "frames",
        "calls" => "views of calls",
        "source" => "source files",
        "excerpt" => "excerpts of source",
        "range" => "sums of a step",
        "finding" => "findings",
        name if name.starts_with("memory") => "views of memory",
        _ => "tables and pictures",
    }
}

/// Where the page looks for answers.
const PLACE: &str = "<script id=\"answers\" type=\"application/json\">";

/// Where its policy goes.
const HEAD: &str = "<head>";

/// Writes the page with its answers.
///
/// # Errors
/// If the writer fails.
pub fn report(opened: &OpenRun, options: ReportOptions, out: &mut dyn Write) -> io::Result<Pruned> {
    let html = page::html();
    let mut pruned = Pruned { bytes: html.len(), ..Pruned::default() };
    let mut answers = serde_json::Map::new();
    for (name, arguments) in opened.first_questions() {
        let key = format!("{name}\n{}", arguments.key());
        if answers.contains_key(&key) {
            continue;
        }
        // What has no answer has none in the report either: the page asks, and says why.
        opened.take_source_files();
        let (packed, ok) = match ask(opened, name, &arguments) {
            Ok(answer) => (packed(&answer.to_bytes())?, true),
            Err(error) => (packed(error.to_string().as_bytes())?, false),
        };
        if pruned.bytes + packed.len() + key.len() > options.most && pruned.kept > 0 {
            *pruned.left_out.entry(kind_of(name)).or_default() += 1;
            continue;
        }
        pruned.bytes += packed.len() + key.len();
        pruned.kept += 1;
        pruned.source_files.extend(opened.take_source_files());
        answers.insert(key, json!([ok, packed]));
    }
    let document = json!({"answers": answers, "left_out": pruned.in_words(), "source_files": pruned.source_files});
    // A name from the trace must not end the script: `<` is not needed in base64 and may be escaped in JSON.
    let document = document.to_string().replace('<', "\\u003c");
    let (before, after) =
        html.split_once(PLACE).ok_or_else(|| io::Error::other("the page has no place for answers"))?;
    let (head, body) = before.split_once(HEAD).ok_or_else(|| io::Error::other("the page has no head"))?;
    write!(out, "{head}{HEAD}<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">{body}", page::POLICY)?;
    out.write_all(PLACE.as_bytes())?;
    out.write_all(document.as_bytes())?;
    out.write_all(after.as_bytes())?;
    Ok(pruned)
}

fn packed(bytes: &[u8]) -> io::Result<String> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes)?;
    Ok(STANDARD.encode(packed.finish()?))
}
