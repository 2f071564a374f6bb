//! Python's names of threads.

use crate::support;

use std::collections::BTreeMap;
use support::{here, interpreters, recorded, streams};

#[test]
fn threads_have_their_python_names() {
    for version in ["3.10", "3.11", "3.12", "3.13", "3.14"] {
        let Some(python) = interpreters(version).pop() else {
            println!("skipped: no python{version}");
            continue;
        };
        let run = tempfile::tempdir().unwrap();
        let mut command = recorded(&python, run.path());
        command.arg(here("tests/programs/thread_names.py")).env("STACKLINE_SAMPLE_HZ", "200");
        let output = command.output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        // Tracebacks have the frames that they have without a recorder.
        assert_eq!(stdout, "[['_bootstrap_inner', 'run', 'fail']]\n", "{}", String::from_utf8_lossy(&output.stderr));
        let stream = streams(run.path()).remove(0);
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for thread in stream.threads.values() {
            *names.entry(thread.name.as_str()).or_default() += 1;
        }
        let long = "a very long name of a thread that no system call would take ".repeat(4);
        for (name, count) in [
            ("MainThread", 1),
            ("loader", 2),
            ("Ladevorgang für Größe 数", 1),
            (&long, 1),
            ("subclass", 1),
            ("failing", 1),
        ] {
            assert_eq!(names.get(name), Some(&count), "{version}: {name} in {names:?}");
        }
        // Up to 3.10, only threads that live to the end report their new name.
        let renamed = if version == "3.10" { "before" } else { "renamed by itself" };
        assert_eq!(names.get(renamed), Some(&1), "{version}: {names:?}");
        // A name that no file can hold: the system's takes its place.
        assert_eq!(stream.threads.len(), 9, "{names:?}");
    }
}
