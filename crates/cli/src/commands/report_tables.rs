//! Tables of the text report, reduced to fit a screen.

use crate::view::{number, rows, select, text, top};
use stackline_model::{Table, Unit, Values};
use stackline_timeline::steps::explain_lengths;
use std::collections::BTreeSet;

/// Kernels and operators listed.
const TOP: usize = 6;

/// Select the tables that the text report shows, reduced to their main columns and largest rows.
pub(super) fn fit_to_screen(tables: &[Table]) -> Vec<Table> {
    let find = |name: &str| tables.iter().find(|t| t.name == name).filter(|t| t.rows() > 0);
    let (coverage, short) = find("coverage").and_then(coverage_notes).unzip();
    let mut out = Vec::new();
    if let Some(spread) = find("steps_spread") {
        out.push(spread_of_steps(spread));
    }
    if let Some(time) = find("gpu_time") {
        out.push(with_note(devices(time), coverage.as_deref()));
    }
    if let Some(kernels) = find("gpu_kernels") {
        let columns = ["rank", "name", "percent", "total_ns", "count", "mean_ns"];
        out.push(with_note(select(&top(kernels, "total_ns", TOP), &columns), short.as_deref()));
    }
    if let Some(lines) = find("gpu_lines").filter(|lines| known_share(lines) >= 50.0) {
        let columns = ["rank", "line", "percent", "total_ns", "count", "longest"];
        out.push(select(&with_short_paths(top(lines, "total_ns", TOP)), &columns));
    }
    if let Some(operators) = find("operators") {
        let columns = ["rank", "name", "calls", "gpu_self_us", "host_self_us", "launches_self"];
        let by = if number(&top(operators, "gpu_self_us", 1), "gpu_self_us", 0).is_some() {
            "gpu_self_us"
        } else {
            "host_self_us"
        };
        out.push(with_note(select(&top(operators, by, TOP), &columns), short.as_deref()));
    }
    if let Some(spans) = find("spans") {
        let columns = ["rank", "name", "thread", "calls", "self_ns", "total_ns", "max_ns"];
        out.push(with_note(select(&top(spans, "total_ns", 2 * TOP), &columns), None));
    }
    if let Some(collectives) = find("coll_analysis") {
        let columns =
            ["rank", "collective", "dtype", "group_size", "size_in_mib", "count", "sum_us", "mean_us", "bus_gbps"];
        // A single trace's own column says nothing that the head does not.
        let from = usize::from(collectives.column("rank_in_file").is_none());
        out.push(select(&top(collectives, "sum_us", 5), &columns[from..]));
    }
    out
}

/// Select the main columns of the spread between steps, or the times of a single step. If both lengths of a step are
/// shown, a note explains them.
fn spread_of_steps(spread: &Table) -> Table {
    let columns = ["rank", "process", "measure", "steps", "mean_us", "median_us", "min_us", "max_us", "spread_percent"];
    // Of several ranks or processes only the steps' times.
    let is_one = ["rank", "process"].iter().all(|column_name| spread.column(column_name).is_none());
    let times = |r: &usize| is_one || text(spread, "measure", *r) == Some("time");
    let times: Vec<usize> = (0..spread.rows()).filter(times).collect();
    let has_both = times.iter().any(|&row| text(spread, "measure", row) == Some("with_gpu"));
    let is_single = is_one && times.iter().all(|&row| number(spread, "steps", row) == Some(1.0));
    let shown = if is_single { single_step(spread) } else { select(&rows(spread, &times), &columns) };
    if has_both { shown.note(explain_lengths("time", "with_gpu")) } else { shown }
}

/// Table with one row for a single step, and one column per measure: its mean, median, minimum and maximum are equal.
fn single_step(spread: &Table) -> Table {
    let mut out = Table::new(&spread.name, "Times of the only selected step");
    out.notes.clone_from(&spread.notes);
    for row in 0..spread.rows() {
        if let Some(measure) = text(spread, "measure", row) {
            out = out.f64(&format!("{measure}_us"), Unit::Us, [number(spread, "mean_us", row)]);
        }
    }
    out
}

/// Replace the notes of a table by the given note; without one, remove the notes.
fn with_note(mut table: Table, note: Option<&str>) -> Table {
    table.notes.clear();
    table.notes.extend(note.map(str::to_owned));
    table
}

/// Table of GPU time by category: one row per category for one GPU, one row per GPU for several. Categories without any
/// time are left out.
fn devices(time: &Table) -> Table {
    let has_time = |row: &usize| number(time, "time_ns", *row) != Some(0.0);
    let key = |row: usize| (number(time, "rank", row).map(|v| v as i64), number(time, "device", row).map(|v| v as i64));
    let keys: BTreeSet<_> = (0..time.rows()).map(key).collect();
    if keys.len() == 1 {
        let shown: Vec<usize> = (0..time.rows()).filter(has_time).collect();
        return select(&rows(time, &shown), &["category", "percent", "time_ns"]);
    }
    let mut categories: Vec<&str> = Vec::new();
    for row in (0..time.rows()).filter(has_time) {
        let category = text(time, "category", row).unwrap_or("");
        if !categories.contains(&category) {
            categories.push(category);
        }
    }
    let mut out = Table::new(&time.name, &time.title);
    if keys.iter().any(|k| k.0.is_some()) {
        out = out.i64("rank", Unit::None, keys.iter().map(|k| k.0));
    }
    out = out.i64("device", Unit::None, keys.iter().map(|k| k.1));
    for category in categories {
        let share = |k: &(Option<i64>, Option<i64>)| {
            let row = (0..time.rows()).find(|&r| key(r) == *k && text(time, "category", r) == Some(category))?;
            number(time, "percent", row)
        };
        out = out.f64(category, Unit::Percent, keys.iter().map(share));
    }
    out
}

