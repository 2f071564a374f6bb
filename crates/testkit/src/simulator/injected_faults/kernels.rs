//! Injected faults of slow or unnecessary kernels.

use super::Kind;
use super::injector::{At, FaultInjector};
use crate::simulator::Profile;
use crate::simulator::program::build::Builder;
use crate::simulator::program::{Sequence, Step, Work};

pub(super) const KINDS: &[Kind] = &[
    Kind::removable("layout conversions", "SL003", layout),
    Kind::assumed("slow backward", "SL006", backward).shape(with_backward),
    Kind::assumed("backward of indexing", "SL007", index_backward).shape(with_backward),
    Kind::assumed("stalled kernel", "SL008", stalled),
    Kind::assumed("loss not fused", "SL013", loss).shape(with_backward),
    Kind::removable("attention not fused", "SL014", attention),
    Kind::assumed("no tensor cores", "SL018", products),
    Kind::removable("kernels that take far longer once", "SL032", outliers).also(&["SL031"]),
    Kind::assumed("blocks that do not fill warps", "SL035", blocks),
    Kind::removable("a clock that goes down", "SL034", low_clock)
        .also(&["SL031", "SL032"])
        .shape(super::host::more_steps),
];

fn with_backward(profile: &mut Profile) {
    profile.backward = true;
}

/// Inject one to four convolutions per step, with layout conversions before and after them, each for 0.5 to 6 % of the
/// step. Repaired: no conversions.
fn layout(p: &mut FaultInjector<'_>) {
    let count = p.draw_count(1, 4);
    let (ns, times) = (p.step_ns * p.b.rng.between(5, 60) / 1_000, p.b.rng.between(1, 4));
    p.insert_both(At::Forward, count, |p| {
        let convolution = |b: &mut Builder<'_>, converts: bool| {
            b.op("aten::cudnn_convolution", |b| {
                let convert = |b: &mut Builder<'_>, name: &'static str| {
                    let ns = b.rng.jitter(ns, 5);
                    b.injected_kernel(name, ns);
                    b.spend(200, 900);
                };
                if converts {
                    convert(b, "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, true, true, (cudnnKernelDataType_t)0>()");
                }
                b.injected_kernel("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x64x64", ns * times);
                b.spend(200, 900);
                if converts {
                    convert(b, "void cudnn::ops::nhwcToNchwKernel<__half, __half, float, true, false, (cudnnKernelDataType_t)0>()");
                }
            });
        };
        let faulty = p.build_steps(|b| convolution(b, true));
        let repaired = p.build_steps(|b| convolution(b, false));
        (faulty, repaired)
    });
}

/// Lower the GPU clock by 12 to 35 % after at least three steps, so that kernels take correspondingly longer.
fn low_clock(p: &mut FaultInjector<'_>) {
    const MHZ: i64 = 1_410;
    let low = MHZ * p.b.rng.between(65, 88) / 100;
    let pass = 3 + p.b.rng.below(p.passes() - 6);
    let Some(first) = p.first_op(pass) else { return };
    p.b.program.clock = Some((first, [MHZ, low]));
    for op in first..p.b.program.ops.len() {
        let ns = p.b.program.ops[op].duration;
        if p.b.program.ops[op].work == Work::Kernel {
            p.b.program.ops[op].duration = ns * MHZ / low;
            p.set_repaired_duration(op, ns);
        }
    }
}

