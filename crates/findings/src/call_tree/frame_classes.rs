//! Division of a thread's time among rules by frame names: loading, preprocessing, garbage collection, compiling,
//! logging, waiting.

use super::call_rule_context::{ByLine, CallRuleContext, KindOf};
use super::thread::{Time, outermost};
use crate::Rule;
use crate::rules::{
    copy_chains, dataloader_starved, garbage_collection, host_waits, logging_in_step, preprocessing, recompilation,
};
use stackline_model::names::is_recompilation;
use stackline_model::{CallNodeId, FrameId};

/// Classifiers of frames by rule. The first one that matches a frame gets its inclusive time.
const CLASSIFIERS: [(&Rule, KindOf); 7] = [
    (&recompilation::RULE, |name| is_recompilation(name).then_some("recompilation")),
    (&dataloader_starved::RULE, |name| dataloader_starved::takes_batch(name).then_some("loading")),
    (&garbage_collection::RULE, |name| garbage_collection::is_collection(name).then_some("collection")),
    (&logging_in_step::RULE, logging_in_step::kind_of),
    (&copy_chains::RULE, |name| copy_chains::is_deep_frame(name).then_some(copy_chains::DEEP)),
    (&preprocessing::RULE, preprocessing::kind_anywhere),
    (&host_waits::RULE, host_waits::kind_of),
];

/// Possible causes of a wait, if no frame names the cause.
pub(super) const UNNAMED_WAIT: &str = "a file, the network, a lock, or time.sleep";

/// Division of a thread's time among rules by frame names: time by rule and line, and the rule of each node.
pub(super) struct FrameClasses {
    found: Vec<(&'static Rule, ByLine)>,
    /// Preprocessing during data loading: part of the loading time.
    loader_preprocessing: ByLine,
    /// For each node: its rule, and the line of the finding.
    rules: Vec<Option<(&'static Rule, FrameId)>>,
}

impl FrameClasses {
    /// Assign the time of each node to the rule of its outermost classified frame; waits of other user code go to
    /// SL039.
    pub(super) fn new(context: &CallRuleContext<'_>) -> Self {
        let tables: Vec<_> = CLASSIFIERS.iter().map(|&(rule, kind_of)| (rule, context.kinds(kind_of))).collect();
        let which = |node| {
            let at = |(at, (_, kinds)): (usize, &(&Rule, Vec<Option<&'static str>>))| {
                Some((at, context.kind_at(kinds, node)?))
            };
            tables.iter().enumerate().find_map(at)
        };
        let outermost = outermost(context.tree, which);
        let mut found: Vec<(&'static Rule, ByLine)> =
            CLASSIFIERS.iter().map(|&(rule, _)| (rule, ByLine::new())).collect();
        let mut rules = vec![None; context.tree.nodes.len()];
        for node in context.nodes() {
            let own = context.thread.own[node.index()];
            if let Some((top, (rule, kind))) = outermost[node.index()] {
                rules[node.index()] = Some((found[rule].0, context.line(top)));
                add(context, &mut found[rule].1, (kind, top, node), own);
            } else if own.waits_ns > 0 && !context.in_operator[node.index()] && context.is_users(node) {
                // Computation of the same line is not a wait.
                add(context, &mut found[WAITS].1, (UNNAMED_WAIT, node, node), own.waiting());
            }
        }
        let is_loading = |node: CallNodeId| matches!(outermost[node.index()], Some((_, (LOADING, _))));
        let loader_preprocessing = loader_preprocessing(context, is_loading);
        Self { found, loader_preprocessing, rules }
    }

    /// Rules, each with its time by line and kind of work.
    pub(super) fn by_rule(&self) -> impl Iterator<Item = (&'static Rule, &ByLine)> {
        self.found.iter().map(|(rule, found)| (*rule, found))
    }

    /// Time of preprocessing functions during data loading, by line and kind of work.
    pub(super) fn loader_preprocessing(&self) -> &ByLine {
        &self.loader_preprocessing
    }

    /// Check if frame names assign a node's time to a rule.
    pub(super) fn is_classified(&self, node: CallNodeId) -> bool {
        self.rule_of(node).is_some()
    }

    /// Rule to which a node's time belongs, and the line of its finding.
    pub(super) fn rule_of(&self, node: CallNodeId) -> Option<(&'static Rule, FrameId)> {
        self.rules.get(node.index()).copied().flatten()
    }
}

/// Index of loading in the classifiers.
const LOADING: usize = 1;
/// Index of waits in the classifiers.
const WAITS: usize = CLASSIFIERS.len() - 1;

/// Add a node's own time to its kind of work, at the line of its outermost frame of this kind (`top`).
fn add(
    context: &CallRuleContext<'_>,
    found: &mut ByLine,
    (kind, top, node): (&'static str, CallNodeId, CallNodeId),
    own: Time,
) {
    let seen = found.entry((context.line(top), kind)).or_default();
    seen.time.add(own);
    if node == top {
        seen.nodes.push(top);
    }
}

/// Time of preprocessing functions during data loading, by kind and line.
fn loader_preprocessing(context: &CallRuleContext<'_>, is_loading: impl Fn(CallNodeId) -> bool) -> ByLine {
    let kinds = context.kinds(preprocessing::kind_of);
    let outermost = outermost(context.tree, |node| context.kind_at(&kinds, node).filter(|_| is_loading(node)));
    let mut found = ByLine::new();
    for node in context.nodes() {
        if let Some((top, kind)) = outermost[node.index()] {
            add(context, &mut found, (kind, top, node), context.thread.own[node.index()]);
        }
    }
    found
}
