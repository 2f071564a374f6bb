//! Tests that output is independent of threads, and equal for a file and the run imported from it.

use crate::common;

use common::{corpus, run, stdout, write_sample};

const COMMANDS: [&str; 7] = ["report", "steps", "kernels", "operators", "collectives", "timeline", "doctor"];

/// Each command in JSON and as tables.
fn outputs(input: &str, more: &[&str]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for command in COMMANDS {
        for format in ["json", "table"] {
            let mut args = vec![command, input, "--format", format];
            args.extend_from_slice(more);
            out.push((args.join(" "), stdout(&args)));
        }
    }
    out
}

fn assert_same(a: &[(String, String)], b: &[(String, String)]) {
    for ((name, a), (_, b)) in a.iter().zip(b) {
        let differing = a.lines().zip(b.lines()).find(|(x, y)| x != y);
        assert!(a == b, "{name} differs: {differing:?}");
    }
}

#[test]
fn output_is_independent_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..4 {
        write_sample(folder.path(), rank);
    }
    let input = folder.path().to_str().unwrap();
    let one = outputs(input, &["--threads", "1"]);
    assert_same(&one, &outputs(input, &["--threads", "2"]));
    assert_same(&one, &outputs(input, &["--threads", "8"]));
}

#[test]
fn output_for_real_traces_is_independent_of_threads() {
    let Some(trace) = corpus("kineto/nvidia-a100-ddp-nccl.json.gz") else { return };
    let one = outputs(&trace, &["--threads", "1"]);
    assert_same(&one, &outputs(&trace, &["--threads", "8"]));
    let path = |threads| stdout(&["critical-path", &trace, "--format", "json", "--threads", threads]);
    assert!(path("1") == path("8"));
}

#[test]
fn imported_runs_give_the_output_of_their_source() {
    let folder = tempfile::tempdir().unwrap();
    let sample = write_sample(folder.path(), 0);
    let mut inputs = vec![sample];
    inputs.extend(corpus("kineto/amd-mi250-toy-train.json.gz"));
    inputs.extend(corpus("kineto/nvidia-a100-graph-launch-16-ranks.json.gz"));
    for input in inputs {
        let run_dir = folder.path().join("job.stackline");
        let run_dir = run_dir.to_str().unwrap();
        assert!(run(&["import", &input, "-o", run_dir, "--force"]).status.success());
        assert_same(&outputs(&input, &[]), &outputs(run_dir, &[]));
        let path = |input: &str| stdout(&["critical-path", input, "--format", "json"]);
        assert!(path(&input) == path(run_dir), "{input}: the critical path differs");
    }
}
