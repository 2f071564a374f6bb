//! Live bytes over time, and their peaks.

use stackline_model::{MemoryCallId, MemoryDeviceId, MemoryObjectId, MemoryTrace};

/// Live block of memory: half-open range of positions (of [`stackline_model::MemoryCalls`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// First position at which the block is live.
    pub from: u32,
    /// First position at which the block is no longer live.
    pub to: u32,
    /// Bytes.
    pub bytes: u64,
}

impl Span {
    /// True if the block is live at a position.
    pub fn covers(&self, position: u32) -> bool {
        self.from <= position && position < self.to
    }
}

/// Live bytes on one device as a step function over positions in the order of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The device.
    pub device: MemoryDeviceId,
    /// Live bytes from each position on; positions ascend, and the bytes change at each.
    pub points: Vec<(u32, u64)>,
    /// Number of calls, up to which the last point holds. Without calls only the first position exists.
    pub end: u32,
}

/// Peak of live bytes: its first position and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// First call at the peak; the first call also represents the time before it.
    pub position: MemoryCallId,
    /// Live bytes.
    pub bytes: u64,
}

/// Least drop of the curve between two distinct peaks, as a share of the lower one.
const MIN_DROP: f64 = 0.05;

/// Distance in calls up to which two high points are one peak, however far the curve drops between them: a few calls
/// that free and allocate again are one moment of the program. In long traces it is a 256th of their calls, at most
/// [`MAX_MERGE_DISTANCE`].
const MERGE_DISTANCE: u32 = 3;
const MAX_MERGE_DISTANCE: u32 = 16;

impl Curve {
    /// Create the curve of live bytes on a device from the lifetimes of memory blocks.
    pub fn new(device: MemoryDeviceId, spans: impl Iterator<Item = Span>, end: u32) -> Self {
        let mut changes: Vec<(u32, i64)> = Vec::new();
        for span in spans.filter(|span| span.from < span.to && span.bytes > 0) {
            let bytes = i64::try_from(span.bytes).unwrap_or(i64::MAX);
            changes.push((span.from, bytes));
            changes.push((span.to, -bytes));
        }
        changes.sort_unstable();
        let mut points: Vec<(u32, u64)> = vec![(0, 0)];
        let mut bytes = 0i64;
        for at in changes.chunk_by(|a, b| a.0 == b.0) {
            let position = at[0].0;
            bytes = at.iter().fold(bytes, |bytes, (_, change)| bytes.saturating_add(*change));
            let now = u64::try_from(bytes).unwrap_or(0);
            match points.last_mut() {
                Some(last) if last.0 == position => last.1 = now,
                Some(last) if last.1 == now => {}
                _ => points.push((position, now)),
            }
        }
        points.retain(|(position, _)| *position < end.max(1));
        Self { device, points, end }
    }

    /// Live bytes of the device at a position in the order of calls.
    pub fn at(&self, position: u32) -> u64 {
        let after = self.points.partition_point(|(known, _)| *known <= position);
        if after == 0 { 0 } else { self.points[after - 1].1 }
    }

    /// Maximum of the live bytes, at its first position.
    pub fn peak(&self) -> Peak {
        let mut peak = Peak { position: MemoryCallId(0), bytes: 0 };
        for (position, bytes) in &self.points {
            if *bytes > peak.bytes {
                peak = Peak { position: MemoryCallId(*position), bytes: *bytes };
            }
        }
        peak
    }

    /// Highest peaks in descending order, at most `most`. Between two peaks the curve drops by at least 5 % of the
    /// lower one over more than a few calls. Peaks of equal bytes count once, the earliest: a training loop reaches the
    /// same peak in each step, and a repeated one would hide the next lower peak.
    pub fn peaks(&self, most: usize) -> Vec<Peak> {
        let mut tops: Vec<usize> = (0..self.points.len())
            .filter(|at| {
                let bytes = self.points[*at].1;
                let rises = *at == 0 || self.points[at - 1].1 < bytes;
                let falls = self.points.get(at + 1).is_none_or(|next| next.1 < bytes);
                bytes > 0 && rises && falls
            })
            .collect();
        tops.sort_by_key(|at| (std::cmp::Reverse(self.points[*at].1), *at));
        let mut taken: Vec<usize> = Vec::new();
        let near = (self.end / 256).clamp(MERGE_DISTANCE, MAX_MERGE_DISTANCE);
        // For each point: the highest of the minima between it and each chosen peak.
        let mut lowest: Vec<u64> = Vec::new();
        for at in tops {
            if taken.len() == most {
                break;
            }
            let is_apart = |low: &u64| *low as f64 <= (1.0 - MIN_DROP) * self.points[at].1 as f64;
            let is_far = |other: &usize| self.points[*other].0.abs_diff(self.points[at].0) > near;
            let is_lower = |other: &usize| self.points[*other].1 != self.points[at].1;
            if lowest.get(at).is_none_or(is_apart) && taken.iter().all(|other| is_far(other) && is_lower(other)) {
                taken.push(at);
                self.update_minima(at, &mut lowest);
            }
        }
        taken.into_iter().map(|at| self.peak_at(at)).collect()
    }

