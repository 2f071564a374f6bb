//! One pass over everything that happened in a process, in the order of time.

use super::super::calls::{Calls, Touch};
use super::super::steps;
use super::kinds::{Seen, classify};
use super::names::{Effect, only_tells, updates};
use super::operators::{Input, Operator, Operators};
use super::paths::{Place, places};
use crate::problems;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, AddressMap, MemoryCallId, MemoryCallKind, MemoryDeviceId, MemoryObjectId,
    MemoryPhase, MemoryStreamId, MemoryTrace, NewCall, NewObject, StrId, call_flags,
};
use stackline_recording::TouchKind;

/// What happens at one time. Of one time, what ends comes last: its results were allocated by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Touch {
        touch: usize,
    },
    Begin {
        operator: usize,
    },
    End {
        operator: usize,
    },
    /// Recording began, paused, or lost something: operators may have done anything meanwhile.
    Unseen,
}

/// What is known of one thread.
struct Thread<'a> {
    touches: &'a [Touch],
    operators: Operators,
    places: Vec<Place>,
    stream: MemoryStreamId,
    /// By operator: what it was handed, by position of the input, and what it made.
    handed: Vec<Vec<(usize, MemoryObjectId)>>,
    made: Vec<Vec<MemoryObjectId>>,
    /// By operator: how many objects there were when it began.
    objects_before: Vec<usize>,
}

struct Sweep<'a> {
    trace: MemoryTrace,
    device: MemoryDeviceId,
    zero: i64,
    threads: Vec<Thread<'a>>,
    live: AddressMap,
    seen: Vec<Seen>,
    /// By object: whether an operator was handed it since.
    was_handed: Vec<bool>,
    /// By object: the end of the outermost operator that it was allocated in.
    outermost_end: Vec<i64>,
    /// When each call of the trace happened.
    times: Vec<i64>,
}

/// The memory trace of a process; times count from the begin of its recording.
pub(super) fn sweep(calls: &Calls) -> MemoryTrace {
    let is_input = |touch: &Touch| matches!(touch.kind, TouchKind::Input(_));
    let has_accesses = calls.threads.iter().any(|thread| thread.touches.iter().any(is_input));
    // Frees may be among what was lost: then nobody knows what leaks.
    let lost_some = calls.lost.iter().any(|(what, count)| what.starts_with("touches_") && *count > 0);
    let saw_end = calls.ended && !lost_some;
    let mut trace = MemoryTrace { saw_end, has_accesses, ..MemoryTrace::default() };
    let device = trace.device("cpu");
    let mut threads = Vec::new();
    for thread in &calls.threads {
        let operators = Operators::of(calls, thread);
        let count = operators.list.len();
        threads.push(Thread {
            touches: &thread.touches,
            operators,
            places: places(calls, thread, &mut trace),
            stream: trace.stream(device, thread.thread.tid.into()),
            handed: vec![Vec::new(); count],
            made: vec![Vec::new(); count],
            objects_before: vec![0; count],
        });
    }
    let mut sweep = Sweep {
        trace,
        device,
        zero: calls.process.start_monotonic_ns,
        threads,
        live: AddressMap::default(),
        seen: Vec::new(),
        was_handed: Vec::new(),
        outermost_end: Vec::new(),
        times: Vec::new(),
    };
    let mut order = sweep.order();
    if lost_some {
        // Where, the recording does not say.
        let ends = [order.first(), order.last()].map(|end| end.map(|&(time, ..)| (time, 0, What::Unseen)));
        order.splice(0..0, ends[0]);
        order.extend(ends[1]);
    }
    order.extend(calls.windows.iter().map(|change| (change.at, 0, What::Unseen)));
    order.sort_by_key(|&(time, _, what)| (time, matches!(what, What::End { .. })));
    for (time, thread, what) in order {
        match what {
            What::Touch { touch } => sweep.touch(time, thread, touch),
            What::Begin { operator } => sweep.begin(thread, operator),
            What::End { operator } => sweep.end(time, thread, operator),
            What::Unseen => sweep.unseen(time),
        }
    }
    sweep.steps(calls);
    classify(&mut sweep.trace, &sweep.seen);
    sweep.trace
}

