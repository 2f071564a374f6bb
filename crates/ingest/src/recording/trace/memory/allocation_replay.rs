//! Replay of the allocations and accesses of a process in time order.

use super::super::calls::{Calls, NameAssignment, TensorAccess};
use super::super::files::Files;
use super::super::steps;
use super::object_kinds::{ObservedUses, classify};
use super::operator_effects::{Effect, access_mode, only_returns_numbers};
use super::operators::{Input, Operator, Operators, last_argument};
use super::paths::{NodeContext, node_contexts};
use super::tensor_names::TensorNames;
use super::tensor_types::{TensorDescription, tensor_descriptions};
use crate::diagnostics;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::names::STEP_PREFIX;
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, AddressMap, MemoryCallId, MemoryCallKind, MemoryDeviceId, MemoryObjectId,
    MemoryPhase, MemoryStreamId, MemoryTrace, NewCall, NewObject, OutOfMemory, StrId, call_flags,
};
use stackline_recording::TouchKind;

/// Limit of the recorder on tensors per call.
const MOST_INPUTS: usize = 4096;

/// Event of the replay. At equal times, ends of operators come last, after the allocation of their results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReplayEvent {
    Touch {
        touch: usize,
    },
    /// Memory got a tensor name.
    Name {
        named: usize,
    },
    Begin {
        operator: usize,
    },
    End {
        operator: usize,
    },
    /// The recording began, paused or dropped records: operators may have accessed any memory meanwhile.
    Unseen,
}

/// State of one thread.
struct Thread<'a> {
    touches: &'a [TensorAccess],
    operators: Operators,
    places: Vec<NodeContext>,
    /// Parent and frame of each node.
    nodes: &'a [(u32, u32)],
    stream: MemoryStreamId,
    /// Input tensors that an operator itself accesses, with their objects, by operator.
    handed: Vec<Vec<(Input, MemoryObjectId)>>,
    made: Vec<Vec<MemoryObjectId>>,
    /// Number of objects at the begin of an operator, by operator.
    objects_before: Vec<usize>,
}

struct AllocationReplay<'a> {
    trace: MemoryTrace,
    device: MemoryDeviceId,
    zero: i64,
    threads: Vec<Thread<'a>>,
    calls: &'a Calls,
    tensor_names: TensorNames,
    live: AddressMap,
    /// Types and sizes of tensors, by frame and argument.
    described: Vec<Vec<TensorDescription>>,
    seen: Vec<ObservedUses>,
    /// True if an operator has taken the object since, and if one has used it, by object.
    was_handed: Vec<bool>,
    was_used: Vec<bool>,
    /// End of the outermost operator in which the object was allocated, by object.
    outermost_end: Vec<i64>,
    /// Time of each call of the trace.
    times: Vec<i64>,
    /// Objects that no module made and operators of modules read, with thread and node.
    read_in_modules: FxHashSet<(MemoryObjectId, usize, u32)>,
}

