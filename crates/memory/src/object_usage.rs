//! Usage of memory objects (first and last uses, gaps, dead writes), from one pass over all calls and accesses.
//!
//! A **use** of an object is a kernel that accesses it, or a copy that reads it. Sets, and copies that write the
//! object, are accesses but not uses: they prepare it. A kernel access of unknown direction counts as a read and a
//! write.

use crate::Rules;
use crate::concurrent_uses::{ConcurrentUses, InStream, is_over};
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

/// Usage of one object: first and last use, number of uses and fills, and evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectUse {
    /// First use.
    pub first_use: MemoryCallId,
    /// Last use.
    pub last_use: MemoryCallId,
    /// First call that accesses the object.
    pub first_touch: MemoryCallId,
    /// Last call that accesses the object.
    pub last_touch: MemoryCallId,
    /// Call from which the memory is needed: the first use or, if earlier, the first device copy that writes the
    /// object.
    pub needed_from: MemoryCallId,
    /// Number of uses.
    pub uses: u32,
    /// Number of sets and copies that write the object.
    pub fills: u32,
    /// Number of fills before `needed_from`.
    pub fills_before_needed: u32,
    /// Number of fills after the last use.
    pub fills_after_last_use: u32,
    /// Weakest evidence of the accesses.
    pub evidence: AccessEvidence,
    /// Stream position of `needed_from`.
    needed_place: InStream,
    /// Stream position of `last_use`.
    last_place: InStream,
}

/// Idle time of an object between two uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The object.
    pub object: MemoryObjectId,
    /// Use before the gap.
    pub after: MemoryCallId,
    /// Use after the gap.
    pub until: MemoryCallId,
    /// Call at which the memory is needed again. If the content is needed: `until`, or an earlier first set or copy
    /// that writes the object. If not, fills move with the allocation: `until`, or an earlier first device copy.
    pub needed_again: MemoryCallId,
    /// Sets and copies that move with the allocation.
    pub fills: u32,
    /// True if the content at `after` is used again. If not, the object can be freed without saving its content.
    pub content_needed: bool,
    /// Number of kernels within the gap.
    pub kernels: u32,
}

/// Set or copy whose bytes are overwritten before any read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadWrite {
    /// The object.
    pub object: MemoryObjectId,
    /// Wasted write.
    pub first: MemoryCallId,
    /// Write that overwrites it.
    pub second: MemoryCallId,
    /// Wasted bytes.
    pub bytes: u64,
}

/// Maximum number of stored gaps. Beyond it, only the longest gap of each object counts.
const MOST_GAPS: usize = 1 << 21;

