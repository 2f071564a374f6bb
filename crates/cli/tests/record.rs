//! Tests of `record`: the command behaves as without recording, and calls of a real PyTorch are recorded.

#![cfg(target_os = "linux")]
use crate::common;

use common::{recorder, stackline, stdout, torch};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// `stackline record … -- sh -c SCRIPT` in a folder of its own. Programs other than Python never load the recorder.
fn record(folder: &Path, options: &[&str], script: &str) -> Command {
    let recorder = folder.join("recorder.so");
    std::fs::write(&recorder, "").unwrap();
    let mut command = stackline(&[&["record"], options, &["--", "sh", "-c", script]].concat());
    command.current_dir(folder).env("STACKLINE_RECORDER", recorder);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn output_input_and_exit_code_equal_those_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = record(folder.path(), &[], "read line; echo \"got $line\"; echo problem >&2; exit 7")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"word\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "got word\n");
    let text = stderr(&output);
    assert!(text.starts_with("problem\n") && text.contains("no Python process started the recorder"), "{text}");
    assert_eq!(names(folder.path()), ["recorder.so"], "nothing is left behind where nothing was recorded");
}

#[test]
fn launcher_ends_with_the_signal_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("INT", 2)] {
        let output = record(folder.path(), &[], &format!("kill -{name} $$")).output().unwrap();
        assert_eq!(output.status.signal(), Some(number), "{name}: {}", stderr(&output));
    }
}

#[test]
fn signals_are_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["TERM", "HUP", "USR1", "USR2", "INT", "QUIT"] {
        let script = format!("trap 'echo caught {name}; exit 3' {name}; echo ready; while :; do sleep 0.05; done");
        let mut child =
            record(folder.path(), &[], &script).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        let killed = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        assert_eq!(lines.next().unwrap().unwrap(), format!("caught {name}"));
        assert_eq!(child.wait().unwrap().code(), Some(3), "{name}");
    }
}

/// `nohup` ignores SIGHUP, and so does its command, with or without the launcher between them.
#[test]
fn ignored_signals_stay_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorded = record(folder.path(), &[], "kill -HUP $$; echo alive");
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(recorded.get_program()).args(recorded.get_args());
    command.envs(recorded.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(folder.path());
    assert_eq!(String::from_utf8_lossy(&command.output().unwrap().stdout), "alive\n");
    assert_eq!(String::from_utf8_lossy(&recorded.output().unwrap().stdout), "");
}

/// Signals that glibc reserves and leaves ignored in processes from `posix_spawn`, as it did in this test.
#[test]
fn signals_of_glibc_are_not_ignored() {
    let reset = "import ctypes, os, platform, struct, sys\n\
                 number = {'x86_64': 13, 'aarch64': 134}[platform.machine()]\n\
                 for signal in (32, 33): ctypes.CDLL(None).syscall(number, signal, struct.pack('4Q', 0, 0, 0, 0), None, 8)\n\
                 os.execv(sys.argv[1], sys.argv[1:])";
    let folder = tempfile::tempdir().unwrap();
    let recorded = record(folder.path(), &[], "grep SigIgn /proc/self/status");
    let run = |program: &Path, arguments: &[&OsStr]| {
        let mut command = Command::new("python3");
        command.args(["-c", reset]).arg(program).args(arguments).current_dir(folder.path());
        let environment = recorded.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let output = command.envs(environment).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let ignored = String::from_utf8(output.stdout).unwrap();
        u64::from_str_radix(ignored.trim().trim_start_matches("SigIgn:").trim(), 16).unwrap() >> 31 & 3
    };
    let arguments: Vec<&OsStr> = recorded.get_args().collect();
    assert_eq!(run(Path::new(recorded.get_program()), &arguments), 0);
}

