//! Object usage: one pass over all calls and accesses.
//!
//! A **use** of an object is a kernel that touches it, or a copy that reads it. Sets, and copies that write to it, are
//! touches but no uses: they prepare it. What a kernel does in a direction that is not known counts as reading and writing.

use crate::Rules;
use crate::concurrent_uses::{Beside, InStream, is_over};
use crate::graph::{MOST_CLOCK_ENTRIES, OrderTracker};
use crate::iterations::Iterations;
use crate::patterns::Certainty;
use crate::patterns::intra::{self, ByteAccess};
use crate::suggest::callers::Callers;
use rustc_hash::FxHashMap;
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, ByteRange, MemoryAccess, MemoryCallId, MemoryCallKind, MemoryObjectId,
    MemoryTrace,
};
use std::sync::OnceLock;

/// What is known of the use of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectUse {
    /// First use.
    pub first_use: MemoryCallId,
    /// Last use.
    pub last_use: MemoryCallId,
    /// First call that touched it in any way.
    pub first_touch: MemoryCallId,
    /// Last call that touched it in any way.
    pub last_touch: MemoryCallId,
    /// From when on its memory must be there: its first use or, if earlier, the first copy on the device that writes it.
    pub needed_from: MemoryCallId,
    /// Number of uses.
    pub uses: u32,
    /// Number of sets and copies that write it.
    pub fills: u32,
    /// Number of those before `needed_from`.
    pub fills_before_needed: u32,
    /// Number of those after its last use.
    pub fills_after_last_use: u32,
    /// The weakest evidence of its accesses.
    pub evidence: AccessEvidence,
    /// Where `needed_from` stands.
    needed_place: InStream,
    /// Where `last_use` stands.
    last_place: InStream,
}

/// A time in which an object is not used, between two uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The object.
    pub object: MemoryObjectId,
    /// The use before.
    pub after: MemoryCallId,
    /// The use after.
    pub until: MemoryCallId,
    /// The call by which its memory must be there again. If its content is needed: `until`, or the first set or copy before
    /// that writes to it. If not, what fills it moves with its allocation: `until`, or the first copy on the device before.
    pub needed_again: MemoryCallId,
    /// Sets and copies that move with its allocation.
    pub fills: u32,
    /// Whether what is in it at `after` is used again. If not, it can be freed without saving its content.
    pub content_needed: bool,
    /// Kernels in between.
    pub kernels: u32,
}

/// A set or copy whose bytes nobody read before they were written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadWrite {
    /// The object.
    pub object: MemoryObjectId,
    /// The write that was for nothing.
    pub first: MemoryCallId,
    /// The write that covers it.
    pub second: MemoryCallId,
    /// Bytes written for nothing.
    pub bytes: u64,
}

/// Most gaps that are kept; of further ones only those count that are the longest of their object.
const MOST_GAPS: usize = 1 << 21;

/// Usage of all objects of a memory trace: the input of patterns and suggestions.
#[derive(Debug)]
pub struct ObjectUsage<'a> {
    /// The trace.
    pub trace: &'a MemoryTrace,
    /// The thresholds.
    pub rules: Rules,
    /// Per object, how it is used.
    pub uses: Vec<ObjectUse>,
    /// Times in which objects are idle for at least [`Rules::idle_kernels`], in the order of their ends.
    pub gaps: Vec<Gap>,
    /// Gaps beyond the limit, which are not in `gaps`.
    pub gaps_left_out: u64,
    /// Dead writes, in the order of the second write.
    pub dead_writes: Vec<DeadWrite>,
    /// Per call, its wave: the length of the longest way to it in the dependency graph. Empty if the source does not say
    /// who touches memory.
    pub waves: Vec<u32>,
    /// Whether the order of calls of different streams is known; see [`crate::graph`].
    pub knows_order: bool,
    /// Kernels before each position; one more entry than calls.
    kernels: Vec<u32>,
    /// Opaque kernels before each position; empty if there are none.
    opaque: Vec<u32>,
    /// Per object, the clock of `needed_from`; empty if there is but one stream, or no room.
    needed_clocks: Vec<u32>,
    streams: usize,
    /// Uses that nothing orders.
    beside: Beside,
    /// What kernels touch within objects, once somebody asked.
    touches: OnceLock<Vec<ByteAccess>>,
    /// The rounds of the program, once somebody asked.
    rounds: OnceLock<Iterations>,
}

