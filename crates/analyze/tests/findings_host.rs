//! Rules about the host: loading of data, copies, pauses, compilations, steps that differ.

use crate::findings_support;

use findings_support::{Program, find, text};
use serde_json::json;
use stackline_findings::{Finding, Findings};
use stackline_model::INFERRED;

/// Steps of a model: `inside` runs in each, with its number.
fn steps(count: usize, mut inside: impl FnMut(&mut Program, usize)) -> Program {
    let mut program = Program::new();
    for number in 0..count {
        program.step(number, |p| p.python("train.py(10): step", |p| inside(p, number)));
    }
    program
}

/// A forward pass whose result the host reads.
fn model(p: &mut Program) {
    p.op("aten::mm", |p| p.kernel("gemm", 400));
    p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
}

/// The one finding of a code has the gain of its repair: the difference of the lengths of a step, and that by hand.
fn repaired(bad: &Program, good: &Program, code: &str, by_hand_us: i64) -> Vec<Finding> {
    let found = bad.found(code);
    assert_eq!(found.len(), 1, "{}", text(&found));
    assert_eq!(good.found(code), [], "{}", text(&good.found(code)));
    let saved = bad.findings().step_ns - good.findings().step_ns;
    let gain = found[0].gain.unwrap();
    let near = saved.abs() / 50 + 3_000;
    assert!((gain.likely_ns - saved).abs() <= near, "{saved}: {}", text(&found));
    assert!((gain.likely_ns - by_hand_us * 1000).abs() <= near, "{by_hand_us}: {}", text(&found));
    assert!(gain.low_ns - 3_000 <= saved && saved <= gain.high_ns + 3_000, "{saved}: {}", text(&found));
    found
}

#[test]
fn waiting_for_data() {
    const SINGLE: &str = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let loads = |us: i64| {
        steps(4, move |p, _| {
            p.annotation(SINGLE, |p| p.op("aten::stack", |p| p.work(us)));
            model(p);
        })
    };
    // What is left is 0.1 ms to take a batch from a worker; at best nothing, at worst half of the loading.
    let found = loads(300).found("SL009");
    insta::assert_snapshot!(text(&found));
    assert_eq!(found[0].edits, ["more-workers 1"]);
    let gain = found[0].gain.unwrap();
    let near = |ns: i64, us: i64| (ns - us * 1000).abs() < 12_000;
    assert!(near(gain.likely_ns, 200) && near(gain.low_ns, 150) && near(gain.high_ns, 302), "{gain:?}");
    assert_eq!(loads(2).found("SL009"), []);
    // The GPU is busy all the while.
    let busy_gpu = steps(4, |p, _| {
        p.op("aten::mm", |p| p.kernel("gemm", 2000));
        p.annotation(SINGLE, |p| p.work(300));
        p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
    });
    assert_eq!(busy_gpu.found("SL009"), []);
}

#[test]
fn waiting_for_workers() {
    const MULTI: &str = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
    let waits = |us: i64| {
        steps(6, move |p, _| {
            p.annotation(MULTI, |p| p.work(us));
            model(p);
        })
    };
    let found = waits(900).found("SL009");
    insta::assert_snapshot!(text(&found));
    assert!(found[0].edits[0].starts_with("more-workers"), "{:?}", found[0].edits);
    assert_eq!(waits(8).found("SL009"), []);
}

#[test]
fn preprocessing_in_the_loader() {
    let prepares = |us: i64, name: &str| {
        let frame = name.to_owned();
        steps(4, move |p, _| {
            p.python("data.py(7): __getitem__", |p| {
                if us > 0 {
                    p.python(&frame, |p| {
                        p.python("<built-in method resize of ImagingCore object at 0x7f>", |p| p.work(us));
                    });
                }
            });
            model(p);
        })
    };
    const RESIZE: &str = "PIL/Image.py(2215): resize";
    let found = repaired(&prepares(300, RESIZE), &prepares(0, RESIZE), "SL010", 304);
    insta::assert_snapshot!(text(&found));
    // Not of an image.
    let other = steps(4, |p, _| {
        p.python("layers.py(3): resize", |p| p.work(300));
        model(p);
    });
    assert_eq!(other.found("SL010"), []);
}

