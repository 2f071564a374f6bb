//! Each pattern, compared with an exhaustive evaluation of its definition.

use crate::random::order::reachable;
use crate::random::program::{Access, Program, Step, programs};
use proptest::prelude::*;
use stackline_memory::curve::curves;
use stackline_memory::{Certainty, ObjectUsage, Pattern, PatternMatch, Rules, patterns};
use stackline_model::{AccessMode, MemoryCallKind};
use std::collections::BTreeMap;

struct Naive<'a> {
    program: &'a Program,
    calls: usize,
}

impl Naive<'_> {
    fn find(&self, is_match: impl Fn(&Step) -> bool) -> Option<usize> {
        self.program.steps.iter().position(|(step, _)| is_match(step))
    }

    fn allocated(&self, object: usize) -> usize {
        self.find(|step| *step == Step::Allocate(object)).unwrap()
    }

    fn freed(&self, object: usize) -> Option<usize> {
        self.find(|step| *step == Step::Free(object))
    }

    /// Positions of its uses: kernels, and copies that read it.
    fn uses(&self, object: usize) -> Vec<usize> {
        let is_use = |at: &usize| {
            let touches = self.program.touches(*at).iter().filter(|touch| touch.object == object);
            let mut modes = touches.map(|touch| touch.mode).peekable();
            modes.peek().is_some() && (self.program.kernel(*at).is_some() || modes.any(AccessMode::reads))
        };
        (0..self.calls).filter(is_use).collect()
    }

    fn is_touched(&self, object: usize) -> bool {
        (0..self.calls).any(|at| self.program.touches(at).iter().any(|touch| touch.object == object))
    }

    fn kernels(&self, from: usize, to: usize) -> u32 {
        (from + 1..to).filter(|at| self.program.kernel(*at).is_some()).count() as u32
    }

    fn opaque_in_life(&self, object: usize) -> bool {
        let end = self.freed(object).unwrap_or(self.calls);
        self.opaque(self.allocated(object), end)
    }

    /// Position from which the memory is needed: the first use, or an earlier device copy that writes the object.
    fn needed(&self, object: usize) -> usize {
        let is_copy = |at: &usize| match &self.program.steps[*at].0 {
            Step::Touch { kind: MemoryCallKind::CopyOnDevice, touches, .. } => {
                touches.iter().any(|t| t.object == object)
            }
            _ => false,
        };
        let copied = (0..self.calls).find(is_copy).unwrap_or(self.calls);
        self.uses(object)[0].min(copied)
    }

    fn opaque(&self, from: usize, to: usize) -> bool {
        (from..to).any(|at| self.program.kernel(at) == Some(true))
    }

    /// True if an opaque kernel runs between the first moment of two objects and their last.
    fn opaque_while_either(&self, one: usize, other: usize) -> bool {
        let end = |object: usize| self.freed(object).unwrap_or(self.calls);
        self.opaque(self.allocated(one).min(self.allocated(other)), end(one).max(end(other)))
    }

    /// Certainty that an object is unused after a use and before a call.
    fn certainty(&self, after: usize, to: usize) -> Certainty {
        if self.opaque(after + 1, to) { Certainty::Inferred } else { Certainty::Exact }
    }

    /// True if a use of an object may still run when the last one ends.
    fn ends_apart(&self, object: usize, before: &[Vec<bool>]) -> bool {
        let uses = self.uses(object);
        let Some((last, earlier)) = uses.split_last() else { return false };
        earlier.iter().any(|used| !before[*last][*used])
    }

    /// True if no two unordered uses are around or in a range.
    fn is_apart(&self, object: usize, (after, until): (usize, usize), before: &[Vec<bool>]) -> bool {
        let uses = self.uses(object);
        let pairs = uses.iter().flat_map(|second| uses.iter().map(move |first| (*first, *second)));
        let mut unordered = pairs.filter(|(first, second)| first < second && !before[*second][*first]);
        unordered.all(|(first, second)| second < after || until < first)
    }

    /// Number of gaps, and kernels of the longest.
    fn idle(&self, object: usize) -> (u32, u32) {
        let uses = self.uses(object);
        let gaps = uses.windows(2).map(|pair| self.kernels(pair[0], pair[1])).filter(|kernels| *kernels > 0);
        gaps.fold((0, 0), |(times, longest), kernels| (times + 1, longest.max(kernels)))
    }

    /// Number of sets and copies all of whose bytes one write overwrites before any possible read.
    fn dead_writes(&self, object: usize) -> u32 {
        let covered = |at: usize| -> Vec<(u64, u64)> {
            let writes = |touch: &&Access| touch.object == object && touch.mode == AccessMode::Write;
            self.program.touches(at).iter().filter(writes).filter_map(|touch| self.program.covered(touch)).collect()
        };
        let reads = |at: usize, begin: u64, end: u64| {
            self.program.kernel(at) == Some(true)
                || self.program.touches(at).iter().any(|touch| {
                    let span = self.program.covered(touch).unwrap_or((0, u64::MAX));
                    touch.object == object && touch.mode.reads() && span.0 < end && begin < span.1
                })
        };
        let mut dead = 0;
        for first in (0..self.calls).filter(|at| self.program.kernel(*at).is_none()) {
            let Some((begin, end)) = covered(first).first().copied() else { continue };
            for second in first + 1..self.calls {
                if reads(second, begin, end) {
                    break;
                }
                if covered(second).iter().any(|span| span.0 <= begin && end <= span.1) {
                    dead += 1;
                    break;
                }
            }
        }
        dead
    }
}

