//! The story of a path: few lines that follow one another, each with a place.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code outside test functions"
)]

use crate::corpus_support;
use crate::critical_path_support;

use corpus_support::for_each_trace;
use critical_path_support::Mini;
use serde_json::json;
use stackline_analyze::critical_path::exact::{Chapter, Exact, ExactReport, WindowChoice};
use stackline_model::Trace;

fn report(trace: &Trace) -> ExactReport {
    let exact = Exact::new(trace);
    exact.report(&exact.path(&WindowChoice::Whole).unwrap())
}

fn places(story: &[Chapter]) -> Vec<&str> {
    story.iter().map(|c| c.place.as_str()).collect()
}

#[test]
fn stories_of_real_traces_are_short_and_whole() {
    for_each_trace(|name, trace| {
        let exact = Exact::new(trace);
        let Ok(path) = exact.path(&WindowChoice::Whole) else { return };
        let report = exact.report(&path);
        let mut at = 0;
        for line in &report.story {
            assert_eq!(line.start_ns, at, "{name}");
            at += line.dur_ns;
            assert!(line.hops > 0 && line.dur_ns > 0, "{name} {line:?}");
            assert!(!line.place.is_empty() && !line.longest.is_empty() && !line.bound_by.is_empty(), "{name} {line:?}");
        }
        assert_eq!(at, report.window_ns, "{name}");
        assert!((1..=20).contains(&report.story.len()), "{name}: {} lines", report.story.len());
        assert_eq!(report.story.iter().map(|l| l.hops).sum::<usize>(), report.path_nodes, "{name}");
        // Hops of one event that follow one another with one cause, rule and evidence are one.
        let hops: Vec<_> = exact.stretches(&path).collect();
        let twice = hops.windows(2).find(|p| {
            let of = |i: usize| (p[i].track, p[i].event, p[i].category, p[i].rule, p[i].evidence);
            p[0].rule == "innermost_span" && of(0) == of(1)
        });
        assert_eq!(twice, None, "{name}");
    });
}

/// One module in a loop, work of an optimizer behind it.
fn training() -> Mini {
    let mut t = Mini::default();
    let mut frame =
        |name: &str, start: i64, dur: i64| t.push("python_function", name, (10, 10), (start, dur), json!({}));
    frame("train.py(1): main", 0, 1_000);
    frame("nn.Module: Net_0", 100, 400);
    frame("optim.py(7): step", 600, 300);
    t
}

#[test]
fn time_outside_of_modules_has_the_name_of_a_frame() {
    let report = report(&training().trace());
    assert_eq!(places(&report.story), ["train.py(1): main", "Net_0", "optim.py(7): step and others"]);
}

#[test]
fn one_module_is_told_by_what_is_in_it() {
    let mut t = Mini::default();
    t.push("python_function", "nn.Module: Net_0", (10, 10), (0, 1_000), json!({}));
    t.op("aten::conv2d", 10, 0, 500);
    t.op("aten::linear", 10, 500, 480);
    let report = report(&t.trace());
    assert_eq!(places(&report.story), ["aten::conv2d", "aten::linear", "Net_0"]);
}

#[test]
fn hundreds_of_places_become_twenty_lines() {
    let mut t = Mini::default();
    for i in 0..300_i64 {
        let name = format!("step {i}");
        t.push("user_annotation", &name, (10, 10), (100 * i, 60 + i % 30), json!({}));
        t.op("aten::mm", 10, 100 * i, 60);
    }
    let report = report(&t.trace());
    assert!((2..=20).contains(&report.story.len()), "{:?}", places(&report.story));
    assert!(report.story.iter().any(|line| line.place.ends_with(" and others")), "{:?}", places(&report.story));
}

#[test]
fn what_nothing_explains_is_not_named_after_what_came_next() {
    let mut t = Mini::default();
    t.kernel("first", 7, 0, 10, 1);
    t.kernel("second", 7, 5_000, 10, 2);
    let report = report(&t.trace());
    let second = report.top.iter().find(|share| share.name == "second").expect("it is on the path");
    assert_eq!(second.weight_us, 10.0);
    assert_eq!(report.top[0].name, "(no event: unknown)");
    assert!(report.inferred_by_rule_ns.values().sum::<i64>() < report.inferred_ns);
}
