//! Tables for people: as wide as the terminal, units in the headers, bars where a share is shown.
//!
//! Wide cells are shortened in the middle, since kernel names differ at both ends. Then columns are dropped from the
//! right, with a note. Color never carries meaning alone.

use super::{human, spread};
use crate::cells::shorten_distinctly;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table as Grid, presets};
use stackline_model::kernel_names::short_names;
use stackline_model::{Column, Table, Unit, Values};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Width, color and row limit of text output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal.
    pub width: usize,
    /// Allow escape sequences for color and weight.
    pub color: bool,
    /// Rows shown per table; 0 means all.
    pub rows: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 100, color: false, rows: 0 }
    }
}

/// Text columns are shortened to no less than this.
const NARROWEST: usize = 18;
/// Columns whose sentences are wrapped rather than shortened, and to no less than this.
const WRAPPED: [&str; 1] = ["what"];
const NARROWEST_WRAPPED: usize = 32;
/// Sizes in adjacent columns share one unit, unless one column would round to nothing.
const COMPARABLE: f64 = 100.0;
/// Blanks between columns.
const GAP: usize = 2;
/// Cells of a bar for 100 %.
const BAR: usize = 12;
/// Bars are drawn only where this much of the width is left to the names.
const WIDTH_FOR_BARS: usize = 60;

/// Formatted column of a table with header, cells and width, before it is fitted to the terminal.
struct TextColumn {
    header: String,
    cells: Vec<String>,
    right: bool,
    width: usize,
    /// Wrap cells instead of shortening them.
    wraps: bool,
}

/// Format a result table as text for a terminal, ending in a line break.
pub fn table(table: &Table, style: &Style) -> String {
    let mut out = heading(&table.title, &table.name, style);
    let rows = table.rows();
    let shown = if style.rows == 0 { rows } else { rows.min(style.rows) };
    let mut lanes: Vec<TextColumn> = Vec::new();
    let bar = bar_column(table);
    for (i, column) in table.columns.iter().enumerate().filter(|(_, c)| rows == 0 || has_value(&c.values)) {
        lanes.push(lane(column, &scale_of_column(table, i), shown));
        if Some(i) == bar && style.width >= WIDTH_FOR_BARS {
            lanes.push(bars(column, shown));
        }
    }
    let left_out = fit(&mut lanes, style.width);
    if rows == 0 || lanes.is_empty() {
        out.push_str("(no rows)\n");
    } else {
        out.push_str(&draw(&lanes, shown, style));
    }
    if shown < rows {
        out.push_str(&note(&format!("{} more rows: --limit 0 shows all.", human::count(rows - shown)), style));
    }
    if left_out > 0 {
        let text = format!("{left_out} more columns do not fit: use a wider terminal, or --format json or csv.");
        out.push_str(&note(&text, style));
    }
    for text in &table.notes {
        out.push_str(&note(text, style));
    }
    out
}

/// Format result tables one after another, with an empty line between.
pub fn tables(tables: &[Table], style: &Style) -> String {
    tables.iter().map(|t| table(t, style)).collect::<Vec<_>>().join("\n")
}

/// Heading of a table: its title, and the name that `--format json` gives it; over several lines if it is wider than
/// the terminal.
pub fn heading(title: &str, name: &str, style: &Style) -> String {
    let mut lines = wrap(&clean(title), style.width.max(24));
    let used = lines.last().map_or(0, |line| line.width()) + name.width() + 3;
    let gap = if used > style.width.max(24) { "\n  " } else { " " };
    let painted =
        |text: &str, code: u8| if style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
    lines.iter_mut().for_each(|line| *line = painted(line, 1));
    let name = if name.is_empty() { String::new() } else { gap.to_owned() + &painted(&format!("[{name}]"), 2) };
    lines.join("\n") + &name + "\n"
}

/// A bar for a share of 0 to 100 %, at most `cells` wide, in eighths of a cell.
pub fn bar(percent: f64, cells: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (percent.clamp(0.0, 100.0) / 100.0 * (cells * 8) as f64).round() as usize;
    let partial = EIGHTHS[eighths % 8];
    format!("{}{partial}", "█".repeat(eighths / 8))
}

