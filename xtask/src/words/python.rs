//! Texts within Python: docstrings and string literals.

use super::literals::{Part, Reader, VALUE, prose_lines};

/// Docstrings of modules, classes, functions and attributes, with their lines, without examples for doctest.
pub(super) fn docstrings(source: &str) -> Vec<Part> {
    let of_docs = scan(source).into_iter().filter(|literal| literal.is_docstring);
    of_docs.map(|literal| (literal.line, without_examples(&literal.text))).collect()
}

/// String literals of several words in code, with their lines. Adjacent literals are one.
pub(super) fn messages(source: &str) -> Vec<Part> {
    let of_code = scan(source).into_iter().filter(|literal| !literal.is_docstring);
    of_code.flat_map(|literal| prose_lines((literal.line, literal.text))).collect()
}

/// Indentation of code within docstrings.
const CODE_INDENT: usize = 4;

/// A string literal of a Python source.
struct Literal {
    line: usize,
    text: String,
    /// A statement of its own.
    is_docstring: bool,
}

/// Find all string literals of a Python source.
fn scan(source: &str) -> Vec<Literal> {
    let mut reader = Reader::new(source);
    let mut found: Vec<Literal> = Vec::new();
    let mut depth = 0_usize;
    let (mut is_statement, mut is_adjacent) = (true, false);
    while let Some(c) = reader.peek() {
        let line = reader.line();
        if c == '#' {
            reader.take_while(|c| c != '\n');
            continue;
        }
        if c.is_whitespace() || c == '\\' {
            reader.take_any();
            let ends = c == '\n' && depth == 0;
            is_statement |= ends;
            is_adjacent &= !ends;
            // The line goes on.
            is_statement &= !(c == '\\' && reader.take("\n"));
            continue;
        }
        let prefix = reader.take_word();
        if let Some(text) = literal(&mut reader, prefix, is_statement) {
            match found.last_mut().filter(|_| is_adjacent) {
                Some(last) => join(last, &text, line),
                None => found.push(Literal { line, text, is_docstring: is_statement }),
            }
            is_adjacent = true;
        } else {
            if prefix.is_empty() {
                reader.take_any();
                depth = depth_after(c, depth);
            }
            is_adjacent = false;
        }
        is_statement = false;
    }
    found
}

/// Depth of brackets after character `c`.
fn depth_after(c: char, depth: usize) -> usize {
    match c {
        '(' | '[' | '{' => depth + 1,
        ')' | ']' | '}' => depth.saturating_sub(1),
        _ => depth,
    }
}

/// Append an adjacent literal, which begins in line `line` of the source.
fn join(literal: &mut Literal, text: &str, line: usize) {
    let end = literal.line + literal.text.matches('\n').count();
    let breaks = "\n".repeat(line.saturating_sub(end));
    // A space that ends the first part is no break between words of its own.
    literal.text = format!("{}{breaks}{text}", literal.text);
}

/// Read a string literal after its prefix; `None` if no literal follows. Values of formatted literals are replaced.
fn literal(reader: &mut Reader<'_>, prefix: &str, is_docstring: bool) -> Option<String> {
    let is_prefix = prefix.len() <= 2 && prefix.chars().all(|c| "rRbBuUfF".contains(c));
    let quotes = if is_prefix { ["\"\"\"", "'''", "\"", "'"] } else { return None };
    let quote = quotes.into_iter().find(|quote| reader.take(quote))?;
    let is_formatted = prefix.contains(['f', 'F']);
    let mut text = String::new();
    while reader.peek().is_some() && !reader.take(quote) {
        if is_formatted && (reader.take("{{") || reader.take("}}")) {
            text.push(' ');
        } else if is_formatted && reader.starts_with("{") {
            skip_value(reader);
            text.push_str(VALUE);
        } else if is_docstring && reader.take("\n") {
            text.push('\n');
        } else {
            reader.take_char(&mut text);
        }
    }
    Some(text)
}

/// Skip a value in braces within a formatted literal.
fn skip_value(reader: &mut Reader<'_>) {
    let mut depth = 0;
    while let Some(c) = reader.take_any() {
        depth = depth_after(c, depth);
        if depth == 0 {
            return;
        }
    }
}

/// Remove examples from a docstring: lines from a prompt to the next blank line, and indented blocks after a blank
/// line.
fn without_examples(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let filled = || text.split('\n').skip(1).filter(|line| !line.trim().is_empty());
    let indent_of_text = filled().map(indent).min().unwrap_or_default();
    let (mut is_example, mut is_after_blank) = (false, false);
    let mut out = String::new();
    for line in text.split('\n') {
        let bare = line.trim();
        let begins = bare.starts_with(">>>") || is_after_blank && indent(line) >= indent_of_text + CODE_INDENT;
        is_example = !bare.is_empty() && (begins || is_example);
        is_after_blank = bare.is_empty();
        out.push_str(if is_example { "" } else { line });
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{docstrings, messages};

    fn trimmed(parts: Vec<(usize, String)>) -> Vec<(usize, String)> {
        parts.into_iter().map(|(line, text)| (line, text.trim().to_owned())).collect()
    }

    #[test]
    fn docstrings_are_statements() {
        let source = "# \"no\"\n\"\"\"A module.\n\n>>> a()\nb\n\n    run a\n    c\n\nIt \"ends\".\"\"\"\n\
            class A:\n    '''A class.'''\n    a: int\n    \"an attribute\"\n    \
            def b(self, c=(\n        \"no\")):\n        r\"\"\"A function.\"\"\"\n";
        let expected =
            [(2, "A module.\n\n\n\n\n\n\n\nIt \"ends\"."), (12, "A class."), (14, "an attribute"), (17, "A function.")];
        assert_eq!(trimmed(docstrings(source)), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn messages_are_joined_and_their_values_replaced() {
        let source = "raise A(\"one two\")\nb = (\n\
               f\"{c!r:>{d}} is {{no}} \"  # why\n    'x y'\n)\ne = 'word'\nf = 'a ' \\\n 'b'\n";
        let expected = [(1, "one two"), (3, "`x` is  no  \nx y"), (7, "a \nb")];
        assert_eq!(messages(source), expected.map(|(line, text)| (line, text.to_owned())));
        assert!(docstrings(source).is_empty());
    }

    #[test]
    fn open_literals_end_with_the_text() {
        for source in ["\"a b", "'''a b", "f\"{a", "#", "\\", "f", ")", "\"a \\"] {
            assert!(messages(source).len() + docstrings(source).len() < 2);
        }
    }
}