#[test]
fn options_reach_the_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let options = [
        "--native",
        "--memory",
        "--shapes",
        "--mode",
        "trace",
        "--sample-hz",
        "50",
        "--wall-hz",
        "0",
        "--every",
        "3",
        "--after",
        "2m",
        "--duration",
        "500ms",
        "--steps",
        "10..20",
        "--max-nodes",
        "9",
        "--disable",
        "python",
        "--counters",
        "page-faults,cycles",
    ];
    let output = record(folder.path(), &options, "env | grep ^STACKLINE_ | sort").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = [
        "STACKLINE_AFTER=2m",
        "STACKLINE_COUNTERS=page-faults,cycles",
        "STACKLINE_DURATION=500ms",
        "STACKLINE_EVERY=3",
        "STACKLINE_MAX_NODES=9",
        "STACKLINE_MEMORY=1",
        "STACKLINE_MODE=trace",
        "STACKLINE_NATIVE=1",
        "STACKLINE_WALL_HZ=0",
        "STACKLINE_SAMPLE_HZ=50",
        "STACKLINE_STEPS=10..20",
        "STACKLINE_SHAPES=1",
        "STACKLINE_DISABLE=python",
    ];
    let begin = text.lines().find_map(|line| line.strip_prefix("STACKLINE_BEGIN="));
    let begin = stackline_recording::Begin::parse(begin.unwrap()).unwrap();
    assert!(begin.begin_on_this_clock().is_some_and(|ns| ns > 0), "{text}");
    let missing: Vec<_> = expected.iter().filter(|line| !text.lines().any(|printed| printed == **line)).collect();
    assert_eq!(missing, [""; 0].iter().collect::<Vec<_>>(), "{text}");
    for wrong in [
        ["--after", "soon"],
        ["--every", "0"],
        ["--sample-hz", "1000000"],
        ["--steps", "9..3"],
        ["--shapes", "--disable=pytorch"],
    ] {
        let output = record(folder.path(), &wrong, "true").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", stderr(&output));
    }
}

#[test]
fn former_option_names_work_and_warn() {
    let folder = tempfile::tempdir().unwrap();
    let script = "env | grep -E '^STACKLINE_(DISABLE|WALL_HZ)=' | sort";
    let output = record(folder.path(), &["--real-hz", "7", "--without", "python,kernels"], script).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "STACKLINE_DISABLE=python,kernels\nSTACKLINE_WALL_HZ=7\n");
    for (old, new) in [("--real-hz", "--wall-hz"), ("--without", "--disable")] {
        let warning = format!("stackline: {old} is now called {new}; the old name will be removed");
        assert_eq!(text.lines().filter(|line| *line == warning).count(), 1, "{text}");
    }
    let output = record(folder.path(), &["--wall-hz", "7", "--disable", "python"], "true").output().unwrap();
    assert!(output.status.success() && !stderr(&output).contains("is now called"), "{}", stderr(&output));
    for both in [["--wall-hz=7", "--real-hz=7"], ["--disable=python", "--without=python"]] {
        let output = record(folder.path(), &both, "true").output().unwrap();
        let text = stderr(&output);
        assert!(output.status.code() == Some(2) && text.contains("cannot be used with"), "{both:?}: {text}");
    }
}

