//! Wakeups between threads: the thread and the moment that released each waiting thread.

use super::gil_holders::GilHolders;
use super::names::{Names, bits};
use super::thread_timelines::{Piece, ThreadTimeline};
use super::xla_pool::XlaPool;
use crate::critical_path::gpu_order::Evidence;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::names::STEP_PREFIX;
use stackline_model::{EventId, EventKind, INFERRED, Key, LinkKind, Trace, TrackId};

/// Why a thread went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadRule {
    /// The autograd engine was called; a Python frame or an arrow from forward to backward says so.
    BackwardStarts,
    /// The autograd engine returned.
    BackwardReturns,
    /// A wait ended after another thread's or process's work, or after it released or put something.
    Wakes,
    /// The interpreter's lock became free.
    InterpreterLock,
    /// A thread began, or its pool woke it, while the main thread ran.
    Starts,
    /// A thread of XLA's pool took a task that another thread put.
    TakesTask,
}

impl ThreadRule {
    /// Name of the rule in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::BackwardStarts => "backward_starts",
            Self::BackwardReturns => "backward_returns",
            Self::Wakes => "wakes",
            Self::InterpreterLock => "interpreter_lock",
            Self::Starts => "starts",
            Self::TakesTask => "takes_task",
        }
    }
}

/// A thread that waited and went on because of another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handover {
    /// Lane that let it go on, and when.
    pub(super) source: (usize, i64),
    /// Lane that waited.
    pub(super) target: usize,
    /// When it began to wait.
    pub(super) from: i64,
    /// When its next own work began.
    pub(super) to: i64,
    pub(super) rule: ThreadRule,
    pub(super) evidence: Evidence,
}

/// All hand-overs, and what the gaps of each lane are.
pub(super) struct Threads {
    pub(super) handovers: Vec<Handover>,
    /// Per lane what its gaps are.
    pub(super) gaps: Vec<Gap>,
}

/// What a thread does where nothing is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// Runs the autograd engine.
    Engine,
    /// Loads data.
    Loader,
    /// Runs Python: it has frames, or it is the main thread of its process and runs operators.
    Python,
    /// Runs no Python: other threads of its process have frames, but not this one, which runs operators.
    Native,
    /// Nothing tells.
    Unseen,
}

/// Ends of work, by time: (end, lane).
pub(super) type Ends = Vec<(i64, usize)>;

struct Finder<'a> {
    trace: &'a Trace,
    lanes: &'a [ThreadTimeline],
    names: &'a Names,
    /// Main lane of each process.
    main: FxHashMap<Key, usize>,
    /// Per lane the lane whose backward pass it runs.
    forward_of: Vec<Option<usize>>,
    /// Per lane whether it only loads data: a worker process, or the pinning thread.
    is_loader: Vec<bool>,
    /// By process: a lane that only loads data beside others.
    pinning: FxHashMap<Key, usize>,
    burst_ends: Ends,
    /// Who ran Python when.
    python: GilHolders,
    /// Ends of frames that release a lock, and of frames that put something into a queue.
    release_ends: Ends,
    put_ends: Ends,
    xla_pool: XlaPool,
    handovers: Vec<Handover>,
}