const NEVER: ObjectUse = ObjectUse {
    first_use: MemoryCallId::NONE,
    last_use: MemoryCallId::NONE,
    first_touch: MemoryCallId::NONE,
    last_touch: MemoryCallId::NONE,
    needed_from: MemoryCallId::NONE,
    uses: 0,
    fills: 0,
    fills_before_needed: 0,
    fills_after_last_use: 0,
    evidence: AccessEvidence::Instrumented,
    needed_place: (0, 0),
    last_place: (0, 0),
};

impl<'a> ObjectUsage<'a> {
    /// Goes through the trace once. The trace must be sound ([`MemoryTrace::check`]).
    pub fn new(trace: &'a MemoryTrace, rules: Rules) -> Self {
        let mut collector = Collector::new(trace, rules);
        for call in trace.calls.ids() {
            collector.call(call);
        }
        let weakest = weakest(trace);
        for never in collector.usage.uses.iter_mut().filter(|known| known.first_touch.is_none()) {
            never.evidence = weakest;
        }
        collector.usage
    }

    /// What kernels touch within objects, by object and call.
    pub(crate) fn touches(&self) -> &[ByteAccess] {
        self.touches.get_or_init(|| intra::touches(self))
    }

    /// The rounds of the program.
    pub(crate) fn rounds(&self) -> &Iterations {
        self.rounds
            .get_or_init(|| Iterations::from_trace(self.trace, &Callers::new(self.trace), self.rules.leak_rounds))
    }

    /// Kernels strictly between two calls.
    pub fn kernels_between(&self, after: MemoryCallId, before: MemoryCallId) -> u32 {
        between(&self.kernels, after, before)
    }

    /// Kernels in a span of positions.
    pub fn kernels_in(&self, span: std::ops::Range<usize>) -> u32 {
        self.kernels[span.end] - self.kernels[span.start]
    }

    /// Whether a kernel of which not all is known ran in a span of positions.
    pub fn opaque_in(&self, span: std::ops::Range<usize>) -> bool {
        !self.opaque.is_empty() && self.opaque[span.end] > self.opaque[span.start]
    }

    /// Whether all uses of one object, on whatever stream, have happened before another one's memory must be there.
    pub fn done_before(&self, last: MemoryObjectId, first: MemoryObjectId) -> bool {
        let (used, next) = (&self.uses[last.index()], &self.uses[first.index()]);
        if used.last_use.is_none() || next.needed_from.is_none() || used.last_use >= next.needed_from {
            return false;
        }
        let from = first.index() * self.streams;
        let clock = self.needed_clocks.get(from..from + self.streams).unwrap_or(&[]);
        let beside = self.beside.at_the_end(last);
        beside.chain([used.last_place]).all(|place| is_over(place, next.needed_place, clock))
    }

    /// Whether, when the host has made the last use of an object, other streams may still use it.
    pub fn ends_on_several_streams(&self, object: MemoryObjectId) -> bool {
        self.beside.at_the_end(object).next().is_some()
    }

    /// Whether all uses of an object, on whatever stream, run one after the other.
    pub fn is_used_in_order(&self, object: MemoryObjectId) -> bool {
        self.beside.is_in_order(object)
    }

    /// How sure it is that nobody needs an object in an idle time. On the device, uses that nothing orders may run at the same
    /// time, and then there is no idle time between them.
    pub(crate) fn certainty_of_gap(&self, gap: &Gap) -> Certainty {
        let is_apart = self.beside.is_apart(gap.object, gap.after, gap.until);
        let known = if is_apart { Certainty::Exact } else { Certainty::Inferred };
        known.max(Certainty::determine(self, gap.object, gap.after.index() + 1..gap.until.index()))
    }

