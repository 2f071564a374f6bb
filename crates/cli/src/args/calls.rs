//! What can be typed after `record` and `calls`.

use clap::{Args, ValueEnum};
use stackline_ingest::recording::LEAST_UNRECORDED_STEPS;
use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) const RECORD_EXAMPLE: &str =
    "The run directory is NAME.stackline for a script NAME.py (with a number, if that is taken), or what -o says.
The command runs as it does alone: same input, output, exit code and signals.

Examples:
  stackline record -- python train.py --epochs 1
  stackline record -o slow.stackline -- torchrun --nproc-per-node 2 train.py
  stackline record --memory --steps 10..20 -- python train.py
  stackline record --shapes --mode trace -- python train.py
  stackline record --without python --sample-hz 0 -- python train.py";

pub(crate) const CALLS_EXAMPLE: &str =
    "Patterns are regular expressions over `function file:line`, or the name of an operator, module or span.

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
    /// Leave these sources out, separated by commas: python (frames of Python), pytorch (all of PyTorch), compilations
    /// (when torch.compile compiles), kernels (names of kernels that it makes for the CPU).
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    pub(crate) without: Vec<String>,
    /// Record native frames, too: C and C++ between Python and operators.
    #[arg(long)]
    pub(crate) native: bool,
    /// Record how much memory tensors take, and where; with --mode trace each allocation, and which operators touch it.
    #[arg(long)]
    pub(crate) memory: bool,
    /// Tell operators apart by the shapes and types of their inputs.
    #[arg(long)]
    pub(crate) shapes: bool,
    /// How much to keep [default: profile].
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// Samples per second of CPU time of each thread; 0 takes none [default: 99].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    #[arg(allow_negative_numbers = true)]
    pub(crate) sample_hz: Option<u32>,
    /// Samples per second of wall-clock time of each thread, whether it runs or waits; 0 takes none [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    #[arg(allow_negative_numbers = true)]
    pub(crate) real_hz: Option<u32>,
    /// How often in a second to look where threads that run operators wait; 0 does not [default: 99; 0 with --real-hz or
    /// --sample-hz 0]. Only waits that the system goes on with are interrupted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    #[arg(allow_negative_numbers = true)]
    pub(crate) wait_hz: Option<u32>,
    /// Counters of the system and the processor, read with each sample: page-faults, major-faults, context-switches,
    /// cpu-migrations, cycles, instructions, cache-references, cache-misses, branches, branch-misses; 8 at most.
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub(crate) counters: Vec<String>,
    /// Only every N-th step; --steps A..B takes these only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub(crate) every: Option<u32>,
    /// Only after so much time: 30s, 500ms, 2m.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    pub(crate) after: Option<String>,
    /// Only for so long: 30s, 500ms, 2m.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) duration: Option<String>,
    /// Distinct call paths that the tree of a thread may have; what comes later is put into one node and counted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub(crate) max_nodes: Option<u32>,
    /// Steps that may go unrecorded to measure the overhead of recording: 24 or more, 0 measures none [default: 64]. Not measured with
    /// --mode trace, --memory, or where only a part of the program is recorded.
    #[arg(long, value_name = "N", value_parser = parse_overhead_steps, allow_negative_numbers = true)]
    pub(crate) overhead_steps: Option<u32>,
    /// The command to run, with its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// How much of a program to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The tree of calls, in memory that does not grow with time.
    Profile,
    /// Besides, each call with its time.
    Trace,
}

/// Checks a time; it is handed on as it was typed.
fn parse_time(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let known = ["", "s", "ms", "m", "min", "h"].contains(&&text[digits.len()..]);
    let number = digits.bytes().all(|c| c.is_ascii_digit() || c == b'.') && digits.parse::<f64>().is_ok();
    if text.starts_with('-') {
        return Err("a time is not negative; give seconds, or a time such as 30s, 500ms, 2m".to_owned());
    }
    if known && number { Ok(text.to_owned()) } else { Err("give seconds, or a time such as 30s, 500ms, 2m".to_owned()) }
}

