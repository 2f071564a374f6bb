//! Findings in recordings whose samples are rarer than steps.

use crate::findings_support;

use findings_support::{Program, text};
use serde_json::json;
use stackline_findings::{Finding, LargeKind};
use stackline_timeline::confidence::Confidence;

const LOGS: &str = "logging/__init__.py(1489): Logger.info";
/// Steps of 1 ms in an operator and then `GAP_US` between two operators; a sample stands for 10 ms.
const STEPS: usize = 40;
const GAP_US: i64 = 3000;

/// Samples between the operators: a name each, in so many of the steps.
fn sampled(seen: &[(&str, usize)]) -> Program {
    let mut names: Vec<Option<&str>> = seen.iter().flat_map(|&(name, count)| vec![Some(name); count]).collect();
    names.resize(STEPS, None);
    let mut program = Program::new();
    for (number, name) in names.into_iter().enumerate() {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.work(1000));
                p.work(GAP_US / 2);
                if let Some(name) = name {
                    p.sample(1, name, 10_000);
                }
                p.work(GAP_US / 2);
                p.op("aten::add", |p| p.work(10));
            });
        });
    }
    program
}

fn gains(program: &Program, code: &str) -> (Finding, i64, i64, i64) {
    let found = program.found(code);
    assert_eq!(found.len(), 1, "{}", text(&found));
    let gain = found[0].gain.unwrap();
    (found[0].clone(), gain.low_ns / 1000, gain.likely_ns / 1000, gain.high_ns / 1000)
}

/// A sample in one of three steps: the two others log, too.
#[test]
fn logging_counts_for_steps_without_a_sample() {
    let (found, low, likely, high) = gains(&sampled(&[(LOGS, 12)]), "SL029");
    // All 12 samples saw it, and 120 ms are all the time between those operators: of that nothing is left to others.
    assert!((GAP_US - 50..=GAP_US + 50).contains(&likely), "{}", text(&[found]));
    assert!(low > 1000 && low < likely && likely <= high && high < GAP_US + 100, "{low} {likely} {high}");
}

/// Four samples are 40 of 120 ms. A writer of a file waits for it: without other work, that is no finding of its own.
#[test]
fn logging_includes_its_waits() {
    let (found, low, likely, high) = gains(&sampled(&[(LOGS, 4)]), "SL029");
    assert!((GAP_US - 50..=GAP_US + 50).contains(&likely), "{}", text(&[found]));
    // That the wait is its own is not sure.
    assert!(low < GAP_US / 3 && likely <= high && high < GAP_US + 100, "{low} {likely} {high}");
    assert_eq!(sampled(&[(LOGS, 4)]).found("SL039"), []);
    let mostly = sampled(&[(LOGS, 6), ("train.py(50): other", 1)]);
    assert!(gains(&mostly, "SL029").2 < GAP_US * 6 / 7 + 50, "no more than its share");
    // Half of it is another's: nobody knows whose wait it is.
    let shared = sampled(&[(LOGS, 2), ("train.py(50): other", 2)]);
    let (_, _, likely, high) = gains(&shared, "SL029");
    assert!((450..=550).contains(&likely) && high > GAP_US / 2, "{likely} {high}");
    assert_eq!(shared.found("SL039").len(), 1);
}

/// If samples see only logging, all the time between those operators is its own, also on a machine that others use.
#[test]
fn saving_includes_processor_waits() {
    const SAVES: &str = "torch/serialization.py(1004): save";
    let mut program = Program::new();
    for number in 0..STEPS {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.work(1000));
                p.work(GAP_US / 2);
                p.sample(1, SAVES, 1000);
                p.work(GAP_US / 2);
                p.op("aten::add", |p| p.work(10));
            });
        });
    }
    // Two of three milliseconds the thread waits for a processor.
    let (end, delayed) = (program.now * 1000, 2_000_000 * STEPS as i64);
    program.recorded(json!({"usable_milli": 2000, "loads": [[0, 0, 0], [end, end - delayed, delayed]]}));
    let (found, _, likely, high) = gains(&program, "SL029");
    assert!((GAP_US - 100..=GAP_US + 50).contains(&likely), "{}", text(&[found]));
    assert!((likely..GAP_US + 100).contains(&high), "{likely} {high}");
}