/// Finds who waited for whom.
pub(super) fn find(trace: &Trace, lanes: &[ThreadTimeline], names: &Names) -> Threads {
    let main = main_lanes(trace, lanes);
    let forward_of = forward_lanes(trace, lanes, &main);
    let mut finder = Finder {
        trace,
        lanes,
        names,
        main,
        forward_of,
        pinning: FxHashMap::default(),
        is_loader: lanes.iter().map(|lane| is_loader(trace, lane, names)).collect(),
        burst_ends: burst_ends(lanes),
        python: GilHolders::new(trace, lanes),
        release_ends: frame_ends(trace, lanes, names, bits::RELEASES),
        put_ends: frame_ends(trace, lanes, names, bits::PUTS),
        xla_pool: XlaPool::new(trace, lanes),
        handovers: Vec::new(),
    };
    for (lane, _) in finder.is_loader.iter().enumerate().filter(|(_, loads)| **loads) {
        finder.pinning.insert(trace.tracks.pid(lanes[lane].track), lane);
    }
    for lane in 0..lanes.len() {
        finder.gaps(lane);
        finder.waits(lane);
    }
    let with_frames: FxHashSet<Key> =
        lanes.iter().filter(|l| l.has.python > 0).map(|l| trace.tracks.pid(l.track)).collect();
    let gap = |lane: usize| {
        let (has, pid) = (lanes[lane].has, finder.pid(lane));
        let is_main = finder.main.get(&pid) == Some(&lane);
        match () {
            () if finder.forward_of[lane].is_some() => Gap::Engine,
            () if finder.is_loader[lane] => Gap::Loader,
            () if has.python > 0 || (is_main && has.operators + has.annotations > 0) => Gap::Python,
            () if has.operators > 0 && with_frames.contains(&pid) => Gap::Native,
            () => Gap::Unseen,
        }
    };
    Threads { gaps: (0..lanes.len()).map(gap).collect(), handovers: finder.handovers }
}

/// The lane of each process that runs its steps, else the one whose thread number is that of the process, else the
/// one with most spans of Python and operators.
fn main_lanes(trace: &Trace, lanes: &[ThreadTimeline]) -> FxHashMap<Key, usize> {
    let steps: FxHashSet<TrackId> = trace.steps.iter().map(|s| trace.events.track[s.event.index()]).collect();
    let mut best: FxHashMap<Key, ((bool, bool, u32), usize)> = FxHashMap::default();
    for (i, lane) in lanes.iter().enumerate() {
        let (pid, tid) = (trace.tracks.pid(lane.track), trace.tracks.get(lane.track).tid);
        let same = trace.key_text(pid) == trace.key_text(tid);
        let score = (steps.contains(&lane.track), same, lane.has.python + lane.has.operators);
        let slot = best.entry(pid).or_insert((score, i));
        if score > slot.0 {
            *slot = (score, i);
        }
    }
    best.into_iter().map(|(pid, (_, lane))| (pid, lane)).collect()
}

/// Per lane the lane whose forward operators its backward operators belong to.
fn forward_lanes(trace: &Trace, lanes: &[ThreadTimeline], main: &FxHashMap<Key, usize>) -> Vec<Option<usize>> {
    let of_track: FxHashMap<TrackId, usize> = lanes.iter().enumerate().map(|(i, l)| (l.track, i)).collect();
    let lane = |e: EventId| of_track.get(&trace.events.track[e.index()]).copied();
    let mut votes = vec![FxHashMap::<usize, u32>::default(); lanes.len()];
    for (from, to, _) in trace.links.of_kind(LinkKind::Backward) {
        if let (Some(from), Some(to)) = (lane(from), lane(to))
            && from != to
        {
            *votes[to].entry(from).or_default() += 1;
        }
    }
    let most = |votes: &FxHashMap<usize, u32>| votes.iter().map(|(&l, &n)| (n, std::cmp::Reverse(l))).max();
    let mut found: Vec<Option<usize>> = votes.iter().map(|v| Some(most(v)?.1.0)).collect();
    for (i, lane) in lanes.iter().enumerate() {
        let own_main = main.get(&trace.tracks.pid(lane.track)).copied().filter(|&m| m != i);
        if found[i].is_none() && lane.pieces.iter().any(|p| is_engine_node(trace, p.event)) {
            found[i] = own_main;
        }
    }
    // Two lanes that run each other's backward pass would wait for each other.
    for i in 0..found.len() {
        if found[i].is_some_and(|f| found[f].is_some()) {
            found[i] = None;
        }
    }
    found
}

