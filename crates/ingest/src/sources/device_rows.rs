//! Rows of devices in traces that say so by the names of processes and threads instead of categories: JAX and TensorFlow
//! (XProf's and TensorFlow 1's timelines), rpd, and Intel's tools. The vocabulary is data.

use stackline_model::{EventKind, Process, StringTable, Trace, Track, TrackKind, TrackTable};

/// What a row of a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Operations of a device, one after another.
    Work,
    /// Operations, unless the device has rows of streams, which then have the same ones.
    WorkWithoutStreams,
    /// What groups operations: steps, modules, scopes. It runs nothing by itself.
    Groups,
    /// Calls of the device's runtime on a thread of the host.
    Calls,
}
use Role::{Calls, Groups, Work, WorkWithoutStreams};

/// A test on the name of a process or thread.
#[derive(Clone, Copy, Debug)]
enum Name {
    Any,
    /// It starts with this.
    Prefix(&'static str),
    /// It starts with this, and only digits follow.
    Numbered(&'static str),
    /// It has both, in this order.
    Parts(&'static str, &'static str),
}
use Name::{Any, Numbered, Parts, Prefix};

impl Name {
    fn matches(self, text: &str) -> bool {
        match self {
            Any => true,
            Prefix(prefix) => text.starts_with(prefix),
            Numbered(prefix) => {
                let rest = text.strip_prefix(prefix).unwrap_or_default();
                !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit())
            }
            Parts(first, second) => text.split_once(first).is_some_and(|(_, rest)| rest.contains(second)),
        }
    }
}

/// Rows by names of process and thread; the first rule that fits counts.
#[rustfmt::skip]
const ROWS: &[(Name, Name, Role)] = &[
    // XProf: JAX, TensorFlow 2, PyTorch/XLA. Rows of streams (GPU) or of cores (TPU), and what is derived from them.
    (Prefix("/device:"), Prefix("Stream #"), Work),
    (Prefix("/device:"), Prefix("XLA Ops"), WorkWithoutStreams),
    (Prefix("/device:"), Prefix("Async XLA Ops"), WorkWithoutStreams),
    (Prefix("/device:"), Numbered("Stream "), Work),
    (Prefix("/device:"), Any, Groups),
    // TensorFlow 1: what ran on streams, beside what was dispatched to the device.
    (Parts("/device:GPU:", "/stream:all"), Any, Groups),
    (Parts("/device:GPU:", "/stream:"), Any, Work),
    (Parts("/device:GPU:", "/memcpy"), Any, Work),
    (Parts("/gpu:", "/stream:all"), Any, Groups),
    (Parts("/gpu:", "/stream:"), Any, Work),
    (Parts("/gpu:", "/memcpy"), Any, Work),
    // rpd (ROCm).
    (Numbered("GPU"), Any, Work),
    (Any, Numbered("Hip "), Calls),
    // Intel: unitrace and onetrace, and XPUs by number.
    (Prefix("DEVICE<"), Any, Work),
    (Numbered("XPU"), Any, Work),
    (Numbered("XPU "), Any, Work),
    (Prefix("XPU:"), Any, Work),
    (Any, Prefix("L0 Queue"), Work),
];

/// Names of operations that copy, and of those that fill; all others are kernels.
const COPIES: &[&str] = &["Memcpy", "MEMCPY", "Copy", "zeCommandListAppendMemoryCopy", "clEnqueueReadBuffer"];
const FILLS: &[&str] = &["Memset", "MEMSET", "Fill", "zeCommandListAppendMemoryFill"];

/// Makes streams of threads whose names say that they are rows of a device, and work of their events. Events whose category
/// says what they are stay that.
pub(super) fn find(trace: &mut Trace) {
    let roles: Vec<Option<Role>> = roles(trace);
    if roles.iter().all(Option::is_none) {
        return;
    }
    let changed: Vec<_> = trace
        .events
        .ids()
        .filter(|e| trace.kind(*e) == EventKind::Other)
        .filter_map(|e| Some((e, kind(roles[trace.events.track[e.index()].index()]?, trace.name(e)))))
        .collect();
    for (event, kind) in changed {
        trace.events.kind[event.index()] = kind;
    }
    let mut tracks = trace.tracks.tracks.clone();
    for (track, role) in tracks.iter_mut().zip(&roles) {
        if !matches!(role, None | Some(Calls)) {
            track.kind = TrackKind::Stream;
        }
    }
    if let Ok(renewed) = TrackTable::from_rows(trace.tracks.processes.clone(), tracks) {
        trace.tracks = renewed;
    }
}

/// What each track is; none for what no rule names, and for tracks with events of known categories.
fn roles(trace: &Trace) -> Vec<Option<Role>> {
    let tracks = &trace.tracks;
    let mut is_plain: Vec<bool> = tracks.tracks.iter().map(|t| t.kind == TrackKind::Thread).collect();
    for track in tracks.tracks.iter().filter(|t| t.kind == TrackKind::Stream) {
        let pid = tracks.processes[track.process.index()].pid;
        if let Some(thread) = tracks.find(pid, track.tid, TrackKind::Thread) {
            is_plain[thread.index()] = false;
        }
    }
    for event in trace.events.ids().filter(|e| !matches!(trace.kind(*e), EventKind::Other | EventKind::Instant)) {
        is_plain[trace.events.track[event.index()].index()] = false;
    }
    let name = |track: &Track| {
        let process = &tracks.processes[track.process.index()];
        (text(&trace.strings, process), track.name.some().map_or("", |id| trace.strings.get(id)))
    };
    let rule = |track: &Track| {
        let (process, thread) = name(track);
        ROWS.iter().find(|(p, t, _)| p.matches(process) && t.matches(thread)).map(|&(.., role)| role)
    };
    let mut roles: Vec<Option<Role>> =
        tracks.tracks.iter().zip(is_plain).map(|(track, is_plain)| rule(track).filter(|_| is_plain)).collect();
    let has_streams: Vec<_> =
        tracks.tracks.iter().zip(&roles).filter(|(_, role)| **role == Some(Work)).map(|(t, _)| t.process).collect();
    for (track, role) in tracks.tracks.iter().zip(&mut roles) {
        if *role == Some(WorkWithoutStreams) {
            *role = Some(if has_streams.contains(&track.process) { Groups } else { Work });
        }
    }
    roles
}

fn text<'t>(strings: &'t StringTable, process: &Process) -> &'t str {
    process.name.some().map_or("", |id| strings.get(id))
}

