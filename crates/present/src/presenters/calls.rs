//! Views of calling context trees for people: a line per node, numbers on the left, the tree on the right.
//!
//! Python frames that only call each other are one line, so that branches are visible.

use super::human::{self, Scale};
use super::terminal::{Style, clean, shorten};
use stackline_calls::{CallView, SourceLine, ViewNode};
use stackline_model::{CallStats, Column, Unit, Values};
use unicode_width::UnicodeWidthStr;

/// Between the frames of a folded chain.
const ARROW: &str = " › ";
/// Names keep at least this much of a line.
const NARROWEST: usize = 30;

/// The column of means is left out where names would have less than this.
const COMFORTABLE: usize = 60;
/// Header of the column of means and standard deviations.
const SPREAD: &str = "mean ± std";

/// Line of a call tree view: one node, or consecutive Python frames of which only the last has exclusive costs.
struct Line {
    rows: Vec<usize>,
    level: usize,
}

/// Format a call tree view as text for a terminal, ending in a line break.
pub fn view(view: &CallView, style: &Style) -> String {
    let lines = fold(view);
    let mut columns = columns(view, &lines);
    let used = |columns: &[TextColumn]| columns.iter().map(|c| c.width + 2).sum::<usize>();
    if style.width < used(&columns) + COMFORTABLE {
        columns.retain(|column| column.header != SPREAD);
    }
    let head: Vec<String> = columns.iter().map(|c| format!("{:>1$}", c.header, c.width)).collect();
    let head = format!("{}  {}", head.join("  "), "call");
    let mut out = if style.color { format!("\x1b[1m{head}\x1b[0m\n") } else { format!("{head}\n") };
    let room = style.width.saturating_sub(used(&columns)).max(NARROWEST);
    for (at, line) in lines.iter().enumerate() {
        let pad =
            |c: &TextColumn| format!("{}{}  ", " ".repeat(c.width.saturating_sub(c.cells[at].width())), c.cells[at]);
        let numbers: String = columns.iter().map(pad).collect();
        let indent = line.level.min(room / 2);
        let name = chain(view, &line.rows, room - indent);
        out.push_str(format!("{numbers}{}{name}", " ".repeat(indent)).trim_end());
        out.push('\n');
    }
    if lines.is_empty() {
        out.push_str("(no measurements)\n");
    }
    out
}

/// Convert a call tree view to lines, without the root. Consecutive Python frames, each the only callee of the one
/// before, share a line.
fn fold(view: &CallView) -> Vec<Line> {
    let joined = view.joined();
    let mut line_of = vec![0_usize; view.nodes.len()];
    let mut lines: Vec<Line> = Vec::new();
    for (row, node) in view.nodes.iter().enumerate().skip(1) {
        if let Some(line) = lines.last_mut().filter(|_| joined[row]) {
            line.rows.push(row);
            line_of[row] = lines.len() - 1;
            continue;
        }
        let level = if node.parent == 0 { 0 } else { lines[line_of[node.parent]].level + 1 };
        line_of[row] = lines.len();
        lines.push(Line { rows: vec![row], level });
    }
    lines
}

/// Join the names of consecutive call-tree nodes in at most `room` cells. If they do not fit, the first name, the
/// number of omitted names, and the last names remain.
fn chain(view: &CallView, rows: &[usize], room: usize) -> String {
    let names: Vec<String> = rows.iter().map(|&row| clean(&view.label(row).short())).collect();
    let whole = names.join(ARROW);
    let [first, between @ ..] = names.as_slice() else { return whole };
    if whole.width() <= room || between.is_empty() {
        return shorten(&whole, room);
    }
    let text_with = |kept: usize| {
        let left_out = format!("…{}", between.len() - kept);
        let last = between[between.len() - kept..].iter().map(String::as_str);
        [first.as_str(), &left_out].into_iter().chain(last).collect::<Vec<_>>().join(ARROW)
    };
    // Each takes a cell at least: a chain of thousands is not tried whole.
    let most = between.len().min(room + 1);
    let fitting = (0..most).rev().map(text_with).find(|text| text.width() <= room);
    fitting.unwrap_or_else(|| shorten(first, room))
}

/// Column of formatted numbers with header and width.
struct TextColumn {
    header: String,
    width: usize,
    cells: Vec<String>,
}

impl TextColumn {
    fn new(header: &str, cells: Vec<String>) -> Self {
        let width = cells.iter().map(|cell| cell.width()).max().unwrap_or(0).max(header.width());
        Self { header: header.to_owned(), width, cells }
    }
}

