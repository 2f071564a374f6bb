//! Findings that need data of recordings: processors, and the cost of recording.

use crate::findings_support;

use findings_support::{Program, find, text};
use insta::assert_snapshot;
use serde_json::json;
use stackline_critical_path::exact::what_if::{Edit, predict};
use stackline_findings::{
    ExternalFinding, ExternalRule, ExternalRules, Finding, Findings, Message, Options, Reason, find_with,
};
use stackline_model::{INFERRED, OPENMP, Problem, Severity};
use stackline_timeline::Scope;
use stackline_timeline::confidence::Confidence;
use stackline_timeline::steps::StepSelection;
use std::slice::from_ref;

/// Threads that compute for 500 µs a step each, and are in OpenMP's library for so many µs.
struct Team {
    threads: i64,
    waiting_us: i64,
    usable_milli: i64,
    /// Threads that were ready to run, in the mean.
    runnable: i64,
}

impl Team {
    const OVERSUBSCRIBED: Self = Self { threads: 8, waiting_us: 500, usable_milli: 2000, runnable: 8 };

    /// Four steps of 4 ms.
    fn program(&self) -> Program {
        let mut program = Program::new();
        for number in 0..4 {
            program.step(number, |p| {
                p.python("train.py(10): step", |p| {
                    p.op("aten::mm", |p| {
                        p.work(2000);
                        for thread in 1..=self.threads {
                            p.sample(thread, if thread == 1 { "aten::mm" } else { "(nothing)" }, 500);
                            p.sample(thread, OPENMP, self.waiting_us);
                        }
                        p.work(1994);
                    });
                });
            });
        }
        let busy = self.runnable * 1_000_000_000;
        let loads = json!([[0, 0, 0], [1_000_000_000, busy / 2, busy / 2]]);
        program.recorded(json!({"machine": 64, "usable_milli": self.usable_milli, "loads": loads}));
        program
    }

    fn found(&self) -> Vec<Finding> {
        self.program().found("SL028")
    }
}

#[test]
fn more_threads_than_processors() {
    let found = Team::OVERSUBSCRIBED.found();
    // All eight compute for 4 ms, which two processors do in 2 ms; half of all CPU time is gone.
    let gain = found[0].gain.unwrap();
    assert!((1_990_000..=2_000_000).contains(&gain.likely_ns), "{}", text(&found));
    assert!(gain.low_ns < gain.likely_ns && gain.likely_ns <= gain.high_ns, "{}", text(&found));
    assert_snapshot!(text(&found));
}

#[test]
fn threads_within_the_processor_limit() {
    let nothing = |team: Team| assert_eq!(team.found(), []);
    nothing(Team { usable_milli: 8000, ..Team::OVERSUBSCRIBED });
    nothing(Team { threads: 2, ..Team::OVERSUBSCRIBED });
    // Many threads that hardly wait, and some that mostly sleep.
    nothing(Team { waiting_us: 50, ..Team::OVERSUBSCRIBED });
    nothing(Team { runnable: 2, ..Team::OVERSUBSCRIBED });
    // One that has less than a processor has nobody to wait for.
    nothing(Team { threads: 1, usable_milli: 700, ..Team::OVERSUBSCRIBED });
}

/// That many threads were ready to run at once is a reason of its own: 17 % of waiting are enough then, and too few without.
#[test]
fn runnable_thread_count_lowers_the_required_wait_share() {
    let uncounted = |waiting_us: i64| {
        let mut program = Team { waiting_us, ..Team::OVERSUBSCRIBED }.program();
        program.recorded(json!({"machine": 64, "usable_milli": 2000}));
        program.found("SL028").len()
    };
    assert_eq!(Team { waiting_us: 100, ..Team::OVERSUBSCRIBED }.found().len(), 1);
    assert_eq!((uncounted(100), uncounted(500)), (0, 1));
}

