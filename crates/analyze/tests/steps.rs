//! Selection of steps by commands, and their windows.

use crate::support::{for_each_trace, read, read_mini};
use stackline_analyze::analyses;
use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_diff as diff;
use stackline_diff::{Change, ChangeTable, Measure, Profile, compare};
use stackline_findings::{Options, find};
use stackline_model::{Severity, Table, Trace, Values};
use stackline_testkit::mini::MiniTrace;
use stackline_timeline::after_steps::AfterSteps;
use stackline_timeline::launch_pattern::LaunchPattern;
use stackline_timeline::steps::{StartUp, StepSelection};
use stackline_timeline::{Scope, step_marks};

/// A step of process 1 from `start` µs on.
pub(crate) fn step(number: i64, start: i64, length: i64) -> String {
    format!("1/1 user_annotation ProfilerStep#{number} {start}+{length}")
}

/// The call that launches a kernel.
pub(crate) fn call(correlation: i64, start: i64, length: i64) -> String {
    format!("1/1 cuda_runtime cudaLaunchKernel {start}+{length} correlation={correlation}")
}

/// A kernel on stream 7.
fn gemm(correlation: i64, start: i64, length: i64) -> String {
    format!("gpu0/7 kernel gemm {start}+{length} correlation={correlation}")
}

/// A kernel, and the call that launches it.
fn kernel(correlation: i64, launched: i64, start: i64, length: i64) -> [String; 2] {
    [call(correlation, launched, 5), gemm(correlation, start, length)]
}

pub(crate) fn trace(events: impl IntoIterator<Item = String>) -> Trace {
    read_mini(&events.into_iter().collect::<Vec<_>>().join("\n"))
}

/// The window in µs, by the table and by the path; both are the same.
#[track_caller]
fn window(trace: &Trace, scope: &Scope) -> (usize, (i64, i64)) {
    let selection = StepSelection::select(trace, scope);
    let (start, end) = selection.window(trace).unwrap();
    let exact = Exact::new(trace).window(&selection.choice).unwrap();
    assert_eq!((exact.start, exact.end), (start, end));
    let base = trace.span().unwrap().0;
    (selection.steps, ((start - base) / 1000, (end - base) / 1000))
}

fn one(number: i64) -> Scope {
    Scope::from_steps(Some((number, number)))
}

/// A full launch queue: the GPU still runs work from before the recording, whose launches are not in the file.
#[test]
fn work_launched_before_the_recording_is_in_no_step() {
    let steps = [step(0, 100, 100), step(1, 200, 100), step(2, 300, 100)];
    let old = |number, start| gemm(number, start, 100);
    let launched = [kernel(11, 110, 290, 100), kernel(12, 210, 390, 100), kernel(13, 310, 490, 100)];
    let events = || steps.iter().cloned().chain([old(1, 90), old(2, 190)]);
    let queue = trace(events().chain(launched.iter().flatten().cloned()));
    let base = |at: i64| at - 90;
    for number in 0..3 {
        assert_eq!(window(&queue, &one(number)), (1, (base(290 + 100 * number), base(390 + 100 * number))));
    }
    // The same where launches are missing later, too: nothing tells that those of the first ones are not, too.
    let lossy = trace(events().chain(launched.into_iter().flatten().filter(|line| !line.contains(" 210+"))));
    assert_eq!(window(&lossy, &one(0)).1.0, base(190));
}

#[test]
fn work_launched_earlier_is_in_no_later_step() {
    let events = [step(0, 100, 100), step(1, 200, 100), step(2, 300, 100)];
    let before = kernel(1, 10, 50, 90);
    let late = kernel(2, 210, 220, 150);
    let trace = trace(events.into_iter().chain(before).chain(late));
    let base = |at: i64| at - 10;
    assert_eq!(window(&trace, &one(0)), (1, (base(140), base(200))));
    assert_eq!(window(&trace, &one(1)), (1, (base(200), base(370))));
    assert_eq!(window(&trace, &one(2)), (1, (base(370), base(400))));
    assert_eq!(window(&trace, &Scope::default()), (3, (base(140), base(400))));
}