/// Format a note below a table: wrapped at the terminal width, indented, dim with color.
pub fn note(text: &str, style: &Style) -> String {
    let mut out = String::new();
    for line in wrap(&clean(text), style.width.max(24) - 2) {
        out.push_str("  ");
        out.push_str(&line);
        out.push('\n');
    }
    if style.color { format!("\x1b[2m{}\x1b[0m\n", out.trim_end_matches('\n')) } else { out }
}

/// Wrap lines that are wider than the terminal, with an indent. Other lines are unchanged.
pub fn wrap_lines(text: &str, style: &Style) -> String {
    let width = style.width.max(24);
    let one = |line: &str| match line.width() > width {
        true => wrap(line, width - 2).join("\n  ") + "\n",
        false => format!("{line}\n"),
    };
    text.lines().map(one).collect()
}

/// Check if a character could control a terminal: control characters, line breaks, and marks of text direction.
pub(super) fn is_unseen(c: char) -> bool {
    let changes_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    changes_direction || c.is_control()
}

/// Replace characters that could control a terminal by blanks.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
}

/// Replace characters that could control a terminal by blanks, except line breaks.
pub fn clean_lines(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) && c != '\n' { ' ' } else { c }).collect()
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let line = lines.len() - 1;
        let used = lines[line].width();
        if used > 0 && used + 1 + word.width() > width {
            lines.push(word.to_owned());
        } else {
            if used > 0 {
                lines[line].push(' ');
            }
            lines[line].push_str(word);
        }
    }
    lines
}

/// Wrap text at blanks to lines of at most `width` cells; words wider than a line are cut.
fn wrap_hard(text: &str, width: usize) -> Vec<String> {
    let cut = |line: String| {
        let mut pieces = vec![String::new()];
        for c in line.chars() {
            let last = pieces.len() - 1;
            if pieces[last].width() + c.width().unwrap_or(0) > width && !pieces[last].is_empty() {
                pieces.push(String::new());
            }
            let last = pieces.len() - 1;
            pieces[last].push(c);
        }
        pieces
    };
    wrap(text, width).into_iter().flat_map(cut).collect()
}

/// Check if any row has a value. Empty columns are dropped.
fn has_value(values: &Values) -> bool {
    match values {
        Values::I64(v) => v.iter().any(Option::is_some),
        Values::F64(v) => v.iter().any(Option::is_some),
        Values::Str(v) => v.iter().any(Option::is_some),
        Values::Bool(v) => v.iter().any(Option::is_some),
    }
}

/// Index of the column with bars: the first percent column with values from 0 to 100, but no spread. `None` with more
/// than two percent columns, where bars for one would mislead.
fn bar_column(table: &Table) -> Option<usize> {
    if table.columns.iter().filter(|c| c.unit == Unit::Percent).count() > 2 {
        return None;
    }
    table.columns.iter().position(|c| {
        let Values::F64(values) = &c.values else { return false };
        c.unit == Unit::Percent
            && !c.name.starts_with("spread")
            && values.iter().any(Option::is_some)
            && values.iter().flatten().all(|v| (0.0..=100.5).contains(v))
    })
}

/// Scale of a table column: its own, or one shared with adjacent columns. Columns of a spread share one; so do similar
/// sizes in a memory table.
fn scale_of_column(table: &Table, at: usize) -> human::Scale {
    let (columns, own) = (&table.columns, human::scale(&table.columns[at]));
    let is_size = |column: &Column| column.unit == Unit::Bytes && matches!(column.values, Values::I64(_));
    if let Some(scale) = spread::scale(columns, at) {
        return scale;
    }
    if !table.name.starts_with("memory_") || !is_size(&columns[at]) {
        return own;
    }
    let before = columns[..at].iter().rev().take_while(|column| is_size(column));
    let size_columns = before.chain(columns[at + 1..].iter().take_while(|column| is_size(column)));
    let largest = |column: &Column| human::largest(&column.values);
    let Some(most) = size_columns.max_by(|a, b| largest(a).total_cmp(&largest(b))) else { return own };
    let (mine, theirs) = (largest(&columns[at]), largest(most));
    if mine < theirs && theirs < mine * COMPARABLE { human::scale(most) } else { own }
}

