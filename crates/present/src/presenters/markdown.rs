//! Escaping of names in Markdown tables, as plain text or as code.

use super::terminal::is_unseen;

/// Escape a name of a trace as plain text for a Markdown table.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if is_unseen(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Format a text as code for a Markdown table.
pub(super) fn code(text: &str) -> String {
    let text: String = text.chars().map(|c| if is_unseen(c) || c == '`' { ' ' } else { c }).collect();
    format!("`{}`", text.replace('|', "\\|"))
}
