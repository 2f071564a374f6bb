//! GPU time by computation, other work and idle time, as HTA counts it.
//!
//! HTA 0.6.1 `get_temporal_breakdown`: over all rows with a stream, in microseconds, from the first start to the last
//! end (`kernel_time`). `idle`: no row runs; `compute`: a computation row runs; `non_compute`: the rest, which is
//! communication, memory, and other rows. If rounding made durations negative, HTA's sums can be impossible (less busy
//! time than computation). HTA fails then, and this table has no row but a note.
//!
//! The analysis `gpu_time` has the exact division, with separate communication and memory and with causes of idle time.

use super::coverage::with_coverage_note;
use crate::hta_rows::HtaRows;
use crate::{Analysis, Display, TableCommand};
use stackline_model::{Table, Unit};
use stackline_timeline::DefaultWindow;
use stackline_timeline::intervals::{total, union};
use stackline_timeline::kernel_type::{HTA_RULES, KernelType, NameTypes};
use stackline_timeline::stats::round;

/// The registered analysis.
pub const ANALYSIS: Analysis = Analysis {
    name: "hta_temporal_breakdown",
    about: "GPU time in computation, in other work and idle, in whole µs as HTA counts it (table gpu_time has ns)",
    tables: &["hta_temporal_breakdown"],
    window: DefaultWindow::WholeAs("HTA"),
    commands: &[TableCommand::Timeline],
    display: Display::All,
    run: |trace, scope| with_coverage_note(vec![hta(&HtaRows::load(trace, scope))], trace, scope),
};

/// HTA's table `hta_temporal_breakdown`: one row with GPU idle, computation and other time. Empty without GPU rows, or
/// if HTA's sums give a negative time.
pub fn hta(rows: &HtaRows) -> Table {
    let mut types = NameTypes::new(rows.trace, HTA_RULES);
    let merged = union(rows.gpu().map(|r| (r.ts, r.end())));
    let compute =
        union(rows.gpu().filter(|r| types.type_of(r.name) == KernelType::Computation).map(|r| (r.ts, r.end())));
    let line = merged.first().zip(merged.last()).map(|(first, last)| {
        let kernel = last.1 - first.0;
        let (idle, compute) = (kernel - total(&merged), total(&compute));
        [idle, compute, kernel - compute - idle, kernel]
    });
    let possible = line.filter(|l| l[2] >= 0.0);
    let us = |i: usize| possible.iter().map(move |l| l[i]);
    let percent = |i: usize| possible.iter().map(move |l| (l[3] > 0.0).then(|| round(100.0 * (l[i] / l[3]), 2)));
    let mut table = Table::new("hta_temporal_breakdown", "Temporal breakdown as HTA 0.6.1 counts it");
    for (i, name) in ["idle_time_us", "compute_time_us", "non_compute_time_us", "kernel_time_us"].iter().enumerate() {
        table = table.f64(name, Unit::Us, us(i));
    }
    for (i, name) in ["idle_time_pct", "compute_time_pct", "non_compute_time_pct"].iter().enumerate() {
        table = table.f64(name, Unit::Percent, percent(i));
    }
    match (line, possible) {
        (None, _) => table.note("The trace has no event on a GPU stream."),
        (Some(_), None) => table.note(
            "HTA fails on this trace: after HTA's rounding to µs, computation time exceeds the GPU's busy \
                        time.",
        ),
        _ => rows.note_negative(table),
    }
}
