//! Symbolization of a recording's native frames: library offsets become functions, with separate frames for inlined
//! ones.

use stackline_ingest::diagnostics::{self, LibraryProblem};
use stackline_model::{CONTENT, CallNodes, CallingContextTree, Frame, FrameId, StrId};
use stackline_symbols::{Frame as NamedFrame, Library, State, Symbolizer};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Symbolize the native frames of a calling context tree. Each library is queried once; failures are added to the read
/// report.
pub(crate) fn symbolize(mut tree: CallingContextTree, symbolizer: &Symbolizer) -> CallingContextTree {
    // Libraries are sorted by text, so that the order of streams has no effect.
    let mut libraries: BTreeMap<(String, String), Vec<(u64, usize)>> = BTreeMap::new();
    for (at, frame) in tree.frames.iter().enumerate() {
        if let Frame::Native { library, build_id, offset, function, .. } = *frame
            && function.is_none()
        {
            let text = |id: StrId| tree.strings.get(id).to_owned();
            libraries.entry((text(library), text(build_id))).or_default().push((offset, at));
        }
    }
    if libraries.is_empty() {
        return tree;
    }
    let mut chains: Vec<Vec<NamedFrame>> = vec![Vec::new(); tree.frames.len()];
    for ((path, known_by), frames) in libraries {
        let offsets: Vec<u64> = frames.iter().map(|frame| frame.0).collect();
        let names = symbolizer.names(&library(&path, &known_by), &offsets);
        let named = names.frames.iter().any(|chain| !chain.is_empty());
        // Names may still come from a debug file of the same build.
        if let Some(problem) = problem(names.state).filter(|_| !named) {
            diagnostics::count_library(&mut tree.report, problem, &path);
        }
        for ((_, at), chain) in frames.into_iter().zip(names.frames) {
            chains[at] = chain;
        }
    }
    tree.report.sort();
    with_inlined_frames(tree, &chains)
}

/// Library with its path, and its build ID or content hash as parsed from the text in a frame.
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

/// Problem to report for the state of a library's file; `None` if the file is unchanged, or if there is none.
fn problem(state: State) -> Option<LibraryProblem> {
    match state {
        State::Same | State::NoFile => None,
        State::Changed => Some(LibraryProblem::Changed),
        State::Missing => Some(LibraryProblem::Missing),
        State::Unknown => Some(LibraryProblem::Unknown),
        State::Unreadable => Some(LibraryProblem::Unreadable),
    }
}

