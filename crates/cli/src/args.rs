//! Command-line arguments and their help texts, from which `docs/cli` is generated.

mod calls;
mod diff;
mod findings;
mod forwarded_options;
mod memory;
mod page;
mod refused_options;
#[cfg(test)]
mod shown_commands;
mod step_range;
mod what_if;

pub(crate) use calls::{By, CallsArgs, Mode, RecordArgs, View};
use calls::{CALLS_EXAMPLE, RECORD_EXAMPLE};
use clap::{Args, Parser, Subcommand, ValueEnum};
use diff::DIFF_EXAMPLE;
pub(crate) use diff::{DiffArgs, DiffDocument, KernelsBy};
use findings::FINDINGS_EXAMPLE;
pub(crate) use findings::{CommentArgs, Document, FindingsArgs};
pub(crate) use forwarded_options::options_for;
use memory::MEMORY_EXAMPLE;
pub(crate) use memory::{MemoryArgs, MemoryGateArgs, MemoryRules};
use page::{REPORT_EXAMPLE, VIEW_EXAMPLE};
pub(crate) use page::{ReportArgs, SourceArgs, ViewArgs};
pub(crate) use refused_options::{command, parse, refused};
use regex_lite::Regex;
use stackline_timeline::Scope;
use std::path::PathBuf;
use step_range::{StepRange, parse_steps};
pub(crate) use what_if::WhatIfArgs;

/// Find out where the time of a deep-learning program goes.
///
/// Inputs are PyTorch (Kineto) traces and any Chrome trace: .json, .json.gz, .json.zst, .zip, .tar, .tar.gz, a
/// directory of ranks, a run directory from `import`, or - for standard input.
#[derive(Debug, Parser)]
#[command(name = "stackline", version, max_term_width = 100, propagate_version = true, after_help = ROOT_EXAMPLE)]
pub(crate) struct Cli {
    /// Command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Options of every command.
    #[command(flatten)]
    pub(crate) common: Common,
}

const ROOT_EXAMPLE: &str = "Examples:
  stackline report trace.json.gz
  stackline findings trace.json.gz
  stackline critical-path trace.json.gz --annotation 'ProfilerStep#5'
  stackline import ranks/ -o job.stackline && stackline collectives job.stackline --format json

Exit codes: 0 success, 1 the command failed or a --fail-on condition cannot be judged, 2 invalid usage,
3 unreadable input, 4 a --fail-on condition holds.

Terms are defined in the glossary: press ? on the page that stackline view opens.";

/// Options of every command.
#[derive(Args, Debug)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Common {
    /// Output format: tables for people, JSON or CSV for programs.
    #[arg(long, value_enum, default_value_t = Format::Table, global = true)]
    pub(crate) format: Format,
    /// Select steps by number, both ends included: 5 or 5..8. If several profiler cycles have steps with these numbers,
    /// 5..8@2 selects those of the second cycle.
    #[arg(long, value_name = "A..B", value_parser = parse_steps, global = true, allow_hyphen_values = true)]
    pub(crate) steps: Option<StepRange>,
    /// Select the whole trace, including warm-up, start-up and the time between steps.
    #[arg(long, global = true, conflicts_with = "steps")]
    pub(crate) whole: bool,
    /// Select one rank by number.
    #[arg(long, value_name = "N", value_parser = parse_rank, global = true, allow_negative_numbers = true)]
    pub(crate) rank: Option<i64>,
    /// Write to this file instead of standard output. Commands that write several files create a directory of this
    /// name.
    #[arg(long, short, value_name = "PATH", global = true)]
    pub(crate) output: Option<PathBuf>,
    /// Number of worker threads; 0 means one per core [default: 0]. The results are the same with any number.
    #[arg(long, value_name = "N", value_parser = parse_count, default_value_t = 0, hide_default_value = true, global = true)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) threads: usize,
    /// Maximum rows per table with --format table; 0 shows all [default: 20].
    #[arg(long, value_name = "N", value_parser = parse_count, global = true, allow_negative_numbers = true)]
    pub(crate) limit: Option<usize>,
    /// Shorten GPU operations that overlap the next one on their stream, so that each ends when the next one starts.
    /// Use it for traces whose recorded durations are too long.
    #[arg(long, global = true)]
    pub(crate) clip_overlaps: bool,
    /// Use as steps the spans whose name matches this regular expression, such as 'iteration (\d+)'. A capture group
    /// that matches a number gives the step number.
    #[arg(long, value_name = "PATTERN", value_parser = parse_pattern, global = true)]
    pub(crate) step_annotation: Option<Regex>,
    /// Print only the table of this name; may be repeated.
    #[arg(long = "table", value_name = "NAME", global = true)]
    pub(crate) tables: Vec<String>,
}

