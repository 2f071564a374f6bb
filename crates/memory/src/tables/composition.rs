//! Table of the composition of memory peaks: parameters, gradients, activations and others.

use super::{NamedPeak, int, percent};
use crate::composition::{Part, compositions, remedies};
use stackline_model::{MemoryTrace, Table, Unit, Values};

/// Table of the parts of each memory peak, with advice for the highest one.
pub fn composition_table(trace: &MemoryTrace, peaks: &[NamedPeak]) -> Table {
    let at: Vec<_> = peaks.iter().map(|peak| (peak.device, peak.peak.position)).collect();
    let parts: Vec<(&NamedPeak, Vec<Part>)> = peaks.iter().zip(compositions(trace, &at)).collect();
    let rows: Vec<(&NamedPeak, &Part)> =
        parts.iter().flat_map(|(peak, parts)| parts.iter().map(|part| (*peak, part))).collect();
    let table = Table::new("memory_composition", "Composition of the memory peaks")
        .text("peak", rows.iter().map(|(peak, _)| Some(peak.name.clone())))
        .text("use", rows.iter().map(|(_, part)| Some(part.purpose.name().to_owned())))
        .i64("bytes", Unit::Bytes, rows.iter().map(|(_, part)| int(part.bytes)))
        .f64("share", Unit::Percent, rows.iter().map(|(peak, part)| percent(part.bytes, peak.peak.bytes)))
        .i64("objects", Unit::None, rows.iter().map(|(_, part)| i64::from(part.objects)))
        .text("evidence", rows.iter().map(|(_, part)| Some(part.evidence.name().to_owned())))
        .text("place", rows.iter().map(|(_, part)| Some(part.place.clone()).filter(|place| !place.is_empty())));
    let notes = parts.first().map(|(_, parts)| remedies(parts)).unwrap_or_default();
    notes.into_iter().fold(table, Table::note)
}

/// True if a composition table shows no known use: all parts are older than the recording, or of unknown use.
pub fn is_unknown(table: &Table) -> bool {
    let unknown = |part: &Option<String>| matches!(part.as_deref(), Some("allocated before the recording" | "other"));
    table.column("use").is_none_or(|column| matches!(&column.values, Values::Str(uses) if uses.iter().all(unknown)))
}
