//! Conversion of recording options to environment variables, which the recorder reads.

use crate::args::{Common, Format, Mode, RecordArgs};
use crate::failure::wrong_use;
use anyhow::Result;
use stackline_ingest::recording::{COUNTERS, MAX_COUNTERS};
use std::ffi::OsString;

/// Sources that can be disabled.
const SOURCES: &[&str] = &["python", "pytorch", "compilations", "kernels"];

/// Environment variables of the recorder for the given options. Other variables keep their value.
pub(super) fn variables(args: &RecordArgs, common: &Common) -> Result<Vec<(&'static str, OsString)>> {
    let (disabled, wall_hz) = (disabled_sources(args), args.wall_hz.or(args.real_hz));
    if let Some(unknown) = disabled.iter().find(|name| !SOURCES.contains(&name.as_str())) {
        return Err(wrong_use(format!("unknown data source {unknown:?}; --disable accepts: {}", SOURCES.join(", "))));
    }
    if let Some(unknown) = args.counters.iter().find(|name| !COUNTERS.contains(&name.as_str())) {
        return Err(wrong_use(format!("unknown counter {unknown:?}; --counters accepts: {}", COUNTERS.join(", "))));
    }
    if args.counters.len() > MAX_COUNTERS {
        return Err(wrong_use(format!(
            "--counters: {} counters were given, but at most {MAX_COUNTERS} can be read",
            args.counters.len()
        )));
    }
    if !args.counters.is_empty() && args.sample_hz == Some(0) && wall_hz.unwrap_or(0) == 0 {
        return Err(wrong_use(
            "--counters needs samples, because counters are read with each sample; leave --sample-hz 0 out",
        ));
    }
    if common.format != Format::Table || !common.tables.is_empty() || common.limit.is_some() {
        return Err(wrong_use(
            "`record` writes a run directory and prints no table: leave --format, --table and --limit out, and use \
             them with `stackline calls RUN` afterwards",
        ));
    }
    if common.clip_overlaps {
        return Err(wrong_use("`record` records no GPU operations, so --clip-overlaps has no effect; leave it out"));
    }
    if common.rank.is_some() {
        return Err(wrong_use(
            "--rank does not apply: `record` records all ranks, and `stackline calls --by rank` separates them",
        ));
    }
    if args.shapes && disabled.iter().any(|name| name == "pytorch") {
        return Err(wrong_use("--shapes needs PyTorch operators, which --disable pytorch disables"));
    }
    let mut variables: Vec<(&'static str, OsString)> = Vec::new();
    let mut set = |name, value: Option<String>| variables.extend(value.map(|value| (name, value.into())));
    let number = |value: Option<u32>| value.map(|value| value.to_string());
    set("STACKLINE_DISABLE", (!disabled.is_empty()).then(|| disabled.join(",")));
    set("STACKLINE_NATIVE", args.native.then(|| "1".to_owned()));
    set("STACKLINE_MEMORY", args.memory.then(|| "1".to_owned()));
    set("STACKLINE_SHAPES", args.shapes.then(|| "1".to_owned()));
    set("STACKLINE_MODE", args.mode.map(|mode| mode_name(mode).to_owned()));
    set("STACKLINE_SAMPLE_HZ", number(args.sample_hz));
    set("STACKLINE_WALL_HZ", number(wall_hz));
    set("STACKLINE_WAIT_HZ", number(args.wait_hz));
    set("STACKLINE_COUNTERS", (!args.counters.is_empty()).then(|| args.counters.join(",")));
    set("STACKLINE_MAX_NODES", number(args.max_nodes));
    set("STACKLINE_OVERHEAD_STEPS", number(args.overhead_steps));
    set("STACKLINE_EVERY", number(args.every));
    set("STACKLINE_AFTER", args.after.clone());
    set("STACKLINE_DURATION", args.duration.clone());
    if let Some(steps) = common.steps {
        if steps.first < 0 {
            return Err(wrong_use(format!("--steps: steps are numbered from 0, not {}", steps.first)));
        }
        if steps.cycle.is_some() {
            return Err(wrong_use(format!(
                "--steps {steps}: a recording has no profiler cycles; omit the @ and the number after it"
            )));
        }
        set("STACKLINE_STEPS", Some(format!("{}..{}", steps.first, steps.last)));
    }
    Ok(variables)
}

/// Warnings about former option names that were given, one line each.
pub(super) fn former_name_warnings(args: &RecordArgs) -> Vec<String> {
    let names =
        [("--without", "--disable", !args.without.is_empty()), ("--real-hz", "--wall-hz", args.real_hz.is_some())];
    let given = names.into_iter().filter(|&(_, _, is_given)| is_given);
    given.map(|(old, new, _)| format!("{old} is now called {new}; the old name will be removed")).collect()
}

/// Sources to disable, given by --disable or by its former name. clap refuses both together.
fn disabled_sources(args: &RecordArgs) -> &[String] {
    if args.disable.is_empty() { &args.without } else { &args.disable }
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Profile => "profile",
        Mode::Trace => "trace",
    }
}
