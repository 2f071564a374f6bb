//! Write the calling context tree of a recording into its run directory, to which running processes may still write, or
//! that of a profile as a run directory of its own.

use super::cells::{booleans, numbers32, numbers64, owned_text, rows, text, times, words};
use super::{Files, WriteOptions, write_manifest};
use crate::columns::{Column, Packing};
use crate::commit::TemporaryDirectory;
use crate::manifest::{self, CallsEntry, FILE, FORMAT, FORMAT_VERSION, Manifest};
use crate::{Error, commit, read_manifest};
use arrow_array::Decimal128Array;
use arrow_schema::DataType;
use stackline_model::{CallMetric, CallStats, CallingContextTree, Frame, FrameKind, StrId, Unit};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Write a calling context tree into the run directory `run`, replacing an existing tree. `streams` names the merged
/// streams. A failure leaves the streams and the previous content unchanged.
///
/// # Errors
/// If the operating system refuses (disk full), or if the tree is inconsistent.
pub fn write_calls(
    tree: &CallingContextTree,
    run: &Path,
    streams: BTreeMap<String, u64>,
    options: &WriteOptions,
) -> Result<(), Error> {
    let invalid = |detail| Error::Invalid { trace: "of calls".to_owned(), detail };
    tree.check().map_err(invalid)?;
    let folder = run.join(format!("calls.partial-{}", std::process::id()));
    let written = write_tables(tree, &folder, options).and_then(|tables| {
        options.check()?;
        let entry = CallsEntry { streams, report: tree.report.clone(), unnamed: false, units: units(tree), tables };
        publish(run, &folder, entry, options)
    });
    if written.is_err() {
        // Best effort: the first error is reported.
        let _ = std::fs::remove_dir_all(&folder);
    }
    written
}

/// Write a calling context tree without streams, such as that of a profile, to the new run directory `dir`, completely
/// or not at all.
///
/// # Errors
/// If the tree is inconsistent, the directory has other content or an existing run that must stay, or writing fails.
pub fn write_profile(tree: &CallingContextTree, dir: &Path, options: &WriteOptions) -> Result<(), Error> {
    let partial = TemporaryDirectory::create(dir, options.overwrite)?;
    write_calls(tree, partial.path(), BTreeMap::new(), options)?;
    options.check()?;
    partial.publish(options.sync)
}

/// Write all tables of a call tree into a new folder, and return their manifest entries.
fn write_tables(
    tree: &CallingContextTree,
    folder: &Path,
    options: &WriteOptions,
) -> Result<BTreeMap<String, manifest::TableEntry>, Error> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(Error::io(folder, "remove"))?;
    }
    std::fs::create_dir(folder).map_err(Error::io(folder, "create"))?;
    let mut files = Files { folder: folder.to_owned(), options, tables: BTreeMap::new() };
    frames(tree, &mut files)?;
    nodes(tree, &mut files)?;
    metrics(tree, &mut files)?;
    threads(tree, &mut files)?;
    processes(tree, &mut files)?;
    sources(tree, &mut files)?;
    if options.sync {
        commit::sync_dir(folder)?;
    }
    Ok(files.tables)
}

/// Rename the folder of tables to its final name, then write the manifest.
///
/// Between the two steps the run reads as damaged, and then its streams are used.
fn publish(run: &Path, folder: &Path, calls: CallsEntry, options: &WriteOptions) -> Result<(), Error> {
    let mut manifest = match run.join(FILE).exists() {
        true => read_manifest(run)?,
        false => Manifest {
            format: FORMAT.to_owned(),
            version: FORMAT_VERSION,
            writer: crate::WRITER.to_owned(),
            info: options.info.clone(),
            traces: Vec::new(),
            calls: None,
            memory: Vec::new(),
            checksum: None,
        },
    };
    manifest.calls = Some(calls);
    let target = manifest::calls_dir(run);
    if target.exists() {
        std::fs::remove_dir_all(&target).map_err(Error::io(&target, "replace"))?;
    }
    std::fs::rename(folder, &target).map_err(Error::io(&target, "create"))?;
    write_manifest(&manifest, run, options.sync)
}

/// One row of the table `call_frames`: the columns of a frame without its kind.
#[derive(Default)]
struct Row {
    name: StrId,
    file: StrId,
    detail: StrId,
    line: Option<u32>,
    first_line: Option<u32>,
    offset: Option<u64>,
    process: Option<u32>,
    source: StrId,
    inlined: Option<u32>,
}

