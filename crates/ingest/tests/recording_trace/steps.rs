//! Steps inferred from optimizer calls.

use super::{Script, one, outline, process};
use stackline_recording::Record;

#[test]
fn steps_end_with_the_optimizer_and_begin_with_the_next_call() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    script.call(0, "def:main:3 aten::randn", 1_000, 1_900);
    for step in 0..3 {
        let at = 2_000 + 1_000 * step;
        script.call(0, "def:main:10 def:train:5 aten::mm", at, at + 400);
        script.call(0, "def:main:10 def:train:6 span:Optimizer.step#SGD.step", at + 500, at + 600);
    }
    script.call(0, "def:main:12 aten::save", 6_000, 6_100);
    let trace = one(&script.end());
    let steps: Vec<(i64, i64, i64)> = trace.steps.iter().map(|s| (s.number, s.start, s.end)).collect();
    assert_eq!(steps, [(0, 1_000, 1_600), (1, 1_600, 2_600), (2, 2_600, 3_600)]);
    assert!(trace.report.is_clean(), "nothing crosses a step: {:?}", trace.report.problems);
    let trains = outline(&trace, 0).into_iter().filter(|line| line.contains(": train*")).count();
    assert_eq!(trains, 3, "neighbouring calls of one line are told apart where a step ends");
}

#[test]
fn steps_of_windows_are_numbered_and_end_with_the_window() {
    let change = |at_ns, step, open, at_step| Record::Window { at_ns, step, open, at_step };
    let steps = |changes: &[Record], optimizers: &[&str]| {
        let mut script = Script::new(process(7, None));
        script.thread(0, 70, 1);
        for start in [2_000, 9_000, 10_000, 20_000] {
            script.call(0, "def:main:10 def:train:5 aten::mm", start, start + 400);
            for (at, name) in optimizers.iter().enumerate() {
                let (path, at) = (format!("def:main:10 span:Optimizer.step#{name}.step"), start + 500 + 50 * at as i64);
                script.call(0, &path, at, at + 40);
            }
            script.call(0, "def:main:10 def:train:7 aten::item", start + 700, start + 710);
        }
        script.records.extend_from_slice(changes);
        let trace = one(&script.end());
        trace.steps.iter().map(|s| (s.number, s.start + 1_000, s.end + 1_000)).collect::<Vec<_>>()
    };
    // Two of ten steps; the window closes within the end of its last step.
    let at = [(1_000, 0, true), (2_530, 1, false), (8_900, 10, true), (10_530, 12, false), (19_000, 20, true)];
    let every = at.map(|(at, n, open)| change(at, n, open, true));
    let expected = [(0, 2_000, 2_540), (10, 8_900, 9_540), (11, 9_540, 10_540), (20, 19_000, 20_540)];
    assert_eq!(steps(&every, &["SGD"]), expected);
    // The recorder counts the steps of both optimizers.
    let twice = [(1_000, 0, true), (2_580, 2, false), (8_900, 20, true)].map(|(at, n, open)| change(at, n, open, true));
    let numbers: Vec<i64> = steps(&twice, &["SGD", "Adam"]).iter().map(|step| step.0).collect();
    assert_eq!(numbers, [0, 10, 11, 12]);
    // By time, in the middle of a step, which is excluded.
    let late = [change(1_000, 0, false, true), change(8_000, 7, true, false), change(30_000, 10, false, false)];
    assert_eq!(steps(&late, &["SGD"])[..], [(8, 9_540, 10_540), (9, 10_540, 20_540)]);
}

#[test]
fn steps_between_windows_are_unrecorded() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    for start in [2_000, 9_000, 10_000, 20_000] {
        script.call(0, "def:main:10 def:train:5 aten::mm", start, start + 400);
        script.call(0, "def:main:10 span:Optimizer.step#SGD.step", start + 500, start + 540);
    }
    let changes = [(1_000, 0, true), (2_530, 1, false), (8_900, 10, true), (10_530, 12, false), (19_000, 20, true)];
    script.records.extend(changes.map(|(at_ns, step, open)| Record::Window { at_ns, step, open, at_step: true }));
    let trace = one(&script.end());
    let pauses: Vec<_> = trace.pauses().iter().map(|p| (p.start + 1_000, p.end + 1_000, p.before, p.after)).collect();
    assert_eq!(pauses, [(2_540, 8_900, 0, 10), (10_540, 19_000, 11, 20)]);
    // Steps 1 to 9 and 12 to 19.
    assert_eq!(trace.report.count_of("unrecorded_steps"), 17);
    assert_eq!(trace.report.count_of("recording_paused"), 0);
}

