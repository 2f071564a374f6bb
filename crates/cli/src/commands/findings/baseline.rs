//! Findings of an earlier run.

use crate::failure::unreadable;
use anyhow::Result;
use serde::Deserialize;
use stackline_analyze::findings::{Finding, Place, lasting};
use stackline_present::findings::Change;
use std::collections::BTreeMap;
use std::path::Path;

/// What makes two findings the same: lines move; code, place and what is to be changed stay.
type Identity = (String, [Option<String>; 5]);

/// Gains that differ by less are the same, in percent of the larger.
const SAME: u64 = 20;

#[derive(Debug)]
struct Earlier {
    /// In ns per step or, of memory, bytes.
    gained: i64,
    title: String,
    place: String,
}

/// Findings of an earlier run, by identity.
#[derive(Debug, Default)]
pub(crate) struct Baseline(BTreeMap<Identity, Vec<Earlier>>);

#[derive(Deserialize)]
struct Document {
    tables: BTreeMap<String, TableOfRows>,
}

/// Rows of other tables are of other kinds.
#[derive(Deserialize)]
struct TableOfRows {
    rows: serde_json::Value,
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
    gain_bytes: Option<i64>,
}

/// What a finding gains, in ns per step or, of memory, bytes.
fn gained(finding: &Finding) -> i64 {
    let bytes = finding.memory.as_ref().map(|saved| i64::try_from(saved.bytes).unwrap_or(i64::MAX));
    bytes.unwrap_or_else(|| finding.gain_ns())
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
        Self::of_document(value, other)
    }

    /// The findings of a JSON document; if it has none, an error that begins with `other`.
    pub(crate) fn of_document(document: serde_json::Value, other: &str) -> Result<Self, String> {
        let document: Document = serde_json::from_value(document).map_err(|e| format!("{other} ({e})"))?;
        let mut by_identity: BTreeMap<Identity, Vec<Earlier>> = BTreeMap::new();
        let table = document.tables.into_iter().find(|(name, _)| name == "findings").ok_or(other)?.1;
        let rows = Vec::<Row>::deserialize(table.rows).map_err(|e| format!("{other} ({e})"))?;
        for row in rows {
            let place = Place {
                file: row.file.clone(),
                line: row.line,
                function: row.function.clone(),
                module: row.module.clone(),
                operator: row.operator.clone(),
            };
            let identity = (
                row.code,
                [
                    row.file,
                    row.function,
                    row.module,
                    row.operator,
                    row.edits.filter(|edits| !edits.is_empty()).map(|edits| lasting(&edits)),
                ],
            );
            let (gained, title) = (row.gain_ns.or(row.gain_bytes).unwrap_or(0), row.title.unwrap_or_default());
            let earlier = Earlier { gained, title, place: place.text() };
            by_identity.entry(identity).or_default().push(earlier);
        }
        Ok(Self(by_identity))
    }

    /// What findings are beside this, and the titles of those that are gone, with their places.
    pub(crate) fn compare<'f>(&self, findings: &[&'f Finding]) -> (Vec<(&'f Finding, Option<Change>)>, Vec<String>) {
        let mut taken: BTreeMap<&Identity, usize> = BTreeMap::new();
        let listed = findings.iter().map(|finding| {
            let place = &finding.place;
            let edits = Some(lasting(&finding.edits.join("; "))).filter(|edits| !edits.is_empty());
            let [file, function, module, operator] =
                [&place.file, &place.function, &place.module, &place.operator].map(Clone::clone);
            let parts = [file, function, module, operator, edits];
            let Some((identity, earlier)) = self.0.get_key_value(&(finding.rule.code.clone(), parts)) else {
                return (*finding, Some(Change::New));
            };
            let nth = taken.entry(identity).or_default();
            let Some(before) = earlier.get(*nth) else { return (*finding, Some(Change::New)) };
            *nth += 1;
            let (before, now) = (before.gained, gained(finding));
            let (difference, larger) = (before.abs_diff(now), before.unsigned_abs().max(now.unsigned_abs()));
            let is_same = difference.saturating_mul(100) <= larger.saturating_mul(SAME);
            (*finding, Some(if is_same { Change::Same } else { Change::Changed(before) }))
        });
        let listed = listed.collect();
        let left = self.0.iter().flat_map(|(identity, earlier)| {
            earlier.iter().skip(taken.get(identity).copied().unwrap_or(0)).map(move |e| (identity, e))
        });
        let at = |place: &str| if place.is_empty() { String::new() } else { format!(" at {place}") };
        let gone = left.map(|((code, _), earlier)| format!("{code} {}{}", earlier.title, at(&earlier.place))).collect();
        (listed, gone)
    }
}
