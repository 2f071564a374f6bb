//! Findings on steps that wait for another thread.

use crate::findings_support;

use crate::support::read;
use findings_support::{Program, find, host_steps as steps, text};
use serde_json::json;
use stackline_critical_path::exact::what_if::{Edit, predict};
use stackline_critical_path::exact::{Category, Exact, WindowChoice};
use stackline_findings::{Finding, Findings, LargeKind};
use stackline_present::findings::uncovered;
use std::collections::BTreeSet;

const STEPS: usize = 40;
/// Between two operators of a step.
const GAP_US: i64 = 3000;

#[test]
fn waits_for_others() {
    let waits = steps(|p| p.python("concurrent/futures/_base.py(428): Future.result", |p| p.work(500)));
    let found = waits.found("SL039");
    let [only] = &found[..] else { panic!("{}", text(&found)) };
    assert!((499..=510).contains(&(only.gain_ns() / 1000)), "{}", text(&found));
    assert_eq!((found[0].place.file.as_deref(), found[0].place.line), (Some("train.py"), Some(10)));
    let none = steps(|p| p.python("concurrent/futures/_base.py(428): Future.results", |p| p.work(500)));
    assert_eq!(none.found("SL039"), []);
}

/// The line is the one that waits, where samples within the call saw it: calls know where their function begins.
#[test]
fn waits_are_located_at_the_waiting_line() {
    let waits = steps(|p| {
        p.python("fetch.py(7): fetch", |p| {
            p.python("queue.py(154): Queue.get", |p| {
                p.work(300);
                p.wait_sample(1, "fetch.py(7): fetch", 300);
                p.work(200);
            });
        });
    });
    let found = waits.found("SL039");
    assert_eq!(found.iter().map(|f| f.place.text()).collect::<Vec<_>>(), ["fetch.py:21 in fetch"], "{}", text(&found));
}

/// Each of four steps sleeps for 9 ms after an operator of 1 ms. The last 1 ms of each sleep is not sampled.
#[test]
fn sampled_waits_are_a_cause_of_the_path() {
    let sleeps = steps(|p| {
        for _ in 0..8 {
            p.work(1000);
            p.wait_sample(1, "train.py(10): step", 1000);
        }
        p.work(1000);
    });
    let trace = sleeps.trace();
    let exact = Exact::new(&trace);
    let path = exact.path(&WindowChoice::Whole).unwrap();
    let of = |sums: &[(Category, i64)], category: Category| sums[category as usize].1;
    let causes = path.by_category();
    assert_eq!(of(&causes, Category::HostBlocked), 32_000_000);
    // Each step also has 1 ms without a sample, and 4 us at the begin and end of its spans.
    assert_eq!(of(&causes, Category::HostPython), 4_000_000 + 16_000);
    assert_eq!(exact.wait_line(&path).unwrap().text(), "train.py:21 in step");
    let segments: Vec<_> = path.segments.iter().collect();
    assert!(segments.windows(2).all(|two| two[0].end == two[1].start), "{segments:?}");
    let waits: Vec<_> =
        exact.merged_segments(&path).filter(|segment| segment.category == Category::HostBlocked).collect();
    assert_eq!(
        waits.iter().map(|wait| (wait.end - wait.start, wait.rule)).collect::<Vec<_>>(),
        [(8_000_000, "wait_samples"); 4]
    );
    let predicted = predict(&trace, &WindowChoice::Whole, &[Edit::parse("remove category:host_blocked").unwrap()]);
    let predicted = predicted.unwrap();
    assert_eq!(predicted.before.by_category, causes);
    assert_eq!((predicted.gain.likely_ns, of(&predicted.after.by_category, Category::HostBlocked)), (32_000_000, 0));
    let computes = steps(|p| p.work(9000)).trace();
    let computes = Exact::new(&computes);
    let path = computes.path(&WindowChoice::Whole).unwrap();
    assert_eq!((of(&path.by_category(), Category::HostBlocked), computes.wait_line(&path)), (0, None));
}

