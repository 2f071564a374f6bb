//! Paragraphs of the output of `--help`.

/// Indentation from which on a line of `--help` continues the text above.
const HELP_INDENT: usize = 6;

/// Paragraphs of `--help` in the code block of a page, each with its line. An option and its text are two paragraphs.
pub(super) fn paragraphs(page: &str) -> Vec<(usize, String)> {
    let mut parts: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (number, line) in page.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        let text = line.trim();
        let is_deep = line.len() - line.trim_start().len() >= HELP_INDENT;
        if text.is_empty() || text.starts_with("```") {
            is_open = false;
            continue;
        }
        // A name and its text in one line.
        let (name, rest) = text.split_once("  ").map_or(("", text), |(name, rest)| (name, rest.trim()));
        if !name.is_empty() {
            parts.push((number, name.to_owned()));
        }
        match parts.last_mut().filter(|_| is_open && name.is_empty() && is_deep) {
            Some((_, open)) => *open = format!("{open}\n{rest}"),
            None => parts.push((number, rest.to_owned())),
        }
        // The text of an option begins below it.
        is_open = !text.starts_with('-') || !name.is_empty();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::paragraphs;

    #[test]
    fn paragraphs_of_help() {
        let page = "# a\n\n```text\nDoes a.\n\nOptions:\n  -o, --to <X>\n          Write to\n          X\n  steps   Print steps\n          of all\n```\n";
        let found = paragraphs(page);
        let expected = [
            (1, "# a"),
            (4, "Does a."),
            (6, "Options:"),
            (7, "-o, --to <X>"),
            (8, "Write to\nX"),
            (10, "steps"),
            (10, "Print steps\nof all"),
        ];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