fn by_object(found: &[PatternMatch], pattern: Pattern) -> BTreeMap<usize, &PatternMatch> {
    found.iter().filter(|found| found.pattern == pattern).map(|found| (found.object.index(), found)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn patterns_match_their_definitions(program in programs(60, 3)) {
        let trace = program.trace();
        let usage = ObjectUsage::new(&trace, Rules::default());
        let found = patterns::find(&usage);
        let naive = Naive { program: &program, calls: program.steps.len() };
        let before = reachable(&program);
        let accesses = trace.has_accesses;
        for object in (0..program.sizes.len()).filter(|object| program.sizes[*object] > 0) {
            let (uses, freed) = (naive.uses(object), naive.freed(object));
            let count_of = |pattern: Pattern| by_object(&found, pattern).get(&object).copied();
            let early = uses.first().map(|_| naive.kernels(naive.allocated(object), naive.needed(object))).filter(|k| *k > 0);
            prop_assert_eq!(count_of(Pattern::EarlyAllocation).map(|found| found.kernels), early);
            let late = uses.last().zip(freed).map(|(last, freed)| naive.kernels(*last, freed)).filter(|k| *k > 0);
            prop_assert_eq!(count_of(Pattern::LateDeallocation).map(|found| found.kernels), late);
            prop_assert_eq!(count_of(Pattern::MemoryLeak).is_some(), program.ends && freed.is_none());
            let apart = naive.ends_apart(object, &before);
            if let (Some(late), Some(last)) = (count_of(Pattern::LateDeallocation), uses.last()) {
                let sure = if apart { Certainty::Inferred } else { naive.certainty(*last, freed.unwrap()) };
                prop_assert_eq!(late.certainty, sure);
            }
            if let Some(leak) = count_of(Pattern::MemoryLeak).filter(|_| accesses) {
                let unneeded = uses.last().map_or(naive.allocated(object), |last| last + 1);
                let opaque = apart || naive.opaque(unneeded, naive.calls);
                prop_assert_eq!(leak.certainty, if opaque { Certainty::Inferred } else { Certainty::Exact });
            }
            let whole = accesses && uses.is_empty() && (program.ends || freed.is_some()) && !naive.opaque_in_life(object);
            prop_assert_eq!(count_of(Pattern::UnusedAllocation).is_some(), whole && !naive.is_touched(object));
            prop_assert_eq!(count_of(Pattern::NeverRead).is_some(), whole && naive.is_touched(object));
            let idle = Some(naive.idle(object)).filter(|(times, _)| *times > 0);
            prop_assert_eq!(count_of(Pattern::TemporaryIdleness).map(|found| (found.times, found.kernels)), idle);
            if let Some(idle) = count_of(Pattern::TemporaryIdleness) {
                let (after, until) = (idle.from.index(), idle.to.index());
                prop_assert!(idle.certainty >= naive.certainty(after, until));
                prop_assert!(idle.certainty == Certainty::Inferred || naive.is_apart(object, (after, until), &before));
            }
            let dead = Some(naive.dead_writes(object)).filter(|dead| *dead > 0);
            prop_assert_eq!(count_of(Pattern::DeadWrite).map(|found| found.times), dead, "object {}", object);
        }
        redundant(&program, &found)?;
    }

    #[test]
    fn curve_equals_the_sum_of_live_objects(program in programs(60, 3)) {
        let trace = program.trace();
        let mut live = vec![0u64];
        for (step, _) in &program.steps {
            let before = live[live.len() - 1];
            live.push(match step {
                Step::Allocate(object) => before + program.sizes[*object],
                Step::Free(object) => before - program.sizes[*object],
                _ => before,
            });
        }
        let curves = curves(&trace);
        let most = live.iter().max().copied().unwrap_or(0);
        prop_assert_eq!(curves.first().map_or(0, |curve| curve.peak().bytes), most);
        for curve in &curves {
            for position in 0..program.steps.len() {
                prop_assert_eq!(curve.at(position as u32), live[position + 1]);
            }
            let peaks = curve.peaks(3);
            prop_assert_eq!(peaks[0], curve.peak());
            prop_assert!(peaks.windows(2).all(|pair| pair[0].bytes >= pair[1].bytes));
        }
    }
}

/// Check redundant allocations: pairs are valid, no object gives or takes twice, and no other choice gives the taking
/// objects more bytes.
fn redundant(program: &Program, found: &[PatternMatch]) -> Result<(), TestCaseError> {
    let naive = Naive { program, calls: program.steps.len() };
    let before = reachable(program);
    let objects: Vec<usize> =
        (0..program.sizes.len()).filter(|o| program.sizes[*o] > 0 && !naive.uses(*o).is_empty()).collect();
    let allowed = |taker: usize, giver: usize| {
        let needed = naive.needed(taker);
        let (a, b) = (program.sizes[taker], program.sizes[giver]);
        let close = a.abs_diff(b) * 10 <= a.max(b);
        close && naive.uses(giver).iter().all(|used| before[needed][*used])
    };
    let pairs: Vec<(usize, usize)> = found
        .iter()
        .filter(|found| found.pattern == Pattern::RedundantAllocation)
        .map(|found| (found.object.index(), found.other.index()))
        .collect();
    for reuse in found.iter().filter(|found| found.pattern == Pattern::RedundantAllocation) {
        let (taker, giver) = (reuse.object.index(), reuse.other.index());
        let opaque = naive.opaque_while_either(taker, giver);
        prop_assert_eq!(reuse.certainty, if opaque { Certainty::Inferred } else { Certainty::Exact });
    }
    for (at, pair) in pairs.iter().enumerate() {
        prop_assert!(allowed(pair.0, pair.1));
        prop_assert!(pairs[..at].iter().all(|other| other.0 != pair.0 && other.1 != pair.1));
    }
    let ours: u64 = pairs.iter().map(|pair| program.sizes[pair.0]).sum();
    // All choices are tried only for few objects, because there are many.
    if objects.len() <= 7 {
        let rows: Vec<(usize, Vec<usize>)> = objects
            .iter()
            .map(|taker| (*taker, objects.iter().copied().filter(|giver| allowed(*taker, *giver)).collect()))
            .collect();
        prop_assert_eq!(ours, most(program, &rows, &mut Vec::new()));
    }
    Ok(())
}

fn most(program: &Program, rows: &[(usize, Vec<usize>)], taken: &mut Vec<usize>) -> u64 {
    let Some(((taker, givers), rest)) = rows.split_first() else { return 0 };
    let mut best = most(program, rest, taken);
    for giver in givers {
        if !taken.contains(giver) {
            taken.push(*giver);
            best = best.max(program.sizes[*taker] + most(program, rest, taken));
            taken.pop();
        }
    }
    best
}

/// An opaque kernel may have used any live object.
#[test]
fn opaque_kernels_rule_out_unused_objects() {
    let unused = |text: &str| {
        let trace = stackline_ingest::memory::text::read("test", text).unwrap();
        let usage = ObjectUsage::new(&trace, Rules::default());
        let found = patterns::find(&usage);
        let unused = [Pattern::UnusedAllocation, Pattern::NeverRead];
        found
            .iter()
            .filter(|found| unused.contains(&found.pattern))
            .map(|found| trace.object_name(found.object))
            .collect::<Vec<_>>()
    };
    assert_eq!(unused("a x 8; a y 8; h y; a z 8; k one z; f x; f y; k two; f z; end"), ["x", "y"]);
    assert_eq!(unused("a x 8; a y 8; h y; a z 8; k one z opaque; f x; f y; k two; f z; end"), [""; 0]);
    assert_eq!(unused("a x 8; a z 8; k one z; f x; a y 8; k two opaque; f y; f z; end"), ["x"]);
    assert_eq!(unused("a x 8; a z 8; k one z"), [""; 0], "the program may go on");
    let kinds = [MemoryCallKind::Kernel, MemoryCallKind::Set];
    assert!(kinds.iter().all(|kind| kind.is_api()));
}