impl Common {
    /// Steps or whole trace that `--steps` and `--whole` select.
    pub(crate) fn scope(&self) -> Scope {
        Scope { steps: self.steps.map(|range| (range.first, range.last)), whole: self.whole, ..Scope::default() }
    }
}

/// Output format: table, JSON or CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people, as wide as the terminal.
    Table,
    /// A JSON document (docs/schemas).
    Json,
    /// Comma-separated values at full precision.
    Csv,
}

/// Range of numbers from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// The inputs of a command.
#[derive(Args, Debug)]
pub(crate) struct Inputs {
    /// Trace files, archives, directories of traces, run directories, or - for standard input.
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Summarize where the time goes.
    #[command(after_help = REPORT_EXAMPLE)]
    Report(ReportArgs),
    /// Report performance issues with source location and estimated speedup.
    #[command(after_help = FINDINGS_EXAMPLE)]
    Findings(Box<FindingsArgs>),
    /// Open the run in the browser: steps, findings, flame graph, timeline, memory, source.
    #[command(after_help = VIEW_EXAMPLE)]
    View(ViewArgs),
    /// Compare two runs, or several of each, and separate significant changes from noise.
    #[command(after_help = DIFF_EXAMPLE)]
    Diff(Box<DiffArgs>),
    /// Find the critical path: the sequence of dependent work that determines the time.
    #[command(after_help = CRITICAL_PATH_EXAMPLE)]
    CriticalPath(Box<CriticalPathArgs>),
    /// Predict the speedup of changes, or rank likely changes by predicted speedup.
    #[command(after_help = what_if::EXAMPLE)]
    WhatIf(Box<WhatIfArgs>),
    /// Run a program and record its call tree: Python, operators and native code.
    #[command(after_help = RECORD_EXAMPLE)]
    Record(RecordArgs),
    /// Show the call tree of a recording or profile: top-down, bottom-up, flat, callers, source lines, or compared with
    /// another.
    #[command(after_help = CALLS_EXAMPLE)]
    Calls(Box<CallsArgs>),
    /// Report peak memory by owner, wasted allocations, and the savings of suggested changes.
    #[command(after_help = MEMORY_EXAMPLE)]
    Memory(MemoryArgs),
    /// Store traces, memory data or a profile as a run directory, which opens faster because it needs no parsing.
    #[command(after_help = "Example:\n  stackline import rank*.json.gz -o job.stackline")]
    Import(ImportArgs),
    /// List the steps: time, variation, GPU utilization.
    #[command(after_help = "Example:\n  stackline steps trace.json.gz --format csv")]
    Steps(Inputs),
    /// List the kernels: by name, by kind, short ones, launch delays.
    #[command(after_help = "Example:\n  stackline kernels trace.json.gz --steps 5..7 --table kernel_summary")]
    Kernels(Inputs),
    /// List the operators: host time, kernel time, launches, shapes.
    #[command(after_help = "Example:\n  stackline operators trace.json.gz --limit 50")]
    Operators(Inputs),
    /// List the collectives: sizes, bandwidth, overlap with computation.
    #[command(after_help = "Example:\n  stackline collectives ranks.tar.gz --rank 0")]
    Collectives(Inputs),
    /// Break down GPU time: computation, communication, memory, and idle time by cause.
    #[command(after_help = "Example:\n  stackline timeline trace.json.gz --format json")]
    Timeline(Inputs),
    /// Export traces or recorded calls in the format of another tool.
    #[command(after_help = EXPORT_EXAMPLE)]
    Export(ExportArgs),
    /// Check an input: its content, missing data, and how to record more. Without an input, describe this machine.
    #[command(after_help = "Example:\n  stackline doctor trace.json.gz")]
    Doctor(DoctorArgs),
    /// Check a trace for causality violations, unmatched events and missing fields, and list the affected events.
    #[command(
        after_help = "Examples:\n  stackline check trace.json.gz\n  stackline check trace.json.gz --table check_events --format csv"
    )]
    Check(Inputs),
    /// Print the completion script of a shell.
    #[command(
        after_help = "Example:\n  stackline completions bash > ~/.local/share/bash-completion/completions/stackline"
    )]
    Completions {
        /// Shell whose completion script is printed.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page. With -o, write the pages of all commands to that directory.
    #[command(after_help = "Example:\n  stackline man -o ~/.local/share/man/man1")]
    Man,
}

const EXPORT_EXAMPLE: &str = "Examples:
  stackline export trace.json.gz --to perfetto -o trace.pftrace --redact
  stackline export train.stackline --to flamegraph -o train.svg
  stackline export trace.json.gz --to flamegraph --metric gpu_time -o gpu.svg
  stackline export train.stackline --to pprof --metric allocated -o train.pb.gz";