/// The path continues in the thread that is waited for, from its start: the wait is for all of its work, not for the return alone; but
/// for no operators, which have to run anyway.
#[test]
fn wait_time_is_the_path_on_other_threads() {
    let waits = |operator_us: i64| {
        let mut thread = 1;
        let program = steps(|p| {
            thread += 1;
            p.python("queue.py(154): Queue.get", |p| {
                p.thread_span(thread, ("python_function", "data.py(3): produce"), (p.now, 500), json!({}));
                p.thread_span(thread, ("cpu_op", "aten::rand"), (p.now, operator_us), json!({}));
                p.work(505);
            });
            p.op("aten::add", |p| p.work(10));
        });
        let found = program.found("SL039");
        found.iter().map(|found| found.facts[1].value).collect::<Vec<f64>>()
    };
    // 480 and 180 of 1,515 µs and what lies between steps.
    for (operator_us, percent) in [(20, 30.0..33.0), (320, 10.0..13.0)] {
        let found = waits(operator_us);
        assert!(found.len() == 1 && percent.contains(&found[0]), "{operator_us}: {found:?}");
    }
    assert_eq!(waits(500), [] as [f64; 0]);
}

#[test]
fn waits_for_data_belong_to_another_rule() {
    let starved = steps(|p| {
        p.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", |p| {
            p.python("queue.py(154): Queue.get", |p| p.work(500));
        });
    });
    assert_eq!(starved.found("SL039"), []);
}

/// Three samples of two threads that wait concurrently, and of a third that waits all the time and is sampled rarely.
#[test]
fn waiting_threads_are_not_summed() {
    let mut program = Program::new();
    for number in 0..STEPS {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.thread_span(2, ("cpu_op", "aten::mm"), (p.now, 1000), json!({}));
                p.thread_span(3, ("cpu_op", "aten::mm"), (p.now, 10), json!({}));
                p.op("aten::mm", |p| p.work(1000));
                for _ in 0..3 {
                    p.work(GAP_US / 3);
                    p.wait_sample(1, "train.py(20): next_batch", GAP_US / 3);
                    p.wait_sample(2, "train.py(20): next_batch", GAP_US / 3);
                }
                p.wait_sample(3, "train.py(90): idle", GAP_US + 1000);
                p.work(1);
                p.thread_span(2, ("cpu_op", "aten::add"), (p.now, 10), json!({}));
                p.op("aten::add", |p| p.work(10));
            });
        });
    }
    let found = program.found("SL039");
    let of_batch: Vec<&Finding> =
        found.iter().filter(|found| found.place.function.as_deref() == Some("next_batch")).collect();
    let [only] = of_batch[..] else { panic!("{}", text(&found)) };
    // 3 of 4 ms, and not 6; nearly all looks found it waiting.
    assert!((70.0..78.0).contains(&only.facts[0].value), "{:?}", only.facts);
    let gain = only.gain.unwrap();
    assert!((2_800_000..3_100_000).contains(&gain.likely_ns) && gain.low_ns > 2_500_000, "{gain:?}");
}

/// Between two operators it is asked where it waits; between two others it waits where it is not.
#[test]
fn recorded_and_unrecorded_waits_are_both_reported() {
    let program = |cpu: bool| {
        let mut program = Program::new();
        for number in 0..STEPS {
            program.step(number, |p| {
                p.python("train.py(10): step", |p| {
                    p.op("aten::mm", |p| p.work(1000));
                    p.work(GAP_US / 2);
                    p.wait_sample(1, "train.py(20): next_batch", GAP_US);
                    p.work(GAP_US / 2);
                    p.op("aten::add", |p| p.work(10));
                    p.work(GAP_US / 2);
                    if cpu || number == 0 {
                        p.sample(1, "train.py(50): write", GAP_US);
                    }
                    p.work(GAP_US / 2);
                    p.op("aten::relu", |p| p.work(10));
                });
            });
        }
        program
    };
    let functions = |cpu: bool| {
        let found = program(cpu).found("SL039").into_iter();
        found
            .map(|found| found.place.function.unwrap_or_default())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(functions(false), ["next_batch", "step"]);
    assert_eq!(functions(true), ["next_batch"], "there it computes");
}

/// A program sleeps for 3 s, runs one operator, and sleeps again for 2 s.
#[test]
fn waits_before_the_first_and_after_the_last_operator_are_reported() {
    let mut program = Program::new();
    let sleeps = |p: &mut Program, name: &str, times: usize| {
        for _ in 0..times {
            p.work(100_000);
            p.wait_sample(1, name, 100_000);
        }
    };
    program.python("train.py(1): main", |p| {
        sleeps(p, "train.py(20): load", 30);
        p.op("aten::mm", |p| p.work(1000));
        sleeps(p, "train.py(30): save", 20);
    });
    let found = program.found("SL039");
    let mut gains: Vec<(&str, i64)> =
        found.iter().map(|found| (found.place.function.as_deref().unwrap_or_default(), found.gain_ns())).collect();
    gains.sort_unstable();
    // The limit of the first wait is its first sample, after 100 ms.
    let [("load", load), ("save", save)] = gains[..] else { panic!("{}", text(&found)) };
    assert!((2_890_000_000..=2_900_100_000).contains(&load), "{load}");
    assert!((1_990_000_000..=2_000_100_000).contains(&save), "{save}");
}

/// Two lines of one function: the wait is after the first one.
#[test]
fn unsampled_waits_have_a_line_from_stacks() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::item", |p| p.work(1000));
                p.sample(1, "train.py(90): tidy", 100);
                p.work(50_000);
                p.op("aten::mm", |p| p.work(1000));
            });
        });
    }
    program.recorded(json!({"usable_milli": 2000}));
    let mut document: serde_json::Value = serde_json::from_str(&program.text(json!({"id": 0}))).unwrap();
    for event in document["traceEvents"].as_array_mut().unwrap() {
        match event["name"].as_str() {
            Some("aten::item") => event["sf"] = 12.into(),
            Some("aten::mm") => event["sf"] = 40.into(),
            _ => {}
        }
    }
    document["stackFrames"] = json!({"12": {"name": "train.py(12): step"}, "40": {"name": "train.py(40): step"}});
    let found = find(&read(document.to_string()), &[]).findings;
    let wait = found.iter().find(|found| found.rule.code == "SL039").unwrap();
    assert_eq!(wait.place.text(), "train.py:12 in step");
}

