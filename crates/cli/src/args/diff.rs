//! Command-line arguments of `stackline diff`, which compares runs.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub(super) const DIFF_EXAMPLE: &str =
    "A RUN is a trace file, an archive or directory of ranks, a run directory, or a recording. Times are per step.
A statistical test separates changes from noise. With one run on each side, it uses the variation between
steps; with several runs, the variation between runs (docs/reference/diff.md).

A --fail-on condition is a name, > and a limit in percent. Conditions named step, gpu or cpu compare the times
of a step. Conditions named operators, kernels, paths or functions compare each row of that table. Conditions
named op:NAME, kernel:NAME, path:NAME or function:NAME compare only rows with this name (* matches any text).

Exit codes: 0 success, and no --fail-on condition holds. 1 --fail-on cannot be judged, since a part of
the input was lost, or the time to compare is not in B. 2 invalid usage. 3 unreadable input.
4 a --fail-on condition holds.

Examples:
  stackline diff before.json.gz after.json.gz
  stackline diff before.json.gz after.json.gz --fail-on 'step>3%' --fail-on 'op:aten::mm>10%'
  stackline diff main1.json main2.json main3.json --with new1.json new2.json new3.json
  stackline diff h100.json.gz mi300.json.gz --table kernels --format csv
  stackline diff before.stackline after.stackline --as markdown -o diff.md";

/// Arguments of `diff`.
#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// The run before the change (A), then the run after it (B). If --with gives the runs after the change, all runs
    /// given here are from before it.
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// The runs after the change (B). All runs given without --with are from before the change (A).
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub(crate) with: Vec<PathBuf>,
    /// Maximum number of changes listed per kind, such as operators or kernels; 0 shows all [default: 5].
    #[arg(long, value_name = "N", value_parser = super::parse_count, allow_negative_numbers = true)]
    pub(crate) top: Option<usize>,
    /// Significance level: accepted rate of false alarms, in percent. With 5, confidence intervals are 95 % intervals.
    #[arg(long, value_name = "PERCENT", value_parser = parse_level, default_value = "5", allow_negative_numbers = true)]
    pub(crate) level: f64,
    /// Match GPU operations of A with those of B by name, or by kernel family and launching operator.
    #[arg(long, value_enum, default_value_t = KernelsBy::Auto)]
    pub(crate) kernels_by: KernelsBy,
    /// Write the comparison as Markdown, for pull requests.
    #[arg(long = "as", value_enum, conflicts_with = "format")]
    pub(crate) document: Option<DiffDocument>,
    /// Exit with code 4 if a time grew by more than this limit, unless the growth may be noise: 'step>3%',
    /// 'op:aten::mm>10%', 'function:load>10%'; may be repeated.
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_on: Vec<String>,
    /// With --fail-on, also ignore changes that could not be tested for significance (each side has only one step).
    #[arg(long, requires = "fail_on")]
    pub(crate) significant: bool,
}

/// Key that pairs GPU work of the compared runs: kernel name, or kernel family with operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KernelsBy {
    /// By name; by family if the GPUs of A and B are of different vendors.
    Auto,
    /// By name.
    Name,
    /// By kernel family, such as gemm or attention, together with the operator that launched the kernel.
    Family,
}

/// Format of a document for pull requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffDocument {
    /// Markdown, for a pull request.
    Markdown,
}

fn parse_level(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim().trim_end_matches('%').trim_end().parse().ok();
    let inside = percent.filter(|p| *p >= 0.001 && *p <= 50.0);
    inside.ok_or_else(|| {
        format!("{text:?} is not a significance level (rate of false alarms); write a percentage from 0.001 to 50")
    })
}