/// Whether all that a lane does at the top level is loading data.
fn is_loader(trace: &Trace, lane: &ThreadTimeline, names: &Names) -> bool {
    let mut bursts = lane
        .pieces
        .iter()
        .enumerate()
        .filter(|(i, p)| p.event.is_some() && (*i == 0 || lane.pieces[i - 1].event.is_none()));
    lane.has.python > 0
        && bursts.all(|(_, p)| {
            let root = trace.ancestors(p.event).last().unwrap_or(p.event);
            names.flags(trace, root) & bits::LOADS_DATA != 0
        })
}

fn is_engine_node(trace: &Trace, event: EventId) -> bool {
    event.is_some()
        && std::iter::once(event)
            .chain(trace.ancestors(event))
            .any(|e| trace.kind(e) == EventKind::Operator && crate::vocabulary::autograd::is_node(trace.name(e)))
}

/// When the top-level work of each lane paused.
fn burst_ends(lanes: &[ThreadTimeline]) -> Ends {
    let mut ends: Ends = Vec::new();
    for (i, lane) in lanes.iter().enumerate() {
        ends.extend(lane.pieces.iter().filter(|p| p.event.is_none()).map(|p| (p.start, i)));
    }
    ends.sort_unstable();
    ends
}

/// When frames that let others go on ended.
fn frame_ends(trace: &Trace, lanes: &[ThreadTimeline], names: &Names, wanted: u16) -> Ends {
    let mut ends: Ends = Vec::new();
    for (i, lane) in lanes.iter().enumerate() {
        let mut seen = EventId::NONE;
        for piece in lane.pieces.iter().filter(|p| p.event.is_some()) {
            if piece.event != seen && names.flags(trace, piece.event) & wanted != 0 {
                ends.push((trace.events.end(piece.event), i));
                seen = piece.event;
            }
        }
    }
    ends.sort_unstable();
    ends
}

/// The latest end in `(after, until]` on a lane that is wanted.
pub(super) fn latest(ends: &Ends, after: i64, until: i64, wanted: impl Fn(usize) -> bool) -> Option<(i64, usize)> {
    let to = ends.partition_point(|&(end, _)| end <= until);
    ends[..to].iter().rev().take_while(|(end, _)| *end > after).find(|(_, lane)| wanted(*lane)).copied()
}

