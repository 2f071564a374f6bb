//! Test of a recorded job of several ranks, started by `torchrun`.

#![cfg(target_os = "linux")]
use crate::common;

use common::{recorder, stackline, torch};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A job that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(400);

/// `python -m torch.distributed.run` with two ranks that meet at a free port of this machine; `torchrun` is a script
/// that does the same.
fn torchrun(command: &mut Command, program: &[&str]) -> Output {
    let job = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"];
    command.args(job).args(program).env("OMP_NUM_THREADS", "1");
    // Whatever network interface the machine has, gloo shall use its own.
    command.env("GLOO_SOCKET_IFNAME", "lo");
    for inherited in ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"] {
        command.env_remove(inherited);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    command.stdout(File::create(file("stdout")).unwrap()).stderr(File::create(file("stderr")).unwrap());
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            // The launcher passes it on, and torchrun ends its ranks.
            let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            let _ = child.wait();
            panic!("the job hangs: {}", std::fs::read_to_string(file("stderr")).unwrap());
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let read = |name| std::fs::read(file(name)).unwrap();
    Output { status, stdout: read("stdout"), stderr: read("stderr") }
}

/// `stackline record … -- PYTHON`, in a folder of its own.
fn record(python: &Path, run: &Path) -> Command {
    let mut command = stackline(&["record", "-o", run.to_str().unwrap(), "--", python.to_str().unwrap()]);
    command.env("STACKLINE_RECORDER", recorder());
    command
}

