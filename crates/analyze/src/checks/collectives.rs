//! Check of the metadata of collectives, from which sizes and bandwidths are computed.

use super::{Check, Outcome};
use rustc_hash::FxHashMap;
use stackline_model::{EventId, StrId};
use stackline_timeline::classify::is_tracelens_communication;

/// Fields from which sizes and bandwidths are computed.
const FIELDS: [&str; 5] = ["Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype"];

/// Kernels of collectives, or the operators that launch them, have the fields that PyTorch has written since 2.2.
pub(super) const COLLECTIVE_FIELDS: Check = Check {
    name: "collective_fields",
    rule: "records of NCCL and RCCL collectives contain the collective's name, message sizes, data type and group size",
    consequence: "sizes and bandwidths of collectives are unknown, and the collectives of different ranks are matched \
         only by call order",
    read_codes: &[],
    run: |trace| {
        let columns = FIELDS.map(|field| (field, trace.attr(field)));
        let has = |event: EventId, field: usize| columns[field].1.get(event).is_some();
        let mut outcome = Outcome::default();
        // Only PyTorch writes these fields.
        let is_torch = |name: &str| stackline_timeline::vocabulary::aten::short_name(name).is_some();
        if columns.iter().all(|(_, column)| !column.exists()) && !trace.strings.iter().any(is_torch) {
            return outcome;
        }
        let mut known: FxHashMap<StrId, bool> = FxHashMap::default();
        let is_collective = |gpu: &usize| {
            let name = trace.events.name[trace.gpu.event[*gpu].index()];
            *known.entry(name).or_insert_with(|| is_tracelens_communication(trace.strings.get(name)))
        };
        for gpu in trace.gpu.ids().map(|gpu| gpu.index()).filter(is_collective) {
            let (event, operator) = (trace.gpu.event[gpu], trace.gpu.operator[gpu]);
            outcome.checked += 1;
            let is_missing = |field: &usize| !has(event, *field) && !operator.some().is_some_and(|op| has(op, *field));
            let missing: Vec<&str> = (0..FIELDS.len()).filter(is_missing).map(|field| FIELDS[field]).collect();
            if !missing.is_empty() {
                outcome.breaches.push((event, format!("without {}", missing.join(", "))));
            }
        }
        outcome
    },
};