/// One pause of many steps' time is named, and does not make the loss of each step too small to report.
#[test]
fn standstill_is_reported() {
    let paused = |pause_us: i64| {
        let mut program = Program::new();
        for number in 4..10 {
            program.step(number, |p| {
                p.python("nn.Module: RMSNorm_0", |p| {
                    for name in ["pow", "mean", "add", "rsqrt", "mul"] {
                        p.op(&format!("aten::{name}"), |p| p.kernel(name, 3));
                    }
                });
            });
            if number == 5 {
                program.work(pause_us);
            }
        }
        program.findings()
    };
    let note = |found: &Findings| found.notes.iter().find(|note| note.contains(" gap")).cloned();
    let codes = |found: &Findings| found.findings.iter().map(|f| f.rule.code.clone()).collect::<Vec<_>>();
    let (without, with) = (paused(10), paused(10_000_000));
    assert_eq!(note(&without), None);
    let note_text = note(&with).unwrap();
    assert!(
        note_text.starts_with(
            "one gap in the critical path, of 10.00 s after step 5, is 100 % of the analyzed time; no call was \
            recorded"
        ),
        "{note_text}"
    );
    assert!(note_text.ends_with("without such a gap, pass --steps 6..9"), "{note_text}");
    let longest = |found: &Findings| found.uncovered.groups.iter().find_map(|group| group.longest_gap_ns);
    assert!(longest(&with).is_some_and(|ns| (10_000_000_000..10_001_000_000).contains(&ns)), "{:?}", with.uncovered);
    assert!(codes(&without).contains(&"SL002".to_owned()), "{}", text(&without.findings));
    assert!(codes(&with).contains(&"SL002".to_owned()), "{}", text(&with.findings));
}

/// Launches of which each follows the end of the kernel before, with nothing recorded between them: the kernels that run
/// during these waits are named, if they take most of the time.
#[test]
fn gpu_work_during_waits_is_named() {
    let with_kernels_of = |us: i64| {
        let mut program = Program::new();
        for number in 0..40 {
            program.kernel(if number % 4 == 0 { "add" } else { "gemm" }, us);
            program.work(1004);
        }
        program.findings()
    };
    let waits = |found: &Findings| {
        let wait = found.uncovered.groups.iter().find(|group| group.kind == LargeKind::Wait).cloned();
        wait.unwrap_or_else(|| panic!("{:?}", found.uncovered))
    };
    let busy = with_kernels_of(990);
    let work = waits(&busy).concurrent_gpu_work.unwrap();
    assert!((98.0..99.0).contains(&work.percent), "{work:?}");
    // 39 waits, 10 of them during `add`.
    let names: Vec<&str> = work.longest.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["gemm", "add"]);
    assert!((73.0..74.0).contains(&work.longest[0].1) && (25.0..26.0).contains(&work.longest[1].1), "{work:?}");
    let lines = uncovered(&busy);
    let words = "of the critical path; for 99 % of this time, GPU work runs (gemm 73 %, add 25 %). For details: ";
    assert!(lines.iter().any(|line| line.contains(words)), "{lines:?}");
    let idle = with_kernels_of(100);
    assert_eq!(waits(&idle).concurrent_gpu_work, None, "the GPU is mostly idle");
}
