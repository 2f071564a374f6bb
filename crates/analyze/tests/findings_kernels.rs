//! Rules about kernels: what runs on the GPU, and how it is launched.

#![allow(clippy::unwrap_used, reason = "tests")]

mod findings_support;

use findings_support::{Program, text};
use serde_json::json;

/// Three steps of a model that wait for the GPU at their end: `inside` runs in each.
fn steps(mut inside: impl FnMut(&mut Program)) -> Program {
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
fn gain(program: &Program, code: &str) -> i64 {
    let found = program.of(code);
    assert_eq!(found.len(), 1, "{}", text(&found));
    found[0].gain_ns()
}

/// Whether the gain of a rule's only finding is what the repaired program saves, within some µs a step.
#[track_caller]
fn assert_gain(program: &Program, code: &str, repaired: &Program, within_us: i64) {
    let (gain, truth) = (gain(program, code), program.findings().step_ns - repaired.findings().step_ns);
    assert!((gain - truth).abs() <= within_us * 1000, "predicted {gain} ns, true {truth} ns");
    assert_eq!(repaired.of(code), [], "the repaired program still has it");
}

/// A forward operator, numbered for its backward.
fn forward(p: &mut Program, name: &str, number: i64, inside: impl FnOnce(&mut Program)) {
    p.op_with(name, json!({"Sequence number": number, "Fwd thread id": 0}), inside);
}

/// The backward of the forward operator with the same number.
fn backward(p: &mut Program, name: &str, number: i64, inside: impl FnOnce(&mut Program)) {
    let args = json!({"Sequence number": number, "Fwd thread id": 1});
    p.op_with(&format!("autograd::engine::evaluate_function: {name}"), args, inside);
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
    insta::assert_snapshot!(text(&slow.of("SL007")));
    // 800 µs become twice the 20 µs of the forward.
    assert_eq!(gain(&slow, "SL007"), 760_000);
    assert_gain(&slow, "SL007", &indexing(40), 1);
    // Sorted additions that the program asks for itself are no backward.
    let own = steps(|p| {
        p.op("aten::index_put_", |p| p.kernel("void at::native::indexing_backward_kernel<float>", 800));
    });
    assert_eq!(own.of("SL007"), []);
}

fn optimizer(inside: impl Fn(&mut Program)) -> Program {
    steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 20));
        p.annotation("Optimizer.step#SGD.step", &inside);
    })
}

#[test]
fn optimizers_that_are_not_fused() {
    let single = optimizer(|p| {
        for _ in 0..40 {
            p.op("aten::add_", |p| p.kernel("vectorized_elementwise_kernel", 3));
        }
    });
    insta::assert_snapshot!(text(&single.of("SL015")));
    let fused = optimizer(|p| p.op("aten::_fused_sgd_", |p| p.kernel("multi_tensor_apply_kernel", 120)));
    assert_gain(&single, "SL015", &fused, 3);
    let foreach = optimizer(|p| {
        for _ in 0..40 {
            p.op("aten::_foreach_add_", |p| p.kernel("multi_tensor_apply_kernel", 3));
        }
    });
    assert_eq!(foreach.of("SL015"), []);
}

#[test]
fn what_fires_on_real_traces() {
    let codes: Option<Vec<String>> = std::env::var("CODES").ok().map(|c| c.split(',').map(str::to_owned).collect());
    let Ok(corpus) = std::env::var("STACKLINE_CORPUS") else { return };
    let mut files: Vec<_> = std::fs::read_dir(format!("{corpus}/kineto")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&file).unwrap();
        let trace = stackline_ingest::read_bytes(&name, &bytes, &Default::default()).unwrap();
        let at = std::time::Instant::now();
        let Ok(found) = stackline_analyze::findings::find(&trace, &Default::default()) else { continue };
        println!("== {name} step {} µs, {} steps, {:?}", found.step_ns / 1000, found.steps, at.elapsed());
        let mine = |f: &&stackline_analyze::findings::Finding| codes.as_ref().is_none_or(|c| c.iter().any(|c| c == f.rule.code));
        for f in found.findings.iter().filter(mine) {
            println!("{}", text(std::slice::from_ref(f)));
        }
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
fn attention_in_parts() {
    let parts = attention(&[("aten::mul", "mul"), ("aten::_softmax", "softmax")]);
    insta::assert_snapshot!(text(&parts.of("SL014")));
    assert_gain(&parts, "SL014", &attention(&[]), 1);
    // Other layers between the softmax and the product: no attention.
    let other = attention(&[("aten::mm", "gemm"), ("aten::_softmax", "softmax")]);
    assert_eq!(other.of("SL014"), []);
    let only_a_softmax = steps(|p| p.op("aten::_softmax", |p| p.kernel("softmax", 300)));
    assert_eq!(only_a_softmax.of("SL014"), []);
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
fn cross_entropy_in_parts() {
    let parts = loss(false);
    insta::assert_snapshot!(text(&parts.of("SL013")));
    // The copy, nll_loss and its backward go: 150 µs; 0.4 of 200 µs of log_softmax. And one or two µs between kernels.
    assert!((gain(&parts, "SL013") - 230_000).abs() <= 1000);
    assert_gain(&parts, "SL013", &loss(true), 1);
    let no_loss = steps(|p| p.op("aten::_log_softmax", |p| p.kernel("softmax", 300)));
    assert_eq!(no_loss.of("SL013"), []);
}
