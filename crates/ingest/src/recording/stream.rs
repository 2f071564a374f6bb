//! Conversion of one stream into the merged calling context tree: from its own IDs to those of the tree.

use super::ends::{Ends, LastSeen};
use super::missing_records::sentence;
use super::recorder_frames::{is_own_function, is_own_library};
use super::table::{Dangling, Table};
use super::thread_names::InheritableNames;
use crate::diagnostics;
use rustc_hash::FxHashSet;
use stackline_model::{
    CONTENT, CallMetric, CallNodeId, CallOverhead, CallProcess, CallProcessId, CallRole, CallSource, CallStats,
    CallStepEnds, CallThread, CallThreadId, CallingContextTree, CallingContextTreeBuilder, Frame, FrameId,
    MAX_SUM_OF_SQUARES, OverheadFraction, ReadReport, StrId, Unit,
};
use stackline_recording::{
    COUNTERS, FrameKey, IDENTIFIER, Metric, NUMBER, OTHER_NAMES, Process, Record, Role, Stats, Thread,
};
use std::collections::BTreeMap;

/// State of reading one stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    process: Option<CallProcessId>,
    texts: Table<StrId>,
    /// Frames; `None` for the recorder's own, whose nodes are replaced by their parents.
    frames: Table<Option<FrameId>>,
    /// Frames of the program's Python code.
    python: FxHashSet<u32>,
    /// Path and identity of each library.
    libraries: Table<(StrId, StrId)>,
    threads: Table<OpenThread>,
    stats: LastStats,
    /// Skipped bytes of the stream: IDs that they may have defined are missing.
    skipped: usize,
    /// Literal names that look like those of merged spans, in quotes.
    quoted: BTreeMap<u32, StrId>,
    last_seen: LastSeen,
    /// First and one of the latest names that share a frame.
    folded: BTreeMap<u32, (String, String)>,
    ended: bool,
    /// Argument of `os._exit`, if it ended the process.
    exit: Option<i32>,
    /// True if another program replaced the process.
    replaced: bool,
}

#[derive(Debug)]
struct OpenThread {
    id: CallThreadId,
    /// Thread ID of the system.
    tid: u32,
    nodes: Table<CallNodeId>,
    /// True if a node of the thread is Python code.
    runs_python: bool,
}

/// Last statistics of each call-tree node and metric; recorded statistics are cumulative from the start.
#[derive(Debug, Default)]
struct LastStats {
    /// Rows in the order of their first occurrence: the merged tree must not depend on a hash.
    rows: Vec<Row>,
    /// Last row of each node, by thread and node, whose numbers are dense; [`NO_ROW`] if there is none.
    last: Vec<Vec<u32>>,
}

#[derive(Debug)]
struct Row {
    thread: u32,
    node: u32,
    metric: Metric,
    stats: Stats,
    /// Previous row of the same node, which has one row per metric.
    before: u32,
}

const NO_ROW: u32 = u32::MAX;

impl LastStats {
    /// Store the latest statistics of a thread's node and metric; earlier ones of the same metric are replaced.
    fn put(&mut self, thread: u32, node: u32, metric: Metric, stats: Stats) {
        let last = entry(entry(&mut self.last, thread, Vec::new()), node, NO_ROW);
        let mut at = *last;
        while let Some(row) = self.rows.get_mut(at as usize) {
            if row.metric == metric {
                row.stats = stats;
                return;
            }
            at = row.before;
        }
        self.rows.push(Row { thread, node, metric, stats, before: *last });
        *last = self.rows.len() as u32 - 1;
    }
}

/// Element of a table at an index; the table is first extended with `empty` elements if necessary.
fn entry<T: Clone>(table: &mut Vec<T>, number: u32, empty: T) -> &mut T {
    let number = number as usize;
    if table.len() <= number {
        table.resize(number + 1, empty);
    }
    &mut table[number]
}

