//! Detection of inferred steps: a repeated sequence of kernels on a stream, for programs without step marks.
//!
//! A name that occurs once per step cuts the stream's sequence of names into equal pieces. The rarest such name is
//! used, because names that occur once per layer are more frequent. A single pass through equal layers also repeats,
//! but only kernels. So each repeat must contain an operation that layers lack: a copy between host and device, or an
//! optimizer kernel.

use crate::vocabulary::kernels::is_optimizer;
use crate::vocabulary::recorders;
use rustc_hash::FxHashMap;
use stackline_model::format::{count, duration};
use stackline_model::gpu_calls::{CopyDirection, copy_direction};
use stackline_model::{EventKind, GpuOpId, StrId, Trace};
use std::collections::BTreeMap;
use std::ops::Range;

/// Minimum number of repeats of a pattern.
const MIN_REPEATS: usize = 5;
/// Minimum number of operations of a pattern.
const MIN_OPERATIONS: usize = 8;
/// Minimum share, in percent, of the GPU's operations from the first to the last repeat that are in equal repeats.
const MIN_EQUAL_PERCENT: u64 = 80;
/// Minimum share, in percent, of all GPU time that is in equal repeats.
const MIN_TIME_PERCENT: i64 = 50;
/// Minimum share, in percent, of repeats with an operation that steps have and layers lack.
const MIN_DELIMITED_PERCENT: usize = 80;
/// Minimum ratio to the median repeat of a repeat that contains a pause, such as missing requests or an evaluation.
const PAUSE_RATIO: i64 = 5;

/// A repeated sequence of operations on a GPU stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchPattern {
    /// Start and end of each repeat, in ns since the trace's base, up to the start of the next one: the longest run of
    /// repeats without a pause.
    pub repeats: Vec<(i64, i64)>,
    /// Number of repeats before and after the longest run, separated by a pause.
    pub left_out: usize,
    /// Total time of all pauses, in ns.
    pub pauses_ns: i64,
    /// Start of the trace's first event.
    pub begin: i64,
    /// Number of operations of a repeat.
    pub operations: usize,
    /// Share, in percent, of the GPU's operations from the first to the last of [`Self::repeats`] that are in equal
    /// repeats.
    pub equal_percent: u64,
    /// Advice on marking iterations for the tool that recorded the trace.
    pub how_to_mark: &'static str,
}

/// Advice on marking steps with torch.profiler.
const TORCH_STEPS: &str = "call prof.step() after each iteration, or wrap iterations in \
                           torch.profiler.record_function('step') and use --step-annotation '^step$'";

impl LaunchPattern {
    /// Find the pattern on the busiest GPU, on its stream with the most operations. `None` if the evidence is weak.
    #[must_use]
    pub fn find(trace: &Trace) -> Option<Self> {
        let gpu = Operations::from_busiest_gpu(trace)?;
        let mut by_count: BTreeMap<usize, Vec<&[u32]>> = BTreeMap::new();
        for at in gpu.positions.iter().filter(|at| at.len() >= MIN_REPEATS) {
            by_count.entry(at.len()).or_default().push(at);
        }
        // Among equally frequent names, use the one with the longest idle time before it: a step begins there.
        let best = |anchors: Vec<&[u32]>| {
            let found = anchors.into_iter().filter_map(|at| Some((gpu.idle_before(at), gpu.pattern_at(at)?)));
            found.max_by_key(|(idle, pattern)| (*idle, std::cmp::Reverse(pattern.repeats[0].0)))
        };
        let how_to_mark = recorders::recorder_of(trace).map_or(TORCH_STEPS, |recorder| recorder.mark_steps);
        by_count.into_values().find_map(best).map(|(_, pattern)| Self { how_to_mark, ..pattern })
    }

    /// Time window from the start of the first repeat to the end of the last one, in ns since the trace's base.
    #[must_use]
    pub fn window(&self) -> (i64, i64) {
        let (first, last) = (self.repeats.first(), self.repeats.last());
        (first.map_or(self.begin, |first| first.0), last.map_or(self.begin, |last| last.1))
    }

