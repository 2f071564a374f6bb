//! Comparisons of runs without steps: as wholes, or per call where both hold other numbers of calls.

use crate::support::read;

use stackline_diff::{
    Change, ChangeTable, Diff, Measure, Options, Per, Profile, Side, Verdict, compare, tables, trim_warmup,
};
use stackline_model::{Table, Values};
use stackline_testkit::mini::MiniTrace;
use stackline_timeline::Scope;

/// Calls of `attend` with a kernel of so many µs, each followed by an `aten::mm` with one of 560 µs.
fn run(calls: i64, us: i64) -> Profile {
    let mut trace = MiniTrace::new("");
    for call in 0..calls {
        let (a, b) = (2 * call + 1, 2 * call + 2);
        let lines = format!(
            "1/1     cpu_op        attend            0+40
             1/1     cuda_runtime  cudaLaunchKernel  5+10      correlation={a}
             gpu0/7  kernel        attend_kernel     30+{us}   correlation={a}
             1/1     cpu_op        aten::mm          50+40
             1/1     cuda_runtime  cudaLaunchKernel  55+10     correlation={b}
             gpu0/7  kernel        gemm              {}+560    correlation={b}",
            us + 35
        );
        trace.add_at(1000 + call * (us + 640), &lines);
    }
    Profile::from_trace(&read(trace.json()), 0, &Scope::default())
}

fn between(before: Profile, after: Profile) -> Diff {
    compare(&vec![vec![before]], &vec![vec![after]], Options::default())
}

fn kernel<'d>(diff: &'d Diff, name: &str) -> &'d Change {
    diff.changes[&ChangeTable::Kernels].iter().find(|change| &*change.name == name).unwrap()
}

#[test]
fn windows_of_different_lengths_are_compared_per_call() {
    let diff = between(run(68, 4005), run(60, 4013));
    assert_eq!(diff.per, Per::Call);
    let expected = "A has 136 GPU operations, B has 120, and neither has steps. Therefore, times per call are compared \
                    instead of totals.";
    assert_eq!(diff.warnings, [expected]);
    let attend = kernel(&diff, "attend_kernel");
    assert_eq!(diff.call_ns(ChangeTable::Kernels, attend), Some((4_005e3, 4_013e3)));
    // As a whole it takes less: there are fewer of them.
    assert!(attend.change_ns() < 0.0);
    assert!((diff.change_ns(ChangeTable::Kernels, attend) - 68.0 * 8e3).abs() < 1.0);
    assert_eq!(
        &*diff.changes[&ChangeTable::Kernels][0].name,
        "attend_kernel",
        "what changed most per call comes first"
    );
    assert_eq!(diff.change_ns(ChangeTable::Kernels, kernel(&diff, "gemm")), 0.0);
    let (table, share) = diff.percent_of_calls().unwrap();
    assert_eq!(table, ChangeTable::Kernels);
    assert!((share - 100.0 * 8.0 / (4005.0 + 560.0)).abs() < 1e-9, "{share}");
}

#[test]
fn calls_of_several_runs_are_tested_by_their_own_times() {
    let side = |calls: i64, us: [i64; 3]| us.map(|us| vec![run(calls, us)]).to_vec();
    let (before, after) = (side(20, [999, 1000, 1001]), side(40, [949, 950, 951]));
    let diff = compare(&before, &after, Options::default());
    assert_eq!(diff.per, Per::Call);
    let attend = kernel(&diff, "attend_kernel");
    assert_eq!(attend.verdict, Verdict::Faster, "its calls take 5 % less, if all of them together take more");
    let of = |ns: f64| attend.percent_of(ns).unwrap();
    assert!((diff.percent(ChangeTable::Kernels, attend).unwrap() + 5.0).abs() < 1e-9);
    let (low, high) = attend.interval_ns.unwrap();
    // Welch's test of {999, 1000, 1001} and {949, 950, 951}: -50 within 2.776 standard errors of 0.816.
    assert!((of(low) + 5.2267).abs() < 1e-3 && (of(high) + 4.7733).abs() < 1e-3, "{attend:?}");
    assert_eq!(kernel(&diff, "gemm").verdict, Verdict::Noise, "as long as before");
    let wholes = &diff.changes[&ChangeTable::Steps];
    let is_untested = |change: &Change| change.verdict == Verdict::Untested && change.interval_ns.is_none();
    assert!(wholes.iter().all(is_untested), "wholes hold other numbers of calls: {wholes:?}");
}

#[test]
fn calls_that_one_of_several_runs_does_not_count_are_not_tested() {
    let side = |calls: i64, us: [i64; 3]| us.map(|us| vec![run(calls, us)]).to_vec();
    let (before, mut after) = (side(20, [999, 1000, 1001]), side(40, [949, 950, 951]));
    after[1][0].kernels.remove("attend_kernel");
    let diff = compare(&before, &after, Options::default());
    assert_eq!((diff.per, kernel(&diff, "attend_kernel").verdict), (Per::Call, Verdict::Untested));
}

