//! Rule context of a calling context tree.

use super::super::busy_python;
use super::steps::{Steps, below};
use super::thread::{Known, Thread, Time, is_of_autograd, upwards};
use crate::findings::rule::Rule;
use crate::findings::settings::Settings;
use crate::findings::source_location::SourceLocation;
use crate::findings::step_words::StepWords;
use stackline_model::names::MODULE_PREFIX;
use stackline_model::vocabulary::is_own_code;
use stackline_model::{CallNodeId, CallThreadId, CallingContextTree, Frame, FrameId, FrameKind};
use std::collections::BTreeMap;

/// Time of some nodes, with the nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) time: Time,
    /// The outermost ones of what was looked for, in the order of the tree.
    pub(super) nodes: Vec<CallNodeId>,
}

/// What a rule calls what it found, and at which line of the user's own code it was found ([`CallRuleContext::line`]).
pub(super) type ByLine = BTreeMap<(FrameId, &'static str), Seen>;

/// Names of frames that a rule looks for, and what it calls them.
pub(super) type KindOf = fn(&str) -> Option<&'static str>;

/// Rule context of a call tree: the thread that runs the steps, and the nodes to examine.
pub(super) struct CallRuleContext<'a> {
    pub(super) tree: &'a CallingContextTree,
    pub(super) thread: Thread,
    pub(super) steps: Steps,
    pub(super) settings: &'a Settings,
    /// By frame: its name as traces have it.
    names: Vec<String>,
    /// By node: whether it is an operator, or below one.
    pub(super) in_operator: Vec<bool>,
    /// By node: the nearest one at or above it whose frame is of the user's own code; the root if there is none.
    lines: Vec<CallNodeId>,
    /// By node: whether what runs there is the user's own ([`CallRuleContext::is_users`]).
    users: Vec<bool>,
    /// Whether the program uses a GPU, as far as it can be seen.
    pub(super) uses_gpu: bool,
    window_ns: u64,
    /// What first batches took longer than others, which is left out, in ns.
    pub(super) first_batches_ns: u64,
    /// What recording adds to a step, as a part of one without it, where that is known and left out.
    pub(super) overhead: Option<f64>,
    /// The time that was left out for it, in ns.
    pub(super) overhead_ns: u64,
}

impl<'a> CallRuleContext<'a> {
    /// `None` if no time was measured of any thread, or none of the chosen rank.
    pub(super) fn new(tree: &'a CallingContextTree, rank: Option<i64>, settings: &'a Settings) -> Option<Self> {
        let thread = Thread::find(tree, rank)?;
        let id = thread.id;
        // Of a few short steps there may be no sample.
        Self::for_thread(tree, thread, settings)
            .or_else(|| Self::for_thread(tree, Thread::with(tree, id, Known::Operators), settings))
    }

    fn for_thread(tree: &'a CallingContextTree, mut thread: Thread, settings: &'a Settings) -> Option<Self> {
        let mut steps = Steps::find(tree, &tree.children(), &thread);
        steps.leave_out_setup_collections(tree);
        let time = |thread: &Thread| steps.select(&thread.own).fold(0_u64, |all, time| all.saturating_add(time.ns));
        let recorded_ns = time(&thread);
        let overhead = thread.leave_out_overhead(tree, &steps);
        let overhead_ns = recorded_ns.saturating_sub(time(&thread));
        thread.add_unseen(tree);
        let first_batches_ns = thread.leave_out_first_batches(tree);
        let window_ns = time(&thread);
        if window_ns == 0 {
            return None;
        }
        let names: Vec<String> = tree.frames.iter().map(|frame| name(tree, frame)).collect();
        let is_operator = |node| {
            let kind = tree.frame(node).map(Frame::kind);
            matches!(kind, Some(FrameKind::Operator | FrameKind::Backward))
        };
        let in_operator = below(tree, is_operator);
        let (lines, users) = lines(tree, &names);
        Some(Self {
            tree,
            thread,
            steps,
            settings,
            names,
            in_operator,
            lines,
            users,
            uses_gpu: uses_gpu(tree),
            window_ns,
            first_batches_ns,
            overhead,
            overhead_ns,
        })
    }

    /// Time of the thread that is looked at, in ns.
    pub(super) fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// What totals are divided by: the steps; 1 without any.
    pub(super) fn per(&self) -> u64 {
        self.steps.count.max(1) as u64
    }

    /// Wordings of titles for its steps.
    pub(super) fn words(&self) -> StepWords {
        StepWords::new(self.steps.count)
    }

    /// A time of all steps, of one of them.
    pub(super) fn per_step(&self, ns: u64) -> i64 {
        i64::try_from(ns / self.per()).unwrap_or(i64::MAX)
    }

    /// A part of the time that is looked at, in percent.
    pub(super) fn percent(&self, ns: u64) -> f64 {
        (100.0 * ns as f64 / self.window_ns.max(1) as f64).min(100.0)
    }

    /// The value of a rule's setting.
    pub(super) fn setting(&self, rule: &Rule, name: &str) -> f64 {
        self.settings.get(rule, name)
    }

    /// A frame's name as traces have it; empty for the root.
    pub(super) fn name(&self, node: CallNodeId) -> &str {
        let frame = self.tree.nodes.frame[node.index()];
        self.names.get(frame.index()).map_or("", String::as_str)
    }

    /// Whether the program uses JAX.
    pub(super) fn uses_jax(&self) -> bool {
        self.tree.strings.iter().any(|text| text.contains("/site-packages/jax/") || text.starts_with("jax/"))
    }