    /// Note text for commands that use the repeats as steps.
    #[must_use]
    pub(crate) fn inferred_steps_note(&self) -> String {
        let (from, to) = self.window();
        let since = |time: i64| duration(time.saturating_sub(self.begin));
        format!(
            "steps are inferred from a repeated pattern of {} launches, because the program marks no steps. The \
             inferred steps are {} repeats of median length {}, from {} to {} of the trace.{} Results per step have \
             lower confidence. Tables cover the whole trace; with --whole, all results cover it. To mark steps, {}",
            count(self.operations as i64),
            count(self.repeats.len() as i64),
            duration(self.median_ns()),
            since(from),
            since(to),
            self.excluded_text(),
            self.how_to_mark,
        )
    }

    /// Sentence on the excluded repeats and pauses; empty if there are none.
    fn excluded_text(&self) -> String {
        let pauses = duration(self.pauses_ns);
        match self.left_out {
            0 => String::new(),
            1 => format!(
                " Pauses of {pauses} in total are excluded, and 1 repeat of the pattern that a pause separates from \
                the other repeats."
            ),
            n => format!(
                " Pauses of {pauses} in total are excluded, and {} repeats of the pattern that a pause separates from \
                the other repeats.",
                count(n as i64)
            ),
        }
    }

    /// Median length of a repeat, in ns.
    #[must_use]
    pub fn median_ns(&self) -> i64 {
        let lengths: Vec<i64> = self.repeats.iter().map(|(from, to)| to - from).collect();
        crate::steps::upper_median(&lengths).unwrap_or(0)
    }
}

impl std::fmt::Display for LaunchPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Some(first), Some(last)) = (self.repeats.first(), self.repeats.last()) else { return Ok(()) };
        let middle = self.repeats[self.repeats.len() / 2];
        let since = |time: i64| duration(time.saturating_sub(self.begin));
        write!(
            f,
            "no steps are marked, but {} repeats of a pattern of {} GPU operations look like steps: median length {}, \
             from {} to {} of the trace.{} Identical repeats contain {} % of the GPU operations in this time. To see \
             one repeat, open the timeline of `stackline view` at {} to {}. Findings, critical paths and what-if use \
             the repeats as steps. To mark steps, {}",
            count(self.repeats.len() as i64),
            count(self.operations as i64),
            duration(self.median_ns()),
            since(first.0),
            since(last.1),
            self.excluded_text(),
            self.equal_percent,
            since(middle.0),
            since(middle.1),
            self.how_to_mark,
        )
    }
}

/// Operations of the busiest GPU, with the sequence of operations on one of its streams.
struct Operations {
    /// Start, end and name of the stream's operations, in time order.
    sequence: Vec<(i64, i64, StrId)>,
    /// Positions of each name in the sequence.
    positions: Vec<Vec<u32>>,
    /// Prefix sums of the name hashes: equal pieces have equal hashes.
    hashes: Vec<u64>,
    /// Prefix sums of durations, in ns.
    busy_ns: Vec<i64>,
    /// Starts of all operations of the GPU, and of those that bound steps, ascending.
    starts: Vec<i64>,
    bounds: Vec<i64>,
    /// Total time of all operations of the GPU, in ns.
    total_ns: i64,
    begin: i64,
}

