//! The web page of a run as a single HTML file, with the answers to its most important queries.
//!
//! Answers are stored in the file as base64 of gzip, because a page opened from disk may not fetch files. They are
//! added by importance up to the size limit. The page reports answers that did not fit.

use crate::page;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use stackline_query::{OpenRun, run_query};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Options of a one-file report.
#[derive(Clone, Copy, Debug)]
pub struct ReportOptions {
    /// Largest size of the file in bytes. Answers that do not fit are left out.
    pub most: usize,
}

/// Statistics of a written one-file report: size, numbers of included and omitted answers, and included source files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenReport {
    /// Number of answers in the report.
    pub kept: usize,
    /// Number of answers that did not fit, by kind.
    pub left_out: BTreeMap<&'static str, usize>,
    /// Size of the file in bytes.
    pub bytes: usize,
    /// Source files whose text is in the report.
    pub source_files: BTreeSet<String>,
}

impl WrittenReport {
    /// Text with the numbers of answers that did not fit into the report, by kind; `None` if all fit.
    #[must_use]
    pub fn description(&self) -> Option<String> {
        let parts: Vec<String> = self.left_out.iter().map(|(kind, many)| format!("{many} {kind}")).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Kind of a query's answers in words, such as `call tree views`.
fn kind_of(question: &str) -> &'static str {
    match question {
        "event" => "events",
        "frame" => "frames",
        "calls" => "call tree views",
        "source" => "source files",
        "excerpt" => "source excerpts",
        "range" => "step totals",
        "finding" => "findings",
        name if name.starts_with("memory") => "memory views",
        _ => "tables and charts",
    }
}

/// Element of the page that holds the answers.
const ANSWERS_ELEMENT: &str = "<script id=\"answers\" type=\"application/json\">";

/// Position of the content security policy.
const HEAD: &str = "<head>";

/// Write the web page of a run, with the answers to its queries, as one HTML file.
///
/// # Errors
/// If the writer fails.
pub fn report(opened: &OpenRun, options: ReportOptions, out: &mut dyn Write) -> io::Result<WrittenReport> {
    let html = page::html();
    let mut written = WrittenReport { bytes: html.len(), ..WrittenReport::default() };
    let mut answers = serde_json::Map::new();
    for (name, arguments) in opened.first_questions() {
        let key = format!("{name}\n{}", arguments.key());
        if answers.contains_key(&key) {
            continue;
        }
        // Queries without an answer are left out; the page then shows the reason.
        opened.take_source_files();
        let (packed, ok) = match run_query(opened, name, &arguments) {
            Ok(answer) => (compress(&answer.to_bytes())?, true),
            Err(error) => (compress(error.to_string().as_bytes())?, false),
        };
        if written.bytes + packed.len() + key.len() > options.most && written.kept > 0 {
            *written.left_out.entry(kind_of(name)).or_default() += 1;
            continue;
        }
        written.bytes += packed.len() + key.len();
        written.kept += 1;
        written.source_files.extend(opened.take_source_files());
        answers.insert(key, json!([ok, packed]));
    }
    let document = json!({"answers": answers, "left_out": written.description(), "source_files": written.source_files});
    // A name from the trace must not end the script element. Base64 has no `<`, and JSON allows it to be escaped.
    let document = document.to_string().replace('<', "\\u003c");
    let damaged = || {
        io::Error::other(
            "cannot write the report: the web page in this Stackline program is damaged. Install or build Stackline \
             again",
        )
    };
    let (before, after) = html.split_once(ANSWERS_ELEMENT).ok_or_else(damaged)?;
    let (head, body) = before.split_once(HEAD).ok_or_else(damaged)?;
    write!(out, "{head}{HEAD}<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">{body}", page::POLICY)?;
    out.write_all(ANSWERS_ELEMENT.as_bytes())?;
    out.write_all(document.as_bytes())?;
    out.write_all(after.as_bytes())?;
    Ok(written)
}

/// Compress bytes with gzip, and encode them as base64.
fn compress(bytes: &[u8]) -> io::Result<String> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes)?;
    Ok(STANDARD.encode(packed.finish()?))
}
