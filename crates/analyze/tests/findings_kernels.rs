//! Rules about kernels: GPU work and its launches.

use crate::findings_support;

use findings_support::{Program, text};
use serde_json::json;

/// Three steps of a model that wait for the GPU at their end: `inside` runs in each.
pub(crate) fn steps(mut inside: impl FnMut(&mut Program)) -> Program {
    let mut program = Program::new();
    for number in 0..3 {
        program.step(number, |p| {
            p.python("train.py(10): step", &mut inside);
            p.sync("cudaDeviceSynchronize");
        });
    }
    program
}

/// The gain of the only finding of a rule, in ns a step.
pub(crate) fn gain(program: &Program, code: &str) -> i64 {
    let found = program.found(code);
    assert_eq!(found.len(), 1, "{}", text(&found));
    found[0].gain_ns()
}

/// Assert that the gain of a rule's only finding equals the savings of the repaired program, within some µs a step.
#[track_caller]
fn assert_gain(program: &Program, code: &str, repaired: &Program, within_us: i64) {
    let (gain, truth) = (gain(program, code), program.findings().step_ns - repaired.findings().step_ns);
    assert!((gain - truth).abs() <= within_us * 1000, "predicted {gain} ns, true {truth} ns");
    assert_eq!(repaired.found(code), [], "the repaired program still has it");
}

/// A forward operator, numbered for its backward.
fn forward(p: &mut Program, name: &str, number: i64, inside: impl FnOnce(&mut Program)) {
    p.op_with(name, json!({"Sequence number": number, "Fwd thread id": 0}), inside);
}

/// The backward of the forward operator with the same number.
fn backward(p: &mut Program, name: &str, number: i64, inside: impl FnOnce(&mut Program)) {
    let args = json!({"Sequence number": number, "Fwd thread id": 1});
    p.op(&format!("autograd::engine::evaluate_function: {name}"), |p| p.op_with(name, args, inside));
}

fn indexing(backward_us: i64) -> Program {
    let mut number = 0;
    steps(|p| {
        number += 1;
        forward(p, "aten::index", number, |p| p.kernel("index_elementwise_kernel", 20));
        p.op("aten::mm", |p| p.kernel("gemm", 500));
        backward(p, "IndexBackward0", number, |p| {
            p.op("aten::_index_put_impl_", |p| {
                p.kernel("cub::DeviceRadixSortOnesweepKernel", backward_us / 10);
                p.kernel("void at::native::indexing_backward_kernel<float>", backward_us - backward_us / 10);
            });
        });
    })
}

#[test]
fn backward_of_indexing() {
    let slow = indexing(800);
    insta::assert_snapshot!(text(&slow.found("SL007")));
    // 800 µs become twice the 20 µs of the forward.
    assert_eq!(gain(&slow, "SL007"), 760_000);
    assert_gain(&slow, "SL007", &indexing(40), 1);
    // Without links to forward operators a quarter is supposed to be left.
    let unlinked = steps(|p| {
        p.op("IndexBackward0", |p| p.kernel("void at::native::indexing_backward_kernel<float>", 800));
    });
    assert_eq!(gain(&unlinked, "SL007"), 600_000);
    // Sorted additions that the program asks for itself are no backward.
    let own = steps(|p| {
        p.op("aten::index_put_", |p| p.kernel("void at::native::indexing_backward_kernel<float>", 800));
    });
    assert_eq!(own.found("SL007"), []);
}

fn optimizer(inside: impl Fn(&mut Program)) -> Program {
    steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 20));
        p.annotation("Optimizer.step#SGD.step", &inside);
    })
}

#[test]
fn unfused_optimizers() {
    let single = optimizer(|p| {
        for _ in 0..40 {
            p.op("aten::add_", |p| p.kernel("vectorized_elementwise_kernel", 3));
        }
    });
    insta::assert_snapshot!(text(&single.found("SL015")));
    let fused = optimizer(|p| p.op("aten::_fused_sgd_", |p| p.kernel("multi_tensor_apply_kernel", 120)));
    assert_gain(&single, "SL015", &fused, 3);
    // `step(closure)` runs the model in it: which kernels are the optimizer's is not known.
    let with_closure = optimizer(|p| {
        let forward = "vectorized_elementwise_kernel";
        (0..40).for_each(|_| p.op("aten::relu", |p| p.kernel(forward, 3)));
        p.op("autograd::engine::evaluate_function: ReluBackward0", |p| p.kernel(forward, 3));
        p.op("aten::_foreach_add_", |p| p.kernel("multi_tensor_apply_kernel", 120));
    });
    assert_eq!(with_closure.found("SL015"), []);
}

