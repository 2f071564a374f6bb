//! One window of steps: of several processes, of recordings that pause, for tables of the host and of GPUs.

use crate::findings_support::{Program, text};
use crate::support::read;
use serde_json::{Value, json};
use stackline_analyze::analyses;
use stackline_critical_path::exact::what_if::{Edit, predict};
use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_findings::{LargeKind, Options, find};
use stackline_model::{RECORDING_FORMAT, Table, Trace, UNRECORDED, Values};
use stackline_testkit::tables::{integers, texts};
use stackline_timeline::steps::{StepSelection, between, mean_step_ns, with_gpu_work};
use stackline_timeline::{AmbiguousCycle, Scope, ambiguous_cycles, keep_cycle};

/// A span of a thread of a process.
fn span(pid: i64, (cat, name): (&str, &str), (ts, dur): (i64, i64), args: Value) -> Value {
    json!({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": pid, "ts": ts, "dur": dur, "args": args})
}

/// A step of a process, in µs.
fn step(pid: i64, number: i64, ts: i64, dur: i64) -> Value {
    span(pid, ("user_annotation", &format!("ProfilerStep#{number}")), (ts, dur), json!({}))
}

/// A kernel on a device that a process launches within an operator 5 µs before it starts.
fn kernel(pid: i64, device: i64, (ts, dur): (i64, i64)) -> [Value; 3] {
    let correlation = 1_000_000 * pid + ts;
    let args = json!({"correlation": correlation, "device": device, "stream": 7});
    [
        span(pid, ("cpu_op", "aten::mm"), (ts - 6, 8), json!({})),
        span(pid, ("cuda_runtime", "cudaLaunchKernel"), (ts - 5, 4), json!({"correlation": correlation})),
        json!({"ph": "X", "cat": "kernel", "name": "gemm", "pid": device, "tid": 7, "ts": ts, "dur": dur, "args": args}),
    ]
}

fn trace(events: impl IntoIterator<Item = Value>) -> Trace {
    read(json!({"traceEvents": events.into_iter().collect::<Vec<_>>()}).to_string())
}

/// The window in µs from the first event, by tables and by the path; both are the same.
#[track_caller]
fn window(trace: &Trace, scope: &Scope) -> (i64, i64) {
    let selection = StepSelection::select(trace, scope);
    let (start, end) = selection.window(trace).unwrap();
    let exact = Exact::new(trace).window(&selection.choice).unwrap();
    assert_eq!((exact.start, exact.end), (start, end));
    let base = trace.span().unwrap().0;
    ((start - base) / 1000, (end - base) / 1000)
}

fn run(trace: &Trace, name: &str, scope: &Scope) -> Vec<Table> {
    (analyses::find(name).unwrap().run)(trace, &scope.resolved(trace))
}

fn floats(table: &Table, column: &str) -> Vec<Option<f64>> {
    match table.column(column).map(|column| &column.values) {
        Some(Values::F64(values)) => values.clone(),
        other => panic!("{column}: {other:?}"),
    }
}

/// Two ranks of one job in one file, each on its own GPU. That which begins first is done last: its last kernel runs on.
fn ranks() -> Trace {
    let of = |pid: i64, from: i64| (0..3).map(move |number| step(pid, number + 5, from + 100 * number, 100));
    let steps = of(100, 0).chain(of(200, 10));
    let work = [(100, 0, (20, 50)), (200, 1, (30, 50)), (100, 0, (250, 400)), (200, 1, (260, 70))];
    trace(steps.chain(work.into_iter().flat_map(|(pid, device, at)| kernel(pid, device, at))))
}

#[test]
fn processes_share_a_window_from_the_first_start_to_the_last_end() {
    let trace = ranks();
    // Process 200 ends last on the CPU, and its GPU is done at 330; that of process 100 runs to 650.
    assert_eq!(window(&trace, &Scope::default()), (0, 650));
    let selection = StepSelection::select(&trace, &Scope::default());
    assert_eq!((selection.steps, &selection.choice), (3, &WindowChoice::StepsWithWork(5, 7)));
    let [note] = &selection.notes[..] else { panic!("{:?}", selection.notes) };
    assert!(
        note.starts_with("2 processes have steps (100, 200): the window covers the steps of all of them"),
        "{note}"
    );
    let found = find(&trace, &Options::default()).unwrap();
    assert!((found.steps, found.step_ns) == (3, 650_000 / 3) && found.notes.contains(note), "{:?}", found.notes);
    // The first step of each begins with its own process, whatever the other one has launched.
    assert_eq!(window(&trace, &Scope::from_steps(Some((6, 6)))), (100, 210));
}

#[test]
fn step_rows_name_their_process_if_several() {
    let trace = ranks();
    let [steps, spread] = &run(&trace, "steps", &Scope::default())[..] else { panic!() };
    assert_eq!(texts(steps, "process"), ["100", "200", "100", "200", "100", "200"]);
    assert_eq!(integers(steps, "step"), [5, 5, 6, 6, 7, 7]);
    let rows: Vec<(String, String)> = texts(spread, "process").into_iter().zip(texts(spread, "measure")).collect();
    let measures = ["time", "with_gpu", "gpu_busy"];
    let expected = ["100", "200"].iter().flat_map(|pid| measures.map(|name| ((*pid).to_owned(), name.to_owned())));
    assert_eq!(rows, expected.collect::<Vec<_>>());
    assert!(integers(spread, "steps").iter().all(|&steps| steps == 3));
    let alone = self::trace((0..3).map(|number| step(1, number, 100 * number, 100)));
    assert!(run(&alone, "steps", &Scope::default()).iter().all(|table| table.column("process").is_none()));
}

/// A note reports only the work that numbers leave out.
#[test]
fn warm_up_among_steps_of_another_process_is_not_excluded() {
    let of = |pid: i64, first: i64, lengths: [i64; 4]| {
        let mut at = 0;
        let one = move |(number, length): (i64, i64)| {
            at += length;
            step(pid, first + number, at - length, length)
        };
        (0..).zip(lengths).map(one).collect::<Vec<_>>()
    };
    let notes = |first: i64| {
        let trace = trace(of(100, 0, [100; 4]).into_iter().chain(of(200, first, [900, 100, 100, 100])));
        let selection = StepSelection::select(&trace, &Scope::default());
        (selection.warm_ups, selection.choice, selection.notes[0].clone())
    };
    let (warm_ups, choice, note) = notes(2);
    assert_eq!((&warm_ups[..], choice), (&[][..], WindowChoice::Steps(0, 5)));
    assert!(note.starts_with("step 2 of process 200 took 9.0 times") && note.contains("is included"), "{note}");
    let (warm_ups, choice, note) = notes(0);
    assert_eq!((&warm_ups[..], choice), (&[0][..], WindowChoice::Steps(1, 3)));
    assert!(note.contains("is excluded as warm-up"), "{note}");
}

/// Two cycles of a profiler: three steps, nothing for 5 ms, and as many steps as asked for; each step with a kernel of 60 µs.
fn cycles(first: i64, second: i64, of_second: i64) -> Trace {
    let of = |number: i64, from: i64, count: i64| {
        (0..count).flat_map(move |at| {
            let from = from + 100 * at;
            std::iter::once(step(1, number + at, from, 100)).chain(kernel(1, 0, (from + 20, 60)))
        })
    };
    trace(of(first, 0, 3).chain(of(second, 5300, of_second)))
}

#[test]
fn note_lists_some_of_many_cycles() {
    let trace = trace((0..20).map(|cycle| step(1, 2 * cycle, 1000 * cycle, 100)));
    let [note] = &StepSelection::select(&trace, &Scope::default()).notes[..] else { panic!() };
    assert!(
        note.contains("only step 38; to select the other steps, give --steps 0..0 or --steps 2..2 or")
            && note.ends_with("14..14 or …"),
        "{note}"
    );
}

fn idle_ns(trace: &Trace, scope: &Scope) -> i64 {
    let time = &run(trace, "gpu_time", scope)[0];
    let rows = texts(time, "category").into_iter().zip(integers(time, "time_ns"));
    rows.filter(|(category, _)| category.starts_with("idle")).map(|(_, ns)| ns).sum()
}

#[test]
fn window_excludes_the_pause_between_cycles() {
    let trace = cycles(3, 9, 3);
    assert_eq!(trace.report.count_of("recording_paused"), 1);
    let problem = trace.report.problems.iter().find(|problem| problem.code == "recording_paused").unwrap();
    assert_eq!(problem.example, "a gap of 5000 µs between steps 5 and 9");
    assert_eq!(window(&trace, &Scope::default()), (5300, 5600));
    let selection = StepSelection::select(&trace, &Scope::default());
    assert_eq!((selection.steps, &selection.choice), (3, &WindowChoice::StepsWithWork(9, 11)));
    let [note] = &selection.notes[..] else { panic!("{:?}", selection.notes) };
    assert!(note.starts_with("the recording pauses for 5000 µs between steps 5 and 9, so the window"), "{note}");
    assert!(note.ends_with("covers only steps 9 to 11; to select the other steps, give --steps 3..5"), "{note}");
    // Three kernels of 60 µs in 300.
    assert_eq!(idle_ns(&trace, &Scope::default()), 120_000);
    assert_eq!(window(&trace, &Scope::from_steps(Some((3, 5)))), (0, 300));
    assert_eq!(StepSelection::select(&trace, &Scope::from_steps(Some((3, 5)))).notes, [""; 0]);
    // A range over both is of the later one, and says so.
    let both = Scope::from_steps(Some((3, 11)));
    assert_eq!((window(&trace, &both), idle_ns(&trace, &both)), ((5300, 5600), 120_000));
    let steps = &(analyses::find("steps").unwrap().run)(&trace, &both)[0];
    assert_eq!(integers(steps, "step"), [9, 10, 11]);
    assert!(steps.notes.iter().any(|note| note.starts_with("The recording pauses for 5000 µs")), "{:?}", steps.notes);
    // All steps where no window is made of them.
    let all = &(analyses::find("steps").unwrap().run)(&trace, &Scope::default())[0];
    assert_eq!(integers(all, "step"), [3, 4, 5, 9, 10, 11]);
}

/// Every tenth step of 100 µs was recorded (`record --every 10`); the first one is warm-up. Another process works all
/// the time.
#[test]
fn window_excludes_unrecorded_steps() {
    let events = (0..5).flat_map(|at| {
        let start = 1000 * at;
        let length = if at == 0 { 400 } else { 100 };
        [step(1, 10 * at, start, length), span(1, ("cpu_op", "aten::mm"), (start + 10, 50), json!({}))]
    });
    let mut trace = trace(events.chain([span(2, ("cpu_op", "aten::mm"), (0, 5000), json!({}))]));
    let unrecorded: Vec<[i64; 2]> = (0..4).map(|at| [1_000_000 * at + 100_000, 1_000_000 * (at + 1)]).collect();
    trace.meta.format = RECORDING_FORMAT.to_owned();
    trace.meta.entries.push((UNRECORDED.to_owned(), json!(unrecorded).to_string()));
    trace.forget_computed();
    assert_eq!(window(&trace, &Scope::default()), (4000, 4100));
    let selection = StepSelection::select(&trace, &Scope::default());
    assert_eq!(mean_step_ns(&trace, &selection.choice), Some(100_000));
    let is_noted = |text: &str| selection.notes.iter().any(|note| note.contains(text));
    assert!(is_noted("pauses for 900.0 µs between steps 30 and 40 (the longest of 4 pauses)"), "{:?}", selection.notes);
    assert!(is_noted("step 0 took 4.0 times as long"), "{:?}", selection.notes);
    // The lengths of all other steps are compared, without the time between them.
    assert_eq!(selection.exclusion_reasons(&trace), [Some("warm-up"), None, None, None, None]);
    assert_eq!(between(&trace, &with_gpu_work(&trace)), [None; 5]);
    // The table of steps needs no window: it lists all steps, or all of a range.
    let listed = |scope: &Scope| integers(&(analyses::find("steps").unwrap().run)(&trace, scope)[0], "step");
    assert_eq!(listed(&Scope::default()), [0, 10, 20, 30, 40]);
    assert_eq!(listed(&Scope::from_steps(Some((0, 990)))), [0, 10, 20, 30, 40]);
    assert_eq!(listed(&Scope::from_steps(Some((5, 30)))), [10, 20, 30]);
}

#[test]
fn cycles_with_equal_numbers_prefer_the_longest_then_the_last() {
    for (of_second, expected) in [(3, (5300, 5600)), (4, (5300, 5700)), (2, (0, 300))] {
        let trace = cycles(0, 0, of_second);
        assert_eq!(window(&trace, &Scope::default()), expected, "{of_second}");
        let scope = Scope::default().resolved(&trace);
        assert_eq!(window(&trace, &scope), expected, "{of_second}: the same by number");
        let notes = StepSelection::select(&trace, &Scope::default()).notes;
        let other =
            format!("; to select the other steps, give --steps 0..{}", if of_second < 3 { "1@2" } else { "2@1" });
        assert!(notes[0].ends_with(&other), "{notes:?}");
    }
}

/// A launcher with two steps, and a child with four steps that begins 5 ms after the end of the launcher.
fn launcher_and_child(first_of_child: i64) -> Trace {
    let of = |pid: i64, number: i64, from: i64, count: i64| {
        (0..count).flat_map(move |at| {
            let from = from + 100 * at;
            std::iter::once(step(pid, number + at, from, 100)).chain(kernel(pid, 0, (from + 20, 60)))
        })
    };
    trace(of(100, 0, 0, 2).chain(of(200, first_of_child, 5200, 4)))
}

#[test]
fn later_process_is_no_cycle_of_an_earlier_one() {
    let trace = launcher_and_child(10);
    assert_eq!(trace.report.count_of("recording_paused"), 0);
    assert_eq!(window(&trace, &Scope::default()), (5200, 5600));
    let selection = StepSelection::select(&trace, &Scope::default());
    assert_eq!((selection.steps, &selection.choice), (4, &WindowChoice::StepsWithWork(10, 13)));
    let expected = "the steps of process 100 and those of process 200 do not overlap in time, so the window covers only steps 10 to 13 of \
                    process 200; to select the other steps, give --steps 0..1";
    assert_eq!(selection.notes, [expected]);
    let steps = &(analyses::find("steps").unwrap().run)(&trace, &Scope::default())[0];
    let why: Vec<String> = texts(steps, "left_out").into_iter().filter(|why| !why.is_empty()).collect();
    assert_eq!(why, ["another process, at another time"; 2]);
    let same = launcher_and_child(0);
    let notes = StepSelection::select(&same, &Scope::default()).notes;
    assert!(notes[0].ends_with("; to select the other steps, give --steps 0..1@1"), "{notes:?}");
}

/// Numbers that several cycles have choose none of them; the message names all, with the number of each cycle.
#[test]
fn cycles_with_equal_numbers_are_distinguished_by_time() {
    let trace = cycles(0, 0, 4);
    let cycle = |number, numbers, time_ns| AmbiguousCycle { number, numbers, time_ns };
    let both = [cycle(1, (0, 2), (0, 300_000)), cycle(2, (0, 3), (5_300_000, 5_700_000))];
    assert_eq!(ambiguous_cycles(&trace, (0, 2)), both);
    assert_eq!(ambiguous_cycles(&trace, (2, 9)), both);
    assert_eq!(ambiguous_cycles(&trace, (3, 9)), [], "one cycle has step 3");
    assert_eq!(ambiguous_cycles(&cycles(3, 9, 3), (0, 20)), [], "no number comes twice");
    assert_eq!(window(&trace, &Scope::from_steps(Some((3, 3)))), (5600, 5700), "its own numbers choose the second");
}

#[test]
fn kept_cycle_is_the_only_one() {
    for (number, expected) in [(1, (0, 200)), (2, (5300, 5500))] {
        let mut trace = cycles(0, 0, 4);
        assert_eq!(keep_cycle(&mut trace, number), Ok(()));
        let scope = Scope::from_steps(Some((0, 1)));
        assert_eq!(ambiguous_cycles(&trace, (0, 1)), []);
        assert_eq!(window(&trace, &scope), expected, "cycle {number}");
        assert_eq!(StepSelection::select(&trace, &scope).notes, [""; 0], "cycle {number}");
    }
    let mut trace = cycles(0, 0, 4);
    assert_eq!([0, 3].map(|number| keep_cycle(&mut trace, number)), [Err(2); 2]);
    assert_eq!(trace.steps.len(), 7);
    assert_eq!(keep_cycle(&mut Trace::default(), 2), Ok(()), "no steps");
}

/// A program that is recorded all along and waits is idle.
#[test]
fn gap_between_consecutive_steps_is_idle_time() {
    let steps = [step(1, 3, 0, 100), step(1, 4, 100, 100), step(1, 5, 700, 100), step(1, 6, 800, 100)];
    let work = [20, 120, 720, 820].into_iter().flat_map(|at| kernel(1, 0, (at, 60)));
    let trace = trace(steps.into_iter().chain(work));
    assert_eq!(trace.report.count_of("recording_paused"), 0);
    assert_eq!(idle_ns(&trace, &Scope::default()), 900_000 - 4 * 60_000);
}

/// Work between steps is in the tables of operators as in those of kernels.
#[test]
fn operator_and_kernel_tables_share_the_window() {
    let steps = [0, 1, 2].map(|number| step(1, number, 1000 * number, 600));
    let work = [100, 700, 1100, 1700, 2100, 2700].into_iter().flat_map(|at| kernel(1, 0, (at, 50)));
    let trace = trace(steps.into_iter().chain(work));
    let count = |table: &Table, column: &str| integers(table, column);
    let operators = |scope: &Scope| count(&run(&trace, "operators", scope)[0], "calls");
    let kernels = |scope: &Scope| count(&run(&trace, "gpu_time", scope)[1], "count");
    // That behind the last step, at 2700, is in neither.
    assert_eq!((operators(&Scope::default()), kernels(&Scope::default())), (vec![5], vec![5]));
    let one = Scope::from_steps(Some((1, 1)));
    assert_eq!((operators(&one), kernels(&one)), (vec![1], vec![1]));
}

/// A kernel of a step that overlaps a collective of the step before lies before the step's window of GPU work.
#[test]
fn operators_include_launched_work_outside_the_window() {
    let steps = (0..4).map(|number| step(1, number, 1000 * number, 1000));
    let work = (0..4).flat_map(|number| {
        let from = 1000 * number;
        kernel(1, 0, (from + 30, 300)).into_iter().chain(kernel(1, 1, (from + 930, 600)))
    });
    let trace = trace(steps.chain(work));
    let one = Scope::from_steps(Some((1, 1)));
    assert_eq!(window(&trace, &one), (1530, 2530), "the kernel at 1030 is over before");
    let [operators, tree] = &run(&trace, "operators", &one)[..] else { panic!() };
    for table in [operators, tree] {
        let launches = integers(table, "launches_self");
        assert_eq!(
            (integers(table, "calls"), floats(table, "gpu_self_us"), launches),
            (vec![2], vec![Some(900.0)], vec![2])
        );
    }
}

/// Of work whose times cannot be true it is not known how long it takes.
#[test]
fn operators_with_untimed_work_have_no_gpu_time() {
    let mut events: Vec<Value> = [100, 200, 300, 400].into_iter().flat_map(|at| kernel(1, 0, (at, 50))).collect();
    events[9]["name"] = json!("aten::add");
    events[11]["dur"] = json!(-5);
    let trace = trace(events);
    let operators = &run(&trace, "operators", &Scope::default())[0];
    assert_eq!(texts(operators, "name"), ["aten::mm", "aten::add"]);
    assert_eq!(floats(operators, "gpu_self_us"), [Some(150.0), None]);
    assert_eq!(integers(operators, "launches_self"), [3, 1]);
}

/// Each group that no rule covers has the edits of its gain, and `what-if` predicts the same of them.
#[test]
fn uncovered_group_edits_replay_their_gain() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.kernel("gemm", 2000));
                p.python("data.py(7): prepare", |p| p.op("my::op", |p| p.call("hipMystery", 8000)));
                p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
            });
        });
    }
    let trace = program.trace();
    let found = find(&trace, &Options::default()).unwrap();
    let choice = StepSelection::select(&trace, &Scope::default()).choice;
    let groups = &found.uncovered.groups;
    assert!(groups.iter().any(|group| group.kind == LargeKind::Call), "{}", text(&found.findings));
    for group in groups {
        assert_eq!(group.gain.is_some(), !group.edits.is_empty(), "{group:?}");
        let Some(gain) = group.gain else { continue };
        let edits = Edit::parse_all(&group.edits.join("; ")).unwrap();
        let predicted = predict(&trace, &choice, &edits).unwrap().gain;
        assert_eq!((predicted.likely_ns / 4, predicted.low_ns / 4), (gain.likely_ns, gain.low_ns), "{group:?}");
    }
}

#[test]
fn warm_up_steps_of_several_processes_have_a_note_each() {
    let steps = |pid: i64, first: i64| {
        let others = (0..3).map(move |at| step(pid, at + 1, first + 100 * at, 100));
        std::iter::once(step(pid, 0, 0, first)).chain(others)
    };
    let trace = trace(steps(100, 600).chain(steps(200, 900)));
    let StepSelection { notes, warm_ups, .. } = StepSelection::select(&trace, &Scope::default());
    assert_eq!(warm_ups, [0]);
    for expected in ["step 0 of process 100 took 6.0 times", "step 0 of process 200 took 9.0 times"] {
        assert_eq!(notes.iter().filter(|note| note.starts_with(expected)).count(), 1, "{notes:?}");
    }
}