#[test]
fn commands_that_cannot_be_run_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = folder.path().join("recorder.so");
    std::fs::write(&recorder, "").unwrap();
    let fails = |arguments: &[&str]| {
        let mut command = stackline(arguments);
        let output = command.current_dir(folder.path()).env("STACKLINE_RECORDER", &recorder).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let (code, text) = fails(&["record"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("<COMMAND>"), "{text}");
    let (code, text) = fails(&["record", "--", "no-such-command"]);
    assert_eq!((code, text.as_str()), (Some(127), "error: no-such-command: command not found\n"));
    let (code, text) = fails(&["record", "--", "./recorder.so"]);
    assert_eq!(code, Some(126), "{text}");
    let (code, text) = fails(&["record", "--disable", "pyhton", "--", "true"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("pyhton") && text.contains("python"), "{text}");
    for (options, expected) in [
        (&["--format", "json"][..], "stackline calls RUN"),
        (&["--table", "calls"], "stackline calls RUN"),
        (&["--limit", "3"], "stackline calls RUN"),
        (&["--clip-overlaps"], "leave it out"),
        (&["--after", "-1s"], "a time cannot be negative"),
        (&["--duration", "soon"], "give seconds"),
        (&["--every", "-2"], "-2 is not in 1.."),
        (&["--sample-hz", "-1"], "-1 is not in 0..=10000"),
    ] {
        let (code, text) = fails(&[&["record"], options, &["--", "true"]].concat());
        assert!(code == Some(2) && text.contains(expected) && !text.contains("-- -"), "{options:?}: {text}");
    }
    std::fs::create_dir(folder.path().join("taken")).unwrap();
    let (code, text) = fails(&["record", "-o", "taken", "--", "true"]);
    assert_eq!((code, text.as_str()), (Some(2), "error: taken exists already; choose another name with -o\n"));
    let (code, text) = fails(&["record", "-o", "no/such/folder", "--", "true"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("no/such/folder: cannot create a run directory here"), "{text}");
    assert_eq!(names(folder.path()), ["recorder.so", "taken"]);
    std::fs::remove_file(&recorder).unwrap();
    let (code, text) = fails(&["record", "--", "true"]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("no recorder library at this path, to which the environment variable STACKLINE_RECORDER is set"),
        "{text}"
    );
}

/// The output of a process is merged, and the names of runs count up.
#[test]
fn runs_are_named_after_the_script_and_a_free_number() {
    let folder = tempfile::tempdir().unwrap();
    let sample = folder.path().join("sample");
    std::fs::create_dir(&sample).unwrap();
    let config = stackline_testkit::recording::Config::default();
    for (name, file) in stackline_testkit::recording::streams(&config) {
        std::fs::write(sample.join(name), file).unwrap();
    }
    let script = folder.path().join("work.py");
    std::fs::write(
        &script,
        "cp sample/* \"$STACKLINE_RECORD/streams\"; test -f \"${PYTHONPATH%%:*}/sitecustomize.py\"",
    )
    .unwrap();
    let recorder = folder.path().join("recorder.so");
    std::fs::write(&recorder, "").unwrap();
    let runs: [(&str, &str, &[&str]); 4] = [
        ("work.stackline", "findings", &[]),
        ("work-2.stackline", "findings", &["--mode", "profile"]),
        ("work-3.stackline", "findings", &["--mode", "trace"]),
        ("work-4.stackline", "memory", &["--mode", "trace", "--memory"]),
    ];
    for (name, next, options) in runs {
        let mut command = stackline(&[&["record"], options, &["sh", "work.py"]].concat());
        let output = command.current_dir(folder.path()).env("STACKLINE_RECORDER", &recorder).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stderr(&output);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.contains(&format!("Next: stackline {next} {name}")) && text.contains("python, torch on"),
            "{text}"
        );
        assert_eq!(names(&folder.path().join(name)), ["calls", "manifest.json", "streams"]);
    }
}

/// Multiplies once and then hangs within a span, of which it says that it has begun.
const HANGS: &str = "
import os, time, torch
from torch.profiler import record_function
x = torch.ones(8, 8)
def wait_for_nothing():
    with record_function('a span without end'):
        (x @ x).sum().item()
        open('ready', 'w').close()
        while True: time.sleep(0.01)
wait_for_nothing()
";

/// Hangs in Python alone.
const HANGS_IN_PYTHON: &str = "
import time, torch
x = torch.zeros(4, 4)
def compute():
    for _ in range(2000): (x @ x).sum().item()
def wait_for_nothing():
    open('ready', 'w').close()
    while True: sum(range(1000))
compute()
wait_for_nothing()
";

/// Programs that hang, and the reported locations.
const HANGING: [(&str, [&str; 2]); 2] =
    [(HANGS, ["in_flight", "a span without end on thread"]), (HANGS_IN_PYTHON, ["last_seen", ": wait_for_nothing ("])];

/// The limit holds for the files of the launcher, too.
#[test]
fn commands_run_unrecorded_without_writable_files() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = record(folder.path(), &[], "echo ran; exit 7");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\""]).arg(recorded.get_program()).args(recorded.get_args());
    limited.envs(recorded.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(folder.path());
    let output = limited.output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(7), &b"ran\n"[..]), "{}", stderr(&output));
    assert!(stderr(&output).contains("the command runs without recording"), "{}", stderr(&output));
    assert_eq!(names(folder.path()), ["recorder.so"]);
}