#[test]
fn hidden_step_has_its_own_span() {
    let events = [step(0, 0, 100), step(1, 100, 100), step(2, 200, 300)];
    let trace = trace(events.into_iter().chain(kernel(1, 20, 50, 300)));
    assert_eq!(window(&trace, &one(1)), (1, (100, 200)));
    let kernels = &(analyses::find("gpu_time").unwrap().run)(&trace, &one(1))[1];
    let Values::I64(counts) = &kernels.columns.iter().find(|c| c.name == "count").unwrap().values else { panic!() };
    assert_eq!(counts, &[Some(1)], "what runs in the window counts, whoever launched it");
}

#[test]
fn repeated_step_numbers_are_distinct_steps() {
    let of = |numbers: [i64; 4]| trace(numbers.into_iter().zip(0..).map(|(n, at)| step(n, at * 1000, 1000)));
    for numbers in [[7, 7, 7, 7], [3, 4, 4, 5]] {
        assert_eq!(window(&of(numbers), &Scope::default()), (4, (0, 4000)), "{numbers:?}");
    }
    // The first one takes long, but its number does not tell it from the others.
    let slow = trace([step(7, 0, 6000), step(7, 6000, 1000), step(7, 7000, 1000), step(7, 8000, 1000)]);
    assert_eq!(window(&slow, &Scope::default()), (4, (0, 9000)));
}

#[test]
fn warm_up_step_is_excluded_with_a_note() {
    let slow = trace([step(0, 2000, 2600), step(1, 4600, 1000), step(2, 5600, 1000), step(3, 6600, 1000)]);
    assert_eq!(window(&slow, &Scope::default()), (3, (2600, 5600)));
    let notes = StepSelection::select(&slow, &Scope::default()).notes;
    assert!(notes[0].starts_with("step 0 took 2.6 times as long as the median"), "{notes:?}");
    let is_default = |steps| StepSelection::select(&slow, &Scope::from_steps(steps)).is_default;
    assert!(is_default(None) && is_default(Some((1, 3))) && !is_default(Some((0, 3))));
    let whole = StepSelection::select(&slow, &Scope { whole: true, ..Scope::default() });
    assert_eq!((whole.steps, whole.is_default), (0, false));
    let setup = "1/1 user_annotation setup 0+1500".to_owned();
    let late = trace([setup, step(0, 2000, 1000), step(1, 3000, 1000)]);
    assert_eq!(StartUp::from_trace(&late).map(|start_up| start_up.before_ns), Some(2_000_000));
    assert_eq!(StartUp::from_trace(&slow), None);
}

#[test]
fn time_after_the_last_step_is_reported_with_location() {
    let steps = || [step(0, 0, 1000), step(1, 1000, 1000), step(2, 2000, 1000)];
    let after =
        |events: &[&str]| AfterSteps::from_trace(&trace(steps().into_iter().chain(events.iter().map(|&e| e.into()))));
    let text = |events: &[&str]| after(events).map(|after| after.to_string());
    let evaluate = "1/1  python_function  train.py(30): _evaluate  3100+4000";
    let tail = |text: &str| Some(text.to_owned());
    assert_eq!(text(&[evaluate]), tail("4100 µs, mostly in train.py:30 in _evaluate"));
    // Without stacks the calls are named, by all of their time.
    let calls = ["1/1 cpu_op aten::mm 3000+900", "1/1 cpu_op aten::add 3900+900", "1/1 cpu_op aten::mm 4800+900"];
    assert_eq!(text(&calls), tail("2700 µs, mostly in aten::mm"));
    // What is within a call is a part of it, and no place has most of many.
    let mixed = ["1/1 cpu_op aten::a 3000+900", "1/1 cpu_op aten::b 3900+900", "1/1 cpu_op aten::c 4800+900"];
    assert_eq!(text(&mixed), tail("2700 µs"));
    // No more than a step, a profiler that ends, another thread, and work of the steps are no time after them.
    assert_eq!(text(&["1/1 cpu_op aten::mm 3000+900"]), None);
    assert_eq!(text(&["1/1  python_function  torch/profiler/profiler.py(900): _stop  3100+4000"]), None);
    let stops = [
        "1/1  python_function  torch/profiler/profiler.py(900): _stop  3100+4000",
        "1/1  python_function  torch/autograd/profiler.py(300): __exit__  3200+3000",
        "1/1  cpu_op  aten::empty  7200+1100",
    ];
    assert_eq!(text(&stops[..2]), None, "nor what it calls");
    assert_eq!(text(&stops), tail("5300 µs"), "no line has most of what follows");
    assert_eq!(text(&["1/2 cpu_op aten::mm 3000+9000"]), None);
    assert_eq!(
        text(&["gpu0/7 kernel gemm 2500+9000 correlation=1", "1/1 cuda_runtime cudaLaunchKernel 2400+5 correlation=1"]),
        None
    );
    assert_eq!(after(&[]), None);
}

