//! What can be typed after `memory`.

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
    /// A memory snapshot of PyTorch (docs/reference/memory.md lists what else), packed with gzip or zstd or not, or - for
    /// standard input. Of several, or a folder of them: the ranks of a job beside each other, or growth over time.
    #[arg(value_name = "INPUT", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Of a recording of several processes this one, by its number (PID) or as the first line of the answer names it; without
    /// it that with the highest peak.
    #[arg(long, value_name = "PID")]
    pub(crate) process: Option<String>,
    /// So many peaks per device; between two of them memory falls by at least 5 % [default: 2].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) peaks: Option<u16>,
    /// What to sum by who is in use at the peaks [default: place].
    #[arg(long, value_enum)]
    pub(crate) by: Option<MemoryBy>,
    /// The objects in use at this peak (P1, P2), one by one.
    #[arg(long, value_name = "PEAK", conflicts_with_all = ["curve", "objects", "apply"])]
    pub(crate) at: Option<String>,
    /// Memory in use over time.
    #[arg(long, conflicts_with_all = ["objects", "apply"])]
    pub(crate) curve: bool,
    /// All objects, largest first.
    #[arg(long, conflicts_with = "apply")]
    pub(crate) objects: bool,
    /// The peaks if these suggestions were followed, by their numbers.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) apply: Vec<usize>,
    /// How many objects match each pattern by the rules of DrGPUM's artifact, beside ours.
    #[arg(long, value_enum, value_name = "RULES", conflicts_with_all = ["at", "curve", "objects", "apply"])]
    pub(crate) rules: Option<MemoryRules>,
    /// Change from when on something is a pattern, such as SL056.kernels=100, as `findings` does; may be repeated. docs/findings
    /// lists the settings.
    #[arg(long, value_name = "CODE.NAME=NUMBER")]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) gate: MemoryGateArgs,
}

impl MemoryArgs {
    /// Number of peaks per device.
    pub(crate) fn peaks(&self) -> usize {
        usize::from(self.peaks.unwrap_or(2))
    }

    /// What memory at the peaks is summed by.
    pub(crate) fn by(&self) -> By {
        self.by.unwrap_or(MemoryBy::Place).into()
    }
}

/// Findings for other tools, beside those of an earlier run, and what fails a build.
#[derive(Args, Debug)]
pub(crate) struct MemoryGateArgs {
    /// Write the findings (SL050 to SL060) as a document for other tools.
    #[arg(long = "as", value_enum, conflicts_with_all = ["format", "at", "curve", "objects", "apply", "rules"])]
    pub(crate) document: Option<Document>,
    /// Leave out findings that save less than this much of the peak, in percent [default: 0.5].
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, allow_negative_numbers = true)]
    pub(crate) min_gain: Option<f64>,
    /// The memory of an earlier run (--format json): what became of its peaks, which findings are new or gone.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["at", "curve", "objects", "apply", "rules"])]
    pub(crate) baseline: Option<PathBuf>,
    /// Findings not to show, a line each: CODE, or CODE and a path where * stands for any text.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["at", "curve", "objects", "apply", "rules"])]
    pub(crate) ignore: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) comments: CommentArgs,
    /// Exit with code 4 if this holds: 'peak>8GB', 'waste>10%' (of the peak, that is surely for nothing), 'count>3'; with
    /// --baseline 'peak>+2%' or 'peak>+100MiB' (above that of the earlier run), or new (but not what is of low confidence and
    /// perhaps nothing); may be repeated.
    #[arg(long, value_name = "CONDITION", conflicts_with_all = ["at", "curve", "objects", "apply", "rules"])]
    pub(crate) fail_on: Vec<String>,
    /// Let new and waste count what is of low confidence, too: on the host all is, for others than PyTorch may read its memory.
    #[arg(long, requires = "fail_on")]
    pub(crate) fail_on_guesses: bool,
}

impl MemoryGateArgs {
    /// Findings that save less than this much of the peak are left out, in percent.
    pub(crate) fn min_gain(&self) -> f64 {
        self.min_gain.unwrap_or(0.5)
    }
}

/// Rules to compare ours with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryRules {
    /// Those of DrGPUM's published artifact and paper.
    Drgpum,
}

/// What to sum memory by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryBy {
    /// The line of the program that allocated it.
    Place,
    /// The whole call path that allocated it.
    Path,
    /// What it is for: parameters, gradients and so on, where the source tells.
    Kind,
    /// The module that it belongs to.
    Module,
    /// In which phase of training it was allocated: forward, backward, optimizer, data, other.
    Phase,
    /// Its size, by powers of two.
    Size,
    /// The operator that made it.
    Operator,
    /// The type of its elements.
    Dtype,
    /// The allocator's pool.
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