/// Memory trace of a process; times count from the start of its recording.
pub(super) fn replay(calls: &Calls) -> MemoryTrace {
    let is_input = |touch: &TensorAccess| matches!(touch.kind, TouchKind::Input(_));
    let has_accesses = calls.threads.iter().any(|thread| thread.touches.iter().any(is_input));
    // Dropped records may include frees, so leaks cannot be determined.
    let lost_some = calls.lost.iter().any(|(what, count)| what.starts_with("touches_") && *count > 0);
    let saw_end = calls.ended && !lost_some;
    let mut trace = MemoryTrace { saw_end, has_accesses, ..MemoryTrace::default() };
    let device = trace.device("cpu");
    let (described, files) = (tensor_descriptions(calls, &mut trace), Files::new(calls));
    let mut threads = Vec::new();
    for thread in &calls.threads {
        let operators = Operators::new(calls, thread);
        let count = operators.list.len();
        threads.push(Thread {
            touches: &thread.touches,
            operators,
            places: node_contexts((calls, &files), thread, &mut trace),
            nodes: &thread.nodes,
            stream: trace.stream(device, thread.thread.tid.into()),
            handed: vec![Vec::new(); count],
            made: vec![Vec::new(); count],
            objects_before: vec![0; count],
        });
    }
    let mut replay = AllocationReplay {
        trace,
        device,
        zero: calls.process.start_monotonic_ns,
        threads,
        calls,
        tensor_names: TensorNames::default(),
        live: AddressMap::default(),
        described,
        seen: Vec::new(),
        was_handed: Vec::new(),
        was_used: Vec::new(),
        outermost_end: Vec::new(),
        times: Vec::new(),
        read_in_modules: FxHashSet::default(),
    };
    let mut order = replay.events();
    if lost_some {
        // The position of the missing records is unknown.
        let ends = [order.first(), order.last()].map(|end| end.map(|&(time, ..)| (time, 0, ReplayEvent::Unseen)));
        order.splice(0..0, ends[0]);
        order.extend(ends[1]);
    }
    order.extend(calls.named.iter().enumerate().map(|(named, one)| (one.at, 0, ReplayEvent::Name { named })));
    order.extend(calls.windows.iter().map(|change| (change.at, 0, ReplayEvent::Unseen)));
    order.sort_by_key(|&(time, _, what)| (time, matches!(what, ReplayEvent::End { .. })));
    for (time, thread, what) in order {
        match what {
            ReplayEvent::Touch { touch } => replay.touch(time, thread, touch),
            ReplayEvent::Name { named } => replay.assign_name(named),
            ReplayEvent::Begin { operator } => replay.begin_operator(thread, operator),
            ReplayEvent::End { operator } => replay.end_operator(time, thread, operator),
            ReplayEvent::Unseen => replay.add_opaque_call(time),
        }
    }
    replay.add_steps(calls);
    classify(&mut replay.trace, &replay.seen);
    replay.tensor_names.write(&mut replay.trace, calls);
    replay.trace
}

