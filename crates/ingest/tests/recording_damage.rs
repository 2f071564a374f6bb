//! Streams of individual calls, truncated and damaged at any position: all calls in the result were written, and
//! missing ones are counted.

use proptest::prelude::*;
use stackline_ingest::recording::{memory_of, read_streams, traces_of};
use stackline_model::{CallMetric, EventKind, TraceSet};
use stackline_recording::{
    CallDetail, ChunkWriter, FrameKey, HEADER, Metric, Process, Record, Stats, Thread, TouchKind,
};
use std::collections::HashSet;

/// A call in a trace: name, start, duration.
type Call = (String, i64, i64);

/// Chunks of a stream; each adds names, nodes and calls of its own, and refers to earlier ones.
fn chunks(count: u32, restarts: bool) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    let (mut last_end, mut last_sample, mut last_touch) = (0, 0, (0, 0_i64));
    for chunk in 0..count {
        let mut writer = ChunkWriter::new();
        let mut push = |record: Record| writer.push(&record).unwrap();
        if chunk == 0 {
            push(Record::Process(Box::new(Process { pid: 7, start_monotonic_ns: 0, ..Process::default() })));
        } else if restarts {
            push(Record::Restart);
            (last_end, last_sample, last_touch) = (0, 0, (0, 0));
        }
        if chunk % 3 == 0 {
            let id = chunk / 3;
            push(Record::Thread(Thread { id, tid: 70 + id, ..Thread::default() }));
        }
        let thread = chunk / 3;
        // Two names and a node in each chunk, below the one before.
        push(Record::Text { id: 2 * chunk, text: format!("operator {chunk}") });
        push(Record::Text { id: 2 * chunk + 1, text: format!("span {chunk} <n>") });
        push(Record::Frame { id: 2 * chunk, key: FrameKey::Operator { name: 2 * chunk } });
        push(Record::Frame { id: 2 * chunk + 1, key: FrameKey::FoldedSpan { name: 2 * chunk + 1 } });
        let first = 2 * (chunk % 3) + 1;
        push(Record::Node { thread, id: first, parent: first - 1, frame: 2 * chunk });
        push(Record::Node { thread, id: first + 1, parent: 0, frame: 2 * chunk + 1 });
        for call in 0..i64::from(chunk % 4 + 3) {
            let start = 1_000_000 + i64::from(chunk) * 10_000 + call * 100;
            let is_span = call % 2 == 1;
            let (node, detail) = match is_span {
                true => (first + 1, CallDetail::Name(format!("span {chunk} {call}"))),
                false => (first, CallDetail::None),
            };
            push(Record::Call { thread, node, start_delta_ns: start - last_end, duration_ns: 50, detail });
            last_end = start + 50;
            let stats = Stats { count: call as u64 + 1, sum: 50 * (call as u64 + 1), ..Stats::default() };
            push(Record::Stats { thread, node, metric: Metric::CallTime, stats });
            push(Record::Sample { thread, node, delta_ns: start - last_sample, metric: Metric::CpuTime, value: 10 });
            last_sample = start;
            let address = 0x1000 * (i64::from(chunk) * 16 + call + 1);
            let (delta_ns, address_delta) = (start - last_touch.0, address - last_touch.1);
            push(Record::Touch { thread, node, delta_ns, kind: TouchKind::Allocated, address_delta, bytes: 64 });
            last_touch = (start, address);
        }
        if chunk + 1 == count {
            push(Record::End { at_ns: 5 });
        }
        chunks.push(writer.finish().to_vec());
    }
    chunks
}

fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
    [HEADER.to_vec()].iter().chain(chunks).flatten().copied().collect()
}

fn calls(set: &TraceSet) -> HashSet<Call> {
    let mut calls = HashSet::new();
    for trace in &set.traces {
        let events = &trace.events;
        let base: i64 =
            trace.meta.entries.iter().find(|entry| entry.0 == "baseTimeNanoseconds").unwrap().1.parse().unwrap();
        for event in events.ids() {
            let at = event.index();
            if matches!(events.kind[at], EventKind::Operator | EventKind::Annotation | EventKind::Sample) {
                let name = trace.strings.get(events.name[at]).to_owned();
                calls.insert((name, events.start[at] + base, events.dur[at]));
            }
        }
    }
    calls
}

/// Read a stream as a tree, a trace and a memory trace: calls of the trace, the sum of times, and the number of skipped
/// bytes.
fn read(file: &[u8]) -> (HashSet<Call>, u64, Vec<(String, u64)>) {
    let set = traces_of("run", [("7-0.slr", file)]);
    drop(memory_of("7-0.slr", file));
    let tree = read_streams([("7-0.slr", file)]);
    assert_eq!(tree.check(), Ok(()));
    let exclusive = tree.exclusive(CallMetric::CallTime, |_| true);
    let sum = tree.inclusive(CallMetric::CallTime, &exclusive)[0].sum;
    let problems = tree.report.problems.iter().map(|problem| (problem.code.clone(), problem.count)).collect();
    (calls(&set), sum, problems)
}

