//! Generated recording: the streams of `stackline record` for a small training program.
//!
//! Each rank has a main thread (Python, operators, a few native frames and CPU samples), autograd's thread, whose
//! operators are shown below their forward operators, and optionally a worker that loads data.

mod script;
mod tree;
mod writer;

pub use tree::tree;

use crate::rng::Rng;
use stackline_recording::{Metric, Process, Role};
use writer::StreamWriter;

/// Options of the generated recording.
#[derive(Debug, Clone)]
pub struct Config {
    /// Seed of small variations of all times.
    pub seed: u64,
    /// Number of training steps.
    pub steps: u64,
    /// Number of training processes.
    pub ranks: u32,
    /// True if each of them forks a worker that loads data.
    pub worker: bool,
    /// True if the last process was killed: its stream has no end.
    pub killed: bool,
    /// Slowdown of the model's feed-forward layer as a factor, for comparisons of runs.
    pub slower: u64,
    /// True if operators are distinguished by the shapes of their inputs.
    pub shapes: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { seed: 1, steps: 10, ranks: 1, worker: true, killed: false, slower: 1, shapes: false }
    }
}

/// Recorder streams of all processes: file name and bytes of each. The same configuration gives the same bytes.
#[must_use]
pub fn streams(config: &Config) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for rank in 0..config.ranks {
        let pid = 4000 + 10 * rank;
        let lasted = |killed: bool| {
            (!(killed && config.killed && rank + 1 == config.ranks)).then_some(config.steps * 10_000_000)
        };
        files.push((format!("{pid}-0.slr"), training(config, rank, pid, lasted(!config.worker))));
        if config.worker {
            files.push((format!("{}-0.slr", pid + 1), loading(config, rank, pid, lasted(true))));
        }
    }
    files
}

/// Record of a process of the generated recording.
fn process(config: &Config, rank: u32, pid: u32, parent_pid: u32, role: Role) -> Process {
    Process {
        pid,
        parent_pid,
        start_unix_ns: 1_760_000_000_000_000_000
            + i64::from(rank) * 1_000_000
            + i64::from(role != Role::Main) * 40_000_000,
        start_monotonic_ns: 7_000_000_000_000,
        role,
        rank: (config.ranks > 1).then_some(rank),
        command: ["python", "train.py", "--steps"]
            .map(str::to_owned)
            .into_iter()
            .chain([config.steps.to_string()])
            .collect(),
        python: "3.11.7".to_owned(),
        torch: "2.15.0".to_owned(),
        recorder: "0.1.0".to_owned(),
    }
}

/// Recorder stream of a training process.
fn training(config: &Config, rank: u32, pid: u32, lasted_ns: Option<u64>) -> Vec<u8> {
    let mut stream = StreamWriter::new(process(config, rank, pid, pid - 1, Role::Main));
    stream.source("python", true, "CPython 3.11.7, frames read raw");
    stream.source("torch", true, "PyTorch 2.15.0, operators by callback");
    let main = stream.thread(pid, 1, "python");
    let autograd = stream.thread(pid + 5, 2, "pt_autograd_0");
    let mut rng = Rng::new(config.seed ^ u64::from(rank) << 32);
    for _ in 0..config.steps {
        for call in script::STEP {
            let slow = if call.path.contains("feed_forward") { config.slower } else { 1 };
            let thread = if call.path.contains("backward:") { autograd } else { main };
            let path = if config.shapes { script::with_input_shapes(call.path) } else { call.path.to_owned() };
            let node = stream.path(thread, &path);
            let own = rng.jitter(call.ns, 20).max(1).cast_unsigned() * slow;
            stream.add(thread, node, Metric::OperatorTime, own);
            stream.add(thread, node, Metric::CallTime, own + call.below_ns.cast_unsigned() * slow);
            if call.bytes > 0 {
                stream.add(thread, node, Metric::Allocated, call.bytes);
            }
        }
        for sample in script::SAMPLES {
            let node = stream.path(main, sample);
            stream.add(main, node, Metric::CpuTime, 10_101_010);
        }
    }
    stream.end(lasted_ns)
}

/// Recorder stream of a process that loads data.
fn loading(config: &Config, rank: u32, pid: u32, lasted_ns: Option<u64>) -> Vec<u8> {
    let mut stream = StreamWriter::new(process(config, rank, pid + 1, pid, Role::Fork));
    stream.source("python", true, "CPython 3.11.7, frames read raw");
    let thread = stream.thread(pid + 1, 1, "python");
    let mut rng = Rng::new(config.seed ^ u64::from(rank) << 40);
    for _ in 0..config.steps {
        for call in script::LOADING {
            let node = stream.path(thread, call.path);
            let own = rng.jitter(call.ns, 20).max(1).cast_unsigned();
            stream.add(thread, node, Metric::OperatorTime, own);
            stream.add(thread, node, Metric::CallTime, own);
        }
    }
    stream.end(lasted_ns)
}

#[cfg(test)]
mod tests {
    use super::{Config, streams};
    use stackline_recording::{Reader, Record};

    #[test]
    fn equal_configurations_give_equal_streams() {
        let files = streams(&Config::default());
        assert_eq!(files, streams(&Config::default()));
        for (name, file) in &files {
            let mut reader = Reader::new(file).unwrap();
            let last = reader.by_ref().last();
            assert!(matches!(last, Some(Record::End { .. })), "{name}");
            assert!(reader.damage().is_none());
        }
        let killed = streams(&Config { killed: true, ..Config::default() });
        let (_, file) = killed.last().unwrap();
        let mut reader = Reader::new(file).unwrap();
        assert!(!reader.by_ref().any(|record| matches!(record, Record::End { .. })));
        assert!(reader.damage().is_none(), "a process that is killed between two writes leaves whole chunks");
    }
}