/// Each third step evaluates, the first one, too: it is no warm-up. Where such steps come at once after it only, all of them are.
#[test]
fn recurring_long_steps_are_no_warm_up() {
    let steps = |lengths: &[i64]| {
        let mut at = 0;
        let one = |(number, length): (usize, &i64)| {
            at += length;
            step(number as i64, at - length, *length)
        };
        trace(lengths.iter().enumerate().map(one).collect::<Vec<_>>())
    };
    let selection = |lengths: &[i64]| StepSelection::select(&steps(lengths), &Scope::default()).steps;
    assert_eq!(selection(&[3000, 1000, 1000, 3000, 1000, 1000, 3000, 1000, 1000]), 9);
    assert_eq!(selection(&[3000, 3000, 3000, 1000, 1000, 1000, 1000, 1000, 1000]), 6);
    assert_eq!(selection(&[3000, 1000, 1000, 1000, 3000, 1000, 1000]), 6, "one slow step is no pattern");
}

/// Steps are labeled "with their GPU work" only if it makes a difference: they launched some, or some reaches into them.
#[test]
fn steps_without_gpu_work_are_marked_spans() {
    let of = |events: &[String], number: i64| {
        let trace = trace(events.iter().cloned());
        let found = find(&trace, &Options { scope: one(number), ..Options::default() }).unwrap();
        (StepSelection::select(&trace, &one(number)).choice, found.with_gpu_work)
    };
    let on_cpu = "1/1 cpu_op aten::mm 320+50".to_owned();
    let mut events = vec![step(0, 100, 100), step(1, 300, 100), on_cpu];
    events.extend(kernel(1, 110, 120, 30));
    assert_eq!(of(&events, 0), (WindowChoice::StepsWithWork(0, 0), true));
    assert_eq!(of(&events, 1), (WindowChoice::Steps(1, 1), false), "launched nothing");
    // Work from before that is still running where the step has ended.
    events.extend(kernel(2, 150, 160, 1000));
    assert_eq!(of(&events, 1), (WindowChoice::Steps(1, 1), false), "falls back to the step");
}

/// The pattern's repeats are the steps that the program marks: as many, but for the first and the last, and as long.
#[test]
fn inferred_steps_match_marked_steps_of_real_traces() {
    let mut offered = Vec::new();
    for_each_trace(|name, trace| {
        let Some(pattern) = LaunchPattern::find(trace) else { return };
        offered.push(name.to_owned());
        let mut lengths: Vec<i64> = trace.steps.windows(2).map(|two| two[1].start - two[0].start).collect();
        lengths.sort_unstable();
        let (found, marked) = (pattern.median_ns() as f64, lengths[lengths.len() / 2] as f64);
        assert!((found / marked - 1.0).abs() < 0.05, "{name}: {found} of {marked}");
        assert!(trace.steps.len().abs_diff(pattern.repeats.len()) <= 2, "{name}: {}", pattern.repeats.len());
    });
    let expected = [
        "nvidia-2080ti-linear.json.gz",
        "schema-2020-bare-array-resnet50.json.gz",
        "schema-2021-v100-resnet50.json.gz",
    ];
    assert!(offered == expected || offered.is_empty(), "{offered:?}");
}

/// Times of day are more than a day after 0, in µs.
const BASE: i64 = 100_000_000_000;

