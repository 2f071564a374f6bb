//! Reader of processed profiles of the Firefox Profiler, as written by samply, `stackline export` and the profiler's
//! "save".
//!
//! A profile has tables of columns that refer to each other, per thread, or in newer versions shared by all threads.

use super::{FrameText, Path, Profile};
use crate::sources::streamed_json::Whole;
use crate::sources::{Content, Sniff};
use crate::{Error, ReadOptions, diagnostics};
use memchr::memmem;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use stackline_model::{CallMetric, CallProcess, CallThreadId, CallingContextTree};
use std::io::BufReader;

/// Detect a processed profile by its first bytes.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    let Content::Bytes { head, .. } = content else { return Sniff::No };
    let is_object = head.trim_ascii_start().starts_with(b"{");
    let has = |text: &[u8]| memmem::find(head, text).is_some();
    if is_object && has(b"\"meta\"") && has(b"\"preprocessedProfileVersion\"") {
        return Sniff::Yes("the file has the key preprocessedProfileVersion of a processed Firefox profile");
    }
    Sniff::No
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    meta: Meta,
    shared: Tables,
    threads: Vec<Thread>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    /// Sampling interval in ms.
    interval: f64,
    /// Start in ms since 1970.
    start_time: f64,
    product: String,
}

/// Tables of strings, frames, functions, resources and stacks of a thread, or of all threads.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tables {
    string_array: Vec<String>,
    frame_table: FrameTable,
    func_table: FuncTable,
    resource_table: ResourceTable,
    stack_table: StackTable,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FrameTable {
    func: Vec<Whole>,
    line: Vec<Whole>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FuncTable {
    name: Vec<Whole>,
    file_name: Vec<Whole>,
    resource: Vec<Whole>,
    line_number: Vec<Whole>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceTable {
    name: Vec<Whole>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StackTable {
    frame: Vec<Whole>,
    prefix: Vec<Whole>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Thread {
    name: String,
    pid: Whole,
    tid: Whole,
    samples: Samples,
    #[serde(flatten)]
    tables: Tables,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Samples {
    stack: Vec<Whole>,
    weight: Option<Vec<Option<f64>>>,
    weight_type: Option<String>,
}

/// Read a Firefox Profiler profile into a calling context tree.
pub(crate) fn open(name: &str, content: Content<'_>, _: &ReadOptions) -> Result<CallingContextTree, Error> {
    let Content::Bytes { stream, .. } = content else { return Ok(CallingContextTree::default()) };
    let read: Result<Document, _> = serde_json::from_reader(BufReader::with_capacity(256 << 10, stream));
    let document = read.map_err(|error| {
        let reason = format!("the Firefox profile is truncated or damaged: {error}");
        Error::Malformed { path: name.into(), reason, offset: 0 }
    })?;
    Ok(tree(&document))
}

/// Element of a column at a row; `None` for a row outside of the column.
fn at<T>(column: &[T], row: i64) -> Option<&T> {
    column.get(usize::try_from(row).ok()?)
}

/// Convert a parsed profile to a calling context tree, with one thread after another.
fn tree(document: &Document) -> CallingContextTree {
    let start_unix_ns = (document.meta.start_time * 1e6) as i64;
    let process = |pid: Whole| CallProcess {
        pid: pid.0.and_then(|pid| pid.try_into().ok()).unwrap_or(0),
        start_unix_ns,
        command: Some(document.meta.product.clone()).filter(|product| !product.is_empty()).into_iter().collect(),
        ..CallProcess::default()
    };
    let mut threads: Vec<&Thread> = document.threads.iter().collect();
    threads.sort_by_key(|thread| thread.pid.0);
    let mut profile = Profile::new(process(threads.first().map_or(Whole::default(), |thread| thread.pid)));
    let mut frames: Vec<FrameText<'_>> = Vec::new();
    let mut before = threads.first().and_then(|thread| thread.pid.0);
    for thread in threads {
        if thread.pid.0 != before {
            before = thread.pid.0;
            profile.next_process(process(thread.pid));
        }
        let tid = thread.tid.0.and_then(|tid| tid.try_into().ok()).unwrap_or(0);
        let id = profile.thread(tid, &thread.name);
        OfThread { thread, shared: &document.shared, id }.read(document.meta.interval, &mut profile, &mut frames);
    }
    profile.finish(|number| frames.get(number as usize).copied().unwrap_or_default())
}

/// A thread with the tables that all threads share, and its ID in the call tree.
struct OfThread<'d> {
    thread: &'d Thread,
    shared: &'d Tables,
    id: CallThreadId,
}

/// Table of a thread, or else the shared one.
macro_rules! table {
    ($value_at:expr, $table:ident . $column:ident) => {
        if $value_at.thread.tables.$table.$column.is_empty() {
            &$value_at.shared.$table.$column
        } else {
            &$value_at.thread.tables.$table.$column
        }
    };
}

impl<'d> OfThread<'d> {
    /// Add the thread's stacks and sample values to the profile, and the texts of its frames to `frames`.
    fn read(&self, interval: f64, profile: &mut Profile, frames: &mut Vec<FrameText<'d>>) {
        let (metric, scale) = self.metric(interval, profile);
        let (prefixes, of_stack) = (table!(self, stack_table.prefix), table!(self, stack_table.frame));
        let mut numbers: FxHashMap<i64, u32> = FxHashMap::default();
        // Callers precede their callees.
        let mut paths: Vec<Path> = Vec::with_capacity(of_stack.len());
        for (row, frame) in of_stack.iter().enumerate() {
            let frame = frame.0.unwrap_or(-1);
            let number = *numbers.entry(frame).or_insert_with(|| {
                frames.push(self.frame(frame));
                frames.len() as u32 - 1
            });
            let prefix = prefixes.get(row).and_then(|prefix| prefix.0);
            let parent = prefix.and_then(|prefix| at(&paths, prefix).copied());
            if prefix.is_some() && parent.is_none() {
                diagnostics::DANGLING_RECORD.count(
                    profile.report(),
                    None,
                    "a call stack whose caller is missing or comes later in the file",
                );
            }
            paths.push(profile.child(parent.unwrap_or(0), number));
        }
        let weights = self.thread.samples.weight.as_deref().unwrap_or_default();
        for (row, stack) in self.thread.samples.stack.iter().enumerate() {
            let Some(stack) = stack.0 else { continue };
            let weight = weights.get(row).copied().flatten().unwrap_or(1.0) * scale;
            match at(&paths, stack) {
                // Freed memory has a negative weight.
                Some(_) if weight < 0.0 && metric == CallMetric::Allocated => {}
                Some(&path) => profile.add_number((path, self.id, metric), weight, &self.thread.name),
                None => {
                    diagnostics::DANGLING_RECORD.count(
                        profile.report(),
                        None,
                        "a sample that refers to a missing stack",
                    );
                }
            }
        }
    }

    /// Metric of the sample weights, with the factor to its unit. Sample counts are converted to time by the sampling
    /// interval.
    fn metric(&self, interval: f64, profile: &mut Profile) -> (CallMetric, f64) {
        match self.thread.samples.weight_type.as_deref() {
            Some("bytes") => profile.metric("", "bytes"),
            Some("tracing-ms") => profile.metric("", "milliseconds"),
            _ if interval > 0.0 => {
                let (metric, scale) = profile.metric("", "milliseconds");
                (metric, scale * interval)
            }
            _ => profile.metric("samples", ""),
        }
    }

    /// String with this number, from the thread's own strings or the shared ones; empty if missing.
    fn text(&self, id: Option<i64>) -> &'d str {
        let own = &self.thread.tables.string_array;
        let texts = if own.is_empty() { &self.shared.string_array } else { own };
        id.and_then(|id| at(texts, id)).map_or("", |text| text)
    }

    /// Texts and lines of a row of the frame table; empty or 0 where a table has no value.
    fn frame(&self, row: i64) -> FrameText<'d> {
        let value_at = |column: &[Whole], row: i64| at(column, row).and_then(|value| value.0);
        let line = |number: Option<i64>| number.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        let function = value_at(table!(self, frame_table.func), row).unwrap_or(-1);
        let resource = value_at(table!(self, func_table.resource), function).unwrap_or(-1);
        FrameText {
            function: self.text(value_at(table!(self, func_table.name), function)),
            file: self.text(value_at(table!(self, func_table.file_name), function)),
            line: line(value_at(table!(self, frame_table.line), row)),
            first_line: line(value_at(table!(self, func_table.line_number), function)),
            library: self.text(value_at(table!(self, resource_table.name), resource)),
        }
    }
}
