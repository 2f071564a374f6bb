//! Samples of waits, compared with a program that waits at known call paths for known times.

use crate::support;

use stackline_recording::{FrameKey, Metric};
use std::collections::BTreeMap;
use support::{here, recorded, streams, torch};

#[test]
fn waits_are_attributed_and_other_calls_not_interrupted() {
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
    let detail = &stream.sources["samples"].1;
    assert!(
        detail.starts_with("waits at 99 Hz")
            && detail.contains(
                "waits were not sampled, because the sampling signal would have ended their system call early"
            ),
        "{detail}"
    );
}

/// A timer of wall time would interrupt such a wait until the program is killed.
#[test]
fn restarted_waits_end() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(&python, run.path());
    command.arg(here("tests/programs/begins_anew.py")).env("STACKLINE_WALL_HZ", "99").env("STACKLINE_SAMPLE_HZ", "0");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (alive, took) =
        text.trim().split_once(' ').unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    // Unrecorded it takes 1.4 s; each wait may restart once.
    let took: f64 = took.parse().unwrap();
    assert!(alive == "False" && (1.3..3.0).contains(&took), "{text}");
    let stream = streams(run.path()).remove(0);
    let is_polled =
        |frame: &FrameKey| matches!(frame, FrameKey::Python { function, .. } if stream.text(*function) == "polled");
    let (mut seconds, mut samples) = (0.0, 0);
    for (&(thread, node, _), stats) in stream.stats.iter().filter(|(key, _)| key.2 == Metric::WallTime) {
        if stream.path(thread, node).into_iter().any(is_polled) {
            seconds += stats.sum as f64 / 1e9;
            samples += stats.count;
        }
    }
    // All of the wait is recorded, in as many samples as other code.
    assert!((seconds - (took - 0.2)).abs() < 0.15, "{seconds} of {took}");
    assert!(samples as f64 > 60.0 * seconds, "{samples} samples in {seconds} s");
}