/// Inject an operator and its backward node into each step. `write` adds the kernels of one of them; it returns the
/// operations that the repair changes, with their new durations in ns.
fn pair(
    p: &mut FaultInjector<'_>,
    operator: &'static str,
    node: &'static str,
    mut write: impl FnMut(&mut Builder<'_>, bool) -> Vec<(usize, i64)>,
) {
    let (forward, backward) = (p.draw_positions(At::Forward, 1), p.draw_positions(At::Backward, 1));
    let first = |places: &[usize]| places.first().copied().unwrap_or(0);
    let (forward, backward) = (first(&forward), first(&backward));
    for pass in 0..p.passes() {
        let sequence = p.b.next_sequence();
        let mut repaired_durations = Vec::new();
        let before = p.build_steps(|b| {
            b.numbered(operator, Sequence::Forward(sequence), |b| repaired_durations.extend(write(b, false)));
        });
        let after = p.build_steps(|b| {
            let outer = format!("autograd::engine::evaluate_function: {node}");
            b.numbered(outer, Sequence::Backward(sequence), |b| {
                b.numbered(node, Sequence::Backward(sequence), |b| repaired_durations.extend(write(b, true)));
            });
        });
        repaired_durations.into_iter().for_each(|(op, ns)| p.set_repaired_duration(op, ns));
        p.insert((At::Forward, forward, pass), before.clone(), before);
        p.insert((At::Backward, backward, pass), after.clone(), after);
    }
}

/// Inject a sampling operator into each step. Its backward pass takes 4 to 20 times its forward pass, and 5 to 40 % of
/// the step. Repaired: two times.
fn backward(p: &mut FaultInjector<'_>) {
    let times = p.b.rng.between(4, 20);
    let ns = p.draw_step_part(5, 40) / times;
    pair(p, "aten::grid_sampler_2d", "GridSampler2DBackward0", |b, is_backward| {
        if !is_backward {
            b.injected_kernel("void at::native::grid_sampler_2d_kernel<float, int>()", ns);
            return Vec::new();
        }
        let op = b.operator_of(
            "aten::grid_sampler_2d_backward",
            "void at::native::grid_sampler_2d_backward_kernel<float>()",
            ns * times,
        );
        vec![(op, 2 * ns)]
    });
}

/// Inject `table[indices]` into each step. Its backward pass takes 6 to 60 times its forward pass, and 5 to 40 % of the
/// step. Repaired: two times.
fn index_backward(p: &mut FaultInjector<'_>) {
    let times = p.b.rng.between(6, 60);
    let ns = p.draw_step_part(5, 40) / times;
    let before = ns.max(1_500);
    pair(p, "aten::index", "IndexBackward0", |b, is_backward| {
        if !is_backward {
            b.injected_kernel(
                "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<>>()",
                before,
            );
            return Vec::new();
        }
        let mut repaired_durations = Vec::new();
        b.op("aten::_index_put_impl_", |b| {
            for i in 0..3 {
                let sort = "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<Policy900, false, long, long>()";
                let add = "void at::native::(anonymous namespace)::indexing_backward_kernel<float, 4>(long*, float*)";
                let (name, part) = if i < 2 { (sort, 10) } else { (add, 80) };
                let op = b.injected_kernel(name, ns * times * part / 100);
                repaired_durations.push((op, 2 * before * part / 100));
                b.spend(200, 900);
            }
        });
        repaired_durations
    });
}

/// Inject a kernel of 25 to 70 % of the step, which stalls for one reason 35 to 80 % of its time. Repaired: half of
/// these stalls.
fn stalled(p: &mut FaultInjector<'_>) {
    let (ns, stalled) = (p.draw_step_part(25, 70), p.b.rng.between(35, 80));
    let samples = p.b.rng.between(400, 9_000);
    let reason = ["memory_dependency", "constant_memory_dependency", "synchronization"][p.b.rng.below(3)];
    p.insert_faster(At::Forward, 1, |b| {
        let op = b.operator_of(
            "aten::embedding_bag",
            "void at::native::EmbeddingBag_updateOutputKernel_sum_mean<float, int>()",
            ns,
        );
        let stalls = format!(
            "{{\"selected\": {}, \"{reason}\": {}, \"not_selected\": {}}}",
            samples * (90 - stalled) / 100,
            samples * stalled / 100,
            samples / 10
        );
        b.program.ops[op].details.stalls = Some(stalls);
        // Shares as in the samples, which are integers.
        let (selected, all) =
            (samples * stalled / 100, samples * (90 - stalled) / 100 + samples * stalled / 100 + samples / 10);
        vec![(op, ns - ns * selected / all / 2)]
    });
}

/// Inject softmax and loss in separate kernels. Softmax and its backward pass each take 3 to 15 % of the step, the loss
/// 1 to 4 %. Repaired: softmax takes 0.6 times as long, and the loss no time.
fn loss(p: &mut FaultInjector<'_>) {
    let (softmax, nll) = (p.draw_step_part(3, 15), p.draw_step_part(1, 4));
    let (forward, backward) = (p.draw_positions(At::Forward, 1), p.draw_positions(At::Backward, 1));
    let first = |places: &[usize]| places.first().copied().unwrap_or(0);
    for pass in 0..p.passes() {
        let mut repaired_durations = Vec::new();
        let sequences = [p.b.next_sequence(), p.b.next_sequence()];
        let mut before = |b: &mut Builder<'_>, is_injected: bool| {
            b.op("aten::cross_entropy_loss", |b| {
                b.op("aten::log_softmax", |b| {
                    b.numbered("aten::_log_softmax", Sequence::Forward(sequences[0]), |b| {
                        let name = "void (anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>()";
                        let op = b.injected_kernel(name, softmax);
                        repaired_durations.push((op, softmax * 6 / 10));
                    });
                });
                if is_injected {
                    b.op("aten::nll_loss_nd", |b| {
                        b.numbered("aten::nll_loss_forward", Sequence::Forward(sequences[1]), |b| {
                            b.injected_kernel("void at::native::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>()", nll);
                        });
                    });
                }
            });
        };
        let faulty = p.build_steps(|b| before(b, true));
        let repaired = without_spans(&faulty, "aten::nll_loss_nd");
        p.insert((At::Forward, first(&forward), pass), faulty, repaired);
        let faulty = p.build_steps(|b| {
            b.numbered("NllLossBackward0", Sequence::Backward(sequences[1]), |b| {
                b.operator_of("aten::nll_loss_backward", "void at::native::nll_loss_backward_reduce_cuda_kernel_2d<float, long>()", nll);
            });
            b.numbered("LogSoftmaxBackward0", Sequence::Backward(sequences[0]), |b| {
                let name = "void (anonymous namespace)::cunn_SoftMaxBackward<4, float, float, float, LogSoftMaxBackwardEpilogue>()";
                let op = b.operator_of("aten::_log_softmax_backward_data", name, softmax);
                repaired_durations.push((op, softmax * 6 / 10));
            });
        });
        let repaired = without_spans(&faulty, "NllLossBackward0");
        p.insert((At::Backward, first(&backward), pass), faulty, repaired);
        repaired_durations.into_iter().for_each(|(op, ns)| p.set_repaired_duration(op, ns));
    }
}

