//! Texts within source code: documentation comments and string literals, with their lines.

/// Indentation from which on a line of `--help` continues the text above.
const HELP_INDENT: usize = 6;

/// Paragraphs of `--help`, from the code block of a page: an option and its text are two.
pub(super) fn help(page: &str) -> Vec<(usize, String)> {
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

/// Documentation comments of Rust, with all other lines blank.
pub(super) fn doc_comments(source: &str) -> String {
    let mut text = String::new();
    for line in without_tests(source).lines().map(str::trim_start) {
        let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
        text.push_str(comment.unwrap_or_default());
        text.push('\n');
    }
    text
}

/// String literals of several words, with the lines that they begin in.
pub(super) fn messages(source: &str) -> Vec<(usize, String)> {
    let lines = |(first, text): (usize, String)| {
        let mut line = first;
        let part = move |part: &str| {
            let at = line;
            line += part.matches('\n').count();
            (at, part.to_owned())
        };
        text.split(LINE_END).map(part).collect::<Vec<_>>()
    };
    literals(without_tests(source)).into_iter().flat_map(lines).filter(|(_, text)| is_prose(text)).collect()
}

/// Text between tags, and string literals of several words, of TypeScript.
pub(super) fn page_text(source: &str) -> Vec<(usize, String)> {
    let mut found = messages(source);
    for (number, line) in source.lines().enumerate() {
        let between = line.split('>').skip(1).filter_map(|rest| rest.split_once('<')).map(|(text, _)| text.trim());
        let is_text = |text: &&str| is_prose(text) && !text.contains(['{', '}', ';', '=']);
        found.extend(between.filter(is_text).map(|text| (number + 1, text.to_owned())));
    }
    found.sort();
    found
}

/// End of a line within a literal, whose lines are checked one by one: preformatted text such as a table of options.
const LINE_END: char = '\u{2028}';

/// Spaces that a literal has at least to be a message.
const LEAST_SPACES: usize = 3;

fn is_prose(text: &str) -> bool {
    text.matches(' ').count() >= LEAST_SPACES && text.chars().any(char::is_alphabetic)
}

fn without_tests(source: &str) -> &str {
    source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Double-quoted literals with the lines that they begin in. Comments are left out, escapes are read as spaces.
fn literals(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let line = source[..source.len() - rest.len() + at].matches('\n').count() + 1;
        rest = &rest[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("'\"'") {
            3
        } else if let Some(inside) = rest.strip_prefix('"') {
            let (text, length) = literal(inside);
            found.push((line, text));
            length + 1
        } else {
            1
        };
        rest = &rest[length..];
    }
    found
}

/// Content of a literal after its opening quote, and its length with the closing one.
fn literal(inside: &str) -> (String, usize) {
    let mut text = String::new();
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, at + 1),
            '\\' => match chars.next() {
                // A line that goes on: the indentation of the next one is no text.
                Some((_, '\n')) => text = format!("{}\n", text.trim_end()),
                Some((_, quote @ ('"' | '\''))) => text.push(quote),
                Some((_, 'n')) => text.push(LINE_END),
                _ => text.push(' '),
            },
            '\n' => text.extend([LINE_END, '\n']),
            c => text.push(c),
        }
    }
    (text, inside.len())
}

#[cfg(test)]
mod tests {
    use super::{doc_comments, help, messages, page_text};

    #[test]
    fn doc_comments_keep_their_lines() {
        let source = "//! Parse a trace.\n\nuse a;\n    /// One.\n    /// Two.\nfn a() {} // no\n#[cfg(test)]\nmod tests {\n/// No.\n}\n";
        assert_eq!(doc_comments(source), " Parse a trace.\n\n\n One.\n Two.\n\n");
    }

    #[test]
    fn paragraphs_of_help() {
        let page = "# a\n\n```text\nDoes a.\n\nOptions:\n  -o, --to <X>\n          Write to\n          X\n  steps   Print steps\n          of all\n```\n";
        let found = help(page);
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

    #[test]
    fn messages_are_literals_of_several_words() {
        let source = "let a = \"one two three four\"; // \"not a text of ours\"\nlet c = '\"';\nlet b = \"it is \\\"so\\\" \\\n    here\";\nlet d = \"short\";\n";
        let found = messages(source);
        assert_eq!(found[0], (1, "one two three four".to_owned()));
        assert_eq!(found.len(), 2);
        let lines = messages("let a = \"one two three four\\nfive\n six seven eight nine\";");
        assert_eq!(lines, [(1, "one two three four".to_owned()), (1, "\n six seven eight nine".to_owned())]);
        assert_eq!(
            (found[1].0, found[1].1.split_whitespace().collect::<Vec<_>>().join(" ")),
            (3, "it is \"so\" here".to_owned())
        );
    }

    #[test]
    fn text_of_the_page() {
        let found = page_text("const a = <p class=\"x\">No GPU events were found</p>;\nif (a > b && c < d) {}\n");
        assert_eq!(found, [(1, "No GPU events were found".to_owned())]);
    }

    #[test]
    fn unclosed_literals_end_with_the_text() {
        for source in ["\"a b c d", "\"a b c \\", "'", "/", "//", "\""] {
            assert!(messages(source).len() < 2);
        }
    }
}
