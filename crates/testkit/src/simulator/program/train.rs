//! Structure of a program: steps of a training loop with forward, backward and update, and random features that the
//! profile allows.

use super::build::{Builder, COLLECTIVE, COMPUTE};
use super::{Kind, Program, Role, Sequence, Span, Step, Target, Work, extras, host};
use crate::simulator::{Profile, names};

/// Draw a random training program with the features of `profile`.
pub(crate) fn generate(seed: u64, profile: &Profile) -> Program {
    let mut b = Builder::new(seed, profile);
    let passes = if profile.gil { 2 } else { profile.steps.max(1) };
    let shared = host::Shared::new(&mut b, passes as usize);
    let mut autograd = Vec::new();
    if profile.main_frame {
        b.steps.push(Step::Open(Span::new(Kind::Python, "train.py(12): main")));
        b.spend(2_000, 9_000);
    }
    host::prefetch(&mut b, &shared);
    for pass in 0..passes {
        if profile.steps == 0 || profile.gil {
            one_pass(&mut b, &shared, &mut autograd);
        } else {
            b.annotation(format!("ProfilerStep#{}", pass + 3), |b| one_pass(b, &shared, &mut autograd));
            b.spend(500, 2_500);
        }
    }
    if b.chance(60) {
        b.python("torch/cuda/__init__.py(985): synchronize", |b| b.sync(Target::Device));
        b.spend(300, 1_800);
    }
    if profile.main_frame {
        b.steps.push(Step::Close);
    } else if matches!(b.steps.last(), Some(Step::Spend(_) | Step::Gap { .. })) {
        b.steps.pop();
    }
    b.thread(Role::Main);
    if profile.backward {
        b.steps = autograd;
        b.thread(Role::Autograd);
    }
    host::other_threads(&mut b, &shared);
    b.program
}

/// Add host time between two parts of a pass: a top-level gap if the profile has a second thread with the GIL,
/// otherwise exclusive time.
pub(super) fn time_between_parts(b: &mut Builder<'_>) {
    if b.profile.gil {
        let (own, lag) = (b.rng.between(1_000, 9_000), b.rng.between(5_000, 30_000));
        b.steps.push(Step::Gap { own, lag });
    } else {
        b.spend(300, 4_000);
    }
}

/// Add one training step without its annotation: batch, modules, backward pass or collective, and update.
fn one_pass(b: &mut Builder<'_>, shared: &host::Shared, autograd: &mut Vec<Step>) {
    host::next_batch(b, shared);
    b.draw_equally();
    extras::load_batch(b);
    let mut tape = Vec::new();
    for layer in 0..b.profile.layers {
        let module = names::MODULES[b.rng.below(names::MODULES.len())];
        b.python(format!("nn.Module: {module}_{layer}"), |b| {
            for _ in 0..1 + b.rng.below(3) {
                leaf(b, &mut tape);
            }
        });
        time_between_parts(b);
        if b.chance(70) {
            extras::random_feature(b, shared);
            time_between_parts(b);
        }
    }
    if b.profile.backward && !tape.is_empty() {
        backward(b, shared, autograd, &tape);
        time_between_parts(b);
    } else if b.profile.collectives && b.chance(70) {
        let done = b.python_value("torch/distributed/distributed_c10d.py(2501): all_reduce", all_reduce);
        time_between_parts(b);
        b.python("torch/distributed/distributed_c10d.py(560): wait", |b| b.wait(COMPUTE, done));
        time_between_parts(b);
    }
    if b.chance(50) {
        extras::random_feature(b, shared);
        time_between_parts(b);
    }
    update(b);
    time_between_parts(b);
}

/// Add an operator of the forward pass, also to `tape`; in some cases a kernel that Python launches without an
/// operator.
fn leaf(b: &mut Builder<'_>, tape: &mut Vec<(usize, u64)>) {
    if b.chance(15) {
        // Launched by Python itself, outside of operators.
        b.python("triton/runtime/jit.py(330): run", |b| b.kernel(COMPUTE));
        b.spend(200, 2_500);
        return;
    }
    let which = b.rng.below(names::OPERATORS.len());
    let sequence = b.next_sequence();
    tape.push((which, sequence));
    b.numbered(names::OPERATORS[which], Sequence::Forward(sequence), |b| {
        if b.chance(40) {
            let cheap = names::CHEAP[b.rng.below(names::CHEAP.len())];
            b.op(cheap, |_| {});
            b.spend(200, 900);
        }
        for _ in 0..1 + b.rng.below(2) {
            b.kernel(COMPUTE);
            b.spend(200, 1_500);
        }
        if b.profile.overhead && b.chance(15) {
            b.span(Span::new(Kind::Overhead, "Activity Buffer Request"), (5_000, 60_000), (1, 9), |_| {});
        }
    });
    b.spend(200, 2_500);
}