impl AllocationReplay<'_> {
    /// Collect the allocations and frees, and the begins and ends of operators, of all threads, to be sorted by time.
    fn events(&self) -> Vec<(i64, usize, ReplayEvent)> {
        let mut all = Vec::new();
        for (at, thread) in self.threads.iter().enumerate() {
            for (touch, one) in thread.touches.iter().enumerate() {
                if !matches!(one.kind, TouchKind::Input(_)) {
                    all.push((one.at, at, ReplayEvent::Touch { touch }));
                }
            }
            let owners: FxHashSet<usize> = thread.operators.owners.values().copied().collect();
            // Without the inputs of operators, their results alone are not sufficient.
            let operators = if self.trace.has_accesses { &thread.operators.list[..] } else { &[] };
            for (operator, one) in operators.iter().enumerate() {
                if !one.inputs.is_empty() || owners.contains(&operator) {
                    all.push((one.start, at, ReplayEvent::Begin { operator }));
                    all.push((one.end, at, ReplayEvent::End { operator }));
                }
            }
        }
        all
    }

    /// Call path, operator, module and phase of a call-tree node of a thread.
    fn place(&self, thread: usize, node: u32) -> NodeContext {
        self.threads[thread].places[node as usize]
    }

    /// Memory call at a time, on the thread's stream; the time is also stored for finding the calls of steps.
    fn call(&mut self, time: i64, thread: usize, place: NodeContext, name: StrId) -> NewCall {
        self.times.push(time);
        NewCall {
            start_ns: time - self.zero,
            stream: self.threads[thread].stream,
            name,
            stack: place.stack,
            ..NewCall::default()
        }
    }

    /// Assign a recorded tensor name to the live memory object at its address.
    fn assign_name(&mut self, named: usize) {
        let NameAssignment { address, name, .. } = self.calls.named[named];
        let object = self.live.find(address).map(|(object, _)| object);
        let begins_there = |object: &MemoryObjectId| self.trace.objects.address[object.index()] == address;
        self.tensor_names.set_name(object.filter(begins_there), address, name);
    }

    /// Add a call that may have accessed all live objects.
    fn add_opaque_call(&mut self, time: i64) {
        self.times.push(time);
        let name = self.trace.strings.intern("not recorded");
        let call = NewCall { start_ns: time - self.zero, name, flags: call_flags::OPAQUE, ..NewCall::default() };
        self.trace.calls.push(MemoryCallKind::Kernel, call);
        self.trace.seal_call();
    }

    /// Append the observed uses of a new object, and the end of the outermost operator around its allocation.
    fn object(&mut self, seen: ObservedUses, outermost_end: i64) {
        self.seen.push(seen);
        self.was_handed.push(false);
        self.was_used.push(false);
        self.outermost_end.push(outermost_end);
    }

    /// Replay a recorded allocation, free or failed request; a new object ends live objects in its range.
    fn touch(&mut self, time: i64, thread: usize, touch: usize) {
        let TensorAccess { node, address, bytes, kind, .. } = self.threads[thread].touches[touch];
        let place = self.place(thread, node);
        match kind {
            TouchKind::Freed => return self.free(time, thread, place, address),
            TouchKind::Failed => return self.fail(time, thread, place, bytes),
            _ => {}
        }
        self.end_overlapped(time, thread, place, (address, bytes));
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
        self.tensor_names.forget(address);
        let owner = self.threads[thread].operators.owners.get(&touch).copied();
        let outermost = owner.map_or(i64::MIN, |owner| self.threads[thread].operators.list[owner].outermost_end);
        self.object(
            ObservedUses {
                made_in_backward: place.in_backward,
                made_in_optimizer: place.in_optimizer,
                made_in_forward: !place.in_backward && !place.in_optimizer,
                made_in_module: place.module.is_some(),
                ..ObservedUses::default()
            },
            outermost,
        );
        if let Some(owner) = owner {
            self.threads[thread].made[owner].push(object);
        }
    }

    /// Add a failed request of this many bytes to the trace.
    fn fail(&mut self, time: i64, thread: usize, place: NodeContext, bytes: u64) {
        self.trace.out_of_memory.push(OutOfMemory {
            before: MemoryCallId::new(self.trace.calls.len()),
            segment_events: self.trace.segment_events.len(),
            time_ns: time - self.zero,
            device: self.device,
            stream: self.threads[thread].stream,
            requested: bytes,
            device_free: None,
            pool: StrId::NONE,
            stack: place.stack,
        });
    }

    /// Free the objects in an address range that is allocated now: their free was not recorded.
    fn end_overlapped(&mut self, time: i64, thread: usize, place: NodeContext, (address, bytes): (u64, u64)) {
        let lost: Vec<MemoryObjectId> = self.live.find_all(address, bytes).map(|(object, _)| object).collect();
        for object in lost {
            diagnostics::MEMORY_OVERLAP.count(&mut self.trace.report, None, &format!("{address:#x}"));
            self.live.remove(self.trace.objects.address[object.index()]);
            let name = self.trace.strings.intern("free");
            let call = self.call(time, thread, place, name);
            self.trace.release(object, NewCall { flags: call_flags::INFERRED, ..call });
        }
    }

    /// Free the object at an address; an object freed within its outermost operator is temporary.
    fn free(&mut self, time: i64, thread: usize, place: NodeContext, address: u64) {
        let name = self.trace.strings.intern("free");
        let call = self.call(time, thread, place, name);
        let Some(object) = self.live.remove(address) else {
            diagnostics::MEMORY_UNKNOWN_FREE.count(&mut self.trace.report, None, &format!("{address:#x}"));
            self.trace.calls.push(MemoryCallKind::Free, call);
            return self.trace.seal_call();
        };
        self.trace.release(object, call);
        let seen = &mut self.seen[object.index()];
        seen.freed_in_optimizer = place.in_optimizer;
        seen.used_in_backward |= place.in_backward;
        seen.died_in_its_operator = time <= self.outermost_end[object.index()];
        if seen.died_in_its_operator {
            self.mark_within(object);
        }
    }

    /// Look up the objects of an operator's inputs at its begin: at its end, another object may be at the address.
    fn begin_operator(&mut self, thread: usize, operator: usize) {
        let Operator { node, effect, ref inputs, .. } = self.threads[thread].operators.list[operator];
        let (place, count) = (self.place(thread, node), inputs.len());
        self.threads[thread].objects_before[operator] = self.trace.objects.len();
        for position in 0..count {
            let input = self.threads[thread].operators.list[operator].inputs[position];
            let object = match self.live.find(input.address) {
                Some((object, _)) => object,
                None => self.add_foreign(input.address, input.bytes),
            };
            self.describe(object, (thread, node), input);
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
                if !writes && place.module.is_some() && !seen.made_in_module {
                    seen.read_again |= !self.read_in_modules.insert((object, thread, node));
                }
                self.threads[thread].handed[operator].push((input, object));
            }
        }
    }

    /// Set an object's type, and its sizes if the tensor covers it, from an operator's recorded input.
    fn describe(&mut self, object: MemoryObjectId, (thread, node): (usize, u32), input: Input) {
        let frame = self.threads[thread].nodes.get(node as usize).map_or(u32::MAX, |(_, frame)| *frame);
        let arguments = self.described.get(frame as usize);
        let Some(known) = arguments.and_then(|all| all.get(usize::from(input.argument))) else { return };
        let (objects, row) = (&mut self.trace.objects, object.index());
        if objects.dtype[row].is_none() {
            objects.dtype[row] = known.dtype;
        }
        if objects.shape[row].is_none() && input.bytes == objects.requested[row] {
            objects.shape[row] = known.shape;
        }
    }

    /// Create an object for memory that PyTorch's allocator did not allocate, or allocated before the recording.
    fn add_foreign(&mut self, address: u64, bytes: u64) -> MemoryObjectId {
        // An expanded tensor occupies fewer bytes than its elements would one by one.
        let next =
            self.live.find_all(address, bytes).map(|(object, _)| self.trace.objects.address[object.index()]).min();
        let bytes = next.map_or(bytes, |next| next.saturating_sub(address));
        let object = self.trace.add_older(NewObject { address, bytes, device: self.device, ..NewObject::default() });
        self.live.insert(address, bytes, object);
        self.object(ObservedUses { is_foreign: true, ..ObservedUses::default() }, i64::MIN);
        self.tensor_names.assign_waiting(object, address);
        object
    }

    /// Add the call of an ended operator, with the accesses to its inputs and to its live results.
    fn end_operator(&mut self, time: i64, thread: usize, operator: usize) {
        let handed = std::mem::take(&mut self.threads[thread].handed[operator]);
        let made = std::mem::take(&mut self.threads[thread].made[operator]);
        let results = self.results(made, !handed.is_empty());
        if handed.is_empty() && results.is_empty() {
            return;
        }
        let Operator { node, start, end, .. } = self.threads[thread].operators.list[operator];
        let place = self.place(thread, node);
        let call = self.call(time, thread, place, place.operator);
        let (start_ns, duration_ns) = (start - self.zero, (end - start).max(0).cast_unsigned());
        // The recorder keeps at most this many tensors per call; the operator may have accessed others.
        let is_cut = self.threads[thread].operators.list[operator].inputs.len() >= MOST_INPUTS;
        let flags = if is_cut { call_flags::OPAQUE } else { 0 };
        let row = self.trace.calls.push(MemoryCallKind::Kernel, NewCall { start_ns, duration_ns, flags, ..call });
        self.access_inputs(thread, operator, &handed);
        for (object, mode) in results {
            self.access(object, mode, AccessExtent::Whole);
        }
        self.trace.seal_call();
        let effect = self.threads[thread].operators.list[operator].effect;
        self.set_kind(row, effect);
        self.note_first_uses(row, time);
    }

    /// Live results of an operator with access modes: written if no other operator took them, updated if others only
    /// filled them. An example is a bias to which `aten::addmm` adds.
    fn results(&self, made: Vec<MemoryObjectId>, touches: bool) -> Vec<(MemoryObjectId, AccessMode)> {
        let mode = |object: MemoryObjectId| match (self.was_handed[object.index()], self.was_used[object.index()]) {
            (false, _) => Some(AccessMode::Write),
            (true, false) if touches => Some(AccessMode::Both),
            _ => None,
        };
        let alive = made.into_iter().filter(|object| self.is_alive(*object));
        alive.filter_map(|object| Some((object, mode(object)?))).collect()
    }

    /// Set the call kind of operators that only fill memory: a set, or a copy if the operator also reads.
    fn set_kind(&mut self, call: MemoryCallId, effect: Effect) {
        if effect != Effect::Fills || self.trace.calls.is_opaque(call) {
            return;
        }
        let modes: Vec<AccessMode> = self.trace.accesses_of(call).map(|access| access.mode).collect();
        // An operator stays an operator if it fills memory from itself, or its name is misleading.
        if modes.iter().all(|mode| *mode == AccessMode::Write) {
            self.trace.calls.kind[call.index()] = MemoryCallKind::Set;
        } else if !modes.contains(&AccessMode::Both) {
            self.trace.calls.kind[call.index()] = MemoryCallKind::CopyOnDevice;
        }
    }

    /// Mark allocations whose object is first used in the same operator of the program.
    fn note_first_uses(&mut self, call: MemoryCallId, time: i64) {
        let is_kernel = self.trace.calls.kind[call.index()] == MemoryCallKind::Kernel;
        for row in self.trace.access_rows(call) {
            let access = self.trace.accesses.get(row);
            let object = access.object.index();
            if !is_kernel && !access.mode.reads() || std::mem::replace(&mut self.was_used[object], true) {
                continue;
            }
            if time <= self.outermost_end[object] {
                self.mark_within(access.object);
            }
        }
    }

    /// Flag the allocation of an object as internal to one operator of the program.
    fn mark_within(&mut self, object: MemoryObjectId) {
        if let Some(made_by) = self.trace.objects.allocated_by[object.index()].some() {
            self.trace.calls.flags[made_by.index()] |= call_flags::WITHIN_OPERATOR;
        }
    }

    /// Add the accesses of an operator to its inputs, at most one per object.
    fn access_inputs(&mut self, thread: usize, operator: usize, handed: &[(Input, MemoryObjectId)]) {
        let open_operator = &self.threads[thread].operators.list[operator];
        let effect = open_operator.effect;
        let name = self.trace.strings.get(self.place(thread, open_operator.node).operator).to_owned();
        let makes_nothing =
            effect == Effect::Reads && !self.has_result(thread, operator) && !only_returns_numbers(&name);
        let output = makes_nothing.then(|| last_argument(open_operator)).flatten();
        let mut places: FxHashMap<MemoryObjectId, usize> = FxHashMap::default();
        let mut accesses: Vec<(MemoryObjectId, AccessMode, AccessExtent)> = Vec::new();
        for &(input, object) in handed {
            if !self.is_alive(object) {
                diagnostics::FREED_IN_USE.count(&mut self.trace.report, None, &name);
                continue;
            }
            let whole = input.bytes > 0 && input.bytes >= self.trace.objects.requested[object.index()];
            let mode = access_mode(effect, &name, (input, whole), output);
            let place = *places.entry(object).or_insert(accesses.len());
            if let Some((_, known, _)) = accesses.get_mut(place) {
                *known = if *known == mode { mode } else { AccessMode::Both };
                continue;
            }
            accesses.push((object, mode, if whole { AccessExtent::Whole } else { AccessExtent::Unknown }));
        }
        for (object, mode, extent) in accesses {
            self.access(object, mode, extent);
        }
    }

    /// Add an access of the last call, inferred from its operator.
    fn access(&mut self, object: MemoryObjectId, mode: AccessMode, extent: AccessExtent) {
        self.trace.accesses.push(object, mode, AccessEvidence::OperatorLevel, extent);
    }

    /// Check if an object has not been freed so far.
    fn is_alive(&self, object: MemoryObjectId) -> bool {
        self.trace.objects.freed_by[object.index()].is_none()
    }

    /// Check if an object that the thread allocated since the operator began is alive.
    fn has_result(&self, thread: usize, operator: usize) -> bool {
        let (before, stream) = (self.threads[thread].objects_before[operator], self.threads[thread].stream);
        let mut new = (before..self.trace.objects.len()).map(MemoryObjectId::new);
        new.any(|object| self.is_alive(object) && self.trace.objects.stream[object.index()] == stream)
    }

    /// Add the training steps to the memory trace as phases, by the calls in them.
    fn add_steps(&mut self, calls: &Calls) {
        let Some((_, steps)) = steps::infer(calls) else { return };
        for step in steps {
            let at = |time| MemoryCallId::new(self.times.partition_point(|&call| call < time));
            let (first, end) = (at(step.start), at(step.end));
            let name = self.trace.strings.intern(&format!("{STEP_PREFIX}{}", step.number));
            self.trace.phases.push(MemoryPhase { name, first, end });
        }
    }
}
