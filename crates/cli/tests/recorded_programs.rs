//! Programs that know nothing of Stackline (`programs/foreign`), alone and recorded: same output, same bits, same exit
//! code, and as many calls of each operator as PyTorch's own profiler counts.

#![cfg(target_os = "linux")]
use crate::common;

use common::{recorder, stackline, torch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// All options of the recorder at once.
const EVERYTHING: &[&str] = &["--native", "--mode", "trace", "--shapes", "--memory"];

type Counts = BTreeMap<String, i64>;

/// A program, and how it is started.
struct Foreign<'a> {
    python: &'a Path,
    /// The file, after the options of Python that start it.
    command: Vec<String>,
    /// Ranks write in any order, and their launcher writes times.
    is_job: bool,
}

impl<'a> Foreign<'a> {
    fn new(python: &'a Path, name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/foreign").join(name);
        Self { python, command: vec![file.to_str().unwrap().to_owned()], is_job: false }
    }

    /// Run the program as a job of two ranks.
    fn of_ranks(mut self) -> Self {
        let job = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"];
        self.command = job.into_iter().map(str::to_owned).chain(self.command).collect();
        self.is_job = true;
        self
    }

    /// Run the program. PyTorch 2.15 aborts some jobs of gloo at their end, with or without a recorder: these run again.
    fn run(&self, start: impl Fn() -> Command, environment: &[(&str, &str)]) -> Output {
        let attempts = if self.is_job { 8 } else { 1 };
        let mut outputs = (0..attempts).map(|_| {
            let mut command = start();
            // Whatever network interface the machine has, gloo shall use its own.
            command.args(&self.command).env("OMP_NUM_THREADS", "1").env("GLOO_SOCKET_IFNAME", "lo");
            for inherited in ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"] {
                command.env_remove(inherited);
            }
            command.envs(environment.iter().copied()).output().unwrap()
        });
        let is_aborted = |output: &Output| {
            String::from_utf8_lossy(&output.stderr).contains("terminate called without an active exception")
        };
        outputs.find(|output| !self.is_job || !is_aborted(output)).expect("each of several jobs aborted at its end")
    }

    fn alone(&self, environment: &[(&str, &str)]) -> Output {
        self.run(|| Command::new(self.python), environment)
    }

    fn recorded(&self, options: &[&str], run: &Path, environment: &[(&str, &str)]) -> Output {
        let end = ["-o", run.to_str().unwrap(), "--", self.python.to_str().unwrap()];
        let start = || {
            // Of an aborted job.
            let _ = std::fs::remove_dir_all(run);
            let mut command = stackline(&[&["record"], options, &end].concat());
            command.env("STACKLINE_RECORDER", recorder());
            command
        };
        self.run(start, environment)
    }

    /// Output of the program itself.
    fn outcome(&self, output: &Output) -> (Option<i32>, Vec<String>, Vec<String>) {
        let lines = |bytes: &[u8]| -> Vec<String> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            text.lines().filter(|line| !line.starts_with("stackline:")).map(without_time).collect()
        };
        let (mut out, mut err) = (lines(&output.stdout), lines(&output.stderr));
        if self.is_job {
            out.sort();
            err.clear();
        }
        (output.status.code(), out, err)
    }
}

/// A line of PyTorch's log (`W1126 08:54:51.670000 5394 file.py:1] text`) has a time and the number of the process.
fn without_time(line: &str) -> String {
    let is_log = line.starts_with(['W', 'I', 'E']) && line.get(1..5).is_some_and(|day| day.parse::<u32>().is_ok());
    let words = if is_log { 3 } else { 0 };
    line.splitn(words + 1, ' ').last().unwrap_or_default().to_owned()
}

