//! TraceLens' `coll_analysis`: collectives by name, group, type and size, with the bandwidths that
//! nccl-tests defines (its `doc/PERFORMANCE.md`).

use crate::summary::Summary;
use crate::{Analysis, Display, TableCommand};
use rustc_hash::FxHashMap;
use stackline_model::{AttrColumn, AttrValue, EventId, EventKind, GpuOpId, StrId, Table, Trace, Unit};
use stackline_timeline::classify::{Collective, element_bytes};
use stackline_timeline::gpu_view::{Definition, GpuView};
use stackline_timeline::host_collectives::host_collectives;
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const COLL_ANALYSIS: Analysis = Analysis {
    name: "coll_analysis",
    about: "Collectives by group, type and message size, with algorithm and bus bandwidth",
    tables: &["coll_analysis"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Collectives],
    display: Display::All,
    run: |trace, scope| vec![table(trace, scope, Definition::Exact)],
};

/// Bytes of a mebibyte.
const MIB: f64 = 1_048_576.0;

/// Group key of collectives: process group, collective, data type, sizes and stream. Fields that the trace lacks are
/// empty.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    group: StrId,
    ranks: StrId,
    collective: StrId,
    group_size: Option<i64>,
    dtype: StrId,
    elements_in: Option<i64>,
    elements_out: Option<i64>,
    split_in: StrId,
    split_out: StrId,
    stream: i64,
}

impl Key {
    /// Test if the trace has all metadata of these collectives.
    fn is_complete(&self) -> bool {
        let texts = [self.group, self.ranks, self.collective, self.dtype, self.split_in, self.split_out];
        let numbers = [self.group_size, self.elements_in, self.elements_out];
        texts.iter().all(|t| t.is_some()) && numbers.iter().all(Option::is_some)
    }
}

/// Collectives with equal metadata: group key, collective family, and duration statistics.
struct Row {
    key: Key,
    family: Option<&'static Collective>,
    time: Summary,
}

impl Row {
    /// Size in bytes of a number of elements of the collective's data type; `None` if number or type is unknown.
    fn bytes(&self, trace: &Trace, elements: Option<i64>) -> Option<f64> {
        Some(elements? as f64 * element_bytes(trace.strings.get(self.key.dtype.some()?))? as f64)
    }

    /// Buffer size in bytes from which nccl-tests computes bandwidths: the whole input or output of the collective.
    fn rated_bytes(&self, trace: &Trace) -> Option<f64> {
        let elements = if self.family?.sized_by_output { self.key.elements_out } else { self.key.elements_in };
        self.bytes(trace, elements)
    }

    /// Algorithm bandwidth (as in nccl-tests) in 10^9 bytes per second for a duration in µs.
    fn algorithm_gbps(&self, trace: &Trace, us: f64) -> Option<f64> {
        Some(self.rated_bytes(trace)? / (us * 1e3)).filter(|b| b.is_finite())
    }

    /// Bus bandwidth (as in nccl-tests) in 10^9 bytes per second for a duration in µs.
    fn bus_gbps(&self, trace: &Trace, us: f64) -> Option<f64> {
        Some(self.algorithm_gbps(trace, us)? * self.family?.bus_factor(self.key.group_size?))
    }
}

/// Table `coll_analysis` of collectives, largest total time first. TraceLens excludes kernels with missing metadata.
pub fn table(trace: &Trace, scope: &Scope, definition: Definition) -> Table {
    let view = GpuView::new(trace, scope, definition);
    let mut rows = rows(&view, scope);
    rows.retain(|r| definition == Definition::Exact || r.key.is_complete());
    let text = |f: fn(&Key) -> StrId| {
        rows.iter().map(move |r| f(&r.key).some().map(|id| trace.strings.get(id).to_owned())).collect::<Vec<_>>()
    };
    let int = |f: fn(&Key) -> Option<i64>| rows.iter().map(move |r| f(&r.key)).collect::<Vec<_>>();
    let us = |f: fn(&Summary) -> f64| rows.iter().map(move |r| f(&r.time)).collect::<Vec<_>>();
    let mib = |f: fn(&Key) -> Option<i64>| {
        rows.iter().map(move |r| r.bytes(trace, f(&r.key)).map(|b| b / MIB)).collect::<Vec<_>>()
    };
    let table = Table::new("coll_analysis", "Collectives by name, group, data type and size")
        .i64("rank", Unit::None, rows.iter().map(|_| trace.meta.rank))
        .text("process_group", text(|k| k.group))
        .text("ranks", text(|k| k.ranks))
        .text("collective", text(|k| k.collective))
        .text("family", rows.iter().map(|r| r.family.map(|f| f.name.to_owned())))
        .i64("group_size", Unit::None, int(|k| k.group_size))
        .text("dtype", text(|k| k.dtype))
        .i64("elements_in", Unit::None, int(|k| k.elements_in))
        .i64("elements_out", Unit::None, int(|k| k.elements_out))
        .text("split_in", text(|k| k.split_in))
        .text("split_out", text(|k| k.split_out))
        .i64("stream", Unit::None, rows.iter().map(|r| Some(r.key.stream).filter(|&s| s >= 0)))
        .f64("size_in_mib", Unit::MiB, mib(|k| k.elements_in))
        .f64("size_out_mib", Unit::MiB, mib(|k| k.elements_out))
        .i64("count", Unit::None, rows.iter().map(|r| r.time.count as i64))
        .f64("sum_us", Unit::Us, us(|s| s.sum))
        .f64("mean_us", Unit::Us, us(|s| s.mean))
        .f64("std_us", Unit::Us, rows.iter().map(|r| r.time.std))
        .f64("min_us", Unit::Us, us(|s| s.min))
        .f64("max_us", Unit::Us, us(|s| s.max))
        .f64("algorithm_gbps", Unit::GBps, rows.iter().map(|r| r.algorithm_gbps(trace, r.time.mean)))
        .f64("bus_gbps", Unit::GBps, rows.iter().map(|r| r.bus_gbps(trace, r.time.mean)))
        .f64("bus_best_gbps", Unit::GBps, rows.iter().map(|r| r.bus_gbps(trace, r.time.min)));
    if rows.is_empty() {
        return table.note("The trace has neither communication kernels nor CPU collectives in this scope.");
    }
    if trace.gpu.is_empty() {
        return table.note(
            "The time of a CPU collective is from the call to its completion, including the wait for the \
                           last rank.",
        );
    }
    table.note(view.coverage_note()).note(
        "Bandwidths are defined as in nccl-tests (10^9 bytes/s), and use the mean and the shortest duration of this \
         rank's kernels. The duration of a kernel includes the wait for the last rank, so bandwidths from one rank's \
         trace are lower bounds.",
    )
}