    /// Whether waits are recorded.
    pub(super) fn knows_waits(&self) -> bool {
        self.thread.known != Known::Operators && self.thread.own.iter().any(|time| time.waits_ns > 0)
    }

    /// Nodes of the window.
    pub(super) fn nodes(&self) -> impl Iterator<Item = CallNodeId> {
        self.tree.nodes.ids().skip(1).filter(|node| self.steps.inside[node.index()])
    }

    /// By frame, what a rule calls it.
    pub(super) fn kinds(&self, kind_of: KindOf) -> Vec<Option<&'static str>> {
        self.names.iter().map(|name| kind_of(name)).collect()
    }

    /// The kind of a node's own frame.
    pub(super) fn kind_at(&self, kinds: &[Option<&'static str>], node: CallNodeId) -> Option<&'static str> {
        kinds.get(self.tree.nodes.frame[node.index()].index()).copied().flatten()
    }

    /// The frame of the line of the user's own code that a node is at, or was called from.
    pub(super) fn line(&self, node: CallNodeId) -> FrameId {
        self.tree.nodes.frame.get(self.line_node(node).index()).copied().unwrap_or(FrameId::NONE)
    }

    /// The node of that line.
    pub(super) fn line_node(&self, node: CallNodeId) -> CallNodeId {
        self.lines.get(node.index()).copied().unwrap_or(CallingContextTree::ROOT)
    }

    /// Who called a node; the root called itself.
    pub(super) fn caller(&self, node: CallNodeId) -> CallNodeId {
        self.tree.nodes.parent.get(node.index()).and_then(|parent| parent.some()).unwrap_or(CallingContextTree::ROOT)
    }

    /// Whether what runs at a node is the user's own: its innermost Python frame, or a library's that is no framework
    /// and was called by the user's own code.
    pub(super) fn is_users(&self, node: CallNodeId) -> bool {
        self.users.get(node.index()).copied().unwrap_or(false)
    }

    /// A line in words.
    pub(super) fn place(&self, line: FrameId) -> SourceLocation {
        line.some().and_then(|line| self.tree.frames.get(line.index())).map_or_else(SourceLocation::default, |frame| {
            let mut place = SourceLocation::default();
            note_line(&mut place, self.tree, frame);
            place
        })
    }
}

/// Whether a program uses a GPU: there are operations of one, or the thread on which autograd launches them.
fn uses_gpu(tree: &CallingContextTree) -> bool {
    let is_gpus = |frame: &Frame| matches!(frame.kind(), FrameKind::Runtime | FrameKind::Kernel);
    let mut threads = (0..tree.threads.len()).map(CallThreadId::new);
    tree.frames.iter().any(is_gpus) || threads.any(|thread| is_of_autograd(tree, thread))
}

/// By node, the nearest one of the user's own code, and whether what runs there is the user's own.
fn lines(tree: &CallingContextTree, names: &[String]) -> (Vec<CallNodeId>, Vec<bool>) {
    let is_users_frame = |frame: &Frame| match *frame {
        Frame::Python { file, .. } => is_own_code(tree.strings.get(file)),
        _ => false,
    };
    let own: Vec<bool> = tree.frames.iter().map(is_users_frame).collect();
    let is_others = |(frame, name): (&Frame, &String)| match frame {
        Frame::Python { .. } | Frame::Module { .. } => busy_python::is_framework(name),
        Frame::Span { .. } => true,
        _ => false,
    };
    let others: Vec<bool> = tree.frames.iter().zip(names).map(is_others).collect();
    let (mut lines, mut users) = (vec![CallingContextTree::ROOT; tree.nodes.len()], vec![false; tree.nodes.len()]);
    for node in tree.nodes.ids().skip(1) {
        let (frame, above) = (tree.nodes.frame[node.index()], tree.nodes.parent[node.index()]);
        let is_own = own[frame.index()];
        lines[node.index()] = if is_own { node } else { lines[above.index()] };
        users[node.index()] = is_own || users[above.index()] && !others[frame.index()];
    }
    (lines, users)
}

fn note_line(place: &mut SourceLocation, tree: &CallingContextTree, frame: &Frame) {
    if let Frame::Python { function, file, line, .. } = *frame {
        place.file = Some(tree.strings.get(file).to_owned());
        place.line = (line > 0).then_some(line);
        place.function = Some(tree.strings.get(function).to_owned());
    }
}

/// The place of a node of a tree of calls: the line of the user's own code that it is at or was called from, with the
/// innermost module and the outermost operator in between.
#[must_use]
pub fn place_of_call(tree: &CallingContextTree, node: CallNodeId) -> SourceLocation {
    let text = |id| tree.strings.get(id).to_owned();
    let mut place = SourceLocation::default();
    for frame in upwards(tree, node).filter_map(|node| tree.frame(node)) {
        match *frame {
            Frame::Module { .. } if place.module.is_none() => {
                place.module = Some(format!("{MODULE_PREFIX}{}", frame.name(&tree.strings)));
            }
            Frame::Operator { name, .. } => place.operator = Some(text(name)),
            Frame::Python { file, .. } if is_own_code(tree.strings.get(file)) => {
                note_line(&mut place, tree, frame);
                return place;
            }
            _ => {}
        }
    }
    place
}

/// A frame as torch.profiler names it: what rules look for in traces is found here, too.
fn name(tree: &CallingContextTree, frame: &Frame) -> String {
    let text = |id| tree.strings.get(id);
    match *frame {
        Frame::Python { function, file, first_line, .. } => {
            format!("{}({first_line}): {}", text(file), text(function))
        }
        _ => frame.name(&tree.strings),
    }
}
