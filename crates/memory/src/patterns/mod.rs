//! Patterns of waste: one file each, registered in one list.

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
pub(crate) use structured::overlapping;

use crate::ObjectUsage;
use crate::curve::device_of;
use stackline_model::{AccessEvidence, MemoryCallId, MemoryObjectId, MemoryStackId, MemoryTrace};

/// A kind of waste.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// Allocated long before its first use.
    EarlyAllocation,
    /// Freed long after its last use.
    LateDeallocation,
    /// Could have taken the memory of another object, whose last use was over.
    RedundantAllocation,
    /// Never touched.
    UnusedAllocation,
    /// Filled, but never used.
    NeverRead,
    /// Never freed.
    MemoryLeak,
    /// Long unused between two uses.
    TemporaryIdleness,
    /// Filled again before anybody read it.
    DeadWrite,
    /// Only a part is ever touched.
    Overallocation,
    /// Some parts are touched much more often than others.
    NonUniformAccess,
    /// Each kernel touches another slice.
    StructuredAccess,
}

/// Whether an object lies in the host's memory.
pub(crate) fn is_of_host(trace: &MemoryTrace, object: MemoryObjectId) -> bool {
    let device = trace.devices.get(device_of(trace, object).index());
    device.is_some_and(|device| trace.strings.get(device.name).starts_with("cpu"))
}

type Detect = fn(&ObjectUsage<'_>, &mut Vec<PatternMatch>);

impl Pattern {
    /// All patterns, each with its name, DrGPUM's short name, the code of its finding, and what finds it.
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

    /// All patterns, in their order.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.iter().map(|(pattern, ..)| *pattern)
    }

    /// Stable name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The letters that DrGPUM's paper uses; `NR` is ours.
    pub fn short(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// The code of its finding (docs/findings).
    pub fn code(self) -> &'static str {
        Self::ALL[self as usize].3
    }
}

/// How sure a match is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// Every access was seen.
    Exact,
    /// Operators say what they touch.
    Partial,
    /// Rests on accesses that only may have been, or on a time in which opaque kernels ran.
    Inferred,
}

impl Certainty {
    /// Stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Partial => "partial",
            Self::Inferred => "inferred",
        }
    }

    /// How sure it is that an object is not needed in a span of positions: by its accesses, and by what else ran then. The
    /// host's memory is read without operators, too: by NumPy, by what is saved, by workers that were forked.
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

/// Figures of some patterns.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// Of overallocation.
    Touched {
        /// Bytes that kernels touch.
        bytes: u64,
        /// The largest piece that they do not touch.
        largest_hole: u64,
        /// Equation 1 of the paper: 1 - largest hole / all that is not touched.
        fragmentation: f64,
    },
    /// Of access frequency.
    Frequency {
        /// Standard deviation of the counts over their mean, by bytes that are touched at all.
        variation: f64,
        /// How many bytes were touched how often, by count.
        histogram: Vec<(u32, u64)>,
    },
    /// Of a leak that nobody saw the end of: what a line leaves behind, round after round.
    Growth {
        /// In so many rounds it left something.
        left: u32,
        /// Of so many; without the last one, of which everything may still be in use, and without a first one that left nothing.
        rounds: u32,
        /// Bytes left by a round, on average.
        per_round: u64,
        /// What rounds are.
        origin: Origin,
    },
    /// Of structured access.
    Slices {
        /// Number of slices.
        count: u32,
        /// Bytes of the largest.
        largest: u64,
    },
}

/// One pattern at one object.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternMatch {
    /// Which pattern.
    pub pattern: Pattern,
    /// At which object.
    pub object: MemoryObjectId,
    /// Redundant allocation: the object whose memory it could take.
    pub other: MemoryObjectId,
    /// The call after which the waste begins (allocation, last use, use before, dead write), if there is one.
    pub from: MemoryCallId,
    /// The call at which it ends (first use, free, next use, covering write), if there is one.
    pub to: MemoryCallId,
    /// Kernels in between.
    pub kernels: u32,
    /// DrGPUM's inefficiency distance of `from` and `to`, in waves, if both are there.
    pub distance: Option<u32>,
    /// How often (times of idleness, dead writes); 1 for the rest.
    pub times: u32,
    /// Bytes that are wasted meanwhile.
    pub bytes: u64,
    /// How sure this is.
    pub certainty: Certainty,
    /// Figures of intra-object patterns.
    pub measure: Option<Measure>,
    /// Of a leaked activation: the call of the model whose graph is kept.
    pub model_call: MemoryStackId,
}

impl PatternMatch {
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

    /// Where in the program to look: at the allocation; of a dead write at the write; of a leaked activation at the model's call.
    pub fn stack(&self, trace: &MemoryTrace) -> MemoryStackId {
        if self.model_call.is_some() {
            return self.model_call;
        }
        let write = self.from.some().filter(|_| self.pattern == Pattern::DeadWrite);
        let stack = write.map(|call| trace.calls.stack[call.index()]).filter(|stack| stack.is_some());
        stack.unwrap_or(trace.objects.stack[self.object.index()])
    }

    fn between(self, from: MemoryCallId, to: MemoryCallId, kernels: u32) -> Self {
        Self { from, to, kernels, ..self }
    }

    /// Takes the certainty from the object's accesses, and from what else ran in a span of positions.
    fn judged(self, usage: &ObjectUsage<'_>, span: std::ops::Range<usize>) -> Self {
        let certainty = self.certainty.max(Certainty::determine(usage, self.object, span));
        Self { certainty, ..self }
    }

    /// The same where the object is to be freed after its last use: if several streams use it then, the last one that the
    /// host made need not be the last one to end.
    fn judged_as_over(self, usage: &ObjectUsage<'_>, span: std::ops::Range<usize>) -> Self {
        let several = usage.ends_on_several_streams(self.object);
        let certainty = if several { Certainty::Inferred } else { self.certainty };
        Self { certainty, ..self }.judged(usage, span)
    }
}

/// Whether training keeps an object until its end: the end of a recording is not its last use.
fn is_kept(usage: &ObjectUsage<'_>, object: MemoryObjectId) -> bool {
    use stackline_model::MemoryObjectKind::{OptimizerState, Parameter};
    matches!(usage.trace.objects.kind[object.index()], Parameter | OptimizerState)
}

/// All patterns of a trace: by pattern, then in the order of their objects. A trace without accesses gives leaks only.
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
