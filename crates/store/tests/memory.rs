//! Memory traces are restored from their tables completely, or not at all.

use proptest::prelude::*;
use stackline_ingest::memory::text;
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, ByteRange, Frame, FrameKind, MemoryAllocatorSettings, MemoryBlock,
    MemoryBlockState, MemoryCallId, MemoryCallKind, MemoryKindChange, MemoryObjectId, MemoryObjectKind, MemoryPhase,
    MemorySegment, MemorySegmentEvent, MemorySegmentEventKind, MemoryStackId, MemoryTotals, MemoryTrace, NewCall,
    NewObject, OutOfMemory, Severity, StrId, Trace, TraceSet,
};
use stackline_store::{Error, WriteOptions, is_complete, is_run, read_memory, read_run, write_run};
use std::fs;
use std::path::{Path, PathBuf};

fn quick() -> WriteOptions {
    WriteOptions { sync: false, overwrite: true, ..WriteOptions::default() }
}

#[track_caller]
fn assert_same(a: &MemoryTrace, b: &MemoryTrace) {
    assert_eq!(a.allocator_settings, b.allocator_settings);
    assert_eq!((&a.label, a.saw_end, a.has_accesses, &a.report), (&b.label, b.saw_end, b.has_accesses, &b.report));
    assert!(a.strings.iter().eq(b.strings.iter()), "strings differ");
    assert_eq!(a.stacks.frames, b.stacks.frames);
    assert_eq!((&a.stacks.parent, &a.stacks.frame), (&b.stacks.parent, &b.stacks.frame));
    assert_eq!((&a.devices, &a.streams, &a.phases), (&b.devices, &b.streams, &b.phases));
    assert_eq!(a.calls, b.calls);
    assert_eq!(a.objects, b.objects);
    assert_eq!(a.kind_changes, b.kind_changes);
    assert_eq!(a.accesses, b.accesses);
    assert_eq!((&a.segment_events, &a.segments, &a.blocks), (&b.segment_events, &b.segments, &b.blocks));
    assert_eq!((&a.totals, &a.out_of_memory), (&b.totals, &b.out_of_memory));
    assert_eq!(a.delayed_frees, b.delayed_frees);
}

fn through_a_run(traces: &[MemoryTrace]) -> Vec<MemoryTrace> {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    write_run(&TraceSet::default(), traces, &run, &quick()).unwrap();
    assert!(is_run(&run) && is_complete(&run));
    read_memory(&run).unwrap()
}

#[track_caller]
fn assert_comes_back(trace: &MemoryTrace) {
    let read = through_a_run(std::slice::from_ref(trace));
    assert_eq!(read.len(), 1);
    assert_same(&read[0], trace);
}

