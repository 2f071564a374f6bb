//! Memory trace of a run with its cached analysis.

use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::Value;
use stackline_findings as findings;
use stackline_findings::MemoryFindings;
use stackline_memory::curve::{Curve, curves};
use stackline_memory::replay::Combination;
use stackline_memory::tables::{NamedPeak, Ranked};
use stackline_memory::{Gap, MemoryAnalysis, ObjectUse, Pattern, PatternMatch};
use stackline_model::{MemoryCallId, MemoryDeviceId, MemoryObjectId, MemoryStreamId, MemoryTrace};
use std::ops::Range;

/// Peaks of each device, as many as the command line has without being asked for more.
const PEAKS: usize = 2;
/// Streams that have a lane of their own; those with most calls.
const LANES: usize = 32;

/// Reason why memory counts as wasted, such as time before the first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum WasteReason {
    /// Before the first use.
    BeforeFirstUse,
    /// After the last use, freed later.
    AfterLastUse,
    /// Long between two uses.
    Idle,
    /// Never used.
    NeverUsed,
    /// After the last use, never freed.
    NeverFreed,
}

impl WasteReason {
    /// Names of all reasons of waste, in the order of the variants.
    pub(crate) const ALL: [&'static str; 5] =
        ["before first use", "after last use", "idle", "never used", "never freed"];
}

/// Range of positions in the order of calls in which a memory object is wasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waste {
    pub(crate) object: MemoryObjectId,
    /// First call of it, and the one after the last.
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) why: WasteReason,
}

/// Timeline lane of one stream: the number of its memory calls, in total and by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamLane {
    pub(crate) stream: MemoryStreamId,
    pub(crate) calls: u32,
    /// Number of calls of each kind.
    pub(crate) kinds: [u32; 10],
}

/// Memory trace with its cached analysis: curves, peaks, waste and suggestions.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) trace: MemoryTrace,
    pub(crate) curves: Vec<Curve>,
    pub(crate) peaks: Vec<NamedPeak>,
    pub(crate) matches: Vec<PatternMatch>,
    /// Suggestions, best first.
    pub(crate) ranked: Vec<Ranked>,
    /// Of them those that together lower the peak of the first device furthest.
    pub(crate) combination: Option<Combination>,
    pub(crate) uses: Vec<ObjectUse>,
    /// By object and time.
    pub(crate) waste: Vec<Waste>,
    /// Findings of this memory trace.
    pub(crate) findings: MemoryFindings,
    pub(crate) lanes: Vec<StreamLane>,
    /// Streams without a lane, and their calls.
    pub(crate) without_lane: (usize, u64),
    /// Calls have times; otherwise positions are used instead.
    pub(crate) has_times: bool,
}

impl Memory {
    /// Analyze a memory trace once for all queries, because the analysis takes far longer than a query.
    pub(crate) fn new(trace: MemoryTrace) -> Self {
        let analysis = MemoryAnalysis::new(&trace, PEAKS);
        let combination = analysis.peaks.first().and_then(|peak| analysis.combination(peak.device));
        let waste = waste(&analysis);
        let least_percent = findings::Options::default().least_percent;
        let findings = stackline_engine::memory_findings(&analysis, least_percent, &|_| true);
        let MemoryAnalysis { usage, peaks, matches, ranked } = analysis;
        let uses = usage.uses;
        let (lanes, without_lane) = stream_lanes(&trace);
        let has_times = trace.has_times();
        Self {
            curves: curves(&trace),
            trace,
            peaks,
            matches,
            ranked,
            combination,
            uses,
            waste,
            findings,
            lanes,
            without_lane,
            has_times,
        }
    }

    /// Memory trace, and a copy of its findings.
    pub(crate) fn with_findings(&self) -> (&MemoryTrace, MemoryFindings) {
        (&self.trace, self.findings.clone())
    }

    /// Devices that have a memory curve, the one with the highest peak first.
    pub(crate) fn devices(&self) -> Vec<MemoryDeviceId> {
        let place = |device: MemoryDeviceId| self.peaks.iter().position(|peak| peak.device == device);
        let mut devices: Vec<MemoryDeviceId> = self.curves.iter().map(|curve| curve.device).collect();
        devices.sort_by_key(|&device| place(device).unwrap_or(usize::MAX));
        devices
    }

    /// Number of calls of the memory trace, which is the position after its last call.
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.trace.calls.len()).unwrap_or(u32::MAX)
    }

    /// Lifetime of a memory object: position of its allocation, and of its free (excluded), in the order of calls.
    pub(crate) fn life(&self, object: MemoryObjectId) -> (u32, u32) {
        let life: Range<usize> = self.trace.held(object);
        let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        (position(life.start), position(life.end))
    }

    /// Wasted ranges of a memory object, in time order.
    pub(crate) fn waste_of(&self, object: MemoryObjectId) -> &[Waste] {
        let from = self.waste.partition_point(|waste| waste.object < object);
        let count = self.waste[from..].iter().take_while(|waste| waste.object == object).count();
        &self.waste[from..from + count]
    }

    /// Total waste of a memory object: bytes times wasted duration, in byte-seconds, or in byte-calls if the trace has
    /// no times.
    pub(crate) fn wasted(&self, object: MemoryObjectId) -> f64 {
        let long: f64 = self.waste_of(object).iter().map(|waste| self.elapsed(waste.from, waste.to)).sum();
        self.trace.objects.bytes[object.index()] as f64 * long
    }

    /// Time between two positions in the order of calls, in seconds; the number of calls if the trace has no times.
    fn elapsed(&self, from: u32, to: u32) -> f64 {
        if !self.has_times {
            return f64::from(to.saturating_sub(from));
        }
        let times = &self.trace.calls.start_ns;
        let at = |position: u32| times.get(position as usize).or(times.last()).copied().unwrap_or(0);
        at(to).saturating_sub(at(from)).max(0) as f64 / 1e9
    }

    /// Find a memory peak by its name, regardless of case.
    pub(crate) fn peak(&self, name: &str) -> Option<&NamedPeak> {
        self.peaks.iter().find(|peak| peak.name.eq_ignore_ascii_case(name))
    }
}

