//! Foreign directories are never replaced, for any names of their files.

use stackline_model::{Trace, TraceSet};
use stackline_store::{Error, WriteOptions, is_run, write_run};

#[test]
fn foreign_manifests_are_not_runs() {
    let folder = tempfile::tempdir().unwrap();
    let set = TraceSet { traces: vec![Trace::default()] };
    let overwrite = WriteOptions { overwrite: true, ..WriteOptions::default() };
    let app = folder.path().join("app");
    std::fs::create_dir(&app).unwrap();
    std::fs::write(app.join("manifest.json"), r#"{"name": "a browser extension"}"#).unwrap();
    assert!(!is_run(&app));
    assert!(matches!(write_run(&set, &[], &app, &overwrite), Err(Error::Foreign { .. })));
    assert!(app.join("manifest.json").is_file());
    // A run with a file of the user next to its tables.
    let run = folder.path().join("mine.stackline");
    write_run(&set, &[], &run, &overwrite).unwrap();
    write_run(&set, &[], &run, &overwrite).unwrap();
    std::fs::write(run.join("thesis.txt"), "keep").unwrap();
    assert!(is_run(&run));
    assert!(matches!(write_run(&set, &[], &run, &overwrite), Err(Error::Foreign { .. })));
    assert_eq!(std::fs::read_to_string(run.join("thesis.txt")).unwrap(), "keep");
}
