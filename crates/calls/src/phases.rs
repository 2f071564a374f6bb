//! Phase of training of each node of a calling context tree, for `--by phase`.

use super::index::frame_phase;
use stackline_model::names::{COLLECTION, is_compilation};
use stackline_model::{CallNodeId, CallThreadId, CallingContextTree, Frame};
use stackline_timeline::phase_rules::{Phase, PhaseRules};
use stackline_timeline::vocabulary::autograd::is_device_thread;

const COMPILATION: &str = "compilation";
const GARBAGE_COLLECTION: &str = "garbage collection";
const BACKWARD: &str = "backward";
const COMMUNICATION: &str = "communication";
const OPTIMIZER: &str = "optimizer";
const OTHER: &str = "forward pass and other work";

/// Training phase of each node of a calling context tree.
#[derive(Debug)]
pub(super) struct Phases(Vec<&'static str>);

impl Phases {
    /// Compute the training phases of all nodes of a tree.
    pub(super) fn new(tree: &CallingContextTree) -> Self {
        let rules = PhaseRules::default();
        let of_frame: Vec<Option<&str>> = tree.frames.iter().map(|frame| phase_of_frame(tree, &rules, frame)).collect();
        let mut phases = vec![OTHER; tree.nodes.len()];
        // Parents have smaller numbers than their children.
        for node in 1..phases.len() {
            let own = of_frame.get(tree.nodes.frame[node].index()).copied().flatten();
            let outer = phases[tree.nodes.parent[node].index()];
            phases[node] = own.map_or(outer, |own| nested_phase(own, outer));
        }
        Self(phases)
    }

    /// Name of the training phase of a value, by its node; values without a phase on an autograd thread are backward.
    pub(super) fn name(&self, tree: &CallingContextTree, node: CallNodeId, thread: CallThreadId) -> &'static str {
        let phase = self.0.get(node.index()).copied().unwrap_or(OTHER);
        let is_autograd = || {
            let name = tree.threads.get(thread.index()).map(|thread| tree.strings.get(thread.name));
            name.is_some_and(is_device_thread)
        };
        if phase == OTHER && is_autograd() { BACKWARD } else { phase }
    }
}

/// Training phase of a frame whose own phase is `own` and whose caller is in phase `outer`.
fn nested_phase(own: &'static str, outer: &'static str) -> &'static str {
    match (own, outer) {
        // Includes the backward graph, which is compiled at its first run.
        (_, COMPILATION | GARBAGE_COLLECTION) => outer,
        // An optimizer that runs in hooks of the backward pass.
        (OPTIMIZER, BACKWARD) => outer,
        _ => own,
    }
}

/// Phase by a frame's own name, with the phase rules (`crates/timeline/src/phase_rules.json`); `None` if the caller's
/// phase counts.
fn phase_of_frame(tree: &CallingContextTree, rules: &PhaseRules, frame: &Frame) -> Option<&'static str> {
    let phase = match *frame {
        Frame::Span { name } => match tree.strings.get(name) {
            span if is_compilation(span) => return Some(COMPILATION),
            COLLECTION => return Some(GARBAGE_COLLECTION),
            // A closure of the optimizer's step is not part of the optimizer.
            span => match rules.rule_for_library_name(span)? {
                rule if rule.in_closure => return Some(OTHER),
                rule => rule.phase,
            },
        },
        _ => frame_phase(tree, rules, frame).phase()?,
    };
    match phase {
        Phase::Backward => Some(BACKWARD),
        Phase::Communication => Some(COMMUNICATION),
        Phase::Update => Some(OPTIMIZER),
        Phase::DataLoad | Phase::Forward | Phase::Loss | Phase::Other => None,
    }
}
