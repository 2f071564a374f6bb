//! Tests of accepted inputs and their ranks.

use crate::common;

use common::{corpus, run, stdout, write_sample};
use serde_json::Value;

fn traces(args: &[&str]) -> Vec<(String, i64, bool)> {
    let document: Value = serde_json::from_str(&stdout(&[args, &["--format", "json"]].concat())).unwrap();
    let one = |t: &Value| {
        let name = t["name"].as_str().unwrap().to_owned();
        (name, t["rank"].as_i64().unwrap(), t["rank_from_file"].as_bool().unwrap())
    };
    document["traces"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn runs_within_a_directory_are_opened_too() {
    let (source, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().to_str().unwrap();
    write_sample(folder.path(), 0);
    let other = write_sample(source.path(), 1);
    let good = folder.path().join("deep/job.stackline");
    std::fs::create_dir(folder.path().join("deep")).unwrap();
    assert!(run(&["import", &other, "-o", good.to_str().unwrap()]).status.success());
    let expected = [("rank0.json".to_owned(), 0, true), ("rank1.json".to_owned(), 1, true)];
    assert_eq!(traces(&["steps", path]), expected);
    let bad = folder.path().join("bad.stackline");
    assert!(run(&["import", &other, "-o", bad.to_str().unwrap()]).status.success());
    std::fs::write(bad.join("manifest.json"), "{\"format\": \"stackline-run\"").unwrap();
    assert_eq!(traces(&["steps", path]), expected);
    let report = stdout(&["doctor", path]);
    assert!(report.contains("skipped_file") && report.contains("bad.stackline"), "{report}");
}

#[test]
fn ranks_by_position_are_reported_and_stored() {
    let folder = tempfile::tempdir().unwrap();
    let sample = write_sample(folder.path(), 0);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (a, b) = (file("a.json"), file("b.json"));
    for copy in [&a, &b] {
        std::fs::copy(&sample, copy).unwrap();
    }
    assert_eq!(traces(&["steps", &a, &b]), [("a.json".to_owned(), 0, true), ("b.json".to_owned(), 1, false)]);
    let text = stdout(&["doctor", &a, &b]);
    assert!(
        text.contains("rank_by_position") && text.contains("b.json contains rank 0, but is treated as rank 1"),
        "{text}"
    );
    let report = stdout(&["report", &a, &b]);
    let warning = "Warning: the traces are not ranks of one job: a.json and b.json are both rank 0; ";
    assert!(report.lines().any(|line| line.starts_with(warning)), "{report}");
    assert!(stdout(&["report", &a, &b, "--for-agent"]).contains(warning.split_once(": a.json").unwrap().0));
    assert!(!stdout(&["report", &a]).contains("Warning: the traces"));
    let both = file("both.stackline");
    assert!(run(&["import", &a, &b, "-o", &both]).status.success());
    // First the report that `import` kept, then one of the stored traces.
    for _ in 0..2 {
        let report = stdout(&["report", &both]);
        assert!(report.lines().any(|line| line.starts_with(warning)), "{report}");
        let document: Value = serde_json::from_str(&stdout(&["report", &both, "--format", "json"])).unwrap();
        assert_eq!(document["rank_conflict"], "a.json and b.json are both rank 0");
        let _ = std::fs::remove_dir_all(std::path::Path::new(&both).join("cache"));
    }
    let chosen = ["steps", &a, &b, "--rank", "1"];
    assert_eq!(traces(&chosen), [("b.json".to_owned(), 1, false)]);
    assert!(stdout(&chosen).contains("rank_by_position"));
    let run_dir = file("one.stackline");
    assert!(run(&["import", &a, &b, "--rank", "1", "-o", &run_dir]).status.success());
    assert_eq!(traces(&["steps", &run_dir]), [("b.json".to_owned(), 1, true)]);
}

#[test]
fn tables_of_a_run_are_one_input_for_every_command() {
    let files = ["decode_kernel_trace.csv", "decode_hip_api_trace.csv"].map(|name| corpus(&format!("rocprof/{name}")));
    let [Some(kernels), Some(calls)] = &files else { return };
    for command in ["report", "findings", "critical-path", "kernels", "steps"] {
        assert_eq!(traces(&[command, kernels, calls]), [("decode".to_owned(), 0, false)], "{command}");
    }
    let folder = tempfile::tempdir().unwrap();
    let run_of_it = folder.path().join("decode.stackline");
    stdout(&["import", kernels, calls, "-o", run_of_it.to_str().unwrap()]);
    let table = |inputs: &[&str]| stdout(&[inputs, &["--format", "csv", "--table", "gpu_kernels"]].concat());
    assert_eq!(table(&["kernels", run_of_it.to_str().unwrap()]), table(&["kernels", kernels, calls]));
    let export = folder.path().join("decode.json");
    stdout(&["export", "--to", "chrome", kernels, calls, "-o", export.to_str().unwrap()]);
    assert_eq!(table(&["kernels", export.to_str().unwrap()]), table(&["kernels", kernels, calls]));
}

#[test]
fn profile_and_trace_in_one_folder_are_one_input() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/profiles-h100");
    let file = |name: &str| fixtures.join(name).to_str().unwrap().to_owned();
    let (profile, trace) = (file("jax-train.xplane.pb.gz"), file("jax-train.trace.json.gz"));
    for command in ["report", "findings"] {
        assert_eq!(
            traces(&[command, &trace, &profile]),
            [("jax-train.xplane.pb.gz".to_owned(), 0, false)],
            "{command}"
        );
    }
}
