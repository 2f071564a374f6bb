//! Tests of directories with several profiler cycles of a process, and of the next command that `report` suggests.

use crate::common;

use common::{run, stdout, write};
use serde_json::Value;
use stackline_testkit::mini::MiniTrace;
use std::path::Path;

/// Three steps of a process with a kernel each, from a time in µs on; `file` has keys of the file.
fn cycle(folder: &Path, name: &str, (pid, from): (i64, i64), file: &str) -> String {
    let mut trace = MiniTrace::new(file);
    for step in 0..3 {
        let lines = format!(
            "{pid}/1  user_annotation  ProfilerStep#{step}  0+900
             {pid}/1  cpu_op           aten::mm             10+100
             {pid}/1  cuda_runtime     cudaLaunchKernel     20+10   correlation={}
             gpu0/7   kernel           gemm                 50+600  correlation={}",
            step + 1,
            step + 1
        );
        trace.add_at(from + 1000 * step, &lines);
    }
    write(folder, name, trace.json())
}

/// Output of `report` for inputs, and the command that it names next.
fn report(inputs: &[&str]) -> (String, Vec<String>) {
    let output = run(&[&["report"], inputs].concat());
    let printed = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{printed}");
    let next = printed.lines().find_map(|line| line.strip_prefix("Next: stackline "));
    let next = next.unwrap_or_else(|| panic!("{printed}")).split(' ').map(str::to_owned).collect();
    (printed, next)
}

#[track_caller]
fn accepts(next: &[String]) {
    let words: Vec<&str> = next.iter().map(String::as_str).collect();
    let output = run(&words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn names(document: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(document).unwrap();
    document["traces"].as_array().unwrap().iter().map(|info| info["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn profiler_cycles_of_a_process_are_not_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (time, from) in [(100, 0), (200, 50_000), (300, 100_000)] {
        cycle(folder.path(), &format!("host_7.{time}.pt.trace.json"), (7, from), "");
    }
    let (printed, next) = report(&[path]);
    assert!(
        printed.contains("Only the newest profiler cycle of the process is shown. Number of omitted older cycles: 2."),
        "{printed}"
    );
    assert!(
        printed.contains("older_cycle") && !printed.contains("rank 0") && !printed.contains("by order"),
        "{printed}"
    );
    assert_eq!(next, ["findings", path]);
    accepts(&next);
    for command in ["report", "findings", "critical-path", "kernels"] {
        let shown = stdout(&[command, path, "--format", "json"]);
        assert_eq!(names(&shown), ["host_7.300.pt.trace.json"], "{command}");
    }
    // More files than are read at once.
    for time in 301..312 {
        cycle(folder.path(), &format!("host_7.{time}.pt.trace.json"), (7, 10_000 * time), "");
    }
    let (printed, next) = report(&[path]);
    assert!(printed.contains("omitted older cycles: 13.") && printed.contains("host_7.311.pt.trace.json"), "{printed}");
    accepts(&next);
}

#[test]
fn newest_profiler_cycle_of_each_rank_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (step, from) in [(100, 0), (200, 50_000)] {
        for rank in 0..2 {
            let file = format!(r#"file distributedInfo={{"rank": {rank}, "world_size": 2}}"#);
            cycle(folder.path(), &format!("step{step}_rank{rank}.json"), (7 + rank, from), &file);
        }
    }
    let (printed, next) = report(&[path]);
    assert!(
        printed.contains("Only the newest profiler cycle of each process is shown. Number of omitted older cycles: 2."),
        "{printed}"
    );
    accepts(&next);
    for command in ["report", "findings"] {
        let shown = stdout(&[command, path, "--format", "json"]);
        assert_eq!(names(&shown), ["step200_rank0.json", "step200_rank1.json"], "{command}");
    }
}

#[test]
fn newest_process_of_a_restarted_rank_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let add = |rank: i64, pid: i64, from: i64| {
        let file = format!(r#"file distributedInfo={{"rank": {rank}, "world_size": 2}}"#);
        cycle(folder.path(), &format!("host_{pid}.{from}.pt.trace.json"), (pid, from), &file);
    };
    // Both workers of a job are restarted.
    for (rank, pid, from) in [(0, 7, 0), (1, 8, 0), (0, 17, 50_000), (1, 18, 50_000)] {
        add(rank, pid, from);
    }
    let (printed, next) = report(&[path]);
    assert!(printed.contains("because the rank was restarted. Number of omitted older processes: 2."), "{printed}");
    assert!(printed.contains("earlier_process") && !printed.contains("Warning: the traces are not"), "{printed}");
    accepts(&next);
    let newest = ["host_17.50000.pt.trace.json", "host_18.50000.pt.trace.json"];
    for command in ["report", "findings", "kernels"] {
        assert_eq!(names(&stdout(&[command, path, "--format", "json"])), newest, "{command}");
    }
    // More files than are read at once.
    for restart in 2..6 {
        add(0, 7 + 10 * restart, 50_000 * restart);
        add(1, 8 + 10 * restart, 50_000 * restart);
    }
    let (printed, next) = report(&[path]);
    assert!(printed.contains("because the rank was restarted. Number of omitted older processes: 10."), "{printed}");
    accepts(&next);
}

#[test]
fn suggested_command_accepts_unrelated_traces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let before = cycle(folder.path(), "before.json", (7, 0), "");
    let after = cycle(folder.path(), "after.json", (8, 500), "");
    for inputs in [&[path][..], &[&before, &after]] {
        let (printed, next) = report(inputs);
        assert_eq!(next.last().map(String::as_str), Some("0"), "{printed}");
        accepts(&next);
    }
    // Files that were given one by one are all meant, also cycles of one process.
    let [first, second] =
        [("c1.json", 0), ("c2.json", 50_000)].map(|(name, from)| cycle(folder.path(), name, (7, from), ""));
    let (printed, next) = report(&[&first, &second]);
    assert!(!printed.contains("older_cycle"), "{printed}");
    assert_eq!(next, ["findings", &first, &second, "--rank", "0"]);
    accepts(&next);
}