/// Stream number for work outside GPUs.
const NO_STREAM: i64 = -1;

/// CPU collectives of the exact definition; none under TraceLens' definition, which lacks them.
fn host_collective_events(view: &GpuView<'_>, scope: &Scope) -> Vec<EventId> {
    if view.definition() != Definition::Exact {
        return Vec::new();
    }
    let all = host_collectives(view.trace).into_iter().map(|(event, _)| event);
    let host = scope.host_work(view.trace);
    all.filter(|&event| host.has(event)).collect()
}

/// Group the communication kernels and CPU collectives of the scope by metadata, largest total time first.
fn rows(view: &GpuView<'_>, scope: &Scope) -> Vec<Row> {
    let trace = view.trace;
    let columns = Columns::new(trace);
    // Kernels without metadata are grouped by the collective family of their name.
    let mut index: FxHashMap<(Key, Option<&str>), usize> = FxHashMap::default();
    let mut groups: Vec<(Key, &str, Vec<f64>)> = Vec::new();
    let communicates = |g: &GpuOpId| view.counted[g.index()] && view.communication[g.index()];
    let of_gpu =
        trace.gpu.ids().filter(communicates).map(|gpu| (trace.gpu.event[gpu.index()], trace.gpu.stream[gpu.index()]));
    let of_gpu = of_gpu.filter(|(event, _)| trace.kind(*event) == EventKind::Kernel);
    for (event, stream) in of_gpu.chain(host_collective_events(view, scope).into_iter().map(|event| (event, NO_STREAM)))
    {
        let name = trace.name(event);
        let mut key = columns.key(event, stream);
        if stream == NO_STREAM && key.collective.is_none() {
            key.collective = trace.events.name[event.index()];
        }
        let unnamed = key.collective.is_none().then(|| Collective::find(name)).flatten();
        let at = *index.entry((key.clone(), unnamed.map(|f| f.name))).or_insert_with(|| {
            groups.push((key, name, Vec::new()));
            groups.len() - 1
        });
        groups[at].2.push(trace.events.dur[event.index()] as f64 / 1e3);
    }
    let mut rows: Vec<Row> = groups
        .into_iter()
        .map(|(key, kernel, durations)| {
            let named = key.collective.some().and_then(|c| Collective::find(trace.strings.get(c)));
            Row { key, family: named.or_else(|| Collective::find(kernel)), time: Summary::from_values(&durations) }
        })
        .collect();
    rows.sort_by(|a, b| b.time.sum.total_cmp(&a.time.sum));
    rows
}

/// Lookup of the arguments that Kineto attaches to communication kernels, such as process group and size.
struct Columns<'a> {
    text: [AttrColumn<'a>; 6],
    number: [AttrColumn<'a>; 3],
}

impl<'a> Columns<'a> {
    /// Find the columns of these arguments in a trace.
    fn new(trace: &'a Trace) -> Self {
        Self {
            text: [
                "Process Group Name",
                "Process Group Ranks",
                "Collective name",
                "dtype",
                "In split size",
                "Out split size",
            ]
            .map(|name| trace.attr(name)),
            number: ["Group size", "In msg nelems", "Out msg nelems"].map(|name| trace.attr(name)),
        }
    }

    /// Group key of a collective on a stream, from the arguments of its event.
    fn key(&self, event: EventId, stream: i64) -> Key {
        let text = |i: usize| self.text[i].get(event).and_then(AttrValue::text_id).unwrap_or_default();
        let number = |i: usize| self.number[i].i64(event);
        Key {
            group: text(0),
            ranks: text(1),
            collective: text(2),
            dtype: text(3),
            split_in: text(4),
            split_out: text(5),
            group_size: number(0),
            elements_in: number(1),
            elements_out: number(2),
            stream,
        }
    }
}
