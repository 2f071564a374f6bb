use super::{Checksums, Damage, MAX_CHUNK, Reader};
use crate::{Activity, CallDetail, ChunkWriter, HEADER, Launch, Metric, Queue, Record, TouchKind};
use proptest::prelude::*;

fn text(id: u32) -> Record {
    Record::Text { id, text: format!("name {id}") }
}

/// Bytes of a chunk with text records of these ids.
fn chunk(ids: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let mut writer = ChunkWriter::new();
    for id in ids {
        writer.push(&text(id)).unwrap();
    }
    writer.finish().to_vec()
}

/// Bytes of a chunk of format 1, in which each record has the number of its kind.
fn old_chunk(records: &[Record]) -> Vec<u8> {
    let body: Vec<u8> = records.iter().flat_map(|record| postcard::to_allocvec(record).unwrap()).collect();
    framed(&body)
}

fn framed(body: &[u8]) -> Vec<u8> {
    let (length, crc) = (body.len() as u32, crc32fast::hash(body));
    [&length.to_le_bytes(), &crc.to_le_bytes(), body].concat()
}

fn call(node: u32, detail: CallDetail) -> Record {
    Record::Call { thread: 3, node, start_delta_ns: -40, duration_ns: 700, detail }
}

/// Records of a call in format 1: its details, and then the call.
fn old_call(node: u32, detail: CallDetail) -> Vec<Record> {
    let thread = 3;
    let details = match detail {
        CallDetail::Autograd { delta, forward_thread } => Some(Record::Sequence { thread, delta, forward_thread }),
        CallDetail::Name(name) => Some(Record::EventName { thread, name }),
        CallDetail::None => None,
    };
    details.into_iter().chain([Record::Event { thread, node, start_delta_ns: -40, duration_ns: 700 }]).collect()
}

#[test]
fn files_of_format_1_open() {
    let details =
        [CallDetail::None, CallDetail::Autograd { delta: 5, forward_thread: 1 }, CallDetail::Name("step 7".into())];
    let old: Vec<Record> = details.iter().flat_map(|detail| old_call(9, detail.clone())).collect();
    // Details of a call do not apply to a call in another chunk.
    let orphan = [Record::EventName { thread: 3, name: "gone".into() }];
    let newer = framed(&[[Record::KINDS as u8, 1, 2].as_slice(), &postcard::to_allocvec(&text(1)).unwrap()].concat());
    let chunks = [old_chunk(&old), old_chunk(&orphan), newer.clone(), old_chunk(&old_call(8, CallDetail::None))];
    let file = [b"SLREC\0\0\x01".as_slice(), &chunks.concat()].concat();
    let (records, damages) = read(&file);
    let expected: Vec<Record> =
        details.into_iter().map(|detail| call(9, detail)).chain([call(8, CallDetail::None)]).collect();
    assert_eq!(records, expected);
    assert_eq!((damages.len(), damages[0].bytes), (1, newer.len() - 8), "a kind that is not known hides its chunk");
}