/// Usage of all objects of a memory trace: the input of patterns and suggestions.
#[derive(Debug)]
pub struct ObjectUsage<'a> {
    /// The trace.
    pub trace: &'a MemoryTrace,
    /// The thresholds.
    pub rules: Rules,
    /// Usage per object.
    pub uses: Vec<ObjectUse>,
    /// Gaps with at least [`Rules::idle_kernels`] kernels, in the order of their ends.
    pub gaps: Vec<Gap>,
    /// Number of gaps beyond the limit, missing in `gaps`.
    pub gaps_left_out: u64,
    /// Dead writes, in the order of the second write.
    pub dead_writes: Vec<DeadWrite>,
    /// Wave per call: length of the longest path to it in the dependency graph. Empty if the source has no accesses.
    pub waves: Vec<u32>,
    /// True if the order of calls of different streams is known; see [`crate::graph`].
    pub knows_order: bool,
    /// Number of kernels before each position; one entry more than calls.
    kernels: Vec<u32>,
    /// Number of opaque kernels before each position; empty without opaque kernels.
    opaque: Vec<u32>,
    /// Clock of `needed_from` per object; empty with a single stream, or without room.
    needed_clocks: Vec<u32>,
    streams: usize,
    /// Unordered uses.
    concurrent_uses: ConcurrentUses,
    /// Byte ranges that kernels access, computed on first request.
    touches: OnceLock<Vec<ByteAccess>>,
    /// Iterations of the program, computed on first request.
    iterations: OnceLock<Iterations>,
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
    /// Analyze a trace in one pass. The trace must be valid ([`MemoryTrace::check`]).
    pub fn new(trace: &'a MemoryTrace, rules: Rules) -> Self {
        let mut collector = Collector::new(trace, rules);
        for call in trace.calls.ids() {
            collector.call(call);
        }
        let weakest = weakest_evidence(trace);
        for never in collector.usage.uses.iter_mut().filter(|known| known.first_touch.is_none()) {
            never.evidence = weakest;
        }
        collector.usage
    }

    /// Byte ranges that kernels access, by object and call.
    pub(crate) fn touches(&self) -> &[ByteAccess] {
        self.touches.get_or_init(|| intra::touches(self))
    }

    /// Training iterations or forward passes of the program, found on the first call.
    pub(crate) fn iterations(&self) -> &Iterations {
        self.iterations
            .get_or_init(|| Iterations::from_trace(self.trace, &Callers::new(self.trace), self.rules.leak_iterations))
    }

    /// Number of kernels strictly between two calls.
    pub(crate) fn kernels_between(&self, after: MemoryCallId, before: MemoryCallId) -> u32 {
        between(&self.kernels, after, before)
    }

    /// Number of kernels in a range of positions.
    pub(crate) fn kernels_in(&self, span: std::ops::Range<usize>) -> u32 {
        self.kernels[span.end] - self.kernels[span.start]
    }

    /// True if an opaque kernel ran in a range of positions.
    pub fn opaque_in(&self, span: std::ops::Range<usize>) -> bool {
        !self.opaque.is_empty() && self.opaque[span.end] > self.opaque[span.start]
    }

    /// True if all uses of `last`, on any stream, happen before the memory of `first` is needed.
    pub fn is_done_before(&self, last: MemoryObjectId, first: MemoryObjectId) -> bool {
        let (used, next) = (&self.uses[last.index()], &self.uses[first.index()]);
        if used.last_use.is_none() || next.needed_from.is_none() || used.last_use >= next.needed_from {
            return false;
        }
        let from = first.index() * self.streams;
        let clock = self.needed_clocks.get(from..from + self.streams).unwrap_or(&[]);
        let concurrent = self.concurrent_uses.unfinished_uses(last);
        concurrent.chain([used.last_place]).all(|place| is_over(place, next.needed_place, clock))
    }

    /// True if other streams may still use an object after the host made its last use.
    pub(crate) fn ends_on_several_streams(&self, object: MemoryObjectId) -> bool {
        self.concurrent_uses.unfinished_uses(object).next().is_some()
    }

    /// True if all uses of an object, on any stream, are ordered.
    pub(crate) fn is_used_in_order(&self, object: MemoryObjectId) -> bool {
        self.concurrent_uses.is_in_order(object)
    }

    /// Certainty that an object is unused in a gap. Unordered uses may be concurrent on the device, and then there is
    /// no gap between them.
    pub(crate) fn certainty_of_gap(&self, gap: &Gap) -> Certainty {
        let is_apart = self.concurrent_uses.is_apart(gap.object, gap.after, gap.until);
        let known = if is_apart { Certainty::Exact } else { Certainty::Inferred };
        known.max(Certainty::determine(self, gap.object, gap.after.index() + 1..gap.until.index()))
    }

    /// DrGPUM's inefficiency distance: number of waves between two calls. `None` without accesses in the source, or if
    /// the later host call may run first.
    pub fn distance(&self, from: MemoryCallId, to: MemoryCallId) -> Option<u32> {
        self.waves.get(to.index())?.checked_sub(*self.waves.get(from.index())?)
    }

    /// Size of an object in bytes; `None` for empty objects, which waste nothing.
    pub fn bytes(&self, object: MemoryObjectId) -> Option<u64> {
        Some(self.trace.objects.bytes[object.index()]).filter(|bytes| *bytes > 0)
    }
}

/// Weakest evidence of any access in the trace, which also limits the evidence that an object is never accessed.
fn weakest_evidence(trace: &MemoryTrace) -> AccessEvidence {
    let all = (0..trace.accesses.len()).map(|row| trace.accesses.get(row).evidence);
    all.max().unwrap_or(AccessEvidence::Instrumented)
}

/// Difference of prefix sums strictly between two calls.
fn between(counts: &[u32], after: MemoryCallId, before: MemoryCallId) -> u32 {
    counts[before.index()].saturating_sub(counts[(after.index() + 1).min(before.index())])
}

