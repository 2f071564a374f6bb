//! Command-line arguments of `stackline memory`.

use super::findings::{CommentArgs, Document, parse_percent};
use clap::{Args, ValueEnum};
use stackline_memory::tables::By;
use std::path::PathBuf;

pub(crate) const MEMORY_EXAMPLE: &str = "Examples:
  stackline memory snapshot.pickle
  stackline memory snapshot.pickle --by path --peaks 1
  stackline memory snapshot.pickle --at P2
  stackline memory snapshot.pickle --curve --format csv --output curve.csv
  stackline memory snapshots/ --rank 3
  stackline memory program.memory --apply 1,3
  stackline memory program.memory --rules drgpum
  stackline memory run.stackline --as sarif -o memory.sarif
  stackline memory run.stackline --format json -o before.json
  stackline memory new.stackline --baseline before.json --fail-on 'peak>+2%' --fail-on new";

/// Arguments of `memory`.
#[derive(Args, Debug)]
pub(crate) struct MemoryArgs {
    /// PyTorch memory snapshot or another memory file (docs/reference/memory.md), also compressed with gzip or zstd, or
    /// standard input (-). Several files or a directory: compare the ranks of a job, or the growth of memory over time.
    #[arg(value_name = "INPUT", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Select one process of a multi-process recording by PID, or by the name that the first line of the output shows
    /// [default: the process with the highest peak].
    #[arg(long, value_name = "PID")]
    pub(crate) process: Option<String>,
    /// Number of memory peaks to show per device; two peaks are separate if memory falls by at least 5 % between them
    /// [default: 2].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) peaks: Option<u16>,
    /// Group the memory that is live at each peak by this property [default: place].
    #[arg(long, value_enum)]
    pub(crate) by: Option<MemoryBy>,
    /// List the memory objects that are live at this peak, such as P1 or P2.
    #[arg(long, value_name = "PEAK", conflicts_with_all = ["curve", "objects", "apply"])]
    pub(crate) at: Option<String>,
    /// Print live memory over time.
    #[arg(long, conflicts_with_all = ["objects", "apply"])]
    pub(crate) curve: bool,
    /// List all memory objects (allocations), largest first.
    #[arg(long, conflicts_with = "apply")]
    pub(crate) objects: bool,
    /// Predict the memory peaks if the suggestions with these numbers were applied.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) apply: Vec<usize>,
    /// Count the memory objects that match each waste pattern, both by the rules of another tool and by Stackline's.
    #[arg(long, value_enum, value_name = "RULES", conflicts_with_all = ["at", "curve", "objects", "apply"])]
    pub(crate) rules: Option<MemoryRules>,
    /// Change a threshold of a memory rule, such as SL056.kernels=100; may be repeated. docs/findings lists the
    /// thresholds.
    #[arg(long, value_name = "CODE.NAME=NUMBER")]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) gate: MemoryGateArgs,
}

impl MemoryArgs {
    /// Number of memory peaks to show per device; 2 by default.
    pub(crate) fn peaks(&self) -> usize {
        usize::from(self.peaks.unwrap_or(2))
    }

    /// Property by which live memory at the peaks is grouped; by default, the source line of the allocation.
    pub(crate) fn by(&self) -> By {
        self.by.unwrap_or(MemoryBy::Place).into()
    }
}

/// Options for findings documents, comparison with an earlier run, and build gates.
#[derive(Args, Debug)]
pub(crate) struct MemoryGateArgs {
    /// Write the findings (SL050 to SL060) as Markdown, SARIF or JUnit XML, for pull requests, editors or build
    /// servers.
    #[arg(long = "as", value_enum, conflicts_with_all = ["format", "at", "curve", "objects", "apply", "rules"])]
    pub(crate) document: Option<Document>,
    /// Omit findings that save less than this percentage of the peak [default: 0.5].
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, allow_negative_numbers = true)]
    pub(crate) min_gain: Option<f64>,
    /// Compare with an earlier run, saved with `memory --format json`: change of each peak, new and gone findings.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["at", "curve", "objects", "apply", "rules"])]
    pub(crate) baseline: Option<PathBuf>,
    /// Ignore the findings listed in this file, one per line: CODE, or CODE and a path where * matches any text.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["at", "curve", "objects", "apply", "rules"])]
    pub(crate) ignore: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) comments: CommentArgs,
    /// Exit with code 4 if a condition holds: 'peak>8GB', 'waste>10%' (lower bound of the wasted share of the peak),
    /// 'count>3' (number of findings); may be repeated. With --baseline also 'peak>+2%' or 'peak>+100MiB' (above the
    /// earlier peak), or new (a finding that is not in the baseline). Condition new does not count findings of low
    /// confidence if the lower bound of their saving is 0.
    #[arg(long, value_name = "CONDITION", conflicts_with_all = ["at", "curve", "objects", "apply", "rules"])]
    pub(crate) fail_on: Vec<String>,
    /// Include findings of low confidence in the --fail-on conditions new and waste. Findings on host memory always
    /// have low confidence, because code outside of PyTorch may read that memory.
    #[arg(long, requires = "fail_on")]
    pub(crate) fail_on_guesses: bool,
}

impl MemoryGateArgs {
    /// Threshold in percent of the peak below which findings are omitted; 0.5 by default.
    pub(crate) fn min_gain(&self) -> f64 {
        self.min_gain.unwrap_or(0.5)
    }
}

/// Rules of another tool, whose matches per waste pattern are compared with those of Stackline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryRules {
    /// Rules of DrGPUM's published artifact and paper.
    Drgpum,
}

/// Property by which live memory is grouped, such as source line, module, phase or size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryBy {
    /// Source line of the allocation.
    Place,
    /// Call path of the allocation.
    Path,
    /// Kind: parameters, gradients and so on, if the input contains it.
    Kind,
    /// Module that owns the object.
    Module,
    /// Training phase of the allocation: forward, backward, optimizer, data, other.
    Phase,
    /// Size, by powers of two.
    Size,
    /// Operator that allocated the object.
    Operator,
    /// Element type.
    Dtype,
    /// Pool of the allocator.
    Pool,
}

impl From<MemoryBy> for By {
    fn from(by: MemoryBy) -> Self {
        match by {
            MemoryBy::Place => Self::Place,
            MemoryBy::Path => Self::Path,
            MemoryBy::Kind => Self::Kind,
            MemoryBy::Module => Self::Module,
            MemoryBy::Phase => Self::Phase,
            MemoryBy::Size => Self::Size,
            MemoryBy::Operator => Self::Operator,
            MemoryBy::Dtype => Self::Dtype,
            MemoryBy::Pool => Self::Pool,
        }
    }
}
