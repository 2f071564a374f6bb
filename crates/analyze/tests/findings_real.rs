//! Findings of the real traces: a page on which people mark the true ones.

use crate::support;

use stackline_findings as findings;
use stackline_findings::{Finding, LargeGroup};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::PathBuf;

const BEGIN: &str = "<!-- table: begin -->\n";
const END: &str = "<!-- table: end -->\n";

/// A row of the table.
fn row(trace: &str, finding: &Finding, step_ns: i64) -> String {
    let gain = finding
        .gain
        .map_or_else(String::new, |gain| format!("{:.1}", 100.0 * gain.likely_ns as f64 / step_ns.max(1) as f64));
    let title = finding.title.replace('|', "\\|").replace('<', "&lt;");
    format!("| {trace} | {} | {gain} | {title} |\n", finding.rule.code)
}

/// A row of the table of time without findings.
fn uncovered_row(trace: &str, group: &LargeGroup, step_ns: i64) -> String {
    let gain = group
        .gain
        .map_or_else(String::new, |gain| format!("{:.1}", 100.0 * gain.likely_ns as f64 / step_ns.max(1) as f64));
    let name: String = group.name.replace('|', "\\|").replace('<', "&lt;").chars().take(60).collect();
    let (kind, calls) = (group.kind.name().replace('_', " "), group.count);
    let (window, path, waits) = (group.percent, group.path_percent, group.wait_percent);
    format!("| {trace} | {kind} | {name} | {calls} | {window:.1} | {path:.1} | {waits:.1} | {gain} |\n")
}

#[test]
fn findings_on_real_traces_are_documented() {
    let (rows, silent, examined) = (RefCell::new(String::new()), RefCell::new(Vec::new()), RefCell::new(0));
    let uncovered = RefCell::new(String::new());
    support::for_each_trace(|file, trace| {
        *examined.borrow_mut() += 1;
        let name = file.trim_end_matches(".gz").trim_end_matches(".json");
        let found = findings::find(trace, &Default::default());
        let found = found.map(|found| (found.step_ns, found.findings, found.uncovered.groups));
        let (step_ns, found, groups) = found.unwrap_or_default();
        groups.iter().for_each(|group| uncovered.borrow_mut().push_str(&uncovered_row(name, group, step_ns)));
        if found.is_empty() {
            silent.borrow_mut().push(name.to_owned());
        }
        found.iter().for_each(|finding| rows.borrow_mut().push_str(&row(name, finding, step_ns)));
    });
    if examined.into_inner() == 0 {
        return;
    }
    let mut table = "\n| trace | finding | gain, % of the step | what it says |\n|---|---|---|---|\n".to_owned();
    table.push_str(&rows.into_inner());
    write!(table, "\nNothing is found in {}.\n\n", silent.into_inner().join(", ")).unwrap();
    table.push_str(
        "What no finding is about, where it takes 20 % of the window or findings cover less than half of the critical path:\n\n\
         | trace | kind | name | calls | time, % of the window | % of the critical path | waits of unknown cause meanwhile, % of it | removal gains, % of the step |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    table.push_str(&uncovered.into_inner());
    table.push('\n');
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings-real-traces.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("STACKLINE_UPDATE_DOCS").is_some() {
        std::fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert!(found == table, "docs/findings-real-traces.md is stale (STACKLINE_UPDATE_DOCS=1 writes it): {table}");
    }
}
