use super::{CHUNK, MAX_WAITING, Stream};
use crate::event_queue::{Call, Sequence};
use crate::output::{Output, Target};
use crate::process::{ExtraData, Process};
use crate::spare_states::SpareStates;
use crate::state::State;
use crate::tree::{Key, NodeId, ROOT};
use crate::window::{Selection, Window};
use proptest::prelude::*;
use stackline_recording::{CallDetail, FrameKey, Metric, Reader, Record};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Simulated disk with limited space: the bytes of its file, and the largest size of the file.
#[derive(Clone, Debug)]
struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

impl Disk {
    fn new(room: usize) -> Self {
        Self(Arc::new(Mutex::new((Vec::new(), room))))
    }

    fn set_room(&self, room: usize) {
        self.0.lock().unwrap().1 = room;
    }

    /// Leave space for this many more bytes.
    fn leave(&self, room: usize) {
        let mut disk = self.0.lock().unwrap();
        disk.1 = disk.0.len() + room;
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().0.clone()
    }
}

impl Target for Disk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut disk = self.0.lock().unwrap();
        let fits = disk.1.saturating_sub(disk.0.len()).min(bytes.len());
        if fits == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        disk.0.extend(&bytes[..fits]);
        Ok(fits)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.0.lock().unwrap().0.truncate(length as usize);
        Ok(())
    }

    fn moved(&mut self, _to: &Path) {}
}

/// Simulated program of one thread, with the recorder's state and the writer of its stream.
struct Recorded {
    process: Process,
    window: Window,
    state: Box<State>,
    stream: Stream,
    disk: Disk,
    now: i64,
    /// Calls in order: node, begin, duration.
    calls: Vec<(u32, i64, u64)>,
}

impl Recorded {
    fn new(trace: bool, room: usize) -> Self {
        let process = Process::new(1 << 20, ExtraData { trace, ..ExtraData::default() });
        let state = SpareStates::default().enter_thread(&process);
        let disk = Disk::new(room);
        let output = Output::new(Box::new(disk.clone()));
        // Longer than the end of a stream.
        let command = vec!["train.py".to_owned(); 20];
        let head = (stackline_recording::Process { command, ..Default::default() }, Some(7));
        let stream = Stream::new(Path::new("nowhere"), head, u64::MAX, output);
        Self {
            process,
            window: Window::new(Selection::default(), trace, 0, std::time::Duration::ZERO),
            state,
            stream,
            disk,
            now: 1 << 40,
            calls: Vec::new(),
        }
    }

    /// Simulate a call of the operator with this number, and record it.
    fn call(&mut self, name: u32) {
        let text = format!("operator {name}");
        let key = |frames: &mut crate::frames::Frames| FrameKey::Operator { name: frames.text(&text) };
        let frame = self.process.intern(false, key);
        let node = self.state.tree.child(ROOT, Key::frame(frame), self.process.overflow, |_| frame);
        let (start, took) = (self.now, 5 + u64::from(name % 7));
        self.now += 100;
        self.calls.push((node.0, start, took));
        self.state.tree.add_call(NodeId(node.0), took, took);
        if let Some(outbox) = &mut self.state.outbox {
            let sequence = Sequence::new(Some(start as u64), None);
            outbox.post(Call { start, took_ns: took, node, sequence, name: 0 });
        }
    }

    fn update(&mut self) -> bool {
        self.stream.update(&self.process, &self.window, &[], false)
    }

    fn end(&mut self) -> io::Result<()> {
        self.stream.update(&self.process, &self.window, &[], true);
        self.stream.end(1 << 50, None)
    }

    fn read(&self) -> Read {
        Read::parse(&self.disk.bytes())
    }
}

/// Contents of a stream file: calls, sums, counts of missing records, outages, and the end.
#[derive(Debug, Default)]
struct Read {
    /// Calls like [`Recorded::calls`]; numbers of autograd are compared when they are read.
    calls: Vec<(u32, i64, u64)>,
    /// Count and sum by node.
    sums: HashMap<u32, (u64, u64)>,
    lost: HashMap<String, u64>,
    outages: Vec<(i32, u64)>,
    ended: bool,
    replaced: bool,
}