#[test]
fn zeroed_gradients() {
    let zeroed = |inside: fn(&mut Program), is_old: bool| {
        steps(move |p| {
            let name = "Optimizer.zero_grad#SGD.zero_grad";
            if is_old {
                p.op(name, inside);
            } else {
                p.annotation(name, inside);
            }
            p.op("aten::mm", |p| p.kernel("gemm", 200));
        })
    };
    let fill = |p: &mut Program| {
        for _ in 0..40 {
            p.op("aten::zero_", |p| p.op("aten::fill_", |p| p.kernel("vectorized_elementwise_kernel", 2)));
        }
    };
    let (filled, removed) = (zeroed(fill, false), zeroed(|_| (), false));
    insta::assert_snapshot!(text(&filled.found("SL042")));
    assert_gain(&filled, "SL042", &removed, 5);
    assert_eq!(removed.found("SL042"), []);
    let at_once = |p: &mut Program| p.op("aten::_foreach_zero_", |p| p.kernel("multi_tensor_apply_kernel", 8));
    let found = zeroed(at_once, false).found("SL042");
    let title = &found[0].title;
    assert!(title.starts_with("Zeroed gradients: SGD.zero_grad fills gradients with zeros ("), "{title}");
    assert!(title.ends_with(" per step on the host), and the backward pass adds to them"), "{title}");
    let few = |p: &mut Program| {
        let shapes = json!({"Input Dims": [[[8, 8], [8], [4]]]});
        p.op_with("aten::_foreach_zero_", shapes, |p| p.kernel("multi_tensor_apply_kernel", 8));
    };
    assert_eq!(zeroed(few, false).found("SL042"), [], "three gradients");
    // Of a module: only a frame has a name.
    let of_module = steps(|p| {
        p.python("torch/nn/modules/module.py(2432): zero_grad", fill);
        p.op("aten::mm", |p| p.kernel("gemm", 200));
    });
    let found = of_module.found("SL042");
    assert_eq!(
        found.iter().map(|found| found.title.as_str()).collect::<Vec<_>>(),
        [
            "Zeroed gradients: Module.zero_grad fills 40 gradients with zeros (400.0 µs per step on the host), and the backward pass adds to them"
        ]
    );
    // Traces of 2021 and before have it among the operators, where it is no operator to be compiled.
    let old = zeroed(fill, true);
    assert_eq!(old.found("SL042").len(), 1);
    assert_eq!(old.found("SL002"), []);
}

#[test]
fn findings_corpus_kernels() {
    let Some(corpus) = stackline_testkit::corpus::folder() else { return };
    for (name, code, fires) in [
        // Eager attention: the scores are scaled and normalised in memory.
        ("nvidia-h100-timesformer", "SL014", true),
        ("amd-mi300-timesformer", "SL014", true),
        // Flash attention.
        ("nvidia-h100-qwen1.5-0.5b", "SL014", false),
        // Keys and values are repeated for the heads.
        ("nvidia-h100-qwen1.5-0.5b", "SL017", true),
        // The GPU is busy all the time.
        ("nvidia-h100-qwen1.5-0.5b", "SL012", false),
        // 0.3 ms of kernels in 4.4 ms.
        ("nvidia-h100-bert-small", "SL012", true),
        // What takes the time is tuning and loading of kernels.
        ("amd-mi300-normalization", "SL012", false),
        ("amd-mi300-normalization", "SL005", false),
        // The thread waits for others, without a record of it.
        ("mtia-inference", "SL005", false),
        // The text encoders are not compiled, the transformer is.
        ("amd-mi300-sd3.5-diffusion", "SL036", true),
        // One unaligned product of 7.8 ms is 39 % of a compiled backward, which takes 12 times its forward.
        ("nvidia-a100-graph-launch-16-ranks", "SL006", true),
        // 161 parameters, each with kernels of its own; the trace has the optimizer among the operators.
        ("schema-2020-bare-array-resnet50", "SL015", true),
        ("schema-2020-bare-array-resnet50", "SL042", true),
        ("schema-2020-bare-array-resnet50", "SL002", false),
        ("schema-2021-v100-resnet50", "SL015", true),
        // The optimizer takes lists of tensors.
        ("nvidia-a100-ddp-nccl", "SL015", false),
        // Products in float32, but the host is what takes the time.
        ("nvidia-2080ti-linear", "SL018", false),
        // A kernel of one thread that spins on purpose.
        ("nvidia-a100-event-sync", "SL035", false),
    ] {
        let trace = crate::support::read_file(&corpus.join(format!("kineto/{name}.json.gz")));
        let found = findings_support::find(&trace, &[]).findings;
        assert_eq!(found.iter().any(|f| f.rule.code == code), fires, "{code} on {name}: {}", text(&found));
    }
}

