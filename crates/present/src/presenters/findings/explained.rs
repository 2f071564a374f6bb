//! The page of a finding for a terminal.

use crate::presenters::terminal::Style;

/// Lines are no longer, however wide the terminal.
const WIDEST: usize = 100;

/// A page of Markdown as text: titles bold, paragraphs as wide as the terminal, code and tables as they are.
pub fn explained(page: &str, style: &Style) -> String {
    let mut out = String::new();
    let mut is_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            out.push_str(&format!("    {line}\n"));
        } else if let Some(title) = line.strip_prefix("## ").or_else(|| line.strip_prefix("# ")) {
            out.push_str(&if style.color { format!("\x1b[1m{title}\x1b[0m\n") } else { format!("{title}\n") });
        } else if let Some(cells) = line.strip_prefix("| ") {
            setting(&mut out, cells, style);
        } else if !line.starts_with("|-") {
            wrapped(&mut out, line, style);
        }
    }
    out
}

/// A row of the table of settings: what it is below how it is set.
fn setting(out: &mut String, cells: &str, style: &Style) {
    let cells: Vec<&str> = cells.trim_end_matches('|').split('|').map(str::trim).collect();
    if let [name, default, range, about] = cells[..]
        && name != "`--set`"
    {
        out.push_str(&format!("--set {}={default}  ({range})\n", name.trim_matches('`')));
        wrapped(out, about, style);
    }
}

fn wrapped(out: &mut String, text: &str, style: &Style) {
    let width = style.width.clamp(40, WIDEST);
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
}
