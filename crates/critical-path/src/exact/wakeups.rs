//! Wakeups between threads: the thread that released each waiting thread, and the time of the release.

use super::gil_holders::GilHolders;
use super::names::{Names, bits};
use super::thread_timelines::{Piece, ThreadTimeline};
use super::work_ends::{Ends, burst_ends, frame_ends, latest_end};
use super::xla_pool::XlaPool;
use crate::gpu_dependency::Evidence;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::names::STEP_PREFIX;
use stackline_model::{EventId, EventKind, INFERRED, Key, LinkKind, Trace, TrackId};

/// Rule that explains why a waiting thread continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadRule {
    /// Call of the autograd engine, by a Python frame or a link from forward to backward.
    BackwardStarts,
    /// Return of the autograd engine.
    BackwardReturns,
    /// Wait that ended after work of another thread or process, or after its release of a lock or addition to a queue.
    Wakes,
    /// Release of the GIL.
    InterpreterLock,
    /// Thread that began, or that its pool woke, while the main thread ran.
    Starts,
    /// Thread of XLA's pool that took a task of another thread.
    TakesTask,
}

impl ThreadRule {
    /// Stable name, for tables and files, of the rule that explains why a waiting thread continued.
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

/// Handover between threads: one thread's work let another, waiting thread continue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handover {
    /// Releasing lane, and time of the release.
    pub(super) source: (usize, i64),
    /// Waiting lane.
    pub(super) target: usize,
    /// Start of the wait.
    pub(super) from: i64,
    /// Start of the lane's next own work.
    pub(super) to: i64,
    pub(super) rule: ThreadRule,
    pub(super) evidence: Evidence,
}

/// All handovers between threads, and the activity of each thread in gaps between its spans.
pub(super) struct HandoversAndGaps {
    pub(super) handovers: Vec<Handover>,
    /// Kind of gaps per lane.
    pub(super) gaps: Vec<Gap>,
}

/// Assumed activity of a thread in the gaps between its spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// Autograd engine.
    Engine,
    /// Data loading.
    Loader,
    /// Python: the thread has frames, or it is the main thread of its process and runs operators.
    Python,
    /// Native code: the thread runs operators and has no frames, and other threads of its process have frames.
    Native,
    /// Unknown.
    Unseen,
}

/// Search for the thread that ended each gap and each wait of a host thread.
struct HandoverFinder<'a> {
    trace: &'a Trace,
    lanes: &'a [ThreadTimeline],
    names: &'a Names,
    /// Main lane of each process.
    main: FxHashMap<Key, usize>,
    /// Per lane: the lane whose backward pass it runs.
    forward_of: Vec<Option<usize>>,
    /// Per lane: true if it only loads data, as a worker process or the pinning thread.
    is_loader: Vec<bool>,
    /// Lane that only loads data, per process with other lanes.
    pinning: FxHashMap<Key, usize>,
    burst_ends: Ends,
    /// Holders of the GIL over time.
    python: GilHolders,
    /// Ends of frames that release a lock, and of frames that add an item to a queue.
    release_ends: Ends,
    add_ends: Ends,
    xla_pool: XlaPool,
    handovers: Vec<Handover>,
}