#[test]
fn each_process_has_its_own_processors() {
    let findings_with_process = |team: Team, process| {
        let mut program = team.program();
        program.record_other_process(process);
        program.found("SL028")
    };
    // A worker that is bound to one processor takes none from the others.
    let wide = || Team { usable_milli: 64_000, ..Team::OVERSUBSCRIBED };
    let worker = || json!({"pid": 8, "own": true, "machine": 64, "usable_milli": 1000});
    assert_eq!(findings_with_process(wide(), worker()), []);
    let found = findings_with_process(Team::OVERSUBSCRIBED, worker());
    assert!(found[0].title.contains("8 threads of process 7 compute on 2 processors"), "{}", text(&found));
    // Threads that mostly sleep, beside a busy process.
    let sleeping = || Team { runnable: 2, ..Team::OVERSUBSCRIBED };
    let loads = json!([[0, 0, 0], [1_000_000_000, 50_000_000_000_i64, 0]]);
    for own in [true, false] {
        assert_eq!(
            findings_with_process(sleeping(), json!({"pid": 8, "own": own, "usable_milli": 2000, "loads": loads})),
            []
        );
    }
}

#[test]
fn load_before_the_recording_is_excluded() {
    // Their first look, in the midst of the steps, holds an hour; then two are ready to run.
    let hour = 3_600_000_000_000_i64;
    let loads = json!([[8_000_000, hour, 0], [1_008_000_000, hour + 2_000_000_000, 0]]);
    let mut program = Team::OVERSUBSCRIBED.program();
    program.recorded(json!({"machine": 64, "usable_milli": 2000, "loads": loads}));
    assert_eq!(program.found("SL028"), []);
}

#[test]
fn a_limit_below_one_processor_counts() {
    let found = Team { threads: 2, usable_milli: 1500, ..Team::OVERSUBSCRIBED }.found();
    assert!(found[0].title.contains("2 threads compute on 1.5 processors"), "{}", text(&found));
}

/// Four steps of 4 ms, all of it a product of matrices, with a sample of its thread each 100 µs, and of a concurrent one if that
/// computes, too.
fn product(operator: &str, second_thread: bool, usable: i64, busy: i64) -> Vec<Finding> {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op(operator, |p| {
                    for _ in 0..40 {
                        p.sample(1, operator, 100);
                        if second_thread {
                            p.sample(2, "(nothing)", 100);
                        }
                        p.work(99);
                    }
                });
            });
        });
    }
    let load = busy * 1_000_000_000;
    let loads = json!([[0, 0, 0], [1_000_000_000, load, 0]]);
    program.recorded(json!({"machine": 64, "usable_milli": usable * 1000, "loads": loads}));
    program.found("SL049")
}

#[test]
fn single_threaded_products() {
    let found = product("aten::mm", false, 4, 1);
    assert_snapshot!(text(&found));
    assert!(found[0].edit_labels.len() == 1 && found[0].edits[0].ends_with(" 0.3571"), "{:?}", found[0].edits);
    // Four of them: 1 / (1 + 0.6 * 3) of 4 ms are left, at least a quarter.
    let gain = found[0].gain.unwrap();
    let near = |ns: i64, us: i64| (ns - us * 1000).abs() < 60_000;
    assert!(near(gain.likely_ns, 2571) && near(gain.low_ns, 1286) && near(gain.high_ns, 3000), "{gain:?}");
    // The other processors: two threads compute; there is one; others of the program take them; it is not divided among threads.
    assert_eq!(product("aten::mm", true, 4, 2), []);
    assert_eq!(product("aten::mm", false, 1, 1), []);
    assert_eq!(product("aten::mm", false, 4, 4), []);
    assert_eq!(product("aten::cumsum", false, 4, 1), []);
}

#[test]
fn traces_without_processor_counts() {
    let mut program = Program::new();
    program.op("aten::mm", |p| p.work(1000));
    let unchecked = program.findings().unchecked;
    let reason = unchecked.iter().find(|unchecked| unchecked.rule.code == "SL028").map(|u| u.reason.sentence());
    assert!(reason.unwrap().contains("no record of the number of usable processors"));
}

#[test]
fn damaged_entries_are_ignored() {
    for process in
        [json!({"usable_milli": "x"}), json!({"usable_milli": -3}), json!({"loads": [[1], "a", [null, 1, 2]]})]
    {
        let mut program = Team::OVERSUBSCRIBED.program();
        program.recorded(process);
        let unchecked = program.findings().unchecked;
        assert!(unchecked.iter().any(|u| u.rule.code == "SL028" && matches!(u.reason, Reason::Missing(_))));
    }
}

