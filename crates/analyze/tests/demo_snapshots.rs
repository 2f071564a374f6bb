//! Results of every registered analysis for the generated demo trace, as snapshots.
//!
//! The oracles in the other test files pin single numbers over the corpus; this shows a whole result, notes and units
//! included, so that a change of any of it is seen and decided upon. A new analysis is covered as soon as it is
//! registered (accept its snapshot with `cargo insta review`).

use std::fmt::Write;

use stackline_analyze::analyses;
use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{Table, Trace, Values};
use stackline_testkit::demo;
use stackline_timeline::Scope;

/// Rows shown per table: enough to see the shape, few enough to read a difference.
const ROWS: usize = 12;

fn trace() -> Trace {
    let text = demo::generate(&demo::Config { steps: 3, layers: 1, ..demo::Config::default() });
    let trace = read_bytes("demo.json", text.as_bytes(), &ReadOptions::default()).unwrap();
    assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
    trace
}

#[test]
fn steps_and_critical_path_have_the_same_origin() {
    let trace = trace();
    let exact = Exact::new(&trace);
    let whole = exact.window(&WindowChoice::Whole).unwrap().start;
    let steps = (analyses::find("steps").unwrap().run)(&trace, &Scope::default());
    let Values::F64(starts) = &steps[0].column("start_us").unwrap().values else { panic!("{steps:?}") };
    assert!(!starts.is_empty());
    for (step, start_us) in trace.steps.iter().zip(starts) {
        let window = exact.window(&WindowChoice::Steps(step.number, step.number)).unwrap();
        assert_eq!(start_us.unwrap(), (window.start - whole) as f64 / 1e3, "step {}", step.number);
    }
}

fn cell(values: &Values, row: usize) -> String {
    let text = match values {
        Values::I64(v) => v[row].map(|n| n.to_string()),
        // Twelve digits: the last ones of a mean may differ between machines' vector units.
        Values::F64(v) => v[row].map(|n| format!("{n:.6}").trim_end_matches('0').trim_end_matches('.').to_owned()),
        Values::Str(v) => v[row].as_ref().map(|s| s.chars().take(60).collect()),
        Values::Bool(v) => v[row].map(|b| b.to_string()),
    };
    text.unwrap_or_else(|| "-".to_owned())
}

fn show(table: &Table) -> String {
    let mut out = format!("{}: {} ({} rows)\n", table.name, table.title, table.rows());
    let heads = table.columns.iter().map(|c| match c.unit.suffix() {
        "" => c.name.clone(),
        unit => format!("{} [{unit}]", c.name),
    });
    let _ = writeln!(out, "{}", heads.collect::<Vec<_>>().join(" | "));
    for row in 0..table.rows().min(ROWS) {
        let cells: Vec<_> = table.columns.iter().map(|c| cell(&c.values, row)).collect();
        let _ = writeln!(out, "{}", cells.join(" | "));
    }
    for note in &table.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

#[test]
fn every_analysis_on_the_demo() {
    let trace = trace();
    for analysis in analyses::ALL {
        let tables = (analysis.run)(&trace, &Scope::default());
        assert!(!tables.is_empty(), "{} gives no table", analysis.name);
        let text: Vec<_> = tables.iter().map(show).collect();
        insta::assert_snapshot!(analysis.name, text.join("\n"));
    }
}

#[test]
fn no_analysis_fails_on_an_empty_trace() {
    for analysis in analyses::ALL {
        for table in (analysis.run)(&Trace::default(), &Scope::default()) {
            assert!(table.columns.iter().all(|c| c.values.len() == table.rows()), "{}", table.name);
        }
    }
}
