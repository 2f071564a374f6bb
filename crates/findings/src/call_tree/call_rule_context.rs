//! Rule context of a calling context tree: tree, thread, steps and settings.

use super::steps::{Steps, below};
use super::thread::{Thread, Time, TimeSource, ancestors_of, is_of_autograd};
use crate::rule::Rule;
use crate::rules::busy_python;
use crate::settings::Settings;
use crate::step_words::StepWords;
use stackline_model::names::MODULE_PREFIX;
use stackline_model::vocabulary::is_own_code;
use stackline_model::{CallNodeId, CallThreadId, CallingContextTree, Frame, FrameId, FrameKind};
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;

/// Total time of some nodes of a call tree, with these nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeTime {
    pub(super) time: Time,
    /// Outermost nodes of the searched kind, in tree order.
    pub(super) nodes: Vec<CallNodeId>,
}

/// Time by line of the user's own code ([`CallRuleContext::line`]) and by kind of work.
pub(super) type ByLine = BTreeMap<(FrameId, &'static str), NodeTime>;

/// Classifier of frame names for a rule; returns the kind of work.
pub(super) type KindOf = fn(&str) -> Option<&'static str>;

/// Rule context of a call tree: the thread that runs the steps, and the nodes to examine.
pub(super) struct CallRuleContext<'a> {
    pub(super) tree: &'a CallingContextTree,
    pub(super) thread: Thread,
    pub(super) steps: Steps,
    pub(super) settings: &'a Settings,
    /// Name of each frame, as in traces.
    names: Vec<String>,
    /// True for nodes at or below an operator.
    pub(super) in_operator: Vec<bool>,
    /// Nearest node at or above each node with a frame of the user's own code; the root if there is none.
    lines: Vec<CallNodeId>,
    /// True for nodes with work of the user's own code ([`CallRuleContext::is_users`]).
    users: Vec<bool>,
    /// True if the program uses a GPU, as far as the tree shows it.
    pub(super) uses_gpu: bool,
    window_ns: u64,
    /// Part of the window in which no sample or operator shows the thread, in ns; 0 if unknown.
    pub(super) blocked_ns: u64,
    /// The same time if it may lie between steps; then it is not part of the window. Else 0.
    pub(super) between_ns: u64,
    /// Excluded excess of first batches over other batches, in ns.
    pub(super) first_batches_ns: u64,
    /// Excluded overhead of recording, as a share of a step without it; none if unknown.
    pub(super) overhead: Option<f64>,
    /// Excluded overhead of recording, in ns.
    pub(super) overhead_ns: u64,
}

impl<'a> CallRuleContext<'a> {
    /// Build the context; `None` without times of any thread, or of the chosen rank.
    pub(super) fn new(tree: &'a CallingContextTree, rank: Option<i64>, settings: &'a Settings) -> Option<Self> {
        let thread = Thread::find(tree, rank)?;
        let id = thread.id;
        // A few short steps may have no sample.
        Self::for_thread(tree, thread, settings)
            .or_else(|| Self::for_thread(tree, Thread::from_rows(tree, id, TimeSource::Operators), settings))
    }