/// Three steps of 100 µs, each with a kernel that runs in it; the launch of the second one begins at another time.
fn launched_at(launched: i64) -> Trace {
    let steps = [step(0, BASE, 100), step(1, BASE + 100, 100), step(2, BASE + 200, 100)];
    let at = |number: i64| BASE + 10 + 100 * number;
    let kernels =
        [(1, at(0)), (2, launched), (3, at(2))].map(|(id, launched)| kernel(id, launched, at(id - 1) + 20, 30));
    trace(steps.into_iter().chain(kernels.into_iter().flatten()))
}

#[test]
fn implausible_launch_time_moves_no_step() {
    let lengths = |trace: &Trace| {
        let steps = analyses::ALL.iter().find(|analysis| analysis.name == "steps").unwrap();
        let tables = (steps.run)(trace, &Scope::default());
        match &tables[0].column("with_gpu_us").unwrap().values {
            Values::F64(values) => values.clone(),
            other => panic!("{other:?}"),
        }
    };
    let hundred = vec![Some(100.0); 3];
    assert_eq!(lengths(&launched_at(BASE + 110)), hundred);
    for bad in [0, -5] {
        let trace = launched_at(bad);
        assert_eq!((window(&trace, &Scope::default()).0, lengths(&trace)), (3, hundred.clone()), "{bad}");
    }
}

#[test]
fn instant_marks_last_until_the_next_mark() {
    let lengths = |steps: [String; 4]| -> Vec<(i64, i64)> {
        let trace = trace(steps);
        trace.steps.iter().map(|step| (step.number, (step.end - step.start) / 1000)).collect()
    };
    let of = |lengths: [i64; 4], between: i64| {
        [0, 1, 2, 3].map(|at| step(at, 1000 + (100 + between) * at, lengths[at as usize]))
    };
    assert_eq!(lengths(of([100; 4], 1)), [(0, 100), (1, 100), (2, 100), (3, 100)]);
    assert_eq!(
        lengths(of([100, 0, 100, 0], 1)),
        [(0, 100), (1, 101), (2, 100)],
        "the end of the last one is not known"
    );
    assert_eq!(lengths(of([100, 0, 100, 100], 50)), [(0, 100), (2, 100), (3, 100)], "they do not follow one another");
    assert_eq!(lengths(of([0; 4], 1)), [(0, 101), (1, 101), (2, 101)], "of none the duration was filled in");
    let trace = trace(of([100, 0, 100, 100], 1));
    assert_eq!(trace.report.count_of("step_without_duration"), 1);
}

#[test]
fn duplicate_marks_count_once() {
    let twice = trace([step(0, 1000, 100), step(0, 1000, 100), step(1, 1100, 100)]);
    assert_eq!((twice.steps.len(), twice.report.count_of("step_mark_repeated")), (2, 1));
    // Within the first one, and across its end.
    let nearly = trace([step(0, 1000, 1000), step(0, 1001, 998), step(0, 1002, 999), step(1, 2001, 1000)]);
    assert_eq!((nearly.steps.len(), nearly.report.count_of("step_mark_repeated")), (2, 2));
    let once = trace([step(0, 1000, 100), step(1, 1100, 100)]);
    assert_eq!((once.steps.len(), once.report.count_of("step_mark_repeated")), (2, 0));
}

