//! GPU time by kernel and by kernel kind.
//!
//! `hta_kernel_types` divides busy time by the set of kinds that run concurrently ("computation overlapping memory" is
//! the time in which both run). `hta_kernels` has statistics of every kernel name. `hta_kernels_top` is HTA's short
//! form of it (HTA 0.6.1 `get_gpu_kernel_breakdown`). In a kind with more than 10 names, a name keeps its row under two
//! conditions. It is among the first 10 by total time, and the running total up to it is not above the 80th percentile
//! of the running totals. The rest become `others`. HTA then computes maximum, minimum, mean and deviation over the
//! *totals* of the names in a row, not over their kernels; `hta_kernels` has the true values.
//!
//! `time_ns` columns are exact; `_us` columns are HTA's (whole microseconds, its row and step filter).

use super::coverage::with_coverage_note;
use crate::hta_rows::{HtaRows, Row};
use crate::{Analysis, Display, TableCommand};
use stackline_model::{Table, Trace, Unit};
use stackline_timeline::intervals::Bound;
use stackline_timeline::kernel_type::{HTA_RULES, KernelType, NameTypes};
use stackline_timeline::stats::{mean_std, quantile, round, sum};
use stackline_timeline::{DefaultWindow, Scope};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The registered analysis.
pub const ANALYSIS: Analysis = Analysis {
    name: "hta_kernel_breakdown",
    about: "GPU time by kernel kind and by kernel, as HTA counts it (column time_ns is not rounded)",
    tables: &["hta_kernel_types", "hta_kernels", "hta_kernels_top"],
    window: DefaultWindow::WholeAs("HTA"),
    commands: &[TableCommand::Kernels],
    display: Display::All,
    run,
};

/// HTA's default number of kernel names.
const NUM_KERNELS: usize = 10;
/// HTA's default share of time to show by name.
const DURATION_RATIO: f64 = 0.8;

/// Create the three tables of GPU time by kernel kind and kernel name, with HTA's default limits and coverage notes.
fn run(trace: &Trace, scope: &Scope) -> Vec<Table> {
    let rows = HtaRows::load(trace, scope);
    let top = kernels_top(&rows, true, NUM_KERNELS, DURATION_RATIO);
    with_coverage_note(vec![types(&rows, true), kernels(&rows, true), top], trace, scope)
}

/// Kernel kinds in HTA's order: computation, communication and, if `memory`, copies and fills. Names of overlapping
/// kinds are in the same order.
fn kinds(memory: bool) -> &'static [KernelType] {
    const ALL: [KernelType; 3] = [KernelType::Computation, KernelType::Communication, KernelType::Memory];
    if memory { &ALL } else { &ALL[..2] }
}

/// Table `hta_kernel_types`: GPU time per set of kernel kinds that run at the same time.
pub fn types(rows: &HtaRows, memory: bool) -> Table {
    let mut of_name = NameTypes::new(rows.trace, HTA_RULES);
    let kinds = kinds(memory);
    let mut us: Vec<Vec<(f64, f64)>> = vec![Vec::new(); kinds.len()];
    let mut ns: Vec<Vec<(i64, i64)>> = vec![Vec::new(); kinds.len()];
    for row in rows.gpu() {
        if let Some(at) = kinds.iter().position(|&k| k == of_name.type_of(row.name)) {
            us[at].push((row.ts, row.end()));
            ns[at].push((rows.trace.events.start[row.event.index()], rows.trace.events.end(row.event)));
        }
    }
    let (us, ns) = (overlaps(us), overlaps(ns));
    let label = |bits: u32| {
        let names: Vec<&str> = (0..kinds.len()).filter(|k| bits >> k & 1 == 1).map(|k| kinds[k].name()).collect();
        names.join(" overlapping ")
    };
    let all = sum(us.values().copied());
    let mut lines: Vec<(String, f64, i64)> =
        us.iter().map(|(&bits, &t)| (label(bits), t, ns.get(&bits).copied().unwrap_or(0))).collect();
    lines.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let table = Table::new("hta_kernel_types", "Busy GPU time by kernel kind")
        .text("kernel_type", lines.iter().map(|l| l.0.clone()))
        .f64("sum_us", Unit::Us, lines.iter().map(|l| l.1))
        .f64("percentage", Unit::Percent, lines.iter().map(|l| (all != 0.0).then(|| round(l.1 / all * 100.0, 1))))
        .i64("time_ns", Unit::Ns, lines.iter().map(|l| l.2));
    rows.note_negative(table)
}

