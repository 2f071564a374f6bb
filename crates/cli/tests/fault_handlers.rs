//! Programs that handle signals on small alternate stacks, recorded with native frames and sampling: they end as they do alone.

#![cfg(target_os = "linux")]
use crate::common;

use common::{recorder, stackline, torch};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs of each program by default, and by the long tests unless `STACKLINE_REPEATS` is another number. By default `torchrun.rs` has a
/// job that is recorded so, as part of its tests.
const FEW: usize = 1;
const MANY: usize = 100;

/// A program, with the arguments of its interpreter.
struct Program {
    name: &'static str,
    arguments: Vec<String>,
    /// True if standard error is the program's alone, and the same each time.
    compares_errors: bool,
    /// True if some of its runs abort with [`ABORT_OF_GLOO`], and are tried again.
    may_abort: bool,
}

fn programs() -> [Program; 4] {
    let file = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        folder.join(name).to_str().unwrap().to_owned()
    };
    let program = |name, compares_errors, arguments: &[&str]| Program {
        name,
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        compares_errors,
        may_abort: false,
    };
    let job = "-m torch.distributed.run --standalone --local-addr 127.0.0.1 --nproc-per-node 2";
    let torchrun: Vec<&str> = job.split(' ').collect();
    [
        program("faulthandler", true, &["-X", "faulthandler", &file("fault_loop.py"), "100"]),
        program("pytest", true, &["-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", &file("pytest_loop.py")]),
        program("ipykernel", false, &[&file("kernel_cell.py"), "1000"]),
        Program { may_abort: true, ..program("torchrun", false, &[&torchrun[..], &[&file("rank_loop.py")]].concat()) },
    ]
}

/// The environment of a program alone and recorded: no files of this user, one thread per process, and no other job's ranks.
fn prepared(command: &mut Command, home: &Path) -> Output {
    for name in ["HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"] {
        command.env(name, home);
    }
    command
        .env("COLUMNS", "110")
        .env("OMP_NUM_THREADS", "1")
        .env("GLOO_SOCKET_IFNAME", "lo")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    for inherited in ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PYTEST_ADDOPTS"] {
        command.env_remove(inherited);
    }
    command.current_dir(home).output().unwrap()
}

/// Text without parts that differ between two runs of a program: the time that pytest took.
fn stable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let without_time = |line: &str| match line.rsplit_once(" in ") {
        Some((before, time)) if time.ends_with('s') => before.to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(without_time).collect::<Vec<_>>().join("\n")
}

/// Difference between a recorded run and the one alone.
fn difference(program: &Program, alone: &Output, recorded: &Output) -> Option<String> {
    let stderr_text = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let same = alone.status == recorded.status && stable(&alone.stdout) == stable(&recorded.stdout);
    // The last line is that of `record`.
    let errors = stable(&recorded.stderr);
    let errors = errors.rsplit_once('\n').map_or("", |(before, _)| before);
    let same_errors = !program.compares_errors || stable(&alone.stderr) == errors;
    let texts = [&alone.stdout, &recorded.stdout].map(|text| String::from_utf8_lossy(text).into_owned());
    let both = (&alone.status, &recorded.status, texts, stderr_text(alone), stderr_text(recorded));
    (!same || !same_errors).then(|| format!("{}: {both:#?}", program.name))
}

/// Message of gloo's ranks that sometimes abort while they end, also without a recorder: a `std::thread` is destroyed without being
/// joined. The other programs do not use gloo: if one of them says so, that is a fault of the recorder.
const ABORT_OF_GLOO: &str = "terminate called without an active exception";

/// Runs of a program that may abort, of which one must end as expected.
const TRIES: usize = 5;

/// Run a program alone and recorded so many times; returns the differences.
fn differences(python: &Path, program: &Program, repeats: usize) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let expected = if program.name == "pytest" { Some(1) } else { Some(0) };
    // Without a recorder aborts are rarer than this: more of them would be the recorder's.
    let (most_tries, most_aborts) = if program.may_abort { (TRIES, (repeats / 10).max(1)) } else { (1, 0) };
    let run_alone = || prepared(Command::new(python).args(&program.arguments), home.path());
    let mut tries = (1..most_tries).map(|_| run_alone());
    let alone = tries.find(|alone| alone.status.code() == expected).unwrap_or_else(run_alone);
    assert_eq!(alone.status.code(), expected, "{}: {}", program.name, String::from_utf8_lossy(&alone.stderr));
    let (mut wrong, mut aborts) = (Vec::new(), 0);
    for repeat in 0..repeats {
        let run = home.path().join(format!("{repeat}.stackline"));
        let options = ["record", "--native", "--counters", "page-faults", "--sample-hz", "499", "-o"];
        let mut recorded = Err(String::new());
        for _ in 0..most_tries {
            if run.exists() {
                std::fs::remove_dir_all(&run).unwrap();
            }
            let mut command = stackline(&options);
            command.arg(&run).arg("--").arg(python).args(&program.arguments).env("STACKLINE_RECORDER", recorder());
            let output = prepared(&mut command, home.path());
            let is_of_gloo = String::from_utf8_lossy(&output.stderr).contains(ABORT_OF_GLOO);
            recorded = difference(program, &alone, &output).map_or(Ok(()), Err);
            if recorded.is_ok() || !is_of_gloo || !program.may_abort {
                break;
            }
            aborts += 1;
            println!("{}: {ABORT_OF_GLOO}, as happens without a recorder", program.name);
        }
        wrong.extend(recorded.err());
        let streams = run.join("streams").read_dir().map_or(0, Iterator::count);
        if streams == 0 {
            wrong.push(format!("{}: nothing was recorded", program.name));
        }
        std::fs::remove_dir_all(&run).unwrap();
    }
    if aborts > most_aborts {
        wrong.push(format!("{}: {aborts} aborts in {repeats} runs", program.name));
    }
    wrong
}

fn check(name: &str, repeats: usize) {
    let Some(python): Option<PathBuf> = torch() else { return };
    for program in programs().iter().filter(|program| program.name == name) {
        let wrong = differences(&python, program, repeats);
        println!("{name}: {} of {repeats} recorded runs end as the one alone", repeats - wrong.len().min(repeats));
        assert!(wrong.is_empty(), "{} of {repeats}: {}", wrong.len(), wrong[0]);
    }
}

#[test]
fn faulthandler_runs_as_alone() {
    check("faulthandler", FEW);
}

#[test]
fn pytest_runs_as_alone() {
    check("pytest", FEW);
}

#[test]
fn ipython_kernel_runs_as_alone() {
    check("ipykernel", FEW);
}

/// Check as many runs as requested, by default a hundred.
fn check_many(name: &str) {
    let named = std::env::var("STACKLINE_REPEATS").ok().and_then(|text| text.parse().ok());
    check(name, named.unwrap_or(MANY));
}

#[test]
#[ignore = "long: ./dev test --long"]
fn every_run_of_many_under_faulthandler() {
    check_many("faulthandler");
}

#[test]
#[ignore = "long: ./dev test --long"]
fn every_run_of_many_under_pytest() {
    check_many("pytest");
}

#[test]
#[ignore = "long: ./dev test --long"]
fn every_run_of_many_in_an_ipython_kernel() {
    check_many("ipykernel");
}

#[test]
#[ignore = "long: ./dev test --long"]
fn every_run_of_many_of_torchrun() {
    check_many("torchrun");
}
