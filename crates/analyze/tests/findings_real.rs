//! What fires on the real traces: a page for people, who say beside it what is true.

use crate::corpus_support;

use stackline_analyze::findings::{self, Finding};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::PathBuf;

const BEGIN: &str = "<!-- table: begin -->\n";
const END: &str = "<!-- table: end -->\n";

/// A row of the table.
fn row(trace: &str, finding: &Finding, step_ns: i64) -> String {
    let gain =
        finding.gain.map_or_else(String::new, |gain| format!("{:.1}", 100.0 * gain.ns as f64 / step_ns.max(1) as f64));
    let title = finding.title.replace('|', "\\|").replace('<', "&lt;");
    format!("| {trace} | {} | {gain} | {title} |\n", finding.rule.code)
}

#[test]
fn what_fires_on_real_traces_is_written_down() {
    let (rows, silent, looked) = (RefCell::new(String::new()), RefCell::new(Vec::new()), RefCell::new(0));
    corpus_support::for_each_trace(|file, trace| {
        *looked.borrow_mut() += 1;
        let name = file.trim_end_matches(".gz").trim_end_matches(".json");
        let found = findings::find(trace, &Default::default()).map(|found| (found.step_ns, found.findings));
        let (step_ns, found) = found.unwrap_or_default();
        if found.is_empty() {
            silent.borrow_mut().push(name.to_owned());
        }
        found.iter().for_each(|finding| rows.borrow_mut().push_str(&row(name, finding, step_ns)));
    });
    if looked.into_inner() == 0 {
        return;
    }
    let mut table = "\n| trace | finding | gain, % of the step | what it says |\n|---|---|---|---|\n".to_owned();
    table.push_str(&rows.into_inner());
    write!(table, "\nNothing is found in {}.\n\n", silent.into_inner().join(", ")).unwrap();
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
