//! Memory text: accepted statements, errors with their position, and agreement of reader and writer.

use proptest::prelude::*;
use stackline_ingest::memory::text::{read, write, write_counted};
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, ByteRange, Frame, MemoryCallKind, MemoryDeviceId, MemoryObjectId,
    MemoryTrace, NewCall, NewObject, call_flags,
};

fn error(text: &str) -> String {
    read("test", text).unwrap_err().to_string()
}

#[test]
fn kernels_without_accesses_are_marked() {
    let has_accesses = |text: &str| read("test", text).unwrap().has_accesses;
    assert!(has_accesses("a A 100; k z >; f A; end"));
    assert!(!has_accesses("a A 100; k z > opaque; f A; end"), "nobody knows what it touches");
    assert!(!has_accesses("a A 100; f A; end"), "an export of a source that does not say who touches memory");
}

#[test]
fn every_statement_is_read() {
    let text = "device cuda:0\n\
        o old 64 kind=parameter name=\"encoder.0 weight\"\n\
        a x 256 requested=200 address=4096 dtype=float32 shape=\"[8, 8]\" pool=private module=m operator=aten\n\
        s x; h x[0:64]; d x[:] @3 sync t=-5 dur=7\n\
        c x old[0:8+16:24]\n\
        e ready @3; w ready; y @3; y\n\
        k \"void gemm<float, 8>\" x[0:64*3],old>x[0:64*3] opaque via=operator-level at=main.py:3:main at=net.py:8:forward\n\
        f x; end # done\n";
    let quoted = text.replace("cuda:0", "\"cuda:0\"");
    let trace = read("test", &quoted).unwrap();
    trace.check().unwrap();
    assert!(trace.saw_end && trace.has_accesses);
    assert_eq!((trace.calls.len(), trace.objects.len(), trace.objects.requested[1]), (11, 2, 200));
    let kernel = trace.calls.ids().nth(9).unwrap();
    assert_eq!(trace.calls.kind[9], MemoryCallKind::Kernel);
    assert_eq!(trace.calls.flags[9], call_flags::OPAQUE);
    let touched: Vec<_> = trace.accesses_of(kernel).collect();
    assert_eq!((touched[0].mode, touched[0].evidence), (AccessMode::Both, AccessEvidence::OperatorLevel));
    assert_eq!(trace.accesses.ranges_of(touched[0].row), [ByteRange { begin: 0, end: 64, times: 3 }]);
    assert_eq!((touched[1].mode, touched[1].extent), (AccessMode::Read, AccessExtent::Unknown));
    let frames: Vec<_> =
        trace.stacks.frames_of(trace.calls.stack[9]).map(|f| f.function_text(&trace.strings)).collect();
    assert_eq!(frames, ["forward", "main"]);
    assert_eq!((trace.calls.start_ns[3], trace.calls.duration_ns[3]), (-5, 7));
    assert_eq!(trace.calls.target[6], 5, "the wait is for the record");
    assert_eq!((trace.calls.target[7], trace.calls.target[8]), (trace.calls.stream[5].0, u32::MAX));
    let written = write(&trace);
    assert_eq!(write(&read("test", &written).unwrap()), written, "{written}");
}

#[test]
fn syntax_errors_have_positions() {
    assert_eq!(
        error("a x 8\nf y"),
        "line 2, column 3: object `y` is not allocated at this line; allocate it first with: a y BYTES"
    );
    assert_eq!(
        error("a x 8; a x 9"),
        "line 1, column 10: object `x` is not freed yet; free it first or use another name"
    );
    assert_eq!(
        error("a x eight"),
        "line 1, column 5: expected the size in bytes as an integer within range, found `eight`"
    );
    assert_eq!(error("a x"), "line 1, column 4: expected the size in bytes, found the end of the statement");
    assert_eq!(
        error("a x 8; s x[4:9]"),
        "line 1, column 14: the accessed range 4:9 must not be empty, must lie inside the 8 bytes of the memory object, and must not overlap \
         or precede the previous range"
    );
    assert_eq!(error("a x 8; s x[0:4*0]"), "line 1, column 16: the number of memory accesses must be at least 1");
    assert_eq!(
        error("a \"x 8"),
        "line 1, column 3: a quoted name has no closing quote; close the name with \" on the same line"
    );
    assert_eq!(
        error("w e"),
        "line 1, column 3: the wait uses event `e`, which no earlier statement records; put the statement `e e` before it"
    );
    assert_eq!(
        error("q x"),
        "line 1, column 1: unknown memory-text statement `q`; docs/formats/memory-text.md lists all statements"
    );
    assert_eq!(error("a x 8 color=red"), "line 1, column 7: unknown option `color`");
    assert_eq!(
        error("a x 8; end\n# fine\n\nf x"),
        "line 4, column 1: a statement follows `end`; remove it, or move `end` to the last line"
    );
    assert_eq!(
        error("end; end"),
        "line 1, column 6: a statement follows `end`; remove it, or move `end` to the last line"
    );
    assert_eq!(error("a x 8 ]"), "line 1, column 7: expected the end of the statement, found `]`");
    assert_eq!(
        error("a x 8; s x ä!"),
        "line 1, column 13: unexpected `!`; put names with such characters in double quotes"
    );
}

