//! Interrupted writes: the path of a run never leads to an incomplete run.

use crate::common;

use common::{assert_same, random, sample};
use stackline_model::TraceSet;
use stackline_store::{Error, ReadSelection, WriteOptions, is_run, read_run, write_run};
use std::path::Path;
use std::time::Duration;

const CHILD: &str = "STACKLINE_STORE_TEST_RUN";

fn big() -> TraceSet {
    TraceSet { traces: vec![random::long(150_000), sample()] }
}

fn options(overwrite: bool) -> WriteOptions {
    WriteOptions { overwrite, ..WriteOptions::default() }
}

/// Not a test: the processes that other tests start, kill and starve run it.
#[test]
fn child() {
    if let Some(run) = std::env::var_os(CHILD) {
        let written = write_run(&big(), &[], Path::new(&run), &options(true));
        if let Err(error) = written {
            println!("refused: {error}");
        }
    }
}

fn start(run: &Path, limit: Option<u32>) -> std::process::Child {
    let this = std::env::current_exe().unwrap();
    // A file size limit fails like a full disk: writing past it is an error (the signal that would come first is
    // ignored).
    let limit = limit.map_or(String::new(), |blocks| format!("ulimit -f {blocks}; trap '' XFSZ; "));
    let script = format!("{limit}exec \"$0\" --exact crash::child --nocapture --test-threads=1");
    std::process::Command::new("sh")
        .args(["-c", &script])
        .arg(this)
        .env(CHILD, run)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// The content of `folder` is the previous run or the new one, complete; nothing else looks like a run.
fn check(folder: &Path, before: Option<&TraceSet>) -> bool {
    let run = folder.join("a.stackline");
    if !run.exists() {
        assert!(before.is_none(), "the run from before is gone");
        return false;
    }
    let found = read_run(&run, &ReadSelection::all()).unwrap();
    let new = found.traces.len() == big().traces.len();
    let expected = if new { big() } else { before.unwrap().clone() };
    for (a, b) in expected.traces.iter().zip(&found.traces) {
        assert_same(a, b);
    }
    new
}

#[cfg(unix)]
#[test]
fn killed_imports_leave_no_run() {
    let mut finished = 0;
    for delay in [0, 20, 60, 100, 140, 180, 240, 300, 400, 600, 900, 4000] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = start(&folder.path().join("a.stackline"), None);
        std::thread::sleep(Duration::from_millis(delay));
        // SIGKILL; fails if the child is done already.
        let _ = child.kill();
        child.wait().unwrap();
        finished += usize::from(check(folder.path(), None));
    }
    println!("{finished} of 12 imports were done before they were killed");
    assert!(finished < 12);
}

#[cfg(unix)]
#[test]
fn full_disks_keep_the_previous_run() {
    let mut refused = 0;
    for blocks in [0, 1, 2, 8, 64, 512, 1024, 2048, 4096] {
        for replace in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let run = folder.path().join("a.stackline");
            let before = TraceSet { traces: vec![sample()] };
            if replace {
                write_run(&before, &[], &run, &options(false)).unwrap();
            }
            let out = start(&run, Some(blocks)).wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            if check(folder.path(), replace.then_some(&before)) {
                continue;
            }
            refused += 1;
            assert!(text.contains("refused: cannot write"), "{text}");
            // The partial directory is removed.
            let left = std::fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(left, usize::from(replace), "{text}");
        }
    }
    println!("{refused} of 18 imports were refused");
    assert!(refused >= 4);
}

#[test]
fn cancelled_writes_leave_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let set = TraceSet { traces: vec![sample()] };
    let cancel = Some(std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true)));
    let options = WriteOptions { cancel, ..WriteOptions::default() };
    let refused = write_run(&set, &[], &folder.path().join("a.stackline"), &options);
    assert!(matches!(refused, Err(Error::Cancelled)), "{refused:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn existing_runs_are_replaced_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    let (one, two) = (TraceSet { traces: vec![sample()] }, TraceSet { traces: vec![sample(), sample()] });
    write_run(&one, &[], &run, &options(false)).unwrap();
    assert!(matches!(write_run(&two, &[], &run, &options(false)), Err(Error::Exists { .. })));
    assert_eq!(read_run(&run, &ReadSelection::all()).unwrap().traces.len(), 1);
    write_run(&two, &[], &run, &options(true)).unwrap();
    assert_eq!(read_run(&run, &ReadSelection::all()).unwrap().traces.len(), 2);
    assert!(is_run(&run));
    // Only runs are replaced.
    for foreign in ["a.txt", "photos"] {
        let path = folder.path().join(foreign);
        if foreign == "photos" {
            std::fs::create_dir(&path).unwrap();
        } else {
            std::fs::write(&path, "precious").unwrap();
        }
        assert!(!is_run(&path));
        assert!(matches!(write_run(&two, &[], &path, &options(true)), Err(Error::Foreign { .. })));
        assert!(path.exists());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left");
    let missing = folder.path().join("new/deep/b.stackline");
    write_run(&one, &[], &missing, &options(false)).unwrap();
    assert!(is_run(&missing));
}
