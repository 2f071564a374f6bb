//! Selection of steps in a comparison: those of other commands, the same on both sides.

use crate::support::read_mini;
use stackline_diff::{Change, ChangeTable, Measure, Options, Profile, Side, Verdict, compare, tables, trim_warmup};
use stackline_model::{EventId, EventKind, Severity, Trace, Values, flags};
use stackline_testkit::tables::texts;
use stackline_timeline::Scope;
use stackline_timeline::steps::StepSelection;

/// Steps of a process from a time on, of these lengths and with so much between two, all in µs, each half an operator.
fn steps(pid: i64, (from, first): (i64, i64), lengths: &[i64], between: i64) -> String {
    let mut at = from;
    let mut lines = String::new();
    for (number, &length) in (first..).zip(lengths) {
        let half = length / 2;
        lines += &format!(
            "{pid}/{pid} user_annotation ProfilerStep#{number} {at}+{length}\n{pid}/{pid} cpu_op aten::mm {at}+{half}\n"
        );
        at += length + between;
    }
    lines
}

fn trace_with_step_lengths(lengths: &[i64]) -> Trace {
    read_mini(&steps(1, (0, 0), lengths, 0))
}

fn profile(trace: &Trace) -> Profile {
    Profile::from_trace(trace, 0, &Scope::default())
}

fn compared(profile: &Profile) -> Vec<i64> {
    profile.steps.iter().filter(|step| step.left_out.is_none()).map(|step| step.number).collect()
}

fn selected_steps(trace: &Trace) -> Vec<i64> {
    let Some((from, to)) = Scope::default().resolved(trace).steps else { panic!() };
    trace.steps.iter().map(|step| step.number).filter(|number| (from..=to).contains(number)).collect()
}

fn notes(before: &Profile, after: &Profile) -> Vec<String> {
    compare(&vec![vec![before.clone()]], &vec![vec![after.clone()]], Options::default()).notes
}

/// Steps of one operator that launches a kernel of half its length.
fn with_kernels(lengths: &[i64]) -> Trace {
    read_mini(&text_with_kernels(lengths))
}

fn text_with_kernels(lengths: &[i64]) -> String {
    let (mut at, mut text) = (0, String::new());
    for (number, &length) in (0..).zip(lengths) {
        let (from, busy, id) = (at + 5, length / 2, number + 1);
        text += &format!(
            "1/1 user_annotation ProfilerStep#{number} {at}+{length}\n1/1 cpu_op aten::mm {at}+{busy}\n\
             1/1 cuda_runtime cudaLaunchKernel {from}+2 correlation={id}\ngpu0/7 kernel k {from}+{busy} correlation={id}\n"
        );
        at += length;
    }
    text
}

fn lose(trace: &mut Trace, is_lost: impl Fn(&Trace, EventId) -> bool) {
    let lost: Vec<EventId> = trace.events.ids().filter(|event| is_lost(trace, *event)).collect();
    lost.into_iter().step_by(2).for_each(|event| trace.events.flags[event.index()] |= flags::IMPLAUSIBLE);
}

#[test]
fn missing_times_are_no_speedup() {
    let before = profile(&with_kernels(&[100, 102, 98, 100, 101, 99]));
    let tested = |after: &Trace| {
        let diff = compare(&vec![vec![before.clone()]], &vec![vec![profile(after)]], Options::default());
        let of = |table| diff.changes[&table].iter().filter(|change: &&Change| change.verdict != Verdict::Untested);
        let measures = |table| of(table).map(|change| change.measure).collect::<Vec<_>>();
        (
            diff.missing_records.clone(),
            measures(ChangeTable::Steps),
            measures(ChangeTable::Operators),
            measures(ChangeTable::Kernels),
        )
    };
    // Made anew each time: a trace keeps what it counted of its GPU records.
    let faster = || with_kernels(&[50, 52, 48, 50, 51, 49]);
    let all = [Measure::Step, Measure::Gpu, Measure::Cpu];
    let of_operators = vec![Measure::Gpu, Measure::Cpu, Measure::CpuTotal];
    assert_eq!(tested(&faster()), (Vec::new(), all.to_vec(), of_operators.clone(), vec![Measure::Gpu]));

    let mut without_gpu = faster();
    lose(&mut without_gpu, |trace, event| trace.kind(event).is_gpu_work());
    let (lost, steps, operators, kernels) = tested(&without_gpu);
    assert!(lost.len() == 1 && lost[0].starts_with("B: in test.json, 3 of 6 GPU operations have "), "{lost:?}");
    assert_eq!((steps, operators, kernels), (vec![Measure::Cpu], of_operators[1..].to_vec(), Vec::new()));

    let mut without_host = faster();
    lose(&mut without_host, |trace, event| trace.kind(event) == EventKind::Operator);
    let (lost, steps, operators, kernels) = tested(&without_host);
    assert!(
        lost.len() == 1 && lost[0].starts_with("B: in test.json, 3 of 12 host calls have no plausible time"),
        "{lost:?}"
    );
    assert_eq!((steps, operators, kernels), (vec![Measure::Gpu], Vec::new(), vec![Measure::Gpu]));
}