/// A loop of 100 small operators of 10 µs in each step, of which the recorder cost so many ns each.
fn loops(cost: Option<i64>) -> Program {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.work(1000));
                p.python("train.py(30): normalized", |p| (0..100).for_each(|_| p.op("aten::mean", |p| p.work(8))));
            });
        });
    }
    if let Some(ns) = cost {
        let cost = json!({"begin_ns": ns / 2, "end_ns": ns / 4, "torch_ns": ns / 4, "measured": 99});
        program.recorded(json!({ "cost": cost }));
    }
    program
}

/// The same if a Python rule names the removed work.
#[test]
fn recording_overhead_is_no_gain_of_external_rules() {
    let gain = |cost| {
        let rule = ExternalRule { code: "MY001".to_owned(), ..ExternalRule::default() };
        let found = ExternalFinding {
            code: "MY001".to_owned(),
            title: "a loop".to_owned(),
            support: "exact".to_owned(),
            confidence: "low".to_owned(),
            edits: vec!["remove operator:aten::mean".to_owned()],
            ..ExternalFinding::default()
        };
        let mut others = ExternalRules::default();
        others.add(Message::Rule(rule)).unwrap();
        others.add(Message::Found(Box::new(found))).unwrap();
        let found = find_with(&loops(cost).trace(), &Options::default(), &others, &|_| true).unwrap();
        found.findings.iter().find(|f| f.rule.code == "MY001").unwrap().gain_ns()
    };
    // All of the 100 operators of a step go.
    assert_eq!(gain(None) - gain(Some(1000)), 100_000);
}

#[test]
fn recording_overhead_is_no_gain() {
    let with = |cost| loops(cost).found("SL038").remove(0);
    let (plain, recorded) = (with(None), with(Some(1000)));
    // One call of 100 stays, and so does what recording it cost.
    let taken = plain.gain_ns() - recorded.gain_ns();
    assert!((98_500..=99_500).contains(&taken), "{taken} ns: {}", text(&[plain, recorded]));
    let fact = recorded.facts.iter().find(|fact| fact.name.starts_with("recording overhead")).unwrap();
    assert_eq!(fact.value, taken as f64 / 1e3);
    assert!(recorded.gain.unwrap().low_ns <= plain.gain.unwrap().low_ns - taken);
    let findings = find(&loops(Some(1000)).trace(), &[]);
    let note = findings
        .notes
        .iter()
        .find(|note| note.starts_with("recording slowed each operator by at least 1000 ns"))
        .unwrap();
    // 102 operators of 1 µs in steps of some 2 ms.
    assert!(
        note.contains(
            ", in total 5 % of the recorded step. PyTorch's own recording takes 250 ns of this \
             slowdown."
        ),
        "{note}"
    );
    let together = findings.combined.unwrap();
    assert!(together.likely_ns <= plain.gain_ns() - taken, "{together:?}");
}

/// Steps of 100 µs that wait 900 µs for their batch, as samples of CPU time see it: no frame that waits.
fn waiting_for(workers: i64) -> Program {
    let mut program = Program::new();
    for number in 0..6 {
        program.step(number, |p| {
            let take = "torch/utils/data/dataloader.py(720): _BaseDataLoaderIter.__next__";
            p.span("python_function", take, p.now, 900, json!({(INFERRED): "samples"}));
            p.now += 900;
            p.op("aten::mm", |p| p.work(98));
        });
    }
    for worker in 1..=workers {
        program.sample_in_other_process(7 + worker, "torch/utils/data/_utils/worker.py(244): _worker_loop");
    }
    program
}

#[test]
fn sampled_workers_are_counted() {
    let one = waiting_for(1).found("SL009");
    let two = waiting_for(2).found("SL009");
    let added = |found: &[Finding]| found[0].edits.clone();
    // Nine times as many would be ready in time.
    assert_eq!([added(&one), added(&two)], [["more-workers 9"], ["more-workers 18"]], "{}", text(&two));
    let gain = one[0].gain.unwrap();
    assert!((880_000..=900_000).contains(&gain.likely_ns), "{}", text(&one));
    assert_snapshot!(text(&one));
}