#[test]
fn single_records_are_identified_by_block_heads() {
    let file = |records: &[Record]| {
        let mut writer = ChunkWriter::new();
        records.iter().for_each(|record| writer.push(record).unwrap());
        [HEADER.as_slice(), writer.finish()].concat()
    };
    let has = |file: &[u8]| Reader::has_single_records(&mut &file[..]);
    let singles = [
        call(1, CallDetail::None),
        Record::Sample { thread: 0, node: 1, delta_ns: 5, metric: Metric::CpuTime, value: 9 },
        Record::Touch { thread: 0, node: 1, delta_ns: 5, kind: TouchKind::Freed, address_delta: 4, bytes: 4 },
        Record::Launch(Launch::default()),
        Record::Activity(Activity::default()),
    ];
    assert_eq!((has(&file(&[text(0), text(1)])), has(&HEADER)), (Some(false), Some(false)));
    assert_eq!(has(&file(&[Record::Device(Box::default()), Record::Queue(Queue::default())])), Some(false));
    for single in singles {
        let mut file = file(&[text(0), single, text(1)]);
        assert_eq!(has(&file), Some(true));
        // Undecidable for damaged streams.
        *file.last_mut().unwrap() ^= 1;
        assert_eq!(has(&file), None);
    }
    let missing = [
        Record::Lost { what: "calls_not_written".into(), count: 3 },
        Record::Outage { from_ns: 0, to_ns: 1, error: 28, dropped: 3 },
    ];
    for record in missing {
        assert_eq!(has(&file(&[text(0), record])), None, "they may be what was lost");
    }
    let newer = [postcard::to_allocvec(&(Record::KINDS, 1_u32, 1_u32)).unwrap(), vec![9]].concat();
    assert_eq!(has(&[HEADER.as_slice(), &framed(&newer)].concat()), None);
    let old = [b"SLREC\0\0\x01".as_slice(), &old_chunk(&[text(0)])].concat();
    assert_eq!(has(&[&HEADER[..], &[0; 16]].concat()), None);
    assert_eq!((has(&old), has(b"SLREC"), has(&[&HEADER[..], &[1, 2]].concat())), (None, None, None));
}

#[test]
fn records_without_fields_survive_a_round_trip() {
    let mut writer = ChunkWriter::new();
    let records = [Record::Restart, Record::Restart, text(0), Record::Restart];
    records.iter().for_each(|record| writer.push(record).unwrap());
    assert_eq!(read(&[HEADER.as_slice(), writer.finish()].concat()), (records.to_vec(), Vec::new()));
}

#[test]
fn blocks_of_unknown_kinds_hide_no_others() {
    let known = |id| {
        let mut writer = ChunkWriter::new();
        writer.push(&text(id)).unwrap();
        writer.finish()[8..].to_vec()
    };
    let newer = [postcard::to_allocvec(&(Record::KINDS + 200, 3_u32, 5_u32)).unwrap(), vec![9; 5]].concat();
    let body = [known(0), newer.clone(), known(1), newer, known(2)].concat();
    let file = [HEADER.as_slice(), &framed(&body), &chunk(3..5)].concat();
    let mut reader = Reader::new(&file).unwrap();
    assert_eq!(reader.by_ref().collect::<Vec<_>>(), (0..5).map(text).collect::<Vec<_>>());
    assert_eq!(reader.unknown().collect::<Vec<_>>(), [(Record::KINDS + 200, 6)]);
    assert_eq!((reader.damage(), reader.skipped()), (None, 0));
}

/// Test invalid blocks in a chunk with a valid checksum: the rest of the block is skipped, and later blocks are read.
#[test]
fn invalid_blocks_hide_only_their_rest() {
    let block = |count: u32, texts: &[u8]| {
        [postcard::to_allocvec(&(2_u32, count, texts.len() as u32)).unwrap(), texts.to_vec()].concat()
    };
    let one = [0, 1, b'a'];
    let (broken, surplus) = ([0, 1, b'a', 1, 9, b'b'], [0, 1, b'a', 7, 7]);
    let body = [block(2, &broken), block(1, &one), block(1, &surplus), block(1, &one)].concat();
    let (records, damages) = read(&[HEADER.as_slice(), &framed(&body)].concat());
    assert_eq!(records.len(), 4);
    let first = HEADER.len() + 8 + 3;
    let third = first + broken.len() + 3 + one.len() + 3;
    assert_eq!(damages, [Damage { at: first + 3, bytes: 3 }, Damage { at: third + 3, bytes: 2 }]);
    // More records are announced than present.
    let (records, damages) = read(&[HEADER.as_slice(), &framed(&block(2, &one))].concat());
    assert_eq!((records.len(), damages.len(), damages[0].bytes), (1, 1, 1));
}

