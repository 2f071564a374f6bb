//! The first rules, and how findings are ranked.

use crate::findings_support;

use crate::support::read;
use findings_support::{Program, find, steps, text};
use serde_json::json;
use stackline_findings::{
    ExternalFinding, ExternalRule, ExternalRules, Finding, Findings, Message, Options, find_with,
};
use stackline_timeline::confidence::Confidence;
use std::collections::BTreeSet;

#[test]
fn host_waits() {
    let waits = steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 400));
        p.op("aten::item", |p| p.op("aten::_local_scalar_dense", |p| p.sync("cudaStreamSynchronize")));
        p.work(200);
        p.op("aten::mm", |p| p.kernel("gemm", 300));
    });
    insta::assert_snapshot!(text(&waits.found("SL004")));
    let none = steps(|p| p.op("aten::mm", |p| p.kernel("gemm", 400)));
    assert_eq!(none.found("SL004"), []);
}

/// The GPU has nothing to do while such a call lasts, as far as the trace says.
#[test]
fn waits_without_gpu_work_are_inferred() {
    let idle = |and_busy: i64| {
        steps(move |p| {
            p.op("aten::mm", |p| p.kernel("gemm", 100));
            p.work(300);
            p.python("train.py(3): sync", |p| {
                let from = p.now;
                p.work(40);
                p.span("cuda_runtime", "cudaDeviceSynchronize", from, 40, json!({}));
                for _ in 0..and_busy {
                    p.op("aten::mm", |p| p.kernel("gemm", 100));
                    p.sync("cudaDeviceSynchronize");
                }
            });
            p.op("aten::mm", |p| p.kernel("gemm", 100));
        })
    };
    let of = |program: &Program| {
        let found = program.found("SL004");
        let [only] = &found[..] else { panic!("{}", text(&found)) };
        let count = only.facts.iter().find(|fact| fact.name == "waits during which the trace shows no GPU work");
        (only.support.name(), only.confidence, count.map(|fact| fact.value as usize))
    };
    let steps = idle(0).findings().steps;
    assert_eq!(of(&idle(0)), ("inferred", Confidence::Low, Some(steps)));
    assert_eq!(of(&idle(1)), ("exact", Confidence::High, Some(steps)), "half of them wait");
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
    insta::assert_snapshot!(text(&many.found("SL002")));
    let few = steps(|p| p.python("nn.Module: Linear_0", |p| p.op("aten::mm", |p| p.kernel("gemm", 3))));
    assert_eq!(few.found("SL002"), []);
}

#[test]
fn layout_conversions() {
    let converts = steps(|p| {
        p.op("aten::cudnn_convolution", |p| {
            p.kernel("void cudnn::ops::nchwToNhwcKernel<float>", 100);
            p.kernel("conv", 300);
            p.kernel("void cudnn::ops::nhwcToNchwKernel<float>", 100);
        });
        p.sync("cudaDeviceSynchronize");
    });
    insta::assert_snapshot!(text(&converts.found("SL003")));
    let none = steps(|p| p.op("aten::cudnn_convolution", |p| p.kernel("conv", 300)));
    assert_eq!(none.found("SL003"), []);
}

#[test]
fn hotspots() {
    let program = steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 900));
        p.op("aten::add", |p| p.kernel("add", 50));
        p.sync("cudaDeviceSynchronize");
    });
    insta::assert_snapshot!(text(&program.found("SL001")));
    assert!(!text(&program.found("SL001")).is_empty());
    let found = find(&program.trace(), &["SL001.share=99"]);
    assert!(found.findings.iter().all(|f| f.rule.code != "SL001"));
}

#[test]
fn combined_gain_is_replayed() {
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
    let together = found.combined.unwrap().likely_ns;
    assert!(found.findings.len() >= 2 && together < alone, "{together} of {alone}");
    assert_eq!(found.findings.iter().filter_map(|f| f.on_top_ns).sum::<i64>(), together);
    assert!(found.findings.iter().all(|f| f.gain.is_none_or(|g| g.low_ns <= g.likely_ns && g.likely_ns <= g.high_ns)));
}

#[test]
fn missing_requirements_are_reported() {
    let mut program = Program::new();
    program.op("aten::mm", |p| p.work(100));
    let found = program.findings();
    assert!(found.unchecked.iter().any(|u| u.rule.code == "SL004"), "{:?}", found.unchecked);
    assert_eq!((found.steps, found.findings.len()), (0, 0));
}