#[test]
fn workers_need_processors() {
    let with_load = |threads: i64| {
        let mut program = waiting_for(1);
        let busy = threads * 500_000_000;
        program.recorded(json!({"usable_milli": 2000, "loads": [[0, 0, 0], [1_000_000_000, busy, busy]]}));
        program.found("SL009")
    };
    // All are busy: workers gain nothing.
    let full = with_load(2);
    assert!(full[0].gain.is_none() && full[0].title.ends_with("all processors are busy: make loading cheaper"));
    // One thread of two: so twice as fast at best.
    let half = with_load(1);
    assert_eq!(half[0].edits, ["more-workers 1"]);
    let gain = half[0].gain.unwrap();
    assert!((480_000..=520_000).contains(&gain.likely_ns), "{}", text(&half));
}

/// Steps of 1 ms of which the program loads for 900 µs itself, on so many processors; so many threads want one.
fn loading_itself(usable_milli: i64, threads: i64) -> Finding {
    let mut program = Program::new();
    for number in 0..6 {
        program.step(number, |p| {
            let take = "torch/utils/data/dataloader.py(788): _SingleProcessDataLoaderIter.__next__";
            p.python(take, |p| p.work(898));
            p.op("aten::mm", |p| p.work(96));
        });
    }
    let busy = threads * 500_000_000;
    program.recorded(json!({"usable_milli": usable_milli, "loads": [[0, 0, 0], [1_000_000_000, busy, busy]]}));
    program.found("SL009").remove(0)
}

/// Loading that overlaps computing takes as many processors as both want: they limit the gain.
#[test]
fn concurrent_loading_needs_processors() {
    for full in [loading_itself(1000, 1), loading_itself(2000, 2)] {
        assert_eq!(full.gain, None, "{}", text(from_ref(&full)));
        assert!(full.title.ends_with("and all processors are busy: make loading cheaper"), "{}", full.title);
        assert!(!full.rule.advice.contains("num_workers"), "{}", full.rule.advice);
    }
    let two = loading_itself(2000, 1);
    let gain = two.gain.unwrap();
    assert!((490_000..=505_000).contains(&gain.likely_ns) && gain.high_ns <= 510_000, "{}", text(from_ref(&two)));
    assert!(gain.low_ns <= 0 && two.confidence == Confidence::Medium, "{}", text(from_ref(&two)));
    let many = loading_itself(64_000, 1);
    let gain = many.gain.unwrap();
    assert_eq!(many.edits, ["more-workers 9"]);
    assert!(
        (790_000..=805_000).contains(&gain.likely_ns) && gain.low_ns >= 440_000 && many.confidence == Confidence::High,
        "{}",
        text(from_ref(&many))
    );
}

/// No more is gained than so many workers can load: one takes as long for a batch as the program itself.
#[test]
fn worker_throughput_limits_the_gain() {
    let mut program = Program::new();
    for number in 0..6 {
        program.step(number, |p| {
            let take = "torch/utils/data/dataloader.py(788): _SingleProcessDataLoaderIter.__next__";
            p.python(take, |p| p.work(8998));
            p.op("aten::mm", |p| p.work(2996));
        });
    }
    let trace = program.trace();
    let choice = StepSelection::select(&trace, &Scope::default()).choice;
    let gain = |more: u32| {
        let edits = [Edit::more_workers(more).unwrap()];
        predict(&trace, &choice, &edits).unwrap().gain.likely_ns / 6
    };
    // Of 9 ms of loading and 3 ms of computing: one worker needs 9 ms a batch, two need 4.5.
    let near = |ns: i64, us: i64| (ns - us * 1000).abs() < 500_000;
    assert!(near(gain(1), 3000) && near(gain(2), 7500) && near(gain(3), 8900), "{:?}", [1, 2, 3].map(gain));
}