/// Add the backward pass: the main thread calls the engine and waits; the nodes of `tape` run on the autograd thread.
fn backward(b: &mut Builder<'_>, shared: &host::Shared, autograd: &mut Vec<Step>, tape: &[(usize, u64)]) {
    let (ready, done) = (shared.ready, shared.finished);
    b.python("torch/_tensor.py(570): backward", |b| {
        b.python("torch/autograd/graph.py(815): _engine_run_backward", |b| {
            b.steps.push(Step::Open(Span::new(Kind::Python, names::RUN_BACKWARD)));
            if b.chance(20) {
                b.spend(300, 900);
                b.op("aten::ones_like", |b| b.kernel(COMPUTE));
            }
            b.steps.push(Step::Put(ready));
            b.get(done, (6_000, 25_000));
            b.steps.push(Step::Close);
        });
    });
    let main = std::mem::replace(&mut b.steps, std::mem::take(autograd));
    b.get(ready, (9_000, 40_000));
    nodes(b, tape);
    b.steps.push(Step::Put(done));
    *autograd = std::mem::replace(&mut b.steps, main);
}

/// Add the backward nodes of the operators on `tape`, in reverse order, and their collectives.
fn nodes(b: &mut Builder<'_>, tape: &[(usize, u64)]) {
    let mut reductions = Vec::new();
    for (i, &(which, sequence)) in tape.iter().rev().enumerate() {
        if i > 0 {
            b.spend(400, 2_500);
        }
        let (node, last) = (names::NODES[which], i + 1 == tape.len());
        b.numbered(format!("autograd::engine::evaluate_function: {node}"), Sequence::Backward(sequence), |b| {
            b.numbered(node, Sequence::Backward(sequence), |b| {
                for _ in 0..1 + b.rng.below(2) {
                    b.op("aten::mm", |b| b.kernel(COMPUTE));
                    b.spend(200, 900);
                }
                if b.profile.syncs && b.chance(6) {
                    extras::item(b);
                }
            });
            if b.profile.collectives && (last || b.chance(30)) {
                b.spend(200, 900);
                reductions.push(all_reduce(b));
            }
            if last {
                for done in std::mem::take(&mut reductions) {
                    b.spend(200, 900);
                    b.wait(COMPUTE, done);
                }
            }
        });
    }
}

/// Launch an all-reduce on a separate stream; returns the record of its end.
fn all_reduce(b: &mut Builder<'_>) -> usize {
    let mut done = 0;
    b.op("c10d::allreduce_", |b| {
        b.op("record_param_comms", |b| {
            b.annotation("nccl:all_reduce", |b| {
                let ready = b.record(COMPUTE, None);
                b.spend(150, 700);
                b.wait(COLLECTIVE, ready);
                b.spend(150, 700);
                let duration = b.rng.between(15_000, 300_000);
                b.launch(Work::Collective, names::ALL_REDUCE, COLLECTIVE, duration);
                b.spend(150, 700);
                done = b.record(COLLECTIVE, None);
            });
        });
    });
    done
}

/// Add the optimizer: one operator with one to three kernels.
fn update(b: &mut Builder<'_>) {
    b.python("torch/optim/adamw.py(230): step", |b| {
        b.annotation("Optimizer.step#AdamW.step", |b| {
            b.op("aten::_foreach_addcdiv_", |b| {
                for _ in 0..1 + b.rng.below(3) {
                    b.kernel(COMPUTE);
                    b.spend(150, 900);
                }
            });
        });
    });
}

impl Builder<'_> {
    /// Run `body` inside a Python frame, and return the result.
    fn python_value<T: Default>(&mut self, name: &'static str, body: impl FnOnce(&mut Self) -> T) -> T {
        let mut value = T::default();
        self.python(name, |b| value = body(b));
        value
    }
}