fn lane(column: &Column, scale: &human::Scale, rows: usize) -> TextColumn {
    let (cells, right): (Vec<String>, bool) = match &column.values {
        Values::I64(v) => (v.iter().take(rows).map(|v| v.map_or_else(dash, |v| integer(v, scale))).collect(), true),
        Values::F64(v) => {
            let cell = |v: f64| spread::multiple(column, v).unwrap_or_else(|| human::number(v, scale));
            (v.iter().take(rows).map(|v| v.map_or_else(dash, cell)).collect(), true)
        }
        Values::Str(v) => (v.iter().take(rows).map(|v| v.as_deref().map_or_else(dash, clean)).collect(), false),
        Values::Bool(v) => {
            let word = |v: &Option<bool>| v.map_or_else(dash, |v| if v { "yes" } else { "no" }.to_owned());
            (v.iter().take(rows).map(word).collect(), false)
        }
    };
    let header = header(&column.name, column.unit, scale.suffix);
    let width = cells.iter().map(|c| c.width()).max().unwrap_or(0).max(header.width());
    TextColumn { header, cells, right, width, wraps: WRAPPED.contains(&&*column.name) }
}

fn integer(value: i64, scale: &human::Scale) -> String {
    // Without a division the digits must be exact: i64 does not fit f64.
    if scale.divisor == 1.0 && scale.decimals == 0 {
        if scale.grouped { human::count(value) } else { value.to_string() }
    } else {
        human::number(value as f64, scale)
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn bars(column: &Column, rows: usize) -> TextColumn {
    let cells: Vec<String> = match &column.values {
        Values::F64(v) => v.iter().take(rows).map(|v| v.map_or_else(String::new, |v| bar(v, BAR))).collect(),
        _ => vec![String::new(); rows],
    };
    let width = cells.iter().map(|c| c.width()).max().unwrap_or(0);
    TextColumn { header: String::new(), cells, right: false, width, wraps: false }
}

/// Column header with the unit: the name without its unit suffix such as `_ns`, then `(ms)`.
fn header(name: &str, unit: Unit, suffix: &str) -> String {
    let endings: &[&str] = match unit {
        Unit::Ns => &["_ns"],
        Unit::Us => &["_us", " (us)", " (µs)"],
        Unit::Ms => &["_ms", " (ms)"],
        Unit::Bytes => &["_bytes"],
        Unit::Percent => &["_percent", "_pct", " (%)"],
        Unit::MiB => &["_mib"],
        Unit::GBps => &["_gbps"],
        Unit::GiBps => &["_gibps"],
        Unit::None => &[],
    };
    let stem = endings.iter().find_map(|e| name.strip_suffix(e)).filter(|s| !s.is_empty()).unwrap_or(name);
    let stem = stem.replace('_', " ");
    if suffix.is_empty() { stem } else { format!("{stem} ({suffix})") }
}

/// Fit columns to the terminal width: drop columns from the right, then shorten texts. Returns the number of dropped
/// columns.
fn fit(lanes: &mut Vec<TextColumn>, width: usize) -> usize {
    let total =
        |lanes: &[TextColumn]| lanes.iter().map(|l| l.width).sum::<usize>() + GAP * lanes.len().saturating_sub(1);
    let least = |lanes: &[TextColumn]| {
        let narrowest = |l: &TextColumn| if l.wraps { NARROWEST_WRAPPED } else { NARROWEST.max(l.header.width()) };
        let narrow = |l: &TextColumn| if l.right { l.width } else { l.width.min(narrowest(l)) };
        lanes.iter().map(narrow).sum::<usize>() + GAP * lanes.len().saturating_sub(1)
    };
    let mut dropped = 0;
    while lanes.len() > 1 && least(lanes) > width {
        let bar = lanes.pop().is_some_and(|l| l.header.is_empty());
        dropped += usize::from(!bar);
    }
    if total(lanes) > width {
        lanes.iter_mut().filter(|lane| !lane.right && !lane.wraps).for_each(shorten_kernel_names);
    }
    let over = total(lanes).saturating_sub(width);
    let shares = |l: &TextColumn| !l.right && l.width > NARROWEST;
    let most = level(lanes.iter().filter(|l| shares(l)).map(|l| l.width).collect(), over);
    for lane in lanes.iter_mut().filter(|l| shares(l) && l.width > most) {
        lane.width = most;
        if lane.wraps {
            lane.cells.iter_mut().for_each(|cell| *cell = wrap_hard(cell, most).join("\n"));
        } else {
            lane.cells = shorten_distinctly(&lane.cells, most, shorten);
        }
        lane.header = shorten(&lane.header, most);
    }
    dropped
}

/// Shorten the C++ kernel names in a column to their distinguishing parts.
fn shorten_kernel_names(lane: &mut TextColumn) {
    lane.cells = short_names(&lane.cells);
    lane.width = lane.cells.iter().map(|c| c.width()).max().unwrap_or(0).max(lane.header.width());
}

/// Width limit that narrows columns of these widths by `over` cells in total; only columns wider than the limit are
/// narrowed.
fn level(mut widths: Vec<usize>, over: usize) -> usize {
    widths.sort_unstable_by(|a, b| b.cmp(a));
    let mut freed = 0;
    for (wider, &width) in widths.iter().enumerate() {
        let next = widths.get(wider + 1).copied().unwrap_or(NARROWEST);
        let (columns, step) = (wider + 1, width - next);
        if freed + columns * step >= over {
            return width - (over - freed).div_ceil(columns);
        }
        freed += columns * step;
    }
    NARROWEST
}

/// Shorten a text to at most `width` cells, with an ellipsis between its beginning (two thirds) and end.
pub fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let tail_width = width.saturating_sub(1) / 3;
    let head_width = width.saturating_sub(1) - tail_width;
    let head = take(text.chars(), head_width);
    let tail: String = take(text.chars().rev(), tail_width).chars().rev().collect();
    format!("{head}…{tail}")
}

/// Leading characters that fit into `width` terminal cells.
fn take(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= width
        })
        .collect()
}

