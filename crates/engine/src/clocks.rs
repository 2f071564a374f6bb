//! Clock offsets between ranks, from shared collectives: all ranks leave a collective at nearly the same time.

use crate::ranks;
use stackline_model::{AttrValue, EventKind, Table, Trace, TraceSet, Unit};
use stackline_timeline::classify::Collective;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Kinds of collectives that no rank leaves before the last one arrives.
const JOINT: &[&str] = &["all_reduce", "all_gather", "reduce_scatter", "all_to_all"];

/// Number of matched collectives with the first rank that suffices; with fewer, other ranks are compared as well.
const ENOUGH: usize = 8;

/// Identity of a collective, equal on all ranks that take part: communicator, kind and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shared {
    /// Hash of the communicator's name and ranks, which may be thousands.
    communicator: u64,
    kind: &'static str,
    /// True if the number is the library's sequence number, not a count in this trace.
    is_sequence: bool,
    number: i64,
}

/// Name of the table of [`rank_clock_table`].
pub const RANK_CLOCKS: &str = "rank_clocks";

/// End times of a trace's collectives, in ns since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectiveEnds(BTreeMap<Shared, i128>);

/// Clock offset of a rank relative to the first rank of its trace set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankClock {
    /// Rank.
    pub rank: i64,
    /// Rank of the comparison; `None` for the first rank, or without shared collectives.
    pub against: Option<i64>,
    /// Number of matched collectives.
    pub collectives: usize,
    /// Offset in ns: how far the clock is ahead of the first rank's. `None` if unknown.
    pub offset_ns: Option<i64>,
    /// Median absolute deviation of the single differences, in ns.
    pub mad_ns: Option<i64>,
    /// Half the range of the single differences, in ns.
    pub half_spread_ns: Option<i64>,
    /// True if collectives were matched by sequence numbers of the library, else by order.
    pub by_sequence: bool,
}

/// Estimate the clock offset of each rank, in the order of the trace set. The traces are not changed.
pub fn rank_clocks(set: &TraceSet) -> Vec<RankClock> {
    let ends: Vec<CollectiveEnds> = set.traces.iter().map(CollectiveEnds::from_trace).collect();
    clocks_of(&ranks(set), &ends)
}

/// Clock offset of each rank from the ends of its collectives, relative to the first rank; unknown without shared ones.
fn clocks_of(ranks: &[i64], ends: &[CollectiveEnds]) -> Vec<RankClock> {
    let mut clocks: Vec<RankClock> = ranks.iter().map(|&rank| unplaced(rank)).collect();
    if let Some(first) = clocks.first_mut() {
        first.offset_ns = Some(0);
    }
    // Ranks without collectives in common with the first one may share some with a rank whose offset is now known.
    loop {
        let before = clocks.iter().filter(|c| c.offset_ns.is_some()).count();
        for i in 1..clocks.len() {
            if clocks[i].offset_ns.is_none()
                && let Some(placed) = estimate_offset(i, ends, &clocks)
            {
                clocks[i] = placed;
            }
        }
        if clocks.iter().filter(|c| c.offset_ns.is_some()).count() == before {
            return clocks;
        }
    }
}

/// Entry of a rank whose clock offset is still unknown.
fn unplaced(rank: i64) -> RankClock {
    RankClock {
        rank,
        against: None,
        collectives: 0,
        offset_ns: None,
        mad_ns: None,
        half_spread_ns: None,
        by_sequence: false,
    }
}

