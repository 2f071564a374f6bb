//! Coverage: the shares of GPU time with a known launch, operator, Python frame, module, annotation and step.
//!
//! A share of GPU time is only as good as the part of GPU time with a known launch, operator or step. With graph
//! replay, whole steps belong to one launch call, and kernels launched before the recording have none
//! (AMD-AGI/TraceLens#827, #728). So tables with shares have a note on coverage.

use crate::{Analysis, Display, TableCommand};
use stackline_model::names::is_graph_launch;
use stackline_model::{GpuOpId, Table, Trace, Unit};
use stackline_timeline::gpu_view::gpu_coverage_note;
use stackline_timeline::stats::percent;
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const COVERAGE: Analysis = Analysis {
    name: "coverage",
    about: "Share of GPU time with a known launch, operator, Python frame, module, annotation and step",
    tables: &["coverage"],
    window: DefaultWindow::Steps,
    commands: &[
        TableCommand::Steps,
        TableCommand::Kernels,
        TableCommand::Operators,
        TableCommand::Collectives,
        TableCommand::Timeline,
    ],
    display: Display::All,
    run,
};

/// Known origins of a GPU operation, in the order of the rows.
const KNOWN: [&str; 7] = ["launch", "operator", "python", "module", "annotation", "step", "graph_launch"];

/// Sum up count and time of the GPU operations in the scope by known origin, for table `coverage`.
fn run(trace: &Trace, scope: &Scope) -> Vec<Table> {
    let mut operations = 0i64;
    let mut total = 0i64;
    let mut counts = [0i64; KNOWN.len()];
    let mut times = [0i64; KNOWN.len()];
    let work = scope.gpu_work(trace);
    for id in trace.gpu.ids().filter(|&id| work.has(id)) {
        let event = trace.gpu.event[id.index()];
        if !trace.events.is_plausible(event) {
            continue;
        }
        let dur = trace.events.dur[event.index()];
        operations += 1;
        total = total.saturating_add(dur);
        for (i, known) in known(trace, id).into_iter().enumerate() {
            counts[i] += i64::from(known);
            times[i] = times[i].saturating_add(if known { dur } else { 0 });
        }
    }
    vec![table(operations, total, &counts, &times)]
}

/// Flag for each kind of origin in [`KNOWN`]: true if it is known for a GPU operation.
fn known(trace: &Trace, id: GpuOpId) -> [bool; KNOWN.len()] {
    let gpu = &trace.gpu;
    let i = id.index();
    let launch = gpu.launch[i];
    [
        launch.is_some(),
        gpu.operator[i].is_some(),
        gpu.python[i].is_some(),
        gpu.module[i].is_some(),
        gpu.annotation[i].is_some(),
        (gpu.step[i] as usize) < trace.steps.len(),
        launch.is_some() && is_graph_launch(trace.name(launch)),
    ]
}

/// Create a note on coverage: the share of GPU time with a known launch, operator and step. Covers the plausible GPU
/// operations in a scope.
pub(super) fn note(trace: &Trace, scope: &Scope) -> String {
    let work = scope.gpu_work(trace);
    let counts = |id: &GpuOpId| work.has(*id) && trace.events.is_plausible(trace.gpu.event[id.index()]);
    gpu_coverage_note(trace, trace.gpu.ids().filter(counts))
}

/// Add the coverage note of a scope ([`note`]) to each non-empty table that has a percent column.
pub(super) fn with_coverage_note(tables: Vec<Table>, trace: &Trace, scope: &Scope) -> Vec<Table> {
    let note = note(trace, scope);
    let shows_shares = |t: &Table| t.rows() > 0 && t.columns.iter().any(|c| c.unit == Unit::Percent);
    tables.into_iter().map(|t| if shows_shares(&t) { t.note(note.clone()) } else { t }).collect()
}