fn attention(between: &[(&str, &str)]) -> Program {
    steps(|p| {
        p.op("aten::matmul", |p| p.op("aten::bmm", |p| p.kernel("gemm", 100)));
        for (operator, kernel) in between {
            p.op(operator, |p| p.kernel(kernel, 150));
        }
        p.op("aten::matmul", |p| p.op("aten::bmm", |p| p.kernel("gemm", 100)));
    })
}

#[test]
fn unfused_attention() {
    let parts = attention(&[("aten::mul", "mul"), ("aten::_softmax", "softmax")]);
    insta::assert_snapshot!(text(&parts.found("SL014")));
    assert_gain(&parts, "SL014", &attention(&[]), 1);
    // Other layers between the softmax and the product: no attention.
    let other = attention(&[("aten::mm", "gemm"), ("aten::_softmax", "softmax")]);
    assert_eq!(other.found("SL014"), []);
    let only_a_softmax = steps(|p| p.op("aten::_softmax", |p| p.kernel("softmax", 300)));
    assert_eq!(only_a_softmax.found("SL014"), []);
}

fn loss(is_fused: bool) -> Program {
    steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 1000));
        let us = if is_fused { 60 } else { 100 };
        p.op("aten::cross_entropy_loss", |p| {
            if !is_fused {
                p.op("aten::to", |p| p.op("aten::_to_copy", |p| p.kernel("copy", 50)));
            }
            p.op("aten::_log_softmax", |p| p.kernel("softmax", us));
            if !is_fused {
                p.op("aten::nll_loss_forward", |p| p.kernel("nll", 30));
            }
        });
        if !is_fused {
            p.op("aten::nll_loss_backward", |p| p.kernel("nll_backward", 70));
        }
        p.op("aten::_log_softmax_backward_data", |p| p.kernel("softmax_backward", us));
    })
}

#[test]
fn unfused_cross_entropy() {
    let parts = loss(false);
    insta::assert_snapshot!(text(&parts.found("SL013")));
    // The copy, nll_loss and its backward go: 150 µs; 0.4 of 200 µs of log_softmax. And one or two µs between kernels.
    assert!((gain(&parts, "SL013") - 230_000).abs() <= 1000);
    assert_gain(&parts, "SL013", &loss(true), 1);
    let no_loss = steps(|p| p.op("aten::_log_softmax", |p| p.kernel("softmax", 300)));
    assert_eq!(no_loss.found("SL013"), []);
}

/// Layers whose parameters are converted in each step.
fn casts(parameter: bool) -> Program {
    let shapes = json!({"Input Dims": [[8, 64], [256, 64], [256]], "Input type": ["float", "float", "float"]});
    let cast = json!({"Input Dims": [if parameter { [256, 64] } else { [8, 64] }], "Input type": ["float"]});
    steps(|p| {
        p.op_with("aten::linear", shapes.clone(), |p| {
            p.op("aten::to", |p| p.op_with("aten::_to_copy", cast.clone(), |p| p.kernel("bfloat16_copy_kernel", 90)));
            p.op("aten::addmm", |p| p.kernel("gemm", 200));
        });
    })
}

#[test]
fn repeated_parameter_casts() {
    let repeated = casts(true);
    insta::assert_snapshot!(text(&repeated.found("SL016")));
    let once = steps(|p| p.op("aten::linear", |p| p.op("aten::addmm", |p| p.kernel("gemm", 200))));
    assert_gain(&repeated, "SL016", &once, 1);
    assert_eq!(casts(false).found("SL016"), [], "inputs are others in each step");
}

const REORDERS: &str = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda";

fn copies(operator: &str, kernel: &str) -> Program {
    steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 300));
        if !kernel.is_empty() {
            p.op(operator, |p| p.op("aten::copy_", |p| p.kernel(kernel, 100)));
        }
        p.op("aten::mm", |p| p.kernel("gemm", 300));
    })
}

#[test]
fn reordering_copies() {
    let reordered = copies("aten::contiguous", REORDERS);
    insta::assert_snapshot!(text(&reordered.found("SL017")));
    assert_gain(&reordered, "SL017", &copies("", ""), 1);
    for (operator, kernel) in
        [("aten::index_copy_", REORDERS), ("aten::_to_copy", REORDERS), ("aten::clone", "Memcpy DtoD")]
    {
        assert_eq!(copies(operator, kernel).found("SL017"), [], "{operator} {kernel}");
    }
}