/// Columns of numbers for the lines of a call tree view; in a comparison, those of both runs and the change.
fn columns(view: &CallView, lines: &[Line]) -> Vec<TextColumn> {
    // A chain has the numbers of its last frame: the others have the same, and none of their own.
    let nodes: Vec<&ViewNode> = lines.iter().filter_map(|line| view.nodes.get(*line.rows.last()?)).collect();
    let inclusive: Vec<u64> = nodes.iter().map(|node| node.inclusive.sum).collect();
    let scale = scale(view.unit, inclusive.iter().chain(nodes.iter().map(|node| &node.before.sum)).copied());
    let sums = |name: &str, values: Vec<u64>| {
        let cells = values.iter().map(|&v| if v == 0 { "-".to_owned() } else { human::number(v as f64, &scale) });
        TextColumn::new(&with_unit(name, scale.suffix), cells.collect())
    };
    let share = |part: u64| match view.total.sum {
        0 => "-".to_owned(),
        all => format!("{:.1}", part as f64 * 100.0 / all as f64),
    };
    if view.before.is_some() {
        let change = |node: &&ViewNode| match node.change() {
            0 => "=".to_owned(),
            by => format!("{}{}", if by > 0 { "+" } else { "-" }, human::number(by.unsigned_abs() as f64, &scale)),
        };
        let factor = |node: &&ViewNode| match (node.before.sum, node.inclusive.sum) {
            (0, _) => "new".to_owned(),
            (_, 0) => "gone".to_owned(),
            (before, now) => format!("{:+.1}", (now as f64 / before as f64 - 1.0) * 100.0),
        };
        return vec![
            sums("before", nodes.iter().map(|node| node.before.sum).collect()),
            sums("after", inclusive),
            TextColumn::new("change", nodes.iter().map(change).collect()),
            TextColumn::new("%", nodes.iter().map(factor).collect()),
        ];
    }
    let calls = |node: &&ViewNode| match node.exclusive.count {
        0 => "-".to_owned(),
        count => human::count(count),
    };
    vec![
        sums("inclusive", inclusive.clone()),
        TextColumn::new("%", inclusive.iter().map(|&part| share(part)).collect()),
        sums("self", nodes.iter().map(|node| node.exclusive.sum).collect()),
        TextColumn::new("count", nodes.iter().map(calls).collect()),
        TextColumn::new(SPREAD, nodes.iter().map(|node| spread(view.unit, &node.exclusive)).collect()),
    ]
}

fn scale(unit: Unit, values: impl Iterator<Item = u64>) -> Scale {
    let largest = values.max().unwrap_or(0);
    let values = Values::I64(vec![Some(i64::try_from(largest).unwrap_or(i64::MAX))]);
    human::scale(&Column { name: "value".to_owned(), unit, values })
}

fn with_unit(name: &str, suffix: &str) -> String {
    if suffix.is_empty() { name.to_owned() } else { format!("{name} ({suffix})") }
}

/// Format mean and standard deviation of a metric's values, with one unit for both; empty without values.
fn spread(unit: Unit, stats: &CallStats) -> String {
    if stats.count == 0 {
        return String::new();
    }
    let (mean, deviation) = (stats.mean(), stats.standard_deviation());
    let scale = human::scale(&Column { name: "mean".to_owned(), unit, values: Values::F64(vec![Some(mean)]) });
    let text = human::number(mean, &scale);
    let text = if stats.count > 1 { format!("{text} ± {}", human::number(deviation, &scale)) } else { text };
    if scale.suffix.is_empty() { text } else { format!("{text} {}", scale.suffix) }
}

/// Source lines with their costs, file by file; `text_of` gives the text of a line if its source file is available.
pub fn lines(
    lines: &[SourceLine],
    unit: Unit,
    total: u64,
    text_of: impl Fn(&SourceLine) -> Option<String>,
    style: &Style,
) -> String {
    let scale = scale(unit, lines.iter().map(|line| line.inclusive.sum));
    let number = |value: u64| if value == 0 { "-".to_owned() } else { human::number(value as f64, &scale) };
    let percent =
        |part: u64| if total == 0 { "-".to_owned() } else { format!("{:.1}", part as f64 * 100.0 / total as f64) };
    let columns = [
        TextColumn::new(
            &with_unit("inclusive", scale.suffix),
            lines.iter().map(|line| number(line.inclusive.sum)).collect(),
        ),
        TextColumn::new("%", lines.iter().map(|line| percent(line.inclusive.sum)).collect()),
        TextColumn::new(
            &with_unit("self", scale.suffix),
            lines.iter().map(|line| number(line.exclusive.sum)).collect(),
        ),
        TextColumn::new("line", lines.iter().map(|line| line.line.to_string()).collect()),
    ];
    let right =
        |text: &str, lane: &TextColumn| format!("{}{text}  ", " ".repeat(lane.width.saturating_sub(text.width())));
    let heads: String = columns.iter().map(|lane| right(&lane.header, lane)).collect();
    let mut out = format!("{}source\n", heads);
    let mut file = None;
    for (at, line) in lines.iter().enumerate() {
        if file != Some(&line.file) {
            out.push_str(&shorten(&clean(&line.file), style.width));
            out.push('\n');
            file = Some(&line.file);
        }
        let numbers: String = columns.iter().map(|lane| right(&lane.cells[at], lane)).collect();
        let text = text_of(line).unwrap_or_else(|| format!("in {}", line.function));
        let room = style.width.saturating_sub(numbers.width()).max(NARROWEST);
        out.push_str(format!("{numbers}{}", shorten(&clean(&text), room)).trim_end());
        out.push('\n');
    }
    out
}

/// Format a value of a call-tree metric with its unit.
pub fn amount(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Ns => human::duration(i64::try_from(value).unwrap_or(i64::MAX)),
        Unit::Bytes => human::bytes(value),
        _ => human::count(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_calls as calls;
    use stackline_calls::ViewOptions;
    use stackline_model::CallMetric;

    #[test]
    fn call_tree_fits_and_folds() {
        let files = stackline_testkit::recording::streams(&stackline_testkit::recording::Config::default());
        let streams = files.iter().map(|(name, file)| (name.as_str(), file.as_slice()));
        let tree = stackline_ingest::recording::read_streams(streams);
        let whole = calls::view(&tree, &ViewOptions::new(CallMetric::OperatorTime));
        for width in [80, 100, 200] {
            let text = view(&whole, &Style { width, ..Style::default() });
            let widest = text.lines().map(|line| line.width()).max().unwrap_or(0);
            assert!(widest <= width, "{widest} cells in a terminal of {width}:\n{text}");
        }
        insta::assert_snapshot!(view(&whole, &Style::default()));
    }
}