/// Of a comparison: missing parts, and the measures with any verdict.
fn tested(before: &Trace, after: &Trace) -> (Vec<String>, Vec<Measure>) {
    let diff = compare(&vec![vec![profile(before)]], &vec![vec![profile(after)]], Options::default());
    let all = diff.changes.values().flatten().filter(|change| change.verdict != Verdict::Untested);
    let mut measures: Vec<Measure> = all.map(|change| change.measure).collect();
    measures.sort_unstable();
    measures.dedup();
    (diff.missing_records, measures)
}

#[test]
fn missing_records_are_no_speedup() {
    let (before, text) = (with_kernels(&[100, 102, 98, 100, 101, 99]), text_with_kernels(&[50, 52, 48, 50, 51, 49]));
    let without = |ids: &[&str]| {
        let is_kept = |line: &&str| !line.contains(" kernel ") || !ids.iter().any(|id| line.ends_with(id));
        read_mini(&text.lines().filter(is_kept).collect::<Vec<_>>().join("\n"))
    };
    let of_host = vec![Measure::Cpu, Measure::CpuTotal];
    let some = without(&["=2", "=4"]);
    let end = "Changes of GPU work and steps are therefore not tested for significance, because missing records also \
               reduce times.";
    let expected = format!("in test.json, 2 of 6 launches have no device record. {end}");
    assert_eq!(tested(&before, &some), (vec![format!("B: {expected}")], of_host.clone()));
    assert_eq!(tested(&some, &before), (vec![format!("A: {expected}")], of_host.clone()));

    // Kernels of a side without any are not "only in A".
    let none = without(&["=1", "=2", "=3", "=4", "=5", "=6"]);
    let expected = format!("B: in test.json, 6 of 6 launches have no device record. {end}");
    assert_eq!(tested(&before, &none), (vec![expected], of_host.clone()));
    // Nor do their operators take 0 ns on the GPU, in tables and in what is made of them.
    let (a, b) = (vec![vec![profile(&before)]], vec![vec![profile(&none)]]);
    let diff = compare(&a, &b, Options::default());
    let gpu = |table: ChangeTable| diff.changes[&table].iter().find(|change| change.measure == Measure::Gpu).unwrap();
    for table in [ChangeTable::Steps, ChangeTable::Operators, ChangeTable::Kernels] {
        let [before, after] = gpu(table).known_ns();
        assert!(before.is_some_and(|ns| ns > 0.0) && after.is_none(), "{:?}", gpu(table));
        assert_eq!((gpu(table).known_change_ns(), gpu(table).is_incomplete), (None, [false, true]));
    }
    let tables = tables(&diff, &a, &b);
    let column = |name: &str| tables[0].column(name).map(|column| column.values.clone());
    let Some(Values::F64(after)) = column("after_ns") else { panic!("{:?}", tables[0]) };
    let at = texts(&tables[0], "measure").iter().position(|measure| measure == Measure::Gpu.name()).unwrap();
    assert_eq!(after[at], None);
    assert_eq!(tested(&none, &none), (Vec::new(), vec![Measure::Step, Measure::Cpu, Measure::CpuTotal]));

    // What the last launch runs may come after the end.
    assert_eq!(tested(&before, &without(&["=6"])).0, [""; 0]);

    let mut cut = without(&[]);
    cut.report.count("truncated", Severity::Lost, "", None, "");
    let (lost, measures) = tested(&before, &cut);
    assert!(lost.len() == 1 && lost[0].starts_with("B: in test.json, the file is truncated, "), "{lost:?}");
    assert_eq!(measures, of_host);
}

