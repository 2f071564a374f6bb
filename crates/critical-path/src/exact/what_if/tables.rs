//! Tables of what-if predictions and sweeps.

use super::path::display_name;
use super::sweep::{Candidate, Sweep};
use super::{NewSegment, Prediction};
use stackline_model::{Table, Trace, Unit};
use stackline_timeline::import_frames::{IMPORT_ENTRY, is_import_name};

/// Share in percent; `None` for an empty window.
fn percent(ns: i64, window: i64) -> Option<f64> {
    (window > 0).then(|| 100.0 * ns as f64 / window as f64)
}

/// Tables of a prediction: critical path by cause before and after the edits, and names with the most time afterwards.
pub fn tables(found: &Prediction) -> Vec<Table> {
    let mut causes: Vec<_> = found
        .before
        .by_category
        .iter()
        .zip(&found.after.by_category)
        .map(|(before, after)| (before.0, before.1, after.1))
        .filter(|(_, before, after)| *before > 0 || *after > 0)
        .collect();
    causes.sort_by_key(|&(category, before, after)| (std::cmp::Reverse((after, before)), category));
    let bound_by = Table::new("bound_by", "Critical path by cause, before and after the what-if edits")
        .text("bound_by", causes.iter().map(|(c, ..)| c.name().to_owned()))
        .i64("before_ns", Unit::Ns, causes.iter().map(|(_, before, _)| *before))
        .i64("after_ns", Unit::Ns, causes.iter().map(|(.., after)| *after))
        .f64("after_percent", Unit::Percent, causes.iter().map(|(.., ns)| percent(*ns, found.after_ns)));
    let top = &found.after.top;
    let top = Table::new("top", "Event names with the most time on the critical path after the what-if edits")
        .text("name", top.iter().map(|(name, ..)| name.clone()))
        .text("bound_by", top.iter().map(|(_, category, _)| category.name().to_owned()))
        .i64("time_ns", Unit::Ns, top.iter().map(|(.., ns)| *ns))
        .f64("percent", Unit::Percent, top.iter().map(|(.., ns)| percent(*ns, found.after_ns)));
    vec![bound_by, top]
}

/// Name of the table of [`path_table`], which is large and created on demand.
pub const PATH: &str = "path";

/// Build the table of critical-path segments after the edits. Consecutive segments of frames of Python's import
/// machinery are one row.
pub fn path_table(trace: &Trace, segments: &[NewSegment]) -> Table {
    let rows = with_imports_folded(trace, segments);
    let starts = || std::iter::once(0).chain(rows.iter().map(|(segment, _)| segment.end_ns));
    let name = |(segment, is_import): &(NewSegment, bool)| match *is_import {
        true => IMPORT_ENTRY.to_owned(),
        false => display_name(trace.strings.get(segment.name)).to_owned(),
    };
    Table::new(PATH, "Critical path after the what-if edits")
        .i64("start_ns", Unit::Ns, starts().take(rows.len()))
        .i64("end_ns", Unit::Ns, rows.iter().map(|(segment, _)| segment.end_ns))
        .i64("dur_ns", Unit::Ns, rows.iter().zip(starts()).map(|((segment, _), start)| segment.end_ns - start))
        .text("bound_by", rows.iter().map(|(segment, _)| segment.category.name().to_owned()))
        .text("name", rows.iter().map(name))
}

/// Segments of the table of the path: consecutive ones of import frames with the same cause become one, marked as such.
/// The number of calls is unknown, because a frame has several segments around its callees.
fn with_imports_folded(trace: &Trace, segments: &[NewSegment]) -> Vec<(NewSegment, bool)> {
    let mut rows: Vec<(NewSegment, bool)> = Vec::new();
    for segment in segments {
        let is_import = is_import_name(trace.strings.get(segment.name));
        match rows.last_mut() {
            Some((last, true)) if is_import && last.category == segment.category => last.end_ns = segment.end_ns,
            _ => rows.push((*segment, is_import)),
        }
    }
    rows
}

/// Table of a sweep's candidate edits, ordered by gain.
pub fn sweep_table(sweep: &Sweep) -> Table {
    by_gain(sweep).text("also", sweep.candidates.iter().map(|c| c.also.join("; ")))
}

/// Tables of a sweep for a terminal, where long names leave no space: edits of the same time are in a separate table.
pub fn sweep_tables(sweep: &Sweep) -> Vec<Table> {
    let same = || sweep.candidates.iter().flat_map(|c| c.also.iter().map(move |also| (also, &c.edit)));
    let names = Table::new(
        "same_time",
        "What-if edits not listed above, because they change the same time as a listed \
                                         edit",
    )
    .text("edit", same().map(|(also, _)| also.clone()))
    .text("listed_as", same().map(|(_, edit)| edit.clone()));
    let any = same().next().is_some();
    std::iter::once(by_gain(sweep)).chain(any.then_some(names)).collect()
}

/// Table of a sweep's candidate edits by gain, without the other edits of the same time.
fn by_gain(sweep: &Sweep) -> Table {
    let rows = &sweep.candidates;
    let share = |ns: fn(&Candidate) -> i64| rows.iter().map(move |c| percent(ns(c), sweep.window_ns));
    let table = Table::new("sweep", "What-if edits by estimated gain, each simulated on its own")
        .text("edit", rows.iter().map(|c| c.edit.clone()))
        .i64("gain_ns", Unit::Ns, rows.iter().map(|c| c.gain.likely_ns))
        .f64("gain_percent", Unit::Percent, share(|c| c.gain.likely_ns))
        .f64("low_percent", Unit::Percent, share(|c| c.gain.low_ns))
        .f64("high_percent", Unit::Percent, share(|c| c.gain.high_ns))
        .i64("on_path_ns", Unit::Ns, rows.iter().map(|c| c.on_path_ns))
        .i64("events", Unit::None, rows.iter().map(|c| c.count as i64));
    let left_out = (sweep.left_out > 0).then(|| {
        format!("{} more candidate edits were not simulated; --candidates sets the maximum number.", sweep.left_out)
    });
    sweep.notes.iter().cloned().chain(left_out).fold(table, Table::note)
}

#[cfg(test)]
mod tests {
    use super::{NewSegment, path_table};
    use crate::exact::Category;
    use stackline_model::{Trace, Values};

    #[test]
    fn consecutive_import_frames_are_one_row() {
        let mut trace = Trace::default();
        let names = ["train.py(1): main", "<frozen importlib._bootstrap>(9): _find_and_load", ""];
        let [main, import, nothing] = names.map(|name| trace.strings.intern(name));
        let segment = |(name, category, end_ns)| NewSegment { end_ns, category, name };
        let segments = [
            (main, Category::HostPython, 10),
            (import, Category::HostPython, 20),
            (import, Category::HostPython, 25),
            (import, Category::Unknown, 30),
            (nothing, Category::Unknown, 40),
        ];
        let table = path_table(&trace, &segments.map(segment));
        let Values::Str(names) = &table.column("name").unwrap().values else { panic!("{table:?}") };
        let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        assert_eq!(names[..3], ["train.py(1): main", "imports", "imports"]);
        let Values::I64(times) = &table.column("dur_ns").unwrap().values else { panic!("{table:?}") };
        assert_eq!(*times, [10, 15, 5, 10].map(Some));
    }
}