impl Stream {
    /// Apply a stream record to the call tree; an invalid one is counted and skipped. `skipped` is the number of
    /// unreadable bytes before it.
    pub(super) fn add(&mut self, builder: &mut CallingContextTreeBuilder, name: &str, record: Record, skipped: usize) {
        self.skipped = skipped;
        if let Record::Process(process) = record {
            if self.process.is_none() {
                self.process = Some(builder.process(call_process(&process)));
            }
            return;
        }
        let Some(process) = self.process else {
            diagnostics::DANGLING_RECORD.count(builder.report(), None, name);
            return;
        };
        if self.apply(builder, name, process, record).is_err() {
            diagnostics::DANGLING_RECORD.count(builder.report(), None, name);
        }
    }

    /// Apply a record of the known process; an error if the record refers to an undefined ID.
    fn apply(
        &mut self,
        builder: &mut CallingContextTreeBuilder,
        name: &str,
        process: CallProcessId,
        record: Record,
    ) -> Result<(), Dangling> {
        let lost = self.skipped;
        match record {
            Record::Text { id, text } => {
                // A span with such a literal name is distinguished from a merged name.
                if text.contains(NUMBER) || text.contains(IDENTIFIER) || text == OTHER_NAMES {
                    self.quoted.insert(id, builder.text(&format!("\"{text}\"")));
                }
                self.texts.put(id, lost, builder.text(&text))
            }
            Record::Frame { id, key } => {
                let frame = self.frame(builder, process, &key)?;
                let is_own = match frame {
                    Frame::Python { function, file, .. } => {
                        is_own_function(builder.text_of(file), builder.text_of(function))
                    }
                    Frame::Native { library, .. } => is_own_library(builder.text_of(library)),
                    _ => false,
                };
                if !is_own && matches!(frame, Frame::Python { .. }) {
                    self.python.insert(id);
                }
                self.frames.put(id, lost, (!is_own).then(|| builder.frame(frame)))
            }
            Record::Library { id, path, build_id } => {
                let path = self.text(path)?;
                let build_id = if build_id.is_empty() { StrId::NONE } else { builder.text(&hexadecimal(&build_id)) };
                self.libraries.put(id, lost, (path, build_id))
            }
            Record::LibraryContent { library, hash } => {
                let identity = builder.text(&format!("{CONTENT}{hash:016x}"));
                self.libraries.get_mut(library)?.1 = identity;
                Ok(())
            }
            Record::Thread(thread) => self.thread(builder, process, &thread),
            Record::Node { thread, id, parent, frame } => {
                let is_python = self.python.contains(&frame);
                let frame = *self.frames.get(frame)?;
                let OpenThread { nodes, runs_python, .. } = self.threads.get_mut(thread)?;
                *runs_python |= is_python;
                let parent = *nodes.get(parent)?;
                nodes.put(id, lost, frame.map_or(parent, |frame| builder.child(parent, frame)))
            }
            Record::Stats { thread, node, metric, stats } => {
                self.threads.get(thread)?.nodes.get(node)?;
                self.stats.put(thread, node, metric, stats);
                Ok(())
            }
            Record::Running { thread, node }
            | Record::Sampled { thread, node }
            | Record::LastSample { thread, node, .. } => {
                self.threads.get(thread)?.nodes.get(node)?;
                self.last_seen.store(&record);
                Ok(())
            }
            Record::FoldedNames { frame, first, last } => {
                self.frames.get(frame)?;
                self.folded.insert(frame, (first, last));
                Ok(())
            }
            Record::Outage { from_ns, to_ns, error, dropped } => {
                note_outage(builder.report(), name, (from_ns, to_ns), error, dropped);
                Ok(())
            }
            other => {
                self.describe(builder, process, other);
                Ok(())
            }
        }
    }

