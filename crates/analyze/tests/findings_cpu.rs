//! Findings of programs without GPU, and of traces of which a part was lost.

use crate::findings_support;

use findings_support::{Program, find, host_steps as steps, text};
use serde_json::json;
use stackline_findings as findings;
use stackline_findings::{Finding, Support};
use stackline_model::{Problem, Severity};
use stackline_timeline::confidence::Confidence;

/// The only finding, and its gain in µs.
fn only(found: &[Finding]) -> i64 {
    assert_eq!(found.len(), 1, "{}", text(found));
    found[0].gain_ns() / 1000
}

#[test]
fn loops_of_small_operators() {
    let in_loop = |calls: usize, us: i64| {
        steps(move |p| {
            p.python("train.py(30): normalized", |p| {
                for _ in 0..calls {
                    p.op("aten::mean", |p| p.work(us));
                }
            });
        })
    };
    let found = in_loop(100, 5).found("SL038");
    // A call takes 7 µs with what is around it. One of a hundred stays.
    assert!((688..=702).contains(&only(&found)), "{}", text(&found));
    assert_eq!(in_loop(20, 5).found("SL038"), [], "few");
    assert_eq!(in_loop(100, 60).found("SL038"), [], "not small");
    let of_cells = |us: i64| {
        steps(move |p| {
            p.python("train.py(7): forward", |p| (0..63).for_each(|_| p.op("aten::lstm_cell", |p| p.work(us))));
        })
    };
    assert_eq!([60, 600].map(|us| of_cells(us).found("SL038").len()), [1, 0], "there is a layer for all of them");
    let different = steps(|p| {
        for i in 0..100 {
            p.python(&format!("nn.Module: Linear_{i}"), |p| p.op("aten::addmm", |p| p.work(5)));
        }
    });
    assert_eq!(different.found("SL038"), [], "layers, not turns of a loop");
}

/// Stacks of a loop with two lines: a frame around each call.
#[test]
fn alternating_lines_are_one_loop() {
    let body = |p: &mut Program, line: u32, us: i64| {
        p.python(&format!("train.py({line}): normalized"), |p| p.op("aten::mean", |p| p.work(us)));
    };
    let found = steps(|p| {
        for _ in 0..60 {
            body(p, 16, 5);
            body(p, 17, 6);
        }
    })
    .found("SL038");
    assert_eq!(found.len(), 1, "{}", text(&found));
    assert!(found[0].title.contains("(lines 16 to 17)"), "{}", text(&found));
    assert_eq!(found[0].place.line, Some(17), "more of its time");
    let after_each_other = steps(|p| {
        (0..60).for_each(|_| body(p, 16, 5));
        (0..60).for_each(|_| body(p, 17, 6));
    });
    assert_eq!(after_each_other.found("SL038").len(), 2);
}

/// Python time between the calls of a loop is removed with them, also if the function around them does other things.
#[test]
fn loop_gain_includes_its_python_time() {
    let found = steps(|p| {
        for _ in 0..100 {
            p.op("aten::mean", |p| p.work(5));
            p.work(4);
        }
        p.op("aten::mm", |p| p.work(3000));
    })
    .found("SL038");
    // Of 100 times 11 µs one call stays, and of what is between them as much.
    assert!((1_070..=1_100).contains(&only(&found)), "{}", text(&found));
    let apart = steps(|p| {
        for _ in 0..100 {
            p.op("aten::mean", |p| p.work(5));
            p.op("aten::mm", |p| p.work(100));
        }
    })
    .found("SL038");
    assert!((680..=702).contains(&only(&apart)), "the product between them stays: {}", text(&apart));
}

#[test]
fn numbers_have_their_own_unit() {
    let found = steps(|p| p.python("logging/__init__.py(1477): Logger.info", |p| p.work(1_134_725))).found("SL029");
    assert!(findings::evidence(&found[0]).contains("1135 ms"), "{}", text(&found));
    let scaled = steps(|p| (0..63).for_each(|_| p.op("aten::mean", |p| p.work(5)))).found("SL038");
    let factor = scaled[0].edits[0].rsplit(' ').next().unwrap();
    assert!(factor.starts_with("0.0") && factor.len() <= 8, "{factor}");
}