/// Memory trace with every feature.
fn sample() -> MemoryTrace {
    let allocator_settings = MemoryAllocatorSettings { expandable: true, ..MemoryAllocatorSettings::default() };
    let mut trace =
        MemoryTrace { label: "sample".to_owned(), saw_end: true, allocator_settings, ..MemoryTrace::default() };
    let (gpu, cpu) = (trace.device("cuda:0"), trace.device("cpu"));
    trace.devices[0].total_bytes = 80 << 30;
    let (stream, other) = (trace.stream(gpu, 7), trace.stream(cpu, u64::MAX));
    let mut text = |text: &str| trace.strings.intern(text);
    let (name, empty, file) = (text("weight \"é\"\n"), text(""), text("train.py"));
    let kinds = [FrameKind::Python, FrameKind::Native];
    let stack = trace.stacks.intern_path(kinds.map(|kind| Frame::with_line(kind, name, file, 1)));
    let call = |start_ns| NewCall { start_ns, stream, name: empty, stack, ..NewCall::default() };
    let object = NewObject { bytes: u64::MAX, address: 1 << 63, device: gpu, pool: empty, ..NewObject::default() };
    let old = trace.add_older(NewObject { stream: other, device: cpu, bytes: 0, ..object });
    let new = trace
        .allocate(NewObject { name, stack, kind: MemoryObjectKind::Foreign, requested: 3, ..object }, call(i64::MIN));
    trace.calls.push(MemoryCallKind::Kernel, NewCall { flags: 15, duration_ns: u64::MAX, ..call(i64::MAX) });
    trace.accesses.push(old, AccessMode::Unknown, AccessEvidence::Opaque, AccessExtent::Whole);
    let ranges = [ByteRange { begin: 0, end: 1, times: u32::MAX }, ByteRange { begin: 1, end: u64::MAX, times: 1 }];
    trace.accesses.push_ranges(new, AccessMode::Both, AccessEvidence::Instrumented, &ranges);
    trace.seal_call();
    trace.release(new, NewCall::default());
    trace.release(MemoryObjectId::NONE, NewCall::default());
    trace.phases.push(MemoryPhase { name, first: MemoryCallId(0), end: MemoryCallId(4) });
    let was = |before, kind| MemoryKindChange { object: MemoryObjectId(0), before: MemoryCallId(before), kind };
    trace.kind_changes = vec![was(0, MemoryObjectKind::Activation), was(2, MemoryObjectKind::Temporary)];
    for kind in MemorySegmentEventKind::ALL {
        let (before, address, bytes) = (MemoryCallId(4), 2 << 20, 4 << 20);
        trace.segment_events.push(MemorySegmentEvent {
            kind,
            before,
            time_ns: -1,
            device: gpu,
            stream,
            address,
            bytes,
            stack,
        });
    }
    for state in MemoryBlockState::ALL {
        let (object, stack) = (if state == MemoryBlockState::Active { old } else { MemoryObjectId::NONE }, stack);
        trace.blocks.push(MemoryBlock { address: 5, bytes: 6, requested: 7, state, object, stack });
    }
    let segment = |small, blocks| MemorySegment {
        device: gpu,
        stream,
        address: 5,
        bytes: 18,
        small,
        expandable: !small,
        pool: StrId::NONE,
        stack: MemoryStackId::NONE,
        blocks,
    };
    trace.segments = vec![segment(true, 0..2), segment(false, 2..3)];
    trace.delayed_frees = [MemoryCallId(2), MemoryCallId::NONE]
        .map(|until| stackline_model::DelayedFree { object: MemoryObjectId(0), until })
        .into();
    let after = MemoryCallId::NONE;
    trace.totals.push(MemoryTotals { after, time_ns: 3, device: gpu, allocated: 4, reserved: 5 });
    for device_free in [None, Some(0)] {
        let before = MemoryCallId(2);
        trace.out_of_memory.push(OutOfMemory {
            before,
            segment_events: 3,
            time_ns: 8,
            device: gpu,
            stream,
            requested: 9,
            device_free,
            pool: name,
            stack,
        });
    }
    trace.report.count("code", Severity::Repaired, "Something.", Some(7), "example");
    trace.check().unwrap();
    trace
}

fn fixtures() -> Vec<MemoryTrace> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/memory");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| text::read("fixture", &fs::read_to_string(file).unwrap()).unwrap()).collect()
}

#[test]
fn all_memory_tables_survive_a_round_trip() {
    assert_comes_back(&sample());
    assert_comes_back(&MemoryTrace::default());
    let fixtures = fixtures();
    assert!(fixtures.len() >= 10);
    for (read, trace) in through_a_run(&fixtures).iter().zip(&fixtures) {
        assert_same(read, trace);
    }
}

#[test]
fn traces_that_were_read_can_be_extended() {
    let trace = sample();
    let mut read = through_a_run(std::slice::from_ref(&trace)).remove(0);
    let (name, file) = (read.strings.find("weight \"é\"\n").unwrap(), read.strings.find("train.py").unwrap());
    let kinds = [FrameKind::Python, FrameKind::Native];
    let stack = read.stacks.intern_path(kinds.map(|kind| Frame::with_line(kind, name, file, 1)));
    assert_eq!(stack, trace.calls.stack[0]);
    assert_eq!((read.device("cpu").index(), read.devices.len()), (1, 2));
}

#[test]
fn traces_and_memory_share_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    let set = TraceSet { traces: vec![Trace::default()] };
    write_run(&set, &[], &run, &quick()).unwrap();
    assert!(read_memory(&run).unwrap().is_empty());
    // Replaces its own kind.
    for _ in 0..2 {
        write_run(&set, &[sample(), MemoryTrace::default()], &run, &quick()).unwrap();
    }
    assert_eq!((read_memory(&run).unwrap().len(), read_run(&run, &Default::default()).unwrap().traces.len()), (2, 1));
    fs::remove_file(run.join("memory=0/memory_calls.parquet")).unwrap();
    assert!(!is_complete(&run));
}

#[test]
fn damage_is_reported_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    write_run(&TraceSet::default(), &[sample()], &run, &quick()).unwrap();
    let files: Vec<PathBuf> = fs::read_dir(run.join("memory=0")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 17);
    let read_error = || read_memory(&run).unwrap_err();
    for file in files {
        let good = fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        for at in (0..good.len()).step_by(61) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&file, &bad).unwrap();
            assert!(
                matches!(read_error(), Error::Damaged { .. }) && read_error().to_string().contains(name),
                "{}",
                read_error()
            );
        }
        for length in [0, 1, good.len() / 2, good.len() - 1] {
            fs::write(&file, &good[..length]).unwrap();
            assert!(matches!(read_error(), Error::Damaged { .. }));
        }
        fs::remove_file(&file).unwrap();
        assert!(
            read_error().to_string().contains(&format!("{name} is damaged: the file is missing")),
            "{}",
            read_error()
        );
        fs::write(&file, &good).unwrap();
    }
    assert_same(&read_memory(&run).unwrap()[0], &sample());
}