impl Operations {
    /// Collect the operations of the GPU with the most busy time, and of its stream with the most operations; `None`
    /// without GPU work.
    fn from_busiest_gpu(trace: &Trace) -> Option<Self> {
        let timed = |gpu: &GpuOpId| trace.events.is_timed(trace.gpu.event[gpu.index()]);
        let times = |gpu: GpuOpId| {
            let event = trace.gpu.event[gpu.index()];
            (trace.events.start[event.index()], trace.events.end(event))
        };
        let mut devices: BTreeMap<i32, i64> = BTreeMap::new();
        let mut streams: BTreeMap<(i32, i64), usize> = BTreeMap::new();
        for gpu in trace.gpu.ids().filter(timed) {
            let (device, stream) = (trace.gpu.device[gpu.index()], trace.gpu.stream[gpu.index()]);
            let sum = devices.entry(device).or_default();
            *sum = sum.saturating_add(times(gpu).1 - times(gpu).0);
            *streams.entry((device, stream)).or_default() += 1;
        }
        let (&device, &total_ns) = devices.iter().max_by_key(|(_, ns)| **ns)?;
        let (&(_, stream), _) = streams.iter().filter(|((on, _), _)| *on == device).max_by_key(|(_, n)| **n)?;
        let name = |gpu: GpuOpId| trace.events.name[trace.gpu.event[gpu.index()].index()];
        let here: Vec<GpuOpId> =
            trace.gpu.ids().filter(timed).filter(|gpu| trace.gpu.device[gpu.index()] == device).collect();
        let on_stream = here.iter().filter(|gpu| trace.gpu.stream[gpu.index()] == stream);
        let mut sequence: Vec<(i64, i64, StrId)> =
            on_stream.map(|&gpu| (times(gpu).0, times(gpu).1, name(gpu))).collect();
        sequence.sort_by_key(|&(start, end, _)| (start, end));
        let mut starts: Vec<i64> = here.iter().map(|&gpu| times(gpu).0).collect();
        starts.sort_unstable();
        // Operations are many, and their names few.
        let mut known: FxHashMap<(StrId, bool), bool> = FxHashMap::default();
        let bounding = here.iter().filter(|gpu| {
            let event = trace.gpu.event[gpu.index()];
            let key = (name(**gpu), trace.kind(event) == EventKind::Memcpy);
            *known.entry(key).or_insert_with(|| delimits_step(trace, event))
        });
        let mut bounds: Vec<i64> = bounding.map(|&gpu| times(gpu).0).collect();
        bounds.sort_unstable();
        let mut busy_ns = vec![0i64];
        for (start, end, _) in &sequence {
            busy_ns.push(busy_ns[busy_ns.len() - 1].saturating_add(end - start));
        }
        let (positions, hashes) = (positions(&sequence), hashes(&sequence));
        let begin = trace.span().map_or(0, |(start, _)| start);
        Some(Self { sequence, positions, hashes, busy_ns, starts, bounds, total_ns, begin })
    }

    /// Hash of the operation names at positions `from..to` of the sequence.
    fn hash(&self, from: usize, to: usize) -> u64 {
        let before = mul_mod(self.hashes[from], power(BASE, (to - from) as u64));
        (self.hashes[to] + PRIME - before) % PRIME
    }

    /// Median idle time of the stream right before the operations at these positions, in ns.
    fn idle_before(&self, at: &[u32]) -> i64 {
        let at = at.iter().map(|&at| at as usize).filter(|&at| at > 0);
        let idle: Vec<i64> = at.map(|at| self.sequence[at].0 - self.sequence[at - 1].1).collect();
        crate::steps::upper_median(&idle).unwrap_or(0)
    }

    /// Pattern whose repeats begin with the operations at these positions of the sequence; `None` if the evidence is
    /// weak.
    fn pattern_at(&self, at: &[u32]) -> Option<LaunchPattern> {
        let at: Vec<usize> = at.iter().map(|&at| at as usize).collect();
        let mut pieces: Vec<(usize, usize)> = at.windows(2).map(|two| (two[0], two[1])).collect();
        let (operations, hash) = self.dominant_piece(&pieces)?;
        let last = *at.last()?;
        let is_equal = |&(from, to): &(usize, usize)| to - from == operations && self.hash(from, to) == hash;
        let tail = (last, last + operations);
        pieces.extend(Some(tail).filter(|tail| tail.1 <= self.sequence.len() && is_equal(tail)));
        let equal: Vec<(usize, usize)> = pieces.iter().copied().filter(is_equal).collect();
        let repeats: Vec<(i64, i64)> = pieces.iter().map(|&piece| self.span(piece)).collect();
        let equal_ns: i64 =
            equal.iter().map(|&(from, to)| self.busy_ns[to] - self.busy_ns[from]).fold(0, i64::saturating_add);
        let is_bounded = |&&(from, to): &&(i64, i64)| {
            self.bounds.get(self.bounds.partition_point(|&at| at < from)).is_some_and(|&at| at < to)
        };
        let is_strong = operations >= MIN_OPERATIONS
            && self.percent_of(&repeats, equal.len() * operations)? >= MIN_EQUAL_PERCENT
            && equal_ns >= self.total_ns / 100 * MIN_TIME_PERCENT
            && 100 * repeats.iter().filter(is_bounded).count() >= MIN_DELIMITED_PERCENT * repeats.len();
        let (run, pauses_ns) = longest_run(&repeats);
        let equal_of_run = pieces[run.clone()].iter().filter(|piece| is_equal(piece)).count();
        let equal_percent = self.percent_of(&repeats[run.clone()], equal_of_run * operations)?;
        let is_strong = is_strong && equal_of_run >= MIN_REPEATS && equal_percent >= MIN_EQUAL_PERCENT;
        is_strong.then(|| LaunchPattern {
            repeats: repeats[run.clone()].to_vec(),
            left_out: repeats.len() - run.len(),
            pauses_ns,
            begin: self.begin,
            operations,
            equal_percent,
            how_to_mark: TORCH_STEPS,
        })
    }

