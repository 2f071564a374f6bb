//! Findings of an earlier run.

use crate::failure::unreadable;
use anyhow::Result;
use serde::Deserialize;
use stackline_analyze::findings::{Finding, Identity, Mark, Place, pair};
use stackline_present::findings::Change;
use std::collections::BTreeMap;
use std::path::Path;

/// Gains that differ by less are the same, in percent of the larger.
const SAME: u64 = 20;

#[derive(Debug, Default)]
struct Earlier {
    /// What tells them apart, of each.
    marks: Vec<Mark>,
    gains_ns: Vec<i64>,
    /// Title and place of each.
    titles: Vec<String>,
}

/// Findings of an earlier run, by identity.
#[derive(Debug)]
pub(super) struct Baseline(BTreeMap<Identity, Earlier>);

#[derive(Deserialize)]
struct Document {
    schema: Option<String>,
    tables: BTreeMap<String, TableOfRows>,
}

#[derive(Deserialize)]
struct TableOfRows {
    rows: Vec<Row>,
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
    edits: Option<String>,
    gain_ns: Option<i64>,
}

impl Baseline {
    /// Reads what `findings --format json` wrote.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let fail = |reason: String| unreadable(format!("{}: {reason}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| fail(format!("cannot read the baseline: {error}")))?;
        Self::parse(&text).map_err(fail)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let other = "no findings in it; write them with `stackline findings TRACE --format json -o FILE`";
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| format!("not JSON: {e}"))?;
        let schema = value.get("schema").and_then(|s| s.as_str()).unwrap_or_default().to_owned();
        if !schema.contains("findings") {
            return Err(other.to_owned());
        }
        let document: Document = serde_json::from_value(value).map_err(|e| format!("{other} ({e})"))?;
        debug_assert_eq!(document.schema.as_deref(), Some(schema.as_str()));
        let mut by_identity: BTreeMap<Identity, Earlier> = BTreeMap::new();
        let table = document.tables.into_iter().find(|(name, _)| name == "findings").ok_or(other)?.1;
        for row in table.rows {
            let place = Place {
                file: row.file,
                line: row.line,
                function: row.function,
                module: row.module,
                operator: row.operator,
            };
            let (title, at) = (row.title.unwrap_or_default(), place.text());
            let identity = Identity::new(&row.code, &place, &row.edits.unwrap_or_default());
            let earlier = by_identity.entry(identity).or_default();
            earlier.marks.push(Mark::new(&place, &title));
            earlier.gains_ns.push(row.gain_ns.unwrap_or(0));
            earlier.titles.push(if at.is_empty() { title } else { format!("{title} at {at}") });
        }
        Ok(Self(by_identity))
    }

    /// What findings are beside this, and the titles of those that are gone, with their places.
    pub(super) fn compare<'f>(&self, findings: &[&'f Finding]) -> (Vec<(&'f Finding, Option<Change>)>, Vec<String>) {
        let mut now: BTreeMap<Identity, Vec<usize>> = BTreeMap::new();
        for (at, finding) in findings.iter().enumerate() {
            now.entry(Identity::of(finding)).or_default().push(at);
        }
        let mut changes = vec![Change::New; findings.len()];
        let mut gone = Vec::new();
        for (identity, earlier) in &self.0 {
            let at = now.get(identity).map_or(&[][..], Vec::as_slice);
            let marks: Vec<Mark> = at.iter().map(|&at| Mark::of(findings[at])).collect();
            let pairs = pair(&earlier.marks, &marks);
            for (&at, then) in at.iter().zip(&pairs).filter_map(|(at, then)| Some((at, (*then)?))) {
                changes[at] = change(earlier.gains_ns[then], findings[at].gain_ns());
            }
            let left = earlier.titles.iter().enumerate().filter(|(then, _)| !pairs.contains(&Some(*then)));
            gone.extend(left.map(|(_, title)| format!("{} {title}", identity.code())));
        }
        (findings.iter().copied().zip(changes.into_iter().map(Some)).collect(), gone)
    }
}

fn change(before: i64, now: i64) -> Change {
    let (difference, larger) = (before.abs_diff(now), before.unsigned_abs().max(now.unsigned_abs()));
    let is_same = difference.saturating_mul(100) <= larger.saturating_mul(SAME);
    if is_same { Change::Same } else { Change::Changed(before) }
}
