//! TraceLens' `ops_unique_args`: GPU time by operator and its arguments (shapes, types, strides, values).

use crate::op_groups;
use crate::summary::Summary;
use crate::{Analysis, Display, TableCommand};
use rustc_hash::FxHashMap;
use stackline_model::{StrId, Table, Trace, TrackId, Unit};
use stackline_timeline::gpu_view::{Definition, GpuView, Launcher, Launchers};
use stackline_timeline::stats::percent;
use stackline_timeline::{DefaultWindow, Scope};
use std::collections::BTreeMap;

/// The registered analysis.
pub(super) const OPS_UNIQUE_ARGS: Analysis = Analysis {
    name: "ops_unique_args",
    about: "GPU time by operator and its arguments: shapes, types, strides, values",
    tables: &[
        "ops_unique_args",
        "ops_unique_args_kernels",
        "ops_unique_args_by_module",
        "ops_unique_args_by_module_kernels",
    ],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Operators],
    display: Display::All,
    run: |trace, scope| tables(trace, scope, Definition::Exact),
};

/// Arguments that are part of the group key, by the profiler's names, with Stackline's column names.
const ARGS: [(&str, &str); 4] = [
    ("Input Dims", "input_dims"),
    ("Input type", "input_types"),
    ("Input Strides", "input_strides"),
    ("Concrete Inputs", "concrete_inputs"),
];

/// Group key of operators: name, category, thread, arguments, recomputation and module class.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    name: StrId,
    category: &'static str,
    thread: TrackId,
    args: [StrId; 4],
    recompute: bool,
    module: Option<String>,
}

/// One value of a column's statistics.
type Statistic = fn(&Summary) -> Option<f64>;

/// Operators with equal keys.
type Group<'a> = (Key, Vec<&'a Launcher>);

/// Table `ops_unique_args` of operators by arguments, largest direct time first, and a table of each row's kernels.
/// Arguments are compact JSON as in the trace; `example_event` is the position of the row's first operator in the
/// trace's event list.
pub fn tables(trace: &Trace, scope: &Scope, definition: Definition) -> Vec<Table> {
    let view = GpuView::new(trace, scope, definition);
    let launchers = Launchers::find(&view);
    let mut tables = Vec::new();
    for (name, by_module) in [("ops_unique_args", false), ("ops_unique_args_by_module", true)] {
        if !by_module || launchers.list.iter().any(|l| l.module.is_some()) {
            let groups = group(trace, &launchers, by_module);
            tables.push(arguments(&view, &launchers, &groups, name, by_module));
            tables.push(kernels(&view, &groups, &format!("{name}_kernels")));
        }
    }
    tables
}

