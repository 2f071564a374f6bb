//! `doctor`: content of an input, missing data by analysis, and instructions to record it; or facts about this machine.

use super::{doctor_advice, doctor_calls, doctor_memory};
use crate::args::{Common, DoctorArgs, Format};
use crate::output::Answer;
use crate::session::{Session, reading, run_of};
use crate::view::{select, text};
use anyhow::Result;
use stackline_engine::{CollectiveEnds, Part, Run};
use stackline_model::{EventKind, ReadReport, Table, Trace, Unit};
use std::io::IsTerminal;

/// Run `stackline doctor`: describe the inputs, or this machine if there are none.
pub(crate) fn run(args: &DoctorArgs, common: &Common) -> Result<()> {
    let (session, tables) = if args.inputs.is_empty() {
        (Session::empty(common), vec![machine(common)])
    } else {
        let mut run = run_of(&args.inputs, common)?;
        match reading(&run, Run::parts)?[..] {
            [Part::Profile, ..] => doctor_calls::tables(&run, common)?,
            [Part::Memory] => doctor_memory::tables(&run, common)?,
            _ => {
                let session = Session::from_run(&mut run, common)?;
                let tables = traces(&session)?;
                (session, tables)
            }
        }
    };
    let tables = session.select_tables(tables)?;
    let shown = (common.format == Format::Table).then(|| tables.iter().map(for_people).collect());
    Answer { command: "doctor", session: &session, extra: Vec::new(), tables, head: String::new(), shown }.write(common)
}

/// Tables for traces: inputs, content, missing data with advice, and clocks.
fn traces(session: &Session<'_>) -> Result<Vec<Table>> {
    let mut tables = vec![inputs(session), contents(session), advice(session)];
    tables.extend(session.run(stackline_analyze::analyses::find("clocks"))?);
    if session.set.traces.len() > 1 {
        let ends: Vec<CollectiveEnds> = session.set.traces.iter().map(CollectiveEnds::from_trace).collect();
        tables.push(stackline_engine::rank_clock_table(&stackline_engine::ranks(&session.set), &ends));
    }
    Ok(tables)
}

/// Move the advice of a table from a column, in which it would be cut, to notes below the table.
fn for_people(table: &Table) -> Table {
    let columns: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).filter(|c| *c != "advice").collect();
    let mut shown = select(table, &columns);
    for row in 0..table.rows() {
        if let (Some(what), Some(advice)) = (text(table, "what", row), text(table, "advice", row)) {
            shown.notes.push(format!("{what}: {advice}."));
        }
    }
    shown
}

/// Table of facts about this machine: cores, available memory, terminal and environment variables.
fn machine(common: &Common) -> Table {
    let cores = std::thread::available_parallelism().map_or_else(|e| e.to_string(), |n| n.to_string());
    let terminal = match terminal_size::terminal_size() {
        Some((width, height)) => format!("{} x {}", width.0, height.0),
        None => "none".to_owned(),
    };
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| "not set".to_owned());
    let facts = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("system", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
        ("cores", cores),
        (
            "threads",
            if common.threads == 0 { "one worker thread per CPU core".to_owned() } else { common.threads.to_string() },
        ),
        ("memory_available", memory().unwrap_or_else(|| "unknown".to_owned())),
        ("terminal", terminal),
        ("standard_error_is_terminal", std::io::stderr().is_terminal().to_string()),
        ("NO_COLOR", variable("NO_COLOR")),
        ("COLUMNS", variable("COLUMNS")),
        ("TERM", variable("TERM")),
        ("analyses", stackline_analyze::analyses::ALL.len().to_string()),
    ];
    Table::new("machine", "This machine")
        .text("fact", facts.iter().map(|f| f.0.to_owned()))
        .text("value", facts.iter().map(|f| f.1.clone()))
        .note("Opening a trace needs about as much memory as its uncompressed text. To check a trace, give its path.")
}

/// Available memory of this machine, as text with a unit (from `/proc/meminfo`, Linux).
fn memory() -> Option<String> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(stackline_present::human::bytes(kib * 1024))
}