#[test]
fn copies_from_pageable_memory() {
    let bytes = 1 << 20;
    // 100 µs at 10.5 GB/s; from pinned memory at 12 GB/s 87 µs, and the host launches the kernel meanwhile.
    let pageable = steps(4, |p, _| {
        p.op("aten::to", |p| p.pageable(100, bytes));
        p.op("aten::mm", |p| p.work(90));
        model(p);
    });
    let pinned = steps(4, |p, _| {
        let args = json!({"bytes": bytes});
        let name = "Memcpy HtoD (Pinned -> Device)";
        p.op("aten::to", |p| p.launch(("cudaMemcpyAsync", "gpu_memcpy"), name, 87, 7, args));
        p.op("aten::mm", |p| p.work(90));
        model(p);
    });
    let found = pageable.found("SL011");
    insta::assert_snapshot!(text(&found));
    let saved = pageable.findings().step_ns - pinned.findings().step_ns;
    assert!((found[0].gain_ns() - saved).abs() <= saved / 10, "{saved}: {}", text(&found));
    assert_eq!(pinned.found("SL011"), []);
    // A number.
    let small = steps(4, |p, _| {
        p.op("aten::to", |p| p.pageable(2, 8));
        model(p);
    });
    assert_eq!(small.found("SL011"), []);
}

#[test]
fn driver_allocations_in_later_steps() {
    let allocates = |is_in: fn(usize) -> bool| {
        steps(5, move |p, number| {
            p.op("aten::empty", |p| {
                if is_in(number) {
                    p.call("cudaMalloc", 150);
                }
            });
            model(p);
        })
    };
    let found = repaired(&allocates(|_| true), &allocates(|number| number == 0), "SL024", 151 * 4 / 5);
    insta::assert_snapshot!(text(&found));
    // The second step still fills the caches.
    assert_eq!(allocates(|number| number < 2).found("SL024"), []);
    // Without steps: each time, or when the program begins.
    let frees = |is_in: fn(usize) -> bool| {
        let mut program = Program::new();
        for number in 0..200 {
            program.python("serve.py(9): answer", |p| {
                p.op("aten::mm", |p| p.kernel("gemm", 50));
                if is_in(number) {
                    p.call("hipFree", 80);
                }
                p.op("aten::mm", |p| p.work(100));
            });
        }
        program.found("SL024")
    };
    let found = frees(|_| true);
    assert!(found.len() == 1 && found[0].title.contains("throughout the trace: 200 hipFree"), "{}", text(&found));
    assert!(found[0].gain.unwrap().likely_ns > 200 * 75_000, "the calls go: {}", text(&found));
    assert_eq!(frees(|number| number < 50), [], "a program begins");
}

#[test]
fn garbage() {
    let collects = |us: i64, name: &str| {
        let name = name.to_owned();
        steps(4, move |p, _| {
            if us > 0 {
                p.python(&name, |p| p.work(us));
            }
            model(p);
        })
    };
    const EXPLICIT_COLLECTION: &str = "<built-in function collect>";
    let found = repaired(&collects(200, EXPLICIT_COLLECTION), &collects(0, EXPLICIT_COLLECTION), "SL025", 202);
    insta::assert_snapshot!(text(&found));
    insta::assert_snapshot!(text(&collects(200, "Python GC").found("SL025")));
    assert_eq!(collects(200, "data.py(7): collect").found("SL025"), []);
}

/// Collections in recordings: a span, independent of the caller.
#[test]
fn garbage_of_one_line() {
    let collects = |lines: &'static [&'static str]| {
        steps(4, move |p, _| {
            for line in lines {
                p.python(line, |p| {
                    p.annotation("Python GC", |p| {
                        // Samples see the function that it interrupted.
                        p.span("python_function", line, p.now, 400, json!({INFERRED: 1}));
                        p.work(400);
                    });
                });
            }
            model(p);
        })
    };
    let found = collects(&["train.py(31): free"]).found("SL025");
    let (place, gain) = (&found[0].place, found[0].gain.unwrap());
    assert_eq!((place.file.as_deref(), place.line), (Some("train.py"), Some(31)));
    assert!(gain.low_ns > 0 && gain.low_ns * 10 > gain.likely_ns * 9, "{}", text(&found));
    // Two lines alike: no place of it.
    let found = collects(&["train.py(31): free", "train.py(40): load"]).found("SL025");
    assert_eq!((found.len(), found[0].place.file.as_deref()), (1, None), "{}", text(&found));
}

