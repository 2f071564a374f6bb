//! Injected performance faults: slow or unnecessary copies and type conversions.

use super::Kind;
use super::injector::{At, FaultInjector};
use crate::simulator::Profile;
use crate::simulator::kineto::device;
use crate::simulator::program::build::{Builder, COMPUTE};
use crate::simulator::program::{self, Inputs, Span, Work};

pub(super) const KINDS: &[Kind] = &[
    Kind::assumed("copies from memory that is not pinned", "SL011", pageable).also(&["SL004"]),
    Kind::removable("small tensors made on the host", "SL030", uploads).also(&["SL004"]),
    Kind::removable("parameters cast in each step", "SL016", casts)
        .shape(|profile: &mut Profile| profile.copies = false),
    Kind::removable("copies into another order", "SL017", reorder),
    Kind::assumed("conversions element by element", "SL037", convert),
];

const PAGEABLE: &str = "Memcpy HtoD (Pageable -> Device)";

/// Inject a copy of the batch from memory that is not pinned, at 3 to 9 GB/s, for 0.1 to 0.8 times the step. Repaired:
/// no thread waits for the copy. It is as fast as copies from pinned memory in the trace, or otherwise as usual for
/// this GPU (25 or 50 GB/s).
fn pageable(p: &mut FaultInjector<'_>) {
    let is_h100 = p.b.program.dependent_launch;
    let ns = p.draw_step_part(10, 80).max(60_000);
    let rate = p.b.rng.between(3, 9);
    let of_gpu = if is_h100 { 50 } else { 25 };
    let is_pinned = |op: &&program::Op| op.name.contains("Pinned -> Device");
    let shown = p.b.program.ops.iter().filter(is_pinned).any(|op| device::bytes_moved(op.work, op.duration) >= 1 << 20);
    let pinned = if shown { device::bytes_moved(Work::HostToDevice, 1) } else { of_gpu };
    p.insert_both(At::Start, 1, |p| {
        let bytes = ns * rate;
        let faulty = p.build_steps(|b| {
            to(b, |b| {
                b.blocking_copy(Work::HostToDevice, PAGEABLE, "cudaMemcpyAsync", COMPUTE);
                let op = b.program.ops.len() - 1;
                b.program.ops[op].duration = ns;
                b.program.ops[op].details.bytes = Some(bytes);
            });
        });
        let repaired = p.build_steps(|b| {
            to(b, |b| {
                b.launch(Work::HostToDevice, "Memcpy HtoD (Pinned -> Device)", COMPUTE, bytes / pinned);
            });
        });
        (faulty, repaired)
    });
}

/// Add the operators of `Tensor.to`, with the steps of `body` inside the innermost one.
fn to(b: &mut Builder<'_>, body: impl FnOnce(&mut Builder<'_>)) {
    b.op("aten::to", |b| b.op("aten::_to_copy", |b| b.op("aten::copy_", body)));
    b.spend(200, 900);
}

/// Inject one to four source locations per step that each copy 3 to 8 small tensors, of 8 to 2,048 bytes, from the
/// host.
fn uploads(p: &mut FaultInjector<'_>) {
    let (count, tensors) = (p.draw_count(1, 4), p.draw_count(3, 8));
    let bytes = 8 << p.b.rng.below(9);
    p.insert_removable(At::Forward, count, |b| {
        b.python("model.py(45): forward", |b| {
            for _ in 0..tensors {
                to(b, |b| {
                    b.blocking_copy(Work::HostToDevice, PAGEABLE, "cudaMemcpyAsync", COMPUTE);
                    let op = b.program.ops.len() - 1;
                    b.program.ops[op].duration = 1_200;
                    b.program.ops[op].details.bytes = Some(bytes);
                });
                b.op("aten::lift_fresh", |_| {});
                b.spend(200, 900);
                b.op("aten::detach_", |_| {});
                b.spend(200, 900);
            }
        });
    });
}

/// Inject two to five layers per step that first convert their parameters, each for 0.5 to 4 % of the step. Repaired:
/// without the conversions.
fn casts(p: &mut FaultInjector<'_>) {
    const LAYER: Inputs =
        Inputs { dims: "[[32, 512], [1024, 512], [1024]]", types: "[\"c10::BFloat16\", \"float\", \"float\"]" };
    const CAST: Inputs = Inputs {
        dims: "[[1024, 512], [], [], [], [], [], []]",
        types: "[\"float\", \"Scalar\", \"\", \"\", \"\", \"Scalar\", \"\"]",
    };
    let count = p.draw_count(2, 5);
    let ns = p.step_ns * p.b.rng.between(5, 40) / 1_000;
    let with = |b: &mut Builder<'_>, name: &'static str, inputs: Inputs, body: &mut dyn FnMut(&mut Builder<'_>)| {
        let span = Span { inputs: Some(inputs), ..Span::new(program::Kind::Operator, name) };
        b.span(span, (600, 2_700), (300, 1_100), body);
        b.spend(200, 900);
    };
    p.insert_both(At::Forward, count, |p| {
        let layer = |b: &mut Builder<'_>, casts: bool| {
            with(b, "aten::linear", LAYER, &mut |b| {
                if casts {
                    b.op("aten::to", |b| {
                        with(b, "aten::_to_copy", CAST, &mut |b| {
                            let name = "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda>()";
                            let ns = b.rng.jitter(ns, 5);
                            b.operator_of("aten::copy_", name, ns);
                        });
                    });
                    b.spend(200, 900);
                }
                b.operator_of("aten::addmm", "nvjet_hsh_128x128_64x4_1x2_h_bz_TNN", 2 * ns);
            });
        };
        let faulty = p.build_steps(|b| layer(b, true));
        let repaired = p.build_steps(|b| layer(b, false));
        (faulty, repaired)
    });
}

/// Inject one to four copies of tensors into another memory layout per step, together for 4 to 25 % of the step.
fn reorder(p: &mut FaultInjector<'_>) {
    let count = p.draw_count(1, 4);
    let ns = (p.draw_step_part(4, 25) / count as i64).max(5_000);
    let kernel = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda>>()";
    let operator = if p.b.chance(50) { "aten::contiguous" } else { "aten::reshape" };
    p.insert_removable(At::Forward, count, |b| {
        b.python("model.py(83): heads", |b| {
            let ns = b.rng.jitter(ns, 10);
            b.op(operator, |b| {
                b.op("aten::clone", |b| {
                    b.operator_of("aten::copy_", kernel, ns);
                });
            });
        });
    });
}

/// Inject one to four type conversions per step, each for 3 to 10 % of the step. Repaired: they take 0.65 times as
/// long.
fn convert(p: &mut FaultInjector<'_>) {
    let count = p.draw_count(1, 4);
    let ns = p.draw_step_part(3, 10);
    let kernel = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>()";
    p.insert_faster(At::Forward, count, |b| {
        let ns = b.rng.jitter(ns, 10);
        let mut op = 0;
        b.python("model.py(91): norm", |b| to(b, |b| op = b.injected_kernel(kernel, ns)));
        vec![(op, ns * 65 / 100)]
    });
}
