//! Comparison for a terminal: limits of the comparison, the step, then the largest significant changes.

use super::{BELOW, Shown, change_text, headline, measure, name, sides, signed, times};
use crate::presenters::human::capital;
use crate::presenters::paragraph::{remark, wrapped};
use crate::presenters::terminal::{Style, clean};
use stackline_diff::{Change, ChangeTable, Measure, Method, Per, Verdict};

/// Cells of a bar.
const BAR: usize = 10;

/// First line of a comparison of one run with another.
const UNTESTED: &str = "Not tested for significance: only one run per side, so run-to-run variation is unknown. \
                        Intervals and \"noise\" describe the variation between the steps of a run; two runs of the \
                        same program often differ by more. To test for significance, give several runs for each side.";

/// The same of runs without steps.
const UNTESTED_WHOLE: &str =
    "Not tested for significance: each side has one run without steps, so the noise is unknown.";

/// The same of runs of whose steps the mean is known.
const UNTESTED_MEAN: &str = "Not tested for significance: each side has one run, for which only the mean step time \
                             is recorded, so the noise is unknown.";

const SEVERAL: &str = "To test for significance, give several runs for each side.";

/// Format a comparison of runs as text for people.
pub fn text(shown: &Shown<'_>, style: &Style) -> String {
    let [before, after] = sides(shown);
    let lost = shown
        .diff
        .missing_records
        .iter()
        .map(|lost| remark(&format!("Records or times of a run are missing. {lost}"), style));
    let mut out = colored(&lost.collect::<String>(), Verdict::Slower, style);
    out.push_str(&opening_remarks(shown, style));
    out.push_str(&remark(&format!("A: {before}"), style));
    out.push_str(&remark(&format!("B: {after}"), style));
    // The headline follows these warnings, because they restrict its claims.
    let others = shown.diff.warnings.iter().skip(usize::from(shown.first_warning().is_some()));
    let lines = others.map(|warning| remark(&format!("Warning: {warning}"), style)).collect::<String>();
    if !lines.is_empty() {
        out.push_str(&colored(&lines, Verdict::Slower, style));
    }
    out.extend(shown.diff.mean_steps.iter().map(|steps| wrapped(steps, ("", ""), style)));
    out.push_str(&wrapped(&format!("{}.", capital(&headline(shown))), ("", ""), style));
    out.push('\n');
    steps(&mut out, shown, style);
    for table in BELOW.into_iter().filter(|table| !shown.changes(*table).is_empty()) {
        below(&mut out, shown, table, style);
    }
    let mut notes = shown.diff.notes.iter().filter(|note| shown.diff.mean_steps.as_ref() != Some(note)).peekable();
    if notes.peek().is_some() {
        let notes: String = notes.map(|note| remark(&format!("Note: {note}"), style)).collect();
        out.push_str(&dim(&format!("\n{notes}"), style));
    }
    out
}

/// Remarks before the comparison: changes are not tested for significance, or steps or numbers of calls are not
/// comparable; empty otherwise.
fn opening_remarks(shown: &Shown<'_>, style: &Style) -> String {
    let is_tested = shown.diff.method == Method::Runs;
    match (shown.first_warning(), shown.diff.per) {
        (Some(warning), _) if shown.diff.has_different_bases => {
            colored(&remark(&format!("Steps are not comparable: {warning}"), style), Verdict::Slower, style)
        }
        (Some(warning), _) if is_tested => {
            remark(&format!("The runs have different numbers of calls. {warning}"), style)
        }
        (Some(warning), _) => {
            let why = "Not tested for significance: the runs have different numbers of calls.";
            remark(&format!("{why} {warning} {SEVERAL}"), style)
        }
        (None, _) if is_tested => String::new(),
        (None, Per::Step) => remark(UNTESTED, style),
        (None, _) if shown.diff.mean_steps.is_some() => remark(&format!("{UNTESTED_MEAN} {SEVERAL}"), style),
        (None, _) => remark(&format!("{UNTESTED_WHOLE} {SEVERAL}"), style),
    }
}