#[test]
fn compilations_in_later_steps() {
    let compiles = |is_in: fn(usize) -> bool| {
        steps(4, move |p, number| {
            if is_in(number) {
                p.op("entire_frame_compile", |p| p.op("_compile.compile_inner (dynamo_timed)", |p| p.work(400)));
            }
            p.op("Torch-Compiled Region: 0/0", model);
        })
    };
    let found = repaired(&compiles(|_| true), &compiles(|number| number == 0), "SL026", 404 * 3 / 4);
    insta::assert_snapshot!(text(&found));
    let recorded = steps(4, |p, number| {
        let name = if number == 0 { "Compile 0/0: f (m.py:3)" } else { "Recompile 0/1: f (m.py:3)" };
        p.annotation(name, |p| p.work(200));
        model(p);
    });
    assert!(text(&recorded.found("SL026")).contains("in 3 of the 3 steps"), "{}", text(&recorded.found("SL026")));
}

#[test]
fn logging_in_steps() {
    let logs = |every: usize| {
        steps(4, move |p, number| {
            p.op("aten::mm", |p| p.kernel("gemm", 400));
            if number % every == 0 {
                p.python("<built-in function print>", |p| {
                    p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
                    p.work(100);
                });
            }
            p.op("aten::mul", |p| p.work(300));
        })
    };
    // Without it the host launches the next step's kernel while this one's runs: the GPU's 400 µs are what is left.
    let found = logs(1).found("SL029");
    insta::assert_snapshot!(text(&found));
    let saved = logs(1).findings().step_ns - logs(100).findings().step_ns;
    assert!(found[0].gain.unwrap().high_ns + 3_000 >= saved && found[0].gain.unwrap().low_ns <= saved, "{saved}");
    let other = steps(4, |p, _| p.python("wandb/sdk/login.py(3): login_state", |p| p.work(300)));
    assert_eq!(other.found("SL029"), []);
    // A progress bar's loop encloses what it counts.
    let bar = steps(4, |p, _| p.python("tqdm/std.py(1160): __iter__", model));
    assert_eq!(bar.found("SL029"), []);
}

#[test]
fn unstable_steps() {
    let differs = |slow: fn(usize) -> bool| {
        steps(8, move |p, number| {
            p.op("aten::empty", |p| p.call("cudaMalloc", if slow(number) { 400 } else { 2 }));
            model(p);
        })
    };
    let found = differs(|number| number == 5).found("SL031");
    insta::assert_snapshot!(text(&found));
    // 398 µs in one of 8 steps.
    assert_eq!(found[0].gain_ns(), 398_000 / 8);
    assert_eq!(differs(|number| number % 2 == 0).found("SL031"), [], "every other step is how the program is");
    assert_eq!(differs(|_| true).found("SL031"), []);
    assert_eq!(differs(|number| number == 0).found("SL031"), [], "a program warms up");
    assert_eq!(differs(|number| number == 1).found("SL031").len(), 1, "later ones do not");
    assert_eq!(
        differs(|number| number == 7).found("SL031"),
        [],
        "what ends a program or a profile lies in its last step"
    );
}

#[test]
fn kernel_outliers() {
    let runs = |grid: fn(usize) -> i64, us: fn(usize) -> i64| {
        steps(30, move |p, number| {
            for _ in 0..2 {
                let args = json!({"grid": [grid(number), 1, 1], "block": [128, 1, 1]});
                let us = us(number);
                p.op("aten::mm", |p| p.launch(("cudaLaunchKernel", "kernel"), "gemm", us, 7, args));
            }
            p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
        })
    };
    let odd = |number| if number == 20 { 2000 } else { 100 };
    let found = repaired(&runs(|_| 64, odd), &runs(|_| 64, |_| 100), "SL032", 2 * 1900 / 30);
    insta::assert_snapshot!(text(&found));
    assert_eq!(runs(|number| if number == 20 { 999 } else { 64 }, odd).found("SL032"), [], "it was larger");
}