/// State of reading: complete, or with repaired, skipped or lost records.
pub(super) fn state(report: &ReadReport) -> &'static str {
    if report.is_clean() {
        "no record was repaired, skipped or lost"
    } else {
        "some records were repaired, skipped or lost (see Read report below)"
    }
}

/// Table of the traces: format, rank, numbers of records and events, window, and state of reading.
fn inputs(session: &Session<'_>) -> Table {
    let (traces, infos) = (&session.set.traces, &session.infos);
    Table::new("inputs", "Inputs")
        .text("name", infos.iter().map(|i| i.name.clone()))
        .text("format", infos.iter().map(|i| i.format.clone()))
        .i64("rank", Unit::None, infos.iter().map(|i| i.rank))
        .bool("rank_from_file", infos.iter().map(|i| i.rank_from_file))
        .i64("text_bytes", Unit::Bytes, traces.iter().map(|t| i64::try_from(t.report.bytes).unwrap_or(i64::MAX)))
        .i64("records", Unit::None, traces.iter().map(|t| i64::try_from(t.report.records).unwrap_or(i64::MAX)))
        .i64("events", Unit::None, infos.iter().map(|i| i.events as i64))
        .i64("window_ns", Unit::Ns, infos.iter().map(stackline_present::TraceInfo::window_ns))
        .text("state", traces.iter().map(|t| state(&t.report).to_owned()))
}

/// Table with the number of events of each kind in all traces.
fn contents(session: &Session<'_>) -> Table {
    let count = |kind: EventKind| {
        let count_of = |t: &Trace| t.events.kind.iter().filter(|&&k| k == kind).count();
        session.set.traces.iter().map(count_of).sum::<usize>() as i64
    };
    let kinds: Vec<(&str, i64)> =
        EventKind::ALL.iter().map(|&k| (k.name(), count(k))).filter(|(_, n)| *n > 0).collect();
    Table::new("contents", "Number of events of each kind in all inputs")
        .text("kind", kinds.iter().map(|(k, _)| (*k).to_owned()))
        .i64("events", Unit::None, kinds.iter().map(|(_, n)| *n))
}

/// Kind of data that analyses need, such as GPU operations, with a test for it and instructions to record it.
struct Need {
    name: &'static str,
    /// Analyses that use the data.
    for_what: &'static str,
    /// Instructions to record the data.
    advice: &'static str,
    has: fn(&Trace) -> bool,
}

fn has_kind(trace: &Trace, is_kind: impl Fn(EventKind) -> bool) -> bool {
    trace.events.kind.iter().any(|&k| is_kind(k))
}

/// Check if any event of the trace has a value for the attribute.
fn has_attr(trace: &Trace, name: &str) -> bool {
    trace.attr(name).exists()
}

const fn need(name: &'static str, for_what: &'static str, advice: &'static str, has: fn(&Trace) -> bool) -> Need {
    Need { name, for_what, advice, has }
}

const NEEDS: &[Need] = &[
    need(
        "gpu_operations",
        "commands timeline and kernels, and GPU times in all analyses",
        "record with ProfilerActivity.CUDA (or XPU, MTIA), and run work on the device while recording",
        |t| !t.gpu.is_empty(),
    ),
    need("operators", "commands operators and critical-path", "record with ProfilerActivity.CPU", |t| {
        has_kind(t, |k| k == EventKind::Operator)
    }),
    need(
        "launches",
        "command critical-path, launch delays, causes of GPU idle time, launch call of each kernel",
        "start recording before the GPU work is launched (schedule with warmup), with ProfilerActivity.CPU",
        doctor_advice::has_launch_calls,
    ),
    need("steps", "command steps, option --steps, table coverage", "call profiler.step() after each iteration", |t| {
        !t.steps.is_empty()
    }),
    need("python_frames", "Python source line that launched each kernel", "record with with_stack=True", |t| {
        has_kind(t, |k| k == EventKind::PythonFunction)
    }),
    need("modules", "nn.Module that launched each kernel", "record with with_stack=True and with_modules=True", |t| {
        t.gpu.module.iter().any(|m| m.is_some())
    }),
    need(
        "shapes",
        "input shapes of operators in the tables operators and ops_unique_args",
        "record with record_shapes=True",
        |t| has_attr(t, "Input Dims"),
    ),
    need("memory", "allocated memory over time", "record with profile_memory=True", |t| {
        has_kind(t, |k| k == EventKind::Memory)
    }),
    need(
        "collective_sizes",
        "bandwidth of each collective (command collectives)",
        "use PyTorch 2.2 or later; older versions do not write sizes of collectives",
        |t| has_attr(t, "In msg nelems"),
    ),
    need(
        "synchronisation_records",
        "waits of streams and of the host for GPU work (command critical-path)",
        "record with experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)",
        |t| has_kind(t, |k| k == EventKind::Sync),
    ),
    need(
        "rank",
        "separate results for each rank of a job",
        "record after init_process_group, or write the rank into the file name (rank0.json)",
        |t| t.meta.rank.is_some(),
    ),
];