#[test]
fn warm_up_step_is_excluded() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| p.op("aten::mm", |p| p.work(if number == 0 { 9000 } else { 900 })));
    }
    let found = program.findings();
    assert_eq!(found.steps, 3);
    assert!(found.notes[0].contains("step 0"), "{:?}", found.notes);
}

mod findings {
    pub(crate) fn gain(finding: &stackline_findings::Finding) -> i64 {
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

/// End of the GPU work, in ns per step.
fn gpu_time(program: &Program, steps: usize) -> i64 {
    let trace = program.trace();
    trace.gpu.event.iter().map(|&e| trace.events.end(e)).max().unwrap() / steps as i64
}

#[test]
fn hidden_host_work_gains_little() {
    let waits = long_run(40, (5, true));
    let truth = gpu_time(&waits, 40) - gpu_time(&long_run(40, (5, false)), 40);
    let found = waits.found("SL004");
    let gain = found[0].gain.unwrap();
    // The last step has no next one.
    assert!((gain.likely_ns - truth).abs() < 1_500 && truth < 60_000, "{gain:?}, truth {truth}");
}

#[test]
fn equal_edits_at_two_locations_are_distinct() {
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
    let found = program.found("SL004");
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|f| f.on_top_ns.unwrap() > 100_000), "{found:?}");
}

#[test]
fn ignored_findings_are_excluded_from_the_combined_gain() {
    let program = long_run(3, (1, true));
    let keep = |f: &Finding| f.rule.code != "SL004";
    let found = find_with(&program.trace(), &Options::default(), &ExternalRules::default(), &keep).unwrap();
    assert!(found.ignored.iter().any(|f| f.rule.code == "SL004"));
    assert!(found.combined.is_none_or(|all| all.likely_ns < 50_000), "{:?}", found.combined);
}

#[test]
fn equal_changes_of_several_findings_count_once() {
    let trace = steps(|p| {
        p.op("aten::mm", |p| p.kernel("gemm", 400));
        p.sync("cudaDeviceSynchronize");
    })
    .trace();
    let combined = |codes: &[&str]| {
        let mut others = ExternalRules::default();
        for code in codes {
            let (code, support, confidence) = ((*code).to_owned(), "exact".to_owned(), "low".to_owned());
            others.add(Message::Rule(ExternalRule { code: code.clone(), ..ExternalRule::default() })).unwrap();
            let (title, edits) = ("slow".to_owned(), vec!["scale kernel:gemm 0.5".to_owned()]);
            let found = ExternalFinding { code, title, support, confidence, edits, ..ExternalFinding::default() };
            others.add(Message::Found(Box::new(found))).unwrap();
        }
        let is_own = |finding: &Finding| finding.rule.code.starts_with("MY");
        let found = find_with(&trace, &Options::default(), &others, &is_own).unwrap();
        assert_eq!(found.findings.len(), codes.len());
        found.combined.unwrap().likely_ns
    };
    let one = combined(&["MY001"]);
    // Half of 400 µs; applied twice it would be three quarters.
    assert!((195_000..=205_000).contains(&one), "{one} ns");
    assert_eq!(combined(&["MY001", "MY002"]), one);
}

/// The profiler waits for the GPU where it ends: in functions of its own, or, without them, after all launches.
#[test]
fn waits_of_the_profiler_are_no_findings() {
    let ends = |frames: &[&str]| {
        let mut program = Program::new();
        program.step(0, |p| {
            p.op("aten::mm", |p| p.kernel("gemm", 400));
            match frames {
                [] => p.sync("cudaDeviceSynchronize"),
                [frame, ..] => p.python(frame, |p| p.sync("cudaDeviceSynchronize")),
            }
        });
        program.found("SL004")
    };
    assert_eq!(ends(&["torch/profiler/profiler.py(811): step"]), []);
    assert_eq!(ends(&["torch/autograd/profiler.py(363): __exit__"]), []);
    assert_eq!(ends(&[]), []);
    assert_eq!(ends(&["train.py(12): step"]).len(), 1);
}

#[test]
fn titles_without_steps_do_not_mention_steps() {
    let mut program = Program::new();
    for _ in 0..3 {
        program.op("aten::mm", |p| p.kernel("gemm", 400));
        program.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
        program.op("aten::mm", |p| p.kernel("gemm", 300));
    }
    let found = program.findings();
    let titles = text(&found.findings);
    assert!(titles.contains("SL004 aten::item waits for the GPU 3 times: ") && !titles.contains("a step"), "{titles}");
    let mut waits = Program::new();
    waits.op("aten::mm", |p| p.work(100));
    waits.python("threading.py(1115): Thread.join", |p| p.work(900));
    let of = waits.found("SL039");
    let title = &of[0].title;
    assert!(title.starts_with("Waiting for a thread: ") && title.ends_with(" % of the time"), "{title}");
    assert!(!of[0].rule.advice.contains("step"), "{}", of[0].rule.advice);
}

