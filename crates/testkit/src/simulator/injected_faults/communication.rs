//! Injected faults of communication that delays other work.

use super::Kind;
use super::injector::{At, FaultInjector};
use super::kernels::without_spans;
use crate::rng::Rng;
use crate::simulator::names;
use crate::simulator::program::build::{Builder, COLLECTIVE, COMPUTE};
use crate::simulator::program::{Step, Work};

pub(super) const KINDS: &[Kind] = &[
    Kind::removable("collective without overlap", "SL019", not_overlapped),
    Kind::removable("collective that waits for a slower rank", "SL023", waits_for_others).also(&["SL019", "SL031"]),
    Kind::removable("search for unused parameters", "SL021", search),
    Kind::assumed("sums of which each rank keeps a part", "SL020", sums_of_shards).also(&["SL019"]),
    Kind::removable("gradients reduced in each of several passes", "SL022", accumulation).also(&["SL019"]),
    Kind::assumed("a collective for each parameter", "SL044", one_by_one).also(&["SL012", "SL019"]),
];

/// Operator, annotation and kernel of a collective.
type Names = [&'static str; 3];

const ALL_REDUCE: Names = ["c10d::allreduce_", "nccl:all_reduce", names::ALL_REDUCE];
const BROADCAST: Names =
    ["c10d::broadcast_", "nccl:broadcast", "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"];

/// Launch an all-reduce of `ns` nanoseconds on a separate stream; returns its operation and the record of its end.
fn all_reduce(b: &mut Builder<'_>, ns: i64) -> (usize, usize) {
    collective(b, ALL_REDUCE, (1 << 20, ns))
}

/// Launch a collective of this many elements and this duration on a separate stream; returns its operation and the
/// record of its end.
fn collective(
    b: &mut Builder<'_>,
    [operator, annotation, kernel]: Names,
    (elements, ns): (i64, i64),
) -> (usize, usize) {
    let mut found = (0, 0);
    b.op(operator, |b| {
        b.op("record_param_comms", |b| {
            b.annotation(annotation, |b| {
                let ready = b.record(COMPUTE, None);
                b.spend(150, 700);
                b.wait(COLLECTIVE, ready);
                b.spend(150, 700);
                b.launch(Work::Collective, kernel, COLLECTIVE, ns);
                let op = b.program.ops.len() - 1;
                b.program.ops[op].details.elements = Some(elements);
                b.spend(150, 700);
                found = (op, b.record(COLLECTIVE, None));
            });
        });
    });
    b.spend(200, 900);
    found
}

/// Inject one to three collectives per step for which other work waits at once, each of 5 to 30 % of the step.
/// Repaired: no work waits for them.
fn not_overlapped(p: &mut FaultInjector<'_>) {
    let count = p.draw_count(1, 3);
    let ns = p.draw_step_part(5, 30);
    p.insert_both(At::Forward, count, |p| {
        let faulty = p.build_steps(|b| {
            b.python("torch/distributed/distributed_c10d.py(2501): all_reduce", |b| {
                let ns = b.rng.jitter(ns, 5);
                let (_, done) = all_reduce(b, ns);
                b.wait(COMPUTE, done);
            });
        });
        // The last wait is that of other work.
        let last = faulty.iter().rposition(|step| matches!(step, Step::Wait { .. }));
        let mut repaired = faulty.clone();
        if let Some(last) = last {
            repaired.remove(last);
        }
        (faulty, repaired)
    });
}

/// Inject one or two collectives per step for which other work waits. One to three of them in total take 3 to 12 times
/// as long as the others, because another rank is late. Repaired: all take as long as usual.
fn waits_for_others(p: &mut FaultInjector<'_>) {
    let count = p.draw_count(1, 2);
    let (ns, times) = (p.draw_step_part(3, 10), p.b.rng.between(3, 12));
    let all = count * p.passes();
    let late = p.draw_count(1, 3).min((all - 1) / 2);
    let which = p.b.rng.sample(all, late);
    let mut call = 0;
    p.insert_faster(At::Forward, count, |b| {
        let mut repaired_durations = Vec::new();
        b.python("torch/distributed/distributed_c10d.py(2501): all_reduce", |b| {
            let usual = b.rng.jitter(ns, 4);
            let (op, done) = all_reduce(b, usual);
            if which.contains(&call) {
                b.program.ops[op].duration = usual * times;
                repaired_durations.push((op, usual));
            }
            call += 1;
            b.wait(COMPUTE, done);
        });
        repaired_durations
    });
}

/// Inject a search for unused parameters into each step, for 0.5 to 1.5 times the step.
fn search(p: &mut FaultInjector<'_>) {
    let ns = p.draw_step_part(50, 150);
    p.insert_removable(At::Forward, 1, |b| {
        b.python("torch/nn/parallel/distributed.py(1639): forward", |b| {
            b.op("torch.distributed.ddp.reducer::search_unused_parameters", |b| b.spend_about(ns, 8));
        });
    });
}

/// Inject all-reduces of one to four gradient buckets per step, each for 2 to 10 % of the step. A broadcast of the
/// parameters follows at the end of the step. Repaired: each all-reduce takes half the time, as a reduce-scatter would.
fn sums_of_shards(p: &mut FaultInjector<'_>) {
    let (count, ns) = (p.draw_count(1, 4), p.draw_step_part(2, 10));
    let places = p.draw_positions(At::Forward, count).len() as i64;
    p.insert_faster(At::Forward, places as usize, |b| {
        let ns = b.rng.jitter(ns, 4);
        let (op, done) = all_reduce(b, ns);
        b.wait(COMPUTE, done);
        vec![(op, ns / 2)]
    });
    p.insert_both(At::End, 1, |p| {
        let steps = p.build_steps(|b| {
            let ns = b.rng.jitter(ns * places / 2, 4);
            let (_, done) = collective(b, BROADCAST, (places << 20, ns));
            b.wait(COMPUTE, done);
        });
        (steps.clone(), steps)
    });
}

/// Elements of two bytes that a collective moves per ns: 50 GB/s.
const ELEMENTS_PER_NS: i64 = 25;

/// Inject one all-reduce for each of 24 to 48 parameters at the end of each step: 8 to 30 % of the step in latencies.
/// Every second parameter is a bias and takes hardly more than a latency. Repaired: one collective moves all of them,
/// with one latency and the time of all data.
fn one_by_one(p: &mut FaultInjector<'_>) {
    let count = p.draw_count(24, 48);
    let latency = (p.draw_step_part(8, 30) / count as i64).max(12_000);
    let size = |i: usize, rng: &mut Rng| if i.is_multiple_of(2) { 1 << rng.between(12, 16) } else { 512 };
    let sizes: Vec<i64> = (0..count).map(|i| size(i, &mut p.b.rng)).collect();
    let all = [sizes.iter().sum()];
    p.insert_both(At::End, 1, |p| {
        let faulty = p.build_steps(|b| average(b, &sizes, latency));
        let repaired = p.build_steps(|b| average(b, &all, latency));
        (faulty, repaired)
    });
}

/// Launch an all-reduce for each of `sizes` (numbers of elements); other work waits for the last one.
fn average(b: &mut Builder<'_>, sizes: &[i64], latency: i64) {
    b.python("train.py(31): average_parameters", |b| {
        let mut last = None;
        for &elements in sizes {
            let ns = b.rng.jitter(latency, 2) + elements / ELEMENTS_PER_NS;
            b.python("torch/distributed/distributed_c10d.py(2501): all_reduce", |b| {
                last = Some(collective(b, ALL_REDUCE, (elements, ns)).1);
            });
        }
        if let Some(done) = last {
            b.wait(COMPUTE, done);
        }
    });
}

/// Inject two to four passes into each step, each with all-reduces of one to three gradient buckets. An all-reduce
/// takes 3 to 10 % of the step, while no other work runs. Repaired: only the last pass has all-reduces.
fn accumulation(p: &mut FaultInjector<'_>) {
    const HOOK: &str = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";
    let (count, buckets, ns) = (p.draw_count(2, 4), p.draw_count(1, 3), p.draw_step_part(3, 10));
    let mut places = p.draw_positions(At::Forward, count);
    places.sort_unstable();
    for (i, &place) in places.iter().enumerate() {
        for pass in 0..p.passes() {
            let faulty = p.build_steps(|b| {
                b.annotation("DistributedDataParallel.forward", |b| {
                    b.operator_of("aten::addmm", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn", 20_000);
                });
                b.spend(500, 2_000);
                for _ in 0..buckets {
                    let ns = b.rng.jitter(ns, 4);
                    b.op(HOOK, |b| {
                        let (_, done) = all_reduce(b, ns);
                        b.wait(COMPUTE, done);
                    });
                    b.spend(200, 900);
                }
            });
            let mut repaired = faulty.clone();
            if i + 1 < places.len() {
                repaired = without_spans(&faulty, "c10d::allreduce_");
                repaired.retain(|step| !matches!(step, Step::Wait { .. }));
            }
            p.insert((At::Forward, place, pass), faulty, repaired);
        }
    }
}