/// A wait that a call reports is not reported again as one of logging.
#[test]
fn recorded_waits_are_not_reported_twice() {
    let mut program = Program::new();
    for number in 0..STEPS {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.work(1000));
                p.python("queue.py(180): Queue.get", |p| p.work(2000));
                if number % 10 == 0 {
                    p.sample(1, LOGS, 10_000);
                }
                p.work(1000);
                p.op("aten::add", |p| p.work(10));
            });
        });
    }
    let (_, _, waits, _) = gains(&program, "SL039");
    assert!((1950..=2050).contains(&waits), "{waits}");
    let (_, _, logs, _) = gains(&program, "SL029");
    assert!(logs < 1100, "{logs}");
}

/// A single sample may mean more or less time: the error of the count is in the bounds, and the ground truth within them.
#[test]
fn gap_time_is_divided_by_samples() {
    let (found, low, likely, high) = gains(&sampled(&[(LOGS, 4), ("train.py(50): other", 8)]), "SL029");
    assert!((GAP_US / 3 - 50..=GAP_US / 3 + 50).contains(&likely), "{}", text(&[found]));
    // Of twelve samples one to eight may have been the usual number.
    assert!(low < GAP_US / 6 && high > GAP_US * 6 / 10 && high <= GAP_US + 50, "{low} {likely} {high}");
    assert_eq!(sampled(&[("train.py(50): other", 12)]).found("SL029"), []);
}

#[test]
fn single_sample_is_uncertain() {
    let (found, low, ..) = gains(&sampled(&[(LOGS, 1), ("train.py(50): other", 11)]), "SL029");
    assert_eq!((found.confidence, found.is_unsure()), (Confidence::Low, low <= 0), "{}", text(&[found]));
    assert!(low < GAP_US / 100, "{low}");
}

/// Each step sleeps, and the checks of waiting threads hit three sleeps. Samples of CPU time, which are in operators
/// and `computes` times between them, show if the thread computed meanwhile.
#[test]
fn missed_sleeps_are_inferred_from_cpu_samples() {
    let sleeps = |computes: usize| {
        let mut program = Program::new();
        for number in 0..STEPS {
            program.step(number, |p| {
                p.python("train.py(10): step", |p| {
                    p.op("aten::mm", |p| {
                        p.work(500);
                        if number % 10 == 0 {
                            p.sample(1, "train.py(10): step", 10_000);
                        }
                        p.work(500);
                    });
                    p.work(GAP_US / 2);
                    if number < 3 {
                        p.wait_sample(1, "train.py(20): pause", 10_000);
                    } else if number < 3 + computes {
                        p.sample(1, "train.py(50): other", 10_000);
                    }
                    p.work(GAP_US / 2);
                    p.op("aten::add", |p| p.work(10));
                });
            });
        }
        let found = program.found("SL039");
        let is_pause = |finding: &&Finding| finding.place.function.as_deref() == Some("pause");
        found.iter().find(is_pause).unwrap_or_else(|| panic!("{}", text(&found))).gain.unwrap()
    };
    // Of twelve checks in 120 ms three hit, and no sample of CPU time explains the rest.
    let missed = sleeps(0);
    assert!((GAP_US - 100..=GAP_US + 100).contains(&(missed.likely_ns / 1000)), "{missed:?}");
    assert!(missed.low_ns < missed.likely_ns / 2, "samples hit few: {missed:?}");
    // 30 of 120 ms in 40 steps; the rest computes.
    let computed = sleeps(9);
    assert!((700..=800).contains(&(computed.likely_ns / 1000)), "{computed:?}");
}

/// Steps of two operators, with a sampled function of some steps between them.
fn sampled_functions(name: impl Fn(usize) -> Option<&'static str>) -> Program {
    let mut program = Program::new();
    for number in 0..STEPS {
        program.step(number, |p| {
            p.op("aten::mm", |p| p.work(1000));
            match name(number) {
                Some(name) => p.python(name, |p| {
                    p.work(GAP_US / 2);
                    p.sample(1, name, 10_000);
                    p.work(GAP_US / 2);
                }),
                None => p.work(GAP_US),
            }
            p.op("aten::add", |p| p.work(10));
        });
    }
    program
}

/// Functions that samples saw are as long as a sample stands for, at most to the next operator: they count as seen by samples.
#[test]
fn sampled_functions_count_once() {
    let program = sampled_functions(|number| (number % 3 == 0).then_some(LOGS));
    let (found, _, likely, high) = gains(&program, "SL029");
    assert!((GAP_US - 50..=GAP_US + 50).contains(&likely) && high <= GAP_US + 100, "{}", text(&[found]));
}

