//! Texts within Rust: comments, string literals and names of functions.

use super::literals::{Part, Reader, VALUE, is_word, prose_lines, push_line};

/// Text of the documentation comments in a Rust source, with all other lines blank.
pub(super) fn doc_comments(source: &str) -> String {
    let mut text = String::new();
    for line in source.lines().map(str::trim_start) {
        let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
        text.push_str(comment.unwrap_or_default());
        text.push('\n');
    }
    text
}

/// Ordinary comments, with the lines that they begin in. Adjacent lines of comments are one part.
pub(super) fn comments(source: &str) -> Vec<Part> {
    let mut found = Vec::new();
    let mut next_line = 0;
    scan(source, |line, token| {
        let comment = if let Token::Comment(text) = token { text.strip_prefix("//") } else { None };
        match comment.filter(|text| !text.starts_with(['/', '!'])) {
            Some(text) => {
                push_line(&mut found, (line, text), line == next_line);
                next_line = line + 1;
            }
            None => next_line = 0,
        }
    });
    found
}

/// String literals of several words, with the lines that they begin in.
pub(super) fn messages(source: &str) -> Vec<Part> {
    let mut found = Vec::new();
    scan(without_tests(source), |line, token| {
        if let Token::Literal(text) = token {
            found.extend(prose_lines((line, without_values(&text))));
        }
    });
    found
}

/// Names of functions, those of tests too, with their lines.
pub(super) fn function_names(source: &str) -> Vec<Part> {
    let mut found = Vec::new();
    let mut is_function = false;
    scan(source, |line, token| {
        if let Token::Word(word) = token {
            if is_function {
                found.push((line, word.to_owned()));
            }
            is_function = word == "fn";
        } else {
            is_function = false;
        }
    });
    found
}

/// Source before its module of tests.
fn without_tests(source: &str) -> &str {
    source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Word, string literal, line comment or sign of a Rust source.
pub(crate) enum Token<'a> {
    Word(&'a str),
    Literal(String),
    /// Text of the line from its two slashes on.
    Comment(&'a str),
    Sign(char),
}

/// Call `pass` with each word, literal, line comment and sign of a Rust source, and its line. Block comments and spaces
/// are left out.
pub(crate) fn scan<'a>(source: &'a str, mut pass: impl FnMut(usize, Token<'a>)) {
    let mut reader = Reader::new(source);
    while let Some(c) = reader.peek() {
        let line = reader.line();
        if reader.starts_with("//") {
            pass(line, Token::Comment(reader.take_past("\n")));
        } else if reader.starts_with("/*") {
            skip_comment(&mut reader);
        } else if c == '"' {
            pass(line, Token::Literal(literal(&mut reader)));
        } else if c == '\'' {
            skip_character(&mut reader);
        } else if is_word(c) {
            let word = reader.take_word();
            let raw = matches!(word, "r" | "br" | "cr").then(|| raw_literal(&mut reader)).flatten();
            pass(line, raw.map_or(Token::Word(word), Token::Literal));
        } else if c.is_whitespace() {
            reader.take_any();
        } else {
            reader.take_any();
            pass(line, Token::Sign(c));
        }
    }
}

/// Skip a block comment, which may contain others.
fn skip_comment(reader: &mut Reader<'_>) {
    let mut depth = 0;
    while reader.peek().is_some() {
        if reader.take("/*") {
            depth += 1;
        } else if reader.take("*/") {
            depth -= 1;
            if depth == 0 {
                return;
            }
        } else {
            reader.take_any();
        }
    }
}

/// Skip a character literal, or the quote of a lifetime.
fn skip_character(reader: &mut Reader<'_>) {
    reader.take("'");
    if reader.take("\\") {
        reader.take_any();
        reader.take_past("'");
    } else if let Some(c) = reader.peek().filter(|&c| reader.starts_with(&format!("{c}'"))) {
        reader.skip(c.len_utf8() + 1);
    }
}

/// Read a string literal from its opening quote on; returns its text.
fn literal(reader: &mut Reader<'_>) -> String {
    let mut text = String::new();
    reader.take("\"");
    while reader.peek().is_some() && !reader.take("\"") {
        reader.take_char(&mut text);
    }
    text
}

/// Replace each argument of `format!` in a text by a placeholder.
fn without_values(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, argument) = (&rest[..at], &rest[at + 1..]);
        out.push_str(before);
        let is_part = |c: char| is_word(c) || ":.$#?*<>^+".contains(c);
        let length = argument.find(|c| !is_part(c)).unwrap_or(argument.len());
        match argument[length..].strip_prefix('}') {
            Some(after) => {
                out.push_str(VALUE);
                rest = after;
            }
            None => {
                out.push('{');
                rest = argument;
            }
        }
    }
    out + rest
}

