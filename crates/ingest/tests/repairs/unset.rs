//! Times that the profiler never filled in are excluded, independent of their share.

use crate::repairs::read;
use stackline_model::Trace;

/// Records in the spelling of a file, which matters for times.
fn list(records: &[String]) -> String {
    format!("[{}]", records.join(",\n"))
}

/// A hundred operators and kernels; the times of those that `is_bad` selects are replaced.
fn program(is_bad: impl Fn(usize) -> bool, time: (&str, &str)) -> Trace {
    let record = |i: usize| {
        let ts = 500_000_000 + 100 * (i / 2);
        let (ts, dur) = (format!("{ts}.125"), "30.250".to_owned());
        let (ts, dur) = match (is_bad(i), time) {
            (false, _) => (ts, dur),
            (true, ("", dur)) => (ts, dur.to_owned()),
            (true, (ts, "")) => (ts.to_owned(), dur),
            (true, (ts, dur)) => (ts.to_owned(), dur.to_owned()),
        };
        let (cat, pid) = if i.is_multiple_of(2) { ("cpu_op", 100) } else { ("kernel", 0) };
        format!(r#"{{"ph":"X","cat":"{cat}","name":"n{i}","pid":{pid},"tid":7,"ts":{ts},"dur":{dur},"args":{{}}}}"#)
    };
    read(&list(&(0..200).map(record).collect::<Vec<_>>()))
}

fn left_out(trace: &Trace) -> usize {
    trace.events.ids().filter(|e| !trace.events.is_plausible(*e)).count()
}

#[test]
fn zeros_are_not_times() {
    for (share, bad) in [(2, 100), (3, 67), (50, 4)] {
        for time in [("0.000", "0.000"), ("0", ""), ("2147483.648", ""), ("-3600000000", "0")] {
            if share == 50 && !time.0.starts_with('0') {
                continue;
            }
            let trace = program(|i| i >= 2 && i.is_multiple_of(share), time);
            let count = trace.report.count_of("zero_time") as usize;
            assert!(count.abs_diff(bad) <= 2, "{share} {time:?}: {:?}", trace.report.problems);
            assert_eq!(left_out(&trace), count, "{share} {time:?}");
            assert_eq!(trace.span().unwrap().0, 500_000_000_125);
        }
    }
    let all = program(|_| true, ("0", "0"));
    assert_eq!((all.report.count_of("zero_time"), all.span()), (200, None));
}

#[test]
fn missing_durations_are_reported() {
    for time in [("", "0"), ("", "4294967.296"), ("", "0.0")] {
        let trace = program(|i| i % 4 < 2, time);
        let others = trace.report.count_of("implausible_time") + trace.report.count_of("implausible_host_time");
        assert_eq!(trace.report.count_of("zero_duration") + others, 100, "{time:?}: {:?}", trace.report.problems);
        let (first, last) = trace.span().unwrap();
        assert!(last - first < 10_000_000, "{time:?}");
    }
    // The largest numbers are not valid durations.
    let trace = program(|i| i % 4 < 2, ("", "9223372036854775.808"));
    let counts = |trace: &Trace| ["bad_time", "zero_time"].map(|code| trace.report.count_of(code));
    assert_eq!((counts(&trace), left_out(&trace)), ([100, 0], 100), "each once, and their starts are fine");
    let trace = program(|i| i % 4 < 2, ("9223372036854775.808", ""));
    assert_eq!((counts(&trace), left_out(&trace)), ([100, 0], 100));
}

#[test]
fn a_trace_that_begins_at_zero_is_right() {
    let op = |ts: i64, dur: i64| {
        format!(r#"{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{}}}}"#)
    };
    for events in [vec![op(0, 10), op(5, 1), op(20, 7)], vec![op(0, 0), op(5, 1)], vec![op(0, 0)]] {
        assert_eq!(read(&list(&events)).report.count_of("zero_time"), 0, "{events:?}");
    }
    // Whole microseconds: short operations have duration 0.
    let short: Vec<String> = (0..50).map(|i| op(10 * i, i % 2)).collect();
    assert_eq!(read(&list(&short)).report.count_of("zero_duration"), 0);
}

/// Launch calls every 100 µs from a time on (in most cases 1 ms), and the start times of their kernels.
#[test]
fn kernels_at_zero_before_their_launches_are_excluded() {
    let read_from = |first: u32, starts: &[u32]| {
        let record = |cat: &str, pid: u32, ts: u32, id: u32| {
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"a","pid":{pid},"tid":7,"ts":{ts},"dur":30,"args":{{"correlation":{id}}}}}"#
            )
        };
        let events = (1..).zip(starts).flat_map(|(id, kernel)| {
            [record("cuda_runtime", 1, first - 100 + 100 * id, id), record("kernel", 0, *kernel, id)]
        });
        let trace = read(&list(&events.collect::<Vec<_>>()));
        (trace.report.count_of("zero_time"), trace.span().unwrap().0)
    };
    let read_kernels = |starts: &[u32]| read_from(1_000, starts);
    assert_eq!(read_kernels(&[1010, 0, 1210, 0, 1410]), (2, 1_000_000));
    assert_eq!(read_kernels(&[1010, 1110, 0, 1310]), (1, 1_000_000), "a single one, too");
    assert_eq!(read_kernels(&[0, 0, 0, 0]), (4, 1_000_000), "all");
    // The clock of the device is 1 ms behind, and the trace begins with its first kernel.
    assert_eq!(read_kernels(&[0, 110, 210, 310]).0, 0);
    assert_eq!(read_kernels(&[1010, 1110, 1210]).0, 0);
    // The clock is 0.3 ms behind: the first kernel starts 0.3 ms before its launch, and the others wait in the queue.
    assert_eq!(read_from(300, &[0, 500, 600, 700]), (0, 0));
    assert_eq!(read_from(300, &[0, 0, 0, 0, 710, 810]), (4, 300_000), "only one can be the first");
}