    /// Apply a stream record about the whole process to the call tree's process.
    fn describe(&mut self, builder: &mut CallingContextTreeBuilder, process: CallProcessId, record: Record) {
        let Some(known) = builder.process_mut(process) else { return };
        match record {
            Record::Source(source) => {
                let source = CallSource { name: source.name, on: source.on, detail: source.detail };
                match known.sources.iter_mut().find(|other| other.name == source.name) {
                    Some(earlier) => *earlier = source,
                    None => known.sources.push(source),
                }
            }
            Record::Lost { what, count } => match known.lost.iter_mut().find(|(other, _)| *other == what) {
                Some(earlier) => earlier.1 = count,
                None => known.lost.push((what, count)),
            },
            Record::End { at_ns } => {
                known.lasted_ns = Some(at_ns);
                self.ended = true;
            }
            Record::Exit { code } => self.exit = Some(code),
            Record::Replaced => self.replaced = true,
            Record::Torch { version } => known.torch = version,
            // Single events belong to traces, not to the tree.
            Record::Call { .. } | Record::Sample { .. } => {}
            Record::Machine { .. } | Record::Window { .. } | Record::Touch { .. } => {}
            Record::TensorName { .. } | Record::Named { .. } | Record::Restart => {}
            Record::Processors(_) | Record::Load { .. } | Record::Cost(_) => {}
            Record::Device(_) | Record::Queue(_) | Record::Clock(_) => {}
            Record::Launch(_) | Record::Activity(_) | Record::Compiled(_) => {}
            Record::Overhead(overhead) => known.overhead = Some(call_overhead(&overhead)),
            Record::StepEnds(stackline_recording::StepEnds { count, first_ns, last_ns }) => {
                known.step_ends = Some(CallStepEnds { count, first_ns, last_ns });
            }
            _ => diagnostics::UNKNOWN_STATEMENT.count(builder.report(), None, ""),
        }
    }

    /// Add a thread to the call tree, or update the description of a known one.
    fn thread(
        &mut self,
        builder: &mut CallingContextTreeBuilder,
        process: CallProcessId,
        thread: &Thread,
    ) -> Result<(), Dangling> {
        let name = builder.text(&thread.name);
        let described = CallThread { process, tid: thread.tid, torch_id: thread.torch_id, name };
        if let Ok(known) = self.threads.get(thread.id) {
            builder.set_thread(known.id, described);
            return Ok(());
        }
        // The ID is assigned only after the thread is accepted.
        let id = CallThreadId::NONE;
        self.threads.put(
            thread.id,
            self.skipped,
            OpenThread { id, tid: thread.tid, nodes: Table::with_first(CallingContextTree::ROOT), runs_python: false },
        )?;
        self.threads.get_mut(thread.id)?.id = builder.thread(described);
        Ok(())
    }

    /// Replace thread names that were inherited from the thread's creator.
    fn name_threads(&self, builder: &mut CallingContextTreeBuilder, process: CallProcessId) {
        let Some((pid, command)) = builder.process_mut(process).map(|entry| (entry.pid, entry.command.clone())) else {
            return;
        };
        // Operators and samples of a thread have separate trees.
        let tree: &CallingContextTreeBuilder = builder;
        let threads = || self.threads.values().filter_map(move |open| Some((open, tree.known_thread(open.id)?)));
        let python: FxHashSet<u32> =
            threads().filter(|(open, _)| open.runs_python).map(|(_, open_thread)| open_thread.tid).collect();
        let of_python = threads().filter(|(_, thread)| python.contains(&thread.tid));
        let names = InheritableNames::new(pid, &command, of_python.map(|(_, thread)| tree.text_of(thread.name)));
        let replaced = |(open, thread): (&OpenThread, CallThread)| {
            let may_run_python = self.skipped > 0 || python.contains(&thread.tid);
            let name = names.replace(tree.text_of(thread.name), thread.tid, may_run_python)?;
            Some((open.id, thread, name))
        };
        let replaced: Vec<(CallThreadId, CallThread, String)> = threads().filter_map(replaced).collect();
        for (id, thread, name) in replaced {
            let name = builder.text(&name);
            builder.set_thread(id, CallThread { name, ..thread });
        }
    }

    /// Text of the call tree for a text ID of the stream; an error if undefined.
    fn text(&self, id: u32) -> Result<StrId, Dangling> {
        self.texts.get(id).copied()
    }