#[test]
fn time_between_steps_is_reported() {
    let measures = |between: i64| {
        let trace = trace((0..4).map(|at| step(at, 1000 + (100 + between) * at, 100)));
        let steps = analyses::ALL.iter().find(|analysis| analysis.name == "steps").unwrap();
        let tables = (steps.run)(&trace, &Scope::default());
        let of = |name: &str| tables[1].column(name).unwrap().values.clone();
        match (of("measure"), of("steps"), of("mean_us")) {
            (Values::Str(names), Values::I64(counts), Values::F64(means)) => {
                (0..names.len()).map(|at| (names[at].clone().unwrap(), counts[at], means[at])).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let time = ("time".to_owned(), Some(4), Some(100.0));
    assert_eq!(measures(2), std::slice::from_ref(&time));
    assert_eq!(measures(40), [time, ("between".to_owned(), Some(3), Some(40.0))]);
}

#[test]
fn comparison_includes_time_between_steps() {
    let profile = |between: i64| {
        let steps = (0..6).map(|at| step(at, 1000 + (100 + between) * at, 100));
        Profile::from_trace(&trace(steps), 0, &Scope::default())
    };
    let changes = |before: i64, after: i64| {
        let diff = compare(&vec![vec![profile(before)]], &vec![vec![profile(after)]], diff::Options::default());
        let of =
            |change: &Change| (change.measure, [change.before_ns, change.after_ns].map(|ns| ns.round() as i64 / 1000));
        diff.changes[&ChangeTable::Steps].iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(changes(0, 1), [(Measure::Step, [100, 100])], "nothing to speak of");
    assert_eq!(changes(0, 300), [(Measure::Step, [100, 100]), (Measure::StepAndBetween, [100, 400])]);
}

/// Launches of which the file has no operation, as where it breaks off.
#[test]
fn unknown_gpu_work_of_a_step_is_not_zero() {
    let steps = [step(0, 1000, 100), step(1, 1100, 100), step(2, 1200, 100)];
    let recorded = [kernel(1, 1010, 1030, 30), kernel(3, 1210, 1230, 30)];
    let unrecorded = (10..14).map(|id| call(id, 1100 + id, 1));
    let trace = trace(steps.into_iter().chain(recorded.into_iter().flatten()).chain(unrecorded));
    let run = analyses::ALL.iter().find(|analysis| analysis.name == "steps").unwrap().run;
    let tables = run(&trace, &Scope::default());
    for (column, expected) in
        [("gpu_busy_us", [Some(30.0), None, Some(30.0)]), ("launched_gpu_us", [Some(30.0), None, Some(30.0)])]
    {
        match &tables[0].column(column).unwrap().values {
            Values::F64(values) => assert_eq!(values[..], expected, "{column}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(trace.report.count_of("kernels_not_recorded"), 4);
}

/// Of the two tables of steps: the steps that have a length with GPU work, and the notes on the spread.
fn with_gpu(trace: &Trace) -> (Vec<bool>, Vec<String>) {
    let run = analyses::ALL.iter().find(|analysis| analysis.name == "steps").unwrap().run;
    let tables = run(trace, &Scope::default());
    let known = match &tables[0].column("with_gpu_us").unwrap().values {
        Values::F64(values) => values.iter().map(Option::is_some).collect(),
        other => panic!("{other:?}"),
    };
    (known, tables[1].notes.clone())
}

#[test]
fn truncated_step_is_compared_with_similar_steps() {
    let break_off = |mut trace: Trace| {
        trace.report.count("truncated", Severity::Lost, "", None, "");
        trace
    };
    let kernels = |pid: i64, from: i64, ids: std::ops::Range<i64>| {
        ids.enumerate().flat_map(move |(at, id)| {
            let at = from + 10 * at as i64;
            [
                format!("{pid}/1 cuda_runtime cudaLaunchKernel {at}+5 correlation={id}"),
                format!("gpu0/{pid} kernel gemm {}+3 correlation={id}", at + 6),
            ]
        })
    };
    // One process launches ten kernels a step, the other one two; of the last step of the first one half is in the file.
    let mark = |pid: i64, number: i64, at: i64| format!("{pid}/1 user_annotation ProfilerStep#{number} {at}+200");
    let mut lines: Vec<String> = Vec::new();
    for (number, all) in [(0, 10), (1, 10), (2, 5)] {
        let at = 1000 + 200 * number;
        lines.extend([mark(1, number, at), mark(2, number, at)]);
        lines.extend(kernels(1, at + 10, 100 * (number + 1)..100 * (number + 1) + all));
        lines.extend(kernels(2, at + 10, 1000 + 10 * number..1002 + 10 * number));
    }
    let (known, notes) = with_gpu(&break_off(trace(lines)));
    assert_eq!(known.iter().filter(|known| **known).count(), 5, "{known:?}");
    let note = "The spread of with_gpu and gpu_busy excludes 1 of 6 steps, ";
    assert!(notes.iter().any(|text| text.starts_with(note)), "{notes:?}");

    // No second step confirms that the one with most kernels is complete.
    let mut lines: Vec<String> = (0..3).map(|number| mark(1, number, 1000 + 200 * number)).collect();
    lines.extend(kernels(1, 1410, 100..105));
    let (known, notes) = with_gpu(&break_off(trace(lines)));
    assert_eq!(known, [false; 3]);
    assert!(notes.iter().any(|text| text.starts_with("The spread of with_gpu and gpu_busy")), "{notes:?}");

    // Launches show that most records of a step without similar ones are missing.
    let launch = |id: i64| format!("1/1 cuda_runtime cudaLaunchKernel {}+5 correlation={}", 1010 + 10 * id, 100 + id);
    let kernel = |id: i64| format!("gpu0/1 kernel gemm {}+3 correlation={}", 1016 + 10 * id, 100 + id);
    let mut lines: Vec<String> = std::iter::once(mark(1, 0, 1000)).chain((0..10).map(launch)).collect();
    lines.extend((0..2).map(kernel));
    lines.push("1/1 cuda_runtime cudaDeviceSynchronize 1120+50 correlation=200".to_owned());
    lines.push("1/1 cpu_op aten::mm 900+5".to_owned());
    assert_eq!(with_gpu(&break_off(trace(lines))).0, [false]);

    // The same of marks: a step of evaluation is smaller than one of training.
    let mut lines: Vec<String> = Vec::new();
    for (number, all) in [(0, 10), (1, 2), (2, 10), (3, 2)] {
        lines.push(mark(1, number, 1000 + 200 * number));
        lines.extend(kernels(1, 1010 + 200 * number, 100 * (number + 1)..100 * (number + 1) + all));
    }
    let mut trace = break_off(trace(lines));
    assert_eq!(with_gpu(&trace).0, [true, false, true, false], "marks of one name");
    for step in [1, 3] {
        let (event, name) = (trace.steps[step].event, trace.strings.intern(&format!("eval_step {step}")));
        trace.events.name[event.index()] = name;
    }
    assert_eq!(with_gpu(&trace), (vec![true; 4], Vec::new()));
}

/// The note counts as the spread does: without first steps that warm up.
#[test]
fn spread_note_counts_steps_with_unknown_gpu_work() {
    let marks = [step(0, 1000, 900), step(1, 1900, 100), step(2, 2000, 100), step(3, 2100, 100)];
    let noted = |unrecorded: &[i64]| {
        let work = [0, 1, 2, 3].into_iter().map(|at| (at + 1, trace_start(at)));
        let events = work.flat_map(|(id, at)| {
            let lost = unrecorded.contains(&(id - 1));
            [Some(call(id, at, 5)), (!lost).then(|| gemm(id, at + 10, 30))].into_iter().flatten()
        });
        with_gpu(&trace(marks.iter().cloned().chain(events))).1
    };
    assert_eq!(noted(&[0]), [""; 0], "the warm-up");
    let note = "The spread of with_gpu and gpu_busy excludes 1 of 3 steps, ";
    assert!(noted(&[0, 2])[0].starts_with(note), "{:?}", noted(&[0, 2]));
}

/// A moment within the step with this number.
fn trace_start(number: i64) -> i64 {
    if number == 0 { 1010 } else { 1810 + 100 * number }
}

/// Such a step has the process of its device, which launches nothing.
#[test]
fn stream_marks_have_unknown_launched_work() {
    let mark = |number: i64| format!("gpu0/7 gpu_user_annotation ProfilerStep#{number} {}+100", 1000 + 100 * number);
    let work = (0..3).flat_map(|at| kernel(at + 1, 1010 + 100 * at, 1020 + 100 * at, 30));
    let trace = trace((0..3).map(mark).chain(work));
    assert_eq!((trace.steps.len(), trace.gpu.launch.iter().all(|launch| launch.is_some())), (3, true));
    let steps = &(analyses::find("steps").unwrap().run)(&trace, &Scope::default())[0];
    let values = |name: &str| steps.column(name).unwrap().values.clone();
    let (Values::F64(us), Values::I64(kernels)) = (values("launched_gpu_us"), values("launched_kernels")) else {
        panic!()
    };
    assert_eq!((us, kernels), (vec![None; 3], vec![None; 3]));
}

/// All steps are listed; selected ones count, as in the tables of a report.
#[test]
fn spread_covers_the_selected_steps() {
    let run = analyses::find("steps").unwrap().run;
    let slow = trace([step(0, 2000, 2600), step(1, 4600, 1000), step(2, 5600, 1000), step(3, 6600, 1300)]);
    let [steps, spread] = &run(&slow, &Scope::default())[..] else { panic!() };
    let Values::Str(left_out) = &steps.column("left_out").unwrap().values else { panic!() };
    assert_eq!(left_out[..], [Some("warm-up".to_owned()), None, None, None]);
    let of = |spread: &Table| match (&spread.column("steps").unwrap().values, &spread.column("mean_us").unwrap().values)
    {
        (Values::I64(counts), Values::F64(means)) => (counts[0], means[0]),
        other => panic!("{other:?}"),
    };
    assert_eq!(of(spread), (Some(3), Some(1100.0)));
    let chosen = run(&slow, &Scope::default().resolved(&slow));
    assert_eq!((&chosen[1], chosen[0].rows()), (spread, 3), "as a report has it");
    for all in [Scope { whole: true, ..Scope::default() }, Scope::from_steps(Some((0, 3)))] {
        let tables = run(&slow, &all);
        assert_eq!((of(&tables[1]).0, tables[0].column("left_out")), (Some(4), None), "{all:?}");
    }
}

/// Steps by an optimizer, each in an iteration that the program numbers, and three to an epoch, which is no step.
fn numbered_iterations(name: &str) -> Trace {
    let mut program = MiniTrace::new("");
    for at in 0..9 {
        program.add_at(1000 * at, &format!("1/1 user_annotation {name}{at} 0+990"));
        program.add_at(1000 * at, "1/1 cpu_op aten::mm 10+500\n1/1 user_annotation Optimizer.step#SGD.step 600+300");
        if at % 3 == 0 {
            program.add_at(1000 * at, &format!("1/2 user_annotation epoch {at} 0+2999"));
        }
    }
    read(program.json())
}

#[test]
fn numbered_spans_are_suggested_with_optimizer_steps() {
    let note = step_marks::note(&numbered_iterations("iteration ")).unwrap();
    assert!(note.starts_with("the program marks no steps, so each step ends with Optimizer.step"), "{note}");
    let offer = "9 spans are named 'iteration 0', 'iteration 1', … (median length 990.0 µs); to use them as steps, give --step-annotation '^iteration (\\d+)$'";
    assert!(note.contains(offer), "{note}");
    let note = step_marks::note(&numbered_iterations("my_step_by_name#a")).unwrap();
    assert!(note.contains("--step-annotation '^my_step_by_name#a(\\d+)$'"), "{note}");
    let note = step_marks::note(&numbered_iterations("at: it's ")).unwrap();
    assert!(!note.contains("spans are named"), "epochs are no steps: {note}");
    assert_eq!(step_marks::note(&numbered_iterations("ProfilerStep#")), None, "they are marked");
}

/// The schema of 2021 has spans of the program among the operators, whose names may end with a number, too.
#[test]
fn numbered_spans_recorded_as_operators_are_suggested() {
    let spans = |category: &str, name: &dyn Fn(i64) -> String| {
        let mut program = MiniTrace::new("");
        for at in 0..6 {
            program.add_at(1000 * at, &format!("1/1 {category} {} 0+990", name(at)));
            program.add_at(1000 * at, &format!("1/1 {category} aten::mm 10+500\n1/1 {category} MulBackward0 600+300"));
        }
        step_marks::note(&read(program.json()))
    };
    let note = spans("Operator", &|at| format!("Epoch 0 batch {at}")).unwrap();
    assert!(note.contains("--step-annotation '^Epoch 0 batch (\\d+)$'"), "{note}");
    assert_eq!(spans("Operator", &|_| "MulBackward0".to_owned()), None, "numbers that do not grow");
    assert_eq!(spans("cpu_op", &|at| format!("triton_poi_fused_{at}")), None, "operators");
}
