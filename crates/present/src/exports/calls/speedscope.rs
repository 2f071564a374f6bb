//! speedscope's own format (<https://www.speedscope.app/file-format-schema.json>): a profile per thread.

use super::{run_title, thread_title, weighted_stacks};
use rustc_hash::FxHashMap;
use serde::Serialize;
use stackline_model::{CallMetric, CallThreadId, CallingContextTree, Frame, Unit};
use std::collections::BTreeMap;
use std::io::{self, Write};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    shared: Shared<'a>,
    profiles: Vec<Profile>,
    name: String,
    active_profile_index: usize,
    exporter: &'static str,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<FrameEntry<'a>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
struct FrameEntry<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    r#type: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

/// Write a speedscope file with a profile for each thread that has measured values, the largest first.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write(tree: &CallingContextTree, metric: CallMetric, out: &mut dyn Write) -> io::Result<()> {
    let unit = match metric.unit() {
        Unit::Ns => "nanoseconds",
        Unit::Bytes => "bytes",
        _ => "none",
    };
    let (frames, shown) = frames(tree);
    let mut threads: BTreeMap<CallThreadId, Profile> = BTreeMap::new();
    for stack in weighted_stacks(tree, metric) {
        let profile = threads.entry(stack.thread).or_insert_with(|| Profile {
            r#type: "sampled",
            name: thread_title(tree, stack.thread),
            unit,
            start_value: 0,
            end_value: 0,
            samples: Vec::new(),
            weights: Vec::new(),
        });
        let frames = tree.path(stack.node).into_iter().map(|node| shown[tree.nodes.frame[node.index()].index()]);
        profile.samples.push(frames.collect());
        profile.weights.push(stack.stats.sum);
        profile.end_value = profile.end_value.saturating_add(stack.stats.sum);
    }
    let mut profiles: Vec<Profile> = threads.into_values().collect();
    profiles.sort_by_key(|profile| std::cmp::Reverse(profile.end_value));
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        shared: Shared { frames },
        profiles,
        name: run_title(tree),
        active_profile_index: 0,
        exporter: concat!("stackline ", env!("CARGO_PKG_VERSION")),
    };
    serde_json::to_writer(&mut *out, &file)?;
    out.write_all(b"\n")
}

/// List of distinct frames for the file, and the index into the list for each frame of the tree. Frames of a native
/// function at different addresses can be one entry.
fn frames(tree: &CallingContextTree) -> (Vec<FrameEntry<'_>>, Vec<u32>) {
    let mut frames = Vec::new();
    let mut ids: FxHashMap<FrameEntry<'_>, u32> = FxHashMap::default();
    let id = |frame: &Frame| {
        let shown = FrameEntry {
            name: frame.title(&tree.strings),
            file: frame.file().map(|file| tree.strings.get(file)),
            line: frame.line(),
        };
        let next = frames.len() as u32;
        let id = *ids.entry(shown.clone()).or_insert(next);
        if id == next {
            frames.push(shown);
        }
        id
    };
    let shown = tree.frames.iter().map(id).collect();
    (frames, shown)
}
