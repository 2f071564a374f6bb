//! Grouping of call tree values, such as by thread, rank, phase or operator.

use super::phases::Phases;
use stackline_model::{CallNodeId, CallRole, CallThreadId, CallingContextTree, Frame};

/// Property by which a view groups values, such as thread, phase or operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Threads.
    Thread,
    /// Processes.
    Process,
    /// Ranks of a distributed job.
    Rank,
    /// Compilation, garbage collection, backward, communication, optimizer, and the rest.
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
    /// Name of the group to which a value of a node on a thread belongs.
    pub(super) fn name<'p>(
        self,
        tree: &CallingContextTree,
        node: CallNodeId,
        thread: CallThreadId,
        phases: impl FnOnce() -> &'p Phases,
    ) -> String {
        let found = match self {
            Self::Thread => return thread_name(tree, thread),
            Self::Process => return process_name(tree, thread),
            Self::Rank => process(tree, thread).and_then(|process| Some(format!("rank {}", process.rank?))),
            Self::Phase => return phases().name(tree, node, thread).to_owned(),
            Self::Operator => innermost(tree, node, |frame| {
                matches!(frame, Frame::Operator { .. } | Frame::Backward { .. }).then(|| frame.name(&tree.strings))
            }),
            Self::Shapes => innermost(tree, node, |frame| {
                matches!(frame, Frame::Operator { .. } | Frame::Backward { .. }).then(|| frame.title(&tree.strings))
            }),
            Self::Module => {
                innermost(tree, node, |frame| matches!(frame, Frame::Module { .. }).then(|| frame.name(&tree.strings)))
            }
            Self::Span => {
                innermost(tree, node, |frame| matches!(frame, Frame::Span { .. }).then(|| frame.name(&tree.strings)))
            }
            Self::Function => innermost(tree, node, |frame| match *frame {
                Frame::Python { function, file, .. } => {
                    Some(format!("{} {}", tree.strings.get(function), tree.strings.get(file)))
                }
                _ => None,
            }),
            Self::File => innermost(tree, node, |frame| match *frame {
                Frame::Python { file, .. } => Some(tree.strings.get(file).to_owned()),
                _ => None,
            }),
        };
        found.unwrap_or_else(|| format!("(no {})", self.noun()))
    }

    /// Noun of the grouping, for the name of the group of values without one: `(no module)`.
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

/// First text that `of` gives for a frame of a node's call path, from the innermost frame outwards.
fn innermost(tree: &CallingContextTree, node: CallNodeId, of: impl Fn(&Frame) -> Option<String>) -> Option<String> {
    tree.path(node).into_iter().rev().filter_map(|node| tree.frame(node)).find_map(of)
}

/// Process of a thread; `None` for an unknown thread.
fn process(tree: &CallingContextTree, thread: CallThreadId) -> Option<&stackline_model::CallProcess> {
    tree.processes.get(tree.threads.get(thread.index())?.process.index())
}

/// Group name of a thread: number, name and process; only the name if the thread has no system number.
fn thread_name(tree: &CallingContextTree, thread: CallThreadId) -> String {
    let Some(row) = tree.threads.get(thread.index()) else { return String::new() };
    // Threads of traces have no system number, but a complete name.
    if row.tid == 0 && process(tree, thread).is_none_or(|process| process.pid == 0) {
        return tree.strings.get(row.name).to_owned();
    }
    let title = tree.process_title(row.process);
    let (name, number) = (tree.strings.get(row.name), row.tid.to_string());
    // Names of native threads contain the number.
    if name.split(' ').any(|word| word == number) {
        return format!("{name} of process {title}");
    }
    format!("thread {number} {name} of process {title}")
}

/// Group name of a thread's process, with rank and origin (fork, spawn).
fn process_name(tree: &CallingContextTree, thread: CallThreadId) -> String {
    let (Some(process), Some(row)) = (process(tree, thread), tree.threads.get(thread.index())) else {
        return String::new();
    };
    let role = match process.role {
        CallRole::Main => String::new(),
        CallRole::Fork => format!(", forked from {}", process.parent_pid),
        CallRole::Spawn => format!(", spawned by {}", process.parent_pid),
    };
    let rank = process.rank.map_or_else(String::new, |rank| format!(", rank {rank}"));
    format!("process {}{rank}{role}", tree.process_title(row.process))
}
