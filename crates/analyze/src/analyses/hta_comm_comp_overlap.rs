//! Share of GPU communication time that overlaps with computation kernels.
//!
//! The share of the time with at least one running communication kernel in which a computation kernel also runs, on any
//! streams of the device. The exact table is per device in nanoseconds. HTA's table (HTA 0.6.1 `get_comm_comp_overlap`)
//! covers all rows with a stream, in microseconds, by HTA's name rules. The value is empty without communication.

use super::coverage::with_coverage_note;
use super::hta_kernel_breakdown::overlaps;
use crate::hta_rows::HtaRows;
use crate::{Analysis, Display, TableCommand};
use stackline_model::{Table, Trace, Unit};
use stackline_timeline::intervals::{intersect, total, union};
use stackline_timeline::kernel_type::{HTA_RULES, KernelType, NameTypes, RULES};
use stackline_timeline::stats::percent;
use stackline_timeline::stats::round;
use stackline_timeline::{DefaultWindow, Scope};
use std::collections::BTreeMap;

/// The registered analysis.
pub const ANALYSIS: Analysis = Analysis {
    name: "hta_comm_comp_overlap",
    about: "Share of communication time that overlaps with computation",
    tables: &["comm_comp_overlap", "hta_comm_comp_overlap"],
    window: DefaultWindow::WholeAs("HTA"),
    commands: &[TableCommand::Collectives],
    display: Display::All,
    run: |trace, scope| with_coverage_note(vec![exact(trace, scope), hta(&HtaRows::load(trace, scope))], trace, scope),
};

type Spans = Vec<(i64, i64)>;

/// Table `comm_comp_overlap` (times not rounded, unlike HTA): one row per device with communication or computation.
pub fn exact(trace: &Trace, scope: &Scope) -> Table {
    let mut types = NameTypes::new(trace, RULES);
    let mut devices: BTreeMap<i32, (Spans, Spans)> = BTreeMap::new();
    let work = scope.gpu_work(trace);
    for gpu in trace.gpu.ids().filter(|&g| work.has(g)) {
        let event = trace.gpu.event[gpu.index()];
        if trace.events.is_plausible(event) {
            let span = (trace.events.start[event.index()], trace.events.end(event));
            let of_device = devices.entry(trace.gpu.device[gpu.index()]).or_default();
            match types.of_event(event) {
                KernelType::Computation => of_device.0.push(span),
                KernelType::Communication => of_device.1.push(span),
                _ => {}
            }
        }
    }
    let rows: Vec<(i32, i64, i64, i64)> = devices
        .into_iter()
        .map(|(device, (comp, comm))| {
            let (comp, comm) = (union(comp), union(comm));
            (device, total(&comp), total(&comm), total(&intersect(&comp, &comm)))
        })
        .collect();
    Table::new("comm_comp_overlap", "Communication overlapped by computation (times not rounded)")
        .i64("device", Unit::None, rows.iter().map(|r| i64::from(r.0)))
        .i64("computation_ns", Unit::Ns, rows.iter().map(|r| r.1))
        .i64("communication_ns", Unit::Ns, rows.iter().map(|r| r.2))
        .i64("overlap_ns", Unit::Ns, rows.iter().map(|r| r.3))
        .f64("overlap_pct", Unit::Percent, rows.iter().map(|r| percent(r.3 as f64, r.2 as f64)))
}

/// HTA's table `hta_comm_comp_overlap`: one row with the overlap in percent.
pub fn hta(rows: &HtaRows) -> Table {
    let mut types = NameTypes::new(rows.trace, HTA_RULES);
    let mut spans = vec![Vec::new(), Vec::new()];
    for row in rows.gpu() {
        match types.type_of(row.name) {
            KernelType::Communication => spans[0].push((row.ts, row.end())),
            KernelType::Computation => spans[1].push((row.ts, row.end())),
            _ => {}
        }
    }
    let communication = total(&union(spans[0].iter().copied()));
    let both = overlaps(spans).get(&3).copied().unwrap_or(0.0);
    let percent = (communication != 0.0).then(|| round(100.0 * (both / communication), 2));
    Table::new("hta_comm_comp_overlap", "Communication overlapped by computation as HTA 0.6.1 counts it").f64(
        "comp_comm_overlap_pctg",
        Unit::Percent,
        [percent],
    )
}
