//! Tables that are allocated first and then filled part by part, such as sines of positions or the rows of a mask.
//!
//! A trace has neither values nor which tensor an operator writes to. Batches are put together in the same way, so only two kinds count
//! as constants: sines and cosines that are computed right before they are written, and numbers that are written to parts of which the
//! trace has the indices (`Concrete Inputs`), which the caller compares between steps.

use super::is_of;
use crate::RuleContext;
use stackline_model::EventId;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::aten::constants::{BLANK, COMPUTED, PARTS, RESHAPED, WAVES, WRITES};

/// What is known of blank tensors that some operators make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blank {
    /// There are none, or nothing is written to a part of them.
    Unwritten,
    /// Constants are written to them.
    Constants,
    /// What is written, or where, may be of the step.
    Unknown,
}

impl Blank {
    /// That of operators in the order of time.
    pub(super) fn new(context: &RuleContext<'_>, operators: &[EventId]) -> Self {
        let trace = context.trace();
        let is = |at: usize, lists: &[&[&str]]| is_of(lists, trace.name(operators[at]));
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

/// Without the lines of a function behind the last one that writes to a part of a tensor: they use what was made.
pub(super) fn up_to_last_write(context: &RuleContext<'_>, lines: &[(SourceLocation, Vec<EventId>)]) -> usize {
    let has = |of: &[EventId], lists: &[&[&str]]| of.iter().any(|&e| is_of(lists, context.trace().name(e)));
    let is_blank = lines.iter().any(|(_, of)| has(of, &[BLANK]));
    let last = lines.iter().rposition(|(_, of)| has(of, &[PARTS]) && has(of, &[WRITES]));
    last.filter(|_| is_blank).map_or(lines.len(), |last| last + 1)
}
