//! What `findings` understands.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub(super) const FINDINGS_EXAMPLE: &str = "Findings that nobody wants: a file of lines `CODE [PATH]`, or the comment
# stackline: ignore[SL004] in the line that the finding names, or alone in the one above.
A code that no rule has is wrong use in the file (exit code 2), and told of a comment.

Exit codes: 0 done, and no --fail-on condition holds; 1 --fail-on cannot be judged, as a
part of the input was lost; 2 wrong use, such as an unknown code or a --source-root that is
no folder; 3 a file cannot be read: input, baseline, what to ignore; 4 a --fail-on condition holds.

Examples:
  stackline findings trace.json.gz
  stackline findings ranks/
  stackline findings trace.json.gz --top 3 --set SL001.share=40
  stackline findings trace.json.gz --rules my_rules.py
  stackline findings --explain SL012
  stackline findings trace.json.gz --as sarif -o findings.sarif
  stackline findings trace.json.gz --format json -o before.json
  stackline findings new.json.gz --baseline before.json --fail-on new --fail-on 'gain>5%'";

/// Where comments about findings are looked for.
#[derive(Args, Debug)]
pub(crate) struct CommentArgs {
    /// Look for comments that ignore findings in source files below this directory, links resolved; may be repeated. Without it,
    /// below the current directory and inputs that are directories.
    #[arg(long, value_name = "DIR")]
    pub(crate) source_root: Vec<PathBuf>,
    /// Read no source file: no comment ignores findings.
    #[arg(long, conflicts_with_all = ["source_root", "source"])]
    pub(crate) no_source: bool,
    /// What --source-root was called before.
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) source: Option<PathBuf>,
}

/// Arguments of `findings`.
#[derive(Args, Debug)]
pub(crate) struct FindingsArgs {
    #[command(flatten)]
    pub(crate) inputs: FindingsInputs,
    /// Show the page of one finding instead: what it is, what to do, when it is wrong. With --rules also one of your own.
    #[arg(long, value_name = "CODE", conflicts_with_all = ["top", "set", "document", "baseline", "ignore", "fail_on"])]
    pub(crate) explain: Option<String>,
    /// How many to show, 0 for all [default: 10; all with --as, and always all in JSON and CSV].
    #[arg(long, value_name = "N", value_parser = super::parse_count, allow_negative_numbers = true)]
    pub(crate) top: Option<usize>,
    /// Leave out what gains less than this much of a step, or of the peak of memory, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0.5", allow_negative_numbers = true)]
    pub(crate) min_gain: f64,
    /// Change when a rule fires, such as SL001.share=40; may be repeated. docs/findings lists the settings; rules of your own say
    /// theirs with --explain.
    #[arg(long, value_name = "CODE.NAME=NUMBER")]
    pub(crate) set: Vec<String>,
    /// Write a document for other tools.
    #[arg(long = "as", value_enum, conflicts_with = "format")]
    pub(crate) document: Option<Document>,
    /// Findings of an earlier run (--format json): what is new, gone, changed. What gains less than --min-gain, or is ignored, is
    /// neither: in either run.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Findings not to show, a line each: CODE, or CODE and a path where * stands for any text.
    #[arg(long, value_name = "FILE")]
    pub(crate) ignore: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) comments: CommentArgs,
    /// Rules of your own: a Python file, or entry-points for those of installed packages; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,
    /// How long each of them may take.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "30", allow_negative_numbers = true)]
    pub(crate) rule_timeout: f64,
    /// The Python with the package stackline that runs them [default: STACKLINE_PYTHON, else python3].
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) python: Option<PathBuf>,
    /// Exit with code 4 if this holds: 'gain>5%' (of any finding), 'together>10%', 'count>3', or new (with --baseline); for gain and
    /// new, what is of low confidence and perhaps nothing does not count. May be repeated. That none holds is an error where a part of the input was lost.
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_on: Vec<String>,
}

/// What is looked at; nothing where a page is shown.
#[derive(Args, Debug)]
pub(crate) struct FindingsInputs {
    /// Trace files, archives, directories of traces, run directories, or - for standard input.
    #[arg(value_name = "TRACE", required_unless_present = "explain")]
    pub(crate) inputs: Vec<PathBuf>,
}

/// A document for other tools.
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
        .ok_or_else(|| format!("{text:?} is no time; write seconds, up to 86400"))
}

pub(super) fn parse_percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim().trim_end_matches('%').trim_end().parse().ok();
    percent.filter(|p| (0.0..=100.0).contains(p)).ok_or_else(|| format!("{text:?} is no share; write 0 to 100"))
}