/// The estimate of a finding covers occurrences of its gap without a sample, unless most samples are of other work.
#[test]
fn gaps_of_findings_are_covered_without_a_sample() {
    let unrecorded = |other: Option<&'static str>| {
        let name = |number: usize| if number.is_multiple_of(9) { Some(LOGS) } else { other };
        let found = sampled_functions(|number| (number % 3 == 0).then_some(name(number)?)).findings();
        assert!(found.findings.iter().any(|finding| finding.rule.code == "SL029"), "{}", text(&found.findings));
        found.uncovered.groups.iter().any(|group| group.kind == LargeKind::UnrecordedPython)
    };
    assert!(!unrecorded(Some(LOGS)));
    assert!(unrecorded(Some("torch/serialization.py(700): _legacy_load")));
}

/// A library function runs in each step of a recording, and samples see it in every third. Its 3.0 of 4.0 ms include
/// calls without a sample, in its share and in its gain.
#[test]
fn uncovered_functions_include_unsampled_calls() {
    const LOADS: &str = "torch/serialization.py(700): _legacy_load";
    let mut program = sampled_functions(|number| number.is_multiple_of(3).then_some(LOADS));
    program.recorded(json!({"usable_milli": 2000}));
    let found = program.findings();
    let groups = &found.uncovered.groups;
    let group = groups.iter().find(|group| group.name == LOADS).unwrap_or_else(|| panic!("{groups:?}"));
    assert!((70.0..80.0).contains(&group.percent) && (70.0..80.0).contains(&group.path_percent), "{group:?}");
    assert!(group.gain.is_some_and(|gain| (2_900_000..=3_100_000).contains(&gain.likely_ns)), "{group:?}");
    assert_eq!(group.edits, [format!("remove frame:{LOADS}")]);
    assert!(!groups.iter().any(|group| group.kind == LargeKind::UnrecordedPython), "{groups:?}");
}

/// 120 ms between operators in which the thread computes for 20 ms at the most.
#[test]
fn waits_are_time_without_cpu_samples() {
    let mut program = sampled(&[("train.py(50): write", 1)]);
    let (found, low, likely, high) = gains(&program, "SL039");
    assert!((2700..=2800).contains(&likely), "{}", text(std::slice::from_ref(&found)));
    assert!(low > 1000 && low < likely && high <= GAP_US + 50, "{low} {likely} {high}");
    assert_eq!(found.place.function.as_deref(), Some("step"), "{}", text(std::slice::from_ref(&found)));
    assert_eq!(sampled(&[("train.py(50): write", 12)]).found("SL039"), [], "it computes all the time");
    // It was ready to run, and another program had the processor.
    let end = 4_100_000 * STEPS as i64;
    program.recorded(json!({"loads": [[0, 0, 0], [end, end / 4, end]]}));
    assert_eq!(program.found("SL039"), []);
}

/// Samples of CPU time are where a thread computes, and not where it waits.
#[test]
fn unsampled_waits_are_located_between_operators() {
    let program = |first: &str, second: &str| {
        let mut program = Program::new();
        for number in 0..4 {
            program.step(number, |p| {
                p.python(first, |p| p.op("aten::item", |p| p.work(1000)));
                p.sample(1, "train.py(90): tidy", 100);
                p.work(50_000);
                p.python(second, |p| p.op("aten::mm", |p| p.work(1000)));
            });
        }
        program.recorded(json!({"usable_milli": 2000}));
        program.found("SL039").remove(0).place
    };
    let one = program("train.py(10): step", "train.py(10): step");
    assert_eq!((one.line, one.function.as_deref()), (Some(10), Some("step")));
    let two = program("train.py(10): show", "train.py(30): train");
    assert_eq!((two.file.as_deref(), two.line, two.function), (Some("train.py"), None, None));
    let other = program("item.py(10): show", "train.py(30): train");
    assert_eq!(other.text(), "");
}

