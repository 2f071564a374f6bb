//! Command-line arguments of `stackline findings`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub(super) const FINDINGS_EXAMPLE: &str =
    "To ignore findings, write lines `CODE [PATH]` to a file and pass it with --ignore, or write the comment
# stackline: ignore[SL004] at the end of the source line of the finding, or in a separate line above.
An unknown code in the file is an error (exit code 2); in a comment, it is a warning.

Exit codes: 0 success, and no --fail-on condition holds. 1 --fail-on cannot be judged, because
a part of the input was lost. 2 invalid usage, such as an unknown code or a --source-root that
is not a directory. 3 unreadable file: input, baseline or --ignore file. 4 a --fail-on condition holds.

Examples:
  stackline findings trace.json.gz
  stackline findings ranks/
  stackline findings trace.json.gz --top 3 --set SL001.share=40
  stackline findings trace.json.gz --rules my_rules.py
  stackline findings --explain SL012
  stackline findings trace.json.gz --as sarif -o findings.sarif
  stackline findings trace.json.gz --format json -o before.json
  stackline findings new.json.gz --baseline before.json --fail-on new --fail-on 'gain>5%'";

/// Source files searched for comments that ignore findings.
#[derive(Args, Debug)]
pub(crate) struct CommentArgs {
    /// Search source files below this directory for comments that ignore findings; may be repeated. By default the
    /// current directory and input directories are searched. The target of a symbolic link must also be in one of these
    /// directories.
    #[arg(long, value_name = "DIR")]
    pub(crate) source_root: Vec<PathBuf>,
    /// Do not read source files, so that comments in them have no effect on findings.
    #[arg(long, conflicts_with_all = ["source_root", "source"])]
    pub(crate) no_source: bool,
    /// Former name of --source-root.
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) source: Option<PathBuf>,
}

/// Arguments of `findings`.
#[derive(Args, Debug)]
pub(crate) struct FindingsArgs {
    #[command(flatten)]
    pub(crate) inputs: FindingsInputs,
    /// Explain one rule: the problem, the fix, and its false positives. Python rules
    /// loaded by --rules can be explained, too.
    #[arg(long, value_name = "CODE", conflicts_with_all = ["top", "set", "document", "baseline", "ignore", "fail_on"])]
    pub(crate) explain: Option<String>,
    /// Maximum number of findings in any format; 0 shows all [default: 10; all with --as, --table, JSON and CSV]. The
    /// conditions of --fail-on apply to all findings.
    #[arg(long, value_name = "N", value_parser = super::parse_count, allow_negative_numbers = true)]
    pub(crate) top: Option<usize>,
    /// Omit findings whose estimated gain is below this percentage of the step time (or of peak memory).
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0.5", allow_negative_numbers = true)]
    pub(crate) min_gain: f64,
    /// Change a threshold of a rule, such as SL001.share=40; may be repeated. docs/findings lists the thresholds of
    /// built-in rules; --explain CODE shows those of a Python rule.
    #[arg(long, value_name = "CODE.NAME=NUMBER")]
    pub(crate) set: Vec<String>,
    /// Write the findings as Markdown, SARIF or JUnit XML, for pull requests, editors or build servers.
    #[arg(long = "as", value_enum, conflicts_with = "format")]
    pub(crate) document: Option<Document>,
    /// Compare with the findings of an earlier run, saved with --format json, and mark new, gone and changed findings.
    /// Ignored findings and those below --min-gain are neither new nor gone.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Ignore the findings listed in this file, one per line: CODE, or CODE and a path where * matches any text.
    #[arg(long, value_name = "FILE")]
    pub(crate) ignore: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) comments: CommentArgs,
    /// Load Python rules from this file, or from installed packages if the value is `entry-points`; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,
    /// Time limit of each Python rule, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "30", allow_negative_numbers = true)]
    pub(crate) rule_timeout: f64,
    /// Python interpreter that runs Python rules; the package stackline must be installed in it [default:
    /// STACKLINE_PYTHON, else python3].
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) python: Option<PathBuf>,
    /// Exit with code 4 if a condition holds: 'gain>5%' (gain of any finding), 'combined>10%' (gain of all findings
    /// combined), 'count>3' (number of findings), or new (a finding that is not in --baseline); may be repeated.
    /// Conditions gain and new do not count findings of low confidence if the lower bound of their gain is 0. If a part
    /// of the input was lost and no condition holds, exit with code 1.
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_on: Vec<String>,
}

/// Inputs of `findings`; none with --explain.
#[derive(Args, Debug)]
pub(crate) struct FindingsInputs {
    /// Trace files, archives, directories of traces, run directories, or - for standard input.
    #[arg(value_name = "TRACE", required_unless_present = "explain")]
    pub(crate) inputs: Vec<PathBuf>,
}

/// Format of a document for pull requests, editors or build servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Document {
    /// Markdown, for a pull request.
    Markdown,
    /// SARIF 2.1.0, which editors and code hosts show at the lines.
    Sarif,
    /// JUnit XML, which build servers show as tests.
    Junit,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.trim().trim_end_matches('s').trim_end().parse().ok();
    seconds
        .filter(|s| *s > 0.0 && *s <= 86_400.0)
        .ok_or_else(|| format!("{text:?} is not a time limit; write a number of seconds, up to 86400"))
}

/// Parse a percentage from 0 to 100; the sign `%` may follow.
pub(super) fn parse_percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim().trim_end_matches('%').trim_end().parse().ok();
    percent
        .filter(|p| (0.0..=100.0).contains(p))
        .ok_or_else(|| format!("{text:?} is not a percentage; write a number from 0 to 100"))
}
