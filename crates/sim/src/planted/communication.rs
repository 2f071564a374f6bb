//! Communication that holds up the work.

use super::Kind;
use super::planter::{At, Planter};
use crate::names;
use crate::program::build::{Builder, COLLECTIVE, COMPUTE};
use crate::program::{Step, Work};

pub(super) const KINDS: &[Kind] = &[
    Kind::gone("collective that nothing overlaps", "SL019", not_overlapped),
    Kind::gone("collective that waits for a slower rank", "SL023", waits_for_others).also(&["SL019", "SL031"]),
    Kind::gone("search for unused parameters", "SL021", search),
];

/// An all-reduce on its own stream; returns its operation and the record of its end.
fn all_reduce(b: &mut Builder<'_>, ns: i64) -> (usize, usize) {
    let mut found = (0, 0);
    b.op("c10d::allreduce_", |b| {
        b.op("record_param_comms", |b| {
            b.annotation("nccl:all_reduce", |b| {
                let ready = b.record(COMPUTE, None);
                b.spend(150, 700);
                b.wait(COLLECTIVE, ready);
                b.spend(150, 700);
                b.launch(Work::Collective, names::ALL_REDUCE, COLLECTIVE, ns);
                let op = b.program.ops.len() - 1;
                b.program.ops[op].details.elements = Some(1 << 20);
                b.spend(150, 700);
                found = (op, b.record(COLLECTIVE, None));
            });
        });
    });
    b.spend(200, 900);
    found
}

/// One to three collectives in each step for which the work waits at once: 5 to 30 % of the step each. Repaired, nothing
/// waits for them.
fn not_overlapped(p: &mut Planter<'_>) {
    let count = p.some(1, 3);
    let ns = p.part(5, 30);
    p.both(At::Forward, count, |p| {
        let planted = p.write(|b| {
            b.python("torch/distributed/distributed_c10d.py(2501): all_reduce", |b| {
                let ns = b.rng.jitter(ns, 5);
                let (_, done) = all_reduce(b, ns);
                b.wait(COMPUTE, done);
            });
        });
        // What waits last is the work.
        let last = planted.iter().rposition(|step| matches!(step, Step::Wait { .. }));
        let mut repaired = planted.clone();
        if let Some(last) = last {
            repaired.remove(last);
        }
        (planted, repaired)
    });
}

/// One or two collectives in each step for which the work waits; one to three in all take 3 to 12 times as long as the
/// others, since another rank comes late.
fn waits_for_others(p: &mut Planter<'_>) {
    let count = p.some(1, 2);
    let (ns, times) = (p.part(3, 10), p.b.rng.between(3, 12));
    let all = count * p.passes();
    let late = p.some(1, 3).min((all - 1) / 2);
    let which = p.b.rng.sample(all, late);
    let mut call = 0;
    p.faster(At::Forward, count, |b| {
        let mut mended = Vec::new();
        b.python("torch/distributed/distributed_c10d.py(2501): all_reduce", |b| {
            let usual = b.rng.jitter(ns, 4);
            let (op, done) = all_reduce(b, usual);
            if which.contains(&call) {
                b.program.ops[op].duration = usual * times;
                mended.push((op, usual));
            }
            call += 1;
            b.wait(COMPUTE, done);
        });
        mended
    });
}

/// Each step looks for parameters that were not used: 0.5 to 1.5 times the step.
fn search(p: &mut Planter<'_>) {
    let ns = p.part(50, 150);
    p.gone(At::Forward, 1, |b| {
        b.python("torch/nn/parallel/distributed.py(1639): forward", |b| {
            b.op("torch.distributed.ddp.reducer::search_unused_parameters", |b| b.around(ns, 8));
        });
    });
}