/// Shorten file paths in a table of source lines to the last folder and the file name.
fn with_short_paths(mut lines: Table) -> Table {
    for column in lines.columns.iter_mut().filter(|column| column.name == "line") {
        if let Values::Str(texts) = &mut column.values {
            for text in texts.iter_mut().flatten() {
                let (place, function) = text.rsplit_once(" in ").unwrap_or((text, ""));
                if let Some((at, _)) = place.rmatch_indices('/').nth(1) {
                    let function = if function.is_empty() { String::new() } else { format!(" in {function}") };
                    *text = format!("{}{function}", &place[at + 1..]);
                }
            }
        }
    }
    lines
}

/// Share of GPU time with a known source line, in percent, over all ranks.
fn known_share(lines: &Table) -> f64 {
    let time = |row: usize| number(lines, "total_ns", row).unwrap_or(0.0);
    let all: f64 = (0..lines.rows()).map(time).sum();
    let known: f64 = (0..lines.rows()).filter(|&row| text(lines, "line", row).is_some()).map(time).sum();
    if all > 0.0 { known / all * 100.0 } else { 0.0 }
}

/// Notes, long and short, on the share of GPU time with a known launch, operator and step.
fn coverage_notes(coverage: &Table) -> Option<(String, String)> {
    let shares = |what: &'static str| {
        let rows = (0..coverage.rows()).filter(move |&r| text(coverage, "known", r) == Some(what));
        rows.filter_map(|r| number(coverage, "gpu_time_percent", r))
    };
    let lowest = |what| shares(what).min_by(f64::total_cmp);
    let (launch, operator, step) = (lowest("launch")?, lowest("operator")?, lowest("step")?);
    let ranks = if coverage.column("rank").is_some() { " (lowest of all ranks)" } else { "" };
    let graphs = shares("graph_launch")
        .max_by(f64::total_cmp)
        .filter(|&p| p > 0.0)
        .map(|p| {
            format!(
                "; {p:.1} % of GPU time is spent in CUDA graphs and counts for the operator and step that launched \
                     the graph"
            )
        })
        .unwrap_or_default();
    let short = format!(
        "Coverage{ranks}: the launch call is known for {launch:.1} % of GPU time, the operator for {operator:.1} %, \
         the step for {step:.1} %"
    );
    Some((format!("{short}{graphs}."), format!("{short}.")))
}

#[cfg(test)]
mod tests {
    use super::{devices, spread_of_steps};
    use crate::view::text;
    use stackline_model::{Table, Unit, Values};

    fn spread(steps: i64) -> Table {
        Table::new("steps_spread", "Spread between steps")
            .text("measure", ["time", "with_gpu"].map(|name| Some(name.to_owned())))
            .i64("steps", Unit::None, [steps, steps])
            .f64("mean_us", Unit::Us, [5.0, 7.0])
            .f64("median_us", Unit::Us, [5.0, 7.0])
    }

    #[test]
    fn single_step_is_one_row() {
        let one = spread_of_steps(&spread(1));
        let columns: Vec<&str> = one.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!((one.rows(), columns, one.notes.len()), (1, vec!["time_us", "with_gpu_us"], 1));
        let several = spread_of_steps(&spread(2));
        assert_eq!((several.rows(), text(&several, "measure", 1)), (2, Some("with_gpu")));
    }

    #[test]
    fn categories_without_time_are_left_out() {
        let time = |devices: [i64; 3]| {
            let categories = ["computation", "memory", "idle_unknown"].map(|name| Some(name.to_owned()));
            Table::new("gpu_time", "GPU time")
                .i64("device", Unit::None, devices)
                .text("category", categories)
                .f64("percent", Unit::Percent, [Some(100.0), Some(0.0), None])
                .i64("time_ns", Unit::Ns, [Some(8), Some(0), None])
        };
        let one = devices(&time([0, 0, 0]));
        assert_eq!(one.rows(), 2, "an unknown time is no time of 0");
        assert_eq!((text(&one, "category", 0), text(&one, "category", 1)), (Some("computation"), Some("idle_unknown")));
        let two = devices(&time([0, 1, 1]));
        let columns: Vec<&str> = two.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(columns, ["device", "computation", "idle_unknown"]);
        assert!(matches!(&two.columns[1].values, Values::F64(values) if values.as_slice() == [Some(100.0), None]));
    }
}