/// Copy of program steps without the spans of this name and their contents.
pub(super) fn without_spans(steps: &[Step], name: &str) -> Vec<Step> {
    let mut kept = Vec::new();
    let mut within = 0;
    for step in steps {
        match step {
            Step::Open(span) if within > 0 || span.name == name => within += 1,
            Step::Close if within > 0 => within -= 1,
            _ if within > 0 => {}
            step => kept.push(step.clone()),
        }
    }
    kept
}

/// Inject one to four attentions per step, with two to four kernels between their matrix products, each for 0.5 to 4 %
/// of the step. Repaired: these kernels are removed.
fn attention(p: &mut FaultInjector<'_>) {
    const BETWEEN: &[(&str, &str)] = &[
        ("aten::_softmax", "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, true>()"),
        ("aten::div", "void at::native::vectorized_elementwise_kernel<4, at::native::BUnaryFunctor<div>>()"),
        ("aten::masked_fill_", "void at::native::vectorized_elementwise_kernel<4, at::native::masked_fill_kernel>()"),
        ("aten::native_dropout", "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, 4>()"),
    ];
    let (count, kernels) = (p.draw_count(1, 4), p.draw_count(2, 4));
    let ns = p.step_ns * p.b.rng.between(5, 40) / 1_000;
    // Scale and mask precede the softmax, and dropout follows it.
    let order: &[usize] = [&[1, 0][..], &[1, 0, 3], &[1, 2, 0, 3]][kernels - 2];
    p.insert_both(At::Forward, count, |p| {
        let attend = |b: &mut Builder<'_>, is_injected: bool| {
            b.python("model.py(77): attention", |b| {
                let product = "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT";
                b.operator_of("aten::bmm", product, ns);
                for &i in order.iter().filter(|_| is_injected) {
                    let ns = b.rng.jitter(ns, 20);
                    b.operator_of(BETWEEN[i].0, BETWEEN[i].1, ns);
                }
                b.operator_of("aten::bmm", product, ns);
            });
        };
        let faulty = p.build_steps(|b| attend(b, true));
        let repaired = p.build_steps(|b| attend(b, false));
        (faulty, repaired)
    });
}