/// Read a raw string literal after its prefix; `None` if no literal follows.
fn raw_literal(reader: &mut Reader<'_>) -> Option<String> {
    let hashes = reader.take_while(|c| c == '#');
    let is_literal = reader.take("\"");
    // A backslash is no escape.
    let text = is_literal.then(|| reader.take_past(&format!("\"{hashes}")).replace('\\', " "))?;
    let mut inside = Reader::new(&text);
    let mut out = String::new();
    while inside.peek().is_some() {
        inside.take_char(&mut out);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{comments, doc_comments, function_names, messages};

    #[test]
    fn doc_comments_keep_their_lines() {
        let source = "//! Parse a trace.\n\nuse a;\n    /// One.\n    /// Two.\nfn a() {} // no\n";
        assert_eq!(doc_comments(source), " Parse a trace.\n\n\n One.\n Two.\n\n");
    }

    #[test]
    fn ordinary_comments_are_joined_to_parts() {
        let source = "// One\n// two.\n\n//! no\n/// no\nfn a() {} // three\nlet b = \"// no\"; // four\n//   five\n";
        let expected = [(1, " One\n two."), (6, " three"), (7, " four"), (8, "   five")];
        assert_eq!(comments(source), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn messages_are_literals_of_several_words() {
        let source = "let a = \"one two three four\"; // \"not a text of ours\"\nlet c = '\"';\nlet b = \"it is \\\"so\\\" \\\n    here\";\n\
            let d = \"short\"; /* \"not /* a */ text\" */ '\\'' '\\\\' \"<'a>\"\n";
        let expected = [(1, "one two three four"), (3, "it is \"so\"\n    here")];
        assert_eq!(messages(source), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn lines_of_a_literal() {
        let one_by_one = messages("let a = \"one two\\nfive\n Six seven\";");
        assert_eq!(one_by_one, [(1, "one two".to_owned()), (1, "\n Six seven".to_owned())]);
        let code = messages("\nlet a = \"one two\nthree four\";");
        assert_eq!(code, [(2, "one two".to_owned()), (2, "\nthree four".to_owned())]);
        let wrapped = "one two ".repeat(8);
        let sentence = messages(&format!("let a = r\"{wrapped}\nthree four\";"));
        assert_eq!(sentence, [(1, format!("{wrapped}\nthree four"))]);
    }

    #[test]
    fn raw_literals() {
        let source = "let a = r#\"one \"two\" \\three\"#;\n\
            let b = r\"a\\\";\nlet r#type = br\"c c\n d d\";\nlet c = \"last one\";";
        let expected = [(1, "one \"two\"  three"), (3, "c c"), (3, "\n d d"), (5, "last one")];
        assert_eq!(messages(source), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn arguments_are_placeholders() {
        let source = "format!(\"{what} of {:.1} and {name:>width$}: {{a b}} { c\")";
        assert_eq!(messages(source), [(1, "`x` of `x` and `x`: {{a b}} { c".to_owned())]);
    }

    #[test]
    fn names_of_functions() {
        let source = "fn one() {}\n/// fn no() {}\n#[test]\nfn two<'a>(f: fn(u8) -> u8) { \"fn no\"; }\n";
        assert_eq!(function_names(source), [(1, "one".to_owned()), (4, "two".to_owned())]);
    }

    #[test]
    fn open_literals_end_with_the_text() {
        for source in ["\"a b c d", "\"a b c \\", "'", "/", "//", "/*", "\"", "r#\"a b", "r", "'\\"] {
            assert!(messages(source).len() < 2);
        }
    }
}