#[test]
fn elementwise_conversions() {
    let general = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda";
    let slow = copies("aten::_to_copy", general);
    insta::assert_snapshot!(text(&slow.found("SL037")));
    // 0.35 of 100 µs.
    assert_eq!(gain(&slow, "SL037"), 35_000);
    for kernel in [REORDERS, "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda"]
    {
        assert_eq!(copies("aten::_to_copy", kernel).found("SL037"), [], "{kernel}");
    }
}

fn product(kernel: &str, us: i64) -> Program {
    steps(|p| {
        p.op("aten::mm", |p| p.kernel(kernel, us));
        p.op("aten::add", |p| p.kernel("add", 100));
    })
}

#[test]
fn products_without_tensor_cores() {
    let float32 = product("ampere_sgemm_128x64_nn", 400);
    insta::assert_snapshot!(text(&float32.found("SL018")));
    assert_gain(&float32, "SL018", &product("ampere_bf16_s16816gemm_128x64", 100), 1);
    for (kernel, us) in [("cutlass_80_tensorop_s1688gemm_256x64", 400), ("ampere_sgemm_32x32_sliced1x4_tn", 9)] {
        assert_eq!(product(kernel, us).found("SL018"), [], "{kernel}");
    }
}

fn with_backward(name: &str, forward_us: i64, backward_us: i64) -> Program {
    let mut number = 0;
    steps(|p| {
        number += 1;
        forward(p, name, number, |p| p.kernel("forward", forward_us));
        p.op("aten::mm", |p| p.kernel("gemm", 500));
        backward(p, "Backward0", number, |p| p.op("backward", |p| p.kernel("backward", backward_us)));
    })
}

#[test]
fn backward_much_slower_than_forward() {
    let slow = with_backward("aten::grid_sampler_2d", 50, 400);
    insta::assert_snapshot!(text(&slow.found("SL006")));
    // 400 µs become twice the 50 µs of the forward.
    assert_eq!(gain(&slow, "SL006"), 300_000);
    assert_gain(&slow, "SL006", &with_backward("aten::grid_sampler_2d", 50, 100), 1);
    // A forward that reads some rows, and a gradient of all of the table.
    for table in ["aten::embedding", "aten::embedding_bag", "aten::gather", "aten::index_select"] {
        assert_eq!(with_backward(table, 1, 671).found("SL006"), [], "{table}");
    }
    assert_eq!(with_backward("aten::convolution", 200, 400).found("SL006"), []);
    assert_eq!(with_backward("CheckpointFunction", 50, 400).found("SL006"), []);
}

fn stalled(reasons: &serde_json::Value, us: i64) -> Program {
    steps(|p| {
        p.op("aten::mul", |p| {
            p.launch(("cudaLaunchKernel", "kernel"), "mul", us, 7, json!({"stall_reasons": reasons}));
        });
        p.op("aten::mm", |p| p.kernel("gemm", 100));
    })
}

#[test]
fn stalled_kernels() {
    let memory = stalled(&json!({"memory_dependency": 600, "selected": 300, "barrier": 100}), 400);
    insta::assert_snapshot!(text(&memory.found("SL008")));
    // Half of 60 % of 400 µs.
    assert_eq!(gain(&memory, "SL008"), 120_000);
    let busy = stalled(&json!({"memory_dependency": 200, "selected": 700, "barrier": 100}), 400);
    assert_eq!(busy.found("SL008"), []);
    assert!(product("gemm", 100).findings().unchecked.iter().any(|u| u.rule.code == "SL008"));
}

fn blocks(threads: [i64; 3], us: i64) -> Program {
    grid([4, 64, 1], threads, us)
}

fn grid(blocks: [i64; 3], threads: [i64; 3], us: i64) -> Program {
    let args = json!({"grid": blocks, "block": threads});
    steps(|p| {
        p.op("aten::mul", |p| p.launch(("cudaLaunchKernel", "kernel"), "mul", us, 7, args.clone()));
        p.op("aten::mm", |p| p.kernel("gemm", 100));
    })
}

#[test]
fn block_size_with_idle_lanes() {
    let odd = blocks([48, 1, 1], 400);
    insta::assert_snapshot!(text(&odd.found("SL035")));
    // 48 threads take two groups of 32: 300 µs were enough.
    assert_gain(&odd, "SL035", &blocks([64, 1, 1], 300), 1);
    assert_eq!(gain(&blocks([4, 4, 1], 400), "SL035"), 200_000);
    assert_eq!(blocks([8, 4, 2], 400).found("SL035"), []);
    assert_eq!(grid([1, 1, 1], [1, 1, 1], 400).found("SL035"), [], "one block does not fill the GPU anyway");
}