#[test]
fn calls_in_flight_and_the_signal_are_reported() {
    let Some(python) = torch() else { return };
    for (mode, (program, expected)) in ["profile", "trace"].into_iter().flat_map(|mode| HANGING.map(|one| (mode, one)))
    {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("hangs.py"), program).unwrap();
        let mut command = stackline(&["record", "--mode", mode, "-o", "run.stackline", "--"]);
        command.arg(&python).arg("hangs.py").env("STACKLINE_RECORDER", recorder()).current_dir(folder.path());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        while !folder.path().join("ready").exists() {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        // Longer than the recorder's interval between two writes.
        std::thread::sleep(std::time::Duration::from_millis(1200));
        // The launcher passes TERM on.
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        let run = folder.path().join("run.stackline");
        let command = if mode == "trace" { "report" } else { "calls" };
        let document: serde_json::Value =
            serde_json::from_str(&stdout(&[command, run.to_str().unwrap(), "--format", "json"])).unwrap();
        let read_report = document["read_report"].to_string();
        assert!(expected.iter().all(|words| read_report.contains(words)), "{mode}: {read_report}");
        assert!(read_report.contains("wait_for_nothing ("), "with its callers: {read_report}");
        assert!(read_report.contains("was ended by SIGTERM (signal 15)"), "{mode}: {read_report}");
    }
}

/// Shells start background processes with SIGINT ignored; a program may handle it all the same.
#[test]
fn initially_ignored_signals_reach_their_handler() {
    let folder = tempfile::tempdir().unwrap();
    let program = "import pathlib, signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(7)); \
                   pathlib.Path('ready').touch(); time.sleep(60)";
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' INT; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_stackline"),
        "record",
        "-o",
        "run.stackline",
        "--",
        "python3",
        "-c",
        program,
    ]);
    let mut child =
        command.env("STACKLINE_RECORDER", recorder()).current_dir(folder.path()).stderr(Stdio::null()).spawn().unwrap();
    while !folder.path().join("ready").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn a_real_training_program() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/examples/train_gpt.py");
    let run = folder.path().join("gpt.stackline");
    let run = run.to_str().unwrap();
    let steps = ["--steps", "5"];
    let alone = Command::new(&python).arg(&program).args(steps).output().unwrap();
    let mut command = stackline(&["record", "-o", run, "--"]);
    let recorded =
        command.arg(&python).arg(&program).args(steps).env("STACKLINE_RECORDER", recorder()).output().unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let losses = |output: &Output| -> Vec<String> {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().filter(|line| line.contains("loss")).map(str::to_owned).collect()
    };
    assert_eq!(losses(&recorded), losses(&alone), "the program computes the same, bit by bit");
    let step = |more: &[&str]| -> serde_json::Value {
        let document = stdout(&[&["calls", run, "--format", "json"], more].concat());
        serde_json::from_str::<serde_json::Value>(&document).unwrap()["recording"]["step"].clone()
    };
    assert_eq!(step(&["--lines"]), step(&[]), "however it is shown");
    let for_agent = stdout(&["report", run, "--for-agent"]);
    assert!(for_agent.len() <= 4096 && for_agent.contains("train_gpt.py:"), "{for_agent}");
    let flat = stdout(&["calls", run, "--view", "flat", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&flat).unwrap();
    let rows = document["tables"]["calls"]["rows"].as_array().unwrap();
    for name in ["aten::addmm", "AddmmBackward0", "aten::scaled_dot_product_attention"] {
        assert!(rows.iter().any(|row| row["name"] == name), "{name}");
    }
    let versions = Command::new(&python)
        .args(["-c", "import platform, torch; print(platform.python_version(), torch.__version__)"])
        .output()
        .unwrap();
    let process = &document["recording"]["processes"][0];
    let recorded = format!("{} {}", process["python"].as_str().unwrap(), process["torch"].as_str().unwrap());
    assert_eq!(recorded, String::from_utf8_lossy(&versions.stdout).trim());
    let tree = stdout(&["calls", run, "--focus", "AddmmBackward0", "--top", "0"]);
    assert!(tree.contains("train_gpt.py:"), "backward operators stand below the Python of their forward ones:\n{tree}");
}