/// Set or copy whose bytes have not been read so far.
struct PendingWrite {
    call: MemoryCallId,
    pieces: ByteRanges,
}

/// Disjoint, ascending byte ranges of an object, none adjacent to the next.
struct ByteRanges(Vec<(u64, u64)>);

impl ByteRanges {
    /// Join ascending ranges that overlap or are adjacent.
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

    /// Number of bytes in all ranges.
    fn bytes(&self) -> u64 {
        self.0.iter().map(|piece| piece.1 - piece.0).sum()
    }

    /// Range that contains a byte, or the next range.
    fn at(&self, byte: u64) -> Option<(u64, u64)> {
        self.0.get(self.0.partition_point(|piece| piece.1 <= byte)).copied()
    }

    /// True if these ranges contain every byte of the others.
    fn cover(&self, others: &Self) -> bool {
        others.0.iter().all(|&(begin, end)| self.at(begin).is_some_and(|own| own.0 <= begin && end <= own.1))
    }

    /// True if a byte is in both.
    fn overlap(&self, others: &Self) -> bool {
        others.0.iter().any(|&(begin, end)| self.at(begin).is_some_and(|own| own.0 < end))
    }
}

/// First accesses of an object since its last use.
#[derive(Clone, Copy)]
struct LaterAccesses {
    /// First access.
    first: MemoryCallId,
    /// True if the first access overwrites the whole object.
    overwritten: bool,
    /// First use, or device copy that writes the object.
    needed: MemoryCallId,
    /// Number of sets and copies before `needed`.
    fills: u32,
}

const UNTOUCHED: LaterAccesses =
    LaterAccesses { first: MemoryCallId::NONE, overwritten: false, needed: MemoryCallId::NONE, fills: 0 };

/// Pass over the calls of a trace that fills [`ObjectUsage`].
struct Collector<'a> {
    usage: ObjectUsage<'a>,
    /// None without accesses in the source: then only lifetimes are analyzed, in host order.
    order: Option<OrderTracker>,
    pending: FxHashMap<MemoryObjectId, Vec<PendingWrite>>,
    /// Accesses since the last use, per object.
    touched_again: Vec<LaterAccesses>,
    /// Longest gap per object so far, in kernels.
    longest: Vec<u32>,
}