impl Read {
    /// Read a stream file; panics if a record refers to a missing one.
    fn parse(file: &[u8]) -> Self {
        let mut reader = Reader::new(file).unwrap();
        let (mut read, mut last, mut number) = (Self::default(), 0, 0);
        let (mut texts, mut frames, mut nodes) = (0, 0, 1);
        for record in reader.by_ref() {
            match record {
                Record::Restart => (last, number) = (0, 0),
                Record::Text { id, .. } => {
                    assert_eq!(id, texts);
                    texts += 1;
                }
                Record::Frame { id, key } => {
                    assert_eq!(id, frames);
                    assert!(!matches!(key, FrameKey::Operator { name } if name >= texts));
                    frames += 1;
                }
                Record::Node { id, parent, frame, .. } => {
                    assert!(id == nodes && parent < id && frame < frames);
                    nodes += 1;
                }
                Record::Stats { node, metric, stats, .. } => {
                    assert!(node < nodes);
                    if metric == Metric::CallTime {
                        read.sums.insert(node, (stats.count, stats.sum));
                    }
                }
                Record::Call { node, start_delta_ns, duration_ns, detail, .. } => {
                    assert!(node < nodes);
                    let start = last + start_delta_ns;
                    let CallDetail::Autograd { delta, .. } = detail else { panic!("{detail:?}") };
                    number += delta;
                    assert_eq!(number, start);
                    last = start + duration_ns as i64;
                    read.calls.push((node, start, duration_ns));
                }
                Record::Lost { what, count } => drop(read.lost.insert(what, count)),
                Record::Outage { error, dropped, .. } => read.outages.push((error, dropped)),
                Record::End { .. } => read.ended = true,
                Record::Replaced => read.replaced = true,
                _ => {}
            }
        }
        assert_eq!(reader.damage(), None);
        read
    }

    fn sums_of(calls: &[(u32, i64, u64)]) -> HashMap<u32, (u64, u64)> {
        let mut sums: HashMap<u32, (u64, u64)> = HashMap::new();
        for &(node, _, took) in calls {
            let sum = sums.entry(node).or_default();
            *sum = (sum.0 + 1, sum.1 + took);
        }
        sums
    }
}

#[test]
fn temporarily_full_disks_lose_nothing() {
    for trace in [false, true] {
        let mut program = Recorded::new(trace, usize::MAX);
        // Chunks that tear at their first byte, within their length, and within their records.
        for room in [0, 3, 8, 100, 10_000] {
            (0..3000).for_each(|call| program.call(call % 500));
            assert!(program.update());
            program.disk.leave(room);
            for iteration in 0..4 {
                (0..40_000).for_each(|call| program.call(room as u32 + iteration * 1000 + call % 700));
                program.update();
                assert_eq!(program.stream.error().and_then(|error| error.raw_os_error()), Some(libc::ENOSPC));
                // If the process were killed now, the file would be complete.
                program.read();
            }
            program.disk.set_room(usize::MAX);
            assert!(program.update());
        }
        assert!(program.end().is_ok());
        let read = program.read();
        assert_eq!(read.sums, Read::sums_of(&program.calls), "trace: {trace}");
        if trace {
            assert!(read.calls == program.calls, "{} of {}", read.calls.len(), program.calls.len());
        }
        assert_eq!((read.outages, read.lost.len(), read.ended), (vec![(libc::ENOSPC, 0); 5], 0, true));
    }
}

