//! Recording options of a recorded process, read from environment variables, which child processes inherit.

use crate::process::ExtraData;
use crate::samples::Rates;
use crate::window::Selection;
use stackline_recording::{BEGIN, Begin};
use std::path::PathBuf;

/// Path of the run directory. The recording is enabled if this is set.
pub const RUN: &str = "STACKLINE_RECORD";

/// Highest sampling rate in Hz: at higher rates sampling takes most of the program's time.
const MAX_HZ: u32 = 10_000;

/// Default size limit of individual calls in bytes, for about 400 million calls.
const TRACE_LIMIT: u64 = 4 << 30;

/// Recording options of one process, read from its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Run directory.
    pub(crate) run: PathBuf,
    /// True if Python frames are read.
    pub(crate) python: bool,
    /// True if native frames are read.
    pub(crate) native: bool,
    /// True if operators of `PyTorch` are recorded.
    pub(crate) pytorch: bool,
    /// True if compilations by `torch.compile` are recorded.
    pub(crate) compilations: bool,
    /// True if CPU kernels of `torch.compile` are given names, so that they are recorded.
    pub(crate) kernels: bool,
    /// True if allocations of tensors are recorded.
    pub(crate) memory: bool,
    /// True if operators are distinguished by shapes and types of their inputs.
    pub(crate) shapes: bool,
    /// True if individual calls are recorded in addition to the tree.
    pub(crate) trace: bool,
    /// Recorded part of the program.
    pub(crate) window: Selection,
    /// Begin of the recording of all processes, in ns of the monotonic clock; `None` if it is not set or comes from
    /// another machine.
    pub(crate) begin_ns: Option<i64>,
    /// Number of steps that may run unrecorded to measure the overhead.
    pub(crate) overhead_steps: u64,
    /// Size limit of individual calls per stream, in bytes.
    pub(crate) trace_limit: u64,
    /// Largest number of nodes of a tree.
    pub(crate) max_nodes: Option<u32>,
    /// Rank in a distributed job.
    pub(crate) rank: Option<u32>,
    /// Sampling rates.
    pub(crate) samples: Rates,
    /// Counters that are read with samples, by their index in [`stackline_recording::COUNTERS`].
    pub(crate) counters: Vec<u16>,
}