/// Columns of `call_frames` for a frame.
fn row(frame: &Frame) -> Row {
    match *frame {
        Frame::Python { function, file, line, first_line } => {
            Row { name: function, file, line: Some(line), first_line: Some(first_line), ..Row::default() }
        }
        Frame::Operator { name, inputs } | Frame::Backward { name, inputs } => {
            Row { name, detail: inputs, ..Row::default() }
        }
        Frame::Span { name } | Frame::Runtime { name } | Frame::Kernel { name } => Row { name, ..Row::default() },
        Frame::Module { path, class } => Row { name: path, detail: class, ..Row::default() },
        Frame::Native { library, build_id, offset, function, file, line, inlined } => Row {
            name: function,
            file: library,
            source: file,
            line: Some(line).filter(|&line| line > 0),
            offset: Some(offset),
            detail: build_id,
            inlined: Some(inlined),
            ..Row::default()
        },
        Frame::DeviceFunction { function, file, line } => {
            Row { name: function, file, line: Some(line).filter(|&line| line > 0), ..Row::default() }
        }
        Frame::Instruction { binary, pc, file, line } => Row {
            file: binary,
            source: file,
            line: Some(line).filter(|&line| line > 0),
            offset: Some(pc),
            ..Row::default()
        },
        Frame::HloOp { name, program } => Row { name, detail: program, ..Row::default() },
        Frame::Unmapped { process, address } => {
            Row { offset: Some(address), process: Some(process.0), ..Row::default() }
        }
        Frame::Overflow => Row::default(),
    }
}

/// Write the table of the call tree's frames.
fn frames(tree: &CallingContextTree, files: &mut Files<'_>) -> Result<(), Error> {
    let frame_row = |at: usize| row(&tree.frames[at]);
    let columns = [
        rows("frame", |at| at as u32),
        words(
            "kind",
            |at| tree.frames[at].kind() as u32,
            |kind| FrameKind::ALL.get(kind as usize).map(|kind| kind.name()),
        ),
        text("name", &tree.strings, move |at| frame_row(at).name),
        text("file", &tree.strings, move |at| frame_row(at).file),
        numbers32("line", move |at| frame_row(at).line),
        numbers32("first_line", move |at| frame_row(at).first_line),
        numbers64("offset", move |at| frame_row(at).offset),
        text("detail", &tree.strings, move |at| frame_row(at).detail),
        numbers32("process", move |at| frame_row(at).process),
        text("source", &tree.strings, move |at| frame_row(at).source),
        numbers32("inlined", move |at| frame_row(at).inlined),
    ];
    files.write_table("call_frames", tree.frames.len(), &columns)
}

/// Write the table of the call tree's nodes: parent and frame.
fn nodes(tree: &CallingContextTree, files: &mut Files<'_>) -> Result<(), Error> {
    let nodes = &tree.nodes;
    let columns =
        [rows("node", |at| at as u32), rows("parent", |at| nodes.parent[at].0), rows("frame", |at| nodes.frame[at].0)];
    files.write_table("call_nodes", nodes.len(), &columns)
}

/// Units of the tree's counters by name, without counters that have no unit.
fn units(tree: &CallingContextTree) -> BTreeMap<String, Unit> {
    let unit = |metric: &CallMetric| match *metric {
        CallMetric::Counter(name, unit) if unit != Unit::None => Some((tree.strings.get(name).to_owned(), unit)),
        _ => None,
    };
    tree.measured().iter().filter_map(unit).collect()
}

/// Write the table of metric values by node and thread.
fn metrics(tree: &CallingContextTree, files: &mut Files<'_>) -> Result<(), Error> {
    let metrics = &tree.metrics;
    let stats = |at: usize| -> CallStats { metrics.stats[at] };
    let name = |metric: CallMetric| match metric {
        CallMetric::Counter(name, _) => format!("counter:{}", tree.strings.get(name)),
        fixed => fixed.name(&tree.strings).to_owned(),
    };
    let columns = [
        rows("node", |at| metrics.node[at].0),
        rows("thread", |at| metrics.thread[at].0),
        owned_text("metric", |at| name(metrics.metric[at])),
        numbers64("count", move |at| Some(stats(at).count)),
        numbers64("sum", move |at| Some(stats(at).sum)),
        numbers64("min", move |at| Some(stats(at).min)),
        numbers64("max", move |at| Some(stats(at).max)),
        Column::new("sum_of_squares", DataType::Decimal128(38, 0), false, Packing::Dictionary, move |range| {
            // Saturated at 10^38 - 1, the largest value that fits.
            let values = range.map(|at| i128::try_from(stats(at).sum_of_squares).unwrap_or(i128::MAX));
            let array = Decimal128Array::from_iter_values(values).with_precision_and_scale(38, 0);
            Ok(Arc::new(array.map_err(|error| error.to_string())?))
        }),
    ];
    files.write_table("call_metrics", metrics.len(), &columns)
}