    /// Frame of the call tree for a frame key of the stream; an error if the key refers to an undefined ID.
    fn frame(
        &self,
        builder: &mut CallingContextTreeBuilder,
        process: CallProcessId,
        key: &FrameKey,
    ) -> Result<Frame, Dangling> {
        Ok(match *key {
            FrameKey::Python { function, file, line, first_line } => {
                Frame::Python { function: self.text(function)?, file: self.text(file)?, line, first_line }
            }
            FrameKey::Operator { name } => Frame::operator(self.text(name)?),
            FrameKey::Backward { name } => Frame::backward(self.text(name)?),
            FrameKey::Span { name } => {
                Frame::Span { name: self.quoted.get(&name).copied().map_or_else(|| self.text(name), Ok)? }
            }
            FrameKey::FoldedSpan { name } => Frame::Span { name: self.text(name)? },
            FrameKey::Module { path, class } => Frame::Module { path: self.text(path)?, class: self.text(class)? },
            FrameKey::Native { library, offset } => {
                let (library, build_id) = *self.libraries.get(library)?;
                Frame::native(library, build_id, offset)
            }
            FrameKey::Unmapped { address } => Frame::Unmapped { process, address },
            FrameKey::Overflow => Frame::Overflow,
            FrameKey::ShapedOperator { name, inputs } => {
                Frame::Operator { name: self.text(name)?, inputs: self.text(inputs)? }
            }
            FrameKey::ShapedBackward { name, inputs } => {
                Frame::Backward { name: self.text(name)?, inputs: self.text(inputs)? }
            }
            _ => {
                diagnostics::UNKNOWN_STATEMENT.count(builder.report(), None, "");
                Frame::Span { name: builder.text("(unknown kind of frame, recorded by a newer Stackline)") }
            }
        })
    }

    /// Add the statistics to the call tree, and count missing records and the end of the process in the report.
    pub(super) fn finish(self, builder: &mut CallingContextTreeBuilder, name: &str, ends: &Ends) {
        let Some(process) = self.process else {
            diagnostics::EMPTY_STREAM.count(builder.report(), None, name);
            return;
        };
        self.name_threads(builder, process);
        for row in self.stats.rows {
            let Ok(thread) = self.threads.get(row.thread) else { continue };
            let Ok(&node) = thread.nodes.get(row.node) else { continue };
            match metric_of(builder, row.metric) {
                Some(metric) => builder.add_sums(node, thread.id, metric, &stats_of(&row.stats)),
                None => diagnostics::UNKNOWN_STATEMENT.count(builder.report(), None, ""),
            }
        }
        if !self.ended {
            let (pid, start) =
                builder.process_mut(process).map_or((0, 0), |process| (process.pid, process.start_unix_ns));
            if ends.note(name, pid, builder.report()) {
                let mut noted = std::mem::take(builder.report());
                self.last_seen.note(name, &mut noted, ends.lasted_ns(pid, start), |(thread, node)| {
                    let thread = self.threads.get(thread).ok()?;
                    let &node = thread.nodes.get(node).ok()?;
                    Some((thread.tid, builder.thread_words(thread.id), builder.path_words(node)))
                });
                *builder.report() = noted;
            }
        }
        if let Some(code) = self.exit {
            note_exit(builder.report(), name, code);
        }
        if self.replaced {
            note_replaced(builder.report(), name);
        }
        let lost = builder.process_mut(process).map(|process| process.lost.clone()).unwrap_or_default();
        for (first, last) in self.folded.into_values() {
            diagnostics::FOLDED_NAMES.count(builder.report(), None, &format!("{name}: {first}, …, {last}"));
        }
        for (what, count) in lost {
            match what.as_str() {
                // The message is complete without an example.
                "tree_full" => diagnostics::TREE_FULL.count_many(builder.report(), count, None, name),
                _ => {
                    let example = format!("{name}: {}", sentence(&what));
                    diagnostics::NOT_RECORDED.count_many(builder.report(), count, None, &example);
                }
            }
        }
    }
}