fn devices(trace: &MemoryTrace) -> Vec<&str> {
    trace.devices.iter().map(|device| trace.strings.get(device.name)).collect()
}

#[test]
fn devices_are_named_by_the_text() {
    let devices_of = |text: &str| devices(&read("test", text).unwrap()).join(" ");
    assert_eq!(devices_of(""), "");
    assert_eq!(devices_of("a x 8; f x; end"), "gpu:0");
    assert_eq!(devices_of("device cpu; a x 8; f x; end"), "cpu");
    assert_eq!(devices_of("device cpu; a x 8 on=\"cuda:0\"; y; f x; end"), "cpu cuda:0");
    assert_eq!(devices_of("device \"\"; a x 8; y; f x; end"), "");
    // An unused device keeps its position, and objects without a device stay so.
    for text in ["device cpu\n", "device a\ndevice b\ndevice a\na x 8\nend\n", "device \"\"\ny t=7\no x 8\nend\n"] {
        assert_eq!(write(&read("test", text).unwrap()), text);
    }
}

#[test]
fn fixtures_survive_a_round_trip() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/memory");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 9, "{folder}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let trace = read("fixture", &text).unwrap();
        let written = write(&trace);
        let again = read("fixture", &written).unwrap();
        assert_eq!(written, write(&again), "{}", file.display());
        assert_eq!(trace.accesses, again.accesses, "{}", file.display());
        assert_eq!((&trace.calls.kind, &trace.calls.stream), (&again.calls.kind, &again.calls.stream));
        assert_eq!(trace.objects.bytes, again.objects.bytes);
    }
}

proptest! {
    #[test]
    fn any_text_gives_a_valid_trace_or_an_error(text in "([aofshdckewy] ?([xyz]|\"x\"|[0-9]{1,3}|[,>@=+*:;#\\[\\]]|\n| |sync|opaque|within|t=3){0,6}[;\n]){0,20}") {
        if let Ok(trace) = read("test", &text) {
            trace.check().unwrap();
            let written = write(&trace);
            let again = read("test", &written);
            prop_assert_eq!(again.map(|again| write(&again)), Ok(written));
        }
    }
}

/// A trace as any source may produce it: every kind of call, access and name.
fn traces() -> impl Strategy<Value = MemoryTrace> {
    let step = (0..12_usize, any::<[u8; 4]>(), any::<u32>(), "[ao\"\\\\ \n=]{0,2}|opaque|sync|o1");
    proptest::collection::vec(step, 0..60).prop_map(|steps| {
        let mut trace = MemoryTrace::default();
        for (kind, draws, number, name) in steps {
            add(&mut trace, kind, draws, number, &name);
        }
        trace.check().unwrap();
        trace
    })
}

fn add(trace: &mut MemoryTrace, kind: usize, draws: [u8; 4], number: u32, name: &str) {
    let device = trace.device(["cpu", "cuda:0"][usize::from(draws[0] & 1)]);
    let stream = trace.stream(device, u64::from(draws[0] >> 6));
    let name = trace.strings.intern(name);
    let frame = Frame::of_line(name, name, number, &trace.strings);
    let stack = trace.stacks.intern_path([frame].into_iter().take(usize::from(draws[0] & 2)));
    let call = NewCall {
        start_ns: i64::from(number) - 99,
        duration_ns: u64::from(number & 7),
        stream,
        name,
        stack,
        flags: draws[1] & 15,
        target: u32::MAX,
    };
    let objects = trace.objects.len();
    let target = MemoryObjectId::new(usize::from(draws[2]) % objects.max(1));
    let bytes = u64::from(draws[3]);
    let other_device = trace.device(["cpu", "gpu:0"][usize::from(draws[1] & 1)]);
    let object =
        NewObject { bytes, device: other_device, stream, name, pool: name, address: bytes, ..NewObject::default() };
    match MemoryCallKind::ALL.get(kind) {
        None => {
            trace.add_older(NewObject { stack, ..object });
        }
        Some(MemoryCallKind::Allocate) => {
            trace.allocate(object, call);
        }
        // Of live, freed or unknown objects.
        Some(MemoryCallKind::Free) => {
            let target = if objects > 0 && draws[3] > 9 { target } else { MemoryObjectId::NONE };
            trace.release(target, call);
        }
        Some(&kind) => {
            let waits = kind == MemoryCallKind::EventWait && !trace.calls.is_empty();
            let target = if waits { number % trace.calls.len() as u32 } else { u32::MAX };
            trace.calls.push(kind, NewCall { target, ..call });
            for at in 0..usize::from(draws[2] % 4).min(objects) {
                let object = MemoryObjectId::new((usize::from(draws[3]) + at) % objects);
                let (mode, evidence) = (AccessMode::ALL[at], AccessEvidence::ALL[usize::from(draws[3] >> 6)]);
                let begin = u64::from(draws[3] & 63);
                let range = ByteRange { begin, end: begin + 9, times: number & 3 };
                match AccessExtent::ALL[usize::from(draws[1] >> 4) % 3] {
                    AccessExtent::Ranges => trace.accesses.push_ranges(object, mode, evidence, &[range]),
                    extent => trace.accesses.push(object, mode, evidence, extent),
                }
            }
            trace.seal_call();
        }
    }
}

