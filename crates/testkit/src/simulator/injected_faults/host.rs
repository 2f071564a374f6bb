//! Injected faults that delay or block the host.

use super::Kind;
use super::injector::{At, FaultInjector};
use super::kernels::without_spans;
use crate::simulator::Profile;
use crate::simulator::program::build::{Builder, COMPUTE};
use crate::simulator::program::{self, Span, Step, Target, Work, extras};

pub(super) const KINDS: &[Kind] = &[
    Kind::removable("item() in the step", "SL004", item),
    Kind::removable("nonzero() in the step", "SL004", nonzero),
    Kind::removable("torch.cuda.synchronize() in the step", "SL004", synchronize),
    Kind::removable("gc.collect() in the step", "SL025", collect).also(&["SL005"]),
    Kind::removable("Python collects garbage", "SL025", collect_by_itself).also(&["SL031"]).shape(more_steps),
    Kind::removable("logging in the step", "SL029", logging).also(&["SL004", "SL005"]),
    Kind::removable("recompilation", "SL026", recompile).also(&["SL031", "SL005"]).shape(more_steps),
    Kind::removable("graph breaks", "SL027", graph_breaks).also(&["SL005"]),
    Kind::removable("one slow step", "SL031", slow_step).also(&["SL005"]).shape(more_steps),
    Kind::assumed("Python code that all wait for", "SL005", slow_code).least(6.0),
    Kind::assumed("busy Python without a GPU", "SL043", busy_python).least(12.0),
    Kind::removable("cudaMalloc in each step", "SL024", allocate).also(&["SL005"]),
    Kind::assumed("a loop of small operators", "SL038", small_operators).also(&["SL005", "SL012"]),
    Kind::removable("a wait for another thread", "SL039", wait_for_others).also(&["SL005"]),
    Kind::of_measurement("pauses of the profiler", "SL033", profiler_pauses).also(&["SL005"]),
];

/// Give the program of a profile eight to twelve training steps.
pub(super) fn more_steps(profile: &mut Profile) {
    profile.steps = 8 + profile.steps % 5;
}

/// Inject one to three calls of `item()` per step, between modules or at its end, as a blocking copy or as a copy and a
/// wait.
fn item(p: &mut FaultInjector<'_>) {
    let at = if p.b.chance(40) { At::End } else { At::Forward };
    let count = p.draw_count(1, 3);
    p.insert_removable(at, count, |b| b.python("train.py(88): log_loss", extras::item));
}

/// Inject one or two calls of `nonzero()` per step. Repaired: without the copy of the number of elements and the wait
/// for it.
fn nonzero(p: &mut FaultInjector<'_>) {
    let count = p.draw_count(1, 2);
    p.insert_both(At::Forward, count, |p| {
        let faulty = p.build_steps(|b| b.python("model.py(61): select", |b| b.op("aten::nonzero", select)));
        let mut wait = false;
        let stays = |step: &Step| {
            let is_removed = matches!(step, Step::Sync { .. })
                || matches!(step, Step::Launch { name, .. } if name == "cudaMemcpyAsync");
            wait |= is_removed;
            !is_removed
        };
        let mut repaired = faulty.clone();
        repaired.retain(stays);
        (faulty, repaired)
    });
}

/// Add the two kernels of `nonzero()`, with a copy of the number of elements and a wait in between.
fn select(b: &mut Builder<'_>) {
    let counting = "void at_cuda_detail::cub::DeviceReduceKernel<at_cuda_detail::cub::DeviceReducePolicy<bool, int>>()";
    let writing = "void at_cuda_detail::cub::DeviceSelectSweepKernel<at_cuda_detail::cub::DispatchSelectIf<long>>()";
    let (first, second) = (b.rng.between(3_000, 20_000), b.rng.between(4_000, 30_000));
    b.injected_kernel(counting, first);
    b.spend(200, 900);
    let ns = b.rng.between(1_100, 2_500);
    b.launch(Work::DeviceToHost, "Memcpy DtoH (Device -> Pinned)", COMPUTE, ns);
    b.spend(200, 900);
    b.sync(Target::Stream(COMPUTE));
    b.spend(200, 900);
    b.injected_kernel(writing, second);
}

/// Inject one or two device synchronizations per step.
fn synchronize(p: &mut FaultInjector<'_>) {
    let at = if p.b.chance(50) { At::End } else { At::Forward };
    let count = p.draw_count(1, 2);
    p.insert_removable(at, count, |b| {
        b.python("train.py(64): timed", |b| {
            b.python("torch/cuda/__init__.py(985): synchronize", |b| b.sync(Target::Device));
        });
    });
}