/// One step is not each step, and waits outside of steps are in none.
#[test]
fn titles_state_single_steps_and_time_outside_steps() {
    let title = |steps: usize, waits: usize, between: usize| {
        let wait = |p: &mut Program| {
            p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
            p.work(100);
            p.op("aten::mm", |p| p.kernel("gemm", 300));
        };
        let mut program = Program::new();
        for number in 0..steps {
            program.step(number, |p| {
                p.op("aten::mm", |p| p.kernel("gemm", 400));
                (0..waits).for_each(|_| wait(p));
            });
            if number + 1 < steps {
                (0..between).for_each(|_| wait(&mut program));
            }
        }
        let title = program.found("SL004")[0].title.clone();
        let (frequency, time) = title.split_once(": ").unwrap();
        let is_per_step = steps > 1 && between == 0;
        assert!(time.contains("s per step") == is_per_step && time.contains("s"), "{title}");
        frequency.to_owned()
    };
    assert_eq!(title(1, 1, 0), "aten::item waits for the GPU in the one analyzed step");
    assert_eq!(title(1, 3, 0), "aten::item waits for the GPU 3 times in the one analyzed step");
    assert_eq!(title(2, 1, 0), "aten::item waits for the GPU in each step");
    assert_eq!(title(2, 3, 0), "aten::item waits for the GPU 3 times per step");
    assert_eq!(title(2, 0, 1), "aten::item waits for the GPU once, outside of steps");
    assert_eq!(title(4, 0, 1), "aten::item waits for the GPU 3 times, outside of steps");
}

#[test]
fn start_up_is_reported_without_steps() {
    let calls = |first: i64, step: bool| {
        let mut program = Program::new();
        for number in 0..12_usize {
            let us = if number == 0 { first } else { 20 };
            let call = |p: &mut Program| p.op("aten::mm", |p| p.work(us));
            if step { program.step(number, call) } else { call(&mut program) }
        }
        program.findings().notes
    };
    let notes = calls(900, false);
    assert!(
        notes[0].starts_with("the first calls of some operators take 880.0 µs longer") && notes[0].contains("aten::mm"),
        "{notes:?}"
    );
    assert_eq!(calls(30, false), Vec::<String>::new());
    assert!(calls(900, true)[0].starts_with("step 0 took"), "steps tell it themselves");
}

#[test]
fn advice_depends_on_the_program() {
    let products = steps(|p| {
        p.op("aten::mm", |p| p.kernel("volta_sgemm_128x64_nn", 400));
        p.sync("cudaDeviceSynchronize");
    });
    let on = |gpu| {
        let found = find(&read(products.text(gpu)), &[]).findings;
        found.into_iter().find(|f| f.rule.code == "SL018").unwrap().rule
    };
    let (volta, ampere) =
        (on(json!({"name": "Tesla V100", "computeMajor": 7})), on(json!({"name": "X", "computeMajor": 8})));
    assert!(
        volta.advice.contains("float16") && !volta.example.as_ref().unwrap().1.contains("set_float32_matmul"),
        "{volta:?}"
    );
    assert!(ampere.advice.contains("Enable TF32"), "{ampere:?}");
    let waits = |kernel: bool| {
        let program = steps(move |p| {
            p.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", |p| p.work(400));
            p.op("aten::mm", |p| if kernel { p.kernel("gemm", 20) } else { p.work(20) });
        });
        program.found("SL009")[0].rule.advice.clone()
    };
    assert!(waits(true).contains("pin_memory") && !waits(false).contains("pin_memory"));
}

/// A finding without its numbers.
fn identity(finding: &Finding) -> (String, String) {
    (finding.rule.code.clone(), finding.place.text())
}

fn sure(found: &Findings) -> BTreeSet<(String, String)> {
    found.findings.iter().filter(|f| f.confidence == Confidence::High).map(identity).collect()
}

/// Evidence only near the cut of a truncated trace is not certain, for a cut within a record or between two.
#[test]
fn truncated_trace_has_no_new_certain_findings() {
    let text = long_run(6, (4, true)).text(json!({"id": 0}));
    let whole = sure(&find(&read(&text), &[]));
    assert!(!whole.is_empty());
    let mut examined = 0;
    for (at, _) in text.match_indices("},\n") {
        for cut in [at, at + 1, at + 2, at + 20] {
            let trace = read(&text[..cut.min(text.len())]);
            if let Ok(found) = stackline_findings::find(&trace, &Options::default()) {
                examined += 1;
                assert!(sure(&found).is_subset(&whole), "cut at {cut}: {:?}", sure(&found));
                assert!(
                    found.notes.iter().any(|note| note.contains("part of the trace is missing")),
                    "cut at {cut}: {:?}",
                    found.notes
                );
            }
        }
    }
    assert!(examined > 100, "{examined}");
}

