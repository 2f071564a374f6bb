//! `export` of recordings.

use super::calls::metric;
use crate::args::{Common, ExportArgs, Target};
use crate::failure::wrong_use;
use crate::output::{say_read_report, to_output};
use crate::session::{reading, run_of};
use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use stackline_engine::Run;
use stackline_model::{CallMetric, CallTree, Trace, TraceSet};
use stackline_present::exports::calls;
use std::io::{self, Write};

/// Writes a tree in some format.
type Writer = fn(&CallTree, CallMetric, &mut dyn Write) -> io::Result<()>;

/// The writer of a format for recordings; `None` for one of traces.
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

/// Profiles of pprof are packed by habit; some readers want it so.
fn packed_pprof(tree: &CallTree, metric: CallMetric, out: &mut dyn Write) -> io::Result<()> {
    let mut packed = GzEncoder::new(out, Compression::default());
    calls::write_pprof(tree, metric, &mut packed)?;
    packed.finish().map(|_| ())
}

/// Runs the command.
pub(crate) fn run(args: &ExportArgs, common: &Common, write: Writer) -> Result<()> {
    let [run] = &args.inputs.inputs[..] else {
        return Err(wrong_use("this export is of one recording; name one run directory"));
    };
    if args.redact || common.steps.is_some() || common.rank.is_some() {
        return Err(wrong_use("--redact, --steps and --rank are for traces; a recording is exported whole"));
    }
    let tree = reading(&run_of(&args.inputs.inputs, common)?, Run::profile)?;
    let metric = metric(&tree, args.metric.as_deref())?;
    if tree.metrics.is_empty() {
        return Err(wrong_use(format!("{}: nothing was measured, so there is nothing to export", run.display())));
    }
    to_output(common, |out| write(&tree, metric, out))?;
    let mut trace = Trace::default();
    trace.meta.name = run.display().to_string();
    trace.report = tree.report;
    say_read_report(&TraceSet { traces: vec![trace] })
}