/// Find all handovers between host threads, from the releasing to the waiting thread.
pub(super) fn find_handovers(trace: &Trace, lanes: &[ThreadTimeline], names: &Names) -> HandoversAndGaps {
    let main = main_lanes(trace, lanes);
    let forward_of = forward_lanes(trace, lanes, &main);
    let mut finder = HandoverFinder {
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
        add_ends: frame_ends(trace, lanes, names, bits::ADDS_TO_QUEUE),
        xla_pool: XlaPool::new(trace, lanes),
        handovers: Vec::new(),
    };
    for (lane, _) in finder.is_loader.iter().enumerate().filter(|(_, loads)| **loads) {
        finder.pinning.insert(trace.tracks.pid(lanes[lane].track), lane);
    }
    for lane in 0..lanes.len() {
        finder.find_gap_handovers(lane);
        finder.find_wait_handovers(lane);
    }
    let with_frames: FxHashSet<Key> =
        lanes.iter().filter(|l| l.span_counts.python > 0).map(|l| trace.tracks.pid(l.track)).collect();
    let gap = |lane: usize| {
        let (span_counts, pid) = (lanes[lane].span_counts, finder.pid(lane));
        let is_main = finder.main.get(&pid) == Some(&lane);
        match () {
            () if finder.forward_of[lane].is_some() => Gap::Engine,
            () if finder.is_loader[lane] => Gap::Loader,
            () if span_counts.python > 0 || (is_main && span_counts.operators + span_counts.annotations > 0) => {
                Gap::Python
            }
            () if span_counts.operators > 0 && with_frames.contains(&pid) => Gap::Native,
            () => Gap::Unseen,
        }
    };
    HandoversAndGaps { gaps: (0..lanes.len()).map(gap).collect(), handovers: finder.handovers }
}

/// Main thread of each process, as a lane: the lane with its steps, or the one whose thread number equals the process
/// number, or the one with most Python frames and operators.
fn main_lanes(trace: &Trace, lanes: &[ThreadTimeline]) -> FxHashMap<Key, usize> {
    let steps: FxHashSet<TrackId> = trace.steps.iter().map(|s| trace.events.track[s.event.index()]).collect();
    let mut best: FxHashMap<Key, ((bool, bool, u32), usize)> = FxHashMap::default();
    for (i, lane) in lanes.iter().enumerate() {
        let (pid, tid) = (trace.tracks.pid(lane.track), trace.tracks.get(lane.track).tid);
        let same = trace.key_text(pid) == trace.key_text(tid);
        let score = (steps.contains(&lane.track), same, lane.span_counts.python + lane.span_counts.operators);
        let slot = best.entry(pid).or_insert((score, i));
        if score > slot.0 {
            *slot = (score, i);
        }
    }
    best.into_iter().map(|(pid, (_, lane))| (pid, lane)).collect()
}

/// For each lane that runs backward operators of another thread: the lane with their forward operators.
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

/// True if a thread has Python frames and all its outermost spans belong to data loading.
fn is_loader(trace: &Trace, lane: &ThreadTimeline, names: &Names) -> bool {
    let mut bursts = lane
        .pieces
        .iter()
        .enumerate()
        .filter(|(i, p)| p.event.is_some() && (*i == 0 || lane.pieces[i - 1].event.is_none()));
    lane.span_counts.python > 0
        && bursts.all(|(_, p)| {
            let root = trace.ancestors(p.event).last().unwrap_or(p.event);
            names.flags(trace, root) & bits::LOADS_DATA != 0
        })
}

/// True if an event is, or lies in, a node of the autograd engine (a backward operator).
fn is_engine_node(trace: &Trace, event: EventId) -> bool {
    event.is_some()
        && std::iter::once(event).chain(trace.ancestors(event)).any(|e| {
            trace.kind(e) == EventKind::Operator && stackline_timeline::vocabulary::autograd::is_node(trace.name(e))
        })
}

