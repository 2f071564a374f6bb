//! Track labels: text columns per track, repeated for each of its events.

use stackline_model::{StrId, Trace};

/// Labels of one track: number and name of its process and thread; `None` if the source has none.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    process: Option<String>,
    process_name: Option<String>,
    thread: Option<String>,
    thread_name: Option<String>,
}

/// Text column of the event table: name, and the track label that it contains.
pub(crate) struct TextColumn {
    pub(crate) name: &'static str,
    pub(crate) label_of: fn(&Labels) -> Option<&str>,
}

/// Text columns, in their order in the event table.
pub(crate) const TEXT_COLUMNS: &[TextColumn] = &[
    TextColumn { name: "process", label_of: |l| l.process.as_deref() },
    TextColumn { name: "process_name", label_of: |l| l.process_name.as_deref() },
    TextColumn { name: "thread", label_of: |l| l.thread.as_deref() },
    TextColumn { name: "thread_name", label_of: |l| l.thread_name.as_deref() },
];

/// Labels (process and thread, by number and name) of all tracks of a trace.
pub(crate) fn labels(trace: &Trace) -> Vec<Labels> {
    let key = |k| Some(trace.key_text(k)).filter(|t: &String| !t.is_empty());
    let text = |s: StrId| s.some().map(|s| trace.strings.get(s).to_owned());
    let tracks = trace.tracks.tracks.iter();
    tracks
        .map(|track| {
            let process = trace.tracks.processes.get(track.process.index());
            Labels {
                process: process.and_then(|p| key(p.pid)),
                process_name: process.and_then(|p| text(p.name)),
                thread: key(track.tid),
                thread_name: text(track.name),
            }
        })
        .collect()
}