    /// Update, for each point, the highest of the minima between it and the chosen peaks, after the choice of the peak
    /// at index `peak`. A new peak must drop toward every chosen one.
    fn update_minima(&self, peak: usize, lowest: &mut Vec<u64>) {
        lowest.resize(self.points.len(), 0);
        let raise = |low: &mut u64, at: usize, known: &mut u64| {
            *low = (*low).min(self.points[at].1);
            *known = (*known).max(*low);
        };
        let (before, from) = lowest.split_at_mut(peak);
        let mut low = u64::MAX;
        from.iter_mut().enumerate().for_each(|(at, known)| raise(&mut low, peak + at, known));
        let mut low = self.points[peak].1;
        before.iter_mut().enumerate().rev().for_each(|(at, known)| raise(&mut low, at, known));
    }

    /// Peak at an index of the curve's points.
    fn peak_at(&self, at: usize) -> Peak {
        Peak { position: MemoryCallId(self.points[at].0), bytes: self.points[at].1 }
    }
}

/// Lifetime and size of an object's memory ([`MemoryTrace::held`]).
pub fn span_of(trace: &MemoryTrace, object: MemoryObjectId) -> Span {
    let life = trace.held(object);
    let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Span { from: position(life.start), to: position(life.end), bytes: trace.objects.bytes[object.index()] }
}

/// Curve of each device with objects, in the order of devices. Objects without a device count for the first one.
pub fn curves(trace: &MemoryTrace) -> Vec<Curve> {
    let end = u32::try_from(trace.calls.len()).unwrap_or(u32::MAX);
    devices(trace)
        .map(|device| {
            let here = trace.objects.ids().filter(|object| device_of(trace, *object) == device);
            Curve::new(device, here.map(|object| span_of(trace, object)), end)
        })
        .filter(|curve| curve.peak().bytes > 0)
        .collect()
}

/// IDs of all devices of a trace; one if the trace lists none.
fn devices(trace: &MemoryTrace) -> impl Iterator<Item = MemoryDeviceId> + use<> {
    (0..trace.devices.len().max(1)).map(MemoryDeviceId::new)
}

/// Device of a memory object; the first device if unknown.
pub fn device_of(trace: &MemoryTrace, object: MemoryObjectId) -> MemoryDeviceId {
    trace.objects.device[object.index()].some().unwrap_or(MemoryDeviceId(0))
}

/// Live objects on a device at a position, largest first.
pub fn alive_at(trace: &MemoryTrace, device: MemoryDeviceId, position: MemoryCallId) -> Vec<MemoryObjectId> {
    let here =
        |object: &MemoryObjectId| device_of(trace, *object) == device && span_of(trace, *object).covers(position.0);
    let mut alive: Vec<MemoryObjectId> = trace.objects.ids().filter(here).collect();
    alive.sort_by_key(|object| std::cmp::Reverse(trace.objects.bytes[object.index()]));
    alive
}

/// Live memory on a device at a position, grouped by a key: bytes and number of objects per key. Most bytes first;
/// equal sums are sorted by key.
pub(crate) fn alive_by<K: Ord>(
    trace: &MemoryTrace,
    device: MemoryDeviceId,
    position: MemoryCallId,
    key: impl Fn(MemoryObjectId) -> K,
) -> Vec<(K, u64, u32)> {
    let mut sums = std::collections::BTreeMap::<K, (u64, u32)>::new();
    for object in alive_at(trace, device, position) {
        let sum = sums.entry(key(object)).or_default();
        sum.0 = sum.0.saturating_add(trace.objects.bytes[object.index()]);
        sum.1 += 1;
    }
    let mut sums: Vec<(K, u64, u32)> = sums.into_iter().map(|(key, (bytes, objects))| (key, bytes, objects)).collect();
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.1));
    sums
}
