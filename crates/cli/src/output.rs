//! Output as tables, JSON or CSV, to standard output or a file. Messages go to standard error.

use crate::args::{Common, Format};
use crate::failure::wrong_use;
use crate::session::Session;
use anyhow::{Context, Result};
use stackline_model::{CallingContextTree, MemoryTrace, Table, TraceSet};
use stackline_present::json::{Extra, schema_version};
use stackline_present::terminal::{self, Style};
use stackline_present::{csv, json, read_report_text, truncation_warnings};
use stackline_query::{CHECKS_OF_COLLECTIVES, CHECKS_OF_PATHS, FailedCheck};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Rows per table where the user does not say.
pub(crate) const ROWS: usize = 20;
/// Width where there is no terminal to ask.
const WIDTH: usize = 120;

/// Output of a command: header, tables, and additional keys of its JSON document.
pub(crate) struct Answer<'a> {
    pub(crate) command: &'a str,
    /// The traces that it is about.
    pub(crate) session: &'a Session<'a>,
    /// Keys of the JSON document that only this command has.
    pub(crate) extra: Vec<(&'a str, Extra<'a>)>,
    pub(crate) tables: Vec<Table>,
    /// Text for people before the tables.
    pub(crate) head: String,
    /// Tables for people, where they are not the same.
    pub(crate) shown: Option<Vec<Table>>,
}

impl Answer<'_> {
    /// Write the output in the format that `--format` selects.
    pub(crate) fn write(&self, common: &Common) -> Result<()> {
        match common.format {
            Format::Table => self.write_text(common),
            Format::Json => to_output(common, |out| {
                json::write(
                    &json::Document {
                        command: self.command,
                        version: schema_version(self.command),
                        traces: &self.session.infos,
                        set: &self.session.set,
                        extra: &self.extra,
                        tables: &self.tables,
                    },
                    out,
                )
            }),
            Format::Csv => {
                to_output(common, |out| csv::write_all(&self.tables, out))?;
                // CSV has no place for it: a reader of the data must not stumble over it.
                print_read_report(&self.session.set)
            }
        }
    }

    fn write_text(&self, common: &Common) -> Result<()> {
        let style = style(common);
        let mut text = truncation_warnings(&self.session.set) + &shifted_clocks(&self.session.set);
        text.push_str(&match self.command {
            "report" | "findings" => failed_checks(self.session),
            "critical-path" | "what-if" => named(self.session.run_checks().failed(CHECKS_OF_PATHS)),
            "collectives" => named(self.session.run_checks().failed(CHECKS_OF_COLLECTIVES)),
            _ => String::new(),
        });
        text.push_str(&self.head);
        // Programs that read a pipe look for whole lines; findings are paragraphs everywhere.
        if self.command == "findings" || common.output.is_none() && io::stdout().is_terminal() {
            text = terminal::wrap_lines(&text, &style);
        }
        let tables = self.shown.as_ref().unwrap_or(&self.tables);
        if !text.is_empty() && !tables.is_empty() {
            text.push('\n');
        }
        text.push_str(&terminal::tables(tables, &style));
        let report = read_report_text(&self.session.set, &style);
        if !text.is_empty() && !report.is_empty() {
            text.push('\n');
        }
        text.push_str(&report);
        to_output(common, |out| out.write_all(text.as_bytes()))
    }
}

/// Header lines about devices whose times were shifted because clocks differ; empty without shifts. Printed before the
/// results that depend on them.
fn shifted_clocks(set: &TraceSet) -> String {
    let problems = set.traces.iter().flat_map(|t| &t.report.problems);
    let shifted = problems.filter(|p| p.code == "device_clock_shifted" || p.code == "device_clock_unknown");
    let lines = shifted.map(|p| {
        let more = if p.count > 1 { format!("; {} more", p.count - 1) } else { String::new() };
        let example = &p.example;
        format!("The device times below are shifted, because host and device clocks differ ({example}{more}).\n")
    });
    terminal::clean_lines(&lines.collect::<String>())
}

/// Failed consistency checks on which the results of tables and findings depend.
pub(crate) fn checks_that_failed(session: &Session<'_>) -> Vec<FailedCheck> {
    let operations = session.infos.iter().map(|info| info.gpu_operations as u64).sum();
    FailedCheck::all(&session.set.traces, &session.run_checks(), operations)
}

/// Line with the failed consistency checks and their consequences; empty if all passed.
pub(crate) fn failed_checks(session: &Session<'_>) -> String {
    named(checks_that_failed(session))
}