#[test]
fn optimizers_on_a_cpu() {
    let optimizer = |operator: &'static str| {
        steps(move |p| {
            p.annotation("Optimizer.step#AdamW.step", |p| {
                for _ in 0..50 {
                    for name in ["mul_", "lerp_", "addcmul_", "sqrt", "addcdiv_"] {
                        p.op(&format!("{operator}{name}"), |p| p.work(4));
                    }
                }
            });
        })
    };
    let found = optimizer("aten::").found("SL015");
    // 50 parameters take 3 µs each, and of the 1.5 µs and more of each operator beyond 2.5 µs 35 % stay.
    let total =
        found[0].facts.iter().find(|fact| fact.name == "optimizer time including Python per step").unwrap().value;
    let beyond = 250.0 * (total / 250.0 - 2.5) * 0.35;
    assert!((only(&found) as f64 - (total - 150.0 - beyond)).abs() < 0.1 * total, "{}", text(&found));
    // At least nothing of what is beyond goes, at most four fifths.
    let gain = found[0].gain.unwrap();
    for (bound, stays) in [(gain.low_ns, 1.0), (gain.high_ns, 0.2)] {
        let expected = total - 150.0 - beyond / 0.35 * stays;
        assert!((bound as f64 / 1e3 - expected).abs() < 0.05 * total, "{expected} µs: {}", text(&found));
    }
    assert_eq!((found[0].support, found[0].confidence), (Support::Inferred, Confidence::Medium));
    assert_eq!(optimizer("aten::_foreach_").found("SL015"), []);
}

#[test]
fn copies_on_a_cpu() {
    let copy = |around: &'static str| {
        steps(move |p| p.op(around, |p| p.op("aten::clone", |p| p.op("aten::copy_", |p| p.work(300)))))
    };
    let found = copy("aten::contiguous").found("SL017");
    assert!((300..=330).contains(&only(&found)), "{}", text(&found));
    assert!(found[0].title.contains("into another memory layout"), "{}", text(&found));
    assert_eq!(copy("aten::_to_copy").found("SL017"), [], "a conversion");
    let plain = steps(|p| p.op("aten::clone", |p| p.op("aten::copy_", |p| p.work(300)))).found("SL017");
    assert!(
        plain[0].title.starts_with("aten::clone copies tensors: "),
        "nothing says in which order: {}",
        text(&plain)
    );
}

/// Python takes half of the time of a deepcopy: the finding covers all of it, and names the deepcopy.
#[test]
fn deep_copies_include_their_python_time() {
    let copies = |deep: bool| {
        steps(move |p| {
            p.python("train.py(30): update", |p| {
                let inside = |p: &mut Program| {
                    for _ in 0..10 {
                        p.work(100);
                        p.op("aten::clone", |p| p.op("aten::copy_", |p| p.work(96)));
                    }
                };
                if deep { p.python("copy.py(128): deepcopy", inside) } else { inside(p) }
            });
        })
    };
    let found = copies(true).found("SL017");
    insta::assert_snapshot!(text(&found));
    // 2,000 µs of which the operators are 1,000.
    assert!((1990..=2030).contains(&only(&found)), "{}", text(&found));
    assert!(found[0].gain.unwrap().low_ns < 1_030_000, "operators alone are what is sure: {}", text(&found));
    assert!(found[0].rule.advice.contains("_foreach_lerp_"), "{}", found[0].rule.advice);
    let plain = copies(false).found("SL017");
    assert!((1000..=1030).contains(&only(&plain)) && plain[0].title.starts_with("aten::clone copies tensors"));
}