/// Estimate a rank's clock offset by comparison with a rank of known offset; `None` without shared collectives.
///
/// The rank that shares most collectives is used, of equal ones the first.
fn estimate_offset(rank: usize, ends: &[CollectiveEnds], clocks: &[RankClock]) -> Option<RankClock> {
    let mut best: Option<(usize, Vec<i64>, bool)> = None;
    for (other, _) in clocks.iter().enumerate().filter(|(_, c)| c.offset_ns.is_some()) {
        let (differences, by_sequence) = differences(&ends[rank], &ends[other]);
        let more = best.as_ref().map_or(0, |(_, d, _)| d.len());
        if differences.len() > more {
            best = Some((other, differences, by_sequence));
        }
        let matched = best.as_ref().map_or(0, |(_, d, _)| d.len());
        if other == 0 && matched >= ENOUGH || matched > 0 && matched == ends[rank].most_shared() {
            break;
        }
    }
    let (other, mut differences, by_sequence) = best?;
    differences.sort_unstable();
    let middle = median(&differences)?;
    let mut deviations: Vec<i64> = differences.iter().map(|d| d.saturating_sub(middle).saturating_abs()).collect();
    deviations.sort_unstable();
    let spread = differences.last()?.saturating_sub(*differences.first()?);
    Some(RankClock {
        rank: clocks[rank].rank,
        against: Some(clocks[other].rank),
        collectives: differences.len(),
        offset_ns: Some(clocks[other].offset_ns?.saturating_add(middle)),
        mad_ns: median(&deviations),
        half_spread_ns: Some(spread / 2),
        by_sequence,
    })
}

/// Differences in ns of the end times of shared collectives between two ranks. The flag is true if sequence numbers
/// matched them, which is preferred to order.
fn differences(CollectiveEnds(a): &CollectiveEnds, CollectiveEnds(b): &CollectiveEnds) -> (Vec<i64>, bool) {
    let difference = |key: &Shared, end: &i128| {
        let other = b.get(key)?;
        i64::try_from(end - other).ok()
    };
    let offsets = |sequence: bool| -> Vec<i64> {
        a.iter().filter(|(k, _)| k.is_sequence == sequence).filter_map(|(k, e)| difference(k, e)).collect()
    };
    let by_sequence = offsets(true);
    if !by_sequence.is_empty() {
        return (by_sequence, true);
    }
    let count = |ends: &BTreeMap<Shared, i128>, key: &Shared| {
        ends.keys().filter(|k| !k.is_sequence && k.communicator == key.communicator && k.kind == key.kind).count()
    };
    // Recordings that begin at different collectives would be matched wrongly, so equal counts are required.
    let mut known: BTreeMap<(u64, &str), bool> = BTreeMap::new();
    let mut fits =
        |key: &Shared| *known.entry((key.communicator, key.kind)).or_insert_with(|| count(a, key) == count(b, key));
    let matched = a.iter().filter(|(k, _)| !k.is_sequence && fits(k)).filter_map(|(k, e)| difference(k, e)).collect();
    (matched, false)
}

/// Median of sorted numbers (mean of two middle ones); `None` without numbers.
fn median(sorted: &[i64]) -> Option<i64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((i128::from(sorted[middle - 1]) + i128::from(sorted[middle])).div_euclid(2) as i64),
    }
}

