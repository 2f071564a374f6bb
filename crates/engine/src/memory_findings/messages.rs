//! Titles, messages and facts of memory findings.

use super::{Waste, WasteEvidence, fact};
use stackline_findings::Fact;
use stackline_memory::suggest::describe_call;
use stackline_memory::{
    MOST_BUCKETS, Measure, ObjectUsage, Origin, Pattern, PatternMatch, buckets, histogram_text, place_text,
};
use stackline_model::format::bytes;
use stackline_model::{AccessEvidence, MemoryTrace, Unit};

/// One-line title of a memory finding: object, size and cause; for several objects, those of the largest one.
pub(super) fn title(facts: &ObjectUsage<'_>, waste: &Waste<'_>) -> String {
    let name = facts.trace.object_name(waste.largest);
    let size = bytes(waste.bytes);
    let which = match waste.objects.len() {
        1 => format!("{name} ({size})"),
        several => format!("{several} memory objects ({size}), the largest {name}"),
    };
    format!("{which}: {}", cause(facts, waste))
}

/// Cause of a memory finding in one clause, such as `freed too late: 3 kernels ran …`.
fn cause(facts: &ObjectUsage<'_>, waste: &Waste<'_>) -> String {
    let found = match waste.known {
        WasteEvidence::Match(found) => found,
        WasteEvidence::InPlace(input) => {
            return format!(
                "the memory object could be computed in place, in the memory of {}, which is not read afterwards",
                facts.trace.object_name(input)
            );
        }
    };
    let kernels = kernel_count(facts, found);
    match (waste.pattern, &found.measure) {
        (Pattern::EarlyAllocation, _) => {
            format!("memory is allocated too early: {kernels} ran between its allocation and its first use")
        }
        (Pattern::LateDeallocation, _) => {
            format!("memory is freed too late: {kernels} ran between its last use and its free")
        }
        (Pattern::RedundantAllocation, _) => {
            let other = facts.trace.object_name(found.other);
            format!("the memory object could reuse the memory of {other}, which is no longer used at that time")
        }
        (Pattern::UnusedAllocation, _) => "memory is never accessed".to_owned(),
        (Pattern::NeverRead, _) => "the memory object is written, but never read".to_owned(),
        (Pattern::MemoryLeak, Some(Measure::Growth { left, iterations: all, per_iteration, origin })) => {
            match origin.noun() {
                Some(step) => {
                    let by = bytes(*per_iteration);
                    let growth = match found.model_call.is_some() {
                        true => {
                            "the autograd graph of the model call in this line keeps memory alive, and this memory \
                             grows"
                        }
                        false => "memory grows",
                    };
                    format!(
                        "{growth} by {by} per {step}: memory of {left} of {all} iterations is still live at the end of \
                         the recording"
                    )
                }
                None => "memory objects are allocated throughout the recording and still live at its end".to_owned(),
            }
        }
        (Pattern::MemoryLeak, _) => "memory is never freed".to_owned(),
        (Pattern::TemporaryIdleness, _) => {
            format!("the memory object was idle while {kernels} ran between two of its uses")
        }
        (Pattern::DeadWrite, _) => dead_write(facts, found),
        (Pattern::Overallocation, Some(Measure::Touched { bytes: touched, .. })) => {
            format!("kernels access only {} of the memory object", bytes(*touched))
        }
        (Pattern::NonUniformAccess, Some(Measure::Frequency { variation, histogram })) => {
            format!(
                "some bytes of the memory object are accessed much more often than its other bytes (coefficient of \
                 variation of the access counts: {:.0} %): {}",
                variation * 100.0,
                histogram_text(histogram)
            )
        }
        (Pattern::StructuredAccess, Some(Measure::Slices { count, .. })) => {
            format!(
                "kernels access the memory object as {count} separate slices, which are not all needed at the same time"
            )
        }
        (pattern, _) => pattern.name().to_owned(),
    }
}

