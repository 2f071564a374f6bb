//! Steps without a recorded end, that overlap, or whose GPU work is over before that of an earlier step.

use crate::support::read_mini;
use stackline_analyze::analyses;
use stackline_critical_path::exact::Exact;
use stackline_diff::Profile;
use stackline_findings::{Options, find};
use stackline_model::{Table, Trace, Values};
use stackline_testkit::tables::integers;
use stackline_timeline::Scope;
use stackline_timeline::steps::StepSelection;
use stackline_timeline::window_choice::WindowChoice;

fn run(trace: &Trace) -> Vec<Table> {
    (analyses::find("steps").unwrap().run)(trace, &Scope::default())
}

/// Mean length and number of the steps that count, in µs.
fn mean(spread: &Table) -> (Option<f64>, i64) {
    let Values::F64(means) = &spread.column("mean_us").unwrap().values else { panic!() };
    (means[0], integers(spread, "steps")[0])
}

/// Steps of 1000 µs with an operator each.
fn steps(numbers: std::ops::Range<i64>) -> Vec<String> {
    let one = |number: i64| {
        let at = 1000 * number;
        [format!("1/1 user_annotation ProfilerStep#{number} {at}+1000"), format!("1/1 cpu_op aten::mm {}+100", at + 10)]
    };
    numbers.flat_map(one).collect()
}

#[test]
fn last_step_without_a_recorded_end_is_left_out_everywhere() {
    let mut lines = steps(0..4);
    lines.push("1/1 user_annotation ProfilerStep#4 B@4000".to_owned());
    lines.push("1/1 cpu_op aten::mm 4010+100".to_owned());
    let trace = read_mini(&lines.join("\n"));
    assert_eq!(trace.steps.len(), 5);

    let selection = StepSelection::select(&trace, &Scope::default());
    assert_eq!((selection.steps, &selection.choice), (4, &WindowChoice::Steps(0, 3)));
    assert_eq!(selection.notes, ["step 4 has no recorded end and is excluded; use --steps to include it"]);
    let why = Some("no recorded end");
    assert_eq!(selection.exclusion_reasons(&trace), [None, None, None, None, why]);
    assert_eq!(mean(&run(&trace)[1]), (Some(1000.0), 4));
    let found = find(&trace, &Options::default()).unwrap();
    assert_eq!((found.steps, found.step_ns), (4, 1_000_000));
    let profile = Profile::from_trace(&trace, 0, &Scope::default());
    assert_eq!(profile.steps.iter().map(|step| step.left_out).collect::<Vec<_>>(), [None, None, None, None, why]);

    let paths = Exact::new(&trace).step_paths();
    assert_eq!(paths.iter().map(|path| path.number).collect::<Vec<_>>(), [0, 1, 2, 3]);

    let chosen = StepSelection::select(&trace, &Scope::from_steps(Some((4, 4))));
    assert_eq!((chosen.steps, chosen.unfinished.len()), (1, 0));
}

#[test]
fn unfinished_step_stays_if_no_other_is_complete() {
    let trace = read_mini("1/1 user_annotation ProfilerStep#0 B@0\n1/1 cpu_op aten::mm 10+100");
    let selection = StepSelection::select(&trace, &Scope::default());
    assert_eq!((selection.steps, selection.notes.len()), (1, 0), "{:?}", selection.notes);
}

#[test]
fn overlapping_steps_are_noted_with_the_meaning_of_their_mean() {
    let of = |length: i64| {
        let step = |number: i64| format!("1/1 user_annotation ProfilerStep#{number} {}+{length}", 1000 * number);
        read_mini(&(0..4).map(step).collect::<Vec<_>>().join("\n"))
    };
    let notes = |length: i64| StepSelection::select(&of(length), &Scope::default()).notes;
    let [note] = &notes(1100)[..] else { panic!() };
    assert!(note.starts_with("3 of 4 steps begin before the previous step ends, by 300.0 µs in total"), "{note}");
    assert!(note.ends_with("their mean step is shorter than the mean length"), "{note}");
    assert_eq!((notes(1000).len(), notes(1001).len()), (0, 0), "no overlap, and a rounded time");
}

/// A kernel with a wrong duration seems to run beyond the work of the next step, which has no time of its own then.
fn overlong_kernel() -> Trace {
    let mut lines = Vec::new();
    for number in 1..=10 {
        let at = 1000 * (number - 1);
        lines.push(format!("1/1 user_annotation ProfilerStep#{number} {at}+1000"));
        for part in 0..4 {
            let (call, start, id) = (at + 10 + 50 * part, at + 70 + 200 * part, 4 * number + part);
            let duration = if (number, part) == (5, 2) { 2300 } else { 190 };
            lines.push(format!("1/1 cpu_op aten::mm {call}+40"));
            lines.push(format!("1/1 cuda_runtime cudaLaunchKernel {}+10 correlation={id}", call + 5));
            lines.push(format!("gpu0/7 kernel gemm {start}+{duration} correlation={id}"));
        }
    }
    read_mini(&lines.join("\n"))
}

#[test]
fn steps_outlasted_by_work_of_an_earlier_step_are_noted() {
    let trace = overlong_kernel();
    let spread = &run(&trace)[1];
    let is_noted = |table: &Table| table.notes.iter().any(|note| note.starts_with("with_gpu is 0 in step 6, because"));
    assert!(is_noted(spread), "{:?}", spread.notes);
    assert!(!is_noted(&run(&read_mini(&steps(0..4).join("\n")))[1]));
}

/// Steps 5 to 7 take 2770, 0 and 230 µs: nothing is lost.
#[test]
fn slow_step_that_the_next_ones_make_up_for_is_no_finding() {
    let found = find(&overlong_kernel(), &Options::default()).unwrap();
    assert_eq!(found.steps, 10);
    assert!(found.findings.iter().all(|finding| finding.rule.code != "SL031"));
}