/// Operators of one line in two steps are of two calls of its function: the wait is somewhere in the file.
#[test]
fn waits_between_steps_are_located_in_the_caller() {
    let mut program = Program::new();
    for number in 0..5 {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.work(1000));
                p.op("aten::add", |p| p.work(10));
            });
        });
        program.sample(1, "train.py(10): step", 100);
        program.work(50_000);
    }
    program.recorded(json!({"usable_milli": 2000}));
    let place = program.found("SL039").remove(0).place;
    assert_eq!((place.file.as_deref(), place.line, place.function), (Some("train.py"), None, None));
}

/// A program with samples in each of its steps, between two operators, by the names of the frames, outermost first.
fn python(frames: &[&str], gap_us: i64) -> Vec<Finding> {
    let mut program = Program::new();
    for number in 0..STEPS {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.work(1000));
                nested(p, frames, gap_us);
                p.op("aten::add", |p| p.work(10));
            });
        });
    }
    program.recorded(json!({"usable_milli": 2000}));
    program.found("SL043")
}

#[test]
fn busy_lines_of_one_function_are_one_finding() {
    let mut program = Program::new();
    for number in 0..STEPS {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.work(1000));
                nested(p, &["train.py(20): table"], 4000);
                nested(p, &["train.py(25): table"], 3000);
                p.op("aten::add", |p| p.work(10));
            });
        });
    }
    program.recorded(json!({"usable_milli": 2000}));
    let found = program.found("SL043");
    let [only] = &found[..] else { panic!("{found:?}") };
    // Samples are equally many of both lines: the first one is named.
    assert_eq!((only.place.line, only.place.function.as_deref()), (Some(20), Some("table")));
    assert!(only.gain.unwrap().high_ns > 6_000_000, "{:?}", only.gain);
}

/// On a busy machine operators take nine times as long, for their thread waits for a processor: the share of a function in the rest
/// is the same as on an idle one.
#[test]
fn busy_python_on_a_busy_machine_is_found() {
    let found = |delayed_us: i64, counted: bool| {
        let mut program = Program::new();
        for number in 0..STEPS {
            program.step(number, |p| {
                p.op("aten::mm", |p| {
                    p.work(1000 + delayed_us);
                    p.sample(1, "aten::mm", 1000);
                });
                nested(p, &["train.py(20): table"], 1000);
                p.op("aten::add", |p| p.work(10));
            });
        }
        let (end, delayed) = (program.now * 1000, delayed_us * 1000 * STEPS as i64);
        let loads = json!([[0, 0, 0], [end, end - delayed, if counted { delayed } else { 0 }]]);
        program.recorded(json!({"usable_milli": 2000, "loads": loads}));
        program.found("SL043")
    };
    let share = |found: &[Finding]| found.iter().flat_map(|f| &f.facts).map(|f| f.value).fold(0.0, f64::max);
    let (idle, busy) = (found(0, true), found(8000, true));
    assert_eq!((idle.len(), busy.len()), (1, 1), "{}", text(&busy));
    assert!(
        busy[0].facts.iter().any(|f| f.name.contains("did not wait for a processor") && f.value > 40.0),
        "{}",
        text(&busy)
    );
    assert!(busy[0].title.contains("outside of operators: 10 % of the time"), "{}", text(&busy));
    assert!(share(&idle) > 40.0);
    assert_eq!(found(8000, false), [], "the system did not count: the operators may take so long");
}

fn nested(p: &mut Program, frames: &[&str], us: i64) {
    let [first, others @ ..] = frames else { return };
    p.python(first, |p| {
        if others.is_empty() {
            p.work(us / 2);
            p.sample(1, first, us);
            p.work(us / 2);
        } else {
            nested(p, others, us);
        }
    });
}

#[test]
fn dominant_python_function_is_reported() {
    let found = python(&["train.py(30): encode"], GAP_US);
    assert_eq!(found.len(), 1, "{}", text(&found));
    let gain = found[0].gain.unwrap();
    // Half of 3 of 4 ms, at most all of it, and perhaps nothing.
    assert!((1_400_000..=1_600_000).contains(&gain.likely_ns) && gain.low_ns <= 0, "{}", text(&found));
    assert!((2_800_000..=3_200_000).contains(&gain.high_ns), "{}", text(&found));
    assert_eq!(found[0].place.function.as_deref(), Some("encode"), "{}", text(&found));
    assert_eq!(python(&["train.py(30): encode"], 150), [], "short");
    assert_eq!(python(&["torch/nn/modules/linear.py(120): Linear.forward"], GAP_US), [], "PyTorch's own");
    assert_eq!(python(&[LOGS], GAP_US), [], "another rule's");
}