    /// DrGPUM's inefficiency distance: by how many waves two calls are apart; `None` if the source does not say who
    /// touches memory, or if the later one of the host may run first.
    pub fn distance(&self, from: MemoryCallId, to: MemoryCallId) -> Option<u32> {
        self.waves.get(to.index())?.checked_sub(*self.waves.get(from.index())?)
    }

    /// The object's size, and whether it is worth looking at: objects without bytes waste nothing.
    pub fn bytes(&self, object: MemoryObjectId) -> Option<u64> {
        Some(self.trace.objects.bytes[object.index()]).filter(|bytes| *bytes > 0)
    }
}

/// The weakest evidence that the trace has of any access: that an object is never touched is known no better.
fn weakest(trace: &MemoryTrace) -> AccessEvidence {
    let all = (0..trace.accesses.len()).map(|row| trace.accesses.get(row).evidence);
    all.max().unwrap_or(AccessEvidence::Instrumented)
}

fn between(counts: &[u32], after: MemoryCallId, before: MemoryCallId) -> u32 {
    counts[before.index()].saturating_sub(counts[(after.index() + 1).min(before.index())])
}

/// A set or copy that nobody read yet.
struct Pending {
    call: MemoryCallId,
    pieces: Pieces,
}

/// Bytes of an object, each piece from one up to another: ascending, and none touches the next.
struct Pieces(Vec<(u64, u64)>);

impl Pieces {
    fn new(ranges: &[ByteRange]) -> Self {
        let mut pieces: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match pieces.last_mut() {
                Some(last) if range.begin <= last.1 => last.1 = last.1.max(range.end),
                _ => pieces.push((range.begin, range.end)),
            }
        }
        Self(pieces)
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|piece| piece.1 - piece.0).sum()
    }

    /// The piece that holds a byte, or the next one.
    fn at(&self, byte: u64) -> Option<(u64, u64)> {
        self.0.get(self.0.partition_point(|piece| piece.1 <= byte)).copied()
    }

    fn cover(&self, others: &Self) -> bool {
        others.0.iter().all(|&(begin, end)| self.at(begin).is_some_and(|own| own.0 <= begin && end <= own.1))
    }

    fn overlap(&self, others: &Self) -> bool {
        others.0.iter().any(|&(begin, end)| self.at(begin).is_some_and(|own| own.0 < end))
    }
}

/// What became of an object since its last use.
#[derive(Clone, Copy)]
struct Again {
    /// The first touch.
    first: MemoryCallId,
    /// Whether that writes all of it anew.
    anew: bool,
    /// The first use, or copy on the device that writes it.
    needed: MemoryCallId,
    /// Sets and copies before that.
    fills: u32,
}

const UNTOUCHED: Again = Again { first: MemoryCallId::NONE, anew: false, needed: MemoryCallId::NONE, fills: 0 };

struct Collector<'a> {
    usage: ObjectUsage<'a>,
    /// None if nobody says who touches memory: then only lives are judged, and those have no order but the host's.
    order: Option<OrderTracker>,
    pending: FxHashMap<MemoryObjectId, Vec<Pending>>,
    /// Per object.
    touched_again: Vec<Again>,
    /// Per object: its longest gap so far, in kernels.
    longest: Vec<u32>,
}