/// Inject an explicit garbage collection at the end of each step, for 0.4 to 1.5 times the step.
fn collect(p: &mut FaultInjector<'_>) {
    let ns = p.draw_step_part(40, 150);
    p.insert_removable(At::End, 1, |b| {
        b.python("train.py(70): free", |b| {
            b.python("<built-in method collect of module object at 0x7f52d1b40e50>", |b| b.spend_about(ns, 5));
        });
    });
}

/// Inject automatic garbage collections at random points after the first step: in every to every third step, each for
/// 0.5 to 3 times the step.
fn collect_by_itself(p: &mut FaultInjector<'_>) {
    let (every, ns) = (p.draw_count(1, 3), p.draw_step_part(50, 300));
    for pass in (p.draw_count(1, 2)..p.passes()).step_by(every) {
        let place = p.draw_positions(At::Forward, 1).first().copied().unwrap_or(0);
        let faulty = p.build_steps(|b| b.python("Python GC", |b| b.spend_about(ns, 30)));
        p.insert((At::Forward, place, pass), faulty, Vec::new());
    }
}

/// Inject one to three calls per step that write to a terminal or a file, together for 0.3 to 1.2 times the step. In
/// some programs each call first reads a number from the GPU.
fn logging(p: &mut FaultInjector<'_>) {
    const FRAMES: &[&str] = &[
        "<built-in function print>",
        "logging/__init__.py(1479): info",
        "tqdm/std.py(1325): refresh",
        "torch/utils/tensorboard/writer.py(340): add_scalar",
        "wandb/sdk/wandb_run.py(1703): log",
    ];
    let frame = FRAMES[p.b.rng.below(FRAMES.len())];
    let (count, reads) = (p.draw_count(1, 3), p.b.chance(40));
    let at = if count == 1 { At::End } else { At::Forward };
    let ns = p.draw_step_part(30, 120) / count as i64;
    p.insert_removable(at, count, |b| {
        b.python("train.py(95): report", |b| {
            b.python(frame, |b| {
                if reads {
                    extras::item(b);
                }
                b.spend_about(ns, 15);
            });
        });
    });
}

/// Inject one to three recompilations of a function, in steps after the first one, each for 1 to 6 times the step.
fn recompile(p: &mut FaultInjector<'_>) {
    let (times, ns) = (p.draw_count(1, 3), p.draw_step_part(100, 600));
    let place = p.draw_positions(At::Forward, 1).first().copied().unwrap_or(0);
    for pass in p.b.rng.sample(p.passes() - 1, times) {
        let faulty = p.build_steps(|b| {
            b.python("model.py(30): forward", |b| {
                b.python("torch/_dynamo/convert_frame.py(1080): _compile", |b| b.spend_about(ns, 30));
            });
        });
        p.insert((At::Forward, place, pass + 1), faulty, Vec::new());
    }
}

/// Inject one to three functions with a graph break per step. The cache lookups of their second parts take 0.4 to 1.2
/// times the step in total.
fn graph_breaks(p: &mut FaultInjector<'_>) {
    let count = p.draw_count(1, 3);
    let ns = p.draw_step_part(40, 120) / count as i64;
    p.insert_both(At::Forward, count, |p| {
        let parts = |b: &mut Builder<'_>, is_injected: bool| {
            b.python("model.py(30): forward", |b| {
                b.op("Torch-Compiled Region: 0/0", |b| {
                    b.injected_kernel("triton_red_fused_relu_sum_0", 8_000);
                    b.spend(500, 1_500);
                    b.python("model.py(34): torch_dynamo_resume_in_forward_at_34", |b| {
                        if is_injected {
                            b.op("TorchDynamo Cache Lookup", |b| b.spend_about(ns, 10));
                        }
                        b.op("Torch-Compiled Region: 1/0", |b| {
                            b.injected_kernel("triton_poi_fused_mul_1", 6_000);
                        });
                    });
                });
            });
        };
        let faulty = p.build_steps(|b| parts(b, true));
        let repaired = without_spans(&faulty, "TorchDynamo Cache Lookup");
        (faulty, repaired)
    });
}

/// Inject a wait of 1.5 to 5 times the step at the end of one step.
fn slow_step(p: &mut FaultInjector<'_>) {
    let ns = p.draw_step_part(150, 500);
    let pass = 1 + p.b.rng.below(p.passes() - 2);
    let faulty = p.build_steps(|b| b.python("train.py(140): evaluate", |b| b.spend_about(ns, 0)));
    p.insert((At::End, 0, pass), faulty, Vec::new());
}

