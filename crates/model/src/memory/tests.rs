use super::*;
use crate::{Frame, MemoryStackId};
use proptest::prelude::*;

/// Expected behavior of an address map, by a linear search over all objects.
#[derive(Default)]
struct Naive(Vec<(u64, u64, MemoryObjectId)>);

impl Naive {
    fn insert(&mut self, address: u64, bytes: u64, object: MemoryObjectId) -> Vec<MemoryObjectId> {
        let end = address + bytes.max(1);
        if bytes == 0 && self.0.iter().any(|(begin, old, _)| *begin <= address && address < *old) {
            return Vec::new();
        }
        let mut out: Vec<(u64, MemoryObjectId)> =
            self.0.iter().filter(|(b, e, _)| *b < end && address < *e).map(|(b, _, o)| (*b, *o)).collect();
        out.sort_unstable();
        self.0.retain(|(b, e, _)| !(*b < end && address < *e));
        self.0.push((address, end, object));
        out.into_iter().map(|(_, object)| object).collect()
    }
}

proptest! {
    #[test]
    fn addresses_map_to_the_newest_object(steps in proptest::collection::vec((0..64u64, 0..12u64, 0..3u8), 0..120)) {
        let (mut map, mut naive) = (AddressMap::default(), Naive::default());
        for (number, (address, bytes, what)) in steps.into_iter().enumerate() {
            let object = MemoryObjectId::new(number);
            if what == 0 {
                let at = naive.0.iter().position(|(begin, _, _)| *begin == address);
                prop_assert_eq!(map.remove(address), at.map(|at| naive.0.remove(at).2));
            } else {
                prop_assert_eq!(map.insert(address, bytes, object), naive.insert(address, bytes, object));
            }
            for probe in 0..80 {
                let expected = naive.0.iter().find(|(b, e, _)| (*b..*e).contains(&probe)).map(|(b, _, o)| (*o, probe - b));
                prop_assert_eq!(map.find(probe), expected);
                let mut expected: Vec<_> = naive.0.iter().filter(|(b, e, _)| *b < probe + 7 && probe < *e).collect();
                expected.sort_unstable();
                let expected: Vec<_> =
                    expected.iter().map(|(b, e, o)| (*o, probe.max(*b) - b..(probe + 7).min(*e) - b)).collect();
                prop_assert_eq!(map.find_all(probe, 7).collect::<Vec<_>>(), expected);
            }
            prop_assert_eq!(map.len(), naive.0.len());
        }
    }
}

#[test]
fn call_paths_are_stored_once() {
    let mut trace = MemoryTrace::default();
    let file = trace.strings.intern("train.py");
    let mut frame = |name: &str, line| Frame::of_line(trace.strings.intern(name), file, line, &trace.strings);
    let (main, step) = (frame("main", 1), frame("step", 2));
    let one = trace.stacks.intern_path([main, step]);
    let two = trace.stacks.intern_path([main, step]);
    assert_eq!(one, two);
    assert_eq!(trace.stacks.frames_of(one).collect::<Vec<_>>(), [step, main]);
    assert_eq!(trace.stacks.frames_of(MemoryStackId::NONE).count(), 0);
    assert_eq!(trace.stacks.frames.len(), 2);
    trace.check().unwrap();
}

#[test]
fn accesses_keep_their_ranges() {
    let mut trace = MemoryTrace::default();
    let device = trace.device("cpu");
    let object = trace.allocate(NewObject { bytes: 64, device, ..NewObject::default() }, NewCall::default());
    let call = trace.calls.push(MemoryCallKind::Kernel, NewCall::default());
    trace.accesses.push(object, AccessMode::Read, AccessEvidence::MayAccess, AccessExtent::Unknown);
    let ranges = [ByteRange { begin: 0, end: 8, times: 1 }, ByteRange { begin: 16, end: 20, times: 3 }];
    trace.accesses.push_ranges(object, AccessMode::Both, AccessEvidence::Instrumented, &ranges);
    trace.seal_call();
    trace.release(object, NewCall::default());
    let found: Vec<MemoryAccess> = trace.accesses_of(call).collect();
    assert_eq!(
        (found[0].mode, found[0].evidence, found[0].extent),
        (AccessMode::Read, AccessEvidence::MayAccess, AccessExtent::Unknown)
    );
    assert_eq!((found[1].mode, found[1].extent), (AccessMode::Both, AccessExtent::Ranges));
    assert_eq!(trace.accesses.ranges_of(found[1].row), ranges);
    assert_eq!(trace.accesses.ranges_of(found[0].row), []);
    assert_eq!(trace.life(object), 0..2);
    trace.check().unwrap();
}

#[test]
fn wrong_handles_are_refused() {
    let mut trace = MemoryTrace::default();
    let object = trace.allocate(NewObject::default(), NewCall::default());
    trace.check().unwrap();
    trace.objects.freed_by[object.index()] = MemoryCallId(9);
    assert!(trace.check().is_err());
    trace.objects.freed_by[object.index()] = MemoryCallId::NONE;
    trace.calls.target[0] = 7;
    assert_eq!(
        trace.check().unwrap_err(),
        "memory call 0 (allocate) refers to an object, call or stream that does not \
                                            exist"
    );
}

/// A damaged file may name very many of them, so each is found without a linear search.
#[test]
fn devices_and_streams_are_found_independent_of_their_writer() {
    let mut trace = MemoryTrace::default();
    let device = trace.device("cuda:0");
    let first = trace.stream(device, 7);
    trace.streams.push(MemoryStream { device, key: 9 });
    trace.streams.push(MemoryStream { device, key: 7 });
    assert_eq!([trace.stream(device, 9).index(), trace.stream(device, 7).index()], [1, first.index()]);
    let ids: Vec<usize> = (0..200_000).map(|key| trace.stream(device, 1000 + key).index()).collect();
    assert!(ids.iter().enumerate().all(|(at, id)| *id == at + 3));
    assert_eq!((0..200_000).map(|key| trace.stream(device, 1000 + key).index()).collect::<Vec<_>>(), ids);
    assert_eq!(trace.device("cuda:0"), device);
    trace.streams.clear();
    assert_eq!(trace.stream(device, 7).index(), 0);
}