impl<'a> Collector<'a> {
    fn new(trace: &'a MemoryTrace, rules: Rules) -> Self {
        let objects = trace.objects.len();
        let order = trace.has_accesses.then(|| OrderTracker::new(trace));
        let streams = order.as_ref().map_or(0, OrderTracker::streams);
        let any_opaque = trace.calls.ids().any(|call| trace.calls.is_opaque(call));
        let many_streams = trace.calls.stream.windows(2).any(|pair| pair[0] != pair[1]);
        let knows_order = !many_streams || order.as_ref().is_some_and(|order| !order.knows_streams_only());
        let entries = objects.saturating_mul(streams);
        let has_clocks = many_streams && knows_order && entries <= MOST_CLOCK_ENTRIES;
        let usage = ObjectUsage {
            trace,
            rules,
            uses: vec![NEVER; objects],
            gaps: Vec::new(),
            gaps_left_out: 0,
            dead_writes: Vec::new(),
            waves: Vec::with_capacity(if order.is_some() { trace.calls.len() } else { 0 }),
            knows_order: !many_streams || has_clocks,
            kernels: vec![0; trace.calls.len() + 1],
            opaque: if any_opaque { vec![0; trace.calls.len() + 1] } else { Vec::new() },
            needed_clocks: if has_clocks { vec![0; entries] } else { Vec::new() },
            streams,
            beside: Beside::new(if many_streams { objects } else { 0 }),
            touches: OnceLock::new(),
            rounds: OnceLock::new(),
        };
        Self {
            usage,
            order,
            pending: FxHashMap::default(),
            touched_again: vec![UNTOUCHED; objects],
            longest: vec![0; objects],
        }
    }

    fn call(&mut self, call: MemoryCallId) {
        let trace = self.usage.trace;
        let (row, kind) = (call.index(), trace.calls.kind[call.index()]);
        let place = self.order.as_mut().map(|order| order.step(trace, call));
        self.usage.waves.extend(place.map(|place| place.wave));
        let place = place.map_or((0, 0), |place| (place.stream, place.number));
        self.usage.kernels[row + 1] = self.usage.kernels[row] + u32::from(kind == MemoryCallKind::Kernel);
        if !self.usage.opaque.is_empty() {
            self.usage.opaque[row + 1] = self.usage.opaque[row] + u32::from(trace.calls.is_opaque(call));
        }
        // Reads first: a copy within one object reads what it then overwrites.
        for access in trace.accesses_of(call) {
            if access.mode.reads() && !self.pending.is_empty() {
                self.read(access);
            }
        }
        for access in trace.accesses_of(call) {
            self.access(call, kind, access, place);
        }
        if kind == MemoryCallKind::Free {
            self.pending.remove(&trace.calls.target_object(call));
        }
    }

    fn access(&mut self, call: MemoryCallId, kind: MemoryCallKind, access: MemoryAccess, place: InStream) {
        let row = access.object.index();
        let is_kernel = kind == MemoryCallKind::Kernel;
        let is_use = is_kernel || access.mode.reads();
        if self.usage.uses[row].last_use != call {
            let anew = access.mode == AccessMode::Write && self.is_whole(access);
            let again = &mut self.touched_again[row];
            if again.first.is_none() {
                (again.first, again.anew) = (call, anew);
            }
            if again.needed.is_none() && (is_use || kind == MemoryCallKind::CopyOnDevice) {
                again.needed = call;
            }
            again.fills += u32::from(again.needed.is_none());
        }
        if access.mode == AccessMode::Write {
            self.written(call, access, is_kernel);
        }
        if is_use {
            self.used(call, access.object, place);
        }
        let known = &mut self.usage.uses[row];
        if known.first_touch.is_none() {
            known.first_touch = call;
        }
        known.last_touch = call;
        known.evidence = known.evidence.max(access.evidence);
        if !is_use {
            known.fills += 1;
            known.fills_before_needed += u32::from(known.needed_from.is_none() && kind != MemoryCallKind::CopyOnDevice);
            known.fills_after_last_use += u32::from(known.last_use.is_some());
        }
        if known.needed_from.is_none() && (is_use || kind == MemoryCallKind::CopyOnDevice) {
            (known.needed_from, known.needed_place) = (call, place);
            let at = row * self.usage.streams;
            if let Some(kept) = self.usage.needed_clocks.get_mut(at..at + self.usage.streams) {
                kept.copy_from_slice(self.order.as_ref().map_or(&[], OrderTracker::clock));
            }
        }
    }