/// Draw the fitted columns as a table with a ruled header.
fn draw(lanes: &[TextColumn], rows: usize, style: &Style) -> String {
    let mut grid = Grid::new();
    let ruled = presets::NOTHING.header_separator(LineStyle::none().fill('─'));
    grid.load_style(ruled).set_content_arrangement(ContentArrangement::Disabled);
    let align = |l: &TextColumn| if l.right { CellAlignment::Right } else { CellAlignment::Left };
    grid.set_header(lanes.iter().map(|l| Cell::new(&l.header).set_alignment(align(l))));
    for row in 0..rows {
        grid.add_row(lanes.iter().map(|l| Cell::new(&l.cells[row]).set_alignment(align(l))));
    }
    let last = lanes.len().saturating_sub(1);
    for (i, column) in grid.column_iter_mut().enumerate() {
        column.set_padding((0, if i < last { GAP as u16 } else { 0 }));
    }
    paint(&grid.to_string(), style)
}

fn paint(text: &str, style: &Style) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for (i, line) in text.lines().enumerate() {
        let line = line.trim_end();
        match (style.color, i) {
            (true, 0) => out.push_str(&format!("\x1b[1m{line}\x1b[0m")),
            (true, _) => out.push_str(&color_bars(line)),
            (false, _) => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

fn color_bars(line: &str) -> String {
    let is_bar = |c: char| ('▉'..='▏').contains(&c) || c == '█';
    let Some(start) = line.find(is_bar) else { return line.to_owned() };
    let end = line[start..].find(|c| !is_bar(c)).map_or(line.len(), |e| start + e);
    format!("{}\x1b[36m{}\x1b[0m{}", &line[..start], &line[start..end], &line[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let names =
            ["void at::native::vectorized_elementwise_kernel<4, add>(int, char*)", "nccl\u{1b}[31mDevKernel", "short"];
        Table::new("kernels", "Kernels by time")
            .text("name", names.map(|n| Some(n.to_owned())))
            .f64("gpu_time_percent", Unit::Percent, [62.5, 25.0, 12.5])
            .i64("total_ns", Unit::Ns, [62_500_000, 25_000_000, 12_500_000])
            .i64("calls", Unit::None, [12_345, 17, 1])
            .i64("stream", Unit::None, [Some(7), None, Some(20_000)])
            .note("Coverage: 98.2 % of the GPU time has a known launch.")
    }

    #[test]
    fn terminal_control_characters_are_removed() {
        let name = "\u{202e}gnp.\u{1b}[31mx\u{2066}\u{2028}\nä\u{200d}";
        assert_eq!(clean(name), " gnp. [31mx   ä\u{200d}");
        assert_eq!(clean_lines("a\u{202e}b\nc\u{7}"), "a b\nc ");
    }

    #[test]
    fn tables_fit_and_report_omitted_columns() {
        for width in [24, 40, 60, 80, 100, 200] {
            let text = table(&sample(), &Style { width, ..Style::default() });
            let grid = text.lines().skip(1).filter(|l| !l.starts_with("  "));
            assert!(grid.clone().all(|l| l.width() <= width), "width {width}:\n{text}");
            assert!(!text.contains('\u{1b}'), "control characters reach the terminal");
        }
        insta::assert_snapshot!(table(&sample(), &Style { width: 100, color: false, rows: 2 }));
    }

    #[test]
    fn sentences_are_complete_and_sizes_have_one_unit() {
        let long = "free object 6 (leak.py:12 step) just after kernel aten::sum (call 7, leak.py:14), with a_name_of_more_than_fifty_letters_that_no_line_holds";
        let sample = Table::new("memory_suggestions", "What to change")
            .i64("number", Unit::None, [1, 2])
            .text("what", [long, "short"].map(|text| Some(text.to_owned())))
            .i64("lowers_peak", Unit::Bytes, [9_961_472, 0])
            .i64("saved_at_p1", Unit::Bytes, [10_485_760, 524_288])
            .i64("tiny", Unit::Bytes, [7, 0]);
        for width in [60, 80, 120] {
            let text = table(&sample, &Style { width, ..Style::default() });
            assert!(text.lines().all(|line| line.width() <= width), "{text}");
            let letters: String =
                text.lines().skip(3).flat_map(|line| line.chars().filter(|c| c.is_alphabetic())).collect();
            let drawn: String = long.chars().filter(|c| c.is_alphabetic()).collect();
            assert!(letters.contains(&drawn), "width {width}:\n{text}");
        }
        let text = table(&sample, &Style { width: 120, ..Style::default() });
        assert!(text.contains("9.50") && text.contains("0.50") && text.contains("tiny (B)"), "{text}");
    }

    #[test]
    fn color_only_adds_escapes() {
        let plain = table(&sample(), &Style::default());
        let colored = table(&sample(), &Style { color: true, ..Style::default() });
        let mut stripped = String::new();
        let mut rest = colored.as_str();
        while let Some(at) = rest.find('\u{1b}') {
            stripped.push_str(&rest[..at]);
            rest = rest[at..].split_once('m').map_or("", |(_, r)| r);
        }
        stripped.push_str(rest);
        assert_ne!(plain, colored);
        assert_eq!(plain, stripped);
    }

    #[test]
    fn bars_are_proportional() {
        assert_eq!(bar(100.0, 4), "████");
        assert_eq!(bar(50.0, 4), "██");
        assert_eq!(bar(3.2, 4), "▏");
        assert_eq!(bar(-5.0, 4), "");
    }

    #[test]
    fn shortening_keeps_both_ends() {
        assert_eq!(shorten("abcdefghij", 7), "abcd…ij");
        assert_eq!(shorten("short", 7), "short");
    }
}