/// Inject a Python function into each step that occupies the host for 0.5 to 2.5 times the step. Repaired: half as
/// long.
fn slow_code(p: &mut FaultInjector<'_>) {
    let ns = p.draw_step_part(50, 250).max(400_000);
    halved(p, ns);
}

/// Convert the program to a CPU program with a Python function in each step. The function takes as long as 1 to 4 steps
/// of the original program with a GPU. Repaired: half as long.
fn busy_python(p: &mut FaultInjector<'_>) {
    p.on_the_cpu();
    let ns = p.draw_step_part(100, 400).max(400_000);
    halved(p, ns);
}

/// Inject a Python function into each step that takes about `ns`. Repaired: half as long.
fn halved(p: &mut FaultInjector<'_>, ns: i64) {
    let half = |steps: &[Step]| {
        let halved = |step: &Step| match step {
            Step::Spend(own) => Step::Spend(own / 2),
            step => step.clone(),
        };
        steps.iter().map(halved).collect()
    };
    p.insert_both(At::Forward, 1, |p| {
        let faulty = p.build_steps(|b| b.python("train.py(120): build_mask", |b| b.spend_about(ns, 5)));
        let repaired = half(&faulty);
        (faulty, repaired)
    });
}

/// Inject one to three calls of `cudaMalloc` per step, with or without a `cudaFree` before, each for 0.2 to 0.6 times
/// the step. Repaired: no call.
fn allocate(p: &mut FaultInjector<'_>) {
    let (count, frees) = (p.draw_count(1, 3), p.b.chance(50));
    let ns = p.draw_step_part(20, 60);
    p.insert_both(At::Forward, count, |p| {
        let faulty = p.build_steps(|b| {
            b.python("model.py(48): grow", |b| {
                b.op("aten::empty", |b| {
                    if frees {
                        b.sync(Target::Free);
                        b.spend(200, 1_500);
                    }
                    let own = b.rng.jitter(ns, 10);
                    b.steps.push(Step::Call { name: "cudaMalloc".into(), own });
                });
            });
        });
        let mut repaired = faulty.clone();
        repaired.retain(|step| !matches!(step, Step::Call { .. } | Step::Sync { .. }));
        (faulty, repaired)
    });
}

/// Inject a loop per step that calls one CPU operator at least 60 times, for 0.5 to 1.5 times the step. Repaired: one
/// call remains.
fn small_operators(p: &mut FaultInjector<'_>) {
    let ns = p.draw_step_part(50, 150);
    let calls = (ns / 9_000).max(60);
    let each = ns / calls;
    p.insert_both(At::Forward, 1, |p| {
        let mut body = |calls: i64| {
            p.build_steps(|b| {
                b.python("model.py(71): normalize_rows", |b| {
                    for _ in 0..calls {
                        b.spend_about(each / 3, 10);
                        b.op("aten::add", |b| b.spend_about(each / 2, 10));
                    }
                });
            })
        };
        (body(calls), body(1))
    });
}

/// Inject a wait for another thread or process at the end of each step, for 0.4 to 1.5 times the step.
fn wait_for_others(p: &mut FaultInjector<'_>) {
    const FRAMES: &[&str] = &[
        "concurrent/futures/_base.py(428): result",
        "threading.py(1115): join",
        "multiprocessing/connection.py(246): recv",
        "<built-in function sleep>",
    ];
    let frame = FRAMES[p.b.rng.below(FRAMES.len())];
    let ns = p.draw_step_part(40, 150);
    p.insert_removable(At::End, 1, |b| {
        b.python("train.py(77): save", |b| b.python(frame, |b| b.spend_about(ns, 5)));
    });
}

/// Inject a pause per step in which the profiler writes its data, for 0.6 to 1.5 times the step.
fn profiler_pauses(p: &mut FaultInjector<'_>) {
    let ns = p.draw_step_part(60, 150);
    p.insert_removable(At::End, 1, |b| {
        b.span(Span::new(program::Kind::Overhead, "Activity Buffer Request"), (1, 9), (1, 9), |b| b.spend_about(ns, 5));
    });
}

impl Builder<'_> {
    /// Add a step of about `ns` of exclusive time, varied at random by up to `percent` %.
    pub(super) fn spend_about(&mut self, ns: i64, percent: i64) {
        let own = self.rng.jitter(ns, percent).max(1);
        self.steps.push(Step::Spend(own));
    }
}
