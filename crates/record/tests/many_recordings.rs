//! Programs that record themselves repeatedly, as a decorated function does: memory, and counts of omissions.

use crate::support;

use stackline_recording::{FrameKey, Metric};
use std::process::Command;
use support::{Stream, here, recorder, streams, torch};

/// Number of recordings of one process.
const COUNT: usize = 200;

fn called(stream: &Stream, operator: &str) -> u64 {
    let is = |key: &&FrameKey| matches!(key, FrameKey::Operator { name } if stream.text(*name) == operator);
    stream.calls().iter().filter(|(path, _)| path.last().is_some_and(is)).map(|(_, count)| count).sum()
}

fn has_samples(stream: &Stream) -> bool {
    stream.stats.keys().any(|(.., metric)| *metric == Metric::CpuTime)
}

#[test]
fn many_recordings_take_the_memory_of_one() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(python)
        .arg(here("tests/programs/many_recordings.py"))
        .arg(folder.path())
        .arg(COUNT.to_string())
        .env("PYTHONPATH", here("bootstrap"))
        .env("STACKLINE_RECORDER", recorder())
        .env("STACKLINE_NATIVE", "1")
        .env("STACKLINE_SAMPLE_HZ", "999")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout).unwrap();
    println!("{stdout}");
    let numbers: Vec<u64> =
        stdout.split(|byte: char| !byte.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    let [calls, ref before @ .., maps_100, bytes_100, maps_200, bytes_200] = numbers[..] else { panic!("{stdout}") };
    let [maps, bytes, maps_1, bytes_1] = before[..] else { panic!("{stdout}") };
    // What the first recording takes stays for the next one. A hundred more take less than it alone: less than a hundredth each.
    assert!(maps_200.saturating_sub(maps_100) < maps_1 - maps, "mappings: {stdout}");
    assert!(bytes_200.saturating_sub(bytes_100) < bytes_1 - bytes, "bytes: {stdout}");
    let mut sampled = 0;
    for number in 0..COUNT {
        let streams = streams(&folder.path().join(number.to_string()));
        let [stream] = &streams[..] else { panic!("{number}: {} streams", streams.len()) };
        assert!(stream.ended && !stream.damaged && stream.lost.is_empty(), "{number}: {:?}", stream.lost);
        assert_eq!(called(stream, "aten::sinh"), calls, "{number}");
        assert!(
            ["pytorch", "samples", "native"].iter().all(|source| stream.sources[*source].0),
            "{:?}",
            stream.sources
        );
        sampled += usize::from(has_samples(stream));
    }
    // Each recording is sampled, but chance has a short one without samples.
    assert!(sampled > COUNT / 2, "{sampled} recordings with samples");
}

#[test]
fn omitted_data_is_reported_in_its_recording() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", here("bootstrap")).env("STACKLINE_RECORDER", recorder()).env("STACKLINE_WAIT_HZ", "0");
    command.env("STACKLINE_COUNTERS", "page-faults");
    let output = command.arg(here("tests/programs/next_recordings.py")).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let [many, off, few] = [0, 1, 2].map(|number| streams(&folder.path().join(number.to_string())).remove(0));
    let over_limit = |stream: &Stream| stream.lost.get("threads_over_limit").copied();
    assert_eq!([&many, &off, &few].map(over_limit), [Some(1101 - 1024), None, None]);
    let samples = |stream: &Stream| stream.sources["samples"].clone();
    assert_eq!(samples(&off), (false, "off".into()));
    for (stream, has_warning) in [(&many, true), (&few, false)] {
        let (is_on, detail) = samples(stream);
        assert!(is_on && detail.contains("threads were not sampled") == has_warning, "{detail}");
        let has_counters = !detail.contains("no counter page-faults");
        assert_eq!(
            detail.contains("threads have no values of performance counters, because the system refused to open them"),
            has_warning && has_counters,
            "{detail}"
        );
    }
}
