//! Report for AI agents (`report --for-agent`) on memory files.

use super::{FINDINGS, KERNELS, NAME, TITLE, cut, diagnostics, gain, short};
use crate::args::{Cli, Command, Common, options_for};
use crate::commands::memory;
use crate::failure::command_line;
use anyhow::Result;
use clap::Parser;
use stackline_engine::Run;
use stackline_findings::{Finding, Findings, Options};
use stackline_memory::{MemoryAnalysis, Rules};
use stackline_model::{Table, Unit, Values};
use stackline_present::findings::memory_together;
use stackline_present::human;
use stackline_present::terminal::clean_lines;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Number of peaks per device. Further peaks mostly have the same composition.
const PEAKS: usize = 1;
/// Number of listed source locations.
const PLACES: usize = 6;

/// Text of the report for AI agents on a memory file, or on several.
///
/// # Errors
/// If none can be read.
pub(in crate::commands) fn report_memory(run: &Run, common: &Common) -> Result<String> {
    let (files, path) = (run.memory_files()?, &run.inputs()[0]);
    let trace = match common.rank {
        _ if files.is_empty() => run.memory(None)?,
        Some(rank) => memory::trace_of_rank(run, &files, (rank, common))?,
        None => return report_several_files(run, &files, common),
    };
    let cli = Cli::try_parse_from(["stackline".as_ref(), "memory".as_ref(), "--".as_ref(), path.as_os_str()])?;
    let mut out = String::from(
        "Report of device memory. Sizes are from the file; savings are predicted by replaying its allocations.\n",
    );
    out.push_str(&clean_lines(&memory::head(&trace)));
    let tables = match &cli.command {
        Command::Memory(args) => {
            let analysis = MemoryAnalysis::by_rules(&trace, PEAKS, Rules::default());
            memory::overview_for_agent(args, &cli.common, &analysis)
        }
        _ => Vec::new(),
    };
    let (first, last): (Vec<&Table>, Vec<&Table>) = tables.iter().partition(|table| precedes_findings(table));
    first.into_iter().for_each(|table| rows(table, &mut out));
    let found = stackline_engine::findings_of_memory(&trace, &Options::default(), &|_| true);
    findings_of(&found, &mut out);
    last.into_iter().for_each(|table| rows(table, &mut out));
    // The rank has several files, but `findings` reads only one file.
    let is_of_several = !files.is_empty();
    let options = if is_of_several { options_for("memory", common, None) } else { Vec::new() };
    let mut more = command_line("memory", run.inputs(), &options);
    if !is_of_several && !found.findings.is_empty() {
        let _ = write!(more, ", {}", command_line("findings", run.inputs(), &[]));
    }
    Ok(cut(out, &more))
}

/// Text of the report for AI agents on several memory files: comparison of their highest peaks.
fn report_several_files(run: &Run, files: &[(PathBuf, String)], common: &Common) -> Result<String> {
    let memory::Read { memories, reports } = memory::read_several(run, files, common)?;
    let mut out = String::from("Report of device memory from several files. Sizes are from the files.\n");
    for sentence in memories.sentences() {
        let _ = writeln!(out, "{}", short(&sentence, 4 * TITLE));
    }
    diagnostics::write(reports.iter().flat_map(|trace| &trace.report.problems), "the memory data", &mut out);
    memories.tables().iter().take(1).for_each(|table| rows(table, &mut out));
    Ok(cut(out, &command_line("memory", run.inputs(), &[])))
}

/// Check if a table is printed before the findings.
fn precedes_findings(table: &Table) -> bool {
    ["memory_peaks", "memory_out_of_memory", "memory_composition"].contains(&table.name.as_ref())
}

/// Append the memory findings. Findings with equal rule, source location and saving share a line.
fn findings_of(found: &Findings, out: &mut String) {
    let mut groups: Vec<(&Finding, usize)> = Vec::new();
    let is_like = |a: &Finding, b: &Finding| {
        a.rule.code == b.rule.code && a.place.text() == b.place.text() && gain(a, found) == gain(b, found)
    };
    for finding in &found.findings {
        match groups.iter_mut().find(|(other, _)| is_like(other, finding)) {
            Some((_, more)) => *more += 1,
            None => groups.push((finding, 0)),
        }
    }
    out.push_str("\nFindings, by predicted saving:\n");
    for (at, (finding, more)) in groups.iter().take(FINDINGS).enumerate() {
        let like_it = match *more {
            0 => String::new(),
            more => format!("; {} findings of this rule have this location and saving", more + 1),
        };
        let title = short(&finding.title, 2 * TITLE);
        let _ = writeln!(out, "{}. {} {title}{}{like_it}", at + 1, finding.rule.code, gain(finding, found));
        let place = finding.place.text();
        if !place.is_empty() {
            let _ = writeln!(out, "   at {}", short(&place, TITLE));
        }
    }
    if groups.is_empty() {
        out.push_str("none\n");
    }
    super::more(groups.len(), FINDINGS, "findings", out);
    for line in memory_together(found) {
        let _ = writeln!(out, "{line}");
    }
}

/// Append the first rows of a table as text: each known value after its column name.
fn rows(table: &Table, out: &mut String) {
    if table.rows() == 0 {
        return;
    }
    let most = if table.name == "memory_at_peak" { PLACES } else { KERNELS };
    // Most kinds of memory of an allocator are none.
    let is_relevant = |text: &str| table.name != "memory_allocator" || text != "0 B";
    let _ = writeln!(out, "\n{}:", table.title);
    for row in 0..table.rows().min(most) {
        let cells = table.columns.iter().filter_map(|column| {
            let value = cell(&column.values, column.unit, row).filter(|text| is_relevant(text))?;
            Some(format!("{} {}", column.name, short(&value, NAME)))
        });
        let _ = writeln!(out, "- {}", cells.collect::<Vec<_>>().join(", "));
    }
    super::more(table.rows(), most, "rows", out);
    for note in &table.notes {
        let _ = writeln!(out, "{}", short(note, 4 * TITLE));
    }
}

/// Text of a table cell with its unit; `None` if the cell is empty.
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