impl Options {
    /// Options of the environment; `None` if recording is off.
    pub(crate) fn from_environment() -> Option<Self> {
        Self::from(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// Kinds of data to record in addition to times by call path: calls, memory, shapes, frames.
    pub(crate) fn extra_data(&self) -> ExtraData {
        let Self { trace, memory, shapes, python, native, .. } = *self;
        ExtraData { trace, memory, shapes, python, native }
    }

    /// Options of the environment variables that `variable` returns by name; `None` without a run directory.
    pub(crate) fn from(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let run = variable(RUN).filter(|run| !run.is_empty())?;
        let hz = |name: &str, default: u32| {
            variable(name).and_then(|value| value.parse().ok()).unwrap_or(default).min(MAX_HZ)
        };
        // Former names of variables apply if the new ones are not set.
        let named = |new: &'static str, old: &'static str| if variable(new).is_some() { new } else { old };
        let (cpu, wall) = (hz("STACKLINE_SAMPLE_HZ", 99), hz(named("STACKLINE_WALL_HZ", "STACKLINE_REAL_HZ"), 0));
        let disabled = variable(named("STACKLINE_DISABLE", "STACKLINE_WITHOUT")).unwrap_or_default();
        let with = |name: &str| !disabled.split(',').any(|source| source == name);
        let memory = variable("STACKLINE_MEMORY").is_some_and(|value| value == "1");
        let number = |name: &str| variable(name).and_then(|value| value.parse::<u64>().ok());
        Some(Self {
            run: PathBuf::from(run),
            python: with("python"),
            native: variable("STACKLINE_NATIVE").is_some_and(|value| value == "1"),
            pytorch: with("pytorch"),
            compilations: with("compilations"),
            kernels: with("kernels"),
            memory,
            shapes: variable("STACKLINE_SHAPES").is_some_and(|value| value == "1"),
            trace: variable("STACKLINE_MODE").is_some_and(|mode| mode == "trace"),
            window: window(&variable),
            begin_ns: variable(BEGIN).and_then(|text| Begin::parse(&text)).and_then(Begin::begin_on_this_clock),
            // Memory owners must be known for the whole run.
            overhead_steps: if memory {
                0
            } else {
                number("STACKLINE_OVERHEAD_STEPS").unwrap_or(crate::overhead::BUDGET)
            },
            trace_limit: variable("STACKLINE_TRACE_LIMIT").and_then(|value| value.parse().ok()).unwrap_or(TRACE_LIMIT),
            max_nodes: variable("STACKLINE_MAX_NODES").and_then(|value| value.parse().ok()),
            rank: variable("RANK").and_then(|value| value.parse().ok()),
            samples: Rates { cpu, wall, waits: hz("STACKLINE_WAIT_HZ", if cpu == 0 || wall > 0 { 0 } else { 99 }) },
            counters: crate::samples::counters::parse(&variable("STACKLINE_COUNTERS").unwrap_or_default()),
        })
    }
}

/// Parse the options of the recorded window (steps and times). The launcher checks the values before it starts a
/// program; invalid values mean no limit.
fn window(variable: &impl Fn(&str) -> Option<String>) -> Selection {
    let [steps, every, after, duration] =
        ["STACKLINE_STEPS", "STACKLINE_EVERY", "STACKLINE_AFTER", "STACKLINE_DURATION"].map(variable);
    Selection::parse(steps.as_deref(), every.as_deref(), after.as_deref(), duration.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, Begin, Options};
    use crate::samples::Rates;
    use stackline_recording::boot;

    #[test]
    fn options_are_read_from_the_environment() {
        let read = |pairs: &[(&str, &str)]| {
            Options::from(|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()))
        };
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("STACKLINE_RECORD", "")]), None);
        let options =
            read(&[("STACKLINE_RECORD", "/r"), ("STACKLINE_DISABLE", "native,python"), ("RANK", "3")]).unwrap();
        assert!(!options.python && options.pytorch && options.compilations && options.kernels);
        assert_eq!((options.rank, options.max_nodes), (Some(3), None));
        assert_eq!(options.samples, Rates { cpu: 99, wall: 0, waits: 99 });
        let options =
            read(&[("STACKLINE_RECORD", "/r"), ("STACKLINE_SAMPLE_HZ", "0"), ("STACKLINE_WALL_HZ", "999999")]).unwrap();
        assert_eq!(options.samples, Rates { cpu: 0, wall: 10_000, waits: 0 });
        assert_eq!(options.begin_ns, None);
        let former = [("STACKLINE_RECORD", "/r"), ("STACKLINE_REAL_HZ", "50"), ("STACKLINE_WITHOUT", "python")];
        let options = read(&former).unwrap();
        assert!(options.samples.wall == 50 && !options.python && options.pytorch, "former names");
        let options = read(&[&former[..], &[("STACKLINE_WALL_HZ", "0"), ("STACKLINE_DISABLE", "")]].concat()).unwrap();
        assert!(options.samples.wall == 0 && options.python, "new names come first");
        let begin_ns = |text: &str| read(&[("STACKLINE_RECORD", "/r"), (BEGIN, text)]).unwrap().begin_ns;
        let boot = boot().unwrap();
        let text_of = |boot| Begin { monotonic_ns: 12_345_678_901, boot }.to_string();
        assert_eq!(begin_ns(&text_of(boot)), Some(12_345_678_901));
        assert_eq!(begin_ns(&text_of(!boot)), None, "of another machine");
        assert_eq!(begin_ns("12345678901"), None);
        let options = read(&[("STACKLINE_RECORD", "/r"), ("STACKLINE_SAMPLE_HZ", "0")]).unwrap();
        assert_eq!(options.samples, Rates { cpu: 0, wall: 0, waits: 0 });
        let options =
            read(&[("STACKLINE_RECORD", "/r"), ("STACKLINE_SAMPLE_HZ", "0"), ("STACKLINE_WAIT_HZ", "20")]).unwrap();
        assert_eq!(options.samples, Rates { cpu: 0, wall: 0, waits: 20 });
    }
}