/// Inject one to four float32 matrix products per step, together for 8 to 40 % of the step. Repaired: they take half as
/// long.
fn products(p: &mut FaultInjector<'_>) {
    let count = p.draw_count(1, 4);
    let ns = (p.draw_step_part(8, 40) / count as i64).max(20_000);
    let name = ["ampere_sgemm_128x64_nn", "ampere_sgemm_64x64_tn", "volta_sgemm_128x128_nt"][p.b.rng.below(3)];
    p.insert_faster(At::Forward, count, |b| {
        let ns = b.rng.jitter(ns, 20);
        vec![(b.operator_of("aten::addmm", name, ns), ns / 2)]
    });
}

/// Inject a kernel that runs six times per step. One or two of all its executions take 6 to 40 times as long as the
/// others, and 0.3 to 2 times the step. Repaired: all take as long as usual.
fn outliers(p: &mut FaultInjector<'_>) {
    let (long, times) = (p.draw_step_part(30, 200), p.b.rng.between(6, 40));
    let (ns, each) = (long / times, 6);
    let all = p.passes() * each;
    let most = (all / 20).clamp(1, 2);
    let count = p.draw_count(1, most);
    let which = p.b.rng.sample(all, count);
    let mut run = 0;
    p.insert_both(At::Forward, 1, |p| {
        let mut repaired_durations = Vec::new();
        let steps = p.build_steps(|b| {
            b.python("model.py(101): mix", |b| {
                for _ in 0..each {
                    let usual = b.rng.jitter(ns, 3);
                    let op = b.operator_of(
                        "aten::cumsum",
                        "void at::native::tensor_kernel_scan_innermost_dim<float>()",
                        usual,
                    );
                    if which.contains(&run) {
                        b.program.ops[op].duration = usual * times;
                        repaired_durations.push((op, usual));
                    }
                    run += 1;
                }
            });
        });
        repaired_durations.into_iter().for_each(|(op, ns)| p.set_repaired_duration(op, ns));
        (steps.clone(), steps)
    });
}

/// Inject one to three kernels per step, each of 5 to 25 % of the step. Their blocks have 33 to 200 threads, not a
/// multiple of 32. Repaired: shorter by the fraction of idle lanes.
fn blocks(p: &mut FaultInjector<'_>) {
    let count = p.draw_count(1, 3);
    let (ns, threads) = (p.draw_step_part(5, 25), [33, 36, 40, 48, 72, 80, 100, 144, 200][p.b.rng.below(9)]);
    let lanes = (threads + 31) / 32 * 32;
    p.insert_faster(At::Forward, count, |b| {
        let op = b.operator_of(
            "aten::upsample_nearest2d",
            "void upsample_nearest2d_out_frame<float, compute>(float const*)",
            ns,
        );
        b.program.ops[op].details.block = Some(threads);
        vec![(op, ns * threads / lanes)]
    });
}