#[test]
fn full_disks_lose_later_records_and_report_it() {
    for (trace, room) in [(false, 200), (true, 200), (false, 10), (true, 10)] {
        let mut program = Recorded::new(trace, usize::MAX);
        (0..1000).for_each(|call| program.call(call % 100));
        assert!(program.update());
        let before = program.calls.len();
        program.disk.leave(room);
        (0..10_000).for_each(|call| program.call(call % 1000));
        program.update();
        (0..10_000).for_each(|call| program.call(call % 1000));
        assert!(program.end().is_err());
        let read = program.read();
        assert_eq!(read.sums, Read::sums_of(&program.calls[..before]));
        assert_eq!(read.calls, program.calls[..if trace { before } else { 0 }]);
        // The free space suffices either for the end of the recording, or for no further record.
        assert_eq!((read.ended, read.outages.len()), if room < 100 { (false, 0) } else { (true, 1) });
        assert!(read.outages.iter().all(|&(error, dropped)| error == libc::ENOSPC && dropped > 2000), "{read:?}");
    }
}

/// Test streams on a full disk, for any available space: a file has its header and its process, or nothing.
#[test]
fn disks_full_from_the_begin_leave_a_readable_stream() {
    let whole = Recorded::new(false, usize::MAX).disk.bytes().len();
    for room in (0..2 * whole).step_by(5) {
        for more in [0, 1, 20, whole, usize::MAX / 2] {
            let mut program = Recorded::new(false, room);
            (0..1000).for_each(|call| program.call(call % 100));
            program.update();
            program.disk.set_room(room + more);
            let ended = program.end();
            let file = program.disk.bytes();
            if file.is_empty() {
                assert!(ended.is_err() && room + more < whole, "{room} + {more} of {whole}");
                continue;
            }
            let first = Reader::new(&file).unwrap().next();
            assert!(matches!(first, Some(Record::Process(_))), "{room} + {more} of {whole}: {first:?}");
            assert!(ended.is_err() || program.read().sums == Read::sums_of(&program.calls));
        }
    }
}

/// Test that a provisional end is removed if the other program, which was to replace this one, fails to start.
#[test]
fn retracted_ends_leave_no_record() {
    for (trace, room) in [(false, None), (true, None), (false, Some(200)), (true, Some(200)), (true, Some(10))] {
        let mut program = Recorded::new(trace, usize::MAX);
        (0..1000).for_each(|call| program.call(call % 100));
        assert!(program.update());
        let before = program.disk.bytes();
        if let Some(room) = room {
            program.disk.leave(room);
            (0..10_000).for_each(|call| program.call(call % 1000));
            program.update();
        }
        assert_eq!(program.stream.end_provisionally(1 << 50).is_ok(), room.is_none());
        let read = program.read();
        let has_room = room != Some(10);
        assert_eq!((read.ended, read.replaced), (has_room, has_room));
        assert_eq!(read.outages.len(), usize::from(room == Some(200)));
        program.stream.retract_end();
        assert!(program.disk.bytes() == before, "trace: {trace}, room: {room:?}");
        program.disk.set_room(usize::MAX);
        (0..100).for_each(|call| program.call(call));
        assert!(program.update() && program.end().is_ok());
        let read = program.read();
        assert!(read.ended && !read.replaced);
        assert_eq!(read.sums, Read::sums_of(&program.calls));
        assert!(!trace || read.calls == program.calls);
    }
}

/// Test that no provisional end is written while the first chunk of the stream waits for disk space.
#[test]
fn provisional_ends_are_not_written_without_a_begin() {
    let whole = Recorded::new(false, usize::MAX).disk.bytes().len();
    for room in (0..2 * whole).step_by(5) {
        let mut program = Recorded::new(false, room);
        (0..1000).for_each(|call| program.call(call % 100));
        program.update();
        assert!(program.stream.end_provisionally(1 << 50).is_err(), "{room} of {whole}");
        let file = program.disk.bytes();
        if room < whole {
            assert!(file.is_empty(), "{room} of {whole}: {} bytes", file.len());
        } else {
            program.read();
        }
        program.stream.retract_end();
        program.disk.set_room(usize::MAX);
        assert!(program.update() && program.end().is_ok());
        let read = program.read();
        assert!(read.ended && !read.replaced && read.outages.len() == 1);
        assert_eq!(read.sums, Read::sums_of(&program.calls));
    }
}

