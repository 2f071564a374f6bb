//! Kinds of waste whose gain was first measured on an H100: their findings and bounds.

use crate::findings_kernels::{gain, steps};
use crate::findings_support::Program;
use serde_json::json;

fn product(kernel: &str, vocabulary: i64) -> Program {
    let shapes = json!({"Input Dims": [[16384, 512], [512, vocabulary]]});
    steps(|p| {
        p.op_with("aten::mm", shapes.clone(), |p| p.kernel(kernel, 400));
        p.op("aten::add", |p| p.kernel("add", 600));
    })
}

#[test]
fn misaligned_products() {
    let odd = product("void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>", 50_257);
    let found = odd.found("SL063");
    assert_eq!(found.len(), 1);
    assert!(found[0].title.contains("40 % of GPU time, dimension 50257 is not a multiple of 8"), "{}", found[0].title);
    // 400 µs become 100; at least 240 are left, at most 50 go by more.
    let gain = found[0].gain.expect("replayed");
    assert!((gain.likely_ns - 300_000).abs() < 2_000, "{gain:?}");
    assert!((gain.low_ns - 160_000).abs() < 3_000 && (gain.high_ns - 350_000).abs() < 3_000, "{gain:?}");
    for kernel in
        ["cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_tn_align8", "cutlass_80_simt_sgemm_64x64_8x5_nn_align1"]
    {
        assert_eq!(product(kernel, 50_257).found("SL063"), [], "{kernel}");
    }
}

/// Weights are copied to the GPU on this stream, each time before a product of so many µs.
fn offloaded(stream: usize, product: i64) -> Program {
    steps(|p| {
        p.op("aten::copy_", |p| {
            let copy = "Memcpy HtoD (Pinned -> Device)";
            p.launch(("cudaMemcpyAsync", "gpu_memcpy"), copy, 900, stream, json!({"bytes": 25_000_000}));
        });
        p.op("aten::mm", |p| p.kernel("gemm", product));
    })
}

#[test]
fn copies_on_the_critical_path() {
    let found = offloaded(7, 100).found("SL064");
    assert_eq!(found.len(), 1);
    let title = &found[0].title;
    assert!(title.starts_with("Copies of 23.84 MiB per step (Memcpy HtoD (Pinned -> Device)): 8"), "{title}");
    let gain = found[0].gain.expect("replayed");
    assert!((850_000..=905_000).contains(&gain.likely_ns) && gain.low_ns == 0, "{gain:?}");
    assert_eq!(offloaded(8, 2000).found("SL064"), [], "the product takes longer than the copy beside it");
}

fn optimizer(name: &str, passes: usize) -> Program {
    steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 20));
        p.annotation(name, |p| {
            p.op("aten::_foreach_lerp_", |p| p.kernel("multi_tensor_apply_kernel", 50));
            for _ in 1..passes {
                p.op("aten::_foreach_add_", |p| p.kernel("multi_tensor_apply_kernel", 50));
            }
        });
    })
}

#[test]
fn multi_pass_optimizers() {
    let found = optimizer("Optimizer.step#AdamW.step", 9).found("SL015");
    assert_eq!(found.len(), 1);
    assert!(
        found[0]
            .title
            .starts_with("Unfused optimizer: AdamW makes 9 passes over all parameters and launches 9 kernels per step"),
        "{}",
        found[0].title
    );
    let gain = found[0].gain.expect("replayed");
    assert!(gain.low_ns < gain.likely_ns && gain.likely_ns < gain.high_ns, "{gain:?}");
    // Few passes, and optimizers that have no version of one pass.
    assert_eq!(optimizer("Optimizer.step#AdamW.step", 3).found("SL015"), []);
    assert_eq!(optimizer("Optimizer.step#Lamb.step", 9).found("SL015"), []);
}

fn loss(is_converted: bool) -> Program {
    let copy = |p: &mut Program| {
        p.op("aten::to", |p| p.op("aten::_to_copy", |p| p.op("aten::copy_", |p| p.kernel("copy", 100))));
    };
    steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 1000));
        if is_converted {
            copy(p);
        }
        p.op("aten::cross_entropy_loss", |p| {
            p.op("aten::_log_softmax", |p| p.kernel("softmax", 200));
            p.op("aten::nll_loss_forward", |p| p.kernel("nll", 30));
        });
        p.op("aten::nll_loss_backward", |p| p.kernel("nll_backward", 70));
        p.op("aten::_log_softmax_backward_data", |p| p.kernel("softmax_backward", 200));
        if is_converted {
            copy(p);
        }
    })
}

#[test]
fn conversions_of_logits_are_part_of_the_loss() {
    // nll_loss goes, and 0.4 of log_softmax.
    assert!((gain(&loss(false), "SL013") - 260_000).abs() < 3_000, "{}", gain(&loss(false), "SL013"));
    // Both copies, nll_loss, and 0.7 of log_softmax, which then reads half the bytes.
    assert!((gain(&loss(true), "SL013") - 580_000).abs() < 5_000, "{}", gain(&loss(true), "SL013"));
    // A copy between two losses is one copy.
    let between = steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 1000));
        for _ in 0..2 {
            p.op("aten::_log_softmax", |p| p.kernel("softmax", 200));
            p.op("aten::nll_loss_forward", |p| p.kernel("nll", 30));
            p.op("aten::_log_softmax_backward_data", |p| p.kernel("softmax_backward", 200));
            p.op("aten::copy_", |p| p.kernel("copy", 100));
        }
    });
    let found = between.found("SL013");
    let kernels = found[0].facts.iter().find(|fact| fact.name == "kernels").expect("told");
    assert_eq!(kernels.value, 24.0, "3 steps of 8");
}
