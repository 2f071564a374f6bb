//! Patterns of wasted memory: the ten of DrGPUM (ASPLOS 2023) and one of ours, one file each, registered in one list.

mod dead_write;
mod early;
pub(crate) mod frequency;
mod idle;
pub(crate) mod intra;
mod late;
pub(crate) mod leak;
mod overallocation;
mod redundant;
mod structured;
mod unused;

pub use redundant::paper_one_pass;
pub(crate) use structured::slices_of_accesses;

use crate::ObjectUsage;
use crate::curve::device_of;
use stackline_model::{AccessEvidence, MemoryCallId, MemoryObjectId, MemoryStackId, MemoryTrace};

/// Pattern of wasted memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// Early allocation: long before the first use.
    EarlyAllocation,
    /// Late deallocation: long after the last use.
    LateDeallocation,
    /// Redundant allocation: could reuse the memory of another object after its last use.
    RedundantAllocation,
    /// Unused allocation: never accessed.
    UnusedAllocation,
    /// Written, never read: filled, but never used.
    NeverRead,
    /// Memory leak: never freed.
    MemoryLeak,
    /// Temporary idleness: long unused between two uses.
    TemporaryIdleness,
    /// Dead write: overwritten before any read.
    DeadWrite,
    /// Overallocation: only a part is ever accessed.
    Overallocation,
    /// Non-uniform access frequency: some parts are accessed much more often than others.
    NonUniformAccess,
    /// Structured access: each kernel accesses a different slice.
    StructuredAccess,
}

/// True if an object is in host memory.
pub(crate) fn is_of_host(trace: &MemoryTrace, object: MemoryObjectId) -> bool {
    let device = trace.devices.get(device_of(trace, object).index());
    device.is_some_and(|device| trace.strings.get(device.name).starts_with("cpu"))
}

type Detect = fn(&ObjectUsage<'_>, &mut Vec<PatternMatch>);

impl Pattern {
    /// All patterns: name, DrGPUM's short name, code of the finding, and detector.
    const ALL: [(Self, &'static str, &'static str, &'static str, Detect); 11] = [
        (Self::EarlyAllocation, "early allocation", "EA", "SL050", early::detect),
        (Self::LateDeallocation, "late deallocation", "LD", "SL051", late::detect),
        (Self::RedundantAllocation, "redundant allocation", "RA", "SL052", redundant::detect),
        (Self::UnusedAllocation, "unused allocation", "UA", "SL053", unused::detect_untouched),
        (Self::NeverRead, "written, never read", "NR", "SL054", unused::detect_never_read),
        (Self::MemoryLeak, "memory leak", "ML", "SL055", leak::detect),
        (Self::TemporaryIdleness, "temporary idleness", "TI", "SL056", idle::detect),
        (Self::DeadWrite, "dead write", "DW", "SL057", dead_write::detect),
        (Self::Overallocation, "overallocation", "OA", "SL058", overallocation::detect),
        (Self::NonUniformAccess, "non-uniform access frequency", "NUAF", "SL059", frequency::detect),
        (Self::StructuredAccess, "structured access", "SA", "SL060", structured::detect),
    ];

    /// All patterns of wasted memory, in their display order.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.iter().map(|(pattern, ..)| *pattern)
    }

    /// Stable name of a pattern of wasted memory.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Abbreviation of a pattern in DrGPUM's paper; `NR` is Stackline's.
    pub fn short(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// Code of the finding for this pattern of wasted memory, as listed in docs/findings.
    pub fn code(self) -> &'static str {
        Self::ALL[self as usize].3
    }
}

/// Certainty of a pattern's match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// All accesses were recorded.
    Exact,
    /// Accesses are known by operator.
    Partial,
    /// Based on possible accesses, or on a time range in which opaque kernels ran.
    Inferred,
}

impl Certainty {
    /// Stable name of the certainty of a match.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Partial => "partial",
            Self::Inferred => "inferred",
        }
    }

    /// Certainty that an object is unused in a range of positions, from its accesses and from concurrent work. Host
    /// memory is also read without operators: by NumPy, by saving, by forked workers.
    pub(crate) fn determine(usage: &ObjectUsage<'_>, object: MemoryObjectId, span: std::ops::Range<usize>) -> Self {
        let known = match usage.uses[object.index()].evidence {
            AccessEvidence::Instrumented => Self::Exact,
            AccessEvidence::OperatorLevel if is_of_host(usage.trace, object) => Self::Inferred,
            AccessEvidence::OperatorLevel => Self::Partial,
            AccessEvidence::MayAccess | AccessEvidence::Opaque => Self::Inferred,
        };
        known.max(if usage.opaque_in(span) { Self::Inferred } else { Self::Exact })
    }
}

pub use crate::iterations::Origin;

