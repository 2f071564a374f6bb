//! Command-line arguments of `stackline record` and `stackline calls`.

use clap::{Args, ValueEnum};
use stackline_ingest::recording::LEAST_UNRECORDED_STEPS;
use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) const RECORD_EXAMPLE: &str =
    "The recording of a script NAME.py is written to the directory NAME.stackline (NAME-2.stackline if that exists), or
to the path given by -o. The input, output, exit code and signals of the command stay the same.

Examples:
  stackline record -- python train.py --epochs 1
  stackline record -o slow.stackline -- torchrun --nproc-per-node 2 train.py
  stackline record --memory --steps 10..20 -- python train.py
  stackline record --shapes --mode trace -- python train.py
  stackline record --disable python --sample-hz 0 -- python train.py";

pub(crate) const CALLS_EXAMPLE: &str =
    "Patterns are regular expressions. A pattern is searched for in `function file:line` of each frame, and in the name
of each operator, module and span.

Examples:
  stackline calls train.stackline
  stackline calls train.stackline --view flat --top 20
  stackline calls train.stackline --callers-of '^aten::copy_$'
  stackline calls train.stackline --by phase --depth 3
  stackline calls train.stackline --by shapes --view flat
  stackline calls train.stackline --focus attention --hide 'site-packages'
  stackline calls train.stackline --lines --metric cpu_time
  stackline calls --diff before.stackline after.stackline
  stackline calls train.stackline --format json --output calls.json";

/// Arguments of `record`.
#[derive(Args, Debug)]
pub(crate) struct RecordArgs {
    /// Do not record these data sources, separated by commas: python (Python frames), pytorch (all PyTorch data),
    /// compilations (of torch.compile), kernels (names of CPU kernels that torch.compile generates).
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    pub(crate) disable: Vec<String>,
    /// Former name of --disable.
    #[arg(long, value_name = "SOURCES", value_delimiter = ',', hide = true, conflicts_with = "disable")]
    pub(crate) without: Vec<String>,
    /// Record native (C and C++) frames between Python frames and operators.
    #[arg(long)]
    pub(crate) native: bool,
    /// Record the memory that tensors allocate, per call path. With --mode trace, also record each allocation and the
    /// operators that access it.
    #[arg(long)]
    pub(crate) memory: bool,
    /// Record the input shapes and types of operators, and list calls with different shapes or types separately.
    #[arg(long)]
    pub(crate) shapes: bool,
    /// Level of detail of the recording [default: profile].
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// Sampling rate by CPU time, in Hz: a thread is sampled only while it runs on a CPU. 0 disables it [default: 99].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    #[arg(allow_negative_numbers = true)]
    pub(crate) sample_hz: Option<u32>,
    /// Sampling rate by wall time, in Hz: each thread is sampled, whether it runs or is blocked. 0 disables it
    /// [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    #[arg(allow_negative_numbers = true)]
    pub(crate) wall_hz: Option<u32>,
    /// Former name of --wall-hz.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    #[arg(allow_negative_numbers = true, hide = true, conflicts_with = "wall_hz")]
    pub(crate) real_hz: Option<u32>,
    /// Sampling rate for blocked threads that run operators, in Hz; 0 disables it [default: 99; 0 with --wall-hz or
    /// --sample-hz 0]. A thread is sampled only in system calls that Linux restarts after a signal, such as waits on
    /// locks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    #[arg(allow_negative_numbers = true)]
    pub(crate) wait_hz: Option<u32>,
    /// Read these performance counters with each sample, at most 8, separated by commas: page-faults, major-faults,
    /// context-switches, cpu-migrations, cycles, instructions, cache-references, cache-misses, branches, branch-misses.
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub(crate) counters: Vec<String>,
    /// Record only every N-th step; with --steps A..B, every N-th step of that range.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub(crate) every: Option<u32>,
    /// Start recording this long after the start of the program: 30s, 500ms, 2m.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    pub(crate) after: Option<String>,
    /// Record for this long, counted from the start of the program or from --after: 30s, 500ms, 2m.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) duration: Option<String>,
    /// Maximum number of distinct call paths in the call tree of each thread [default: 1048576]. Calls with any other
    /// call path are counted together in one node.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub(crate) max_nodes: Option<u32>,
    /// Maximum number of steps to leave unrecorded, so that their times show the overhead of recording: 24 or more, or 0
    /// for no measurement [default: 64]. The overhead is not measured with --mode trace or --memory, or if only a part
    /// of the program is recorded.
    #[arg(long, value_name = "N", value_parser = parse_overhead_steps, allow_negative_numbers = true)]
    pub(crate) overhead_steps: Option<u32>,
    /// The command to run, with its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// Level of detail of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The call tree, in bounded memory.
    Profile,
    /// Also record every call with timestamps.
    Trace,
}

