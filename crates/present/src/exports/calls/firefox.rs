//! Processed format of the Firefox Profiler: a track per thread. Since a tree has no timestamps, stacks follow one
//! another, each once with its weight as duration. The call tree and flame graph there equal those of Stackline.

use super::{WeightedStack, run_title, title, weighted_stacks};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame as FirefoxFrame, FrameFlags, FrameInfo, Profile, ReferenceTimestamp,
    SamplingInterval, ThreadHandle, Timestamp, WeightType,
};
use serde_json::{Value, json};
use stackline_model::{CallMetric, CallThreadId, CallingContextTree, FrameKind, Unit};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

/// Write a Firefox Profiler profile with a track for each thread that has measured values.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write(tree: &CallingContextTree, metric: CallMetric, out: &mut dyn Write) -> io::Result<()> {
    let start = tree.processes.first().map_or(0, |process| process.start_unix_ns);
    let start = Duration::from_nanos(u64::try_from(start).unwrap_or(0));
    let reference = ReferenceTimestamp::from_duration_since_unix_epoch(start);
    let mut profile = Profile::new(&run_title(tree), reference, SamplingInterval::from_millis(1));
    profile.set_product(&format!("{}: {}", run_title(tree), metric.title(&tree.strings)));
    let categories = categories(&mut profile);
    let mut threads: BTreeMap<CallThreadId, Vec<WeightedStack>> = BTreeMap::new();
    for stack in weighted_stacks(tree, metric) {
        threads.entry(stack.thread).or_default().push(stack);
    }
    let begin = Timestamp::from_nanos_since_reference(0);
    let mut processes = BTreeMap::new();
    let mut weights: Vec<Vec<u64>> = Vec::new();
    for (id, stacks) in threads {
        let Some(row) = tree.threads.get(id.index()) else { continue };
        let Some(described) = tree.processes.get(row.process.index()) else { continue };
        let first = !processes.contains_key(&row.process);
        let name = described.rank.map_or_else(|| described.command.join(" "), |rank| format!("rank {rank}"));
        let process = *processes.entry(row.process).or_insert_with(|| profile.add_process(&name, described.pid, begin));
        let thread = profile.add_thread(process, row.tid, begin, first);
        profile.set_thread_name(thread, tree.strings.get(row.name));
        profile.set_thread_samples_weight_type(
            thread,
            match metric.unit() {
                Unit::Ns => WeightType::TracingMs,
                Unit::Bytes => WeightType::Bytes,
                _ => WeightType::Samples,
            },
        );
        add(&mut profile, thread, tree, metric, &stacks, &categories);
        weights.push(stacks.iter().map(|stack| stack.stats.sum).collect());
    }
    let mut document = serde_json::to_value(&profile)?;
    set_weights(&mut document, metric, &weights);
    serde_json::to_writer(&mut *out, &document)?;
    out.write_all(b"\n")
}

fn categories(profile: &mut Profile) -> BTreeMap<FrameKind, CategoryHandle> {
    use FrameKind::{Backward, Module, Native, Operator, Python, Span};
    let mut add = |kind: FrameKind, name, color| (kind, profile.add_category(name, color));
    [
        add(Python, "Python", CategoryColor::Yellow),
        add(Operator, "Operator", CategoryColor::Blue),
        add(Backward, "Backward", CategoryColor::Purple),
        add(Span, "Span", CategoryColor::Green),
        add(Module, "Module", CategoryColor::Orange),
        add(Native, "Native", CategoryColor::DarkGray),
    ]
    .into()
}

/// Add the stacks of one thread to the profile as samples, one after another in time. Weights are set later.
fn add(
    profile: &mut Profile,
    thread: ThreadHandle,
    tree: &CallingContextTree,
    metric: CallMetric,
    stacks: &[WeightedStack],
    categories: &BTreeMap<FrameKind, CategoryHandle>,
) {
    let mut at = 0_u64;
    for stack in stacks {
        let mut handle = None;
        for node in tree.path(stack.node) {
            let Some(frame) = tree.frame(node) else { continue };
            let name = profile.intern_string(&title(tree, frame));
            let category = categories.get(&frame.kind()).copied().unwrap_or(CategoryHandle::OTHER);
            let info = FrameInfo {
                frame: FirefoxFrame::Label(name),
                category_pair: category.into(),
                flags: FrameFlags::empty(),
            };
            let frame = profile.intern_frame(thread, info);
            handle = Some(profile.intern_stack(thread, handle, frame));
        }
        let time = Timestamp::from_nanos_since_reference(at);
        // The weight is set later: there it may have a fraction.
        profile.add_sample(thread, time, handle, CpuDelta::ZERO, 1);
        at = at.saturating_add(if metric.unit() == Unit::Ns { stack.stats.sum } else { 1_000_000 });
    }
}

/// Replace the sample weights in the profile's JSON, with times as fractional ms. The library writes integers only.
fn set_weights(document: &mut Value, metric: CallMetric, weights: &[Vec<u64>]) {
    let Some(threads) = document.get_mut("threads").and_then(Value::as_array_mut) else { return };
    let weight = |sum: &u64| match metric.unit() {
        Unit::Ns => json!(*sum as f64 / 1e6),
        _ => json!(sum),
    };
    for (thread, weights) in threads.iter_mut().zip(weights) {
        thread["samples"]["weight"] = weights.iter().map(weight).collect();
    }
}