#[test]
fn half_of_the_records_may_be_outliers() {
    let record = |i: i64| {
        let ts = if i % 2 == 0 { 500_000_000 + 100 * i } else { i * 7_919_000_000_000 };
        format!(r#"{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{ts},"dur":9,"args":{{}}}}"#)
    };
    let trace = read(&list(&(0..100).map(record).collect::<Vec<_>>()));
    assert_eq!(trace.report.count_of("implausible_host_time"), 50);
    assert_eq!(trace.span(), Some((500_000_000_000, 500_009_809_000)));
}

/// In whole microseconds a duration of 0 is short, but impossible if all others of the name are long. A kernel without
/// a duration, or with a negative one, has none.
#[test]
fn impossible_kernel_durations_are_excluded() {
    let kernel = |at: i64, name: &str, dur: &str| {
        let (ts, category) = (100 * at, if name == "fill" { "gpu_memset" } else { "kernel" });
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":7,"ts":{ts}{dur},"args":{{"device":0,"stream":7}}}}"#
        )
    };
    let left = |durations: &[(&str, &str)]| {
        let events = (0..).zip(durations).map(|(at, (name, dur))| kernel(at, name, dur));
        let trace = read(&list(&events.collect::<Vec<_>>()));
        (left_out(&trace), trace.report.count_of("zero_duration"))
    };
    let (none, long, short) = (r#","dur":0"#, r#","dur":40"#, r#","dur":1"#);
    assert_eq!(left(&[("gemm", long), ("gemm", none), ("gemm", none), ("add", short)]), (2, 2));
    assert_eq!(left(&[("add", short), ("add", none), ("add", short), ("add", none)]), (0, 0), "rounded");
    assert_eq!(left(&[("gemm", none), ("add", none), ("gemm", none), ("add", none)]), (4, 4), "none was written");
    assert_eq!(
        left(&[("fill", none), ("fill", none), ("fill", none), ("fill", none)]),
        (0, 0),
        "shorter than a microsecond"
    );
    let lost = ("gemm", none);
    assert_eq!(left(&[lost, lost, lost, lost, ("fill", none)]), (5, 5), "fills of a file without durations");
    assert_eq!(left(&[lost, lost, lost, lost, ("fill", none), ("fill", short)]), (4, 4), "fills have durations");
    assert_eq!(left(&[("gemm", long), ("gemm", long), ("fill", none)]), (0, 0), "a single short fill");
    assert_eq!(left(&[("gemm", long), ("gemm", ""), ("gemm", r#","dur":-5"#)]), (2, 2));
}