impl<'a> Collector<'a> {
    /// Create a pass with empty usage of all objects, with vector clocks if several streams have calls.
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
            concurrent_uses: ConcurrentUses::new(if many_streams { objects } else { 0 }),
            touches: OnceLock::new(),
            iterations: OnceLock::new(),
        };
        Self {
            usage,
            order,
            pending: FxHashMap::default(),
            touched_again: vec![UNTOUCHED; objects],
            longest: vec![0; objects],
        }
    }

    /// Process the next call: order, counts of kernels, reads, then all accesses.
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
        // Reads come first: a copy within one object reads bytes that it then overwrites.
        for access in trace.accesses_of(call) {
            if access.mode.reads() && !self.pending.is_empty() {
                self.record_read(access);
            }
        }
        for access in trace.accesses_of(call) {
            self.access(call, kind, access, place);
        }
        if kind == MemoryCallKind::Free {
            self.pending.remove(&trace.calls.target_object(call));
        }
    }

    /// Process one access of a call: update first and last use, fills, evidence and the call that needs the memory.
    fn access(&mut self, call: MemoryCallId, kind: MemoryCallKind, access: MemoryAccess, place: InStream) {
        let row = access.object.index();
        let is_kernel = kind == MemoryCallKind::Kernel;
        let is_use = is_kernel || access.mode.reads();
        if self.usage.uses[row].last_use != call {
            let overwritten = access.mode == AccessMode::Write && self.is_whole(access);
            let again = &mut self.touched_again[row];
            if again.first.is_none() {
                (again.first, again.overwritten) = (call, overwritten);
            }
            if again.needed.is_none() && (is_use || kind == MemoryCallKind::CopyOnDevice) {
                again.needed = call;
            }
            again.fills += u32::from(again.needed.is_none());
        }
        if access.mode == AccessMode::Write {
            self.record_write(call, access, is_kernel);
        }
        if is_use {
            self.record_use(call, access.object, place);
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

    /// Process a read: writes of the bytes that it may have read are not wasted.
    fn record_read(&mut self, access: MemoryAccess) {
        let Some(pending) = self.pending.get_mut(&access.object) else { return };
        match self.usage.trace.accesses.ranges_of(access.row) {
            [] => pending.clear(),
            ranges => {
                let read = ByteRanges::new(ranges);
                pending.retain(|old| !read.overlap(&old.pieces));
            }
        }
        if pending.is_empty() {
            self.pending.remove(&access.object);
        }
    }

    /// Process a use: close the gap since the previous one.
    fn record_use(&mut self, call: MemoryCallId, object: MemoryObjectId, place: InStream) {
        let row = object.index();
        let before = self.usage.uses[row].last_use;
        if before.is_none() {
            self.usage.uses[row].first_use = call;
        } else if before != call {
            self.gap(before, call, object);
            let clocks = self.order.as_ref().map_or((&[][..], &[][..]), |order| (order.clock(), order.host_clock()));
            let last = (self.usage.uses[row].last_place, before);
            self.usage.concurrent_uses.keep_unfinished(object, last, (place, call), clocks);
        }
        self.touched_again[row] = UNTOUCHED;
        let known = &mut self.usage.uses[row];
        known.uses += u32::from(before != call);
        known.last_use = call;
        known.last_place = place;
        known.fills_after_last_use = 0;
    }

    /// Record an idle gap of an object between two uses, if enough kernels run in it.
    fn gap(&mut self, after: MemoryCallId, until: MemoryCallId, object: MemoryObjectId) {
        let kernels = self.usage.kernels_between(after, until);
        if kernels < self.usage.rules.idle_kernels.max(1) {
            return;
        }
        let LaterAccesses { first, overwritten, needed, fills } = self.touched_again[object.index()];
        let (needed_again, fills) = if overwritten { (needed, fills) } else { (first, 0) };
        let gap = Gap { object, after, until, needed_again, fills, content_needed: !overwritten, kernels };
        let longest = &mut self.longest[object.index()];
        if self.usage.gaps.len() < MOST_GAPS || kernels > *longest {
            self.usage.gaps.push(gap);
        } else {
            self.usage.gaps_left_out += 1;
        }
        *longest = kernels.max(*longest);
    }

    /// Process a write without a read: it may make earlier writes dead, and may become dead later.
    fn record_write(&mut self, call: MemoryCallId, access: MemoryAccess, is_kernel: bool) {
        if is_kernel && !self.pending.contains_key(&access.object) {
            return;
        }
        let Some(pieces) = self.pieces(access) else { return };
        let dead = &mut self.usage.dead_writes;
        let opaque = &self.usage.opaque;
        let pending = self.pending.entry(access.object).or_default();
        pending.retain(|old| {
            let covered = old.call != call && pieces.cover(&old.pieces);
            // The writing kernel itself is included, because its other reads are unknown.
            let read_unseen = !opaque.is_empty() && opaque[call.index() + 1] > opaque[old.call.index() + 1];
            if covered && !read_unseen {
                let bytes = old.pieces.bytes();
                dead.push(DeadWrite { object: access.object, first: old.call, second: call, bytes });
            }
            !covered
        });
        if !is_kernel {
            pending.push(PendingWrite { call, pieces });
        }
    }

    /// True if an access certainly covers the whole object.
    fn is_whole(&self, access: MemoryAccess) -> bool {
        let (trace, bytes) = (self.usage.trace, self.usage.trace.objects.bytes[access.object.index()]);
        let ranges = trace.accesses.ranges_of(access.row);
        let reached = ranges.iter().try_fold(0, |end, range| (range.begin <= end).then(|| range.end.max(end)));
        access.extent == AccessExtent::Whole || (!ranges.is_empty() && reached == Some(bytes))
    }

    /// Byte ranges that an access certainly covers; `None` if unknown.
    fn pieces(&self, access: MemoryAccess) -> Option<ByteRanges> {
        let trace = self.usage.trace;
        match access.extent {
            AccessExtent::Unknown => None,
            AccessExtent::Whole => Some(ByteRanges(vec![(0, trace.objects.bytes[access.object.index()])])),
            AccessExtent::Ranges => {
                Some(ByteRanges::new(trace.accesses.ranges_of(access.row))).filter(|own| own.bytes() > 0)
            }
        }
    }
}
