//! Names of the native frames of a recording: from libraries and offsets to functions, those that are inlined into each
//! other as frames of their own.

use stackline_ingest::problems::{self, LibraryProblem};
use stackline_model::{CONTENT, CallFrame, CallFrameId, CallNodes, CallTree, StrId};
use stackline_symbols::{Frame, Library, State, Symbolizer};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The same tree with native frames named. Each library is asked once; what keeps one from being asked is in the read
/// report.
pub(crate) fn named(mut tree: CallTree, symbolizer: &Symbolizer) -> CallTree {
    // Frames by the text of their library, so that nothing depends on the order of streams.
    let mut libraries: BTreeMap<(String, String), Vec<(u64, usize)>> = BTreeMap::new();
    for (at, frame) in tree.frames.iter().enumerate() {
        if let CallFrame::Native { library, build_id, offset, function, .. } = *frame
            && function.is_none()
        {
            let text = |id: StrId| tree.strings.get(id).to_owned();
            libraries.entry((text(library), text(build_id))).or_default().push((offset, at));
        }
    }
    if libraries.is_empty() {
        return tree;
    }
    let mut chains: Vec<Vec<Frame>> = vec![Vec::new(); tree.frames.len()];
    for ((path, known_by), frames) in libraries {
        let offsets: Vec<u64> = frames.iter().map(|frame| frame.0).collect();
        let names = symbolizer.names(&library(&path, &known_by), &offsets);
        let named = names.frames.iter().any(|chain| !chain.is_empty());
        // Whoever has names has them from a debug file of the same build.
        if let Some(problem) = problem(names.state).filter(|_| !named) {
            problems::count_library(&mut tree.report, problem, &path);
        }
        for ((_, at), chain) in frames.into_iter().zip(names.frames) {
            chains[at] = chain;
        }
    }
    tree.report.sort();
    expanded(tree, &chains)
}

fn library(path: &str, known_by: &str) -> Library {
    let content = known_by.strip_prefix(CONTENT);
    let digits = if content.is_some() { "" } else { known_by };
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    Library {
        path: PathBuf::from(path),
        build_id: (0..digits.len()).step_by(2).map_while(byte).collect(),
        content: content.and_then(|hash| u64::from_str_radix(hash, 16).ok()),
    }
}

fn problem(state: State) -> Option<LibraryProblem> {
    match state {
        State::Same | State::NoFile => None,
        State::Changed => Some(LibraryProblem::Changed),
        State::Missing => Some(LibraryProblem::Missing),
        State::Unknown => Some(LibraryProblem::Unknown),
        State::Unreadable => Some(LibraryProblem::Unreadable),
    }
}

/// Puts a chain of frames in place of each that has one. Rows keep their order, and with it what the tree promises.
fn expanded(mut tree: CallTree, chains: &[Vec<Frame>]) -> CallTree {
    let mut frames: Vec<CallFrame> = Vec::with_capacity(tree.frames.len());
    let mut new_frames: Vec<std::ops::Range<usize>> = Vec::with_capacity(tree.frames.len());
    for (frame, chain) in std::mem::take(&mut tree.frames).into_iter().zip(chains) {
        let first = frames.len();
        match frame {
            CallFrame::Native { library, build_id, offset, .. } if !chain.is_empty() => {
                for (inlined, found) in (0..).zip(chain) {
                    let mut text = |text: &str| if text.is_empty() { StrId::NONE } else { tree.strings.intern(text) };
                    // Without a name it would look like the offset again.
                    let name = if found.function.is_empty() { "(inlined)" } else { &found.function };
                    let (function, file, line) = (text(name), text(&found.file), found.line);
                    frames.push(CallFrame::Native { library, build_id, offset, function, file, line, inlined });
                }
            }
            other => frames.push(other),
        }
        new_frames.push(first..frames.len());
    }
    let old = std::mem::take(&mut tree.nodes);
    let mut nodes = CallNodes { parent: Vec::with_capacity(old.len()), frame: Vec::with_capacity(old.len()) };
    let mut new_nodes = Vec::with_capacity(old.len());
    for (parent, frame) in old.parent.into_iter().zip(old.frame) {
        let mut above = if parent.is_some() { new_nodes[parent.index()] } else { parent };
        let chain = if frame.is_some() { new_frames[frame.index()].clone() } else { 0..0 };
        if chain.is_empty() {
            nodes.parent.push(above);
            nodes.frame.push(frame);
            above = stackline_model::CallNodeId::new(nodes.len() - 1);
        }
        for at in chain {
            nodes.parent.push(above);
            nodes.frame.push(CallFrameId::new(at));
            above = stackline_model::CallNodeId::new(nodes.len() - 1);
        }
        new_nodes.push(above);
    }
    for node in &mut tree.metrics.node {
        *node = new_nodes[node.index()];
    }
    CallTree { frames, nodes, ..tree }
}
