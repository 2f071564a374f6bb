//! Table that compares Stackline's rules with those of DrGPUM.

use crate::patterns::paper_one_pass;
use crate::{ObjectUsage, Pattern, PatternMatch, drgpum};
use stackline_model::{MemoryObjectId, Table, Unit};
use std::collections::BTreeSet;

/// Number of matching objects per pattern: by the artifact's rules, by the paper's algorithm (for redundant
/// allocations), and by ours.
pub fn rules_table(usage: &ObjectUsage<'_>, matches: &[PatternMatch]) -> Table {
    let artifact = drgpum::count(usage);
    let paper = paper_one_pass(usage).len();
    let ours = |pattern: Pattern| {
        let objects = matches.iter().filter(|found| found.pattern == pattern).map(|found| found.object);
        objects.collect::<BTreeSet<MemoryObjectId>>().len() as i64
    };
    // The artifact has no byte ranges, and does not distinguish two kinds of unused memory.
    let within = [Pattern::Overallocation, Pattern::NonUniformAccess, Pattern::StructuredAccess, Pattern::NeverRead];
    let theirs = |pattern: Pattern| (!within.contains(&pattern)).then(|| i64::from(artifact.count_of(pattern)));
    let of_paper = |pattern: Pattern| (pattern == Pattern::RedundantAllocation).then_some(paper as i64);
    Table::new(
        "memory_rules",
        "Number of memory objects with each waste pattern, by the rules of DrGPUM and of \
                                Stackline",
    )
    .text("pattern", Pattern::all().map(|pattern| Some(pattern.name().to_owned())))
    .text("short", Pattern::all().map(|pattern| Some(pattern.short().to_owned())))
    .i64("drgpum", Unit::None, Pattern::all().map(theirs))
    .i64("paper", Unit::None, Pattern::all().map(of_paper))
    .i64("ours", Unit::None, Pattern::all().map(ours))
    .note(
        "Column drgpum: number of objects by the rules of DrGPUM's published program. This program also counts an \
         object as unused if it is written but never read. Column paper: number of objects by the one-pass algorithm in \
         section 5.1 of DrGPUM's paper. Column ours: number of objects by Stackline's rules. \
         docs/reference/memory-patterns.md lists the differences.",
    )
}
