//! Tables of the critical path of method "exact": causes, segments, summary and slack.

use super::{EventSlack, ExactReport, FalseHotspot, SegmentReport, SegmentReports, StepSpread};
use stackline_model::{Table, Unit};
use stackline_timeline::import_frames::import_row;

/// Names of large tables outside of [`tables`], created on demand.
pub const ON_DEMAND: [&str; 2] = [SEGMENTS, SLACK];

/// Names of all tables of a path.
pub const TABLES: [&str; 7] = ["bound_by", SUMMARY, "top", FALSE_HOTSPOTS, STEPS, SEGMENTS, SLACK];

const SUMMARY: &str = "summary";
const FALSE_HOTSPOTS: &str = "false_hotspots";
const STEPS: &str = "steps";

/// Name of the table of [`slack_table`].
pub const SLACK: &str = "slack";

/// Remove the tables of false hotspots and of steps if they are empty; other tables stay, even if empty.
pub fn without_empty_optional(tables: Vec<Table>) -> Vec<Table> {
    let is_empty_optional = |table: &Table| table.rows() == 0 && matches!(table.name.as_str(), FALSE_HOTSPOTS | STEPS);
    tables.into_iter().filter(|table| !is_empty_optional(table)).collect()
}

/// Create a table of slack per event. `is_unknown` adds a note that clocks disagree
/// ([`super::Exact::slack_is_unknown`]).
pub fn slack_table(rows: &[EventSlack<'_>], is_unknown: bool) -> Table {
    let table = Table::new(SLACK, "Slack: how much longer an event could take without delaying the end of the window")
        .i64("start_ns", Unit::Ns, rows.iter().map(|r| r.start_ns))
        .i64("dur_ns", Unit::Ns, rows.iter().map(|r| r.dur_ns))
        .i64("slack_ns", Unit::Ns, rows.iter().map(|r| r.slack_ns))
        .text("kind", rows.iter().map(|r| r.kind.name().to_owned()))
        .i64("event", Unit::None, rows.iter().map(|r| i64::from(r.event)))
        .text("name", rows.iter().map(|r| r.name.to_owned()));
    if is_unknown {
        table.note("Slack between host and GPU events is unknown, because the clocks of host and GPU differ too much.")
    } else {
        table
    }
}

/// Create all tables of a path except [`ON_DEMAND`]. The tables of false hotspots and of steps may have no rows.
pub fn tables(report: &ExactReport, hotspots: &[FalseHotspot], steps: &[StepSpread]) -> Vec<Table> {
    let mut causes: Vec<(&&str, &i64)> = report.bound_by_ns.iter().collect();
    causes.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let bound_by = Table::new("bound_by", "Critical path by cause")
        .text("bound_by", causes.iter().map(|(c, _)| (**c).to_owned()))
        .f64("percent", Unit::Percent, causes.iter().map(|(c, _)| report.bound_by.get(**c).copied()))
        .i64("time_ns", Unit::Ns, causes.iter().map(|(_, ns)| **ns));
    let lines = &report.summary;
    let summary = Table::new(SUMMARY, "Summary of the critical path in time order")
        .i64("start_ns", Unit::Ns, lines.iter().map(|c| c.start_ns))
        .i64("dur_ns", Unit::Ns, lines.iter().map(|c| c.dur_ns))
        .f64("percent", Unit::Percent, lines.iter().map(|c| c.percent))
        .text("place", lines.iter().map(|c| c.place.clone()))
        .text("bound_by", lines.iter().map(|c| c.bound_by.clone()))
        .text("longest", lines.iter().map(|c| c.longest.clone()));
    let top = &report.top;
    let top = Table::new("top", "Event names with the most time on the critical path")
        .text("name", top.iter().map(|s| s.name.clone()))
        .f64("percent", Unit::Percent, top.iter().map(|s| s.percent))
        .f64("weight_us", Unit::Us, top.iter().map(|s| s.weight_us))
        .i64("segments", Unit::None, top.iter().map(|s| s.edges as i64));
    vec![bound_by, summary, top, false_hotspots_table(hotspots), steps_table(steps)]
}

/// Table of the false hotspots: names with large total time, but little time on the critical path.
fn false_hotspots_table(rows: &[FalseHotspot]) -> Table {
    Table::new(FALSE_HOTSPOTS, "False hotspots: large total time, little on the critical path")
        .text("name", rows.iter().map(|h| h.name.clone()))
        .text("resource", rows.iter().map(|h| h.resource.to_owned()))
        .i64("calls", Unit::None, rows.iter().map(|h| h.calls as i64))
        .i64("total_ns", Unit::Ns, rows.iter().map(|h| h.total_ns))
        .i64("on_path_ns", Unit::Ns, rows.iter().map(|h| h.on_path_ns))
        .i64("min_slack_ns", Unit::Ns, rows.iter().map(|h| h.min_slack_ns))
        .i64("median_slack_ns", Unit::Ns, rows.iter().map(|h| h.median_slack_ns))
}

/// Table of the spread of the step length and of each cause over all steps.
fn steps_table(rows: &[StepSpread]) -> Table {
    let name = |s: &StepSpread| s.category.map_or("step", |c| c.name()).to_owned();
    Table::new(STEPS, "Critical path of the steps by cause: minimum, median and maximum over all steps")
        .text("bound_by", rows.iter().map(name))
        .i64("min_ns", Unit::Ns, rows.iter().map(|s| s.min_ns))
        .i64("median_ns", Unit::Ns, rows.iter().map(|s| s.median_ns))
        .i64("max_ns", Unit::Ns, rows.iter().map(|s| s.max_ns))
        .i64("max_step", Unit::None, rows.iter().map(|s| s.max_step))
        .note(
            "The critical path of a step ends when the step ends on its CPU thread, so it excludes GPU work that ends \
             later. The critical path of a step may differ from the critical path of the whole trace.",
        )
}

/// Name of the table of critical-path segments, and of their key in JSON documents.
pub const SEGMENTS: &str = "segments";
/// Title of the table of critical-path segments.
pub const SEGMENTS_TITLE: &str = "Critical-path segments in time order";

/// Build the table of merged critical-path segments for people and CSV: one row per segment, and one row for
/// consecutive segments of imports of modules.
pub fn segments_table(reports: &SegmentReports<'_>) -> Table {
    table_of(&reports.with_imports_folded())
}

/// Build the table of merged critical-path segments in parts of at most `rows` rows, created lazily because the text of
/// a long path takes much memory. There is at least one part.
pub fn segment_tables<'a>(reports: &'a SegmentReports<'_>, rows: usize) -> impl Iterator<Item = Table> + 'a {
    let (mut segments, mut part) = (reports.segments(), Vec::new());
    let mut is_first = true;
    std::iter::from_fn(move || {
        part.clear();
        part.extend(segments.by_ref().take(rows.max(1)).map(|segment| (segment, None)));
        (std::mem::take(&mut is_first) || !part.is_empty()).then(|| table_of(&part))
    })
}

/// Table of merged critical-path segments, one row per segment; segments of imports come with their number of calls.
fn table_of(rows: &[(SegmentReport<'_>, Option<usize>)]) -> Table {
    let segments = || rows.iter().map(|(segment, _)| segment);
    let names = rows.iter().map(|(segment, calls)| calls.map_or_else(|| segment.name.to_owned(), import_row));
    Table::new(SEGMENTS, SEGMENTS_TITLE)
        .i64("start_ns", Unit::Ns, segments().map(|h| h.start_ns))
        .i64("end_ns", Unit::Ns, segments().map(|h| h.end_ns))
        .i64("dur_ns", Unit::Ns, segments().map(|h| h.end_ns - h.start_ns))
        .text("category", segments().map(|h| h.category.name().to_owned()))
        .text("track", segments().map(|h| h.track.to_owned()))
        .i64("event", Unit::None, segments().map(|h| h.event.map(i64::from)))
        .text("name", names)
        .text("operator", segments().map(|h| h.operator.map(str::to_owned)))
        .text("frame", segments().map(|h| h.frame.map(str::to_owned)))
        .text("evidence", segments().map(|h| h.evidence.name().to_owned()))
        .text("rule", segments().map(|h| h.rule.to_owned()))
}
