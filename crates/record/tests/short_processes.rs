//! Processes that live about 20 ms.

use crate::support;

use std::collections::HashMap;
use support::{here, recorded, streams, torch};

#[test]
fn processes_that_live_20_ms_leave_a_stream() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let output = recorded(&python, run.path()).arg(here("tests/programs/short_lives.py")).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let streams: HashMap<u32, _> = streams(run.path()).into_iter().map(|stream| (stream.process.pid, stream)).collect();
    for line in stdout.lines() {
        let (pid, what) = line.split_once(' ').unwrap();
        let stream = streams.get(&pid.parse().unwrap()).unwrap_or_else(|| panic!("{what} left no stream"));
        let is_killed = what.contains("kill");
        assert_eq!((stream.damaged, stream.ended), (false, !is_killed), "{what}");
        let operates = ["after operators", "with operators", "that fails"].iter().any(|part| what.ends_with(part));
        let calls: u64 = stream.calls().iter().map(|(_, count)| count).sum();
        assert_eq!(calls > 0, operates && what != "program that fails", "{what}: {calls} calls");
        let exit = match what {
            "exit without operators" | "exit after operators" => Some(3),
            "program that leaves" => Some(4),
            _ => None,
        };
        assert_eq!(stream.exit, exit, "{what}");
    }
    assert_eq!(streams.len(), stdout.lines().count() + 1, "and the program itself");
}
