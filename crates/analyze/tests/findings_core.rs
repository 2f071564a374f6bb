//! The first rules, and how findings are ranked.

#![allow(clippy::unwrap_used, reason = "tests")]

mod findings_support;

use findings_support::{Program, find, text};

/// Three steps of a model: `inside` runs in each.
fn steps(mut inside: impl FnMut(&mut Program)) -> Program {
    let mut program = Program::new();
    for number in 0..3 {
        program.step(number, |p| p.python("train.py(10): step", &mut inside));
    }
    program
}

#[test]
fn waits_of_the_host() {
    let waits = steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 400));
        p.op("aten::item", |p| p.op("aten::_local_scalar_dense", |p| p.sync("cudaStreamSynchronize")));
        p.work(200);
        p.op("aten::mm", |p| p.kernel("gemm", 300));
    });
    insta::assert_snapshot!(text(&waits.of("SL004")));
    let none = steps(|p| p.op("aten::mm", |p| p.kernel("gemm", 400)));
    assert_eq!(none.of("SL004"), []);
}

#[test]
fn many_small_kernels() {
    let many = steps(|p| {
        p.python("nn.Module: RMSNorm_0", |p| {
            for name in ["pow", "mean", "add", "rsqrt", "mul"] {
                p.op(&format!("aten::{name}"), |p| p.kernel(name, 3));
            }
        });
    });
    insta::assert_snapshot!(text(&many.of("SL002")));
    let few = steps(|p| p.python("nn.Module: Linear_0", |p| p.op("aten::mm", |p| p.kernel("gemm", 3))));
    assert_eq!(few.of("SL002"), []);
}

#[test]
fn conversions_of_layout() {
    let converts = steps(|p| {
        p.op("aten::cudnn_convolution", |p| {
            p.kernel("void cudnn::ops::nchwToNhwcKernel<float>", 100);
            p.kernel("conv", 300);
            p.kernel("void cudnn::ops::nhwcToNchwKernel<float>", 100);
        });
        p.sync("cudaDeviceSynchronize");
    });
    insta::assert_snapshot!(text(&converts.of("SL003")));
    let none = steps(|p| p.op("aten::cudnn_convolution", |p| p.kernel("conv", 300)));
    assert_eq!(none.of("SL003"), []);
}

#[test]
fn hotspots() {
    let program = steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 900));
        p.op("aten::add", |p| p.kernel("add", 50));
        p.sync("cudaDeviceSynchronize");
    });
    insta::assert_snapshot!(text(&program.of("SL001")));
    assert!(!text(&program.of("SL001")).is_empty());
    let found = find(&program.trace(), &["SL001.share=99"]);
    assert!(found.findings.iter().all(|f| f.rule.code != "SL001"));
}

#[test]
fn gains_of_all_are_replayed_together() {
    let program = steps(|p| {
        p.op("aten::cudnn_convolution", |p| {
            p.kernel("nchwToNhwcKernel", 300);
            p.kernel("conv", 100);
        });
        p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
        p.work(100);
    });
    let found = program.findings();
    let alone: i64 = found.findings.iter().map(findings::gain).sum();
    let together = found.together.unwrap().ns;
    assert!(found.findings.len() >= 2 && together < alone, "{together} of {alone}");
    assert_eq!(found.findings.iter().filter_map(|f| f.on_top_ns).sum::<i64>(), together);
    assert!(found.findings.iter().all(|f| f.gain.is_none_or(|g| g.low_ns <= g.ns && g.ns <= g.high_ns)));
}

#[test]
fn what_a_trace_lacks_is_told() {
    let mut program = Program::new();
    program.op("aten::mm", |p| p.work(100));
    let found = program.findings();
    assert!(found.unchecked.iter().any(|u| u.rule.code == "SL004"), "{:?}", found.unchecked);
    assert_eq!((found.steps, found.findings.len()), (0, 0));
}

#[test]
fn a_first_step_that_warms_up_is_left_out() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| p.op("aten::mm", |p| p.work(if number == 0 { 9000 } else { 900 })));
    }
    let found = program.findings();
    assert_eq!(found.steps, 3);
    assert!(found.notes[0].contains("step 0"), "{:?}", found.notes);
}

mod findings {
    pub(crate) fn gain(finding: &stackline_analyze::findings::Finding) -> i64 {
        finding.gain_ns()
    }
}