/// Checks how long to record: no time at all would record nothing.
fn parse_duration(text: &str) -> Result<String, String> {
    let text = parse_time(text)?;
    if text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse() == Ok(0.0) {
        return Err("in no time nothing is recorded; give a time such as 30s, 500ms, 2m".to_owned());
    }
    Ok(text)
}

/// Checks how many steps may go unrecorded: with a few of them the overhead is never known, and they are lost all the same.
fn parse_overhead_steps(text: &str) -> Result<u32, String> {
    let steps = text.parse::<u32>().map_err(|error| error.to_string())?;
    if (1..LEAST_UNRECORDED_STEPS).contains(&steps) {
        return Err(format!(
            "{steps} steps are too few to tell the overhead; give {LEAST_UNRECORDED_STEPS} or more, or 0 to measure none"
        ));
    }
    Ok(steps)
}

/// Arguments of `calls`.
#[derive(Args, Debug)]
pub(crate) struct CallsArgs {
    /// The run directory that `record` made, or a profile (pprof, speedscope, collapsed stacks, Firefox); with --diff, two of them.
    #[arg(value_name = "RUN", required = true, num_args = 1..=2)]
    pub(crate) runs: Vec<PathBuf>,
    /// Which way to look [default: top-down].
    #[arg(long, value_enum)]
    pub(crate) view: Option<View>,
    /// The callers of all frames that match this pattern.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) callers_of: Option<String>,
    /// What to measure by: operator_time, call_time, cpu_time, real_time, wait_time, gc_time, allocated, freed, or the name of a
    /// counter [default: the first of these that the run has].
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    /// Split by this first; with --view flat, a row for each.
    #[arg(long, value_enum)]
    pub(crate) by: Option<By>,
    /// Only paths with a frame that matches this pattern.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) focus: Option<String>,
    /// Leave frames that match this pattern out: what they call stands below their callers.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) hide: Option<String>,
    /// Show what imports of modules ran. By default each is one row, "import of modules".
    #[arg(long)]
    pub(crate) imports: bool,
    /// Only so many levels; 0 means all [default: 0].
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<usize>,
    /// Only so many rows, the largest ones and what leads to them; 0 means all [default: 40 with --format table].
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Lines of the source with their costs.
    #[arg(long, conflicts_with_all = ["view", "callers_of", "by", "hide", "depth", "diff"])]
    pub(crate) lines: bool,
    /// With --lines, read source text below this directory, links resolved; may be repeated. Without it, only below inputs that
    /// are directories: a recording may name any file.
    #[arg(long, value_name = "DIR", requires = "lines")]
    pub(crate) source_root: Vec<PathBuf>,
    /// Compare two runs: what changed from the first to the second, function by function.
    #[arg(long)]
    pub(crate) diff: bool,
}

/// Which way to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// From the start of threads to what they called.
    TopDown,
    /// From what was hit to its callers.
    BottomUp,
    /// Each function and operator once.
    Flat,
    /// From the frames that --callers-of names to their callers.
    Callers,
}

/// What to split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Threads.
    Thread,
    /// Processes.
    Process,
    /// Ranks of a distributed job.
    Rank,
    /// Backward, communication, optimizer, and the rest.
    Phase,
    /// Operators (the innermost of a path).
    Operator,
    /// Operators with the shapes and types of their inputs, as `record --shapes` knows them (the innermost).
    Shapes,
    /// Instances of modules (the innermost).
    Module,
    /// Spans that the program named (the innermost).
    Span,
    /// Python functions (the innermost).
    Function,
    /// Python files (of the innermost function).
    File,
}

#[cfg(test)]
mod tests {
    use super::{parse_duration, parse_overhead_steps};

    #[test]
    fn options_that_would_record_nothing_or_measure_nothing_are_refused() {
        assert!(["0", "0s", "0.0ms", "-1s", "3 parsecs"].iter().all(|text| parse_duration(text).is_err()));
        assert!(["0.5", "10s", "2m"].iter().all(|text| parse_duration(text).is_ok()));
        assert!(["1", "23", "-4", "many"].iter().all(|text| parse_overhead_steps(text).is_err()));
        assert!(["0", "24", "400"].iter().all(|text| parse_overhead_steps(text).is_ok()));
    }
}