#[test]
fn calls_that_one_side_lacks_have_no_time_of_a_call() {
    let (mut before, after) = (run(40, 300), run(20, 300));
    before.kernels.remove("gemm");
    let diff = between(before, after);
    assert_eq!(diff.per, Per::Run, "40 GPU operations on each side");
    assert_eq!(diff.call_ns(ChangeTable::Kernels, kernel(&diff, "gemm")), None);
    let whole = &diff.changes[&ChangeTable::Steps][0];
    assert_eq!((whole.measure, diff.call_ns(ChangeTable::Steps, whole)), (Measure::Step, None));
}

#[test]
fn equal_call_counts_are_compared_as_wholes() {
    let diff = between(run(60, 4005), run(60, 4013));
    assert_eq!((diff.per, diff.warnings.len()), (Per::Run, 0));
    let attend = kernel(&diff, "attend_kernel");
    assert_eq!(diff.change_ns(ChangeTable::Kernels, attend), attend.change_ns());
    assert_eq!(diff.call_ns(ChangeTable::Kernels, attend), Some((4_005e3, 4_013e3)));
}

#[test]
fn tables_without_steps_have_times_per_call() {
    let sides = [68, 60].map(|calls| vec![vec![run(calls, 4005)]]);
    let diff = compare(&sides[0], &sides[1], Options::default());
    let tables = tables(&diff, &sides[0], &sides[1]);
    let titles: Vec<&str> = tables.iter().take(4).map(|table| table.title.as_str()).collect();
    assert!(titles.iter().all(|title| !title.contains("step")), "{titles:?}");
    let column = |table: &Table, name: &str| match table.column(name).map(|column| &column.values) {
        Some(Values::F64(values)) => values.clone(),
        _ => Vec::new(),
    };
    let kernels = tables.iter().find(|table| table.name == "kernels").unwrap();
    let times =
        ["before_ns_per_call", "after_ns_per_call", "change_percent_per_call"].map(|name| column(kernels, name));
    assert_eq!(times[0], times[1], "each call takes as long as before");
    assert_eq!(times[2], [Some(0.0), Some(0.0)]);
    assert!(tables[0].column("before_ns_per_call").is_none(), "of the whole the runs are counted");
}

/// Eight iterations of a copy and nine kernels; every so many of them are a step, 0 for none.
fn iterations(in_step: i64) -> Profile {
    let mut trace = MiniTrace::new("");
    for at in 0..8 {
        if in_step > 0 && at % in_step == 0 {
            let line = format!("1/1 user_annotation ProfilerStep#{} 0+{}", at / in_step, 1000 * in_step);
            trace.add_at(1000 * at, &line);
        }
        for operation in 0..10 {
            let id = 100 * at + operation + 1;
            let work = if operation == 0 { "gpu_memcpy Memcpy HtoD (Pageable -> Device)" } else { "kernel gemm" };
            let lines = format!(
                "1/1     cuda_runtime  cudaLaunchKernel  5+10   correlation={id}
                 gpu0/7  {work}                          20+40  correlation={id}"
            );
            trace.add_at(1000 * at + 50 * operation, &lines);
        }
    }
    Profile::from_trace(&read(trace.json()), 0, &Scope::default())
}

#[test]
fn inferred_steps_are_used_if_they_match_marked_steps() {
    let diff = |in_step: i64| {
        let [mut before, mut after]: [Side; 2] = [in_step, 0].map(|in_step| vec![vec![iterations(in_step)]]);
        trim_warmup(&mut before, &mut after);
        compare(&before, &after, Options::default())
    };
    let same = diff(1);
    assert_eq!((same.per, same.has_different_bases), (Per::Step, false));
    let step = &same.changes[&ChangeTable::Steps][0];
    assert_eq!((step.measure, step.before_ns, step.after_ns), (Measure::Step, 1e6, 1e6));
    let gemm = kernel(&same, "gemm");
    assert_eq!((gemm.count_before, gemm.count_after), (9.0, 9.0));
    // A repeat is a micro-batch: four of them are a step.
    let other = diff(4);
    assert_eq!((other.per, other.has_different_bases), (Per::Call, true));
    assert!(other.changes[&ChangeTable::Steps].is_empty());
    let why = "One repetition has 10 GPU operations, but a step of the other runs has 40, so repetitions do not count \
               as steps.";
    assert!(
        other.warnings[0].starts_with("A has steps and B has none") && other.warnings[0].contains(why),
        "{other:?}"
    );
    let gemm = kernel(&other, "gemm");
    assert_eq!(other.call_ns(ChangeTable::Kernels, gemm), Some((40e3, 40e3)));
}
