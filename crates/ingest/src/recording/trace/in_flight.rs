//! End of a stream's process: calls that were running when it was killed, and dropped records of calls.

use super::Ends;
use super::calls::{Calls, ThreadCalls};
use crate::diagnostics;
use crate::recording::missing_records::sentence;
use stackline_model::{ReadReport, thread_words};
use stackline_recording::FrameKey;

/// Count how the process of a decoded stream ended, and its dropped records of calls. `ends` decides if a process
/// without an end was killed.
pub(super) fn note_end(calls: &mut Calls, stream: &str, report: &mut ReadReport, ends: &Ends) {
    if !calls.ended {
        calls.killed = ends.note(stream, calls.process.pid, report);
        if calls.killed {
            note(calls, stream, report, ends);
        }
    }
    for (what, count) in calls.lost.iter().filter(|(what, _)| is_of_calls(what)) {
        diagnostics::NOT_RECORDED.count_many(report, *count, None, &format!("{stream}: {}", sentence(what)));
    }
}

/// Check if a kind of dropped records belongs to calls, which a trace shows.
fn is_of_calls(what: &str) -> bool {
    ["calls_", "samples_", "threads_"].iter().any(|prefix| what.starts_with(prefix))
}

/// Count the calls that never returned, with their callers as example.
fn note(calls: &Calls, stream: &str, report: &mut ReadReport, ends: &Ends) {
    let lasted_ns = ends.lasted_ns(calls.process.pid, calls.process.start_unix_ns);
    calls.last_seen.note(stream, report, lasted_ns, |(thread, node)| {
        let thread = calls.threads.get(thread as usize)?;
        let described = &thread.thread;
        Some((described.tid, thread_words(&described.name, described.tid), path_text(calls, thread, node)))
    });
}

/// Frames of a call-tree node and its callers as text, innermost first.
fn path_text(calls: &Calls, thread: &ThreadCalls, node: u32) -> Vec<String> {
    let parent = |&node: &u32| thread.nodes.get(node as usize).map(|&(parent, _)| parent);
    let up = |node: &u32| parent(node).filter(|&parent| parent != 0 && parent < *node);
    let frames = std::iter::successors(Some(node), up).filter_map(|node| thread.nodes.get(node as usize));
    frames.filter_map(|&(_, frame)| calls.frames.get(frame as usize)).map(|frame| words(calls, frame)).collect()
}

/// Text of a frame: function with file and line, name of an operator, span or module, or address of native code.
fn words(calls: &Calls, frame: &FrameKey) -> String {
    match *frame {
        FrameKey::Python { function, file, line, .. } => {
            format!("{} ({}:{line})", calls.text(function), calls.text(file))
        }
        FrameKey::Operator { name }
        | FrameKey::Backward { name }
        | FrameKey::Span { name }
        | FrameKey::FoldedSpan { name }
        | FrameKey::ShapedOperator { name, .. }
        | FrameKey::ShapedBackward { name, .. } => calls.text(name).to_owned(),
        FrameKey::Module { path, .. } => calls.text(path).to_owned(),
        FrameKey::Native { library, offset } => {
            let path = calls.libraries.get(library as usize).map_or("", |&path| calls.text(path));
            format!("{path}+{offset:#x}")
        }
        FrameKey::Unmapped { address } => format!("{address:#x}"),
        _ => "(calls merged: the call tree was full)".to_owned(),
    }
}
