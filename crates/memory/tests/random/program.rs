//! Random programs: calls on a few objects, as a trace and as a list that tests can change.

use proptest::prelude::*;
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, ByteRange, Frame, MemoryCallKind, MemoryObjectId, MemoryObjectKind,
    MemoryStackId, MemoryTrace, NewCall, NewObject, call_flags,
};

/// Extent of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Unknown,
    Whole,
    Bytes(u64, u64),
}

/// Access to an object (by number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) object: usize,
    pub(crate) mode: AccessMode,
    pub(crate) extent: Extent,
}

/// Call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Allocate(usize),
    Free(usize),
    Touch {
        kind: MemoryCallKind,
        touches: Vec<Access>,
        flags: u8,
    },
    Record,
    /// Waits for the call at this position.
    Wait(usize),
    /// Waits for this stream, or all.
    Sync(Option<u64>),
}

/// Program: calls with their streams, and sizes of objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) steps: Vec<(Step, u64)>,
    pub(crate) sizes: Vec<u64>,
    pub(crate) ends: bool,
}

/// Random numbers of the generator per call.
type Draw = (u8, u8, u8, u8);

/// Programs of up to `most` calls on up to `streams` streams.
pub(crate) fn programs(most: usize, streams: u64) -> impl Strategy<Value = Program> {
    (proptest::collection::vec(any::<Draw>(), 0..most), any::<bool>()).prop_map(move |(draws, ends)| {
        let mut program = Program { ends, ..Program::default() };
        let mut live: Vec<usize> = Vec::new();
        for (what, a, b, c) in draws {
            let stream = u64::from(c >> 5) % streams;
            if let Some(step) = step(&mut program, &mut live, what, a, b, c) {
                program.steps.push((step, stream));
            }
        }
        program
    })
}

fn step(program: &mut Program, live: &mut Vec<usize>, what: u8, a: u8, b: u8, c: u8) -> Option<Step> {
    let mode = [AccessMode::Read, AccessMode::Write, AccessMode::Both, AccessMode::Unknown][usize::from(c % 4)];
    let pick = |live: &[usize], at: u8| live.get(usize::from(at) % live.len().max(1)).copied();
    match what % 16 {
        0..=3 => {
            program.sizes.push([0, 8, 64, 64, 64, 60, 100, 128][usize::from(a % 8)]);
            live.push(program.sizes.len() - 1);
            Some(Step::Allocate(program.sizes.len() - 1))
        }
        4 | 5 => {
            let object = pick(live, a)?;
            live.retain(|other| *other != object);
            Some(Step::Free(object))
        }
        6 | 7 => {
            let kind = if what % 16 == 6 { MemoryCallKind::Set } else { MemoryCallKind::CopyToDevice };
            let touch = touch(program, pick(live, a)?, AccessMode::Write, b | 1);
            Some(Step::Touch { kind, touches: vec![touch], flags: 0 })
        }
        8 => {
            let touch = touch(program, pick(live, a)?, AccessMode::Read, b);
            let flags = if c & 4 == 0 { 0 } else { call_flags::SYNCHRONOUS };
            Some(Step::Touch { kind: MemoryCallKind::CopyToHost, touches: vec![touch], flags })
        }
        9 => {
            let to = touch(program, pick(live, a)?, AccessMode::Write, b);
            let from = touch(program, pick(live, b)?, AccessMode::Read, c);
            Some(Step::Touch { kind: MemoryCallKind::CopyOnDevice, touches: vec![to, from], flags: 0 })
        }
        10 => Some(Step::Record),
        11 => (!program.steps.is_empty()).then(|| Step::Wait(usize::from(a) % program.steps.len())),
        12 => Some(Step::Sync((b & 1 == 0).then_some(u64::from(a % 2)))),
        _ => {
            let mut touches = Vec::new();
            if let Some(object) = pick(live, a) {
                touches.push(touch(program, object, mode, b));
            }
            if let Some(object) = pick(live, b).filter(|_| c & 8 == 0) {
                let mode = if c & 16 == 0 { AccessMode::Write } else { AccessMode::Read };
                touches.push(touch(program, object, mode, a));
            }
            let flags = if what == 255 { call_flags::OPAQUE } else { 0 };
            Some(Step::Touch { kind: MemoryCallKind::Kernel, touches, flags })
        }
    }
}