#[test]
fn calls_that_share_a_frame_keep_their_names() {
    let (calls, ..) = read(&file(&chunks(4, true)));
    assert!(calls.contains(&("span 3 1".to_owned(), 1_030_100, 50)), "{calls:?}");
    assert!(calls.contains(&("operator 3".to_owned(), 1_030_200, 50)));
}

/// The first chunk is found again after the byte. Its calls have no times, and no later call has their names.
#[test]
fn damage_before_the_first_chunk_affects_no_later_names() {
    for count in 1..6 {
        let mut damaged = file(&chunks(count, true));
        let (whole, ..) = read(&damaged);
        damaged.insert(HEADER.len(), 2);
        let (calls, _, problems) = read(&damaged);
        assert!(calls.is_subset(&whole), "{count}: {:?}", calls.difference(&whole).collect::<Vec<_>>());
        assert!(problems.iter().any(|problem| problem.0 == "damaged_chunk"), "{problems:?}");
        assert_eq!(calls.is_empty(), count == 1, "the first chunk's calls alone have no times");
    }
}

#[test]
fn chunks_after_a_lost_one_are_read() {
    let all = chunks(9, true);
    let (whole, ..) = read(&file(&all));
    for lost in 1..8 {
        let mut cut = all.clone();
        cut[lost].truncate(20);
        let (calls, _, problems) = read(&file(&cut));
        assert!(calls.is_subset(&whole), "chunk {lost}: {:?}", calls.difference(&whole).collect::<Vec<_>>());
        // Chunk 8 refers only to chunks from 6 on.
        let last = calls.iter().filter(|call| call.1 >= 1_080_000).count();
        let expected = whole.iter().filter(|call| call.1 >= 1_080_000).count();
        assert_eq!((last, expected > 0), (if lost < 6 { expected } else { last }, true), "chunk {lost}");
        let codes: Vec<&str> = problems.iter().map(|problem| problem.0.as_str()).collect();
        assert!(codes.contains(&"damaged_chunk") && !codes.contains(&"cut_stream"), "{problems:?}");
    }
}

/// Streams from before [`Record::Restart`]: times of calls after damage are unknown, so there are no calls.
#[test]
fn unknown_times_are_not_guessed() {
    let mut all = chunks(6, false);
    let (whole, ..) = read(&file(&all));
    all[1].truncate(20);
    let (calls, sum, problems) = read(&file(&all));
    assert!(calls.is_subset(&whole) && calls.iter().all(|call| call.1 < 1_010_000), "{calls:?}");
    assert!(sum > 0 && problems.iter().any(|problem| problem.0 == "dangling_record"), "{problems:?}");
}

#[test]
fn outages_are_reported_with_their_reason() {
    let mut writer = ChunkWriter::new();
    for record in [
        Record::Process(Box::default()),
        Record::Outage { from_ns: 0, to_ns: 2_100_000_000, error: 28, dropped: 0 },
        Record::Outage { from_ns: 0, to_ns: 500_000_000, error: 27, dropped: 12 },
        Record::End { at_ns: 5 },
    ] {
        writer.push(&record).unwrap();
    }
    let tree = read_streams([("7-0.slr", file(&[writer.finish().to_vec()]).as_slice())]);
    let problem_of = |code: &str| tree.report.problems.iter().find(|problem| problem.code == code).unwrap();
    assert_eq!(problem_of("write_delayed").example, "7-0.slr: disk full for 2.1 s; all records were written later");
    assert_eq!(problem_of("not_written").count, 12);
    assert_eq!(
        problem_of("not_written").example,
        "7-0.slr: file too large (RLIMIT_FSIZE) for 0.5 s; 12 records were not written"
    );
    assert!(!tree.report.is_clean());
}

#[test]
fn empty_streams_have_no_calls() {
    for length in [0, 3, 7, 8] {
        let tree = read_streams([("7-0.slr", &HEADER[..length])]);
        assert_eq!(tree.report.count_of("empty_stream"), 1, "{length} bytes");
        assert_eq!(tree.report.count_of("unreadable_stream"), 0);
    }
}

proptest! {
    #[test]
    fn all_calls_read_were_written(
        count in 1_u32..12,
        damages in proptest::collection::vec((any::<prop::sample::Index>(), 1_usize..300, 1_u8..=255, 0_u8..3), 0..5),
    ) {
        let mut damaged = file(&chunks(count, true));
        let (whole, sum, _) = read(&damaged);
        for (at, length, byte, kind) in damages {
            let at = HEADER.len() + at.index(damaged.len() - HEADER.len() + 1);
            let end = (at + length).min(damaged.len());
            match kind {
                0 => drop(damaged.drain(at..end)),
                1 => damaged[at..end].iter_mut().for_each(|old| *old ^= byte),
                _ => drop(damaged.splice(at..at, std::iter::repeat_n(byte, length))),
            }
        }
        let (calls, less, _) = read(&damaged);
        prop_assert!(calls.is_subset(&whole), "{:?}", calls.difference(&whole).collect::<Vec<_>>());
        prop_assert!(less <= sum);
    }
}