/// Time per set of classes that run at the same time, from the time ranges of each class. The key of a set is the sum
/// of 2^class over its classes. A range that ends before it starts (by HTA's rounding) leads to sets that never ran,
/// exactly as in HTA.
pub(super) fn overlaps<T: Bound>(spans: Vec<Vec<(T, T)>>) -> BTreeMap<u32, T> {
    let mut marks: Vec<(T, i64)> = Vec::new();
    for (class, spans) in spans.into_iter().enumerate() {
        let merged = stackline_timeline::intervals::union(spans);
        marks.extend(merged.iter().map(|s| (s.0, 1i64 << class)));
        marks.extend(merged.iter().map(|s| (s.1, -(1i64 << class))));
    }
    // At equal times: class by class, starts before ends (the sort is stable).
    marks.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
    let mut running = 0i64;
    let mut time: BTreeMap<u32, T> = BTreeMap::new();
    for (i, &(at, change)) in marks.iter().enumerate() {
        running += change;
        if let (Ok(set), Some(next)) = (u32::try_from(running), marks.get(i + 1))
            && set > 0
        {
            let sum = time.entry(set).or_insert(T::ZERO);
            *sum = sum.plus(next.0.minus(at));
        }
    }
    time
}

/// Count and time statistics of the events of one name, in microseconds (`ns`: total time in ns).
#[derive(Clone, Debug, Default)]
struct NameStats {
    name: String,
    count: usize,
    ns: i64,
    sum: f64,
    max: f64,
    min: f64,
    mean: f64,
    std: f64,
}

/// Statistics of durations in µs under a name; `count` and `ns` (total time) are taken as given.
fn stats(name: String, durations: &[f64], count: usize, ns: i64) -> NameStats {
    let (mean, std) = mean_std(durations);
    NameStats {
        name,
        count,
        ns,
        sum: sum(durations.iter().copied()),
        max: durations.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        min: durations.iter().copied().fold(f64::INFINITY, f64::min),
        mean: mean.unwrap_or(0.0),
        std: std.unwrap_or(0.0),
    }
}

/// Statistics per name of rows, longest total first, then by name.
fn by_name<'a>(trace: &Trace, rows: impl Iterator<Item = &'a Row>) -> Vec<NameStats> {
    let mut groups: BTreeMap<&str, (Vec<f64>, i64)> = BTreeMap::new();
    for row in rows {
        let group = groups.entry(trace.strings.get(row.name)).or_default();
        group.0.push(row.dur);
        group.1 = group.1.saturating_add(trace.events.dur[row.event.index()]);
    }
    let mut found: Vec<NameStats> =
        groups.into_iter().map(|(name, (durs, ns))| stats(name.to_owned(), &durs, durs.len(), ns)).collect();
    found.sort_by(|a, b| b.sum.total_cmp(&a.sum));
    found
}

/// Keep the statistics of names with the most time, as HTA does; the row `others` sums up the remaining ones. Unchanged
/// if there are at most `num` names; otherwise sorted by name.
fn shorten(names: Vec<NameStats>, num: usize, ratio: f64) -> Vec<NameStats> {
    if names.len() <= num {
        return names;
    }
    let running: Vec<f64> = names
        .iter()
        .scan(0.0, |sum, n| {
            *sum += n.sum;
            Some(*sum)
        })
        .collect();
    let mut sorted = running.clone();
    sorted.sort_by(f64::total_cmp);
    let limit = quantile(&sorted, ratio).unwrap_or(f64::INFINITY);
    let mut groups: BTreeMap<String, (Vec<f64>, usize, i64)> = BTreeMap::new();
    for (i, n) in names.into_iter().enumerate() {
        let name = if i >= num || running[i] > limit { "others".to_owned() } else { n.name };
        let group = groups.entry(name).or_default();
        group.0.push(n.sum);
        group.1 += n.count;
        group.2 = group.2.saturating_add(n.ns);
    }
    groups.into_iter().map(|(name, (sums, count, ns))| stats(name, &sums, count, ns)).collect()
}

