//! Documentation page of a rule for a terminal (`findings --explain`).

use crate::presenters::paragraph::wrapped;
use crate::presenters::terminal::Style;

/// Format a rule's documentation page, which is Markdown, for a terminal: titles bold, paragraphs wrapped, code
/// indented.
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
            out.push_str(&wrapped(line, ("", ""), style));
        }
    }
    out
}

/// Format a row of the table of a rule's settings: option and range, with the meaning below.
fn setting(out: &mut String, cells: &str, style: &Style) {
    let cells: Vec<&str> = cells.trim_end_matches('|').split('|').map(str::trim).collect();
    if let [name, default, range, about] = cells[..]
        && name != "`--set`"
    {
        out.push_str(&format!("--set {}={default}  ({range})\n", name.trim_matches('`')));
        out.push_str(&wrapped(about, ("", ""), style));
    }
}