/// Description of each call of memory text.
fn listing(trace: &MemoryTrace) -> Vec<String> {
    let text = |id| trace.strings.get(id).to_owned();
    let device = |id: MemoryDeviceId| trace.devices.get(id.index()).map(|device| text(device.name));
    let name = |object: MemoryObjectId| {
        let row = object.index();
        let objects = &trace.objects;
        let of_stack =
            trace.stacks.frames_of(objects.stack[row]).map(|frame| text(frame.file().into())).collect::<String>();
        let (kind, bytes, address) = (objects.kind[row], objects.bytes[row], objects.address[row]);
        format!("{:?} {kind:?} {bytes} {address} {of_stack} {:?}", text(objects.name[row]), device(objects.device[row]))
    };
    trace
        .calls
        .ids()
        .map(|call| {
            let row = call.index();
            let mut accesses: Vec<String> = trace
                .accesses_of(call)
                .map(|access| {
                    let ranges = trace.accesses.ranges_of(access.row);
                    format!(
                        "{} {:?} {:?} {:?} {ranges:?}",
                        name(access.object),
                        access.mode,
                        access.evidence,
                        access.extent
                    )
                })
                .collect();
            accesses.sort();
            let calls = &trace.calls;
            let frames: Vec<_> = trace.stacks.frames_of(calls.stack[row]).map(|frame| frame.line()).collect();
            let (kind, start, flags) = (calls.kind[row], calls.start_ns[row], calls.flags[row]);
            format!("{kind:?} {start} {flags} {frames:?} {:?} {accesses:?}", trace.object_of(call).map(name))
        })
        .collect()
}

proptest! {
    #[test]
    fn traces_of_any_source_survive_a_round_trip(trace in traces()) {
        let (text, left_out) = write_counted(&trace);
        let again = read("test", &text);
        prop_assert!(again.is_ok(), "{:?}\n{}", again.err(), text);
        let again = again.unwrap();
        again.check().unwrap();
        let (second, none) = write_counted(&again);
        prop_assert_eq!((&second, none), (&text, 0));
        prop_assert_eq!(again.calls.len(), trace.calls.len());
        prop_assert_eq!(again.objects.len(), trace.objects.len());
        prop_assert_eq!(devices(&again), devices(&trace));
        if left_out == 0 && trace.calls.kind.iter().all(|kind| *kind != MemoryCallKind::Free) {
            prop_assert_eq!(listing(&again), listing(&trace));
        }
    }
}

/// Errors of other formats are counted, and the content of the text is kept.
#[test]
fn implausible_statements_are_counted() {
    let counts = |text: &str| {
        let report = read("test", text).unwrap().report;
        report.problems.iter().map(|problem| (problem.code.to_string(), problem.count)).collect::<Vec<_>>()
    };
    let one = |code: &str, count: u64| vec![(code.to_owned(), count)];
    let same = "a x 512 address=4096; a y 512 address=4352; k k x>y; f x; f y; end";
    assert_eq!(counts(same), one("same_addresses", 1));
    assert_eq!(counts("a x 512 address=4096; f x; a y 512 address=4096; f y; a z 64; a w 64; end"), []);
    assert_eq!(counts("device one; a x 512 address=4096; device two; a y 512 address=4096; end"), []);
    assert_eq!(counts("a x 10 t=100; k k x> t=50; f x t=-10; end"), one("memory_clock_back", 2));
    // Streams run concurrently; the stream may follow the time.
    assert_eq!(counts("a x 10 t=100; k k x> t=50 @3; k l x> @3 t=60; f x t=110; end"), vec![]);
    assert_eq!(counts("a x 10 t=100; k k x> t=50 @3; k l x> t=40 @3; f x t=110; end"), one("memory_clock_back", 1));
    assert_eq!(counts("a x 10 t=100; k k x>; f x t=100; end"), []);
    assert_eq!(counts("a x 100; f; f; end"), one("free_without_allocation", 2));
    assert_eq!(counts("a x 18446744073709551615; a y 1125899906842624; end"), one("implausible_size", 1));
    let trace = read("test", same).unwrap();
    assert_eq!(
        (
            trace.report.records,
            trace.report.events,
            trace.objects.freed_by.iter().filter(|call| call.is_none()).count()
        ),
        (6, 5, 0)
    );
}