/// Malicious files have valid checksums, or none: then the decoder has to handle the damage.
#[test]
fn damage_with_valid_checksums_gives_an_error_or_a_valid_trace() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    write_run(&TraceSet::default(), &[sample()], &run, &quick()).unwrap();
    let path = run.join("manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for table in manifest["memory"][0]["tables"].as_object_mut().unwrap().values_mut() {
        let table = table.as_object_mut().unwrap();
        table.remove("bytes");
        table.remove("crc32");
    }
    // A later version may omit the checksum of the manifest; here the first one does.
    manifest["version"] = 1.into();
    manifest.as_object_mut().unwrap().remove("checksum");
    fs::write(&path, manifest.to_string()).unwrap();
    assert_same(&read_memory(&run).unwrap()[0], &sample());
    let mut failed = 0;
    for file in fs::read_dir(run.join("memory=0")).unwrap().map(|entry| entry.unwrap().path()) {
        let good = fs::read(&file).unwrap();
        for at in (0..good.len()).step_by(13) {
            let mut bad = good.clone();
            bad[at] = bad[at].wrapping_mul(31).wrapping_add(97).wrapping_add(at as u8);
            fs::write(&file, &bad).unwrap();
            match read_memory(&run) {
                Ok(traces) => traces[0].check().unwrap(),
                Err(Error::Damaged { .. }) => failed += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
        fs::write(&file, &good).unwrap();
    }
    assert!(failed > 200, "{failed}");
}

/// Invalid handles are rejected when writing, so no written run is rejected when reading.
#[test]
fn inconsistent_traces_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    let mut trace = sample();
    trace.blocks[0].object = MemoryObjectId(99);
    let error = write_run(&TraceSet::default(), &[trace], &run, &quick()).unwrap_err();
    assert!(
        error.to_string().contains(
            "trace sample cannot be written: a memory block refers to a memory object that does \
                                    not exist"
        ),
        "{error}"
    );
    assert!(!run.exists());
}

/// Trace of random calls: all features of the model, in any order.
fn traces() -> impl Strategy<Value = MemoryTrace> {
    let step = (0..10_usize, any::<u8>(), any::<u64>(), any::<i64>(), "[a-zé \"]{0,3}");
    proptest::collection::vec(step, 0..60).prop_map(|steps| {
        let mut trace = MemoryTrace::default();
        for (kind, small, large, time, name) in steps {
            let device = trace.device(if small & 1 == 0 { "cpu" } else { "cuda:0" });
            let stream = trace.stream(device, u64::from(small >> 6));
            let name = trace.strings.intern(&name);
            let frame_kind = FrameKind::ALL[usize::from(small) % FrameKind::ALL.len()];
            let frame = Frame::with_line(frame_kind, name, StrId::NONE, u32::from(small));
            let stack = trace.stacks.intern_path([frame].into_iter().take(usize::from(small & 2)));
            let call = NewCall {
                start_ns: time,
                duration_ns: large,
                stream,
                name,
                stack,
                flags: small & 15,
                target: u32::MAX,
            };
            let pick = |count: usize| MemoryObjectId::new(large as usize % count.max(1));
            let (kind, objects) = (MemoryCallKind::ALL[kind], trace.objects.len());
            match kind {
                MemoryCallKind::Allocate => {
                    let object = NewObject {
                        address: large,
                        bytes: large >> 7,
                        device,
                        stream,
                        shape: name,
                        ..NewObject::default()
                    };
                    trace.allocate(object, call);
                }
                MemoryCallKind::Free if objects > 0 => {
                    trace.release(pick(objects), call);
                }
                _ => {
                    trace.calls.push(kind, call);
                    for at in 0..if objects > 0 { small % 4 } else { 0 } {
                        let (object, mode) = (pick(objects), AccessMode::ALL[usize::from(at)]);
                        let evidence = AccessEvidence::ALL[usize::from(small >> 2 & 3)];
                        let begin = large >> 1;
                        let range = ByteRange { begin, end: begin + 1 + u64::from(at), times: u32::from(small) };
                        match small & 16 {
                            0 => trace.accesses.push_ranges(object, mode, evidence, &[range]),
                            _ => trace.accesses.push(
                                object,
                                mode,
                                evidence,
                                AccessExtent::ALL[usize::from(small >> 5 & 1)],
                            ),
                        }
                    }
                    trace.seal_call();
                }
            }
        }
        trace
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_traces_survive_a_round_trip(trace in traces()) {
        assert_comes_back(&trace);
    }
}