/// Sentence on a write whose data are overwritten unread, with both calls.
fn dead_write(facts: &ObjectUsage<'_>, found: &PatternMatch) -> String {
    let call = |call| describe_call(facts.trace, call);
    let (from, to) = (call(found.from), call(found.to));
    match found.times {
        0 | 1 => format!("{to} overwrites the data that {from} wrote, although nothing has read them"),
        times => {
            format!("the data that {from} wrote are overwritten {times} times without being read, first by {to}")
        }
    }
}

/// Number of kernels of a match as text: `3 kernels`, or `3 operators` if the source records operators.
fn kernel_count(facts: &ObjectUsage<'_>, found: &PatternMatch) -> String {
    let count = found.kernels;
    format!("{count} {}{}", kernel(facts, found), if count == 1 { "" } else { "s" })
}

/// Noun of a match's kernels: `kernel`, or `operator` if the source records operators.
fn kernel(facts: &ObjectUsage<'_>, found: &PatternMatch) -> &'static str {
    let evidence = facts.uses[found.object.index()].evidence;
    if evidence == AccessEvidence::OperatorLevel { "operator" } else { "kernel" }
}

/// Named measurements of a memory finding, about the largest of its objects.
pub(super) fn facts(facts: &ObjectUsage<'_>, waste: &Waste<'_>) -> Vec<Fact<String>> {
    let mut list = Vec::new();
    if waste.objects.len() > 1 {
        list.push(fact(
            "size of the largest memory object",
            facts.trace.objects.bytes[waste.largest.index()] as f64,
            Unit::Bytes,
        ));
    }
    let WasteEvidence::Match(found) = waste.known else { return list };
    if found.from.is_some() && found.to.is_some() && found.kernels > 0 {
        let name = format!("{}s in between", kernel(facts, found));
        list.push(fact(&name, f64::from(found.kernels), Unit::None));
    }
    match &found.measure {
        Some(Measure::Touched { bytes, largest_hole, fragmentation }) => {
            list.push(fact("accessed bytes", *bytes as f64, Unit::Bytes));
            list.push(fact("largest unaccessed range of the object", *largest_hole as f64, Unit::Bytes));
            list.push(fact(
                "share of the unaccessed bytes outside of the largest unaccessed range",
                fragmentation * 100.0,
                Unit::Percent,
            ));
        }
        Some(Measure::Frequency { variation, histogram }) => {
            list.push(fact(
                "coefficient of variation of the access counts of the bytes",
                variation * 100.0,
                Unit::Percent,
            ));
            for one in buckets(histogram, MOST_BUCKETS) {
                list.push(fact(
                    &format!("bytes accessed {} by the kernel", one.times_text()),
                    one.bytes as f64,
                    Unit::Bytes,
                ));
            }
        }
        Some(Measure::Growth { left, iterations, per_iteration, origin }) => {
            let Some(step) = origin.noun() else { return list };
            let several = match origin {
                Origin::TrainingIterations => "training iterations",
                Origin::Passes => "forward passes",
                _ => "steps",
            };
            list.push(fact(&format!("memory growth per {step}"), *per_iteration as f64, Unit::Bytes));
            list.push(fact(&format!("{several} whose memory is still live at the end"), f64::from(*left), Unit::None));
            list.push(fact(&format!("recorded {several} before the last one"), f64::from(*iterations), Unit::None));
        }
        Some(Measure::Slices { count, largest }) => {
            list.push(fact("slices", f64::from(*count), Unit::None));
            list.push(fact("size of the largest accessed slice of the object", *largest as f64, Unit::Bytes));
        }
        None => {}
    }
    list
}

/// Text of a note on failed memory requests, which no rule reports; `None` without any.
pub(super) fn failed_requests(trace: &MemoryTrace) -> Option<String> {
    let first = trace.out_of_memory.first()?;
    let size = bytes(first.requested);
    let failed = match trace.out_of_memory.len() {
        1 => format!("a memory request of {size} failed"),
        several => format!("{several} memory requests failed, the first of {size}"),
    };
    let place = place_text(trace, first.stack);
    let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
    Some(format!("out of memory: {failed}{at}; see `stackline memory` for the cause"))
}
