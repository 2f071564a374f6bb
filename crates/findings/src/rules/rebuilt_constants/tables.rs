//! Tables that are allocated and then filled in parts, such as sines of positions or the rows of a mask.
//!
//! A trace contains neither values nor the tensors that operators write to. Batches are assembled in the same way, so
//! only two kinds count as constants. The first is sines and cosines that are computed right before they are written.
//! The second is numbers that are written to parts with known indices (`Concrete Inputs`), which the caller compares
//! between steps.

use super::is_in_lists;
use crate::RuleContext;
use stackline_model::EventId;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten::constants::{BLANK, COMPUTED, PARTS, RESHAPED, WAVES, WRITES};

/// Content that a list of operators writes to parts of blank tensors: nothing, constants, or unknown values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blank {
    /// No blank tensors, or no writes to a part of one.
    Unwritten,
    /// Writes of constants.
    Constants,
    /// Writes whose values or indices may depend on the step.
    Unknown,
}

impl Blank {
    /// Content that operators, in time order, write to parts of blank tensors.
    pub(super) fn new(context: &RuleContext<'_>, operators: &[EventId]) -> Self {
        let trace = context.trace();
        let is = |at: usize, lists: &[&[&str]]| is_in_lists(lists, trace.name(operators[at]));
        let all = || 0..operators.len();
        if !all().any(|at| is(at, &[BLANK])) {
            return Self::Unwritten;
        }
        let places = trace.attr("Concrete Inputs");
        let has_waves = all().any(|at| is(at, &[WAVES]));
        let mut found = Self::Unwritten;
        for at in all().filter(|&at| is(at, &[WRITES])) {
            let views = (0..at).rev().take_while(|&before| is(before, &[PARTS, RESHAPED])).count();
            let parts = at - views..at;
            if !parts.clone().any(|part| is(part, &[PARTS])) {
                continue;
            }
            let computed = parts.start.checked_sub(1).is_some_and(|before| is(before, &[COMPUTED]));
            let is_number = trace.name(operators[at]).ends_with("fill_");
            let mut indices = parts.filter(|&part| is(part, &[PARTS]));
            let is_constant = if is_number {
                indices.all(|part| places.get(operators[part]).is_some())
            } else {
                computed && has_waves
            };
            if !is_constant {
                return Self::Unknown;
            }
            found = Self::Constants;
        }
        found
    }
}

/// Number of a function's lines up to the last write to a part of a tensor; all lines without such a write. Later lines
/// use the table.
pub(super) fn up_to_last_write(context: &RuleContext<'_>, lines: &[(SourceLocation, Vec<EventId>)]) -> usize {
    let has = |of: &[EventId], lists: &[&[&str]]| of.iter().any(|&e| is_in_lists(lists, context.trace().name(e)));
    let is_blank = lines.iter().any(|(_, of)| has(of, &[BLANK]));
    let last = lines.iter().rposition(|(_, of)| has(of, &[PARTS]) && has(of, &[WRITES]));
    last.filter(|_| is_blank).map_or(lines.len(), |last| last + 1)
}
