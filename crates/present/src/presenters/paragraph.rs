//! Paragraphs for terminals: no line is longer than the terminal is wide.

use super::terminal::{Style, clean};
use unicode_width::UnicodeWidthStr;

/// Lines are no longer, however wide the terminal.
const WIDEST: usize = 100;
/// Smallest width: narrower paragraphs would have one word per line.
const NARROWEST: usize = 40;

/// Width of paragraph lines in the terminal, at least 40 and at most 100.
pub(super) fn width(style: &Style) -> usize {
    style.width.clamp(NARROWEST, WIDEST)
}

/// Wrap a text, with one indent for the first line and another for the rest. Words longer than a line are kept whole.
pub(super) fn wrapped(text: &str, (first, others): (&str, &str), style: &Style) -> String {
    let width = width(style);
    let (mut out, mut line, mut is_empty) = (String::new(), first.to_owned(), true);
    for word in clean(text).split_whitespace() {
        if !is_empty && line.width() + 1 + word.width() > width {
            out.push_str(&line);
            out.push('\n');
            (line, is_empty) = (others.to_owned(), true);
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    out + line.trim_end() + "\n"
}

/// Wrap a remark such as `Note: …` for the terminal, with an indent.
pub(super) fn remark(text: &str, style: &Style) -> String {
    wrapped(text, ("", "  "), style)
}

#[cfg(test)]
mod tests {
    use super::{Style, remark, wrapped};

    #[test]
    fn lines_are_no_wider_than_the_terminal() {
        let text = "Note: steps of the ranks differ in length by more than a quarter, so that they are not compared.";
        for width in [40, 60, 80, 200] {
            let style = Style { width, ..Style::default() };
            let shown = remark(text, &style);
            assert!(shown.lines().all(|line| line.chars().count() <= width.min(100)), "{width}: {shown}");
            assert_eq!(shown.split_whitespace().collect::<Vec<_>>().join(" "), text);
            assert!(shown.lines().skip(1).all(|line| line.starts_with("  ")), "{shown}");
        }
    }

    #[test]
    fn long_words_are_not_split() {
        let word = "x".repeat(60);
        let style = Style { width: 40, ..Style::default() };
        assert_eq!(wrapped(&format!("a {word} b"), ("", ""), &style), format!("a\n{word}\nb\n"));
        assert_eq!(wrapped("", ("", ""), &style), "\n");
    }
}