fn dim(text: &str, style: &Style) -> String {
    if style.color { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
}

/// Color a text by the verdict on a change: red for slower, green for faster, dim for noise.
fn colored(text: &str, verdict: Verdict, style: &Style) -> String {
    let code = match verdict {
        Verdict::Slower | Verdict::OnlyAfter => "31",
        Verdict::Faster | Verdict::OnlyBefore => "32",
        Verdict::Noise | Verdict::Untested => "2",
    };
    if style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Append the lines of the step times: before, after, change and verdict.
fn steps(out: &mut String, shown: &Shown<'_>, style: &Style) {
    let (ranks, changes) = (shown.has_ranks(), shown.changes(ChangeTable::Steps));
    let shares = changes.iter().map(|change| change_text(change).chars().count()).max().unwrap_or(0);
    for change in changes {
        let rank = if ranks { format!("rank {:<4} ", change.rank) } else { String::new() };
        let [before, after] = times(change);
        let (share, verdict) = (change_text(change), shown.verdict(change));
        let what = format!("{rank}{:<17} {before:>10} → {after:>10}", measure(change.measure, shown.diff.per));
        let mut line = Line { width: what.chars().count(), text: what, room: style.width };
        line.push(&format!("{share:<shares$}"), |text| text.to_owned());
        line.push(verdict, |text| colored(text, change.verdict, style));
        if matches!(change.measure, Measure::Step | Measure::StepAndBetween) {
            let units = if shown.diff.per == Per::Step { "steps" } else { "runs" };
            line.push(&format!("({} and {} {units})", change.count_before, change.count_after), |text| {
                dim(text, style)
            });
        }
        out.push_str(&format!("{}\n", line.text));
    }
}

/// Builder of a text line from cells. Cells that do not fit are written on the next line, below the second cell.
struct Line {
    text: String,
    width: usize,
    room: usize,
}

impl Line {
    fn push(&mut self, cell: &str, painted: impl Fn(&str) -> String) {
        const INDENT: usize = 18;
        let length = cell.chars().count();
        let gap = if self.width + 2 + length > self.room { format!("\n{:INDENT$}", "") } else { "  ".to_owned() };
        self.width = if gap.starts_with('\n') { INDENT + length } else { self.width + 2 + length };
        self.text.push_str(&format!("{gap}{}", painted(cell)));
    }
}

/// Append a heading with the number of changed rows of one table, and its largest changes.
fn below(out: &mut String, shown: &Shown<'_>, table: ChangeTable, style: &Style) {
    let (largest, count) = shown.largest(table);
    let title = shown.title(table);
    let rows = shown.changes(table).len();
    if table == ChangeTable::Functions && largest.is_empty() {
        return;
    }
    let many = if count.tested == 0 { "none".to_owned() } else { count.tested.to_string() };
    let mut head = match shown.diff.method {
        Method::Runs => format!("{title}: {many} of {rows} rows changed significantly"),
        Method::Steps => format!("{title}: {many} of {rows} rows changed by more than the steps vary"),
        Method::None => format!("{title}: {many} of {rows} rows differ (not tested for significance)"),
    };
    match shown.untested(table) {
        0 => {}
        untested => head.push_str(&format!("; rows not tested: {untested}")),
    }
    match count.alone {
        0 => {}
        alone => head.push_str(&format!("; rows in one run only: {alone}")),
    }
    if shown.diff.per == Per::Call && !largest.is_empty() {
        head.push_str("; changes are scaled to the number of calls in run A");
    }
    if largest.is_empty() {
        head.push('.');
    }
    out.push('\n');
    out.push_str(&wrapped(&head, ("", "  "), style));
    let most = largest.iter().map(|change| shown.change_ns(table, change).abs()).fold(0.0, f64::max);
    for change in &largest {
        out.push_str(&row(shown, (table, change), most, style));
    }
    if let Some(recounts) = shown.changed_calls_sentence(table) {
        out.push_str(&wrapped(&recounts, ("  ", "  "), style));
    }
}

/// Lines of one change: a bar relative to the largest change `most`, the name, times, calls and verdict.
fn row(shown: &Shown<'_>, (table, change): (ChangeTable, &Change), most: f64, style: &Style) -> String {
    let ns = shown.change_ns(table, change);
    let full = ((ns.abs() / most) * BAR as f64).ceil() as usize;
    let bar = format!("{}{}", "█".repeat(full.clamp(1, BAR)), " ".repeat(BAR - full.clamp(1, BAR)));
    let on = if change.measure == Measure::Gpu { "GPU" } else { "CPU" };
    let rank = if shown.has_ranks() { format!("rank {} ", change.rank) } else { String::new() };
    let head = format!("  {:>10} {} {rank}{on} ", signed(ns), colored(&bar, change.verdict, style));
    let room = style.width.saturating_sub(30).max(30);
    let first = format!("{head}{}\n", shortened(&clean(&name(table, change)), room));
    let parts = [shown.row_times(table, change), shown.counts(table, change), shown.verdict(change).to_owned()];
    let rest = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let indent = " ".repeat(24);
    first + &dim(&wrapped(&rest, (&indent, &indent), style), style)
}

/// Replace the middle of a name by `…` so that it has at most `room` characters.
fn shortened(text: &str, room: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= room {
        return text.to_owned();
    }
    let half = room.saturating_sub(1) / 2;
    let (start, end) = (&chars[..half], &chars[chars.len() - half..]);
    format!("{}…{}", start.iter().collect::<String>(), end.iter().collect::<String>())
}