#[test]
fn ranks_are_distinguished() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("job.stackline");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/ranks.py");
    // Native frames and samples, which may disturb it most.
    let mut command = stackline(&["record", "--native", "--counters", "page-faults", "--sample-hz", "499", "-o"]);
    command.args([&run, Path::new("--"), &python]).env("STACKLINE_RECORDER", recorder());
    let output = torchrun(&mut command, &[program.to_str().unwrap()]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    // rank R pid P parent Q
    let numbers = |line: &str| line.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<u64>>();
    let truth: BTreeMap<u64, (u64, u64)> =
        printed.lines().map(numbers).map(|line| (line[0], (line[1], line[2]))).collect();
    assert_eq!(truth.keys().copied().collect::<Vec<_>>(), [0, 1], "{printed}");

    let run = run.to_str().unwrap();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let text = common::stdout(&[&["calls", run, "--format", "json", "--top", "0"], arguments].concat());
        serde_json::from_str(&text).unwrap()
    };
    let document = json(&["--by", "rank"]);
    let processes = document["recording"]["processes"].as_array().unwrap();
    let ranks: BTreeMap<u64, (u64, u64)> = processes
        .iter()
        .filter_map(|process| {
            let number = |name: &str| process[name].as_u64();
            Some((number("rank")?, (number("pid")?, number("parent_pid")?)))
        })
        .collect();
    assert_eq!(ranks, truth, "each rank once, with its process and who started it");
    // The one that started them is the command itself, and no rank.
    let launchers: Vec<_> = processes.iter().filter(|process| process["pid"] == truth[&0].1).collect();
    assert_eq!(launchers.len(), 1, "{processes:?}");
    assert!(launchers[0]["rank"].is_null() && launchers[0]["role"] == "main", "{launchers:?}");
    assert!(processes.iter().all(|process| process["lost"] == serde_json::json!([])), "{processes:?}");

    // Work of each, below its own rank: rank 1 multiplies twice as often.
    let rows = document["tables"]["calls"]["rows"].as_array().unwrap();
    let parents: BTreeMap<u64, &serde_json::Value> =
        rows.iter().map(|row| (row["node"].as_u64().unwrap(), row)).collect();
    let mut products: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row["name"] == "aten::mm") {
        let mut top = row;
        while let Some(parent) = top["parent"].as_u64().and_then(|parent| parents.get(&parent)) {
            top = parent;
        }
        *products.entry(top["name"].as_str().unwrap().to_owned()).or_default() += row["count"].as_u64().unwrap();
    }
    // Work that others began for it (gloo's threads) spoils nothing of what is known of each operator.
    let document = json(&["--by", "phase", "--depth", "1"]);
    let phases: Vec<&str> =
        document["tables"]["calls"]["rows"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    for phase in ["forward pass and other work", "backward", "communication", "optimizer"] {
        assert!(phases.contains(&phase), "{phases:?}");
    }
    phases_hold_what_ddp_does(&json(&["--by", "phase"]));
    let expected = [("rank 0", 10), ("rank 1", 20)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(products.into_iter().collect::<Vec<_>>(), expected);
}

/// Collectives and the reducer of DDP are communication, autograd's engine is backward, wherever they were called from.
fn phases_hold_what_ddp_does(document: &serde_json::Value) {
    let rows = document["tables"]["calls"]["rows"].as_array().unwrap();
    let parents: BTreeMap<u64, &serde_json::Value> =
        rows.iter().map(|row| (row["node"].as_u64().unwrap(), row)).collect();
    let mut seen = BTreeMap::new();
    for row in rows.iter().filter(|row| row["count"].as_u64().is_some_and(|count| count > 0)) {
        let name = row["name"].as_str().unwrap();
        let expected = [
            ("c10d::", "communication"),
            ("gloo:", "communication"),
            ("torch::distributed::reducer::", "communication"),
            ("torch.distributed.ddp.reducer::", "communication"),
            ("autograd::engine::evaluate_function:", "backward"),
        ];
        let Some((prefix, expected)) = expected.iter().find(|(prefix, _)| name.starts_with(prefix)) else { continue };
        let mut top = row;
        while let Some(parent) = top["parent"].as_u64().and_then(|parent| parents.get(&parent)) {
            top = parent;
        }
        assert_eq!(top["name"], *expected, "{name}");
        seen.insert(*prefix, name);
    }
    for prefix in ["c10d::", "torch::distributed::reducer::", "autograd::engine::evaluate_function:"] {
        assert!(seen.contains_key(prefix), "{prefix} in {seen:?}");
    }
}

/// Each rank holds an unused buffer of its own size.
#[test]
fn memory_of_each_rank() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("job.stackline");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/rank_memory.py");
    let mut command = stackline(&["record", "--mode", "trace", "--memory", "-o", run.to_str().unwrap(), "--"]);
    command.arg(&python).env("STACKLINE_RECORDER", recorder());
    let output = torchrun(&mut command, &[program.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = run.to_str().unwrap();
    let rows = |command: &str, rank: &str, table: &str| -> Vec<serde_json::Value> {
        let text = common::stdout(&[command, run, "--rank", rank, "--format", "json"]);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["tables"][table]["rows"].as_array().unwrap().clone()
    };
    for (rank, bytes) in [("0", 8 << 20), ("1", 16 << 20)] {
        let peak = rows("memory", rank, "memory_peaks")[0]["bytes"].as_u64().unwrap();
        assert!((bytes..bytes + (1 << 20)).contains(&peak), "rank {rank}: {peak}");
        let found = rows("findings", rank, "findings");
        // On a busy machine, a rank may have a finding on time at the same file.
        let is_buffer = |row: &&serde_json::Value| {
            row["file"].as_str().is_some_and(|file| file.ends_with("rank_memory.py")) && !row["gain_bytes"].is_null()
        };
        let gain = found.iter().find(is_buffer).and_then(|row| row["gain_bytes"].as_u64());
        assert_eq!(gain, Some(bytes), "rank {rank}: {found:?}");
    }
    let missing = stackline(&["memory", run, "--rank", "2"]).output().unwrap();
    let message = String::from_utf8_lossy(&missing.stderr);
    assert!(!missing.status.success() && message.contains("the input has ranks 0 to 1"), "{message}");
}

#[test]
fn failing_jobs_keep_their_exit_code() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("fails.py");
    std::fs::write(&program, "import os, sys; sys.exit(5 if os.environ['RANK'] == '1' else 0)").unwrap();
    let program = program.to_str().unwrap();
    let alone = torchrun(&mut Command::new(&python), &[program]);
    let recorded = torchrun(&mut record(&python, &folder.path().join("job.stackline")), &[program]);
    assert!(!alone.status.success());
    assert_eq!(recorded.status, alone.status, "{}", String::from_utf8_lossy(&recorded.stderr));
    assert!(String::from_utf8_lossy(&recorded.stderr).contains("exitcode  : 5"), "what torchrun says is seen");
}