/// The format of traces that `record` made.
const RECORDING: &str = "recording";

/// Instructions for recordings that lack data, by name of the need.
const RECORDED: &[(&str, &str)] = &[
    ("gpu_operations", "`record` does not record GPU operations yet; use torch.profiler"),
    ("operators", "record a part of the program in which PyTorch operators run"),
    ("launches", "`record` does not record GPU operations yet; use torch.profiler"),
    ("steps", "record a part of the program with optimizer steps, or mark steps with stackline.span('ProfilerStep#1')"),
    ("python_frames", "remove `--disable python` from the record command"),
    ("modules", "modules are shown only for GPU operations, which `record` does not record yet; use torch.profiler"),
    ("shapes", "record with --shapes"),
    (
        "memory",
        "record with --memory to see allocated memory in `calls --metric allocated`; add --mode trace to see owners of \
         memory in the command `memory`",
    ),
    ("synchronisation_records", "`record` does not record GPU operations yet; use torch.profiler"),
];

/// Check if the needed data does not apply to a trace, such as sizes of collectives in a trace without collectives. A
/// truncated trace may have lost the data.
fn is_inapplicable(trace: &Trace, need: &str) -> bool {
    need == "collective_sizes" && !doctor_advice::is_cut(trace) && !doctor_advice::has_collectives(trace)
}

/// Table of the data that analyses need: if the traces have it, and otherwise advice to record it.
fn advice(session: &Session<'_>) -> Table {
    let traces = &session.set.traces;
    // Traces to which a kind of data does not apply do not count as traces without this data.
    let with = |n: &Need| traces.iter().filter(|t| (n.has)(t)).count();
    let concerned = |n: &Need| traces.iter().filter(|t| (n.has)(t) || !is_inapplicable(t, n.name)).count();
    let state = |n: &Need| match (with(n), concerned(n)) {
        (0, 0) => "no collectives".to_owned(),
        (0, _) => "missing".to_owned(),
        (with, count_of) if with == count_of => "there".to_owned(),
        (with, count_of) => format!("in {with} of {count_of} traces"),
    };
    let is_recording = traces.iter().any(|t| t.meta.format == RECORDING);
    let how =
        |n: &Need| RECORDED.iter().find(|(name, _)| is_recording && *name == n.name).map_or(n.advice, |(_, how)| how);
    let lacks = |n: &Need| traces.iter().find(|t| !(n.has)(t) && !is_inapplicable(t, n.name));
    let of_recording = |n: &Need| is_recording && RECORDED.iter().any(|(name, _)| *name == n.name);
    let of_trace = |t, n: &Need| doctor_advice::advice(t, n.name, !of_recording(n));
    let advice = |n: &Need| lacks(n).map(|t| of_trace(t, n).unwrap_or_else(|| how(n).to_owned()));
    Table::new("readiness", "Data needed by the analyses")
        .text("what", NEEDS.iter().map(|n| n.name.to_owned()))
        .text("state", NEEDS.iter().map(state))
        .text("needed_for", NEEDS.iter().map(|n| n.for_what.to_owned()))
        .text("advice", NEEDS.iter().map(advice))
}