/// Without steps, layers that are called for one token after another are no loop of small operators; iterations of a cell are,
/// although two functions alternate in them.
#[test]
fn loops_without_steps_need_consecutive_iterations() {
    let layers = |linear_us: i64| {
        let mut program = Program::new();
        for _ in 0..120 {
            program.python("gen.py(20): forward", |p| {
                for (name, us) in [("add", 5), ("layer_norm", 6), ("linear", linear_us), ("gelu", 5)] {
                    p.op(&format!("aten::{name}"), |p| p.work(us));
                }
            });
        }
        program.found("SL038").len()
    };
    assert_eq!(layers(60), 0);
    let mut cell = Program::new();
    for _ in 0..120 {
        cell.python("rnn.py(30): run", |p| p.op("aten::select", |p| p.work(5)));
        cell.python("rnn.py(9): cell", |p| {
            ["aten::mul", "aten::tanh"].into_iter().for_each(|name| p.op(name, |p| p.work(5)));
        });
    }
    assert_eq!(cell.found("SL038").len(), 2);
}

/// Traces of 2021 and before have steps among the operators.
#[test]
fn steps_are_no_operators() {
    let mut program = Program::new();
    for number in 0..3 {
        program.op(&format!("ProfilerStep#{number}"), |p| {
            for name in ["pow", "mean", "add", "rsqrt", "mul"] {
                p.kernel(name, 3);
            }
            p.op("aten::norm", |p| (0..5).for_each(|_| p.kernel("norm", 3)));
        });
    }
    let found = program.findings().findings;
    assert!(
        found.iter().any(|f| f.rule.code == "SL002" && f.title.starts_with("Many small kernels: aten::norm")),
        "{}",
        text(&found)
    );
    assert!(!text(&found).contains("ProfilerStep"), "{}", text(&found));
}

/// Work of autograd around the backward of an operator is none either.
#[test]
fn steps_are_no_backward() {
    let gain = |old: bool| {
        let mut program = Program::new();
        for number in 0..3 {
            let inside = |p: &mut Program| {
                let of = |i: i64, thread: i64| json!({"Sequence number": 1000 * number + i, "Fwd thread id": thread});
                p.python("train.py(3): loop", |p| {
                    (0..60).for_each(|i| p.op_with("aten::add", of(i, 0), |p| p.work(3)));
                });
                p.op("aten::mm", |p| p.work(2000));
                for i in (0..60).rev() {
                    p.op("autograd::engine::evaluate_function: AddBackward0", |p| {
                        p.op_with("AddBackward0", of(i, 1), |p| p.work(2));
                    });
                }
            };
            let name = format!("ProfilerStep#{number}");
            if old { program.op(&name, inside) } else { program.annotation(&name, inside) }
        }
        let found = program.found("SL038");
        (found[0].gain.unwrap().likely_ns, found[0].gain.unwrap().high_ns)
    };
    assert_eq!(gain(true), gain(false));
    assert!(gain(true).1 < 1_500_000, "the product stays: {:?}", gain(true));
}

/// Files begin with imports, and frames are named by the first line of their function.
#[test]
fn first_line_of_a_file_is_no_location() {
    let logs = |p: &mut Program| p.python("logging/__init__.py(1477): Logger.info", |p| p.work(500));
    let found = steps(|p| p.python("main.py(1): <module>", logs)).found("SL029");
    assert_eq!((found[0].place.file.as_deref(), found[0].place.line), (Some("main.py"), None), "{}", text(&found));
}

/// Eight steps of ten operators, of which one step is slow: in one operator, or in all.
#[test]
fn slow_steps_are_located_at_the_growth() {
    let slow_steps = |is_slow: fn(usize) -> bool, is_recording: bool| {
        let mut program = Program::new();
        if is_recording {
            program.recorded(json!({"usable_milli": 2000}));
        }
        for number in 0..8 {
            program.step(number, |p| {
                for i in 0..10 {
                    let us = if number == 5 && is_slow(i) { 300 } else { 100 };
                    p.python(&format!("train.py({}): part{i}", 10 + i), |p| {
                        p.op(&format!("aten::op{i}"), |p| p.work(us));
                    });
                }
            });
        }
        program.found("SL031").pop()
    };
    let slow = |is_slow: fn(usize) -> bool| slow_steps(is_slow, false).unwrap();
    let (one, all) = (slow(|i| i == 3), slow(|_| true));
    assert_eq!((one.place.line, one.title.contains("mostly in aten::op3")), (Some(13), true), "{}", text(&[one]));
    assert_eq!((all.place.line, all.title.contains("mostly in")), (None, false), "{}", text(&[all]));
    // Nothing else is done in it: on a machine at work an operator that is slower once may have waited for a processor.
    assert_eq!([slow_steps(|i| i == 3, true), slow_steps(|_| true, true)], [None, None]);
}