/// A function that is called once per step, distinguished by other calls of its caller in between, ends its step.
#[test]
fn calls_after_the_optimizer_are_in_the_step() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    for step in 0..3 {
        let at = 2_000 + 1_000 * step;
        script.call(0, "def:main:9 aten::stack", at, at + 50);
        script.call(0, "def:main:10 def:train:5 aten::mm", at + 100, at + 400);
        script.call(0, "def:main:10 def:train:6 span:Optimizer.step#SGD.step", at + 500, at + 600);
        script.call(0, "def:main:10 def:train:7 aten::item", at + 700, at + 710);
    }
    script.call(0, "def:main:12 aten::save", 6_000, 6_100);
    let trace = one(&script.end());
    let steps: Vec<(i64, i64)> = trace.steps.iter().map(|s| (s.start, s.end)).collect();
    assert_eq!(steps, [(1_000, 1_710), (1_710, 2_710), (2_710, 3_710)]);
    let trains = outline(&trace, 0).into_iter().filter(|line| line.contains(": train*")).count();
    assert_eq!(trains, 3);
    assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
}

#[test]
fn user_spans_around_the_optimizer_are_in_the_step() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    for step in 0..2 {
        let at = 1_000 + 1_000 * step;
        script.call(0, "def:main:9 span:iteration aten::mm", at + 10, at + 400);
        script.call(0, "def:main:9 span:iteration span:Optimizer.step#SGD.step", at + 500, at + 600);
        script.call(0, "def:main:9 span:iteration aten::item", at + 700, at + 710);
        script.call(0, "def:main:9 span:iteration", at, at + 800);
    }
    let trace = one(&script.end());
    let steps: Vec<(i64, i64)> = trace.steps.iter().map(|s| (s.start, s.end)).collect();
    assert_eq!(steps, [(0, 800), (800, 1_800)]);
    assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
}

#[test]
fn spans_around_all_steps_are_not_steps() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    for step in 0..3 {
        let at = 1_000 + 1_000 * step;
        script.call(0, "def:main:8 span:epoch def:train:9 aten::mm", at + 10, at + 400);
        script.call(0, "def:main:8 span:epoch def:train:9 span:Optimizer.step#SGD.step", at + 500, at + 600);
    }
    script.call(0, "def:main:8 span:epoch", 1_000, 4_000);
    let trace = one(&script.end());
    let steps: Vec<(i64, i64)> = trace.steps.iter().map(|s| (s.start, s.end)).collect();
    assert_eq!(steps, [(10, 600), (600, 1_600), (1_600, 2_600)]);
    assert_eq!(outline(&trace, 0)[..2], ["train.py(1): main* 0..3000", "  epoch 0..3000"]);
    assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
}

/// Two optimizers of one class, called from two lines. The first step compiles, so it has other call paths. Each
/// iteration has a span of its own, within a span around all of them.
#[test]
fn optimizers_of_one_class_are_distinguished_by_line() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    for step in 0..4 {
        let at = 1_000 + 1_000 * step;
        let around = if step == 0 { "def:main:8 span:training def:first:3" } else { "def:main:8 span:training" };
        let within = format!("{around} span:iteration~{step} def:train:9");
        script.call(0, &format!("{within} aten::mm"), at + 10, at + 100);
        script.call(
            0,
            &format!("{around} span:iteration~{step} def:train:20 span:Optimizer.step#Adam.step"),
            at + 200,
            at + 300,
        );
        script.call(
            0,
            &format!("{around} span:iteration~{step} def:train:30 span:Optimizer.step#Adam.step"),
            at + 500,
            at + 600,
        );
    }
    script.call(0, "def:main:8 span:training", 1_000, 5_000);
    let ends: Vec<i64> = one(&script.end()).steps.iter().map(|step| step.end).collect();
    assert_eq!(ends, [600, 1_600, 2_600, 3_600]);
}

#[test]
fn single_steps_begin_after_the_imports() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    script.call(0, "def:main:1 span:Python~GC", 1_000, 1_900);
    script.call(0, "def:main:1 def@<frozen~importlib._bootstrap>:_find_and_load:7 aten::empty", 2_000, 2_100);
    script.call(0, "def:main:10 aten::mm", 3_000, 3_400);
    script.call(0, "def:main:11 span:Optimizer.step#SGD.step", 3_500, 3_600);
    let trace = one(&script.end());
    let steps: Vec<(i64, i64)> = trace.steps.iter().map(|s| (s.start + 1_000, s.end + 1_000)).collect();
    assert_eq!(steps, [(3_000, 3_600)]);
}
