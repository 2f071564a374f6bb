//! Limits on the memory of a recording, and data that the program must keep.

use crate::support;

use stackline_recording::{FrameKey, Metric, Record};
use std::path::Path;
use support::{all_records, here, interpreters, recorded, streams, torch};

#[test]
#[ignore = "long: ./dev test --long"]
fn ended_threads_leave_no_memory() {
    let Some(python) = torch() else { return };
    const MORE: usize = 1000;
    for mode in ["profile", "trace"] {
        let run = tempfile::tempdir().unwrap();
        let mut command = recorded(&python, run.path());
        command.env("STACKLINE_MODE", mode).env("STACKLINE_SAMPLE_HZ", "99");
        let output = command.arg(here("tests/programs/threads.py")).arg(MORE.to_string()).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let grown: f64 = stdout.trim().parse().unwrap();
        println!("{mode}: {grown:.1} MB for {MORE} threads");
        // Each thread has numbers of forward operators of 1 MB, and some wait for the writer.
        assert!(grown < 300.0, "{mode}: {grown} MB");
        // Nothing of what they did is missing.
        let records = all_records(run.path());
        let calls = records.iter().filter(|record| matches!(record, Record::Call { .. })).count();
        let lost: Vec<_> = records.iter().filter(|record| matches!(record, Record::Lost { .. })).collect();
        assert!(lost.is_empty(), "{lost:?}");
        assert_eq!(mode == "trace", calls > MORE * 20 * 4, "{calls} calls");
    }
}

#[test]
fn a_full_tree_keeps_no_new_names() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(&python, run.path());
    command.env("STACKLINE_MAX_NODES", "100").arg(here("tests/programs/names.py"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let records = all_records(run.path());
    let count = |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count();
    let frames = count(|record| matches!(record, Record::Frame { .. }));
    let texts = count(|record| matches!(record, Record::Text { .. }));
    println!("{frames} frames, {texts} texts");
    assert!((50..150).contains(&frames) && texts < 300, "{frames} frames, {texts} texts");
    let full = records
        .iter()
        .any(|record| matches!(record, Record::Lost { what, count } if what == "tree_full" && *count > 3000));
    assert!(full, "what found no place is counted");
}

#[test]
fn an_interrupt_reaches_the_program_when_a_module_dies() {
    for version in ["3.10", "3.11", "3.12", "3.13"] {
        let Some(python) = interpreters(version).pop() else {
            println!("skipped: no CPython {version} on PATH or in pyenv");
            continue;
        };
        let run = tempfile::tempdir().unwrap();
        let output = recorded(&python, run.path()).arg(here("tests/programs/interrupted.py")).output().unwrap();
        let output_texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{version}: {output_texts:?}");
        assert_eq!(output_texts, ["50\n", ""], "{version}");
    }
}

#[test]
fn threads_beyond_the_limit_are_counted_once_each() {
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(Path::new("python3"), run.path());
    command.env("STACKLINE_SAMPLE_HZ", "199").env("STACKLINE_WAIT_HZ", "0").arg(here("tests/programs/many_threads.py"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stream = streams(run.path()).remove(0);
    // The main one, those that wait and the busy one; the other one had a place.
    assert_eq!(stream.lost.get("threads_over_limit"), Some(&(1102 - 1024)), "{:?}", stream.lost);
    let detail = &stream.sources["samples"].1;
    assert!(
        detail.contains("78 threads were not sampled, because the limit of 1,024 sampled threads was reached"),
        "{detail}"
    );
    let samples = |name: &str| -> u64 {
        let is =
            |frame: &&FrameKey| matches!(frame, FrameKey::Python { function, .. } if stream.text(*function) == name);
        let of_time = stream.stats.iter().filter(|(key, _)| key.2 == Metric::CpuTime);
        let found = of_time.filter(|&(&(thread, node, _), _)| stream.path(thread, node).iter().any(is));
        found.map(|(_, stats)| stats.count).sum()
    };
    assert_eq!(samples("too_many"), 0);
    assert!(samples("with_a_place") > 10, "{}", samples("with_a_place"));
}

/// Single events that don't fit are counted, including names of tensors.
#[test]
fn names_beyond_the_limit_of_single_calls_are_counted() {
    let Some(python) = torch() else { return };
    let names = |limit: &str| {
        let run = tempfile::tempdir().unwrap();
        let mut command = recorded(&python, run.path());
        command.env("STACKLINE_MODE", "trace").env("STACKLINE_MEMORY", "1").env("STACKLINE_TRACE_LIMIT", limit);
        command.args(["-c", "import torch\nmodels = [torch.nn.Linear(8, 8) for _ in range(100)]"]);
        assert!(command.output().unwrap().status.success());
        let records = all_records(run.path());
        let lost = records.iter().rev().find_map(|record| match record {
            Record::Lost { what, count } if what == "names_over_limit" => Some(*count),
            _ => None,
        });
        (records.iter().filter(|record| matches!(record, Record::Named { .. })).count() as u64, lost.unwrap_or(0))
    };
    let (all, lost) = names("1000000000");
    assert!(all >= 200 && lost == 0, "{all} {lost}");
    let (named_count, lost) = names("1");
    assert!(named_count <= 1, "the limit is kept: {named_count}");
    assert_eq!(named_count + lost, all);
}

#[test]
fn windows_are_written_with_the_numbers_of_their_steps() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let program = "import torch\nweight = torch.zeros(4, requires_grad=True)\n\
                   optimizer = torch.optim.SGD([weight], lr=0.1)\n\
                   for step in range(8):\n    weight.sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n";
    let mut command = recorded(&python, run.path());
    command.env("STACKLINE_MODE", "trace").env("STACKLINE_EVERY", "3").args(["-c", program]);
    assert!(command.output().unwrap().status.success());
    let records = all_records(run.path());
    assert!(matches!(records[1], Record::Machine { .. }), "{:?}", records[1]);
    let changes: Vec<(u64, bool, bool, i64)> = records
        .iter()
        .filter_map(|record| match *record {
            Record::Window { at_ns, step, open, at_step } => Some((step, open, at_step, at_ns)),
            _ => None,
        })
        .collect();
    let windows: Vec<_> = changes.iter().map(|change| (change.0, change.1, change.2)).collect();
    let expected = [(0, true), (1, false), (3, true), (4, false), (6, true), (7, false)];
    assert_eq!(windows, expected.map(|(step, open)| (step, open, true)));
    assert!(changes.is_sorted_by_key(|change| change.3));
}
