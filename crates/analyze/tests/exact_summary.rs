//! The summary of a path: few lines that follow one another, each with a location.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code outside test functions"
)]

use crate::support::{for_each_trace, mini, read};
use stackline_critical_path::exact::{Exact, ExactReport, SummaryLine, WindowChoice};
use stackline_model::Trace;
use stackline_testkit::mini::MiniTrace;

fn report(trace: &Trace) -> ExactReport {
    let exact = Exact::new(trace);
    exact.report(&exact.path(&WindowChoice::Whole).unwrap())
}

fn places(summary: &[SummaryLine]) -> Vec<&str> {
    summary.iter().map(|c| c.place.as_str()).collect()
}

#[test]
fn summaries_of_real_traces_are_short_and_complete() {
    for_each_trace(|name, trace| {
        let exact = Exact::new(trace);
        let Ok(path) = exact.path(&WindowChoice::Whole) else { return };
        let report = exact.report(&path);
        let mut at = 0;
        for line in &report.summary {
            assert_eq!(line.start_ns, at, "{name}");
            at += line.dur_ns;
            assert!(line.segments > 0 && line.dur_ns > 0, "{name} {line:?}");
            assert!(!line.place.is_empty() && !line.longest.is_empty() && !line.bound_by.is_empty(), "{name} {line:?}");
        }
        assert_eq!(at, report.window_ns, "{name}");
        assert!((1..=20).contains(&report.summary.len()), "{name}: {} lines", report.summary.len());
        assert_eq!(report.summary.iter().map(|l| l.segments).sum::<usize>(), report.path_nodes, "{name}");
        // Segments of one event that follow one another with one cause, rule and evidence are one.
        let segments: Vec<_> = exact.merged_segments(&path).collect();
        let twice = segments.windows(2).find(|p| {
            let of = |i: usize| (p[i].track, p[i].event, p[i].category, p[i].rule, p[i].evidence);
            p[0].rule == "innermost_span" && of(0) == of(1)
        });
        assert_eq!(twice, None, "{name}");
    });
}

/// One module in a loop, followed by work of an optimizer.
fn training() -> MiniTrace {
    mini(
        "10/10  python_function  train.py(1): main  0+1000
         10/10  python_function  nn.Module: Net_0   100+400
         10/10  python_function  optim.py(7): step  600+300",
    )
}

#[test]
fn time_outside_modules_is_named_after_a_frame() {
    let report = report(&read(training().json()));
    assert_eq!(places(&report.summary), ["train.py(1): main", "Net_0", "optim.py(7): step and others"]);
}

#[test]
fn single_module_is_summarized_by_its_contents() {
    let t = mini(
        "10/10  python_function  nn.Module: Net_0  0+1000
         10/10  cpu_op           aten::conv2d      0+500
         10/10  cpu_op           aten::linear      500+480",
    );
    let report = report(&read(t.json()));
    assert_eq!(places(&report.summary), ["aten::conv2d", "aten::linear", "Net_0"]);
}

#[test]
fn summary_has_at_most_twenty_lines() {
    let mut t = mini("");
    for i in 0..300_i64 {
        let length = 60 + i % 30;
        t.add_at(100 * i, &format!("10/10 user_annotation step {i} 0+{length}\n10/10 cpu_op aten::mm 0+60"));
    }
    let report = report(&read(t.json()));
    assert!((2..=20).contains(&report.summary.len()), "{:?}", places(&report.summary));
    assert!(report.summary.iter().any(|line| line.place.ends_with(" and others")), "{:?}", places(&report.summary));
}

#[test]
fn unexplained_time_is_not_named_after_the_next_event() {
    let t = mini(
        "gpu0/7  kernel  first   0+10     correlation=1
         gpu0/7  kernel  second  5000+10  correlation=2",
    );
    let report = report(&read(t.json()));
    let second = report.top.iter().find(|share| share.name == "second").expect("it is on the path");
    assert_eq!(second.weight_us, 10.0);
    assert_eq!(report.top[0].name, "(no event: unknown)");
    assert!(report.inferred_by_rule_ns.values().sum::<i64>() < report.inferred_ns);
}