impl Sweep<'_> {
    /// Everything; touches of a thread in their own order, which is that of time.
    fn order(&self) -> Vec<(i64, usize, What)> {
        let mut all = Vec::new();
        for (at, thread) in self.threads.iter().enumerate() {
            for (touch, one) in thread.touches.iter().enumerate() {
                if !matches!(one.kind, TouchKind::Input(_)) {
                    all.push((one.at, at, What::Touch { touch }));
                }
            }
            let owners: rustc_hash::FxHashSet<usize> = thread.operators.owners.values().copied().collect();
            // Without what operators were called with, what they made says too little.
            let operators = if self.trace.has_accesses { &thread.operators.list[..] } else { &[] };
            for (operator, one) in operators.iter().enumerate() {
                if !one.inputs.is_empty() || owners.contains(&operator) {
                    all.push((one.start, at, What::Begin { operator }));
                    all.push((one.end, at, What::End { operator }));
                }
            }
        }
        all
    }

    fn place(&self, thread: usize, node: u32) -> Place {
        self.threads[thread].places[node as usize]
    }

    fn call(&mut self, time: i64, thread: usize, place: Place, name: StrId) -> NewCall {
        self.times.push(time);
        NewCall {
            start_ns: time - self.zero,
            stream: self.threads[thread].stream,
            name,
            stack: place.stack,
            ..NewCall::default()
        }
    }

    /// A call that may have touched all that is alive.
    fn unseen(&mut self, time: i64) {
        self.times.push(time);
        let name = self.trace.strings.intern("not recorded");
        let call = NewCall { start_ns: time - self.zero, name, flags: call_flags::OPAQUE, ..NewCall::default() };
        self.trace.calls.push(MemoryCallKind::Kernel, call);
        self.trace.seal_call();
    }

    fn object(&mut self, seen: Seen, outermost_end: i64) {
        self.seen.push(seen);
        self.was_handed.push(false);
        self.outermost_end.push(outermost_end);
    }

    fn touch(&mut self, time: i64, thread: usize, touch: usize) {
        let Touch { node, address, bytes, kind, .. } = self.threads[thread].touches[touch];
        let place = self.place(thread, node);
        if kind == TouchKind::Freed {
            return self.free(time, thread, place, address);
        }
        self.end_lost(time, thread, place, (address, bytes));
        let name = self.trace.strings.intern("allocate");
        let call = self.call(time, thread, place, name);
        let object = NewObject {
            address,
            bytes,
            device: self.device,
            stream: call.stream,
            stack: place.stack,
            module: place.module,
            operator: place.operator,
            ..NewObject::default()
        };
        let object = self.trace.allocate(object, call);
        self.live.insert(address, bytes, object);
        let owner = self.threads[thread].operators.owners.get(&touch).copied();
        let outermost = owner.map_or(i64::MIN, |owner| self.threads[thread].operators.list[owner].outermost_end);
        self.object(
            Seen {
                made_in_backward: place.in_backward,
                made_in_optimizer: place.in_optimizer,
                made_in_forward: !place.in_backward && !place.in_optimizer,
                ..Seen::default()
            },
            outermost,
        );
        if let Some(owner) = owner {
            self.threads[thread].made[owner].push(object);
        }
    }

    /// Ends what lies where something is allocated now: its free was not recorded.
    fn end_lost(&mut self, time: i64, thread: usize, place: Place, (address, bytes): (u64, u64)) {
        let lost: Vec<MemoryObjectId> = self.live.find_all(address, bytes).map(|(object, _)| object).collect();
        for object in lost {
            problems::MEMORY_OVERLAP.count(&mut self.trace.report, None, &format!("{address:#x}"));
            self.live.remove(self.trace.objects.address[object.index()]);
            let name = self.trace.strings.intern("free");
            let call = self.call(time, thread, place, name);
            self.trace.release(object, NewCall { flags: call_flags::INFERRED, ..call });
        }
    }

    fn free(&mut self, time: i64, thread: usize, place: Place, address: u64) {
        let name = self.trace.strings.intern("free");
        let call = self.call(time, thread, place, name);
        let Some(object) = self.live.remove(address) else {
            problems::MEMORY_UNKNOWN_FREE.count(&mut self.trace.report, None, &format!("{address:#x}"));
            self.trace.calls.push(MemoryCallKind::Free, call);
            return self.trace.seal_call();
        };
        self.trace.release(object, call);
        let seen = &mut self.seen[object.index()];
        seen.freed_in_optimizer = place.in_optimizer;
        seen.used_in_backward |= place.in_backward;
        seen.died_in_its_operator = time <= self.outermost_end[object.index()];
    }

    /// Notes what an operator was handed: by its end, another object may lie there.
    fn begin(&mut self, thread: usize, operator: usize) {
        let Operator { inputs, node, effect, .. } = self.threads[thread].operators.list[operator].clone();
        let place = self.place(thread, node);
        self.threads[thread].objects_before[operator] = self.trace.objects.len();
        for (position, input) in inputs.iter().enumerate() {
            let object = match self.live.find(input.address) {
                Some((object, _)) => object,
                None => self.foreign(input.address, input.bytes),
            };
            if effect == Effect::Nothing {
                continue;
            }
            self.was_handed[object.index()] = true;
            if !input.is_passed_on {
                let seen = &mut self.seen[object.index()];
                let writes = effect != Effect::Reads && input.argument == 0;
                seen.used_in_backward |= place.in_backward;
                seen.updated_by_optimizer |= place.in_optimizer && writes;
                seen.read_by_optimizer |= place.in_optimizer && !writes;
                self.threads[thread].handed[operator].push((position, object));
            }
        }
    }

    /// Memory that PyTorch's allocator did not make, or made before anybody looked.
    fn foreign(&mut self, address: u64, bytes: u64) -> MemoryObjectId {
        // Elements of an expanded tensor lie in fewer bytes than they would take one by one.
        let next =
            self.live.find_all(address, bytes).map(|(object, _)| self.trace.objects.address[object.index()]).min();
        let bytes = next.map_or(bytes, |next| next.saturating_sub(address));
        let object = self.trace.older(NewObject { address, bytes, device: self.device, ..NewObject::default() });
        self.live.insert(address, bytes, object);
        self.object(Seen { is_foreign: true, ..Seen::default() }, i64::MIN);
        object
    }

    fn end(&mut self, time: i64, thread: usize, operator: usize) {
        let handed = std::mem::take(&mut self.threads[thread].handed[operator]);
        let made = std::mem::take(&mut self.threads[thread].made[operator]);
        let alive = |trace: &MemoryTrace, object: MemoryObjectId| trace.objects.freed_by[object.index()].is_none();
        let results: Vec<MemoryObjectId> =
            made.into_iter().filter(|&object| alive(&self.trace, object) && !self.was_handed[object.index()]).collect();
        if handed.is_empty() && results.is_empty() {
            return;
        }
        let of = self.threads[thread].operators.list[operator].clone();
        let place = self.place(thread, of.node);
        let call = self.call(time, thread, place, place.operator);
        let (start_ns, duration_ns) = (of.start - self.zero, (of.end - of.start).max(0).cast_unsigned());
        self.trace.calls.push(MemoryCallKind::Kernel, NewCall { start_ns, duration_ns, ..call });
        let name = self.trace.strings.get(place.operator).to_owned();
        let before = self.threads[thread].objects_before[operator];
        let stream = self.threads[thread].stream;
        let new = before..self.trace.objects.len();
        let is_result =
            |at: usize| self.trace.objects.freed_by[at].is_none() && self.trace.objects.stream[at] == stream;
        let has_result = new.into_iter().any(is_result);
        let output =
            (of.effect == Effect::Reads && !has_result && !only_tells(&name)).then(|| last_argument(&of)).flatten();
        let mut accesses: Vec<(MemoryObjectId, AccessMode, AccessExtent)> = Vec::new();
        for (position, object) in handed {
            if !alive(&self.trace, object) {
                problems::FREED_IN_USE.count(&mut self.trace.report, None, &name);
                continue;
            }
            let input = of.inputs[position];
            let mode = mode(of.effect, &name, input, output);
            let whole = input.bytes > 0 && input.bytes >= self.trace.objects.requested[object.index()];
            let extent = if whole { AccessExtent::Whole } else { AccessExtent::Unknown };
            match accesses.iter_mut().find(|(known, ..)| *known == object) {
                Some((_, known, _)) if *known != mode => *known = AccessMode::Both,
                Some(_) => {}
                None => accesses.push((object, mode, extent)),
            }
        }
        accesses.extend(results.into_iter().map(|object| (object, AccessMode::Write, AccessExtent::Whole)));
        for (object, mode, extent) in accesses {
            self.trace.accesses.push(object, mode, AccessEvidence::OperatorLevel, extent);
        }
        self.trace.seal_call();
    }

    /// Training steps, by the calls that lie in them.
    fn steps(&mut self, calls: &Calls) {
        let Some((_, steps)) = steps::infer(calls) else { return };
        for step in steps {
            let at = |time| MemoryCallId::new(self.times.partition_point(|&call| call < time));
            let (first, end) = (at(step.start), at(step.end));
            let name = self.trace.strings.intern(&format!("{STEP_PREFIX}{}", step.number));
            self.trace.phases.push(MemoryPhase { name, first, end });
        }
    }
}

/// The argument that an operator writes to which makes no tensor although its name says that it returns one: variants that
/// are given their result (`out=`) have it last, and share the name of the others.
fn last_argument(operator: &Operator) -> Option<u8> {
    operator.inputs.iter().map(|input| input.argument).max().filter(|&argument| argument > 0)
}

fn mode(effect: Effect, name: &str, input: Input, output: Option<u8>) -> AccessMode {
    match effect {
        _ if updates(name, input.argument) => AccessMode::Both,
        Effect::Fills if input.argument == 0 => AccessMode::Write,
        Effect::Updates if input.argument == 0 => AccessMode::Both,
        _ if output == Some(input.argument) => AccessMode::Write,
        _ => AccessMode::Read,
    }
}