/// Eight steps, of which one does something more.
#[test]
fn slow_step_with_more_work() {
    let with = |inside: fn(&mut Program)| {
        let mut program = Program::new();
        program.recorded(json!({"usable_milli": 2000}));
        for number in 0..8 {
            program.step(number, |p| {
                p.op("aten::mm", |p| p.work(1000));
                if number == 5 {
                    inside(p);
                }
            });
        }
        program.found("SL031").remove(0)
    };
    let evaluates = with(|p| p.python("train.py(40): evaluate", |p| p.work(800)));
    assert!((90_000..=110_000).contains(&evaluates.gain_ns()), "{}", text(&[evaluates]));
    assert!(with(|p| p.op("aten::mm", |p| p.work(800))).gain.is_some());
    let collects = with(|p| p.annotation("Python GC", |p| p.work(800)));
    assert!(collects.gain.is_some() && collects.title.contains("Python GC"), "{}", text(&[collects]));
}

#[test]
fn resizing_counts_in_data_loading() {
    let resize = |around: &'static str| {
        steps(move |p| p.python(around, |p| p.python("torch/nn/functional.py(4660): interpolate", |p| p.work(400))))
    };
    assert!(only(&resize("data.py(3): Images.__getitem__").found("SL010")) >= 399);
    assert_eq!(resize("nn.Module: Upsample_0").found("SL010"), [], "a part of a model");
}

#[test]
fn findings_of_incomplete_traces_are_less_certain() {
    let program = steps(|p| p.python("logging/__init__.py(1477): Logger.info", |p| p.work(500)));
    let mut trace = program.trace();
    let whole = find(&trace, &[]);
    assert_eq!((whole.notes.len(), whole.findings[0].confidence), (0, Confidence::Medium));
    trace.report.problems.push(Problem {
        code: "truncated".to_owned(),
        severity: Severity::Lost,
        message: "the file ends in the middle".to_owned(),
        count: 1,
        offsets: Vec::new(),
        example: String::new(),
        more: Vec::new(),
    });
    let cut = find(&trace, &[]);
    assert_eq!(cut.findings[0].confidence, Confidence::Low);
    assert!(cut.notes.iter().any(|note| note.contains("part of the trace is missing")), "{:?}", cut.notes);
}

/// Calls as recorded by torch.profiler: a function of the program that parses, by a library.
#[test]
fn python_of_programs_without_a_gpu() {
    let parses = |library: &'static str, us: i64| {
        steps(move |p| {
            p.python("train.py(30): table", |p| {
                p.python(library, |p| p.work(us));
                p.op("aten::to", |p| p.work(100));
            });
        })
    };
    let found = parses("json/__init__.py(293): load", 2000).found("SL043");
    assert_eq!(
        (found[0].place.line, found[0].place.function.as_deref()),
        (Some(30), Some("table")),
        "{}",
        text(&found)
    );
    let gain = found[0].gain.unwrap();
    assert!((990_000..=1_010_000).contains(&gain.likely_ns) && gain.low_ns <= 0, "{}", text(&found));
    assert!((1_980_000..=2_020_000).contains(&gain.high_ns) && only(&found) > 0, "{}", text(&found));
    assert_eq!(parses("json/__init__.py(293): load", 150).found("SL043"), [], "little");
    assert_eq!(parses("torch/nn/functional.py(9): pad", 2000).found("SL043"), [], "a framework's");
    let mut on_gpu = parses("json/__init__.py(293): load", 2000);
    on_gpu.op("aten::mm", |p| p.kernel("gemm", 10));
    assert_eq!(on_gpu.found("SL043"), [], "SL005's");
}