/// Test a full disk: waiting calls are bounded; further ones are counted, and their sums are recorded.
#[test]
fn records_dropped_while_the_disk_is_full_are_counted() {
    let mut program = Recorded::new(true, usize::MAX);
    program.call(1);
    assert!(program.update());
    program.disk.leave(0);
    let mut iterations = 0;
    while program.stream.output.waiting_bytes() < MAX_WAITING {
        (0..100_000).for_each(|call| program.call(call % 10));
        program.update();
        iterations += 1;
        assert!(iterations < 100, "{} bytes wait", program.stream.output.waiting_bytes());
    }
    for _ in 0..4 {
        (0..100_000).for_each(|call| program.call(call % 10));
        assert!(!program.update());
    }
    assert!(program.stream.output.waiting_bytes() < MAX_WAITING + (4 << 20));
    program.disk.set_room(usize::MAX);
    program.call(2);
    assert!(program.update() && program.end().is_ok());
    let read = program.read();
    assert_eq!(read.sums, Read::sums_of(&program.calls));
    let lost = read.lost["calls_not_written"];
    assert!(lost > 200_000 && !read.lost.contains_key("calls_too_fast"), "{:?}", read.lost);
    assert_eq!(read.calls.len() as u64 + lost, program.calls.len() as u64);
}

#[test]
fn chunks_can_be_read_without_those_before() {
    let mut program = Recorded::new(true, usize::MAX);
    // The tree first, so that the following chunks contain only individual calls.
    (0..10).for_each(|call| program.call(call));
    program.update();
    let known = program.disk.bytes().len();
    (0..100_000).for_each(|call| program.call(call % 10));
    program.update();
    assert!(program.end().is_ok());
    let mut file = program.disk.bytes();
    assert!(file.len() > known + 3 * CHUNK);
    file[known + CHUNK / 2] ^= 1;
    let mut reader = Reader::new(&file).unwrap();
    let (mut last, mut read) = (0, Vec::new());
    for record in reader.by_ref() {
        match record {
            Record::Restart => last = 0,
            Record::Call { node, start_delta_ns, duration_ns, .. } => {
                read.push((node, last + start_delta_ns, duration_ns));
                last = last + start_delta_ns + duration_ns as i64;
            }
            _ => {}
        }
    }
    assert_eq!(reader.damages().len(), 1);
    let truth: std::collections::HashSet<_> = program.calls.iter().collect();
    assert!(read.iter().all(|call| truth.contains(call)), "no call at another time than its own");
    assert!(read.len() > 50_000 && read.len() < 100_000, "{}", read.len());
}

proptest! {
    /// Test a disk with any space at any time: the file is complete, and all of its data were recorded.
    #[test]
    fn files_are_complete_for_any_free_space(
        trace: bool,
        iterations in proptest::collection::vec((0_u32..400, prop_oneof![Just(usize::MAX), 0_usize..4000], any::<bool>()), 1..12),
    ) {
        let mut program = Recorded::new(trace, usize::MAX);
        for (calls, room, is_replaced) in iterations {
            match room {
                usize::MAX => program.disk.set_room(room),
                room => program.disk.leave(room),
            }
            (0..calls).for_each(|call| program.call(call % 150));
            program.update();
            if is_replaced {
                let _ = program.stream.end_provisionally(1 << 50);
                program.read();
                program.stream.retract_end();
            }
            let read = program.read();
            prop_assert!(!read.replaced && (!trace || program.calls.starts_with(&read.calls)));
        }
        program.disk.set_room(usize::MAX);
        prop_assert!(program.end().is_ok());
        let read = program.read();
        prop_assert_eq!(&read.sums, &Read::sums_of(&program.calls));
        prop_assert!(!trace || read.calls == program.calls);
    }
}