impl Finder<'_> {
    fn pid(&self, lane: usize) -> Key {
        self.trace.tracks.pid(self.lanes[lane].track)
    }

    /// Gaps before top-level work: who woke the thread?
    fn gaps(&mut self, lane: usize) {
        let lanes = self.lanes;
        let pieces = &lanes[lane].pieces;
        for (i, piece) in pieces.iter().enumerate() {
            let is_first = i == 0;
            let after_gap = i > 0 && pieces[i - 1].event.is_none();
            if piece.event.is_none() || !(is_first || after_gap) {
                continue;
            }
            let from = if is_first { None } else { Some(pieces[i - 1].start) };
            let found = match self.forward_of[lane] {
                Some(forward) => self.backward_start(forward, from, piece.start),
                None if self.xla_pool.has(lane) => self.task_begins((lane, piece.event), from, piece.start),
                None => self.gap_ends(lane, from, piece.start),
            };
            if let Some((source, rule, evidence)) = found {
                let from = from.unwrap_or(piece.start);
                self.handovers.push(Handover { source, target: lane, from, to: piece.start, rule, evidence });
            }
        }
    }

    /// What called the engine, if the forward thread did anything of its own since the engine's last node.
    fn backward_start(&self, forward: usize, from: Option<i64>, to: i64) -> Option<Source> {
        let lane = &self.lanes[forward];
        let piece = lane.piece_before(to)?;
        let Piece { event, start } = lane.pieces[piece];
        let is_frame = self.names.flags(self.trace, event) & bits::RUNS_BACKWARD != 0;
        if is_frame || !self.is_own_work(event) {
            // It waits since `start`.
            let evidence = if is_frame { Evidence::Exact } else { Evidence::Inferred };
            return from.is_none_or(|f| start > f).then_some(((forward, start), ThreadRule::BackwardStarts, evidence));
        }
        // The forward thread works: it started the engine if that had paused for long.
        let paused = from.is_none_or(|f| to - f >= ENGINE_PAUSE_NS);
        paused.then_some(((forward, to), ThreadRule::Starts, Evidence::Inferred))
    }

    /// Whether a thread that is in this span works; in a gap or directly under an annotation it may wait.
    fn is_own_work(&self, event: EventId) -> bool {
        event.is_some() && !is_annotation(self.trace, event)
    }

    /// Who put the task that a thread of XLA's pool begins; a short gap is the task's own.
    fn task_begins(&self, (lane, first): (usize, EventId), from: Option<i64>, to: i64) -> Option<Source> {
        if let Some((at, by)) = self.xla_pool.put_by(self.trace, (lane, first), from.unwrap_or(i64::MIN)) {
            return Some(((by, at), ThreadRule::TakesTask, Evidence::Inferred));
        }
        let is_short = from.is_some_and(|from| to - from < ENGINE_PAUSE_NS);
        if is_short { None } else { self.gap_ends(lane, from, to) }
    }

    /// The end of a gap of a thread that runs no backward pass.
    fn gap_ends(&self, lane: usize, from: Option<i64>, to: i64) -> Option<Source> {
        let pid = self.pid(lane);
        let has = self.lanes[lane].has;
        let main = self.main.get(&pid).copied();
        if main == Some(lane) && has.python == 0 {
            // Without Python frames, gaps of the main thread are its own time.
            return None;
        }
        let after = from.unwrap_or(i64::MIN);
        // A thread whose frames are recorded waits in one of them.
        let waits_unseen = has.python == 0 || self.is_loader[lane];
        let released = if waits_unseen { self.signal(lane, after, to) } else { None };
        // The pinning thread takes what the workers made.
        let made = latest(&self.burst_ends, after, to, |l| {
            self.is_loader[lane] && self.is_loader[l] && self.pid(l) != pid && self.main.get(&pid) != Some(&lane)
        });
        let woken = if made.is_some() { made } else { released };
        let released = woken.map(|(at, l)| ((l, at), ThreadRule::Wakes, Evidence::Inferred));
        let lock = from.and_then(|from| self.interpreter_lock(lane, from, to));
        let found = released.into_iter().chain(lock).max_by_key(|((l, at), ..)| (*at, *l));
        let is_idle = from.is_none() || has.python + has.annotations == 0;
        found.or_else(|| {
            let starter = main.filter(|&m| m != lane && is_idle && self.lanes[m].is_busy_before(to))?;
            Some(((starter, to), ThreadRule::Starts, Evidence::Inferred))
        })
    }

    /// The last release of a lock or addition to a queue; those who load data wait for the latter only.
    fn signal(&self, lane: usize, after: i64, until: i64) -> Option<(i64, usize)> {
        let put = latest(&self.put_ends, after, until, |l| l != lane);
        let released = latest(&self.release_ends, after, until, |l| l != lane);
        if self.is_loader[lane] { put.or(released) } else { put.max(released) }
    }

    /// A burst of Python on another thread of the process that ran when the gap began and ended in it.
    fn interpreter_lock(&self, lane: usize, from: i64, to: i64) -> Option<Source> {
        // The thread itself pauses then: it is none of those.
        let (at, other) = self.python.paused(self.pid(lane), from, to)?;
        Some(((other, at), ThreadRule::InterpreterLock, Evidence::Inferred))
    }

    /// Pieces in which a thread waits for another one.
    fn waits(&mut self, lane: usize) {
        let lanes = self.lanes;
        let pieces = &lanes[lane].pieces;
        let engines: Vec<usize> = (0..lanes.len()).filter(|&l| self.forward_of[l] == Some(lane)).collect();
        for (i, piece) in pieces.iter().enumerate() {
            let (from, to) = (piece.start, self.wait_end(lane, i));
            if to == i64::MAX {
                continue;
            }
            let next = pieces.get(i + 1).map_or(EventId::NONE, |next| next.event);
            let known = self.names.flags(self.trace, piece.event);
            let is_frame = known & bits::RUNS_BACKWARD != 0;
            let found = if is_frame || (!engines.is_empty() && !self.is_own_work(piece.event)) {
                let evidence = if is_frame { Evidence::Exact } else { Evidence::Inferred };
                latest(&self.burst_ends, from, to, |l| engines.contains(&l))
                    .map(|(at, l)| ((l, at), ThreadRule::BackwardReturns, evidence))
            } else if known & bits::ENDED_BY_OTHERS != 0 {
                self.woken(lane, piece.event, from, to)
            } else if self.xla_pool.is_waited_for(self.trace, piece.event, next) {
                let ended = latest(&self.burst_ends, from, to, |l| self.xla_pool.has(l));
                ended.map(|(at, l)| ((l, at), ThreadRule::Wakes, Evidence::Inferred))
            } else {
                None
            };
            if let Some((source, rule, evidence)) = found {
                self.handovers.push(Handover { source, target: lane, from, to, rule, evidence });
            }
        }
    }

    /// The end of a piece. A wait that samples saw may go on after the last of them, until its thread does something else.
    fn wait_end(&self, lane: usize, piece: usize) -> i64 {
        let (lane, event) = (&self.lanes[lane], self.lanes[lane].pieces[piece].event);
        let is_wait = self.names.flags(self.trace, event) & bits::ENDED_BY_OTHERS != 0;
        let mut last = piece;
        if is_wait && self.trace.attr(INFERRED).get(event).is_some() {
            let is_around = |p: &&Piece| p.event.is_none() || self.trace.ancestors(event).any(|e| e == p.event);
            last += lane.pieces[piece + 1..].iter().take_while(is_around).count();
        }
        lane.piece_end(last)
    }

    /// What ended a wait for a lock, a queue or a pipe.
    fn woken(&self, lane: usize, frame: EventId, from: i64, to: i64) -> Option<Source> {
        let pid = self.pid(lane);
        let has_pinning = self.pinning.get(&pid).is_some_and(|&l| l != lane);
        let may_wake = |l: usize| {
            l != lane && self.lanes[l].has.python > 0 && (self.pid(l) == pid || (self.is_loader[l] && !has_pinning))
        };
        // Who takes a batch got it from those who load data.
        let takes_batch =
            self.names.loads_data(self.trace, frame) && (0..self.lanes.len()).any(|l| may_wake(l) && self.is_loader[l]);
        let ended = || latest(&self.burst_ends, from, to, |l| may_wake(l) && (!takes_batch || self.is_loader[l]));
        let released = || latest(&self.release_ends, from, to, |l| l != lane && self.pid(l) == pid);
        let put = || latest(&self.put_ends, from, to, |l| l != lane);
        let is_lock = self.names.flags(self.trace, frame) & bits::LOCKS != 0;
        let (at, source) = match () {
            // Where releases are recorded, nothing else ends the wait for a lock.
            () if is_lock && !self.release_ends.is_empty() => released(),
            () if takes_batch => ended().or_else(put),
            () => ended().or_else(put).or_else(released),
        }?;
        Some(((source, at), ThreadRule::Wakes, Evidence::Inferred))
    }
}

/// Longer than the engine takes between two nodes, in ns.
const ENGINE_PAUSE_NS: i64 = 100_000;

/// Whether a span only marks a stretch of the program. Old traces record steps as operators.
pub(super) fn is_annotation(trace: &Trace, event: EventId) -> bool {
    match trace.kind(event) {
        EventKind::Annotation => true,
        EventKind::Operator => trace.name(event).starts_with(STEP_PREFIX),
        _ => false,
    }
}

/// Lane and moment that let a thread go on, by which rule.
type Source = ((usize, i64), ThreadRule, Evidence);