/// Check a point in time or a duration, such as `30s` or `500ms`, and return it as typed.
fn parse_time(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let known = ["", "s", "ms", "m", "min", "h"].contains(&&text[digits.len()..]);
    let number = digits.bytes().all(|c| c.is_ascii_digit() || c == b'.') && digits.parse::<f64>().is_ok();
    if text.starts_with('-') {
        return Err("a time cannot be negative; give seconds, or a time such as 30s, 500ms, 2m".to_owned());
    }
    if known && number { Ok(text.to_owned()) } else { Err("give seconds, or a time such as 30s, 500ms, 2m".to_owned()) }
}

/// Check a recording duration, such as `30s` or `2m`, and return it as typed. Zero is refused.
fn parse_duration(text: &str) -> Result<String, String> {
    let text = parse_time(text)?;
    if text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse() == Ok(0.0) {
        return Err("a duration of 0 records no data; give a time such as 30s, 500ms, 2m".to_owned());
    }
    Ok(text)
}

/// Parse the number of steps to leave unrecorded in order to measure the recording overhead. 0 disables the
/// measurement; too few steps are refused.
fn parse_overhead_steps(text: &str) -> Result<u32, String> {
    let steps = text.parse::<u32>().map_err(|error| error.to_string())?;
    if (1..LEAST_UNRECORDED_STEPS).contains(&steps) {
        return Err(format!(
            "{steps} steps are too few to measure the overhead of recording; give {LEAST_UNRECORDED_STEPS} or more, or \
             0 to disable the measurement"
        ));
    }
    Ok(steps)
}

/// Arguments of `calls`.
#[derive(Args, Debug)]
pub(crate) struct CallsArgs {
    /// Run directory that `stackline record` wrote, or a profile (pprof, speedscope, collapsed stacks, Firefox). With
    /// --diff: first the run before, then the run after.
    #[arg(value_name = "RUN", required = true, num_args = 1..=2)]
    pub(crate) runs: Vec<PathBuf>,
    /// View of the call tree [default: top-down].
    #[arg(long, value_enum)]
    pub(crate) view: Option<View>,
    /// Show the callers of all frames that match this pattern.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) callers_of: Option<String>,
    /// Metric to show: operator_time, call_time, cpu_time, real_time, wait_time, gc_time, allocated, freed, or the name
    /// of a counter [default: the first of these that the run contains].
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    /// Split the call tree at its top level by this property. With --view flat, each value of the property gets a row.
    #[arg(long, value_enum)]
    pub(crate) by: Option<By>,
    /// Show only call paths that contain a frame matching this pattern.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) focus: Option<String>,
    /// Hide frames that match this pattern, and show their callees under the callers of the hidden frames.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) hide: Option<String>,
    /// Show the frames of Python imports. By default the frames of each import are combined into one row, "import of
    /// modules".
    #[arg(long)]
    pub(crate) imports: bool,
    /// Maximum depth of the tree; 0 means no limit [default: 0].
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<usize>,
    /// Maximum number of rows: those with the largest values, and their ancestors in the tree; 0 shows all [default: 40
    /// with --format table].
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Show source lines with their costs.
    #[arg(long, conflicts_with_all = ["view", "callers_of", "by", "hide", "depth", "diff"])]
    pub(crate) lines: bool,
    /// With --lines, also show source text of files below this directory; may be repeated. By default only files in the
    /// input directories are read, because a recording may name any file of this machine. The target of a symbolic link
    /// must also be in one of these directories.
    #[arg(long, value_name = "DIR", requires = "lines")]
    pub(crate) source_root: Vec<PathBuf>,
    /// Compare two runs function by function.
    #[arg(long)]
    pub(crate) diff: bool,
}

/// Direction or form in which the call tree is shown: top-down, bottom-up, flat, or the callers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// Tree from the entry of each thread down to callees.
    TopDown,
    /// Tree from the frames with measured values up to their callers.
    BottomUp,
    /// Each function and operator in one row.
    Flat,
    /// Tree from the frames that match --callers-of up to their callers.
    Callers,
}

/// Property by which the call tree is grouped, such as thread, rank, phase or operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Threads.
    Thread,
    /// Processes.
    Process,
    /// Ranks of a distributed job.
    Rank,
    /// Training phases: backward, communication, optimizer, and the rest.
    Phase,
    /// Operators (the innermost of each call path).
    Operator,
    /// Operators by input shapes and types, recorded with `record --shapes` (the innermost of each call path).
    Shapes,
    /// Instances of nn.Module (the innermost of each call path).
    Module,
    /// Named spans of the program (the innermost of each call path).
    Span,
    /// Python functions (the innermost of each call path).
    Function,
    /// Python files (of the innermost function of each call path).
    File,
}

#[cfg(test)]
mod tests {
    use super::{parse_duration, parse_overhead_steps};

    #[test]
    fn options_that_record_or_measure_nothing_are_refused() {
        assert!(["0", "0s", "0.0ms", "-1s", "3 parsecs"].iter().all(|text| parse_duration(text).is_err()));
        assert!(["0.5", "10s", "2m"].iter().all(|text| parse_duration(text).is_ok()));
        assert!(["1", "23", "-4", "many"].iter().all(|text| parse_overhead_steps(text).is_err()));
        assert!(["0", "24", "400"].iter().all(|text| parse_overhead_steps(text).is_ok()));
    }
}