    /// Percentage that `operations` (a number) is of all GPU operations that start from the first to the last repeat.
    fn percent_of(&self, repeats: &[(i64, i64)], operations: usize) -> Option<u64> {
        let (from, to) = (repeats.first()?.0, repeats.last()?.1);
        let all = self.starts.partition_point(|&at| at < to) - self.starts.partition_point(|&at| at < from);
        Some((100 * operations / all.max(1)) as u64)
    }

    /// Length and hash of the kind of pieces (equal names) with the most operations in total; the first of equal kinds.
    fn dominant_piece(&self, pieces: &[(usize, usize)]) -> Option<(usize, u64)> {
        let mut known: FxHashMap<(usize, u64), (usize, usize)> = FxHashMap::default();
        for (order, &(from, to)) in pieces.iter().enumerate() {
            known.entry((to - from, self.hash(from, to))).or_insert((0, order)).0 += 1;
        }
        let most =
            known.into_iter().max_by_key(|((length, _), (times, order))| (length * times, std::cmp::Reverse(*order)));
        most.map(|(piece, _)| piece)
    }

    /// Start and end time of a piece of the sequence, in ns. The piece ends at the start of the next operation; the
    /// last piece ends at its own end.
    fn span(&self, (from, to): (usize, usize)) -> (i64, i64) {
        let end = self.sequence.get(to).map_or_else(|| self.sequence[to - 1].1, |next| next.0);
        (self.sequence[from].0, end)
    }
}

/// Index range of the longest series of repeats without a pause (the first of equal ones), and the total time of all
/// pauses in ns.
fn longest_run(repeats: &[(i64, i64)]) -> (Range<usize>, i64) {
    let lengths: Vec<i64> = repeats.iter().map(|(from, to)| to - from).collect();
    let middle = crate::steps::upper_median(&lengths).unwrap_or(0);
    let (mut longest, mut run, mut pauses_ns) = (0..0, 0..0, 0i64);
    for (at, &length) in lengths.iter().enumerate() {
        if length > middle.saturating_mul(PAUSE_RATIO) {
            pauses_ns = pauses_ns.saturating_add(length - middle);
            run = at + 1..at + 1;
            continue;
        }
        run.end = at + 1;
        if run.len() > longest.len() {
            longest = run.clone();
        }
    }
    (longest, pauses_ns)
}

/// Test if an operation occurs in each iteration but not in each layer: a copy between host and device, or an optimizer
/// kernel.
fn delimits_step(trace: &Trace, event: stackline_model::EventId) -> bool {
    let name = trace.name(event);
    match trace.kind(event) {
        EventKind::Memcpy => copy_direction(name).is_some_and(|direction| direction != CopyDirection::OnDevice),
        _ => is_optimizer(name),
    }
}

/// Positions of operations with equal names in the sequence: one ascending list per name.
fn positions(sequence: &[(i64, i64, StrId)]) -> Vec<Vec<u32>> {
    let mut by_name: BTreeMap<StrId, Vec<u32>> = BTreeMap::new();
    for (at, (.., name)) in (0u32..).zip(sequence) {
        by_name.entry(*name).or_default().push(at);
    }
    by_name.into_values().collect()
}

/// A prime below 2^61, and the base of the polynomial hash.
const PRIME: u64 = (1 << 61) - 1;
const BASE: u64 = 0x1d3f_84a5_9c17_e26b % PRIME;

/// Product modulo [`PRIME`].
fn mul_mod(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64
}

/// Power modulo [`PRIME`].
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = mul_mod(result, base);
        }
        base = mul_mod(base, base);
        exponent >>= 1;
    }
    result
}

/// Hashes of all prefixes of the sequence of names, for polynomial hashes of its parts.
fn hashes(sequence: &[(i64, i64, StrId)]) -> Vec<u64> {
    let mut hashes = vec![0];
    let mut hash = 0;
    for (.., name) in sequence {
        hash = (mul_mod(hash, BASE) + name.index() as u64 + 1) % PRIME;
        hashes.push(hash);
    }
    hashes
}
