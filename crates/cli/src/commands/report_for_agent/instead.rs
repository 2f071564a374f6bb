//! `report --for-agent` of inputs that hold no trace: recordings of sums of calls, and files of memory.

use super::{FINDINGS, KERNELS, LENGTHS, NAME, TITLE, cut, findings_of, short};
use crate::args::{Cli, Command};
use crate::commands::how_it_ended::how_it_ended;
use crate::commands::memory;
use anyhow::Result;
use clap::Parser;
use stackline_analyze::calls::{fold_imports, source_lines};
use stackline_analyze::findings::{Options, Others, find_in_calls, step_time};
use stackline_engine::Run;
use stackline_memory::{Rules, Study};
use stackline_model::{CallMetric, CallTree, Table, Unit, Values};
use stackline_present::human;
use stackline_present::terminal::clean_lines;
use std::cmp::Reverse;
use std::fmt::Write as _;

/// The report of a recording in the mode that keeps sums of calls.
///
/// # Errors
/// If it cannot be read.
pub(in crate::commands) fn of_calls(run: &Run) -> Result<String> {
    let (tree, name) = (fold_imports(run.profile()?), run.name());
    let mut out = format!(
        "Performance report of the recording {name}: sums of calls, without the times of each. All numbers are measured in it unless \
         they say predicted.\n"
    );
    let step = step_time(&tree);
    out.push_str(&crate::commands::calls::head_for_agent(&tree, step.as_ref()));
    out.push_str(&how_it_ended(std::iter::once(&tree.report)));
    for problem in tree.report.problems.iter().take(FINDINGS) {
        let _ = writeln!(out, "Read report: {} x {}", problem.count, problem.code);
    }
    if let Ok(found) = find_in_calls(&tree, None, &Options::default(), &Others::default(), &|_| true) {
        findings_of(&found, LENGTHS[0], &mut out);
    }
    lines(&tree, &mut out);
    Ok(cut(out, &format!("stackline findings {name}, stackline calls {name} --lines")))
}

/// The lines of Python that take most time themselves.
fn lines(tree: &CallTree, out: &mut String) {
    let times = [CallMetric::RealTime, CallMetric::CpuTime, CallMetric::OperatorTime];
    let Some(metric) = times.into_iter().find(|metric| tree.measured().contains(metric)) else { return };
    let mut lines = source_lines(tree, metric);
    let all: u64 = lines.iter().map(|line| line.exclusive.sum).sum();
    lines.retain(|line| line.exclusive.sum > 0);
    lines.sort_by_key(|line| Reverse(line.exclusive.sum));
    let _ = writeln!(
        out,
        "\nLines of Python by {} in them and in the operators that they call, imports included:",
        metric.title(&tree.strings)
    );
    for line in lines.iter().take(KERNELS) {
        let _ = writeln!(
            out,
            "- {}:{} {}: {}, {:.1} %",
            short(&line.file, NAME),
            line.line,
            short(&line.function, NAME),
            human::duration(i64::try_from(line.exclusive.sum).unwrap_or(i64::MAX)),
            100.0 * line.exclusive.sum as f64 / all.max(1) as f64
        );
    }
}

/// The report of a file of memory.
///
/// # Errors
/// If it cannot be read.
pub(in crate::commands) fn of_memory(run: &Run) -> Result<String> {
    let (trace, path) = (run.memory(None)?, &run.inputs()[0]);
    let asked = Cli::try_parse_from(["stackline".as_ref(), "memory".as_ref(), "--".as_ref(), path.as_os_str()])?;
    let study = Study::by_rules(&trace, PEAKS, Rules::default());
    let mut out =
        String::from("Report of memory of a device. All numbers are those of the file; savings are replayed.\n");
    out.push_str(&clean_lines(&memory::head(&trace)));
    if let Command::Memory(args) = &asked.command {
        for table in memory::overview_for_agent(args, &asked.common, &study) {
            rows(&table, &mut out);
        }
    }
    Ok(cut(out, &format!("stackline memory {}", path.display())))
}

/// Peaks that are looked at.
const PEAKS: usize = 2;

/// The first rows of a table: each cell that is known, after the name of its column.
fn rows(table: &Table, out: &mut String) {
    if table.rows() == 0 {
        return;
    }
    let _ = writeln!(out, "\n{}:", table.title);
    for row in 0..table.rows().min(KERNELS) {
        let cells = table.columns.iter().filter_map(|column| {
            let value = cell(&column.values, column.unit, row)?;
            Some(format!("{} {}", column.name, short(&value, NAME)))
        });
        let _ = writeln!(out, "- {}", cells.collect::<Vec<_>>().join(", "));
    }
    if table.rows() > KERNELS {
        let _ = writeln!(out, "and {} more", table.rows() - KERNELS);
    }
    for note in &table.notes {
        let _ = writeln!(out, "{}", short(note, 4 * TITLE));
    }
}

fn cell(values: &Values, unit: Unit, row: usize) -> Option<String> {
    match values {
        Values::I64(values) => values[row].map(|value| match unit {
            Unit::Bytes => human::bytes(u64::try_from(value).unwrap_or(0)),
            Unit::Ns => human::duration(value),
            _ => value.to_string(),
        }),
        Values::F64(values) => values[row].map(|value| format!("{value:.1}{}", unit.suffix())),
        Values::Str(values) => values[row].clone().filter(|text| !text.is_empty()),
        Values::Bool(values) => values[row].map(|value| value.to_string()),
    }
}
