//! Comparison of findings with those of an earlier run.

use crate::failure::unreadable;
use anyhow::Result;
use serde::Deserialize;
use serde_json::{Value, json};
use stackline_findings::{Finding, Identity, Mark, pair};
use stackline_present::findings::{Change, Shown};
use stackline_present::json::schema_version;
use stackline_timeline::source_location::SourceLocation;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Gains that differ by less are the same, in percent of the larger.
const SAME: u64 = 20;

#[derive(Debug, Default)]
struct Earlier {
    /// Distinguishing marks of each finding.
    marks: Vec<Mark>,
    /// In ns per step or, of memory, bytes.
    gains: Vec<i64>,
    /// Title and source location of each.
    titles: Vec<String>,
    /// Flag per finding: listed in the earlier run. Ignored and small findings are neither new nor gone.
    listed: Vec<bool>,
}

/// Findings of an earlier run, by identity.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    earlier: BTreeMap<Identity, Earlier>,
    /// Number of omitted findings that an older document does not list.
    unknown: usize,
}

/// Document key of findings that were found but not listed.
const NOT_LISTED: &str = "not_listed";

#[derive(Deserialize)]
struct Document {
    tables: BTreeMap<String, TableOfRows>,
}

/// Table of a JSON document with its rows still unparsed, because each table has other columns.
#[derive(Deserialize)]
struct TableOfRows {
    rows: Value,
}

#[derive(Deserialize)]
struct Row {
    code: String,
    title: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    function: Option<String>,
    module: Option<String>,
    operator: Option<String>,
    /// Documents of before have the labels here.
    edits: Option<String>,
    edit_labels: Option<String>,
    gain_ns: Option<i64>,
    gain_bytes: Option<i64>,
}

/// JSON list of findings that the output omits, such as ignored ones, with the data to find them again. Later runs use
/// the list as a baseline, to decide which findings are new or gone.
pub(super) fn unlisted_findings(view: &Shown<'_>) -> (&'static str, Value) {
    let found = view.found;
    let row = |(finding, why): (&Finding, &str)| {
        let place = &finding.place;
        json!({
            "code": finding.rule.code,
            "title": finding.title,
            "file": place.file,
            "line": place.line,
            "function": place.function,
            "module": place.module,
            "operator": place.operator,
            "edit_labels": finding.edit_labels.join("; "),
            "gain_ns": finding.gain.map(|gain| gain.likely_ns),
            "gain_bytes": finding.memory.as_ref().map(|saved| saved.bytes),
            "why": why,
        })
    };
    let small = found.small.iter().map(|finding| (finding, "gains too little"));
    let ignored = found.ignored.iter().map(|finding| (finding, "ignored"));
    // Findings are listed in their order.
    let listed = found.findings.len().saturating_sub(view.more);
    let omitted = found.findings.iter().skip(listed).map(|finding| (finding, "omitted by --top"));
    (NOT_LISTED, omitted.chain(small).chain(ignored).map(row).collect())
}

/// Gain of a finding, in ns per step, or in bytes for memory.
fn gain_of(finding: &Finding) -> i64 {
    let bytes = finding.memory.as_ref().map(|saved| i64::try_from(saved.bytes).unwrap_or(i64::MAX));
    bytes.unwrap_or_else(|| finding.gain_ns())
}

/// Read the JSON document of an earlier run and convert it with `parse`.
pub(crate) fn read_document<T>(path: &Path, parse: impl FnOnce(Value) -> Result<T, String>) -> Result<T> {
    let fail = |reason: String| unreadable(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| fail(format!("cannot read the baseline: {error}")))?;
    parse_document(&text, parse).map_err(fail)
}

/// Parse the JSON text of an earlier run and convert the document with `parse`.
pub(crate) fn parse_document<T>(text: &str, parse: impl FnOnce(Value) -> Result<T, String>) -> Result<T, String> {
    parse(serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?)
}

/// Check that a JSON document was written by `command` and has a known version. For documents of other commands, the
/// error is `other`.
pub(crate) fn check_schema(document: &Value, command: &str, other: &str) -> Result<(), String> {
    let schema = document.get("schema").and_then(Value::as_str).unwrap_or_default();
    let newest = schema_version(command);
    // The keys that baselines use have kept their names in all versions.
    let is_known = |version: &str| version.parse::<u32>().is_ok_and(|number| (1..=newest).contains(&number));
    match schema.strip_prefix("stackline/").and_then(|rest| rest.strip_prefix(command)?.strip_prefix('/')) {
        Some(version) if is_known(version) => Ok(()),
        Some(_) => Err(format!(
            "this file was written by another version of stackline, in format {schema}; this version reads format \
             versions up to {newest}. Write the file again with this version"
        )),
        None => Err(other.to_owned()),
    }
}

impl Baseline {
    /// Read a file of `findings --format json` as the baseline to compare with.
    pub(super) fn read(path: &Path) -> Result<Self> {
        read_document(path, Self::of_findings)
    }

    fn of_findings(document: Value) -> Result<Self, String> {
        let other = "the file has no findings; write them with `stackline findings TRACE --format json -o FILE`";
        check_schema(&document, "findings", other)?;
        Self::of_document(document, other)
    }

