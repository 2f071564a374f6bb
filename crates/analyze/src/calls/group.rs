//! What values can be split by.

use stackline_model::names::{COLLECTION, is_compilation};
use stackline_model::{CallFrame, CallNodeId, CallRole, CallThreadId, CallTree};

/// What to split values by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Threads.
    Thread,
    /// Processes.
    Process,
    /// Ranks of a distributed job.
    Rank,
    /// Compilation, backward, optimizer, and the rest.
    Phase,
    /// The innermost operator.
    Operator,
    /// The innermost operator with the shapes and types of its inputs.
    Shapes,
    /// The innermost module.
    Module,
    /// The innermost span.
    Span,
    /// The innermost Python function.
    Function,
    /// The file of the innermost Python function.
    File,
}

impl Grouping {
    /// The group that a value at a node, from a thread, belongs to.
    pub(super) fn name(self, tree: &CallTree, node: CallNodeId, thread: CallThreadId) -> String {
        let found = match self {
            Self::Thread => return thread_name(tree, thread),
            Self::Process => return process_name(tree, thread),
            Self::Rank => process(tree, thread).and_then(|process| Some(format!("rank {}", process.rank?))),
            Self::Phase => return phase(tree, node).to_owned(),
            Self::Operator => innermost(tree, node, |frame| {
                matches!(frame, CallFrame::Operator { .. } | CallFrame::Backward { .. })
                    .then(|| frame.name(&tree.strings))
            }),
            Self::Shapes => innermost(tree, node, |frame| {
                matches!(frame, CallFrame::Operator { .. } | CallFrame::Backward { .. })
                    .then(|| frame.title(&tree.strings))
            }),
            Self::Module => innermost(tree, node, |frame| {
                matches!(frame, CallFrame::Module { .. }).then(|| frame.name(&tree.strings))
            }),
            Self::Span => innermost(tree, node, |frame| {
                matches!(frame, CallFrame::Span { .. }).then(|| frame.name(&tree.strings))
            }),
            Self::Function => innermost(tree, node, |frame| match *frame {
                CallFrame::Python { function, file, .. } => {
                    Some(format!("{} {}", tree.strings.get(function), tree.strings.get(file)))
                }
                _ => None,
            }),
            Self::File => innermost(tree, node, |frame| match *frame {
                CallFrame::Python { file, .. } => Some(tree.strings.get(file).to_owned()),
                _ => None,
            }),
        };
        found.unwrap_or_else(|| format!("(no {})", self.noun()))
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Process => "process",
            Self::Rank => "rank",
            Self::Phase => "phase",
            Self::Operator | Self::Shapes => "operator",
            Self::Module => "module",
            Self::Span => "span",
            Self::Function | Self::File => "Python frame",
        }
    }
}

fn innermost(tree: &CallTree, node: CallNodeId, of: impl Fn(&CallFrame) -> Option<String>) -> Option<String> {
    tree.path(node).into_iter().rev().filter_map(|node| tree.frame(node)).find_map(of)
}

fn phase(tree: &CallTree, node: CallNodeId) -> &'static str {
    let mut phase = "forward and other";
    for frame in tree.path(node).into_iter().filter_map(|node| tree.frame(node)) {
        match *frame {
            // Also of the backward graph, which is compiled when it runs first.
            CallFrame::Span { name } if is_compilation(tree.strings.get(name)) => return "compilation",
            CallFrame::Span { name } if tree.strings.get(name) == COLLECTION => return "garbage collection",
            CallFrame::Backward { .. } => phase = "backward",
            CallFrame::Span { name } if phase != "backward" && tree.strings.get(name).starts_with("Optimizer.") => {
                phase = "optimizer";
            }
            _ => {}
        }
    }
    phase
}

fn process(tree: &CallTree, thread: CallThreadId) -> Option<&stackline_model::CallProcess> {
    tree.processes.get(tree.threads.get(thread.index())?.process.index())
}

fn thread_name(tree: &CallTree, thread: CallThreadId) -> String {
    let Some(row) = tree.threads.get(thread.index()) else { return String::new() };
    // Those of a trace have no number of the system's, but a name that says all.
    if row.tid == 0 && process(tree, thread).is_none_or(|process| process.pid == 0) {
        return tree.strings.get(row.name).to_owned();
    }
    let pid = process(tree, thread).map_or(0, |process| process.pid);
    format!("thread {} {} of process {pid}", row.tid, tree.strings.get(row.name))
}

fn process_name(tree: &CallTree, thread: CallThreadId) -> String {
    let Some(process) = process(tree, thread) else { return String::new() };
    let role = match process.role {
        CallRole::Main => String::new(),
        CallRole::Fork => format!(", forked from {}", process.parent_pid),
        CallRole::Spawn => format!(", spawned by {}", process.parent_pid),
    };
    let rank = process.rank.map_or_else(String::new, |rank| format!(", rank {rank}"));
    format!("process {}{rank}{role}", process.pid)
}