/// The bounds of the combined gain contain those of the single ones.
#[test]
fn combined_gain_is_at_least_each_lower_bound() {
    let found = sampled(&[(LOGS, 12)]).findings();
    let (together, one) = (found.combined.unwrap(), found.findings[0].gain.unwrap());
    assert!(one.low_ns > 1_000_000 && together.low_ns >= one.low_ns && together.high_ns >= one.high_ns, "{together:?}");
}

#[test]
fn traces_without_samples_have_no_finding() {
    assert_eq!(sampled(&[]).found("SL039"), []);
    assert_eq!(sampled(&[]).found("SL029"), []);
}

/// Sixty iterations, their backward, and the work of autograd between them.
fn loop_program(python_us: i64, engine_us: i64) -> Program {
    let mut program = Program::new();
    let number = |turn: usize, thread: i64| json!({"Sequence number": turn, "Fwd thread id": thread});
    for step in 0..4 {
        program.step(step, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.work(1000));
                for turn in 0..60 {
                    p.op_with("aten::mul", number(100 * step + turn, 0), |p| p.work(5));
                    p.work(python_us);
                }
                p.op("aten::stack", |p| p.work(200));
                for turn in (0..60).rev() {
                    let name = "autograd::engine::evaluate_function: MulBackward0";
                    p.op_with(name, number(100 * step + turn, 1), |p| p.work(5));
                    p.work(engine_us);
                }
                p.op("aten::mm", |p| p.work(1000));
            });
        });
    }
    program
}

#[test]
fn loop_gain_includes_autograd_gaps() {
    let gain = |program: Program| gains(&program, "SL038");
    let (found, _, likely, high) = gain(loop_program(4, 15));
    // 60 times 7 + 4 µs and 7 + 15 µs.
    assert!((1850..=2000).contains(&likely), "{}", text(&[found]));
    assert!(high >= likely + 150, "the operator that gathers the turns may go, too: {high}");
}

/// Iterations that take Python longer than the operators: a part of the loop, or other work in it.
#[test]
fn python_between_iterations_is_in_the_upper_bound() {
    let (found, _, likely, high) = gains(&loop_program(60, 2), "SL038");
    assert!(likely < 2000 && high > 60 * 60, "{}", text(&[found]));
}

/// Two concurrent threads with the same work: the gain is at most the work of one of them.
#[test]
fn busy_threads_are_not_summed() {
    let mut program = Program::new();
    for number in 0..STEPS {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.thread_span(2, ("cpu_op", "aten::mm"), (p.now, 1000), json!({}));
                p.op("aten::mm", |p| p.work(1000));
                p.work(GAP_US / 2);
                p.sample(1, "train.py(20): table", GAP_US);
                p.sample(2, "train.py(20): table", GAP_US);
                p.work(GAP_US / 2);
                p.thread_span(2, ("cpu_op", "aten::add"), (p.now, 10), json!({}));
                p.op("aten::add", |p| p.work(10));
            });
        });
    }
    program.recorded(json!({"usable_milli": 2000}));
    let found = program.found("SL043");
    let [only] = &found[..] else { panic!("{}", text(&found)) };
    // 3 of 4 ms, and not 6.
    assert!((70.0..80.0).contains(&only.facts[0].value), "{:?}", only.facts);
    assert!(only.gain.unwrap().high_ns < 3_200_000, "{:?}", only.gain);
}

/// Operators that sometimes take longer because other work has the processor: the upper bound excludes that work.
#[test]
fn slow_operators_are_in_the_upper_bound_of_busy_python() {
    let high = |slow_us: i64| {
        let mut program = Program::new();
        for number in 0..STEPS {
            program.step(number, |p| {
                p.python("train.py(10): step", |p| {
                    p.op("aten::mm", |p| p.work(if number % 2 == 0 { 1000 } else { slow_us }));
                    nested(p, &["train.py(30): encode"], GAP_US);
                    p.op("aten::add", |p| p.work(10));
                });
            });
        }
        program.recorded(json!({"usable_milli": 2000}));
        program.found("SL043")[0].gain.unwrap().high_ns
    };
    // Half of the steps lose 500 µs.
    assert!((200_000..=300_000).contains(&(high(1500) - high(1000))), "{} {}", high(1500), high(1000));
}
