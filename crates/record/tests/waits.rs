//! Where threads wait, against a program that waits in known places for known times.

use crate::support;

use stackline_recording::{FrameKey, Metric};
use std::collections::BTreeMap;
use support::{here, recorded, streams, torch};

#[test]
fn waits_are_seen_where_they_are_and_nothing_else_is_interrupted() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(&python, run.path());
    command.arg(here("tests/programs/waits.py")).env("STACKLINE_WAIT_HZ", "99");
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[]\n", "{}", String::from_utf8_lossy(&output.stderr));
    let stream = streams(run.path()).remove(0);
    let mut waited: BTreeMap<String, f64> = BTreeMap::new();
    for (&(thread, node, _), stats) in stream.stats.iter().filter(|(key, _)| key.2 == Metric::WaitTime) {
        for frame in stream.path(thread, node) {
            if let FrameKey::Python { function, .. } = frame {
                *waited.entry(stream.text(*function).to_owned()).or_default() += stats.sum as f64 / 1e9;
            }
        }
    }
    let seconds = |name: &str| waited.get(name).copied().unwrap_or(0.0);
    // A look every 10 ms, and after 100 ms of waiting a tenth later each: a tenth of a wait may not be seen.
    for name in ["slept", "queued", "read"] {
        assert!((0.3..0.55).contains(&seconds(name)), "{name}: {waited:?}");
    }
    // A process begins and ends, too.
    assert!((0.3..2.0).contains(&seconds("child")), "{waited:?}");
    for name in ["nanosleep", "polled", "limited", "gathered", "written", "blocked"] {
        assert!(seconds(name) < 0.05, "{name}: {waited:?}");
    }
    let said = &stream.sources["samples"].1;
    assert!(
        said.starts_with("waits at 99 Hz") && said.contains("looks found waits that were not interrupted to ask where"),
        "{said}"
    );
}
