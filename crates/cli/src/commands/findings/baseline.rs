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
    gain_ns: i64,
    title: String,
    place: String,
}

/// Findings of an earlier run, by identity.
#[derive(Debug)]
pub(super) struct Baseline(BTreeMap<Identity, Vec<Earlier>>);

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
        let mut by_identity: BTreeMap<Identity, Vec<Earlier>> = BTreeMap::new();
        let table = document.tables.into_iter().find(|(name, _)| name == "findings").ok_or(other)?.1;
        for row in table.rows {
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
            let (gain_ns, title) = (row.gain_ns.unwrap_or(0), row.title.unwrap_or_default());
            let earlier = Earlier { gain_ns, title, place: place.text() };
            by_identity.entry(identity).or_default().push(earlier);
        }
        Ok(Self(by_identity))
    }

    /// What findings are beside this, and the titles of those that are gone, with their places.
    pub(super) fn compare<'f>(&self, findings: &[&'f Finding]) -> (Vec<(&'f Finding, Option<Change>)>, Vec<String>) {
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
            let (before, now) = (before.gain_ns, finding.gain_ns());
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