/// Additional numbers of a pattern's match, such as accessed bytes, access counts, or growth per iteration.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// Figures of an overallocation.
    Touched {
        /// Bytes that kernels access.
        bytes: u64,
        /// Largest contiguous range without an access, in bytes.
        largest_hole: u64,
        /// Equation 1 of the paper: 1 - largest hole / all bytes without an access.
        fragmentation: f64,
    },
    /// Figures of a non-uniform access frequency.
    Frequency {
        /// Standard deviation of the access counts over their mean, over all accessed bytes.
        variation: f64,
        /// Number of bytes per access count.
        histogram: Vec<(u32, u64)>,
    },
    /// Growth of a leak without the end of the program: memory that a line leaves per iteration.
    Growth {
        /// Number of iterations that left memory.
        left: u32,
        /// Number of counted iterations: without the last one, whose objects may all be in use, and without a first one
        /// that left nothing.
        iterations: u32,
        /// Mean bytes left per iteration.
        per_iteration: u64,
        /// Origin of the iterations.
        origin: Origin,
    },
    /// Figures of a structured access.
    Slices {
        /// Number of slices.
        count: u32,
        /// Bytes of the largest slice.
        largest: u64,
    },
}

/// Match of a pattern at one object.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternMatch {
    /// Pattern.
    pub pattern: Pattern,
    /// Object.
    pub object: MemoryObjectId,
    /// Redundant allocation: the object whose memory could be reused.
    pub other: MemoryObjectId,
    /// Call after which the waste begins (allocation, last use, use before, dead write), if any.
    pub from: MemoryCallId,
    /// Call at which the waste ends (first use, free, next use, overwriting write), if any.
    pub to: MemoryCallId,
    /// Number of kernels between `from` and `to`.
    pub kernels: u32,
    /// DrGPUM's inefficiency distance between `from` and `to`, in waves, if both exist.
    pub distance: Option<u32>,
    /// Number of occurrences (gaps, dead writes); 1 for other patterns.
    pub times: u32,
    /// Wasted bytes.
    pub bytes: u64,
    /// Certainty of the match.
    pub certainty: Certainty,
    /// Figures of intra-object patterns.
    pub measure: Option<Measure>,
    /// For a leaked activation: the call of the model whose graph is kept.
    pub model_call: MemoryStackId,
}

impl PatternMatch {
    /// Create a match at an object with wasted bytes, without calls, and with exact certainty so far.
    fn new(pattern: Pattern, object: MemoryObjectId, bytes: u64) -> Self {
        Self {
            pattern,
            object,
            other: MemoryObjectId::NONE,
            from: MemoryCallId::NONE,
            to: MemoryCallId::NONE,
            kernels: 0,
            distance: None,
            times: 1,
            bytes,
            certainty: Certainty::Exact,
            measure: None,
            model_call: MemoryStackId::NONE,
        }
    }

    /// Call path to report for the match: of the allocation; for a dead write, of the write; for a leaked activation,
    /// of the model's call.
    pub fn stack(&self, trace: &MemoryTrace) -> MemoryStackId {
        if self.model_call.is_some() {
            return self.model_call;
        }
        let write = self.from.some().filter(|_| self.pattern == Pattern::DeadWrite);
        let stack = write.map(|call| trace.calls.stack[call.index()]).filter(|stack| stack.is_some());
        stack.unwrap_or(trace.objects.stack[self.object.index()])
    }

    /// Set the calls between which memory is wasted, and the number of kernels between them.
    fn between(self, from: MemoryCallId, to: MemoryCallId, kernels: u32) -> Self {
        Self { from, to, kernels, ..self }
    }

    /// Set the certainty from the object's accesses, and from concurrent work in a range of positions.
    fn with_certainty(self, usage: &ObjectUsage<'_>, span: std::ops::Range<usize>) -> Self {
        let certainty = self.certainty.max(Certainty::determine(usage, self.object, span));
        Self { certainty, ..self }
    }

    /// Set the certainty for an object to be freed after its last use: inferred if several streams use it, else from
    /// accesses and concurrent work in a range of positions.
    ///
    /// The last use of the host order need not end last.
    fn with_certainty_after_last_use(self, usage: &ObjectUsage<'_>, span: std::ops::Range<usize>) -> Self {
        let several = usage.ends_on_several_streams(self.object);
        let certainty = if several { Certainty::Inferred } else { self.certainty };
        Self { certainty, ..self }.with_certainty(usage, span)
    }
}

/// True if training keeps an object until its end: the end of a recording is not its last use.
fn is_kept(usage: &ObjectUsage<'_>, object: MemoryObjectId) -> bool {
    use stackline_model::MemoryObjectKind::{OptimizerState, Parameter};
    matches!(usage.trace.objects.kind[object.index()], Parameter | OptimizerState)
}

/// Find all matches of patterns of wasted memory in a trace, by pattern, then by object. A trace without accesses can
/// only show leaks.
pub fn find(usage: &ObjectUsage<'_>) -> Vec<PatternMatch> {
    let mut found = Vec::new();
    for (pattern, .., detect) in Pattern::ALL {
        if usage.trace.has_accesses || pattern == Pattern::MemoryLeak {
            detect(usage, &mut found);
        }
    }
    for found in &mut found {
        found.distance = found.from.some().zip(found.to.some()).and_then(|(from, to)| usage.distance(from, to));
    }
    found
}
