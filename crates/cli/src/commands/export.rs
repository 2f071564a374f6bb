//! `export`: traces in the formats of other tools.

use crate::args::{Common, ExportArgs, Target};
use crate::failure::wrong_use;
use crate::output::{may_become_run, print_message, save_run, to_file, to_output};
use crate::session::{Session, reading, run_of};
use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use stackline_engine::{Part, Run};
use stackline_model::{Trace, TraceSet};
use stackline_present::exports::{chrome, csv, perfetto, redacted};
use stackline_present::human;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Run `stackline export`: write traces, call trees or memory in another format.
pub(crate) fn run(args: &ExportArgs, common: &Common) -> Result<()> {
    if let Some(write) = super::export_calls::writer(args.to) {
        return super::export_calls::run(args, common, write);
    }
    if args.to == Target::MemoryText {
        return super::export_memory::run(args, common);
    }
    for (option, is_given) in [("--metric", args.metric.is_some()), ("--imports", args.imports)] {
        if is_given {
            return Err(wrong_use(format!(
                "{option} applies only to profile formats: collapsed, speedscope, pprof, firefox, flamegraph"
            )));
        }
    }
    if common.output.is_none() && matches!(args.to, Target::Csv | Target::Parquet) {
        return Err(wrong_use("this format writes several files to a directory; give its path with -o DIRECTORY"));
    }
    if common.steps.is_some() {
        return Err(wrong_use("--steps does not apply, because export writes whole traces"));
    }
    match (args.to, &common.output) {
        (Target::Parquet, Some(run)) => may_become_run(run, args.force)?,
        (Target::Csv, Some(directory)) if !directory.exists() || directory.is_dir() => {}
        (Target::Csv, Some(file)) => {
            return Err(wrong_use(format!(
                "{} is a file, but --to csv writes several files to a directory; choose another path",
                file.display()
            )));
        }
        _ => {}
    }
    let mut run = run_of(&args.inputs.inputs, common)?.with_memory(writes_memory(args, common));
    if reading(&run, Run::parts)? == [Part::Memory] {
        return super::export_memory::lanes(args, common, &run.memories()?);
    }
    let session = Session::from_run(&mut run, common)?;
    let one = || match &session.set.traces[..] {
        [trace] => Ok(trace),
        _ => Err(wrong_use(format!(
            "--to chrome and --to perfetto export only one trace; select one with --rank {}",
            session.ranks()
        ))),
    };
    match (args.to, &common.output) {
        (Target::Chrome, Some(path)) => write_chrome(one()?, path, args.redact)?,
        (Target::Chrome, None) => {
            let trace = one()?;
            to_output(common, |out| chrome::write(trace, args.redact, out))?;
        }
        (Target::Perfetto, _) => {
            let trace = one()?;
            let memory = super::export_memory::memory_lanes(&run, trace)?;
            let traces: Vec<&Trace> = std::iter::once(trace).chain(&memory).collect();
            let mut left_out = 0;
            to_output(common, |out| {
                left_out = perfetto::write(&traces, out)?;
                Ok(())
            })?;
            if left_out > 0 {
                let events = if left_out == 1 { "event" } else { "events" };
                print_message(&format!("Not exported: {left_out} {events} without plausible times."))?;
            }
            print_shifted_clocks(one()?)?;
        }
        (Target::Csv, Some(directory)) => write_csv(&session, directory, args.force)?,
        (Target::Parquet, Some(directory)) if args.redact => {
            let traces = session.set.traces.iter().map(redacted).collect();
            save_run(&TraceSet { traces }, &[], directory, args.force)?;
        }
        (Target::Parquet, Some(directory)) => {
            let memory = if common.rank.is_none() { run.memories()? } else { run.memories_of_traces()? };
            save_run(&session.set, &memory, directory, args.force)?;
        }
        _ => {}
    }
    session.print_read_report()
}

/// Check if a command exports the memory of a recording with its traces.
fn writes_memory(args: &ExportArgs, common: &Common) -> bool {
    match args.to {
        Target::Perfetto => true,
        Target::Parquet => common.rank.is_none() && !args.redact,
        _ => false,
    }
}

/// Print the devices whose clocks differ from the host clock, since viewers show both on one time axis.
fn print_shifted_clocks(trace: &Trace) -> Result<()> {
    for clock in trace.meta.clocks.iter().filter(|c| c.shift_ns() != Some(0) || c.applied_ns != 0) {
        let shift = if clock.applied_ns == 0 { clock.shift_ns() } else { Some(clock.applied_ns) };
        let device = clock.device;
        let difference = match shift {
            Some(shift) if shift > 0 => {
                let by = human::duration(shift);
                format!("The clock of device {device} lags the host's clock by at least {by}.")
            }
            Some(shift) => {
                let by = human::duration(-shift);
                format!("The clock of device {device} leads the host's clock by at least {by}.")
            }
            None => format!(
                "The clock of device {device} is inconsistent with the host's clock, and no constant shift corrects it."
            ),
        };
        let written = if clock.applied_ns == 0 {
            "Times of this device are exported without a correction."
        } else {
            "Times of this device are exported after a shift to the host's clock."
        };
        print_message(&format!("{difference} {written}"))?;
    }
    Ok(())
}

fn write_chrome(trace: &Trace, path: &Path, redact: bool) -> Result<()> {
    let gzip = path.extension().is_some_and(|e| e == "gz");
    to_file(path, |out: &mut dyn Write| -> io::Result<()> {
        if !gzip {
            return chrome::write(trace, redact, out);
        }
        let mut packed = GzEncoder::new(out, Compression::default());
        chrome::write(trace, redact, &mut packed)?;
        packed.finish().map(|_| ())
    })
}

/// Write traces as CSV files to a directory; several traces get one subdirectory per rank.
fn write_csv(session: &Session<'_>, directory: &Path, force: bool) -> Result<()> {
    let place = |rank: i64| match session.infos.len() {
        1 => directory.to_owned(),
        _ => directory.join(format!("rank{rank}")),
    };
    let places: Vec<PathBuf> = session.infos.iter().map(|info| place(info.rank)).collect();
    if let Some(foreign) = foreign_file(directory, &places).filter(|_| !force) {
        return Err(wrong_use(format!(
            "{}: this file was not written by a CSV export and would be mixed with the exported files; choose another \
             directory, or write there anyway with --force",
            foreign.display()
        )));
    }
    for (trace, place) in session.set.traces.iter().zip(&places) {
        std::fs::create_dir_all(place).with_context(|| format!("{}: cannot create", place.display()))?;
        for (name, write) in csv::FILES {
            to_file(&place.join(name), |out| write(trace, out))?;
        }
    }
    Ok(())
}

/// Find a file in the target directories that is not part of this CSV export; the first by name.
fn foreign_file(directory: &Path, places: &[PathBuf]) -> Option<PathBuf> {
    let own = |path: &PathBuf| {
        let file = |place: &PathBuf| csv::FILES.iter().any(|(name, _)| place.join(name) == *path);
        places.iter().any(|place| place == path || file(place))
    };
    let folders = std::iter::once(directory).chain(places.iter().map(PathBuf::as_path));
    let entries = folders.filter_map(|f| std::fs::read_dir(f).ok()).flatten().flatten();
    entries.map(|e| e.path()).filter(|path| !own(path)).min()
}
