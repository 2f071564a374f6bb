//! Tables of several ranks in few lines: one row per name, and ranges of shares per category.

use crate::view::{number, text};
use stackline_model::Table;
use stackline_present::human;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Name in a table's column `name`, with sums of other columns over its rows.
pub(super) struct Summed<'t> {
    pub(super) name: &'t str,
    /// The sum of each column that was asked for.
    pub(super) sums: Vec<f64>,
}

/// Sum columns of a table by name over all ranks, largest sum of the first column first. Names whose first sum is 0 are
/// omitted.
pub(super) fn by_name<'t>(table: &'t Table, columns: &[&str]) -> Vec<Summed<'t>> {
    let mut at: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all: Vec<Summed<'t>> = Vec::new();
    for row in 0..table.rows() {
        let Some(name) = text(table, "name", row) else { continue };
        let at = *at.entry(name).or_insert_with(|| {
            all.push(Summed { name, sums: vec![0.0; columns.len()] });
            all.len() - 1
        });
        for (sum, column) in all[at].sums.iter_mut().zip(columns) {
            *sum += number(table, column, row).unwrap_or(0.0);
        }
    }
    all.retain(|summed| summed.sums[0] > 0.0);
    all.sort_by(|a, b| b.sums[0].total_cmp(&a.sums[0]));
    all
}

/// A GPU: its rank, where there are several, and its number there.
type Device = (Option<i64>, i64);

/// Append each category's share of GPU time; for several GPUs also the lowest and highest shares.
pub(super) fn gpu_time(time: &Table, out: &mut String) {
    let device = |row: usize| -> Device {
        (number(time, "rank", row).map(|rank| rank as i64), number(time, "device", row).map_or(0, |id| id as i64))
    };
    // The rows of a device add up to its window.
    let mut windows: BTreeMap<Device, f64> = BTreeMap::new();
    let mut categories: Vec<(&str, BTreeMap<Device, f64>)> = Vec::new();
    for row in 0..time.rows() {
        let (category, ns) = (text(time, "category", row).unwrap_or_default(), number(time, "time_ns", row));
        let ns = ns.unwrap_or(0.0);
        *windows.entry(device(row)).or_default() += ns;
        match categories.iter_mut().find(|(name, _)| *name == category) {
            Some((_, times)) => *times.entry(device(row)).or_default() += ns,
            None => categories.push((category, BTreeMap::from([(device(row), ns)]))),
        }
    }
    let whole: f64 = windows.values().sum();
    let window_text = match windows.len() {
        1 => "(% of the analyzed time of the GPU)".to_owned(),
        count => format!("(% of the analyzed time of {count} GPUs combined; in parentheses: lowest and highest GPU)"),
    };
    let _ = writeln!(out, "\nGPU time by category {window_text}:");
    for (category, times) in &categories {
        let sum: f64 = times.values().sum();
        if sum > 0.0 {
            let range = range(&windows, times).unwrap_or_default();
            let share = 100.0 * sum / whole.max(1.0);
            let _ = writeln!(out, "- {category} {share:.1} %{range}, {}", human::duration(sum as i64));
        }
    }
}

/// Lowest and highest share of GPU time as text: ` (31.0 % on rank 3 to 52.3 % on rank 0)`; `None` for a single GPU.
fn range(windows: &BTreeMap<Device, f64>, times: &BTreeMap<Device, f64>) -> Option<String> {
    let share = |(device, window): (&Device, &f64)| {
        (100.0 * times.get(device).copied().unwrap_or(0.0) / window.max(1.0), *device)
    };
    let mut shares: Vec<(f64, Device)> = windows.iter().map(share).collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let has_several = |rank: Option<i64>| windows.keys().filter(|device| device.0 == rank).count() > 1;
    let name = |(rank, id): Device| match rank {
        Some(rank) if has_several(Some(rank)) => format!("rank {rank} device {id}"),
        Some(rank) => format!("rank {rank}"),
        None => format!("device {id}"),
    };
    let ((least, low), (most, high)) = (shares.first()?, shares.last()?);
    (shares.len() > 1).then(|| format!(" ({least:.1} % on {} to {most:.1} % on {})", name(*low), name(*high)))
}

#[cfg(test)]
mod tests {
    use super::{by_name, gpu_time};
    use stackline_model::{Table, Unit};

    #[test]
    fn rows_of_one_name_are_summed_over_ranks() {
        let table = Table::new("gpu_kernels", "")
            .i64("rank", Unit::None, [0, 0, 1, 1])
            .text("name", ["gemm", "fill", "gemm", "idle"].map(str::to_owned))
            .i64("total_ns", Unit::Ns, [50, 70, 30, 0])
            .i64("count", Unit::None, [5, 7, 3, 0]);
        let summed = by_name(&table, &["total_ns", "count"]);
        let summed: Vec<(&str, &[f64])> =
            summed.iter().map(|summed_row| (summed_row.name, &summed_row.sums[..])).collect();
        assert_eq!(summed, [("gemm", &[80.0, 8.0][..]), ("fill", &[70.0, 7.0][..])]);
    }

    #[test]
    fn categories_of_many_gpus_are_one_line_each() {
        let rows: Vec<(i64, &str, i64)> = (0..8)
            .flat_map(|rank| [(rank, "computation", 10 * (rank + 1)), (rank, "idle_other", 90 - 10 * rank)])
            .collect();
        let table = Table::new("gpu_time", "")
            .i64("rank", Unit::None, rows.iter().map(|row| row.0))
            .i64("device", Unit::None, rows.iter().map(|row| row.0 % 4))
            .text("category", rows.iter().map(|row| row.1.to_owned()))
            .i64("time_ns", Unit::Ns, rows.iter().map(|row| row.2));
        let mut out = String::new();
        gpu_time(&table, &mut out);
        assert!(out.contains("of 8 GPUs combined"), "{out}");
        assert!(out.contains("- computation 45.0 % (10.0 % on rank 0 to 80.0 % on rank 7), 360 ns\n"), "{out}");
        assert_eq!(out.lines().filter(|line| line.starts_with("- ")).count(), 2, "{out}");
        let one = Table::new("gpu_time", "")
            .i64("device", Unit::None, [0, 0])
            .text("category", ["computation", "memory"].map(str::to_owned))
            .i64("time_ns", Unit::Ns, [25, 75]);
        out.clear();
        gpu_time(&one, &mut out);
        assert!(
            out.ends_with(
                "(% of the analyzed time of the GPU):\n- computation 25.0 %, 25 ns\n- memory 75.0 %, 75 ns\n"
            ),
            "{out}"
        );
    }
}
