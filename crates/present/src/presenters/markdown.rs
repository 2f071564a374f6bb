//! Text of traces within Markdown.

use super::terminal::is_unseen;

/// Names of a trace as plain text within a table.
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

/// Text as code within a table.
pub(super) fn code(text: &str) -> String {
    let text: String = text.chars().map(|c| if is_unseen(c) || c == '`' { ' ' } else { c }).collect();
    format!("`{}`", text.replace('|', "\\|"))
}