impl CollectiveEnds {
    /// End times of a trace's collective kernels.
    pub fn from_trace(trace: &Trace) -> Self {
        let [group, members, named] =
            ["Process Group Name", "Process Group Ranks", "Collective name"].map(|name| trace.attr(name));
        let sequence = trace.attr("Seq");
        let text = |value: Option<AttrValue>| value.and_then(|v| v.as_str(&trace.strings)).unwrap_or_default();
        let mut kernels = Vec::new();
        for &event in &trace.gpu.event {
            if trace.kind(event) != EventKind::Kernel || !trace.events.is_plausible(event) {
                continue;
            }
            let name = text(named.get(event));
            let Some(kind) = kind(trace.name(event), name) else { continue };
            let communicator = (text(group.get(event)), text(members.get(event)));
            let end = i128::from(trace.meta.base_ns) + i128::from(trace.events.end(event));
            let is_named = communicator != ("", "");
            let communicator = hash(&communicator);
            kernels.push((communicator, is_named, kind, sequence.i64(event), trace.events.start[event.index()], end));
        }
        kernels.sort_by_key(|k| k.4);
        let mut found: BTreeMap<Shared, i128> = BTreeMap::new();
        let mut order: BTreeMap<(u64, &'static str), i64> = BTreeMap::new();
        for (communicator, is_named, kind, sequence, _, end) in kernels {
            if let Some(number) = sequence {
                // A collective of several kernels ends with the last one.
                let key = Shared { communicator, kind, is_sequence: true, number };
                found.entry(key).and_modify(|e| *e = (*e).max(end)).or_insert(end);
            }
            let next = order.entry((communicator, kind)).or_default();
            // Point-to-point traffic without the name of a collective is not shared by all ranks.
            if kind != "send_recv" || is_named {
                found.insert(Shared { communicator, kind, is_sequence: false, number: *next }, end);
            }
            *next += 1;
        }
        Self(found)
    }

    /// Maximum number of collectives that this rank can share with another: those matched by sequence number, or those
    /// matched by order.
    fn most_shared(&self) -> usize {
        let by_sequence = self.0.keys().filter(|key| key.is_sequence).count();
        by_sequence.max(self.0.len() - by_sequence)
    }
}

/// Hash of a communicator's name and ranks, equal in all processes.
fn hash(communicator: &(&str, &str)) -> u64 {
    let mut hasher = DefaultHasher::new();
    communicator.hash(&mut hasher);
    hasher.finish()
}

/// Kind of a collective kernel that all ranks leave together, from its name or the recorded name of the collective;
/// `None` for other kernels.
fn kind(kernel: &str, collective: &str) -> Option<&'static str> {
    let lower = kernel.to_lowercase();
    if !(lower.contains("nccl") || lower.contains("rccl")) {
        return None;
    }
    let family = Collective::find(if collective.is_empty() { kernel } else { collective })?.name;
    if let Some(kind) = JOINT.iter().find(|k| **k == family) {
        return Some(kind);
    }
    // All-to-all consists of these kernels; with its name it would be recognized.
    (collective.is_empty() && lower.contains("sendrecv")).then_some("send_recv")
}

/// Table of the clock offsets of all ranks, from the end times of their collectives. A note if no collectives can be
/// compared.
pub fn rank_clock_table(ranks: &[i64], ends: &[CollectiveEnds]) -> Table {
    let clocks = clocks_of(ranks, ends);
    let first = clocks.first().map(|c| c.rank);
    let finding = |(i, c): (usize, &RankClock)| match c.offset_ns {
        None => Some("not possible".to_owned()),
        Some(_) if i == 0 => Some("reference".to_owned()),
        Some(_) => None,
    };
    let how = |c: &RankClock| {
        let how = if c.by_sequence { "sequence number" } else { "order" };
        c.against.map(|_| how.to_owned())
    };
    let table = Table::new(RANK_CLOCKS, "Clock offsets between ranks, estimated from the ends of shared collectives")
        .i64("rank", Unit::None, clocks.iter().map(|c| c.rank))
        .text("finding", clocks.iter().enumerate().map(finding))
        .i64("offset_ns", Unit::Ns, clocks.iter().map(|c| c.offset_ns))
        .i64("mad_ns", Unit::Ns, clocks.iter().map(|c| c.mad_ns))
        .i64("half_spread_ns", Unit::Ns, clocks.iter().map(|c| c.half_spread_ns))
        .i64("collectives", Unit::None, clocks.iter().map(|c| c.collectives as i64))
        .i64("against", Unit::None, clocks.iter().map(|c| c.against))
        .text("matched_by", clocks.iter().map(how));
    if clocks.iter().skip(1).all(|c| c.offset_ns.is_none()) {
        return table.note(
            "The ranks share no collectives that end on all ranks at the same time, so their clock offsets are \
             unknown. Do not compare times of different ranks.",
        );
    }
    let table = if clocks.iter().any(|c| c.offset_ns.is_none()) {
        table.note(
            "The finding \"not possible\" marks ranks that share no collective with a rank of known clock offset. \
             The clock offsets of these ranks are unknown.",
        )
    } else {
        table
    };
    table.note(format!(
        "Column offset_ns: how far a rank's clock is ahead of the clock of rank {}. Times are shown as recorded, not \
         corrected by these offsets.",
        first.unwrap_or_default()
    ))
}