/// Workers are killed at the end of a program: their missing records do not concern the GPU.
#[test]
fn killed_workers_do_not_imply_a_gpu() {
    let mut trace = waiting_for(1);
    trace.recorded(json!({"usable_milli": 64_000}));
    let mut trace = trace.trace();
    trace.report.problems.push(Problem {
        code: "process_killed".to_owned(),
        severity: Severity::Lost,
        message: "a process ended without saying so".to_owned(),
        count: 1,
        offsets: Vec::new(),
        example: String::new(),
        more: Vec::new(),
    });
    let found = find(&trace, &[]).findings;
    let advice = &found.iter().find(|f| f.rule.code == "SL009").unwrap().rule.advice;
    assert!(!advice.contains("pin_memory"), "{advice}");
}

/// A step that is merely slower may have waited for a processor that another program had.
#[test]
fn random_slow_step_is_a_note() {
    let program = |is_recorded: bool| {
        let mut program = Program::new();
        for number in 0..8 {
            program.step(number, |p| p.op("aten::mm", |p| p.work(if number == 5 { 3000 } else { 1000 })));
        }
        if is_recorded {
            program.recorded(json!({"usable_milli": 2000}));
        }
        program.findings()
    };
    let has_note = |found: &Findings| {
        found.notes.iter().any(|note| note.starts_with("Slow step: step 5 takes") && note.contains("SL031"))
    };
    let fires = |found: &Findings| found.findings.iter().any(|f| f.rule.code == "SL031");
    let (recorded, other) = (program(true), program(false));
    assert!(has_note(&recorded) && !fires(&recorded), "{:?}", recorded.notes);
    assert!(!has_note(&other) && fires(&other), "{:?}", other.notes);
}

/// A step that runs more operators than others does so for a reason.
#[test]
fn steps_with_more_work_are_not_random() {
    let mut program = Program::new();
    for number in 0..8 {
        program.step(number, |p| {
            for _ in 0..if number == 5 { 40 } else { 10 } {
                p.op("aten::mm", |p| p.work(60));
                p.op("aten::add", |p| p.work(60));
            }
        });
    }
    program.recorded(json!({"usable_milli": 2000}));
    let notes = program.findings().notes;
    let note = notes.iter().find(|note| note.starts_with("Slow step: step 5 takes"));
    assert!(note.is_none_or(|note| !note.contains("another program")), "{notes:?}");
}

#[test]
fn workers_may_start_long_before_the_steps() {
    let mut program = Program::new();
    program.python("torch/utils/data/dataloader.py(1101): _MultiProcessingDataLoaderIter.__init__", |p| p.work(50));
    program.now += 10_000;
    for number in 0..6 {
        program.step(number, |p| {
            p.python("torch/utils/data/dataloader.py(720): _BaseDataLoaderIter.__next__", |p| p.work(900));
            p.op("aten::mm", |p| p.work(98));
        });
    }
    assert_eq!(program.found("SL009")[0].edits, ["more-workers 9"]);
}

#[test]
fn imports_are_excluded_without_steps() {
    let program = |imports: bool| {
        let mut program = Program::new();
        program.recorded(json!({"usable_milli": 2000}));
        if imports {
            program.python("<frozen importlib._bootstrap>(1165): _find_and_load", |p| {
                p.annotation("Python GC", |p| p.work(40_000));
                p.op("aten::empty", |p| p.work(10));
                p.work(50_000);
            });
        }
        program.python("train.py(10): main", |p| (0..10).for_each(|_| p.op("aten::mm", |p| p.work(1000))));
        program.findings()
    };
    let (with, without) = (program(true), program(false));
    assert_eq!(with.step_ns, without.step_ns);
    let codes = |found: &Findings| found.findings.iter().map(|f| f.rule.code.clone()).collect::<Vec<_>>();
    assert_eq!(codes(&with), codes(&without));
    assert!(with.notes.iter().any(|note| note.contains("imports modules")), "{:?}", with.notes);
    assert!(!without.notes.iter().any(|note| note.contains("imports modules")), "{:?}", without.notes);
}

#[test]
fn recording_without_steps_explains_missing_data() {
    let mut program = Program::new();
    program.op("aten::mm", |p| p.work(1000));
    let found = program.findings();
    let reasons: Vec<String> = found.unchecked.iter().map(|unchecked| unchecked.reason.sentence()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("record_function(\"ProfilerStep#N\")")), "{reasons:?}");
}