/// Summary of a memory trace: devices, and numbers of calls, objects, accesses and segments.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct MemorySummary<'a> {
    label: &'a str,
    devices: Vec<&'a str>,
    calls: usize,
    objects: usize,
    accesses: usize,
    segments: usize,
    has_accesses: bool,
    saw_end: bool,
}

impl<'a> MemorySummary<'a> {
    /// Count the calls, objects, accesses and segments of a memory trace.
    pub(crate) fn from_trace(trace: &'a MemoryTrace) -> Self {
        Self {
            label: &trace.label,
            devices: trace.devices.iter().map(|device| trace.strings.get(device.name)).collect(),
            calls: trace.calls.len(),
            objects: trace.objects.len(),
            accesses: trace.accesses.len(),
            segments: trace.segments.len(),
            has_accesses: trace.has_accesses,
            saw_end: trace.saw_end,
        }
    }
}

/// JSON summary of a memory trace, as in `stackline memory --format json`.
pub fn memory_summary(trace: &MemoryTrace) -> Value {
    // All keys are texts: there is no error.
    serde_json::to_value(MemorySummary::from_trace(trace)).unwrap_or_default()
}

/// Wasted ranges of all memory objects, without overlaps. An unused object has a single range.
fn waste(analysis: &MemoryAnalysis<'_>) -> Vec<Waste> {
    let (trace, uses) = (analysis.trace(), &analysis.usage.uses);
    let mut found: Vec<Waste> = analysis.matches.iter().filter_map(|found| waste_of(trace, uses, found)).collect();
    found.extend(analysis.usage.gaps.iter().map(gap));
    found.sort_unstable();
    let mut kept: Vec<Waste> = Vec::with_capacity(found.len());
    for waste in found.into_iter().filter(|waste| waste.from < waste.to) {
        match kept.last_mut().filter(|last| last.object == waste.object && last.to > waste.from) {
            // Keep the longer range. Of equal ranges keep the first: "unused" is more informative than "not freed".
            Some(last) if waste.to > last.to => *last = Waste { from: last.from, ..waste },
            Some(_) => {}
            None => kept.push(waste),
        }
    }
    kept
}

/// Wasted range of the object that matches a pattern; `None` for patterns without a range.
fn waste_of(trace: &MemoryTrace, uses: &[ObjectUse], found: &PatternMatch) -> Option<Waste> {
    let object = found.object;
    let life = trace.life(object);
    let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let (begin, end) = (position(life.start), position(life.end));
    let after = |call: MemoryCallId| call.some().map_or(begin, |call| call.0.saturating_add(1));
    let (from, to, why) = match found.pattern {
        Pattern::EarlyAllocation => (begin, found.to.some()?.0, WasteReason::BeforeFirstUse),
        Pattern::LateDeallocation => (after(found.from), end, WasteReason::AfterLastUse),
        Pattern::UnusedAllocation | Pattern::NeverRead => (begin, end, WasteReason::NeverUsed),
        Pattern::MemoryLeak => (after(uses[object.index()].last_use), end, WasteReason::NeverFreed),
        _ => return None,
    };
    Some(Waste { object, from, to, why })
}

/// Idle range of a memory object between two uses, as waste.
fn gap(gap: &Gap) -> Waste {
    Waste { object: gap.object, from: gap.after.0.saturating_add(1), to: gap.needed_again.0, why: WasteReason::Idle }
}

/// Streams with the most memory calls, by device and key. The pair counts all other streams and their calls.
fn stream_lanes(trace: &MemoryTrace) -> (Vec<StreamLane>, (usize, u64)) {
    let mut by_stream: FxHashMap<MemoryStreamId, StreamLane> = FxHashMap::default();
    for call in trace.calls.ids() {
        let (stream, kind) = (trace.calls.stream[call.index()], trace.calls.kind[call.index()]);
        let lane = by_stream.entry(stream).or_insert(StreamLane { stream, calls: 0, kinds: [0; 10] });
        lane.calls += 1;
        lane.kinds[kind as usize] += 1;
    }
    let mut lanes: Vec<StreamLane> = by_stream.into_values().collect();
    lanes.sort_unstable_by_key(|lane| (std::cmp::Reverse(lane.calls), lane.stream));
    let others = lanes.split_off(lanes.len().min(LANES));
    lanes.sort_unstable_by_key(|lane| lane.stream);
    let calls = others.iter().map(|lane| u64::from(lane.calls)).sum();
    (lanes, (others.len(), calls))
}