#[test]
fn profiler_overhead() {
    let frames = |count: usize| {
        steps(2, move |p, _| {
            for _ in 0..count {
                p.python("layers.py(3): f", |_| ());
            }
            p.work(400);
            model(p);
        })
    };
    let found = frames(4000).found("SL033");
    insta::assert_snapshot!(text(&found));
    assert_eq!(found[0].gain, None);
    assert_eq!(frames(20).found("SL033"), []);
    let mut without_length = Program::new();
    without_length.op("aten::mm", |p| p.work(100));
    (0..4000).for_each(|_| without_length.span("python_function", "layers.py(3): f", 50, 0, json!({})));
    assert_eq!(without_length.found("SL033"), [], "they are damaged");
    let overhead = steps(3, |p, _| {
        p.span("overhead", "Activity Buffer Request", p.now, 300, json!({}));
        p.work(300);
        model(p);
    });
    assert!(text(&overhead.found("SL033")).contains("of the critical path"), "{}", text(&overhead.found("SL033")));
}

#[test]
fn graph_breaks() {
    let compiled = |breaks: bool| {
        steps(4, move |p, _| {
            p.op("TorchDynamo Cache Lookup", |p| p.work(30));
            p.op("Torch-Compiled Region: 0/0", |p| {
                p.work(50);
                if breaks {
                    p.op("TorchDynamo Cache Lookup", |p| p.work(40));
                    p.op("Torch-Compiled Region: 1/0", |p| {
                        p.python("model.py(7): torch_dynamo_resume_in_forward_at_12", |p| p.work(50));
                    });
                }
            });
            // Another function, compiled as well.
            p.op("Torch-Compiled Region: 2/0", model);
        })
    };
    // Without the checks in the trace, a model: 30 µs each.
    let bare = steps(4, |p, _| {
        p.op("Torch-Compiled Region: 0/0", |p| p.op("Torch-Compiled Region: 1/0", |p| p.work(50)));
        model(p);
    });
    let gain = bare.found("SL027")[0].gain.unwrap();
    assert_eq!((gain.low_ns, gain.likely_ns, gain.high_ns), (0, 30_000, 90_000));
    let found = compiled(true).found("SL027");
    insta::assert_snapshot!(text(&found));
    // The check takes 42 µs; what runs behind the break stays.
    assert_eq!(found[0].gain_ns(), 42_000);
    assert_eq!(compiled(false).found("SL027"), []);
}

#[test]
fn small_uploads() {
    let makes = |is_in: fn(usize) -> bool, name: &'static str| {
        steps(4, move |p, number| {
            model(p);
            if is_in(number) {
                p.op("aten::to", |p| p.op("aten::_to_copy", |p| p.pageable(2, 8)));
                p.op(name, |_| ());
            }
            p.op("aten::mul", |p| p.kernel("mul", 50));
            p.sync("cudaDeviceSynchronize");
        })
    };
    let bad = makes(|_| true, "aten::lift_fresh");
    let found = bad.found("SL030");
    insta::assert_snapshot!(text(&found));
    let good = makes(|_| false, "");
    let saved = bad.findings().step_ns - good.findings().step_ns;
    // 17 µs of `aten::to`; the 2 µs of `aten::lift_fresh` stay.
    assert!((found[0].gain_ns() - (saved - 2_000)).abs() <= 2_000, "{saved}: {}", text(&found));
    assert_eq!(makes(|_| true, "aten::clone").found("SL030"), [], "a batch");
    assert_eq!(makes(|number| number == 2, "aten::lift_fresh").found("SL030"), [], "once");
}

