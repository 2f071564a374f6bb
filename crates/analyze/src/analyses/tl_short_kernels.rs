//! TraceLens' analysis of short kernels, whose launch costs about as much as their execution.

use crate::analyses::tl_gpu_timeline::extent_us;
use crate::summary::Summary;
use crate::{Analysis, Display, TableCommand};
use rustc_hash::FxHashMap;
use stackline_model::{EventKind, GpuOpId, StrId, Table, Trace, Unit};
use stackline_timeline::gpu_view::{Definition, GpuView, Recompute};
use stackline_timeline::stats::percent;
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const SHORT_KERNELS: Analysis = Analysis {
    name: "short_kernels",
    about: "Kernels shorter than 10 µs by operator and arguments, and a histogram of their durations",
    tables: &["short_kernels_summary", "short_kernel_histogram"],
    window: DefaultWindow::Steps,
    commands: &[TableCommand::Kernels],
    display: Display::All,
    run: |trace, scope| tables(trace, scope, Definition::Exact),
};

/// Upper limit of a short kernel's duration, in µs.
const SHORT_US: f64 = 10.0;

/// Number of bins of the histogram.
const BINS: usize = 100;

/// Operator, shapes, strides, values and kernel.
type Key = (StrId, [StrId; 3], StrId);

/// Table `short_kernels_summary` by total time, and the histogram `short_kernel_histogram` of kernel durations. The
/// histogram has `BINS` equal bins from the shortest to the longest kernel.
pub fn tables(trace: &Trace, scope: &Scope, definition: Definition) -> Vec<Table> {
    let view = GpuView::new(trace, scope, definition);
    let short: Vec<GpuOpId> = trace
        .gpu
        .ids()
        .filter(|g| view.counted[g.index()] && trace.kind(trace.gpu.event[g.index()]) == EventKind::Kernel)
        .filter(|&g| view.duration_us(g) < SHORT_US)
        .collect();
    let durations: Vec<f64> = short.iter().map(|&g| view.duration_us(g)).collect();
    vec![summary(&view, &short), histogram(&durations)]
}

/// Create table `short_kernels_summary`: short kernels by operator, arguments and name, largest total time first.
fn summary(view: &GpuView<'_>, short: &[GpuOpId]) -> Table {
    let trace = view.trace;
    let recompute = Recompute::find(trace);
    let exact = view.definition() == Definition::Exact;
    let total = extent_us(view, |g| exact || !recompute.has_gpu(trace, g));
    let columns = ["Input Dims", "Input Strides", "Concrete Inputs"].map(|name| trace.attr(name));
    let mut index: FxHashMap<Key, usize> = FxHashMap::default();
    let mut groups: Vec<(Key, Vec<f64>)> = Vec::new();
    for &gpu in short {
        let op = trace.gpu.operator[gpu.index()];
        let known = view.linked[gpu.index()] && op.is_some();
        // TraceLens drops kernels without operator, unless the trace has no operator at all.
        if !known && !exact && trace.gpu.operator.iter().any(|o| o.is_some()) {
            continue;
        }
        let kernel = trace.events.name[trace.gpu.event[gpu.index()].index()];
        let key: Key = if known {
            let args = std::array::from_fn(|i| columns[i].text(op).unwrap_or_default());
            (trace.events.name[op.index()], args, kernel)
        } else {
            (StrId::NONE, [StrId::NONE; 3], kernel)
        };
        let at = *index.entry(key).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(view.duration_us(gpu));
    }
    let mut groups: Vec<(Key, Summary)> = groups.into_iter().map(|(k, v)| (k, Summary::from_values(&v))).collect();
    groups.sort_by(|a, b| b.1.sum.total_cmp(&a.1.sum));
    let text = |id: StrId| id.some().map(|id| trace.strings.get(id).to_owned());
    Table::new("short_kernels_summary", "Kernels shorter than 10 µs by operator, arguments and name")
        .text("operator", groups.iter().map(|(k, _)| text(k.0)))
        .text("input_dims", groups.iter().map(|(k, _)| text(k.1[0])))
        .text("input_strides", groups.iter().map(|(k, _)| text(k.1[1])))
        .text("concrete_inputs", groups.iter().map(|(k, _)| text(k.1[2])))
        .text("kernel", groups.iter().map(|(k, _)| text(k.2)))
        .i64("count", Unit::None, groups.iter().map(|(_, s)| s.count as i64))
        .f64("sum_us", Unit::Us, groups.iter().map(|(_, s)| s.sum))
        .f64("mean_us", Unit::Us, groups.iter().map(|(_, s)| s.mean))
        .f64("timeline_percent", Unit::Percent, groups.iter().map(|(_, s)| percent(s.sum, total)))
        .note(view.coverage_note())
}

/// Create table `short_kernel_histogram`: number of kernels per bin of durations in µs.
fn histogram(durations: &[f64]) -> Table {
    let (edges, counts) = bins(durations);
    Table::new("short_kernel_histogram", "Durations of kernels shorter than 10 µs")
        .f64("bin_start_us", Unit::Us, edges.iter().take(counts.len()).copied())
        .f64("bin_end_us", Unit::Us, edges.iter().skip(1).copied())
        .i64("count", Unit::None, counts.iter().copied())
}

/// Edges and counts of [`BINS`] equal bins from the smallest to the largest value. Bins include their left edge; the
/// last bin includes both. A single distinct value gets bins of half a unit to each side, as in NumPy. Without values
/// there are no bins.
fn bins(values: &[f64]) -> (Vec<f64>, Vec<i64>) {
    let all = Summary::from_values(values);
    if all.count == 0 {
        return (Vec::new(), Vec::new());
    }
    let (low, high) = if all.min < all.max { (all.min, all.max) } else { (all.min - 0.5, all.max + 0.5) };
    let step = (high - low) / BINS as f64;
    let mut edges: Vec<f64> = (0..=BINS).map(|i| i as f64 * step + low).collect();
    edges[BINS] = high;
    let mut counts = vec![0i64; BINS];
    for &value in values {
        counts[(edges.partition_point(|&e| e <= value)).saturating_sub(1).min(BINS - 1)] += 1;
    }
    (edges, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_all_values() {
        let (edges, counts) = bins(&[1.0, 1.01, 2.0, 2.0]);
        assert_eq!((edges[0], edges[BINS], counts.len()), (1.0, 2.0, BINS));
        assert_eq!((counts[0], counts[1], counts[BINS - 1]), (1, 1, 2));
        assert_eq!(bins(&[]).1.len(), 0);
        assert_eq!(bins(&[3.0]).1.iter().sum::<i64>(), 1);
    }
}
