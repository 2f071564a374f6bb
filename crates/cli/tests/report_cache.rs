//! Tests of the report that `import` caches in a run: equal to a computed one, and never older than the run.

use crate::common;

use common::{run, stdout, write_sample};
use std::path::Path;

fn reports(run: &str) -> Vec<String> {
    let forms = [&["--format", "table"][..], &["--format", "json"], &["--format", "csv"], &["--fail-on", "idle>99%"]];
    forms.iter().map(|form| stdout(&[&["report", run], *form].concat())).collect()
}

#[test]
fn cached_and_computed_reports_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let source = [write_sample(folder.path(), 0), write_sample(folder.path(), 1)];
    let run_path = folder.path().join("job.stackline");
    let run_name = run_path.to_str().unwrap();
    stdout(&["import", &source[0], &source[1], "-o", run_name]);
    let kept = Path::new(&run_path).join("cache/report.json");
    assert!(kept.is_file());
    let with = reports(run_name);
    std::fs::write(&kept, "damaged").unwrap();
    assert_eq!(with, reports(run_name), "a damaged entry counts as absent");
    std::fs::remove_file(&kept).unwrap();
    assert_eq!(with, reports(run_name));
    // Steps and ranks are not what was kept.
    stdout(&["import", &source[0], &source[1], "-o", run_name, "--force"]);
    assert_ne!(with[0], stdout(&["report", run_name, "--rank", "1"]));
    assert_ne!(with[0], stdout(&["report", run_name, "--steps", "0..0"]));
    // Another run in the same place has another report.
    stdout(&["import", &source[0], "-o", run_name, "--force"]);
    assert_ne!(with, reports(run_name));
    assert!(run(&["report", run_name]).status.success());
}