    /// Create a baseline from the JSON document of an earlier run. `other` is the error for a document without
    /// findings.
    pub(crate) fn of_document(document: Value, other: &str) -> Result<Self, String> {
        let rows_of = |rows: Value| Vec::<Row>::deserialize(rows).map_err(|e| format!("{other} ({e})"));
        let unlisted = document.get(NOT_LISTED).cloned().map(&rows_of).transpose()?;
        let left_out = document.get("left_out").and_then(Value::as_u64).unwrap_or(0) as usize;
        let ignored = document.get("ignored").and_then(Value::as_array).map_or(0, Vec::len);
        let unknown = if unlisted.is_some() { 0 } else { left_out + ignored };
        let document: Document = serde_json::from_value(document).map_err(|e| format!("{other} ({e})"))?;
        let table = document.tables.into_iter().find(|(name, _)| name == "findings").ok_or(other)?.1;
        let listed = rows_of(table.rows)?.into_iter().map(|row| (row, true));
        let unlisted = unlisted.unwrap_or_default().into_iter().map(|row| (row, false));
        Ok(Self { earlier: by_identity(listed.chain(unlisted)), unknown })
    }

    /// Sentence about findings that an old baseline file does not contain; `None` if it contains all.
    pub(crate) fn note(&self) -> Option<String> {
        match self.unknown {
            0 => None,
            1 => Some(
                "The baseline is from an older version of stackline, which did not save the 1 finding that --min-gain \
                 or --ignore omitted. If this finding is listed now, it counts as new"
                    .to_owned(),
            ),
            unknown => Some(format!(
                "The baseline is from an older version of stackline, which did not save the {unknown} findings that \
                 --min-gain or --ignore omitted. If one of these findings is listed now, it counts as new"
            )),
        }
    }

    /// Sentence that names rules with findings in the baseline that did not run this time; `None` if all ran.
    pub(crate) fn unchecked_rules_note(&self, looked: impl Fn(&str) -> bool) -> Option<String> {
        let listed = self.earlier.iter().filter(|(_, earlier)| earlier.listed.contains(&true));
        let codes: BTreeSet<&str> = listed.map(|(identity, _)| identity.code()).filter(|code| !looked(code)).collect();
        let codes: Vec<&str> = codes.into_iter().collect();
        (!codes.is_empty()).then(|| {
            format!(
                "Rules not checked this time: {}. Their findings in the baseline may be gone or not",
                codes.join(", ")
            )
        })
    }

    /// Determine each finding's change from the baseline, and list the titles of gone findings with source locations. A
    /// finding is not gone if it is only unlisted, or if its rule did not run.
    pub(crate) fn compare<'f>(
        &self,
        listed: &[&'f Finding],
        unlisted: impl Iterator<Item = &'f Finding>,
        looked: impl Fn(&str) -> bool,
    ) -> (Vec<(&'f Finding, Option<Change>)>, Vec<String>) {
        let findings: Vec<&Finding> = listed.iter().copied().chain(unlisted).collect();
        let mut now: BTreeMap<Identity, Vec<usize>> = BTreeMap::new();
        for (at, finding) in findings.iter().enumerate() {
            now.entry(Identity::from_finding(finding)).or_default().push(at);
        }
        let mut changes = vec![Change::New; findings.len()];
        let mut gone = Vec::new();
        for (identity, earlier) in &self.earlier {
            let at = now.get(identity).map_or(&[][..], Vec::as_slice);
            let marks: Vec<Mark> = at.iter().map(|&at| Mark::from_finding(findings[at])).collect();
            let pairs = pair(&earlier.marks, &marks);
            for (&at, then) in at.iter().zip(&pairs).filter_map(|(at, then)| Some((at, (*then)?))) {
                changes[at] = change(earlier.gains[then], gain_of(findings[at]));
            }
            let left = (0..earlier.titles.len()).filter(|then| earlier.listed[*then] && !pairs.contains(&Some(*then)));
            let left = left.filter(|_| looked(identity.code()));
            gone.extend(left.map(|then| format!("{} {}", identity.code(), earlier.titles[then])));
        }
        (listed.iter().copied().zip(changes.into_iter().map(Some)).collect(), gone)
    }
}

/// Group findings of an earlier run, listed or not, by identity.
fn by_identity(rows: impl Iterator<Item = (Row, bool)>) -> BTreeMap<Identity, Earlier> {
    let mut by_identity: BTreeMap<Identity, Earlier> = BTreeMap::new();
    for (row, is_listed) in rows {
        let place = SourceLocation {
            file: row.file,
            line: row.line,
            function: row.function,
            module: row.module,
            operator: row.operator,
        };
        let (title, at) = (row.title.unwrap_or_default(), place.text());
        let identity = Identity::new(&row.code, &place, &row.edit_labels.or(row.edits).unwrap_or_default());
        let earlier = by_identity.entry(identity).or_default();
        earlier.marks.push(Mark::new(&place, &title));
        earlier.gains.push(row.gain_ns.or(row.gain_bytes).unwrap_or(0));
        earlier.listed.push(is_listed);
        earlier.titles.push(if at.is_empty() { title } else { format!("{title} at {at}") });
    }
    by_identity
}

/// Change of a gain from the baseline: unchanged within 20 % of the larger gain.
fn change(before: i64, now: i64) -> Change {
    let (difference, larger) = (before.abs_diff(now), before.unsigned_abs().max(now.unsigned_abs()));
    let is_same = difference.saturating_mul(100) <= larger.saturating_mul(SAME);
    if is_same { Change::Same } else { Change::Changed(before) }
}