#[test]
fn too_few_blocks() {
    // Of 108, on an A100.
    let few = grid([27, 1, 1], [512, 1, 1], 400);
    insta::assert_snapshot!(text(&few.found("SL041")));
    assert_gain(&few, "SL041", &grid([108, 1, 1], [128, 1, 1], 100), 1);
    // Blocks of one group cannot be divided further.
    assert_eq!(gain(&grid([27, 1, 1], [64, 1, 1], 400), "SL041"), 200_000);
    assert_eq!(grid([27, 1, 1], [32, 1, 1], 400).found("SL041"), []);
    assert_eq!(grid([108, 1, 1], [512, 1, 1], 400).found("SL041"), [], "as many as there are multiprocessors");
    assert_eq!(grid([27, 1, 1], [512, 1, 1], 10).found("SL041"), [], "mostly its launch");
    let collective = steps(|p| {
        let args = json!({"grid": [16, 1, 1], "block": [544, 1, 1]});
        p.op("aten::mul", |p| p.launch(("cudaLaunchKernel", "kernel"), "ncclKernel_SendRecv(x)", 400, 7, args.clone()));
    });
    assert_eq!(collective.found("SL041"), [], "it takes few on purpose");
}

fn partly_compiled(kernels: &[&str]) -> Program {
    partly_compiled_in("aten::mul", kernels)
}

fn partly_compiled_in(operator: &str, kernels: &[&str]) -> Program {
    steps(|p| {
        for _ in 0..5 {
            p.op("triton_poi_fused_add_0", |p| p.kernel("triton_poi_fused_add_0", 20));
        }
        for _ in 0..10 {
            for kernel in kernels {
                p.op(operator, |p| p.kernel(kernel, 20));
            }
            p.op("aten::mm", |p| p.kernel("gemm", 20));
        }
    })
}

#[test]
fn eager_chains_in_compiled_programs() {
    let eager = "void at::native::vectorized_elementwise_kernel<4, add>";
    let chains = partly_compiled(&[eager, eager, eager]);
    insta::assert_snapshot!(text(&chains.found("SL036")));
    assert_gain(&chains, "SL036", &partly_compiled(&[eager]), 1);
    assert_eq!(partly_compiled(&["gemm", eager, "gemm"]).found("SL036"), []);
    let summed = partly_compiled_in("torch::autograd::AccumulateGrad", &[eager, eager, eager]);
    assert_eq!(summed.found("SL036"), [], "nobody compiles the autograd engine");
}

fn launching(host_us: i64, kernel_us: i64) -> Program {
    steps(|p| {
        for _ in 0..100 {
            p.op("aten::add", |p| {
                p.work(host_us);
                p.kernel("add", kernel_us);
            });
        }
    })
}

#[test]
fn launch_bound_kernels() {
    let slow = launching(8, 3);
    insta::assert_snapshot!(text(&slow.found("SL012")));
    // 100 operators of 16 µs become 4 µs each.
    assert!((gain(&slow, "SL012") - 1_200_000).abs() <= 20_000);
    assert_eq!(launching(8, 25).found("SL012"), [], "the GPU has enough to do");
    assert_eq!(launching(8, 50).found("SL012"), []);
    let replayed = steps(|p| {
        for _ in 0..100 {
            p.op("aten::add", |p| {
                p.work(8);
                p.launch(("cudaGraphLaunch", "kernel"), "add", 3, 7, json!({}));
            });
        }
    });
    assert_eq!(replayed.found("SL012"), [], "graphs launch it");
}

fn masks(host_us: i64, launches: usize) -> Program {
    steps(|p| {
        p.python("train.py(30): build_mask", |p| {
            for _ in 0..launches {
                p.work(host_us / launches as i64);
                p.op("aten::fill_", |p| p.kernel("fill", 5));
            }
        });
        p.op("aten::mm", |p| p.kernel("gemm", 300));
    })
}

#[test]
fn host_work_on_the_critical_path() {
    let slow = masks(1000, 1);
    insta::assert_snapshot!(text(&slow.found("SL005")));
    // Half of 1010 µs.
    assert!((gain(&slow, "SL005") - 505_000).abs() <= 3000);
    assert_eq!(masks(1000, 20).found("SL005"), [], "its launches are slow: another rule's");
    assert_eq!(masks(20, 1).found("SL005"), []);
}