#[test]
fn falling_clocks() {
    let clocks = |low: i64, us: fn(usize) -> i64| {
        steps(8, move |p, number| {
            p.counter("GPU 0 SM clock (MHz)", if number < 4 { 1800 } else { low });
            let args = json!({"grid": [64, 1, 1], "block": [128, 1, 1]});
            p.op("aten::mm", |p| p.launch(("cudaLaunchKernel", "kernel"), "gemm", us(number), 7, args));
            p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
        })
    };
    let slow = |number| if number < 4 { 400 } else { 600 };
    let found = repaired(&clocks(1200, slow), &clocks(1800, |_| 400), "SL034", 200 * 4 / 8);
    insta::assert_snapshot!(text(&found));
    assert_eq!(clocks(1200, |_| 400).found("SL034"), [], "limited by memory: no kernel takes longer");
    let without = steps(8, |p, number| p.op("aten::mm", |p| p.kernel("gemm", slow(number)))).findings();
    assert!(without.unchecked.iter().any(|u| u.rule.code == "SL034"));
}

/// The runs of a single kernel differ, too: bounds say by how much.
#[test]
fn falling_clocks_with_noisy_kernel_times() {
    let clocks = |spread: i64| {
        steps(16, move |p, number| {
            p.counter("GPU 0 SM clock (MHz)", if number < 8 { 1800 } else { 1200 });
            let us = if number < 8 { 400 } else { 600 } + spread * (number as i64 % 4 - 1);
            let args = json!({"grid": [64, 1, 1], "block": [128, 1, 1]});
            p.op("aten::mm", |p| p.launch(("cudaLaunchKernel", "kernel"), "gemm", us, 7, args));
            p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
        })
    };
    let width = |spread| {
        let found = clocks(spread).found("SL034");
        let gain = found[0].gain.unwrap();
        (gain.high_ns - gain.low_ns, gain)
    };
    let ((small_callers, _), (wide, gain)) = (width(0), width(60));
    assert!(wide > 3 * small_callers, "{small_callers} {wide}");
    // The mean of four runs, 60 µs apart, is off by 40 µs and more at times.
    assert!(gain.low_ns < 80_000 && gain.high_ns > 110_000, "{gain:?}");
}

/// Findings of the rules of this file for a trace of the corpus, by code; none without the corpus.
fn corpus_findings(name: &str) -> Option<Findings> {
    let path = stackline_testkit::corpus::file(&format!("kineto/{name}"))?;
    Some(find(&crate::support::read_file(&path), &[]))
}

/// Findings checked by a person: which are true of these traces, and which are not.
#[test]
fn findings_corpus_host() {
    let known: &[(&str, &[&str], &[&str])] = &[
        // Images are loaded in the process itself for 70 of 175 ms; the steps are alike.
        ("schema-2021-v100-resnet50.json.gz", &["SL009"], &["SL010", "SL024", "SL031", "SL033"]),
        // The first step waits 45 ms in its copy, as first steps do; workers are fast enough.
        ("schema-2020-bare-array-resnet50.json.gz", &["SL011"], &["SL009", "SL030", "SL031"]),
        // A pipeline prepares 128 images for one run of the model, and copies 38 MB.
        ("nvidia-h100-timesformer.json.gz", &["SL010", "SL011"], &["SL009", "SL029", "SL033"]),
        // 0.6 Python frames per µs.
        ("amd-vllm-piecewise-graph-replay.json.gz", &["SL033"], &["SL010", "SL027", "SL029"]),
        // A function that is compiled once and called often; a progress bar that takes 0.2 ms.
        ("amd-mi300-sd3.5-diffusion.json.gz", &[], &["SL026", "SL027", "SL029", "SL033"]),
        // Weights are copied and memory allocated before the one step.
        ("nvidia-a100-alexnet-cuda-sync.json.gz", &[], &["SL011", "SL024"]),
    ];
    for (name, fires, fires_not) in known {
        let Some(found) = corpus_findings(name) else { return };
        let has = |code: &str| found.findings.iter().any(|f| f.rule.code == code);
        for code in *fires {
            assert!(has(code), "{name}: {code} is missing in\n{}", text(&found.findings));
        }
        for code in *fires_not {
            assert!(!has(code), "{name}: {code} is wrong in\n{}", text(&found.findings));
        }
    }
}