/// Test the size of individual calls in typical programs: most have a number or no detail, spans have names.
#[test]
fn calls_take_no_more_bytes_than_in_format_1() {
    let detail = |at: u32| match at % 10 {
        0..5 => CallDetail::None,
        5..9 => CallDetail::Autograd { delta: 1, forward_thread: 0 },
        _ => CallDetail::Name(format!("iteration {at}")),
    };
    let mut writer = ChunkWriter::new();
    (0..1000).for_each(|at| writer.push(&call(at % 300, detail(at))).unwrap());
    let old: Vec<Record> = (0..1000).flat_map(|at| old_call(at % 300, detail(at))).collect();
    let (new, old) = (writer.finish().len(), old_chunk(&old).len());
    assert!(new * 10 < old * 9, "{new} and {old} bytes");
}

fn read(file: &[u8]) -> (Vec<Record>, Vec<Damage>) {
    let mut reader = Reader::new(file).unwrap();
    let records = reader.by_ref().collect();
    assert_eq!(reader.skipped(), reader.damages().iter().map(|damage| damage.bytes).sum::<usize>());
    (records, reader.damages().to_vec())
}

#[test]
fn torn_chunks_hide_no_later_chunks() {
    let (first, torn, last) = (chunk(0..3), chunk(3..200), chunk(200..203));
    for kept in [1, 4, 8, 9, 500, torn.len() - 1] {
        let file = [HEADER.as_slice(), &first, &torn[..kept], &last].concat();
        let (records, damages) = read(&file);
        let expected: Vec<Record> = (0..3).chain(200..203).map(text).collect();
        assert_eq!(records, expected, "{kept} bytes of the torn chunk");
        assert_eq!(damages, [Damage { at: HEADER.len() + first.len(), bytes: kept }]);
    }
}

#[test]
fn runs_of_zeros_are_skipped_quickly() {
    let hole = vec![0_u8; 32 << 20];
    let file = [HEADER.as_slice(), &chunk(0..3), &hole, &chunk(3..5)].concat();
    let (records, damages) = read(&file);
    assert_eq!((records.len(), damages.len()), (5, 1));
}

/// Test a file in which each byte looks like the begin of a long chunk: the search ends before it takes too long.
#[test]
fn hostile_files_are_abandoned() {
    let file: Vec<u8> =
        HEADER.iter().copied().chain([0xff, 0xff, 0x3f, 0x00].into_iter().cycle().take(16 << 20)).collect();
    let since = std::time::Instant::now();
    let (records, damages) = read(&file);
    assert_eq!((records.len(), damages.len()), (0, 1));
    assert!(since.elapsed().as_secs() < 60, "{:?}", since.elapsed());
}

/// Test that damaged chunks whose bytes look like lengths do not hide the next chunk.
#[test]
fn corrupt_chunks_of_long_records_are_searched() {
    let mut writer = ChunkWriter::new();
    while writer.len() < 1 << 18 {
        let id = writer.len() as u32;
        writer.push(&Record::Node { thread: 0, id, parent: 0, frame: id % 3 }).unwrap();
    }
    let mut damaged = writer.finish().to_vec();
    damaged[1 << 17] ^= 1;
    let files = [HEADER.as_slice(), &damaged, &damaged, &chunk(0..3), &damaged, &chunk(3..5)];
    let since = std::time::Instant::now();
    let (records, damages) = read(&files.concat());
    assert_eq!((records.len(), damages.len()), (5, 2));
    assert!(since.elapsed().as_secs() < 20, "{:?}", since.elapsed());
}