const CRITICAL_PATH_EXAMPLE: &str = "Examples:
  stackline critical-path trace.json.gz
  stackline critical-path trace.json.gz --steps 5
  stackline critical-path trace.json.gz --compare
  stackline critical-path trace.json.gz --annotation ProfilerStep --instance 0..2 --format json
  stackline critical-path trace.json.gz --method ctda --steps 5
  stackline critical-path trace.json.gz --what-if 'gpu:*gemm*=x0.5'
  stackline critical-path trace.json.gz --overlay overlaid.json.gz --only-critical";

/// Arguments of `critical-path`.
#[derive(Args, Debug)]
pub(crate) struct CriticalPathArgs {
    /// Trace files, archives, directories of traces, run directories, or - for standard input.
    #[arg(value_name = "TRACE", required_unless_present = "restore")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Method that computes the critical path [default: exact; hta if an option is given that only hta supports].
    #[arg(long, value_enum)]
    pub(crate) method: Option<Method>,
    /// Compute the critical path with each method (exact, hta, ctda), and show all results in one table.
    #[arg(long, conflicts_with_all = ["method", "restore", "save", "overlay", "what_if", "phase_rules"])]
    pub(crate) compare: bool,
    /// Analyze the events whose name contains this text, instead of the steps.
    #[arg(long, value_name = "TEXT", value_parser = parse_annotation)]
    pub(crate) annotation: Option<String>,
    /// Numbers of the events to analyze among those that match --annotation: N, or A..B with both ends included.
    /// Events are numbered from 0 in the order of the file [default: 0].
    #[arg(long, value_name = "N|A..B", value_parser = parse_instances, allow_hyphen_values = true)]
    pub(crate) instance: Option<Range>,
    /// With --method hta: for each kernel that waited for other GPU work, also add an edge of weight zero from its
    /// launch call.
    #[arg(long)]
    pub(crate) zero_weight_launch_edges: bool,
    /// With --method hta: treat events whose name contains this text as data loading; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub(crate) data_load_events: Vec<String>,
    /// With --method hta: include the last profiler step, which is excluded by default because it is incomplete.
    #[arg(long)]
    pub(crate) include_last_profiler_step: bool,
    /// Write a copy of the trace with the critical path marked in it (.json or .json.gz).
    #[arg(long, value_name = "FILE")]
    pub(crate) overlay: Option<PathBuf>,
    /// In the copy that --overlay writes, keep only annotations, Python frames and the events on the critical path.
    #[arg(long, requires = "overlay")]
    pub(crate) only_critical: bool,
    /// In the copy that --overlay writes, draw all edges of the dependency graph, not only those on the critical path
    /// (--method hta).
    #[arg(long, requires = "overlay")]
    pub(crate) show_all_edges: bool,
    /// With --method hta: save the dependency graph and the critical path to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Load the dependency graph and the critical path from a file that --save wrote, instead of computing them from a
    /// trace.
    #[arg(long, value_name = "FILE")]
    pub(crate) restore: Option<PathBuf>,
    /// With --method ctda: JSON file with rules that assign events to training phases, applied before the built-in
    /// rules.
    #[arg(long, value_name = "FILE")]
    pub(crate) phase_rules: Option<PathBuf>,
    /// Change the times of edges in the dependency graph, and recompute the critical path; may be repeated. 'gpu=x0.5'
    /// halves the GPU time, 'launch=0' removes launch delays, 'gap=0' removes gaps between kernels.
    /// 'cpu:cudaMalloc=0' removes the time of this host function.
    #[arg(long, value_name = "EDIT")]
    pub(crate) what_if: Vec<String>,
}

impl CriticalPathArgs {
    /// Text of `--annotation`, a part of the names of the events to analyze; empty without the option.
    pub(crate) fn annotation(&self) -> &str {
        self.annotation.as_deref().unwrap_or_default()
    }
}

/// Algorithm that computes the critical path: Stackline's exact method, HTA or CTDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// Follow dependencies backward from the end of the window, so that every nanosecond has one cause.
    Exact,
    /// Reproduce the critical path of Meta's Holistic Trace Analysis (HTA) 0.6.1.
    Hta,
    /// Apply the algorithm of Yang et al. for critical paths across threads (CTDA-CPA): one order for all threads of a
    /// process, nodes by training phase.
    Ctda,
}