/// The advice depends on the cause of the wait.
#[test]
fn advice_depends_on_the_awaited_resource() {
    let advice = |frame: &str| {
        let found = steps(|p| p.python(frame, |p| p.work(500))).found("SL039");
        assert_eq!(found.len(), 1, "{frame}: {}", text(&found));
        found[0].rule.advice.clone()
    };
    let lock = advice("<built-in method acquire of _thread.lock object at 0x7f52d1b40e50>");
    assert!(lock.starts_with("Shorten the time under the lock"), "{lock}");
    assert_eq!(advice("<built-in method __enter__ of _thread.RLock object at 0x7f52d1b40e50>"), lock);
    assert!(advice("queue.py(154): Queue.get").starts_with("If the step waits in get(): "));
    assert!(advice("threading.py(327): Condition.wait").starts_with("Start the other thread one step earlier"));
    assert!(advice("<built-in function sleep>").starts_with("Remove the sleep"));
    assert!(
        advice("concurrent/futures/_base.py(428): Future.result").starts_with("Let the other thread or process run")
    );
}

/// A folder that is called like a framework is the user's own where traces have whole paths.
#[test]
fn user_folders_may_be_named_like_frameworks() {
    let found = |file: &str| {
        let name = format!("{file}(30): table");
        let parses = steps(|p| {
            p.python(&name, |p| p.python("json/__init__.py(293): load", |p| p.work(2000)));
            p.op("aten::to", |p| p.work(100));
        });
        parses.found("SL043").into_iter().filter_map(|found| found.place.file).collect::<Vec<_>>()
    };
    for own in ["/data/me/transformers/tables.py", "src/jax/tables.py", "./transformers/tables.py"] {
        assert_eq!(found(own), [own]);
    }
    for library in ["/venv/lib/python3.11/site-packages/transformers/tables.py", "transformers/tables.py"] {
        assert!(!found(library).iter().any(|file| file == library), "{library}");
    }
}

/// One line that reads a list twice, for so long each, after so much other work.
fn list_in_line(p: &mut Program, other_us: i64, first_us: i64, second_us: i64) {
    p.python("data.py(9): batch", |p| {
        p.work(other_us + first_us);
        p.op("aten::empty", |p| p.work(2));
        p.work(second_us);
        ["aten::to", "aten::lift_fresh", "aten::detach_"].into_iter().for_each(|name| p.op(name, |p| p.work(2)));
    });
}

/// PyTorch reads the numbers before the first operator, and writes them after it. Other work before it is not its own.
#[test]
fn list_gain_is_the_reading_time() {
    for other_us in [0, 5000] {
        let found = steps(|p| list_in_line(p, other_us, 400, 360)).found("SL045");
        let [only] = &found[..] else { panic!("{}", text(&found)) };
        let gain = only.gain.unwrap();
        assert!((770_000..=830_000).contains(&gain.likely_ns) && gain.high_ns < 1_150_000, "{}", text(&found));
        assert!(only.title.starts_with("Tensor from a Python list"), "{}", text(&found));
    }
    // A call that another program held up does not make the others longer.
    let mut number = 0;
    let interrupted = steps(|p| {
        number += 1;
        list_in_line(p, 20_000, 400, if number == 3 { 9_000 } else { 360 });
    });
    let interrupted = interrupted.found("SL045");
    assert!((2_900_000..=3_050_000).contains(&interrupted[0].gain_ns()), "{}", text(&interrupted));
}

/// `torch.from_numpy` and `as_tensor` of arrays read and copy nothing.
#[test]
fn arrays_are_no_lists() {
    let arrays = steps(|p| {
        p.python("data.py(9): features", |p| {
            p.work(3000);
            p.op("aten::lift_fresh", |p| p.work(500));
        });
    });
    assert_eq!(arrays.found("SL045"), []);
    let copied = steps(|p| {
        p.python("data.py(9): features", |p| {
            p.op("aten::empty", |p| p.work(2));
            p.op("aten::mm", |p| p.work(2));
            ["aten::to", "aten::lift_fresh", "aten::detach_"].into_iter().for_each(|name| p.op(name, |p| p.work(300)));
        });
    });
    assert_eq!(copied.found("SL045"), []);
}
