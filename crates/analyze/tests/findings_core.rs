//! The first rules, and how findings are ranked.

#![allow(clippy::unwrap_used, reason = "tests")]

mod findings_support;

use findings_support::{Program, find, text};
use stackline_analyze::findings::Options;

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

/// Steps of `kernels` kernels of 200 µs; `waits`: the host waits for the GPU in the middle of each.
fn long_run(steps: usize, (kernels, waits): (usize, bool)) -> Program {
    let mut program = Program::new();
    for number in 0..steps {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                (0..kernels).for_each(|_| p.op("aten::mm", |p| p.kernel("gemm", 200)));
                if waits {
                    p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
                }
                p.work(30);
            });
        });
    }
    program
}

/// When the GPU is done, in ns per step.
fn gpu_time(program: &Program, steps: usize) -> i64 {
    let trace = program.trace();
    trace.gpu.event.iter().map(|&e| trace.events.end(e)).max().unwrap() / steps as i64
}

#[test]
fn what_keeps_the_gpu_busy_anyway_gains_little() {
    let waits = long_run(40, (5, true));
    let truth = gpu_time(&waits, 40) - gpu_time(&long_run(40, (5, false)), 40);
    let found = waits.of("SL004");
    let gain = found[0].gain.unwrap();
    // The last step has no next one.
    assert!((gain.ns - truth).abs() < 1_500 && truth < 60_000, "{gain:?}, truth {truth}");
}

#[test]
fn edits_of_one_text_at_two_places_are_two() {
    let mut program = Program::new();
    for number in 0..3 {
        program.step(number, |p| {
            for line in [10, 50] {
                p.python(&format!("train.py({line}): f"), |p| {
                    p.op("aten::mm", |p| p.kernel("gemm", 300));
                    p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
                    p.work(200);
                });
            }
        });
    }
    let found = program.of("SL004");
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|f| f.on_top_ns.unwrap() > 100_000), "{found:?}");
}

#[test]
fn what_is_ignored_gains_nothing_with_the_others() {
    let program = long_run(3, (1, true));
    let keep = |f: &stackline_analyze::findings::Finding| f.rule.code != "SL004";
    let found = stackline_analyze::findings::find_kept(&program.trace(), &Options::default(), &keep).unwrap();
    assert!(found.ignored.iter().any(|f| f.rule.code == "SL004"));
    assert!(found.together.is_none_or(|all| all.ns < 50_000), "{:?}", found.together);
}