/// Table `hta_kernels`: time statistics per kernel name; for each kernel kind, largest total time first.
pub fn kernels(rows: &HtaRows, memory: bool) -> Table {
    let table = per_kind(rows, memory, "hta_kernels", "GPU kernels", usize::MAX, 1.0);
    rows.note_negative(table)
}

/// HTA's table `hta_kernels_top`: the kernel names with the most time of each kind; a row `others` sums up the rest.
pub fn kernels_top(rows: &HtaRows, memory: bool, num_kernels: usize, duration_ratio: f64) -> Table {
    per_kind(
        rows,
        memory,
        "hta_kernels_top",
        "GPU kernels with the most time; the row `others` sums up all other kernels",
        num_kernels,
        duration_ratio,
    )
    .note(
        "As in HTA, a row `others` changes the columns max_us, min_us, mean_us and stddev_us in all rows of its kernel \
         kind. The columns then compare the total time of each kernel name, not the durations of single kernels.",
    )
}

/// Create a table of time statistics per kernel name, for each kernel kind.
///
/// With more than `num` names of a kind, a row `others` sums up names beyond the limits; [`usize::MAX`] keeps all
/// names.
fn per_kind(rows: &HtaRows, memory: bool, name: &str, title: &str, num: usize, ratio: f64) -> Table {
    let mut types = NameTypes::new(rows.trace, HTA_RULES);
    let mut lines = Vec::new();
    for &kind in kinds(memory) {
        let mut found = by_name(rows.trace, rows.gpu().filter(|r| types.type_of(r.name) == kind));
        if num < usize::MAX {
            found = shorten(found, num, ratio);
            found.sort_by(|a, b| a.name.cmp(&b.name));
        }
        lines.extend(found.into_iter().map(|n| (kind, n)));
    }
    if num < usize::MAX {
        // HTA sorts by the kinds' names.
        lines.sort_by_key(|l| l.0.name());
    }
    let kind = lines.iter().map(|l| l.0.name().to_owned()).collect::<Vec<_>>();
    name_table(name, title, &lines.into_iter().map(|l| l.1).collect::<Vec<_>>()).text("kernel_type", kind)
}

/// Create a table of time statistics, one row per name, in the given order.
fn name_table(name: &str, title: &str, lines: &[NameStats]) -> Table {
    Table::new(name, title)
        .text("name", lines.iter().map(|n| n.name.clone()))
        .i64("count", Unit::None, lines.iter().map(|n| n.count as i64))
        .f64("sum_us", Unit::Us, lines.iter().map(|n| n.sum))
        .f64("max_us", Unit::Us, lines.iter().map(|n| n.max))
        .f64("min_us", Unit::Us, lines.iter().map(|n| n.min))
        .f64("stddev_us", Unit::Us, lines.iter().map(|n| n.std))
        .f64("mean_us", Unit::Us, lines.iter().map(|n| n.mean))
        .i64("time_ns", Unit::Ns, lines.iter().map(|n| n.ns))
}

/// Create a table of time statistics per event name. Of more than `limit` names, some are summed up as in HTA.
pub(super) fn name_statistics<'a>(
    trace: &Trace,
    rows: impl Iterator<Item = &'a Row>,
    limit: usize,
    name: &str,
    title: &str,
) -> Table {
    let mut found = shorten(by_name(trace, rows), limit, DURATION_RATIO);
    if limit < usize::MAX {
        found.sort_by(|a, b| a.name.cmp(&b.name));
    }
    name_table(name, title, &found)
}