/// Calls per operator in a recording: of all processes of a job, otherwise of the one that no other started.
fn counts(run: &Path, is_job: bool) -> Counts {
    let output = common::run(
        &[
            &["calls", run.to_str().unwrap(), "--format", "json", "--metric", "call_time"][..],
            &["--top", "0", "--by", "process"],
        ]
        .concat(),
    );
    if String::from_utf8_lossy(&output.stderr).contains("this run has no metric \"call_time\"") {
        return Counts::new();
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let processes = document["recording"]["processes"].as_array().unwrap();
    assert!(processes.iter().all(|process| process["lost"] == serde_json::json!([])), "{processes:?}");
    let pids: Vec<u64> = processes.iter().filter_map(|process| process["pid"].as_u64()).collect();
    let is_first = |process: &&Value| is_job || !pids.contains(&process["parent_pid"].as_u64().unwrap_or(0));
    let first: Vec<u64> = processes.iter().filter(is_first).filter_map(|process| process["pid"].as_u64()).collect();
    let mut counts = Counts::new();
    let mut is_counted = false;
    for row in document["tables"]["calls"]["rows"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap_or_default();
        if row["kind"] == "group" {
            // `process PID`, `process PID, rank R`, `process PID, forked from PID`
            let pid = name.split([' ', ',']).nth(1).and_then(|pid| pid.parse().ok());
            is_counted = pid.is_some_and(|pid| first.contains(&pid));
        } else if is_counted && name.starts_with("aten::") {
            *counts.entry(name.to_owned()).or_default() += row["count"].as_i64().unwrap_or(0);
        }
    }
    counts.retain(|_, count| *count != 0);
    counts
}

/// Counts of PyTorch's profiler: one file, or one of each rank.
fn profiled(path: &Path) -> Counts {
    let mut counts = Counts::new();
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = entry.unwrap().path();
        if file.file_name().unwrap().to_str().unwrap().starts_with("profile.json") {
            let one: Counts = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            one.into_iter().for_each(|(name, count)| *counts.entry(name).or_default() += count);
        }
    }
    counts
}

fn holds(program: &Foreign<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let alone = program.outcome(&program.alone(&[]));
    assert!(!alone.1.is_empty(), "{alone:?}");
    for (number, options) in [&[][..], EVERYTHING].into_iter().enumerate() {
        let run = path(&format!("run{number}.stackline"));
        let recorded = program.recorded(options, &run, &[]);
        assert_eq!(program.outcome(&recorded), alone, "{options:?}");
    }
    let empty = path("empty.stackline");
    program.recorded(&[], &empty, &[("FOREIGN_EMPTY", "1")]);
    let profile = path("profile.json");
    program.alone(&[("FOREIGN_PROFILE", profile.to_str().unwrap())]);

    let expected = profiled(&profile);
    let total: i64 = expected.values().sum();
    assert!(total > 50, "{expected:?}");
    // Imports run operators, too.
    let imports = counts(&empty, program.is_job);
    for number in 0..2 {
        let mut recorded = counts(&path(&format!("run{number}.stackline")), program.is_job);
        imports.iter().for_each(|(name, count)| *recorded.entry(name.clone()).or_default() -= count);
        recorded.retain(|_, count| *count != 0);
        assert_eq!(recorded, expected, "run {number}");
    }
}

macro_rules! foreign {
    ($($name:ident: $file:literal;)*) => {
        $(
            #[test]
            #[ignore = "long: ./dev test --long"]
            fn $name() {
                let Some(python) = torch() else { return };
                holds(&Foreign::new(&python, $file));
            }
        )*
    };
}

foreign! {
    an_lstm: "lstm.py";
    a_decoder_with_a_cache: "decoder.py";
    a_vision_transformer_with_workers: "vit.py";
    a_graph_network: "gnn.py";
    recompilation: "compiled.py";
    custom_functions_hooks_and_checkpoints: "autograd.py";
    threads_and_a_server: "server.py";
    numpy_and_pandas: "arrays.py";
    exceptions: "exceptions.py";
    an_extension_with_threads: "extension.py";
    deep_recursion: "recursion.py";
}

#[test]
#[ignore = "long: ./dev test --long"]
fn a_job_of_two_ranks() {
    let Some(python) = torch() else { return };
    holds(&Foreign::new(&python, "ddp.py").of_ranks());
}