/// Count a process that ended by `os._exit`.
pub(super) fn note_exit(report: &mut ReadReport, name: &str, code: i32) {
    diagnostics::OS_EXIT.count(report, None, &format!("{name}: the process called os._exit({code})"));
}

/// Count a process that another program replaced.
pub(super) fn note_replaced(report: &mut ReadReport, name: &str) {
    diagnostics::REPLACED.count(report, None, &format!("{name}: another program replaced the process (exec)"));
}

/// Count a time range (in ns) in which a stream could not be written.
pub(super) fn note_outage(report: &mut ReadReport, name: &str, time: (i64, i64), error: i32, dropped: u64) {
    let seconds = time.1.saturating_sub(time.0).max(0) as f64 / 1e9;
    let reason = match error {
        // Error numbers of Linux.
        5 => "input/output error".to_owned(),
        27 => "file too large (RLIMIT_FSIZE)".to_owned(),
        28 => "disk full".to_owned(),
        122 => "disk quota exceeded".to_owned(),
        _ => format!("error {error}"),
    };
    if dropped == 0 {
        let example = format!("{name}: {reason} for {seconds:.1} s; all records were written later");
        diagnostics::WRITE_DELAYED.count(report, None, &example);
    } else {
        let example = format!("{name}: {reason} for {seconds:.1} s; {dropped} records were not written");
        diagnostics::NOT_WRITTEN.count_many(report, dropped, None, &example);
    }
}

/// Lowercase hexadecimal digits of a build ID.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Metric of the call tree for a recorded one; `None` for metrics of newer recorders.
fn metric_of(builder: &mut CallingContextTreeBuilder, metric: Metric) -> Option<CallMetric> {
    Some(match metric {
        Metric::OperatorTime => CallMetric::OperatorTime,
        Metric::CallTime => CallMetric::CallTime,
        Metric::CpuTime => CallMetric::CpuTime,
        Metric::WallTime => CallMetric::WallTime,
        Metric::WaitTime => CallMetric::WaitTime,
        Metric::GcTime => CallMetric::GcTime,
        Metric::Allocated => CallMetric::Allocated,
        Metric::Freed => CallMetric::Freed,
        Metric::Counter(index) => {
            let known = COUNTERS.get(usize::from(index));
            let name = known.map_or_else(|| format!("counter_{index}"), |&name| name.to_owned());
            // All counters of recordings count events.
            CallMetric::Counter(builder.text(&name), Unit::None)
        }
        _ => return None,
    })
}

/// Statistics for the call tree, with the sum of squares limited to the tree's maximum.
fn stats_of(stats: &Stats) -> CallStats {
    let Stats { count, sum, min, max, sum_of_squares } = *stats;
    CallStats { count, sum, min, max, sum_of_squares: sum_of_squares.min(MAX_SUM_OF_SQUARES) }
}

/// Convert the recorder's measured overhead, with fractions in parts per million.
fn call_overhead(overhead: &stackline_recording::Overhead) -> CallOverhead {
    let ppm = |fraction: f64| (fraction * 1e6).round() as i64;
    CallOverhead {
        unrecorded_steps: overhead.unrecorded_steps,
        comparisons: overhead.comparisons,
        fraction: overhead.fraction.map(|fraction| OverheadFraction {
            low_ppm: ppm(fraction.low),
            median_ppm: ppm(fraction.median),
            high_ppm: ppm(fraction.high),
        }),
    }
}

/// Description of a process for the call tree, from its first record; later records add the rest.
fn call_process(process: &Process) -> CallProcess {
    CallProcess {
        pid: process.pid,
        parent_pid: process.parent_pid,
        role: match process.role {
            Role::Main => CallRole::Main,
            Role::Fork => CallRole::Fork,
            Role::Spawn => CallRole::Spawn,
        },
        rank: process.rank,
        start_unix_ns: process.start_unix_ns,
        lasted_ns: None,
        command: process.command.clone(),
        python: process.python.clone(),
        torch: process.torch.clone(),
        recorder: process.recorder.clone(),
        sources: Vec::new(),
        lost: Vec::new(),
        overhead: None,
        step_ends: None,
    }
}
