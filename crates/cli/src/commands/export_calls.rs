//! `export` of call trees as profiles, from recordings, profiles and traces.

use super::calls::metric;
use crate::args::{Common, ExportArgs, Target};
use crate::failure::wrong_use;
use crate::output::{print_message, print_read_report, to_output};
use crate::session::{Session, reading, run_of};
use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use stackline_calls::{TimeRange, TraceCallTree, calls_by_thread, fold_imports};
use stackline_engine::{Part, Run};
use stackline_model::{CallMetric, CallingContextTree, Trace, TraceSet};
use stackline_present::exports::calls;
use std::io::{self, Write};
use std::path::Path;

/// Writes a tree in some format.
type Writer = fn(&CallingContextTree, CallMetric, &mut dyn Write) -> io::Result<()>;

/// Function that writes a profile format such as pprof; `None` for formats of traces.
pub(crate) fn writer(target: Target) -> Option<Writer> {
    match target {
        Target::Collapsed => Some(calls::write_collapsed),
        Target::Speedscope => Some(calls::write_speedscope),
        Target::Pprof => Some(packed_pprof),
        Target::Firefox => Some(calls::write_firefox),
        Target::Flamegraph => Some(calls::write_flamegraph),
        Target::Chrome | Target::Perfetto | Target::Csv | Target::Parquet | Target::MemoryText => None,
    }
}

/// Write a pprof profile compressed with gzip, because some readers require the compression.
fn packed_pprof(tree: &CallingContextTree, metric: CallMetric, out: &mut dyn Write) -> io::Result<()> {
    let mut packed = GzEncoder::new(out, Compression::default());
    calls::write_pprof(tree, metric, &mut packed)?;
    packed.finish().map(|_| ())
}

/// Export a call tree with the given profile writer.
pub(crate) fn run(args: &ExportArgs, common: &Common, write: Writer) -> Result<()> {
    if args.redact {
        return Err(wrong_use(
            "--redact applies only to formats that contain whole traces: chrome, perfetto, csv, parquet",
        ));
    }
    let run = run_of(&args.inputs.inputs, common)?;
    let [input] = &args.inputs.inputs[..] else { return export_trace(args, common, run, write) };
    if run.is_read_once() {
        let lacks_profile = |error: anyhow::Error| match error.downcast_ref::<stackline_engine::Error>() {
            Some(stackline_engine::Error::Lacks(lacks)) if lacks.has == [Part::Traces] => wrong_use(format!(
                "{}: a trace that is read from a pipe cannot be exported in this format; give the trace as a file",
                input.display()
            )),
            _ => error,
        };
        return export_profile(args, common, (&run, input), write).map_err(lacks_profile);
    }
    // A recording of individual calls has steps to select.
    let selects_part = common.steps.is_some() || common.rank.is_some();
    if run.has_profile() && !selects_part || reading(&run, Run::parts)? == [Part::Profile] {
        return export_profile(args, common, (&run, input), write);
    }
    export_trace(args, common, run, write)
}

/// Export the call tree of a recording or profile as a whole.
fn export_profile(args: &ExportArgs, common: &Common, (run, input): (&Run, &Path), write: Writer) -> Result<()> {
    if common.steps.is_some() || common.rank.is_some() {
        return Err(wrong_use("--steps and --rank apply only to traces; a recording is exported as a whole"));
    }
    let tree = reading(run, Run::profile)?;
    let tree = if args.imports { tree } else { fold_imports(tree) };
    let metric = metric(&tree, args.metric.as_deref())?;
    if tree.metrics.is_empty() {
        return Err(wrong_use(format!("{}: the run has no measurements to export", input.display())));
    }
    to_output(common, |out| write(&tree, metric, out))?;
    let mut trace = Trace::default();
    trace.meta.name = input.display().to_string();
    trace.report = tree.report;
    print_read_report(&TraceSet { traces: vec![trace] })
}

/// Export the calls of a trace, for the default or selected steps.
fn export_trace(args: &ExportArgs, common: &Common, mut run: Run, write: Writer) -> Result<()> {
    let session = Session::from_run(&mut run, common)?;
    let [trace] = &session.set.traces[..] else {
        return Err(wrong_use(format!(
            "this format can contain only one trace; select one with --rank {}",
            session.ranks()
        )));
    };
    let part = match (common.steps, common.whole) {
        (Some(steps), _) => TimeRange::Steps(steps.first, steps.last),
        (None, true) => TimeRange::Whole,
        (None, false) => TimeRange::Chosen,
    };
    let TraceCallTree { tree, steps, .. } = calls_by_thread(trace, part);
    let tree = if args.imports { tree } else { fold_imports(tree) };
    let metric = metric(&tree, args.metric.as_deref())?;
    if tree.metrics.is_empty() {
        return Err(wrong_use(format!("{}: no event has a duration, so there is no data to export", trace.meta.name)));
    }
    to_output(common, |out| write(&tree, metric, out))?;
    if part == TimeRange::Chosen && steps > 0 {
        let plural = if steps == 1 { "step" } else { "steps" };
        print_message(&format!("Exported: only {steps} {plural} of the trace; --whole exports the whole trace."))?;
    }
    session.print_read_report()
}