/// Names and numbers of a table in JSON: the sum of `value` by `name`.
fn sums(document: &serde_json::Value, table: &str, value: &str) -> std::collections::BTreeMap<String, u64> {
    let mut sums = std::collections::BTreeMap::new();
    for row in document["tables"][table]["rows"].as_array().unwrap() {
        *sums.entry(row["name"].as_str().unwrap().to_owned()).or_default() += row[value].as_u64().unwrap_or(0);
    }
    sums
}

/// A recording of individual calls opens in the analyses of traces, with the same data as its tree.
#[test]
fn a_real_training_program_as_a_trace() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/examples/train_gpt.py");
    let run = folder.path().join("gpt.stackline");
    let run = run.to_str().unwrap();
    let mut command = stackline(&["record", "--mode", "trace", "-o", run, "--"]);
    command.arg(&python).arg(&program).args(["--steps", "6"]).env("STACKLINE_RECORDER", recorder());
    let recorded = command.output().unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let json = |arguments: &[&str]| -> serde_json::Value {
        let text = stdout(&[arguments, &["--format", "json"]].concat());
        serde_json::from_str(&text).unwrap()
    };

    let document = json(&["calls", run]);
    assert_eq!(document["recording"]["processes"][0]["lost"], serde_json::json!([]), "what is lost cannot be equal");
    let tree = json(&["calls", run, "--view", "flat", "--metric", "call_time", "--top", "0"]);
    // Of all of the recording, as the tree is.
    let operators = json(&["operators", run, "--whole"]);
    let (tree, operators) = (sums(&tree, "calls", "count"), sums(&operators, "operators", "calls"));
    for name in ["aten::addmm", "AddmmBackward0", "aten::native_layer_norm", "aten::copy_"] {
        assert!(tree[name] > 0 && tree[name] == operators[name], "{name}: {} {}", tree[name], operators[name]);
    }

    let path = json(&["critical-path", run]);
    let path = &path["critical_path"][0];
    assert_eq!(path["path_ns"], path["window_ns"]);
    let steps = json(&["steps", run]);
    assert_eq!(steps["tables"]["steps"]["rows"].as_array().unwrap().len(), 6);

    // What is inferred, against what the program is known to do: two blocks, each called once a step.
    let chrome = folder.path().join("gpt.json");
    stdout(&["export", run, "--to", "chrome", "-o", chrome.to_str().unwrap()]);
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(chrome).unwrap()).unwrap();
    // Spans only: samples bear the names of functions too.
    let spans = || trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X");
    let named = |name: &str| spans().filter(|e| e["name"] == name).count();
    for name in ["nn.Module: Block blocks.0", "nn.Module: Linear blocks.1.mlp.up", "train_gpt.py(98): train_step"] {
        assert_eq!(named(name), 6, "{name}");
    }
    assert_eq!(named("train_gpt.py(77): Block.forward"), 12);
}