/// Line that names failed checks with their consequences; empty without any.
fn named(failed: Vec<FailedCheck>) -> String {
    let one = |FailedCheck { check, count, consequence }: FailedCheck| match consequence {
        "" => format!("{check} {count}"),
        consequence => format!("{check} {count} ({consequence})"),
    };
    let failed: Vec<String> = failed.into_iter().map(one).collect();
    if failed.is_empty() {
        return String::new();
    }
    format!("Failed checks: {}. List the affected events with `stackline check`.\n", failed.join(", "))
}

/// Width, colors and maximum number of rows of printed tables.
pub(crate) fn style(common: &Common) -> Style {
    let rows = common.limit.unwrap_or(ROWS);
    if common.output.is_some() {
        return Style { width: WIDTH, color: false, rows };
    }
    let stdout = io::stdout();
    let width = terminal_size::terminal_size_of(&stdout).map(|(w, _)| usize::from(w.0));
    Style { width: width.or_else(columns).unwrap_or(WIDTH).max(20), color: color(stdout.is_terminal()), rows }
}

fn stderr_style() -> Style {
    let width = terminal_size::terminal_size_of(io::stderr()).map(|(w, _)| usize::from(w.0));
    Style { width: width.or_else(columns).unwrap_or(WIDTH).max(20), color: color(io::stderr().is_terminal()), rows: 0 }
}

/// Check if the output may have color: only on terminals, and only if the environment allows it (no-color.org).
fn color(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Terminal width from the environment variable `COLUMNS`; `None` if unset or 0.
fn columns() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|&c| c > 0)
}

/// Write to standard output or the `--output` file; a file is written completely or not at all.
pub(crate) fn to_output(common: &Common, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    match &common.output {
        Some(path) if path != Path::new("-") => to_file(path, write),
        _ => {
            let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
            write(&mut out).and_then(|()| out.flush()).context("cannot write to standard output")
        }
    }
}

/// Write a file under a temporary name in the same directory and rename it when complete. Pipes and devices are written
/// directly.
pub(crate) fn to_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let special = std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir());
    let mut name = path.file_name().map(std::ffi::OsStr::to_owned).unwrap_or_default();
    name.push(format!(".{}.partial", std::process::id()));
    let partial: PathBuf = if special { path.to_owned() } else { path.with_file_name(name) };
    let written = File::create(&partial).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 18, file);
        write(&mut out)?;
        out.flush()?;
        drop(out);
        if special { Ok(()) } else { std::fs::rename(&partial, path) }
    });
    if written.is_err() && !special {
        let _ = std::fs::remove_file(&partial);
    }
    written.with_context(|| {
        format!("{}: cannot write; check that the directory exists and has free space", path.display())
    })
}

/// Return an error if the path of a new run exists; with `force`, an existing run may be replaced, but no other file.
pub(crate) fn may_become_run(run: &Path, force: bool) -> Result<()> {
    if !run.exists() {
        return Ok(());
    }
    if !stackline_engine::is_run(run) {
        return Err(wrong_use(format!("{} exists and is not a Stackline run; choose another name", run.display())));
    }
    if force {
        return Ok(());
    }
    Err(wrong_use(format!("{} is a run already; choose another name, or replace it with --force", run.display())))
}

/// Write traces as a run directory; with `force`, replace an existing run.
pub(crate) fn save_run(set: &TraceSet, memory: &[MemoryTrace], run: &Path, force: bool) -> Result<()> {
    let options = stackline_engine::WriteOptions { overwrite: force, ..Default::default() };
    Ok(stackline_engine::save_with(set, memory, run, &options)?)
}

/// Write a call tree without traces as a run directory; with `force`, replace an existing run.
pub(crate) fn save_profile(tree: &CallingContextTree, run: &Path, force: bool) -> Result<()> {
    let options = stackline_engine::WriteOptions { overwrite: force, ..Default::default() };
    Ok(stackline_engine::save_profile(tree, run, &options)?)
}

/// Print the read report on standard error, if it is not empty.
pub(crate) fn print_read_report(set: &TraceSet) -> Result<()> {
    let text = read_report_text(set, &stderr_style());
    io::stderr().write_all(text.as_bytes()).or_else(ignore_closed)?;
    Ok(())
}

/// Print a message on standard error, wrapped at the width of a terminal. Commands stay on one line, because users copy
/// them.
pub(crate) fn print_message(text: &str) -> Result<()> {
    let mut line = terminal::clean(text) + "\n";
    if io::stderr().is_terminal() && !line.starts_with("Next: ") {
        line = terminal::wrap_lines(&line, &stderr_style());
    }
    io::stderr().write_all(line.as_bytes()).or_else(ignore_closed)?;
    Ok(())
}

fn ignore_closed(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}
