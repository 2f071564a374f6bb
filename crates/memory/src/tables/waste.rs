//! Table of wasted memory, by pattern and allocating line.

use super::{add_module_column, add_place_columns, int};
use crate::patterns::frequency::histogram_text;
use crate::suggest::{Site, Sites};
use crate::{Certainty, Measure, Pattern, PatternMatch};
use stackline_model::{MemoryCallId, MemoryObjectId, MemoryTrace, Table, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// Matches of one pattern for objects of one line.
struct Row<'a> {
    /// The match with the most bytes.
    first: &'a PatternMatch,
    objects: usize,
    bytes: u64,
    kernels: u32,
    times: u64,
    /// Least certainty of the matches.
    certainty: Certainty,
}

impl<'a> Row<'a> {
    /// Sum the matches of one pattern and line; `None` without matches.
    fn new(mut group: Vec<&'a PatternMatch>) -> Option<Self> {
        group.sort_by_key(|found| std::cmp::Reverse(found.bytes));
        let first = *group.first()?;
        let objects: BTreeSet<MemoryObjectId> = group.iter().map(|found| found.object).collect();
        Some(Self {
            first,
            objects: objects.len(),
            bytes: group.iter().map(|found| found.bytes).fold(0, u64::saturating_add),
            kernels: group.iter().map(|found| found.kernels).max().unwrap_or(0),
            times: group.iter().map(|found| u64::from(found.times)).sum(),
            certainty: group.iter().map(|found| found.certainty).fold(first.certainty, Certainty::max),
        })
    }
}

/// Fragmentation of unused bytes in percent (equation 1 of DrGPUM's paper); `None` for other patterns than
/// overallocation.
fn fragmentation(measure: Option<&Measure>) -> Option<f64> {
    if let Some(Measure::Touched { fragmentation, .. }) = measure { Some(100.0 * fragmentation) } else { None }
}

/// Coefficient of variation of access counts in percent; `None` for other patterns than access frequency.
fn variation(measure: Option<&Measure>) -> Option<f64> {
    if let Some(Measure::Frequency { variation, .. }) = measure { Some(100.0 * variation) } else { None }
}

/// Mean bytes that an allocating line leaves per iteration; `None` for other patterns than growing leaks.
fn grows_by(measure: Option<&Measure>) -> Option<i64> {
    match measure {
        Some(Measure::Growth { per_iteration, origin, .. }) => origin.noun().map(|_| int(*per_iteration)),
        _ => None,
    }
}

/// Histogram of the access counts of an object's bytes as text; `None` for other patterns than access frequency.
fn histogram(measure: Option<&Measure>) -> Option<String> {
    if let Some(Measure::Frequency { histogram, .. }) = measure { Some(histogram_text(histogram)) } else { None }
}

/// Matches by pattern and allocating line, most bytes first. Calls and name are those of the object with the most
/// bytes.
pub fn waste_table(trace: &MemoryTrace, matches: &[PatternMatch]) -> Table {
    let mut sites = Sites::new(trace);
    let mut groups: BTreeMap<(Pattern, Site), Vec<&PatternMatch>> = BTreeMap::new();
    for found in matches {
        groups.entry((found.pattern, sites.of_match(found))).or_default().push(found);
    }
    let mut rows: Vec<Row<'_>> = groups.into_values().filter_map(Row::new).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.bytes), row.first.pattern, row.first.object));
    let measures = || rows.iter().map(|row| row.first.measure.as_ref());
    let call = |call: MemoryCallId| call.some().map(|call| int(call.index() as u64));
    let other = |row: &Row<'_>| row.first.other.some().map(|object| trace.object_name(object));
    let table = Table::new("memory_waste", "Wasted memory, by pattern")
        .text("code", rows.iter().map(|row| Some(row.first.pattern.code().to_owned())))
        .text("pattern", rows.iter().map(|row| Some(row.first.pattern.name().to_owned())))
        .text("object", rows.iter().map(|row| Some(trace.object_name(row.first.object))))
        .i64("objects", Unit::None, rows.iter().map(|row| int(row.objects as u64)))
        .i64("bytes", Unit::Bytes, rows.iter().map(|row| int(row.bytes)));
    let stacks: Vec<_> = rows.iter().map(|row| row.first.stack(trace)).collect();
    let table = table
        .i64("kernels", Unit::None, rows.iter().map(|row| i64::from(row.kernels)))
        .text("certainty", rows.iter().map(|row| Some(row.certainty.name().to_owned())));
    let table = add_place_columns(table, trace, &stacks)
        .i64("times", Unit::None, rows.iter().map(|row| int(row.times)))
        .i64("distance", Unit::None, rows.iter().map(|row| row.first.distance.map(i64::from)))
        .i64("from_call", Unit::None, rows.iter().map(|row| call(row.first.from)))
        .i64("to_call", Unit::None, rows.iter().map(|row| call(row.first.to)))
        .text("other", rows.iter().map(other))
        .f64("fragmentation", Unit::Percent, measures().map(fragmentation))
        .f64("variation", Unit::Percent, measures().map(variation))
        .text("histogram", measures().map(histogram))
        .i64("grows_by", Unit::Bytes, measures().map(grows_by));
    let objects: Vec<MemoryObjectId> = rows.iter().map(|row| row.first.object).collect();
    add_module_column(table, trace, &objects)
}