#[test]
fn time_between_steps_is_compared_despite_warm_up() {
    let changes = |first: i64| {
        let before = profile(&read_mini(&steps(1, (0, 0), &[first, 100, 100, 100, 100, 100], 0)));
        let after = profile(&read_mini(&steps(1, (0, 0), &[100; 6], 90)));
        let [mut before, mut after]: [Side; 2] = [vec![vec![before]], vec![vec![after]]];
        trim_warmup(&mut before, &mut after);
        let diff = compare(&before, &after, Options::default());
        let of =
            |change: &Change| (change.measure, [change.before_ns, change.after_ns].map(|ns| ns.round() as i64 / 1000));
        let changes = diff.changes[&ChangeTable::Steps].iter().map(of);
        changes.filter(|(measure, _)| *measure != Measure::Cpu).collect::<Vec<_>>()
    };
    let expected = [(Measure::Step, [100, 100]), (Measure::StepAndBetween, [100, 190])];
    assert_eq!(changes(100), expected, "none warms up");
    assert_eq!(changes(900), expected);
}

/// Each comparison leaves out the warm-ups that `report` does, of the other side as many.
#[test]
fn warm_ups_are_excluded_on_both_sides() {
    let [slow, even] = [&[1000, 600, 400, 100, 102, 98, 100, 101][..], &[100; 8]].map(trace_with_step_lengths);
    let [mut before, mut after]: [Side; 2] = [&slow, &even].map(|trace| vec![vec![profile(trace)]]);
    assert_eq!((compared(&before[0][0]), selected_steps(&slow)), ((3..8).collect(), (3..8).collect()));
    trim_warmup(&mut before, &mut after);
    assert_eq!(compared(&after[0][0]), [3, 4, 5, 6, 7]);
    for profile in [&before[0][0], &after[0][0]] {
        let units = [profile.totals.len(), profile.totals_with_between.len()];
        assert_eq!((units, profile.operators["aten::mm"].iter().count()), ([5, 5], 5));
    }
    let notes = notes(&before[0][0], &after[0][0]);
    let is_noted = |start: &str| notes.iter().any(|note| note.starts_with(start));
    assert!(is_noted("A: steps 0 to 2 of ") && is_noted("B: steps 0 to 2 of "), "{notes:?}");
    // Two stay.
    let [mut few, mut after]: [Side; 2] =
        [&trace_with_step_lengths(&[100; 3]), &slow].map(|trace| vec![vec![profile(trace)]]);
    trim_warmup(&mut few, &mut after);
    assert_eq!(compared(&few[0][0]), [1, 2]);
}

#[test]
fn first_steps_are_excluded_equally_in_all_processes() {
    let of = |first: i64| {
        let of = |pid: i64, lengths: &[i64]| steps(pid, (pid, 10 * pid), lengths, 0);
        let lengths = [first, 100, 101, 99, 100];
        profile(&read_mini(&(of(1, &[100; 5]) + &of(2, &lengths))))
    };
    let [mut before, mut after]: [Side; 2] = [100, 900].map(|first| vec![vec![of(first)]]);
    trim_warmup(&mut before, &mut after);
    for side in [&before, &after] {
        let mut numbers = compared(&side[0][0]);
        numbers.sort_unstable();
        assert_eq!(numbers, [11, 12, 13, 14, 21, 22, 23, 24]);
    }
    let operator = |side: &Side| side[0][0].operators["aten::mm"].iter().map(|(_, cell)| cell.count).sum::<i64>();
    assert_eq!((operator(&before), operator(&after)), (8, 8));
}

#[test]
fn steps_of_one_recorded_cycle_are_compared() {
    let trace = read_mini(&(steps(1, (0, 3), &[100; 4], 0) + &steps(1, (9000, 9), &[104, 100, 102, 98, 100], 0)));
    let alone = profile(&trace);
    assert_eq!((compared(&alone), selected_steps(&trace)), ((9..14).collect(), (9..14).collect()));
    let is_noted = "A: steps 3 to 6 of ";
    let notes = notes(&alone, &alone);
    let note = notes.iter().find(|note| note.starts_with(is_noted)).unwrap();
    assert!(note.ends_with("are left out of the comparison (another cycle of the recording)."), "{note}");
    let all = Profile::from_trace(&trace, 0, &Scope { whole: true, ..Scope::default() });
    assert_eq!(compared(&all).len(), 9);
    let warm_ups = StepSelection::select(&trace, &Scope::default()).warm_ups;
    assert!(warm_ups.is_empty(), "{warm_ups:?}");
}