fn kind(role: Role, name: &str) -> EventKind {
    let starts = |names: &[&str]| names.iter().any(|prefix| name.starts_with(prefix));
    match role {
        Groups => EventKind::GpuAnnotation,
        Calls => EventKind::Runtime,
        _ if starts(COPIES) => EventKind::Memcpy,
        _ if starts(FILLS) => EventKind::Memset,
        _ => EventKind::Kernel,
    }
}

/// The number of a device, if a process is one of these rows by its name.
pub(crate) fn device_number(trace: &Trace, track: &Track) -> Option<i64> {
    let name = text(&trace.strings, &trace.tracks.processes[track.process.index()]);
    let is_device = ROWS.iter().any(|(process, ..)| !matches!(process, Any) && process.matches(name));
    let from = ["/device:", "/gpu:", "GPU", "XPU", "#"].iter().find_map(|part| Some(name.split_once(part)?.1))?;
    let digits = from.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|_| is_device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rows() {
        let role = |process: &str, thread: &str| {
            ROWS.iter().find(|(p, t, _)| p.matches(process) && t.matches(thread)).map(|r| r.2)
        };
        assert_eq!(role("/device:GPU:0", "Stream #13(Compute)"), Some(Work));
        assert_eq!(role("/device:TPU:0", "XLA Ops"), Some(WorkWithoutStreams));
        assert_eq!(role("/device:TPU:0", "Steps"), Some(Groups));
        assert_eq!(role("/host:CPU", "python"), None);
        assert_eq!(role("/job:localhost/replica:0/task:0/device:CPU:0 Compute", ""), None);
        assert_eq!(role("/job:localhost/replica:0/task:0/device:GPU:0/stream:7 Compute", ""), Some(Work));
        assert_eq!(role("GPU2", ""), Some(Work));
        assert_eq!(role("GPU monitor", ""), None);
        assert_eq!(role("", "Hip 1087077"), Some(Calls));
        assert_eq!(kind(Work, "CopyHostToDevice"), EventKind::Memcpy);
        assert_eq!(kind(Work, "fusion.3"), EventKind::Kernel);
    }
}