/// Create table `ops_unique_args` or its variant by module: one row per group of operators.
fn arguments(
    view: &GpuView<'_>,
    launchers: &Launchers,
    groups: &[Group<'_>],
    table_name: &str,
    by_module: bool,
) -> Table {
    let trace = view.trace;
    let text = |id: StrId| id.some().map(|id| trace.strings.get(id).to_owned());
    let label = |f: fn(&Trace, TrackId) -> StrId| groups.iter().map(move |(k, _)| text(f(trace, k.thread)));
    let mut table = Table::new(table_name, "GPU time by operator and its arguments")
        .text("name", groups.iter().map(|(k, _)| text(k.name)))
        .text("category", groups.iter().map(|(k, _)| Some(k.category.to_owned())))
        .text("process", label(|t, track| t.tracks.processes[t.tracks.get(track).process.index()].name))
        .text("process_label", label(|t, track| t.tracks.processes[t.tracks.get(track).process.index()].labels))
        .text("thread", label(|t, track| t.tracks.get(track).name));
    for (i, (_, column)) in ARGS.iter().enumerate() {
        table = table.text(column, groups.iter().map(|(k, _)| text(k.args[i])));
    }
    if by_module {
        let first = |m: &[&Launcher]| m.first().and_then(|l| op_groups::module_path(trace, l.event));
        table = table
            .text("module", groups.iter().map(|(k, _)| k.module.clone()))
            .text("module_path_first", groups.iter().map(|(_, m)| first(m)));
    }
    if launchers.any_recompute {
        table = table.bool("recompute", groups.iter().map(|(k, _)| k.recompute));
    }
    let first = |members: &[&Launcher]| members.first().map(|l| i64::from(trace.events.source_index[l.event.index()]));
    table = table
        .i64("count", Unit::None, groups.iter().map(|(_, m)| m.len() as i64))
        .i64("kernels_first", Unit::None, groups.iter().map(|(_, m)| m.first().map(|l| l.gpu.len() as i64)))
        .i64("example_event", Unit::None, groups.iter().map(|(_, m)| first(m)));
    let direct = stats(groups, |l| l.direct_us);
    table = with_stats(with_stats(table, "direct", &direct), "subtree", &stats(groups, |l| l.subtree_us));
    let all: f64 = direct.iter().map(|s| s.sum).sum();
    let share: Vec<Option<f64>> = direct.iter().map(|s| percent(s.sum, all)).collect();
    let mut sum = 0.0;
    let mut add = |share: f64| {
        sum += share;
        sum
    };
    let running: Vec<Option<f64>> = share.iter().map(|s| s.map(&mut add)).collect();
    table
        .f64("percent", Unit::Percent, share)
        .f64("cumulative_percent", Unit::Percent, running)
        .note(view.coverage_note())
}

/// Statistics of a value, such as direct GPU time in µs, over the operators of each group.
fn stats(groups: &[Group<'_>], value: fn(&Launcher) -> f64) -> Vec<Summary> {
    groups.iter().map(|(_, m)| Summary::from_values(&m.iter().map(|l| value(l)).collect::<Vec<_>>())).collect()
}

/// Add the columns mean, median, std, min, max and sum in µs to a table, with a prefix.
fn with_stats(mut table: Table, prefix: &str, stats: &[Summary]) -> Table {
    let columns: [(&str, Statistic); 6] = [
        ("mean", |s| Some(s.mean)),
        ("median", |s| Some(s.median)),
        ("std", |s| s.std),
        ("min", |s| Some(s.min)),
        ("max", |s| Some(s.max)),
        ("sum", |s| Some(s.sum)),
    ];
    for (name, value) in columns {
        table = table.f64(&format!("{prefix}_{name}_us"), Unit::Us, stats.iter().map(value));
    }
    table
}

/// `ops_unique_args_kernels`: GPU operations launched by the operators of a row, by position among an operator's
/// launches, kernel and stream. If an operator launches different kernels in different calls, a position has several
/// rows.
fn kernels(view: &GpuView<'_>, groups: &[Group<'_>], name: &str) -> Table {
    let trace = view.trace;
    let mut rows: Vec<(i64, i64, StrId, i64, Summary)> = Vec::new();
    for (row, (_, members)) in groups.iter().enumerate() {
        let mut durations: BTreeMap<(usize, StrId, i64), Vec<f64>> = BTreeMap::new();
        for (position, &gpu) in members.iter().flat_map(|l| l.gpu.iter().enumerate()) {
            let name = trace.events.name[trace.gpu.event[gpu.index()].index()];
            let key = (position, name, trace.gpu.stream[gpu.index()]);
            durations.entry(key).or_default().push(view.duration_us(gpu));
        }
        rows.extend(durations.into_iter().map(|((position, name, stream), values)| {
            (row as i64, position as i64, name, stream, Summary::from_values(&values))
        }));
    }
    let table = Table::new(name, "Kernels of each row of the table ops_unique_args")
        .i64("row", Unit::None, rows.iter().map(|r| r.0))
        .i64("position", Unit::None, rows.iter().map(|r| r.1))
        .text("kernel", rows.iter().map(|r| Some(trace.strings.get(r.2).to_owned())))
        .i64("stream", Unit::None, rows.iter().map(|r| Some(r.3).filter(|&s| s >= 0)))
        .i64("count", Unit::None, rows.iter().map(|r| r.4.count as i64));
    let stats: Vec<Summary> = rows.iter().map(|r| r.4).collect();
    with_stats(table, "kernel", &stats)
}

/// Group operators that launch GPU work by name, thread and arguments, largest direct GPU time first.
fn group<'a>(trace: &Trace, launchers: &'a Launchers, by_module: bool) -> Vec<Group<'a>> {
    let columns = ARGS.map(|(name, _)| trace.attr(name));
    let mut index: FxHashMap<Key, usize> = FxHashMap::default();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for launcher in &launchers.list {
        let key = Key {
            name: trace.events.name[launcher.event.index()],
            category: launcher.category,
            thread: trace.events.track[launcher.event.index()],
            args: std::array::from_fn(|i| columns[i].text(launcher.event).unwrap_or_default()),
            recompute: launcher.recompute,
            module: if by_module { op_groups::module_type(trace, launcher.module) } else { None },
        };
        let at = *index.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(launcher);
    }
    let sum = |members: &[&Launcher]| members.iter().map(|l| l.direct_us).sum::<f64>();
    let first = |m: &[&Launcher]| m.first().map(|l| l.event);
    groups.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)).then_with(|| first(&a.1).cmp(&first(&b.1))));
    groups
}
