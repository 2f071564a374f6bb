//! Intra-object patterns, compared with counts per byte, and the paper's search for redundant allocations, compared
//! with ours.

use crate::random::program::{Program, programs};
use proptest::prelude::*;
use stackline_memory::patterns::{find, paper_one_pass};
use stackline_memory::{Measure, ObjectUsage, Pattern, Rules};
use stackline_model::MemoryObjectId;

/// Access counts per byte of an object, for each kernel that accesses it; none if a kernel has an unknown extent, if
/// all access everything, or if an opaque kernel ran in its lifetime.
fn counts(program: &Program, object: usize, opaque: bool) -> Option<Vec<Vec<u32>>> {
    let mut kernels = Vec::new();
    let mut any_part = false;
    for at in (0..program.steps.len()).filter(|at| program.kernel(*at).is_some()) {
        let mut bytes = vec![0u32; program.sizes[object] as usize];
        let touches: Vec<_> = program.touches(at).iter().filter(|touch| touch.object == object).collect();
        for touch in &touches {
            let (begin, end) = program.covered(touch)?;
            any_part |= end - begin < program.sizes[object]
                || matches!(touch.extent, crate::random::program::Extent::Bytes(..));
            bytes[begin as usize..end as usize].iter_mut().for_each(|count| *count += 1);
        }
        if !touches.is_empty() {
            kernels.push(bytes);
        }
    }
    (any_part && !opaque).then_some(kernels)
}

/// Length of the longest range of bytes without access.
fn longest_hole(touched: &[bool]) -> u64 {
    touched.split(|touched| *touched).map(<[bool]>::len).max().unwrap_or(0) as u64
}

/// Bytes needed at once if the object is split into slices that exist while kernels access them; none if one launch
/// joins all slices, or all are needed at once.
fn needed_in_slices(program: &Program, object: usize) -> Option<u64> {
    let mut touches = Vec::new();
    for at in (0..program.steps.len()).filter(|at| program.kernel(*at).is_some()) {
        let mine = program.touches(at).iter().filter(|touch| touch.object == object);
        touches.extend(mine.filter_map(|touch| Some((at, program.covered(touch)?))).filter(|(_, (a, b))| a < b));
    }
    // By access: its slice, joined by launches; finally the lowest access of each group.
    let overlap = |(_, (a, b)): &(usize, (u64, u64)), (_, (c, d)): &(usize, (u64, u64))| a < d && c < b;
    let joined = |also_by_launch: bool| -> Vec<usize> {
        let mut touching: Vec<usize> = (0..touches.len()).collect();
        for _ in 0..touches.len() {
            for (one, other) in (0..touching.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
                if overlap(&touches[one], &touches[other]) || also_by_launch && touches[one].0 == touches[other].0 {
                    let lower = touching[one].min(touching[other]);
                    (touching[one], touching[other]) = (lower, lower);
                }
            }
        }
        touching
    };
    let (slices, groups) = (joined(false), joined(true));
    let mut all: Vec<(u64, usize, usize)> = Vec::new();
    for slice in 0..touches.len() {
        let mine: Vec<_> = (0..touches.len()).filter(|at| slices[*at] == slice).map(|at| touches[at]).collect();
        let Some((begin, end)) = mine.iter().map(|touch| touch.1).reduce(|x, y| (x.0.min(y.0), x.1.max(y.1))) else {
            continue;
        };
        let calls = || mine.iter().map(|touch| touch.0);
        all.push((end - begin, calls().min()?, calls().max()?));
    }
    let at = |at: usize| all.iter().filter(|slice| slice.1 <= at && at <= slice.2).map(|slice| slice.0).sum::<u64>();
    let needed = (0..program.steps.len()).map(at).max()?;
    let several = groups.iter().any(|group| *group != groups[0]);
    (several && needed < all.iter().map(|slice| slice.0).sum()).then_some(needed)
}

fn variation(bytes: &[u32]) -> f64 {
    let touched: Vec<f64> = bytes.iter().filter(|count| **count > 0).map(|count| f64::from(*count)).collect();
    let mean = touched.iter().sum::<f64>() / touched.len() as f64;
    (touched.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / touched.len() as f64).sqrt() / mean
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn bytes_are_counted(program in programs(40, 2)) {
        let trace = program.trace();
        let usage = ObjectUsage::new(&trace, Rules::default());
        let found = find(&usage);
        for object in (0..program.sizes.len()).filter(|object| program.sizes[*object] > 0) {
            let match_of = |pattern: Pattern| found.iter().find(|hit| hit.pattern == pattern && hit.object.index() == object);
            let opaque = usage.opaque_in(trace.life(MemoryObjectId::new(object)));
            let kernels = counts(&program, object, opaque).unwrap_or_default();
            let touched: Vec<bool> =
                (0..program.sizes[object] as usize).map(|byte| kernels.iter().any(|kernel| kernel[byte] > 0)).collect();
            let sum = touched.iter().filter(|touched| **touched).count() as u64;
            let over = !kernels.is_empty() && (sum as f64) < 0.8 * program.sizes[object] as f64;
            let measured = match_of(Pattern::Overallocation).and_then(|found| found.measure.clone());
            let expected = over.then(|| {
                let (hole, rest) = (longest_hole(&touched), program.sizes[object] - sum);
                Measure::Touched { bytes: sum, largest_hole: hole, fragmentation: 1.0 - hole as f64 / rest as f64 }
            });
            prop_assert_eq!(measured, expected);
            let largest = kernels.iter().map(|kernel| variation(kernel)).fold(0.0, f64::max);
            match match_of(Pattern::NonUniformAccess).and_then(|found| found.measure.clone()) {
                Some(Measure::Frequency { variation, .. }) => prop_assert!((variation - largest).abs() < 1e-9),
                _ => prop_assert!(largest <= 0.2 + 1e-9, "{}", largest),
            }
            let disjoint = (0..touched.len()).all(|byte| kernels.iter().filter(|kernel| kernel[byte] > 0).count() <= 1);
            let structured = match_of(Pattern::StructuredAccess);
            // Definition 3.10, for kernels of any name.
            prop_assert!(structured.is_some() || kernels.len() < 2 || !disjoint);
            let needed = if kernels.is_empty() { None } else { needed_in_slices(&program, object) };
            prop_assert_eq!(structured.map(|found| found.bytes), needed.map(|needed| program.sizes[object] - needed));
        }
    }

    #[test]
    fn reuse_saves_at_least_as_much_as_the_papers_algorithm(program in programs(40, 1)) {
        let trace = program.trace();
        let usage = ObjectUsage::new(&trace, Rules::default());
        let takers = |objects: Vec<MemoryObjectId>| objects.iter().map(|object| program.sizes[object.index()]).sum::<u64>();
        // The paper's algorithm ignores copies that prepare an object within the lifetime of the other one.
        let sound = |pair: &(MemoryObjectId, MemoryObjectId)| usage.is_done_before(pair.1, pair.0);
        let paper = takers(paper_one_pass(&usage).into_iter().filter(sound).map(|pair| pair.0).collect());
        let redundant = find(&usage).into_iter().filter(|found| found.pattern == Pattern::RedundantAllocation);
        prop_assert!(paper <= takers(redundant.map(|found| found.object).collect()));
    }
}