/// Arguments of `import`.
#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Replace an existing run directory at the path of -o. Other files are never replaced.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Format of the exported file or directory.
    #[arg(long, value_enum)]
    pub(crate) to: Target,
    /// Metric that gives the weight of each stack [default: the first available of operator_time, cpu_time, …]. Applies
    /// only to profile formats: collapsed, speedscope, pprof, firefox, flamegraph.
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    /// Keep the frames of Python imports in profile formats. By default the frames of each import are combined into one
    /// frame, "import of modules".
    #[arg(long)]
    pub(crate) imports: bool,
    /// Omit metadata of the trace that may be private. Metadata on devices, the distributed job and the profiler's
    /// settings is kept, and so are names and arguments of events.
    #[arg(long)]
    pub(crate) redact: bool,
    /// Replace an existing run directory at the path of -o (--to parquet), or write into a directory that contains
    /// other files (--to csv).
    #[arg(long)]
    pub(crate) force: bool,
}

/// Format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// Chrome trace JSON, gzip if the file name ends in .gz. Reading it back gives the same events.
    Chrome,
    /// Perfetto's protobuf format (.pftrace).
    Perfetto,
    /// A directory of CSV files: events, GPU operations, tracks, links.
    Csv,
    /// A directory of Parquet tables, as `import` writes it.
    Parquet,
    /// Collapsed stacks of a recording, profile or trace: one line per stack with its weight.
    Collapsed,
    /// Call stacks with their weights as JSON for speedscope.
    Speedscope,
    /// Call stacks with all metrics in pprof's format (.pb.gz).
    Pprof,
    /// Call stacks with their weights as JSON for the Firefox Profiler.
    Firefox,
    /// Call stacks as a flame graph, an SVG for any browser.
    Flamegraph,
    /// Memory events as editable text, one line per call: allocations, accesses and frees.
    MemoryText,
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Inputs to check. Without an input, show the cores, memory and terminal of this machine.
    #[arg(value_name = "TRACE")]
    pub(crate) inputs: Vec<PathBuf>,
}

impl Command {
    /// Name of the command as typed, part of its schema's name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Report(_) => "report",
            Self::Findings(_) => "findings",
            Self::View(_) => "view",
            Self::Diff(_) => "diff",
            Self::CriticalPath(_) => "critical-path",
            Self::WhatIf(_) => "what-if",
            Self::Record(_) => "record",
            Self::Calls(_) => "calls",
            Self::Memory(_) => "memory",
            Self::Import(_) => "import",
            Self::Steps(_) => "steps",
            Self::Kernels(_) => "kernels",
            Self::Operators(_) => "operators",
            Self::Collectives(_) => "collectives",
            Self::Timeline(_) => "timeline",
            Self::Export(_) => "export",
            Self::Doctor(_) => "doctor",
            Self::Check(_) => "check",
            Self::Completions { .. } => "completions",
            Self::Man => "man",
        }
    }
}

/// Check the value of `--annotation`, which is part of an event name, and return it as typed. Empty text is refused: it
/// would match every name, and may come from an unset variable.
fn parse_annotation(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err(
            "the event name to search for is empty; give a part of the event names to analyze, or omit the option"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// Parse `N` or `A..B` (both ends included; `A..=B` is accepted too).
fn parse_range(text: &str) -> Result<Range, String> {
    let number = |t: &str| {
        t.trim()
            .parse::<i64>()
            .map_err(|_| format!("{t:?} is not the number of an event; write a number N or a range A..B"))
    };
    let (first, last) = match text.split_once("..") {
        Some((a, b)) => (number(a)?, number(b.trim_start_matches('='))?),
        None => (number(text)?, number(text)?),
    };
    if first > last {
        return Err(format!(
            "the range of numbers {first}..{last} is empty; write the smaller number first (both ends are included)"
        ));
    }
    Ok(Range { first, last })
}

fn parse_pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("{text:?} is not a regular expression: {error}"))
}

/// Parse a range of instance numbers of an annotation. Negative numbers are refused.
fn parse_instances(text: &str) -> Result<Range, String> {
    let range = parse_range(text)?;
    if range.first < 0 {
        return Err(format!(
            "the events that match --annotation are numbered from 0, so none has the number {}",
            range.first
        ));
    }
    Ok(range)
}

/// Parse the value of `--rank`: a rank number from 0.
fn parse_rank(text: &str) -> Result<i64, String> {
    let rank: i64 =
        text.trim().parse().map_err(|_| format!("{text:?} is not a number; write a rank number such as 0"))?;
    if rank < 0 {
        return Err(format!("ranks are numbered from 0, so {rank} is not a rank"));
    }
    Ok(rank)
}

/// Parse a whole number, 0 or more.
fn parse_count(text: &str) -> Result<usize, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a whole number of 0 or more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        for command in command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has no example", command.get_name());
        }
    }

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(parse_range("5"), Ok(Range { first: 5, last: 5 }));
        assert_eq!(parse_range("5..8"), Ok(Range { first: 5, last: 8 }));
        assert!(parse_range("8..5").is_err());
        assert!(parse_range("a..b").is_err());
    }
}