    /// Build the context of one thread: find its steps, and exclude overhead and one-time work; `None` without time in
    /// steps.
    fn for_thread(tree: &'a CallingContextTree, mut thread: Thread, settings: &'a Settings) -> Option<Self> {
        let mut steps = Steps::find(tree, &tree.children(), &thread);
        steps.leave_out_setup_collections(tree);
        let time = |thread: &Thread| steps.select(&thread.own).fold(0_u64, |all, time| all.saturating_add(time.ns));
        let recorded_ns = time(&thread);
        let overhead = thread.leave_out_overhead(tree, &steps);
        let overhead_ns = recorded_ns.saturating_sub(time(&thread));
        thread.add_unsampled(tree);
        let first_batches_ns = thread.leave_out_first_batches(tree);
        let length = thread.measured_length(tree, &steps, overhead);
        thread.fit_waits(&steps, length);
        let sampled_ns = time(&thread);
        if sampled_ns == 0 {
            return None;
        }
        let unseen_ns = thread.blocked_ns(&steps, length, first_batches_ns);
        let (blocked_ns, between_ns) = match thread.may_be_between(tree, &steps, unseen_ns) {
            true => (0, unseen_ns),
            false => (unseen_ns, 0),
        };
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
            window_ns: sampled_ns.saturating_add(blocked_ns),
            blocked_ns,
            between_ns,
            first_batches_ns,
            overhead,
            overhead_ns,
        })
    }

    /// Analyzed time of the thread, in ns.
    pub(super) fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// Number of steps, or 1 without steps: the divisor of totals.
    pub(super) fn steps_or_one(&self) -> u64 {
        self.steps.count.max(1) as u64
    }

    /// Phrases for titles, such as "per step"; without steps, for the whole program.
    pub(super) fn words(&self) -> StepWords {
        StepWords::new(self.steps.count)
    }

    /// Divide a time of all steps, in ns, by the number of steps.
    pub(super) fn per_step(&self, ns: u64) -> i64 {
        i64::try_from(ns / self.steps_or_one()).unwrap_or(i64::MAX)
    }

    /// A time in ns, in percent of the analyzed time.
    pub(super) fn percent(&self, ns: u64) -> f64 {
        (100.0 * ns as f64 / self.window_ns.max(1) as f64).min(100.0)
    }

    /// Value of a rule's setting, as changed by the user or else the default.
    pub(super) fn setting(&self, rule: &Rule, name: &str) -> f64 {
        self.settings.get(rule, name)
    }

    /// Name of a node's frame, as in traces; empty for the root.
    pub(super) fn name(&self, node: CallNodeId) -> &str {
        let frame = self.tree.nodes.frame[node.index()];
        self.names.get(frame.index()).map_or("", String::as_str)
    }

    /// Check if the program uses JAX.
    pub(super) fn uses_jax(&self) -> bool {
        self.tree.strings.iter().any(|text| text.contains("/site-packages/jax/") || text.starts_with("jax/"))
    }

    /// True if the thread's times distinguish waits from computing.
    pub(super) fn knows_waits(&self) -> bool {
        self.thread.known != TimeSource::Operators && self.thread.own.iter().any(|time| time.waits_ns > 0)
    }

    /// Calling-context-tree nodes of the loop that runs the steps, or of the whole thread without steps; no one-time
    /// work.
    pub(super) fn nodes(&self) -> impl Iterator<Item = CallNodeId> {
        self.tree.nodes.ids().skip(1).filter(|node| self.steps.inside[node.index()])
    }

    /// Kind of work of each frame, by a rule's classifier of frame names.
    pub(super) fn kinds(&self, kind_of: KindOf) -> Vec<Option<&'static str>> {
        self.names.iter().map(|name| kind_of(name)).collect()
    }

    /// Kind of work of a node's frame, from the result of [`Self::kinds`]; `None` if the classifier knows no kind.
    pub(super) fn kind_at(&self, kinds: &[Option<&'static str>], node: CallNodeId) -> Option<&'static str> {
        kinds.get(self.tree.nodes.frame[node.index()].index()).copied().flatten()
    }

    /// Frame of the nearest line of the user's own code at or above a node.
    pub(super) fn line(&self, node: CallNodeId) -> FrameId {
        self.tree.nodes.frame.get(self.line_node(node).index()).copied().unwrap_or(FrameId::NONE)
    }

    /// Node of the nearest line of the user's own code at or above a node.
    pub(super) fn line_node(&self, node: CallNodeId) -> CallNodeId {
        self.lines.get(node.index()).copied().unwrap_or(CallingContextTree::ROOT)
    }

    /// Parent of a node; the root is its own parent.
    pub(super) fn caller(&self, node: CallNodeId) -> CallNodeId {
        self.tree.nodes.parent.get(node.index()).and_then(|parent| parent.some()).unwrap_or(CallingContextTree::ROOT)
    }

    /// Check if a node is work of the user. Its innermost Python frame is the user's own, or of a library that the
    /// user's code called and that is no framework.
    pub(super) fn is_users(&self, node: CallNodeId) -> bool {
        self.users.get(node.index()).copied().unwrap_or(false)
    }

    /// Source location (file, line, function) of a line's frame.
    pub(super) fn place(&self, line: FrameId) -> SourceLocation {
        line.some().and_then(|line| self.tree.frames.get(line.index())).map_or_else(SourceLocation::default, |frame| {
            let mut place = SourceLocation::default();
            note_line(&mut place, self.tree, frame);
            place
        })
    }
}

/// Check if a program uses a GPU: it has GPU operations, or the thread on which autograd launches them.
fn uses_gpu(tree: &CallingContextTree) -> bool {
    let is_gpus = |frame: &Frame| matches!(frame.kind(), FrameKind::Runtime | FrameKind::Kernel);
    let mut threads = (0..tree.threads.len()).map(CallThreadId::new);
    tree.frames.iter().any(is_gpus) || threads.any(|thread| is_of_autograd(tree, thread))
}

/// For each node: the nearest node of the user's own code at or above, and a flag for work of the user.
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

/// Set file, line and function of a source location from a Python frame; other frames change nothing.
fn note_line(place: &mut SourceLocation, tree: &CallingContextTree, frame: &Frame) {
    if let Frame::Python { function, file, line, .. } = *frame {
        place.file = Some(tree.strings.get(file).to_owned());
        place.line = (line > 0).then_some(line);
        place.function = Some(tree.strings.get(function).to_owned());
    }
}

/// Source location of a node of a calling context tree: the nearest line of the user's own code at or above it.
/// Includes the innermost module and the outermost operator in between.
#[must_use]
pub fn place_of_call(tree: &CallingContextTree, node: CallNodeId) -> SourceLocation {
    let text = |id| tree.strings.get(id).to_owned();
    let mut place = SourceLocation::default();
    for frame in ancestors_of(tree, node).filter_map(|node| tree.frame(node)) {
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

/// Frame name in the format of torch.profiler, which rules match.
fn name(tree: &CallingContextTree, frame: &Frame) -> String {
    let text = |id| tree.strings.get(id);
    match *frame {
        Frame::Python { function, file, first_line, .. } => {
            format!("{}({first_line}): {}", text(file), text(function))
        }
        _ => frame.name(&tree.strings),
    }
}