/// Test that the memory for a search does not grow with the damaged range.
#[test]
fn checksums_of_passed_bytes_are_dropped() {
    let bytes: Vec<u8> = (0..4 * MAX_CHUNK as u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    let mut checksums = Checksums::new(&bytes);
    for begin in (0..=3 * MAX_CHUNK).step_by(MAX_CHUNK / 4) {
        // Lengths that leave a gap before the next begin, and such that do not.
        for length in [1, MAX_CHUNK / 8, MAX_CHUNK - 1, MAX_CHUNK].into_iter().take(1 + begin / (MAX_CHUNK / 4) % 4) {
            let crc = crc32fast::hash(&bytes[begin..begin + length]);
            assert!(checksums.has_checksum(begin, length, crc), "{begin}, {length}");
            assert!(!checksums.has_checksum(begin, length, !crc), "{begin}, {length}");
            assert!(checksums.prefixes.len() <= MAX_CHUNK + 1, "{begin}, {length}");
        }
    }
    assert!(!checksums.has_checksum(3 * MAX_CHUNK + 1, MAX_CHUNK, 0), "beyond the end");
}

/// Offset of the first intact chunk at or after `from`, by computing each checksum anew.
fn next_chunk(reader: &Reader<'_>, from: usize) -> Option<usize> {
    let is_intact = |records: &[u8]| records.len() <= MAX_CHUNK && reader.begins_like_chunk(records);
    (from..reader.file.len()).find(|&at| reader.chunk_at(at).is_some_and(is_intact))
}

proptest! {
    /// Test the search in bytes that look like chunks: intact ones, others with a wrong checksum, and other bytes.
    #[test]
    fn search_finds_the_chunk_that_single_checksums_find(
        pieces in proptest::collection::vec((0_u8..4, 0_u32..60, any::<u8>()), 0..12),
    ) {
        let mut file = HEADER.to_vec();
        for (kind, size, byte) in pieces {
            match kind {
                0 => file.extend(chunk(0..1 + size % 3)),
                1 => file.extend(framed(&vec![byte; size as usize])),
                2 => file.extend([size.to_le_bytes(), u32::from(byte).to_le_bytes()].concat()),
                _ => file.extend(std::iter::repeat_n(byte, size as usize)),
            }
        }
        let mut reader = Reader::new(&file).unwrap();
        for from in HEADER.len()..file.len() {
            let expected = next_chunk(&reader, from);
            prop_assert_eq!(reader.find_chunk(from), expected, "from {}", from);
        }
    }

    /// Test files with cuts, flips and insertions: only written records are returned, in order and once, and all
    /// undamaged chunks are returned.
    #[test]
    fn only_written_records_are_read(
        sizes in proptest::collection::vec(1_u32..40, 1..8),
        damages in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..64, any::<u8>(), 0_u8..3), 0..6),
    ) {
        let mut file = HEADER.to_vec();
        let (mut chunks, mut id) = (Vec::new(), 0);
        for size in sizes {
            let bytes = chunk(id..id + size);
            chunks.push((bytes.clone(), id..id + size));
            file.extend(bytes);
            id += size;
        }
        for (at, length, byte, kind) in damages {
            let at = HEADER.len() + at.index(file.len() - HEADER.len() + 1);
            let end = (at + length).min(file.len());
            match kind {
                0 => drop(file.drain(at..end)),
                1 => file[at..end].iter_mut().for_each(|old| *old ^= byte),
                _ => drop(file.splice(at..at, std::iter::repeat_n(byte, length))),
            }
        }
        let (records, _) = read(&file);
        let ids: Vec<u32> = records.iter().filter_map(|record| match record {
            Record::Text { id, text } if *text == format!("name {id}") => Some(*id),
            _ => None,
        }).collect();
        prop_assert_eq!(ids.len(), records.len(), "a record that nobody wrote");
        prop_assert!(ids.is_sorted_by(|a, b| a < b) && ids.iter().all(|&read| read < id), "{:?}", ids);
        for (bytes, range) in chunks {
            if file.windows(bytes.len()).any(|window| window == bytes) {
                prop_assert!(range.clone().all(|id| ids.binary_search(&id).is_ok()), "{range:?} of {ids:?}");
            }
        }
    }
}