#[test]
fn truncated_corpus_traces_have_no_new_certain_findings() {
    let Some(folder) = stackline_testkit::corpus::file("kineto") else { return };
    for name in
        ["nvidia-h100-qwen1.5-0.5b.json.gz", "nvidia-2080ti-linear.json.gz", "schema-2021-v100-resnet50.json.gz"]
    {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let read = |bytes: &[u8]| stackline_ingest::read_bytes(name, bytes, &stackline_ingest::ReadOptions::default());
        let whole = sure(&find(&read(&bytes).unwrap(), &[]));
        for percent in [15, 35, 55, 75, 90, 99] {
            let trace = read(&bytes[..bytes.len() * percent / 100]).unwrap();
            let found = find(&trace, &[]);
            assert!(sure(&found).is_subset(&whole), "{name} to {percent} %: {:?}", sure(&found));
            // Launches whose kernels were lost are no program of the CPU.
            let of_cpu = |f: &&Finding| ["SL015", "SL017"].contains(&f.rule.code.as_str());
            let wrong: Vec<_> = found.findings.iter().filter(of_cpu).filter(|_| trace.gpu.is_empty()).collect();
            assert_eq!(wrong, Vec::<&Finding>::new(), "{name} to {percent} %");
        }
    }
}

/// The edit of an optimizer belongs to the call that makes it, not to its step.
#[test]
fn optimizer_edits_are_located_at_the_constructor() {
    let program = |files: &[&str]| {
        let mut program = Program::new();
        for (line, file) in (40..).zip(files) {
            program.python(&format!("train.py({line}): build"), |p| {
                p.python(&format!("torch/optim/{file}.py(12): __init__"), |p| {
                    p.python("torch/optim/optimizer.py(300): __init__", |p| p.work(5));
                });
            });
        }
        for number in 0..3 {
            program.step(number, |p| {
                p.python("train.py(10): step", |p| {
                    p.annotation("Optimizer.step#AdamW.step", |p| {
                        (0..60).for_each(|_| p.op("aten::add_", |p| p.kernel("add", 3)));
                    });
                });
            });
        }
        program.found("SL015")
    };
    let found = program(&["sgd", "adamw"]);
    let places =
        |found: &[Finding]| found.iter().map(|f| (f.place.text(), f.fix_location().text())).collect::<Vec<_>>();
    let (seen, change) = ("train.py:10 in step".to_owned(), "train.py:41 in build".to_owned());
    assert_eq!(places(&found), [(seen.clone(), change)], "{}", text(&found));
    // Nobody knows which one it is, or none was recorded.
    for files in [&["adamw", "adamw"][..], &[], &["sgd"]] {
        assert_eq!(places(&program(files)), [(seen.clone(), seen.clone())], "{files:?}");
    }
}

/// A wrapper that several findings share says nothing: the edit belongs to the one that called it.
#[test]
fn edits_in_a_wrapper_are_located_at_its_callers() {
    let found = |caller: fn(usize) -> String| {
        let waits = steps(|p| {
            for i in 0..4 {
                p.python(&caller(i), |p| {
                    p.python("util.py(3): timed", |p| {
                        p.op("aten::mm", |p| p.kernel("gemm", 400));
                        p.op(["aten::item", "aten::nonzero", "aten::is_nonzero", "aten::equal"][i], |p| {
                            p.sync("cudaStreamSynchronize");
                        });
                        p.work(300);
                    });
                });
            }
            p.op("aten::mm", |p| p.kernel("gemm", 300));
        });
        waits.found("SL004")
    };
    let of = found(|i| format!("loss.py({i}1): part{i}"));
    assert!(of.len() >= 3, "{}", text(&of));
    for finding in &of {
        assert_eq!(finding.place.text(), "util.py:3 in timed");
        let change = finding.change.as_ref().and_then(|place| place.function.clone());
        assert!(change.is_some_and(|function| function.starts_with("part")), "{:?}", finding.change);
    }
    let same = found(|_| "loss.py(1): all".to_owned());
    assert!(same.iter().all(|finding| finding.change.is_none()), "{}", text(&same));
}
