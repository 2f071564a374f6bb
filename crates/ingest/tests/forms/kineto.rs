//! Common forms of five years of Kineto, and a snapshot of one small trace.

use crate::forms::dump::{arrows, backward, codes, gpu, lines, read};
use stackline_model::LinkKind;

/// One training step in small, as PyTorch's profiler writes it.
const STEP: &str = include_str!("../common/step.json");

#[test]
fn chrome_trace_of_one_step() {
    let trace = read(STEP);
    let meta = &trace.meta;
    let mut picture =
        vec![format!("{} rank {:?} of {:?}, base {}", meta.format, meta.rank, meta.world_size, meta.base_ns)];
    let mut section = |title: &str, lines: Vec<String>| {
        picture.push(format!("\n{title}"));
        picture.extend(lines);
    };
    section("events", lines(&trace));
    section("gpu", gpu(&trace));
    section("forward -> backward", backward(&trace));
    section("arrows", arrows(&trace));
    section("problems", codes(&trace));
    insta::assert_snapshot!(picture.join("\n"));
}

#[test]
fn arrows_in_any_order_give_equal_links() {
    let Some(corpus) = crate::common::corpus() else { return };
    let links = |name: &str| {
        let text = std::fs::read_to_string(corpus.join("kineto").join(name)).unwrap();
        let trace = read(&text);
        let named = |op: &str| op.split_once("::").map_or(op, |(_, rest)| rest).to_owned();
        let mut pairs: Vec<(String, String)> = trace
            .links
            .of_kind(LinkKind::Flow)
            .map(|(from, to, _)| (named(trace.name(from)), named(trace.name(to))))
            .collect();
        pairs.sort();
        (pairs, backward(&trace), gpu(&trace))
    };
    let (in_order, out_of_order) = (links("flow-in-order.json"), links("flow-out-of-order.json"));
    assert_eq!(in_order, out_of_order);
    assert!(in_order.2.iter().any(|row| !row.contains("launch=-")), "{in_order:?}");
}

#[test]
fn truncation_keeps_the_rows_before_the_cut() {
    let whole = lines(&read(STEP));
    // Every prefix is a truncated file: it has the first rows of the complete one, and reports the truncation.
    let list = STEP.find("\"traceEvents\": [").unwrap() + 16;
    let list_end = STEP.find("],\n  \"traceName\"").unwrap();
    for end in (list..STEP.trim_end().len()).step_by(7) {
        let Some(prefix) = STEP.get(..end) else { continue };
        let trace = read(prefix);
        assert!(trace.report.count_of("truncated") == 1, "{end}: {:?}", codes(&trace));
        let names = |rows: &[String]| rows.iter().map(|r| r.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>();
        let rows = names(&lines(&trace));
        assert_eq!(rows, names(&whole)[..rows.len()], "cut at {end}");
        assert!(end < list_end || rows.len() == whole.len());
    }
}