/// Create table `coverage` from totals, and from counts and times (ns) per kind of origin in the order of [`KNOWN`].
fn table(operations: i64, total: i64, counts: &[i64], times: &[i64]) -> Table {
    let share = |part: i64, whole: i64| percent(part as f64, whole as f64);
    let table = Table::new("coverage", "Share of GPU time with a known launch, operator, source location or step")
        .text("known", KNOWN.map(|k| Some(k.to_owned())))
        .f64("gpu_time_percent", Unit::Percent, times.iter().map(|&t| share(t, total)))
        .i64("gpu_time_ns", Unit::Ns, times.iter().copied())
        .i64("gpu_time_total_ns", Unit::Ns, times.iter().map(|_| total))
        .i64("operations", Unit::None, counts.iter().copied())
        .i64("operations_total", Unit::None, counts.iter().map(|_| operations))
        .f64("operations_percent", Unit::Percent, counts.iter().map(|&c| share(c, operations)));
    let Some(graph) = share(times[KNOWN.len() - 1], total).filter(|&p| p > 0.0) else {
        return if operations == 0 { table.note("The trace has no GPU operations in this scope.") } else { table };
    };
    table.note(format!(
        "CUDA graphs ran for {graph:.1} % of the GPU time. This time counts for the operator and the step that \
         launched the graph."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::{EventId, EventKind, Key, NewEvent, Phase, StrId, TrackKind, Values, flags};

    fn event(trace: &mut Trace, name: &str, kind: EventKind, start: i64, dur: i64, flag: u8) -> EventId {
        let name = trace.strings.intern(name);
        let track = trace.tracks.track(Key::Int(0), Key::Int(1), TrackKind::Thread);
        trace.attrs.push(&[], &[]);
        trace.events.push(NewEvent {
            start,
            dur,
            track,
            name,
            category: StrId::NONE,
            kind,
            phase: Phase::Complete,
            flags: flags::HAS_DURATION | flag,
            source_index: 0,
        })
    }

    fn gpu(trace: &mut Trace, event: EventId, launch: EventId, operator: EventId) {
        let gpu = &mut trace.gpu;
        gpu.event.push(event);
        gpu.correlation.push(1);
        gpu.device.push(0);
        gpu.stream.push(7);
        gpu.launch.push(launch);
        gpu.operator.push(operator);
        gpu.python.push(EventId::NONE);
        gpu.module.push(EventId::NONE);
        gpu.annotation.push(EventId::NONE);
        gpu.step.push(u32::MAX);
    }

    #[test]
    fn shares_use_plausible_gpu_time() {
        let mut trace = Trace::default();
        let launch = event(&mut trace, "cudaGraphLaunch", EventKind::Runtime, 0, 5, 0);
        let operator = event(&mut trace, "aten::mm", EventKind::Operator, 0, 9, 0);
        for (dur, l, o, flag) in [
            (30, launch, operator, 0),
            (10, launch, EventId::NONE, 0),
            (60, EventId::NONE, EventId::NONE, 0),
            (1_000, launch, operator, flags::IMPLAUSIBLE),
        ] {
            let kernel = event(&mut trace, "k", EventKind::Kernel, 10, dur, flag);
            gpu(&mut trace, kernel, l, o);
        }
        let tables = run(&trace, &Scope::default());
        let column = |name: &str| tables[0].column(name).map(|c| c.values.clone());
        let percent = [40.0, 30.0, 0.0, 0.0, 0.0, 0.0, 40.0].map(Some).to_vec();
        assert_eq!(column("gpu_time_percent"), Some(Values::F64(percent)));
        assert_eq!(column("operations"), Some(Values::I64([2, 1, 0, 0, 0, 0, 2].map(Some).to_vec())));
        assert_eq!(tables[0].notes.len(), 1);
        let expected = "Coverage: of the GPU time, 40.0 % has a known launch, 30.0 % a known operator and 0.0 % a known \
                        step.";
        assert_eq!(note(&trace, &Scope::default()), expected);
    }

    #[test]
    fn without_gpu_work_there_is_no_share() {
        let tables = run(&Trace::default(), &Scope::default());
        assert_eq!(tables[0].column("gpu_time_percent").map(|c| &c.values), Some(&Values::F64(vec![None; 7])));
        assert!(tables[0].notes[0].contains("no GPU operations"));
    }
}
