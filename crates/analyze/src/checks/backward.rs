//! Check of the links from forward operators to their backward operators.

use super::{Check, Outcome};
use stackline_model::EventKind;

/// Each forward operator has only one backward operator.
pub(super) const SEQUENCE_NUMBER_TWICE: Check = Check {
    name: "sequence_number_twice",
    rule: "no two backward operators have the same pair of sequence number and forward thread",
    consequence: "backward work may be shown under the wrong forward operator",
    read_codes: &["sequence_number_twice"],
    run: |trace| {
        let (sequence, thread) = (trace.attr("Sequence number"), trace.attr("Fwd thread id"));
        let is_backward = |e: &stackline_model::EventId| {
            trace.kind(*e) == EventKind::Operator && sequence.i64(*e).is_some() && thread.i64(*e).is_some_and(|t| t > 0)
        };
        let why = |e| {
            let number = sequence.i64(e).unwrap_or_default();
            format!("an earlier backward operator has the same sequence number {number} and the same forward thread")
        };
        Outcome {
            checked: trace.events.ids().filter(is_backward).count(),
            breaches: trace.repeated_backward().into_iter().map(|e| (e, why(e))).collect(),
        }
    },
};
