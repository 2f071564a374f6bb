//! Recorded counter values, one row per value.

use crate::{Analysis, Display, TableCommand};
use stackline_model::{CounterSeries, CounterTable, Table, Trace, Unit};
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const ANALYSIS: Analysis = Analysis {
    name: "counters",
    about: "Values of counters over time: clocks, utilization, memory, hardware counters",
    tables: &["counters"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Timeline],
    display: Display::OnRequest,
    run,
};

/// Create table `counters`: values in the window, in time order; with a note instead of rows if there are none.
fn run(trace: &Trace, scope: &Scope) -> Vec<Table> {
    let counters = CounterTable::from_trace(trace);
    let host = scope.host_work(trace);
    let mut rows: Vec<(&CounterSeries, i64, f64)> =
        counters.iter().filter(|(_, time, _)| host.has_time(*time)).collect();
    rows.sort_by_key(|(_, time, _)| *time);
    let text = |of: fn(&CounterSeries) -> stackline_model::StrId| {
        rows.iter().map(move |(series, ..)| Some(trace.strings.get(of(series)).to_owned()))
    };
    let unit = |series: &CounterSeries| Some(series.unit(trace).suffix().to_owned()).filter(|unit| !unit.is_empty());
    let table = Table::new("counters", "Values of counters over time")
        .text("process", rows.iter().map(|(series, ..)| Some(trace.process_name(series.track))))
        .text("track", rows.iter().map(|(series, ..)| Some(trace.track_name(series.track))))
        .text("counter", text(|series| series.name))
        .text("series", text(|series| series.key))
        .i64("time_ns", Unit::Ns, rows.iter().map(|(_, time, _)| *time))
        .f64("value", Unit::None, rows.iter().map(|(.., value)| *value))
        .text("unit", rows.iter().map(|(series, ..)| unit(series)));
    vec![match (counters.is_empty(), rows.is_empty()) {
        (true, _) => table.note("The trace has no counters."),
        (false, true) => table.note("No counter has a value in the window; --whole covers the whole trace."),
        (false, false) => table,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Values;

    #[test]
    fn each_numeric_argument_is_a_series_by_time() {
        let json = br#"[
            {"ph": "C", "name": "power", "pid": 1, "ts": 5, "args": {"GPU 0": 300, "GPU 1": 250.5}},
            {"ph": "C", "name": "power", "pid": 1, "ts": 2, "args": {"GPU 0": 90, "note": "idle"}},
            {"ph": "C", "name": "VRAM (MiB)", "pid": 1, "ts": 6, "args": {"GPU 0": 8}},
            {"ph": "X", "name": "f", "pid": 1, "tid": 2, "ts": 0, "dur": 10, "args": {"bytes": 7}}
        ]"#;
        let trace = stackline_ingest::read_bytes("t", json, &Default::default()).unwrap();
        let table = &run(&trace, &Scope::default())[0];
        let Values::Str(series) = &table.column("series").unwrap().values else { panic!("text") };
        let Values::F64(values) = &table.column("value").unwrap().values else { panic!("numbers") };
        let Values::I64(times) = &table.column("time_ns").unwrap().values else { panic!("times") };
        let Values::Str(units) = &table.column("unit").unwrap().values else { panic!("text") };
        assert_eq!(series.iter().flatten().collect::<Vec<_>>(), ["GPU 0", "GPU 0", "GPU 1", "GPU 0"]);
        assert_eq!(values.iter().flatten().copied().collect::<Vec<_>>(), [90.0, 300.0, 250.5, 8.0]);
        assert_eq!(times.iter().flatten().copied().collect::<Vec<_>>(), [2_000, 5_000, 5_000, 6_000]);
        let units: Vec<Option<&str>> = units.iter().map(Option::as_deref).collect();
        assert_eq!(units, [None, None, None, Some("MiB")]);
    }

    #[test]
    fn trace_without_counters_has_a_note() {
        let trace = stackline_ingest::read_bytes(
            "t",
            b"[{\"ph\":\"X\",\"name\":\"f\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":1}]",
            &Default::default(),
        )
        .unwrap();
        assert_eq!(run(&trace, &Scope::default())[0].notes, ["The trace has no counters."]);
    }
}