/// Replace each native frame by its frames in `chains`, outer function first, then the functions inlined in it. The
/// order of rows, and thus the tree's invariants, remain.
fn with_inlined_frames(mut tree: CallingContextTree, chains: &[Vec<NamedFrame>]) -> CallingContextTree {
    let mut frames: Vec<Frame> = Vec::with_capacity(tree.frames.len());
    let mut new_frames: Vec<std::ops::Range<usize>> = Vec::with_capacity(tree.frames.len());
    for (frame, chain) in std::mem::take(&mut tree.frames).iter().zip(chains) {
        let first = frames.len();
        match *frame {
            Frame::Native { library, build_id, offset, .. } if !chain.is_empty() => {
                for (inlined, found) in (0..).zip(chain) {
                    let mut text = |text: &str| if text.is_empty() { StrId::NONE } else { tree.strings.intern(text) };
                    // Without a name it would look like the offset.
                    let name = if found.function.is_empty() { "(inlined)" } else { &found.function };
                    let (function, file, line) = (text(name), text(&found.file), found.line);
                    frames.push(Frame::Native { library, build_id, offset, function, file, line, inlined });
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
            nodes.frame.push(FrameId::new(at));
            above = stackline_model::CallNodeId::new(nodes.len() - 1);
        }
        new_nodes.push(above);
    }
    for node in &mut tree.metrics.node {
        *node = new_nodes[node.index()];
    }
    CallingContextTree { frames: frames.into(), nodes, ..tree }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{library, symbolize, with_inlined_frames};
    use stackline_model::{
        CallMetric, CallProcess, CallStats, CallThread, CallingContextTree, CallingContextTreeBuilder, Frame, StrId,
    };
    use stackline_symbols::{Frame as NamedFrame, Symbolizer};

    /// Tree with paths of offsets in two libraries, each with the value 1.
    fn tree(paths: &[&[(&str, u64)]]) -> CallingContextTree {
        let mut builder = CallingContextTreeBuilder::new();
        let process = builder.process(CallProcess::default());
        let thread = builder.thread(CallThread { process, tid: 1, torch_id: 0, name: StrId::NONE });
        for path in paths {
            let mut node = CallingContextTree::ROOT;
            for &(path, offset) in *path {
                let (path, build_id) = (builder.text(path), builder.text("ab12"));
                let frame = builder.frame(Frame::native(path, build_id, offset));
                node = builder.child(node, frame);
            }
            builder.add(node, thread, CallMetric::CpuTime, &CallStats::from_value(1));
        }
        builder.finish()
    }

    fn paths(tree: &CallingContextTree) -> Vec<String> {
        let name = |node| tree.frame(node).unwrap().name(&tree.strings);
        let text = |node| tree.path(node).into_iter().map(name).collect::<Vec<_>>().join(" ");
        tree.metrics.iter().map(|row| format!("{} {}", text(row.0), row.3.sum)).collect()
    }

    fn function(name: &str, line: u32) -> NamedFrame {
        NamedFrame { function: name.to_owned(), file: "a.c".to_owned(), line }
    }

    #[test]
    fn inlined_functions_are_separate_frames() {
        let tree = tree(&[&[("x.so", 1)], &[("x.so", 1), ("x.so", 2)], &[("x.so", 3), ("x.so", 1)], &[("y.so", 1)]]);
        let frames = [Frame::native(StrId(0), StrId(1), 0); 4];
        assert_eq!(tree.frames.len(), frames.len());
        let chains = [vec![function("f", 7), function("g", 8)], vec![function("h", 9)], Vec::new(), Vec::new()];
        let named = with_inlined_frames(tree, &chains);
        named.check().unwrap();
        assert_eq!(paths(&named), ["f g 1", "f g h 1", "x.so+0x3 f g 1", "y.so+0x1 1"]);
        let lines: Vec<_> = named.frames.iter().map(|frame| (frame.line(), frame.file().is_some())).collect();
        assert_eq!(lines, [(Some(7), true), (Some(8), true), (Some(9), true), (None, true), (None, true)]);
        let depths: Vec<u32> = named
            .frames
            .iter()
            .map(|frame| if let Frame::Native { inlined, .. } = frame { *inlined } else { u32::MAX })
            .collect();
        assert_eq!(depths, [0, 1, 0, 0, 0]);
    }

    #[test]
    fn missing_libraries_are_counted_once() {
        let before = tree(&[&[("/nowhere/x.so", 1), ("/nowhere/x.so", 2)], &[("linux-vdso.so.1", 1)]]);
        let after = symbolize(before.clone(), &Symbolizer::with_debug_folders(Vec::new()));
        assert_eq!(paths(&after), paths(&before));
        let problems: Vec<_> =
            after.report.problems.iter().map(|p| (p.code.as_str(), p.count, p.example.as_str())).collect();
        assert_eq!(problems, [("library_missing", 1, "/nowhere/x.so")]);
    }

    #[test]
    fn library_identities_are_read() {
        assert_eq!(library("/a", "0aff").build_id, [10, 255]);
        assert_eq!(library("/a", "content:00000000000000ff").content, Some(255));
        for odd in ["", "abc", "zz", "content:", "content:xyz", "é"] {
            assert_eq!((library("/a", odd).content, library("/a", odd).build_id.len() < 2), (None, true), "{odd}");
        }
    }
}