fn touch(program: &Program, object: usize, mode: AccessMode, draw: u8) -> Access {
    let size = program.sizes[object];
    let extent = match draw % 4 {
        0 => Extent::Unknown,
        1 | 2 => Extent::Whole,
        _ if size < 4 => Extent::Whole,
        _ => {
            let quarter = u64::from(draw / 4 % 4) * (size / 4);
            Extent::Bytes(quarter, quarter + size / 4)
        }
    };
    Access { object, mode, extent }
}

impl Program {
    /// Trace of the program. Objects keep their numbers, because each is allocated once and in order. All kernels are
    /// operators with an in-place form; the second half is backward.
    pub(crate) fn trace(&self) -> MemoryTrace {
        let mut trace = MemoryTrace { saw_end: self.ends, ..MemoryTrace::default() };
        let device = trace.device("gpu:0");
        let [relu, float, backward] = ["aten::relu", "f32", "backward"].map(|text| trace.strings.intern(text));
        let backward = [Frame::backward(backward)];
        let backward = trace.stacks.intern_path(backward);
        for (position, (step, stream)) in self.steps.iter().enumerate() {
            let stream = trace.stream(device, *stream);
            let stack = if 2 * position < self.steps.len() { MemoryStackId::NONE } else { backward };
            let call = NewCall { start_ns: position as i64, stream, stack, ..NewCall::default() };
            match step {
                Step::Allocate(object) => {
                    let kinds = [MemoryObjectKind::Activation, MemoryObjectKind::Temporary];
                    let (bytes, kind) = (self.sizes[*object], kinds[object % 2]);
                    let object = NewObject { bytes, device, kind, dtype: float, ..NewObject::default() };
                    trace.allocate(object, NewCall { stack: MemoryStackId::NONE, ..call });
                }
                Step::Free(object) => {
                    trace.release(MemoryObjectId::new(*object), call);
                }
                Step::Touch { kind, touches, flags } => {
                    trace.calls.push(*kind, NewCall { flags: *flags, name: relu, duration_ns: 1, ..call });
                    for touch in touches {
                        push(&mut trace, touch);
                    }
                    trace.seal_call();
                }
                Step::Record | Step::Wait(_) | Step::Sync(_) => self.waits(&mut trace, step, call),
            }
        }
        trace.check().unwrap();
        trace
    }

    fn waits(&self, trace: &mut MemoryTrace, step: &Step, call: NewCall) {
        let (kind, target) = match step {
            Step::Wait(position) => (MemoryCallKind::EventWait, *position as u32),
            Step::Sync(Some(stream)) => {
                let device = trace.device("gpu:0");
                (MemoryCallKind::HostSync, trace.stream(device, *stream).0)
            }
            Step::Sync(None) => (MemoryCallKind::HostSync, u32::MAX),
            _ => (MemoryCallKind::EventRecord, u32::MAX),
        };
        trace.calls.push(kind, NewCall { target, ..call });
        trace.seal_call();
    }

    /// Accesses of a call.
    pub(crate) fn touches(&self, position: usize) -> &[Access] {
        match &self.steps[position].0 {
            Step::Touch { touches, .. } => touches,
            _ => &[],
        }
    }

    /// True for an opaque kernel, false for another kernel; none for other calls.
    pub(crate) fn kernel(&self, position: usize) -> Option<bool> {
        match &self.steps[position].0 {
            Step::Touch { kind: MemoryCallKind::Kernel, flags, .. } => Some(flags & call_flags::OPAQUE != 0),
            _ => None,
        }
    }

    /// Bytes that an access certainly covers.
    pub(crate) fn covered(&self, touch: &Access) -> Option<(u64, u64)> {
        match touch.extent {
            Extent::Unknown => None,
            Extent::Whole => Some((0, self.sizes[touch.object])),
            Extent::Bytes(begin, end) => Some((begin, end)),
        }
    }
}

fn push(trace: &mut MemoryTrace, touch: &Access) {
    let object = MemoryObjectId::new(touch.object);
    let evidence = AccessEvidence::Instrumented;
    match touch.extent {
        Extent::Unknown => trace.accesses.push(object, touch.mode, evidence, AccessExtent::Unknown),
        Extent::Whole => trace.accesses.push(object, touch.mode, evidence, AccessExtent::Whole),
        Extent::Bytes(begin, end) => {
            let range = ByteRange { begin, end, times: 1 };
            trace.accesses.push_ranges(object, touch.mode, evidence, &[range]);
        }
    }
}
