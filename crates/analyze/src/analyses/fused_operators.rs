//! Original operators of fused kernels, one row per kernel, from lists in XLA's programs and from names of
//! TorchInductor's kernels.

use crate::{Analysis, Display, TableCommand};
use stackline_model::{Fusion, GpuRecords, Table, Trace, Unit};
use stackline_timeline::scope::{GpuFilter, HostFilter};
use stackline_timeline::{DefaultWindow, Scope};
use std::cmp::Reverse;

/// The registered analysis.
pub(super) const ANALYSIS: Analysis = Analysis {
    name: "fused_operators",
    about: "Original operators of each fused kernel, with the evidence for them (compiled program or kernel name)",
    tables: &["fused_operators"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Kernels],
    display: Display::Except(&["fused_operators"]),
    run,
};

/// A fused kernel with the counts and total time (ns) of its device operations and host operators in the window.
struct Row<'a> {
    fusion: &'a Fusion,
    /// Number of device operations, and their total time in ns.
    operations: i64,
    total: i64,
    /// Number of host operators.
    calls: i64,
}

impl<'a> Row<'a> {
    /// Count the device operations of a fused kernel in the window, with their total time, and its host operators.
    fn from_trace(trace: &Trace, fusion: &'a Fusion, (host, work): (&HostFilter<'_>, &GpuFilter<'_>)) -> Self {
        let mut row = Self { fusion, operations: 0, total: 0, calls: 0 };
        for &event in &fusion.events {
            match trace.gpu.of_event(event) {
                Some(operation) if work.has(operation) && trace.events.is_plausible(event) => {
                    row.operations += 1;
                    row.total = row.total.saturating_add(trace.events.dur[event.index()]);
                }
                None if host.has(event) => row.calls += 1,
                _ => {}
            }
        }
        row
    }
}

/// Create table `fused_operators` of the fused kernels in the window, largest total time first.
fn run(trace: &Trace, scope: &Scope) -> Vec<Table> {
    let (host, work) = (scope.host_work(trace), scope.gpu_work(trace));
    let fusions = trace.fusions();
    let all = fusions.iter().map(|fusion| Row::from_trace(trace, fusion, (&host, &work)));
    let mut rows: Vec<Row<'_>> = all.filter(|row| row.operations + row.calls > 0).collect();
    rows.sort_by_key(|row| Reverse((row.total, row.calls)));
    let records = trace.gpu_records();
    let table = records.note().into_iter().fold(table(trace, &rows, records), Table::note);
    vec![match (fusions.is_empty(), rows.is_empty()) {
        (true, _) => table.note("The trace has no kernel that is known to be fused."),
        (false, true) => table.note("The window contains no fused kernel; --whole covers the whole trace."),
        (false, false) => table,
    }]
}

/// Create table `fused_operators`. Counts and times are empty where missing GPU records leave them unknown.
fn table(trace: &Trace, rows: &[Row<'_>], records: &GpuRecords) -> Table {
    // A kernel without operation is only known as such if operations are recorded.
    let are_recorded = records.are_any() && !records.lack_launches;
    let known = |row: &Row<'_>, value: i64| (row.operations > 0 || are_recorded).then_some(value);
    Table::new("fused_operators", "Original operators of fused kernels")
        .text("name", rows.iter().map(|row| trace.strings.get(row.fusion.name).to_owned()))
        .text("operators", rows.iter().map(|row| row.fusion.operators.join("; ")))
        .i64("operator_count", Unit::None, rows.iter().map(|row| row.fusion.operators.len() as i64))
        .text("evidence", rows.iter().map(|row| row.fusion.evidence.name().to_owned()))
        .i64("count", Unit::None, rows.iter().map(|row| known(row, row.operations)))
        .i64("total_ns", Unit::Ns, rows.iter().map(|row| known(row, row.total)))
        .i64("calls", Unit::None, rows.iter().map(|row| row.calls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Values;
    use stackline_testkit::mini;

    #[test]
    fn inductor_kernel_names_give_their_operators() {
        let json = mini::trace(
            "1/1     cpu_op        triton_poi_fused__to_copy_add_0  0..20
             1/1     cuda_driver   cuLaunchKernel                   5..10   correlation=1
             gpu0/7  kernel        triton_poi_fused__to_copy_add_0  30..40  correlation=1
             gpu0/7  kernel        gemm                             40..90",
        );
        let trace = stackline_ingest::read_bytes("t", json.as_bytes(), &Default::default()).unwrap();
        let table = &run(&trace, &Scope::default())[0];
        let text = |column: &str| match &table.column(column).unwrap().values {
            Values::Str(values) => values.iter().flatten().cloned().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        let number = |column: &str| match &table.column(column).unwrap().values {
            Values::I64(values) => values.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text("operators"), ["_to_copy; add"]);
        assert_eq!(text("evidence"), ["kernel_name"]);
        assert_eq!(
            (number("count"), number("total_ns"), number("calls")),
            (vec![Some(1)], vec![Some(10_000)], vec![Some(1)])
        );
    }

    #[test]
    fn unrecorded_gpu_time_is_absent() {
        let counts = |with_kernels: bool| {
            let kernel = "gpu0/7 kernel gemm 40..90 correlation=2";
            let json = mini::trace(&format!(
                "1/1     cpu_op        triton_poi_fused_add_mul_0  0..20
                 1/1     cuda_driver   cuLaunchKernel              5..10   correlation=1
                 1/1     cuda_driver   cuLaunchKernel              15..18  correlation=2
                 {}",
                if with_kernels { kernel } else { "" }
            ));
            let trace = stackline_ingest::read_bytes("t", json.as_bytes(), &Default::default()).unwrap();
            let table = &run(&trace, &Scope::default())[0];
            let number = |column: &str| match &table.column(column).unwrap().values {
                Values::I64(values) => values[0],
                other => panic!("{other:?}"),
            };
            let is_noted = table.notes.iter().any(|note| note.contains("1 of 2 launches have no device record"));
            ([number("count"), number("total_ns"), number("calls")], is_noted)
        };
        assert_eq!(
            counts(false),
            ([None, None, Some(1)], false),
            "of a trace without GPU operations nothing is incomplete"
        );
        assert_eq!(counts(true), ([None, None, Some(1)], true));
    }

    #[test]
    fn trace_without_fused_kernels_has_a_note() {
        let table = &run(&Trace::default(), &Scope::default())[0];
        assert_eq!((table.rows(), table.notes.len()), (0, 1));
    }
}
