//! Check of the metadata of collectives, from which sizes and bandwidths are computed.

use super::{Check, Outcome};
use stackline_model::{EventId, Trace};

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
        for gpu in trace.gpu.ids().map(|gpu| gpu.index()).filter(|&gpu| is_collective(trace, trace.gpu.event[gpu])) {
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

/// Test if a GPU operation is a collective by its name.
fn is_collective(trace: &Trace, event: EventId) -> bool {
    stackline_timeline::classify::is_tracelens_communication(trace.name(event))
}
