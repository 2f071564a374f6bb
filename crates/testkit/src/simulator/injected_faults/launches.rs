//! Injected performance faults: too many launches of short kernels.

use super::Kind;
use super::injector::{At, FaultInjector};
use crate::simulator::Profile;
use crate::simulator::program::build::Builder;
use crate::simulator::program::{self, Program, Span, Step, Work};

pub(super) const KINDS: &[Kind] = &[
    Kind::removable("many small kernels", "SL002", small_kernels).also(&["SL012", "SL036"]),
    Kind::assumed("launch bound", "SL012", |p| p.whole = Some(launch_faster)).shape(short_kernels).also(&["SL002"]),
    Kind::removable("optimizer not fused", "SL015", optimizer).also(&["SL012", "SL036"]),
    Kind::removable("elementwise chains that are not compiled", "SL036", not_compiled),
];

const ELEMENTWISE: &[(&str, &str)] = &[
    ("aten::mul", "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, MulFunctor>>()"),
    ("aten::add", "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>()"),
    ("aten::tanh", "void at::native::vectorized_elementwise_kernel<4, at::native::tanh_kernel_cuda>()"),
    ("aten::pow", "void at::native::vectorized_elementwise_kernel<4, at::native::pow_tensor_scalar_kernel>()"),
    ("aten::div", "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<div_true_kernel_cuda>>()"),
];

/// Inject two to six calls per step of a module that launches 6 to 24 kernels of 1.5 to 7 µs. Repaired: one kernel of
/// their total duration.
fn small_kernels(p: &mut FaultInjector<'_>) {
    let (count, kernels, ns) = (p.draw_count(2, 6), p.draw_count(6, 24), p.b.rng.between(1_500, 7_000));
    p.insert_both(At::Forward, count, |p| {
        let mut total = 0;
        let faulty = p.build_steps(|b| {
            b.python("nn.Module: NewGELU_77", |b| {
                for i in 0..kernels {
                    let (operator, kernel) = ELEMENTWISE[i % ELEMENTWISE.len()];
                    let ns = b.rng.jitter(ns, 10);
                    total += ns;
                    b.operator_of(operator, kernel, ns);
                }
            });
        });
        let repaired = p.build_steps(|b| {
            b.python("nn.Module: NewGELU_77", |b| {
                b.operator_of("aten::gelu", "triton_poi_fused_gelu_0", total);
            });
        });
        (faulty, repaired)
    });
}

/// Give a profile kernels of about a twentieth of the usual durations, in twelve to sixteen modules.
fn short_kernels(profile: &mut Profile) {
    profile.layers = 12 + profile.layers % 5;
    profile.gpu_percent = 3 + profile.gpu_percent % 4;
    profile.copies = false;
    // A few kernels of graphs would be as long as all the others.
    profile.graphs = false;
    profile.workers = 0;
}

/// Reduce the host time in operators that launch kernels to a quarter.
fn launch_faster(program: &mut Program) {
    let kernels: Vec<bool> = program.ops.iter().map(|op| op.work == Work::Kernel).collect();
    let launches = |step: &Step| matches!(step, Step::Launch { ops, .. } if ops.clone().any(|op| kernels[op]));
    for thread in &mut program.threads {
        let mut start = 0;
        while start < thread.steps.len() {
            let length = operator_at(&thread.steps[start..]);
            let inside = &mut thread.steps[start..start + length];
            if inside.iter().any(launches) {
                inside.iter_mut().for_each(quarter);
            }
            start += length.max(1);
        }
    }
}

/// Number of program steps of the operator that the first of `steps` opens; 0 if it opens none.
fn operator_at(steps: &[Step]) -> usize {
    let is_operator = |span: &Span| span.kind == program::Kind::Operator;
    if !matches!(steps.first(), Some(Step::Open(span)) if is_operator(span)) {
        return 0;
    }
    let mut depth = 0;
    let ends = steps.iter().position(|step| {
        depth += i64::from(matches!(step, Step::Open(_))) - i64::from(matches!(step, Step::Close));
        depth == 0
    });
    ends.map_or(0, |end| end + 1)
}

/// Divide the host time of a step by four.
fn quarter(step: &mut Step) {
    if let Step::Spend(own)
    | Step::Call { own, .. }
    | Step::Launch { own, .. }
    | Step::Record { own, .. }
    | Step::Wait { own, .. } = step
    {
        *own = (*own / 4).max(1);
    }
}

/// Inject an optimizer that launches four kernels of 1.5 to 8 µs for each of 8 to 40 parameters. Repaired: one kernel
/// of their total duration.
fn optimizer(p: &mut FaultInjector<'_>) {
    const UPDATE: &[&str] = &["aten::mul_", "aten::lerp_", "aten::addcmul_", "aten::addcdiv_"];
    p.drop_from_base("aten::_foreach_addcdiv_");
    let (parameters, ns) = (p.draw_count(8, 40), p.b.rng.between(1_500, 8_000));
    p.insert_both(At::Update, 1, |p| {
        let mut total = 0;
        let faulty = p.build_steps(|b| {
            for i in 0..parameters * UPDATE.len() {
                let ns = b.rng.jitter(ns, 20);
                total += ns;
                b.operator_of(UPDATE[i % UPDATE.len()], ELEMENTWISE[i % 2].1, ns);
            }
        });
        let fused =
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>()";
        let repaired = p.build_steps(|b| {
            b.operator_of("aten::_fused_adamw_", fused, total);
        });
        (faulty, repaired)
    });
}

/// Inject compiled kernels into each step, and two or three sequences of 12 to 24 elementwise kernels of about 3 to 14 µs.
/// Repaired: only the longest kernel of each sequence remains.
fn not_compiled(p: &mut FaultInjector<'_>) {
    p.insert_both(At::End, 1, |p| {
        let compiled = p.build_steps(|b| {
            b.op("CompiledFunction", |b| {
                for _ in 0..4 {
                    let ns = b.rng.between(8_000, 20_000);
                    b.injected_kernel("triton_red_fused_native_layer_norm_0", ns);
                    b.spend(200, 900);
                }
            });
        });
        (compiled.clone(), compiled)
    });
    let (count, length, ns) = (p.draw_count(2, 3), p.draw_count(12, 24), p.b.rng.between(3_000, 12_000));
    p.insert_both(At::Forward, count, |p| {
        let longest = ns * 12 / 10;
        let gemm = "nvjet_hsh_128x128_64x4_1x2_h_bz_TNN";
        let chain = |b: &mut Builder<'_>, all: usize| {
            b.python("model.py(52): normalize", |b| {
                b.operator_of("aten::mm", gemm, 20_000);
                for i in 0..all {
                    let (operator, kernel) = ELEMENTWISE[i % 4];
                    let ns = if i == 0 { longest } else { b.rng.jitter(ns, 10) };
                    b.operator_of(operator, kernel, ns);
                }
                b.operator_of("aten::mm", gemm, 20_000);
            });
        };
        let faulty = p.build_steps(|b| chain(b, length));
        let repaired = p.build_steps(|b| chain(b, 1));
        (faulty, repaired)
    });
}