/// Write the table of the call tree's threads.
fn threads(tree: &CallingContextTree, files: &mut Files<'_>) -> Result<(), Error> {
    let threads = &tree.threads;
    let columns = [
        rows("thread", |at| at as u32),
        rows("process", |at| threads[at].process.0),
        numbers32("tid", |at| Some(threads[at].tid)),
        numbers64("torch_id", |at| Some(threads[at].torch_id)),
        text("name", &tree.strings, |at| threads[at].name),
    ];
    files.write_table("call_threads", threads.len(), &columns)
}

/// Write the table of the call tree's processes.
fn processes(tree: &CallingContextTree, files: &mut Files<'_>) -> Result<(), Error> {
    let processes = &tree.processes;
    let columns = [
        rows("process", |at| at as u32),
        numbers32("pid", |at| Some(processes[at].pid)),
        numbers32("parent_pid", |at| Some(processes[at].parent_pid)),
        owned_text("role", |at| processes[at].role.name().to_owned()),
        numbers32("rank", |at| processes[at].rank),
        times("start_unix_ns", |at| processes[at].start_unix_ns),
        numbers64("lasted_ns", |at| processes[at].lasted_ns),
        owned_text("command", |at| serde_json::to_string(&processes[at].command).unwrap_or_default()),
        owned_text("python", |at| processes[at].python.clone()),
        owned_text("torch", |at| processes[at].torch.clone()),
        owned_text("recorder", |at| processes[at].recorder.clone()),
    ];
    files.write_table("call_processes", processes.len(), &columns)
}

/// Write the tables of the processes' event sources, missing records, overheads and step ends.
fn sources(tree: &CallingContextTree, files: &mut Files<'_>) -> Result<(), Error> {
    let each = || tree.processes.iter().zip(0_u32..);
    let sources: Vec<_> =
        each().flat_map(|(process, at)| process.sources.iter().map(move |source| (at, source))).collect();
    let columns = [
        rows("process", |at| sources[at].0),
        owned_text("name", |at| sources[at].1.name.clone()),
        booleans("on", |at| sources[at].1.on),
        owned_text("detail", |at| sources[at].1.detail.clone()),
    ];
    files.write_table("call_sources", sources.len(), &columns)?;
    let lost: Vec<_> = each().flat_map(|(process, at)| process.lost.iter().map(move |lost| (at, lost))).collect();
    let columns = [
        rows("process", |at| lost[at].0),
        owned_text("what", |at| lost[at].1.0.clone()),
        numbers64("count", |at| Some(lost[at].1.1)),
    ];
    files.write_table("call_losses", lost.len(), &columns)?;
    let overheads: Vec<_> = each().filter_map(|(process, at)| Some((at, process.overhead?))).collect();
    let fraction = |at: usize| overheads[at].1.fraction.unwrap_or_default();
    let columns = [
        rows("process", |at| overheads[at].0),
        numbers64("unrecorded_steps", |at| Some(overheads[at].1.unrecorded_steps)),
        numbers32("comparisons", |at| Some(overheads[at].1.comparisons)),
        booleans("measured", |at| overheads[at].1.fraction.is_some()),
        times("low_ppm", |at| fraction(at).low_ppm),
        times("median_ppm", |at| fraction(at).median_ppm),
        times("high_ppm", |at| fraction(at).high_ppm),
    ];
    files.write_table("call_overheads", overheads.len(), &columns)?;
    let ends: Vec<_> = each().filter_map(|(process, at)| Some((at, process.step_ends?))).collect();
    let columns = [
        rows("process", |at| ends[at].0),
        numbers64("count", |at| Some(ends[at].1.count)),
        numbers64("first_ns", |at| Some(ends[at].1.first_ns)),
        numbers64("last_ns", |at| Some(ends[at].1.last_ns)),
    ];
    files.write_table("call_step_ends", ends.len(), &columns)
}