impl HandoverFinder<'_> {
    /// Process of a lane.
    fn pid(&self, lane: usize) -> Key {
        self.trace.tracks.pid(self.lanes[lane].track)
    }

    /// Find the handover that ended each gap of a lane before top-level work, and the one that started the lane.
    fn find_gap_handovers(&mut self, lane: usize) {
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
                None if self.xla_pool.is_pool_thread(lane) => self.task_source((lane, piece.event), from, piece.start),
                None => self.gap_source(lane, from, piece.start),
            };
            if let Some((source, rule, evidence)) = found {
                let from = from.unwrap_or(piece.start);
                self.handovers.push(Handover { source, target: lane, from, to: piece.start, rule, evidence });
            }
        }
    }

    /// Release of a thread of the autograd engine by the forward thread, which called the engine. `None` for gaps
    /// between nodes of one backward pass.
    fn backward_start(&self, forward: usize, from: Option<i64>, to: i64) -> Option<Source> {
        let lane = &self.lanes[forward];
        let piece = lane.piece_before(to)?;
        let Piece { event, start } = lane.pieces[piece];
        let is_frame = self.names.flags(self.trace, event) & bits::RUNS_BACKWARD != 0;
        if is_frame || !self.is_own_work(event) {
            // The forward thread waits from `start` on.
            let evidence = if is_frame { Evidence::Exact } else { Evidence::Inferred };
            return from.is_none_or(|f| start > f).then_some(((forward, start), ThreadRule::BackwardStarts, evidence));
        }
        // The forward thread works, so it started the engine after a long pause.
        let paused = from.is_none_or(|f| to - f >= ENGINE_PAUSE_NS);
        paused.then_some(((forward, to), ThreadRule::Starts, Evidence::Inferred))
    }

    /// True if a thread in this span works. In a gap, or directly in an annotation, it may wait.
    fn is_own_work(&self, event: EventId) -> bool {
        event.is_some() && !is_annotation(self.trace, event)
    }

    /// Release that ended a gap of a thread of XLA's pool: the addition of its next task, or else as for other threads.
    /// A short gap belongs to the task itself.
    fn task_source(&self, (lane, first): (usize, EventId), from: Option<i64>, to: i64) -> Option<Source> {
        if let Some((at, by)) = self.xla_pool.added_by(self.trace, (lane, first), from.unwrap_or(i64::MIN)) {
            return Some(((by, at), ThreadRule::TakesTask, Evidence::Inferred));
        }
        let is_short = from.is_some_and(|from| to - from < ENGINE_PAUSE_NS);
        if is_short { None } else { self.gap_source(lane, from, to) }
    }

    /// Release that ended a gap of a thread that runs no backward pass, or `None` if no other thread is known to have
    /// ended it.
    fn gap_source(&self, lane: usize, from: Option<i64>, to: i64) -> Option<Source> {
        let pid = self.pid(lane);
        let span_counts = self.lanes[lane].span_counts;
        let main = self.main.get(&pid).copied();
        if main == Some(lane) && span_counts.python == 0 {
            // Without Python frames, gaps of the main thread are its own time.
            return None;
        }
        let after = from.unwrap_or(i64::MIN);
        // A thread with recorded frames waits in one of them.
        let waits_unseen = span_counts.python == 0 || self.is_loader[lane];
        let released = if waits_unseen { self.last_signal(lane, after, to) } else { None };
        // The pinning thread takes batches of the workers.
        let made = latest_end(&self.burst_ends, after, to, |l| {
            self.is_loader[lane] && self.is_loader[l] && self.pid(l) != pid && self.main.get(&pid) != Some(&lane)
        });
        let woken = if made.is_some() { made } else { released };
        let released = woken.map(|(at, l)| ((l, at), ThreadRule::Wakes, Evidence::Inferred));
        let lock = from.and_then(|from| self.interpreter_lock(lane, from, to));
        let found = released.into_iter().chain(lock).max_by_key(|((l, at), ..)| (*at, *l));
        let is_idle = from.is_none() || span_counts.python + span_counts.annotations == 0;
        found.or_else(|| {
            let starter = main.filter(|&m| m != lane && is_idle && self.lanes[m].is_busy_before(to))?;
            Some(((starter, to), ThreadRule::Starts, Evidence::Inferred))
        })
    }

    /// Last release of a lock or addition to a queue in `(after, until]` by another lane, as time and lane. Data
    /// loading lanes prefer additions.
    fn last_signal(&self, lane: usize, after: i64, until: i64) -> Option<(i64, usize)> {
        let put = latest_end(&self.add_ends, after, until, |l| l != lane);
        let released = latest_end(&self.release_ends, after, until, |l| l != lane);
        if self.is_loader[lane] { put.or(released) } else { put.max(released) }
    }

    /// Release of the GIL that ended a gap, by another thread of the process that ran Python and paused within the gap.
    fn interpreter_lock(&self, lane: usize, from: i64, to: i64) -> Option<Source> {
        // The thread itself pauses then, so it is not among them.
        let (at, other) = self.python.next_pause(self.pid(lane), from, to)?;
        Some(((other, at), ThreadRule::InterpreterLock, Evidence::Inferred))
    }

    /// Find the handover that ended each wait of a lane inside a span, such as a wait for a lock.
    fn find_wait_handovers(&mut self, lane: usize) {
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
                latest_end(&self.burst_ends, from, to, |l| engines.contains(&l))
                    .map(|(at, l)| ((l, at), ThreadRule::BackwardReturns, evidence))
            } else if known & bits::WAITS_FOR_THREAD != 0 {
                self.wait_source(lane, piece.event, from, to)
            } else if self.xla_pool.is_waited_for(self.trace, piece.event, next) {
                let ended = latest_end(&self.burst_ends, from, to, |l| self.xla_pool.is_pool_thread(l));
                ended.map(|(at, l)| ((l, at), ThreadRule::Wakes, Evidence::Inferred))
            } else {
                None
            };
            if let Some((source, rule, evidence)) = found {
                self.handovers.push(Handover { source, target: lane, from, to, rule, evidence });
            }
        }
    }

    /// End in ns of a piece in which a thread may wait. A sampled wait may continue until other work of the thread.
    fn wait_end(&self, lane: usize, piece: usize) -> i64 {
        let (lane, event) = (&self.lanes[lane], self.lanes[lane].pieces[piece].event);
        let is_wait = self.names.flags(self.trace, event) & bits::WAITS_FOR_THREAD != 0;
        let mut last = piece;
        if is_wait && self.trace.attr(INFERRED).get(event).is_some() {
            let is_around = |p: &&Piece| p.event.is_none() || self.trace.ancestors(event).any(|e| e == p.event);
            last += lane.pieces[piece + 1..].iter().take_while(is_around).count();
        }
        lane.piece_end(last)
    }

    /// Release that ended a wait for a lock, a queue or a pipe, by another thread or process; `None` if none is known.
    fn wait_source(&self, lane: usize, frame: EventId, from: i64, to: i64) -> Option<Source> {
        let pid = self.pid(lane);
        let has_pinning = self.pinning.get(&pid).is_some_and(|&l| l != lane);
        let may_wake = |l: usize| {
            l != lane
                && self.lanes[l].span_counts.python > 0
                && (self.pid(l) == pid || (self.is_loader[l] && !has_pinning))
        };
        // A thread that takes a batch waits for data loading lanes.
        let takes_batch =
            self.names.loads_data(self.trace, frame) && (0..self.lanes.len()).any(|l| may_wake(l) && self.is_loader[l]);
        let ended = || latest_end(&self.burst_ends, from, to, |l| may_wake(l) && (!takes_batch || self.is_loader[l]));
        let released = || latest_end(&self.release_ends, from, to, |l| l != lane && self.pid(l) == pid);
        let put = || latest_end(&self.add_ends, from, to, |l| l != lane);
        let is_lock = self.names.flags(self.trace, frame) & bits::LOCKS != 0;
        let (at, source) = match () {
            // If releases are recorded, only they end a wait for a lock.
            () if is_lock && !self.release_ends.is_empty() => released(),
            () if takes_batch => ended().or_else(put),
            () => ended().or_else(put).or_else(released),
        }?;
        Some(((source, at), ThreadRule::Wakes, Evidence::Inferred))
    }
}

/// Minimum pause in ns that is longer than the engine takes between two nodes.
const ENGINE_PAUSE_NS: i64 = 100_000;

/// True if a span does no work and only marks a time range of the program. Old traces record steps as operators.
pub(super) fn is_annotation(trace: &Trace, event: EventId) -> bool {
    match trace.kind(event) {
        EventKind::Annotation => true,
        EventKind::Operator => trace.name(event).starts_with(STEP_PREFIX),
        _ => false,
    }
}

/// Lane and time of a release, with rule and evidence.
type Source = ((usize, i64), ThreadRule, Evidence);