    /// A read: what it may have read was not written for nothing.
    fn read(&mut self, access: MemoryAccess) {
        let Some(pending) = self.pending.get_mut(&access.object) else { return };
        match self.usage.trace.accesses.ranges_of(access.row) {
            [] => pending.clear(),
            ranges => {
                let read = Pieces::new(ranges);
                pending.retain(|old| !read.overlap(&old.pieces));
            }
        }
        if pending.is_empty() {
            self.pending.remove(&access.object);
        }
    }

    /// A use: closes the gap since the one before.
    fn used(&mut self, call: MemoryCallId, object: MemoryObjectId, place: InStream) {
        let row = object.index();
        let before = self.usage.uses[row].last_use;
        if before.is_none() {
            self.usage.uses[row].first_use = call;
        } else if before != call {
            self.gap(before, call, object);
            let clocks = self.order.as_ref().map_or((&[][..], &[][..]), |order| (order.clock(), order.host_clock()));
            let last = (self.usage.uses[row].last_place, before);
            self.usage.beside.keep(object, last, (place, call), clocks);
        }
        self.touched_again[row] = UNTOUCHED;
        let known = &mut self.usage.uses[row];
        known.uses += u32::from(before != call);
        known.last_use = call;
        known.last_place = place;
        known.fills_after_last_use = 0;
    }

    fn gap(&mut self, after: MemoryCallId, until: MemoryCallId, object: MemoryObjectId) {
        let kernels = self.usage.kernels_between(after, until);
        if kernels < self.usage.rules.idle_kernels.max(1) {
            return;
        }
        let Again { first, anew, needed, fills } = self.touched_again[object.index()];
        let (needed_again, fills) = if anew { (needed, fills) } else { (first, 0) };
        let gap = Gap { object, after, until, needed_again, fills, content_needed: !anew, kernels };
        let longest = &mut self.longest[object.index()];
        if self.usage.gaps.len() < MOST_GAPS || kernels > *longest {
            self.usage.gaps.push(gap);
        } else {
            self.usage.gaps_left_out += 1;
        }
        *longest = kernels.max(*longest);
    }

    /// A write that does not read: it may make earlier writes dead, and may itself be dead later.
    fn written(&mut self, call: MemoryCallId, access: MemoryAccess, is_kernel: bool) {
        if is_kernel && !self.pending.contains_key(&access.object) {
            return;
        }
        let Some(pieces) = self.pieces(access) else { return };
        let dead = &mut self.usage.dead_writes;
        let opaque = &self.usage.opaque;
        let pending = self.pending.entry(access.object).or_default();
        pending.retain(|old| {
            let covered = old.call != call && pieces.cover(&old.pieces);
            // The writing kernel itself counts: what it reads besides is not known.
            let read_unseen = !opaque.is_empty() && opaque[call.index() + 1] > opaque[old.call.index() + 1];
            if covered && !read_unseen {
                let bytes = old.pieces.bytes();
                dead.push(DeadWrite { object: access.object, first: old.call, second: call, bytes });
            }
            !covered
        });
        if !is_kernel {
            pending.push(Pending { call, pieces });
        }
    }

    /// Whether an access surely touched all of the object.
    fn is_whole(&self, access: MemoryAccess) -> bool {
        let (trace, bytes) = (self.usage.trace, self.usage.trace.objects.bytes[access.object.index()]);
        let ranges = trace.accesses.ranges_of(access.row);
        let reached = ranges.iter().try_fold(0, |end, range| (range.begin <= end).then(|| range.end.max(end)));
        access.extent == AccessExtent::Whole || (!ranges.is_empty() && reached == Some(bytes))
    }

    /// The bytes that an access surely touched, if that is known.
    fn pieces(&self, access: MemoryAccess) -> Option<Pieces> {
        let trace = self.usage.trace;
        match access.extent {
            AccessExtent::Unknown => None,
            AccessExtent::Whole => Some(Pieces(vec![(0, trace.objects.bytes[access.object.index()])])),
            AccessExtent::Ranges => {
                Some(Pieces::new(trace.accesses.ranges_of(access.row))).filter(|own| own.bytes() > 0)
            }
        }
    }
}
