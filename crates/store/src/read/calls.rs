//! Read the calling context tree of a recording from its tables.

use super::Files;
use super::table::Batch;
use crate::{Error, manifest, read_manifest};
use arrow_array::Array;
use arrow_array::types::{Decimal128Type, Int64Type, UInt32Type, UInt64Type};
use stackline_model::{
    CallMetric, CallNodeId, CallOverhead, CallProcess, CallProcessId, CallRole, CallSource, CallStats, CallStepEnds,
    CallThread, CallThreadId, CallingContextTree, Frame, FrameId, FrameKind, OverheadFraction, StrId, StringTable,
    Unit,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Read the calling context tree of a run; `None` if it has none.
///
/// # Errors
/// If the run or one of its tables is damaged.
pub fn read_calls(run: &Path) -> Result<Option<CallingContextTree>, Error> {
    let manifest = read_manifest(run)?;
    let Some(entry) = &manifest.calls else { return Ok(None) };
    let (folder, tables) = (manifest::calls_dir(run), &entry.tables);
    let files = Files { folder, tables, long_arguments: false, missing: Vec::new() };
    let mut tree = CallingContextTree { report: entry.report.clone(), ..CallingContextTree::default() };
    processes(&mut tree, &files)?;
    sources(&mut tree, &files)?;
    threads(&mut tree, &files)?;
    frames(&mut tree, &files, entry.unnamed)?;
    nodes(&mut tree, &files)?;
    metrics(&mut tree, &files, &entry.units)?;
    tree.check().map_err(|detail| Error::damaged(&files.folder, detail))?;
    Ok(Some(tree))
}

/// Read a text column of a batch as interned strings; null becomes none.
fn texts(batch: &Batch<'_>, column: usize, strings: &mut StringTable) -> Result<Vec<StrId>, Error> {
    let column = batch.text(column)?;
    Ok((0..batch.rows()).map(|row| column.get(row).map_or(StrId::NONE, |text| strings.intern(text))).collect())
}

/// Read a column of 32-bit numbers of a batch, with `None` for null.
fn optional32(batch: &Batch<'_>, column: usize) -> Result<Vec<Option<u32>>, Error> {
    Ok(batch.numbers::<UInt32Type>(column)?.iter().collect())
}

/// Read a column of 64-bit numbers of a batch, with `None` for null.
fn optional64(batch: &Batch<'_>, column: usize) -> Result<Vec<Option<u64>>, Error> {
    Ok(batch.numbers::<UInt64Type>(column)?.iter().collect())
}

/// One row of the table `call_frames`: the columns of a frame without its kind.
struct Row {
    name: StrId,
    file: StrId,
    detail: StrId,
    line: u32,
    first_line: u32,
    offset: u64,
    process: u32,
    source: StrId,
    inlined: u32,
}

impl Row {
    /// Frame of a kind from the columns of its row.
    fn frame(self, kind: FrameKind) -> Frame {
        let Self { name, file, detail, line, first_line, offset, process, source, inlined } = self;
        match kind {
            FrameKind::Python => Frame::Python { function: name, file, line, first_line },
            FrameKind::Operator => Frame::Operator { name, inputs: detail },
            FrameKind::Backward => Frame::Backward { name, inputs: detail },
            FrameKind::Span => Frame::Span { name },
            FrameKind::Module => Frame::Module { path: name, class: detail },
            FrameKind::Native => {
                let (library, build_id, function, file) = (file, detail, name, source);
                Frame::Native { library, build_id, offset, function, file, line, inlined }
            }
            FrameKind::Unmapped => Frame::Unmapped { process: CallProcessId(process), address: offset },
            FrameKind::Runtime => Frame::Runtime { name },
            FrameKind::Kernel => Frame::Kernel { name },
            FrameKind::DeviceFunction => Frame::DeviceFunction { function: name, file, line },
            FrameKind::Instruction => Frame::Instruction { binary: file, pc: offset, file: source, line },
            FrameKind::HloOp => Frame::HloOp { name, program: detail },
            FrameKind::Overflow => Frame::Overflow,
        }
    }
}

/// Read the frames of the call tree. In `unnamed` tables (version 3), native frames have neither functions nor lines.
fn frames(tree: &mut CallingContextTree, files: &Files<'_>, unnamed: bool) -> Result<(), Error> {
    let columns = ["kind", "name", "file", "line", "first_line", "offset", "detail", "process", "source", "inlined"];
    let columns = if unnamed { &columns[..8] } else { &columns };
    files.read("call_frames", columns, |file, batch| {
        let kinds = batch.text(0)?;
        let (name, path) = (texts(batch, 1, &mut tree.strings)?, texts(batch, 2, &mut tree.strings)?);
        let (line, first_line) = (optional32(batch, 3)?, optional32(batch, 4)?);
        let (offset, detail) = (optional64(batch, 5)?, texts(batch, 6, &mut tree.strings)?);
        let process = optional32(batch, 7)?;
        let rows = batch.rows();
        let (source, inlined) = match unnamed {
            true => (vec![StrId::NONE; rows], vec![None; rows]),
            false => (texts(batch, 8, &mut tree.strings)?, optional32(batch, 9)?),
        };
        for row in 0..batch.rows() {
            let kind = kinds.get(row).and_then(FrameKind::from_name);
            let kind = kind.ok_or_else(|| file.damaged(format!("frame {row} has an unknown kind")))?;
            let read = Row {
                name: name[row],
                file: path[row],
                detail: detail[row],
                line: line[row].unwrap_or(0),
                first_line: first_line[row].unwrap_or(0),
                offset: offset[row].unwrap_or(0),
                process: process[row].unwrap_or(0),
                source: source[row],
                inlined: inlined[row].unwrap_or(0),
            };
            tree.frames.push(read.frame(kind));
        }
        Ok(())
    })
}

/// Read the parents and frames of the call tree's nodes.
fn nodes(tree: &mut CallingContextTree, files: &Files<'_>) -> Result<(), Error> {
    let nodes = &mut tree.nodes;
    files.read("call_nodes", &["parent", "frame"], |_, batch| {
        batch.push_handles(0, &mut nodes.parent, CallNodeId)?;
        batch.push_handles(1, &mut nodes.frame, FrameId)
    })
}

/// Read the metrics of the call tree's nodes; counters have these units.
fn metrics(tree: &mut CallingContextTree, files: &Files<'_>, units: &BTreeMap<String, Unit>) -> Result<(), Error> {
    let columns = ["node", "thread", "metric", "count", "sum", "min", "max", "sum_of_squares"];
    files.read("call_metrics", &columns, |file, batch| {
        let CallingContextTree { metrics, strings, .. } = tree;
        batch.push_handles(0, &mut metrics.node, CallNodeId)?;
        batch.push_handles(1, &mut metrics.thread, CallThreadId)?;
        let name = batch.plain_text(2)?;
        let (count, sum) = (batch.values::<UInt64Type>(3)?, batch.values::<UInt64Type>(4)?);
        let (min, max) = (batch.values::<UInt64Type>(5)?, batch.values::<UInt64Type>(6)?);
        let squares = batch.values::<Decimal128Type>(7)?;
        for row in 0..batch.rows() {
            let metric = metric(name.value(row), units, strings);
            metrics
                .metric
                .push(metric.ok_or_else(|| file.damaged("a row of table call_metrics has an unknown metric"))?);
            metrics.stats.push(CallStats {
                count: count[row],
                sum: sum[row],
                min: min[row],
                max: max[row],
                sum_of_squares: squares[row].unsigned_abs(),
            });
        }
        Ok(())
    })
}

/// Metric with this stored name; the name of a counter begins with `counter:`. `None` for an unknown name.
fn metric(name: &str, units: &BTreeMap<String, Unit>, strings: &mut StringTable) -> Option<CallMetric> {
    match name.strip_prefix("counter:") {
        Some(counter) => {
            let unit = units.get(counter).copied().unwrap_or(Unit::None);
            Some(CallMetric::Counter(strings.intern(counter), unit))
        }
        None => CallMetric::ALL.into_iter().find(|metric| metric.name(strings) == name),
    }
}

/// Read the threads of the call tree.
fn threads(tree: &mut CallingContextTree, files: &Files<'_>) -> Result<(), Error> {
    files.read("call_threads", &["process", "tid", "torch_id", "name"], |_, batch| {
        let (process, tid) = (batch.values::<UInt32Type>(0)?, batch.values::<UInt32Type>(1)?);
        let torch_id = batch.values::<UInt64Type>(2)?;
        let name = texts(batch, 3, &mut tree.strings)?;
        tree.threads.extend((0..batch.rows()).map(|row| CallThread {
            process: CallProcessId(process[row]),
            tid: tid[row],
            torch_id: torch_id[row],
            name: name[row],
        }));
        Ok(())
    })
}

/// Read the processes of the call tree, without their event sources, missing records, overheads and step ends.
fn processes(tree: &mut CallingContextTree, files: &Files<'_>) -> Result<(), Error> {
    let columns =
        ["pid", "parent_pid", "role", "rank", "start_unix_ns", "lasted_ns", "command", "python", "torch", "recorder"];
    files.read("call_processes", &columns, |file, batch| {
        let (pid, parent_pid) = (batch.values::<UInt32Type>(0)?, batch.values::<UInt32Type>(1)?);
        let (role, rank) = (batch.plain_text(2)?, optional32(batch, 3)?);
        let (start, lasted) = (batch.values::<Int64Type>(4)?, optional64(batch, 5)?);
        let (command, python) = (batch.plain_text(6)?, batch.plain_text(7)?);
        let (torch, recorder) = (batch.plain_text(8)?, batch.plain_text(9)?);
        for row in 0..batch.rows() {
            let role = CallRole::from_name(role.value(row))
                .ok_or_else(|| file.damaged("a row of table call_processes has an unknown process role"))?;
            tree.processes.push(CallProcess {
                pid: pid[row],
                parent_pid: parent_pid[row],
                role,
                rank: rank[row],
                start_unix_ns: start[row],
                lasted_ns: lasted[row],
                command: serde_json::from_str(command.value(row)).map_err(|error| file.damaged(error))?,
                python: python.value(row).to_owned(),
                torch: torch.value(row).to_owned(),
                recorder: recorder.value(row).to_owned(),
                sources: Vec::new(),
                lost: Vec::new(),
                overhead: None,
                step_ends: None,
            });
        }
        Ok(())
    })
}

/// Read the event sources of the call tree's processes, and their missing records, overheads and step ends.
fn sources(tree: &mut CallingContextTree, files: &Files<'_>) -> Result<(), Error> {
    let processes = &mut tree.processes;
    files.read("call_sources", &["process", "name", "on", "detail"], |file, batch| {
        let (process, on) = (batch.values::<UInt32Type>(0)?, batch.bools(2)?);
        let (name, detail) = (batch.plain_text(1)?, batch.plain_text(3)?);
        for (row, &process) in process.iter().enumerate() {
            let source = CallSource {
                name: name.value(row).to_owned(),
                on: on.is_valid(row) && on.value(row),
                detail: detail.value(row).to_owned(),
            };
            let process = processes.get_mut(process as usize);
            process.ok_or_else(|| file.damaged("a row refers to a process that does not exist"))?.sources.push(source);
        }
        Ok(())
    })?;
    files.read("call_losses", &["process", "what", "count"], |file, batch| {
        let (process, count) = (batch.values::<UInt32Type>(0)?, batch.values::<UInt64Type>(2)?);
        let what = batch.plain_text(1)?;
        for (row, &process) in process.iter().enumerate() {
            let process = processes.get_mut(process as usize);
            let process = process.ok_or_else(|| file.damaged("a row refers to a process that does not exist"))?;
            process.lost.push((what.value(row).to_owned(), count[row]));
        }
        Ok(())
    })?;
    overheads(processes, files)?;
    step_ends(processes, files)
}

/// Read the end times of steps, and add them to their processes.
fn step_ends(processes: &mut [CallProcess], files: &Files<'_>) -> Result<(), Error> {
    files.read("call_step_ends", &["process", "count", "first_ns", "last_ns"], |file, batch| {
        let (process, count) = (batch.values::<UInt32Type>(0)?, batch.values::<UInt64Type>(1)?);
        let (first, last) = (batch.values::<UInt64Type>(2)?, batch.values::<UInt64Type>(3)?);
        for (row, &process) in process.iter().enumerate() {
            let process = processes.get_mut(process as usize);
            let process = process.ok_or_else(|| file.damaged("a row refers to a process that does not exist"))?;
            process.step_ends = Some(CallStepEnds { count: count[row], first_ns: first[row], last_ns: last[row] });
        }
        Ok(())
    })
}

/// Read the recorder's overheads, and add them to their processes.
fn overheads(processes: &mut [CallProcess], files: &Files<'_>) -> Result<(), Error> {
    let columns = ["process", "unrecorded_steps", "comparisons", "measured", "low_ppm", "median_ppm", "high_ppm"];
    files.read("call_overheads", &columns, |file, batch| {
        let (process, steps) = (batch.values::<UInt32Type>(0)?, batch.values::<UInt64Type>(1)?);
        let (comparisons, measured) = (batch.values::<UInt32Type>(2)?, batch.bools(3)?);
        let (low, median) = (batch.values::<Int64Type>(4)?, batch.values::<Int64Type>(5)?);
        let high = batch.values::<Int64Type>(6)?;
        for (row, &process) in process.iter().enumerate() {
            let fraction = OverheadFraction { low_ppm: low[row], median_ppm: median[row], high_ppm: high[row] };
            let overhead = CallOverhead {
                unrecorded_steps: steps[row],
                comparisons: comparisons[row],
                fraction: (measured.is_valid(row) && measured.value(row)).then_some(fraction),
            };
            let process = processes.get_mut(process as usize);
            process.ok_or_else(|| file.damaged("a row refers to a process that does not exist"))?.overhead =
                Some(overhead);
        }
        Ok(())
    })
}
