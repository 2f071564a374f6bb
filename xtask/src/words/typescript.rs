//! Texts within TypeScript and its JSX: text between tags, attributes that are shown, and string and template literals.

use super::literals::{Part, Reader, VALUE, has_words, is_word, prose_lines};

/// Attributes whose values people see or hear.
const SHOWN: &[&str] =
    &["alt", "aria-description", "aria-label", "aria-roledescription", "label", "placeholder", "title"];

/// Words after which `<` begins an element and `/` an expression.
const BEFORE_VALUE: &[&str] = &["return", "default", "case", "typeof", "in", "of", "yield", "await"];

/// Texts in a TypeScript source that the page shows, with their lines, in order.
pub(super) fn page_text(source: &str, has_elements: bool) -> Vec<Part> {
    let mut scan = Scan { reader: Reader::new(source), found: Vec::new(), has_elements };
    while scan.reader.peek().is_some() {
        scan.code();
    }
    scan.found.sort();
    scan.found
}

/// Text of the documentation comments in a TypeScript source, with all other lines blank.
pub(super) fn doc_comments(source: &str) -> String {
    let mut out = String::new();
    let mut is_comment = false;
    for line in source.lines().map(str::trim) {
        let begun = line.strip_prefix("/**");
        is_comment |= begun.is_some();
        let (text, is_end) = begun.unwrap_or(line).split_once("*/").map_or((line, false), |(text, _)| (text, true));
        let text = text.trim_start_matches(['/', '*']);
        out.push_str(if is_comment { text } else { "" });
        out.push('\n');
        is_comment &= !is_end;
    }
    out
}

/// Scanner of a TypeScript source, with the texts found so far.
struct Scan<'a> {
    reader: Reader<'a>,
    found: Vec<Part>,
    has_elements: bool,
}

impl Scan<'_> {
    /// Read code up to the closing brace that ends it, and collect its texts. The brace is consumed.
    fn code(&mut self) {
        let mut depth = 0_usize;
        // The last token is an operator or a bracket, so that a value follows.
        let mut is_before_value = true;
        while let Some(c) = self.reader.peek() {
            if self.reader.starts_with("//") {
                self.reader.take_while(|c| c != '\n');
                continue;
            } else if self.reader.take("/*") {
                self.reader.take_past("*/");
                continue;
            } else if c.is_whitespace() {
                self.reader.take_any();
                continue;
            }
            let is_value = is_before_value;
            is_before_value = false;
            if matches!(c, '"' | '\'' | '`') {
                let part = (self.reader.line(), self.literal());
                self.found.extend(prose_lines(part));
            } else if is_word(c) {
                is_before_value = BEFORE_VALUE.contains(&self.reader.take_word());
            } else if c == '/' && is_value {
                self.skip_pattern();
            } else if c == '<' && is_value && self.has_elements {
                self.element();
            } else {
                self.reader.take_any();
                // After a value, `!` is the assertion that it exists.
                is_before_value = !matches!(c, ')' | ']' | '}') && (c != '!' || is_value);
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => return,
                    '}' => {
                        depth -= 1;
                        // A statement or a value may end here; only a statement is followed by an element or a pattern.
                        is_before_value = true;
                    }
                    _ => {}
                }
            }
        }
    }

    /// Read a literal from its quote on; returns its text. Values within a template are placeholders; their texts are
    /// collected too.
    fn literal(&mut self) -> String {
        let mut text = String::new();
        let quote = self.reader.take_any().unwrap_or_default();
        while let Some(c) = self.reader.peek() {
            if c == quote {
                self.reader.take_any();
                break;
            } else if quote == '`' && self.reader.take("${") {
                self.code();
                text.push_str(VALUE);
            } else {
                self.reader.take_char(&mut text);
            }
        }
        text
    }

    /// Skip a regular expression literal.
    fn skip_pattern(&mut self) {
        self.reader.take_any();
        let mut is_class = false;
        while let Some(c) = self.reader.take_any() {
            match c {
                '\\' => _ = self.reader.take_any(),
                '[' => is_class = true,
                ']' => is_class = false,
                '/' if !is_class => return,
                '\n' => return,
                _ => {}
            }
        }
    }

    /// Read a JSX element with its attributes, text and inner elements, and collect its texts.
    fn element(&mut self) {
        self.reader.take("<");
        self.reader.take_while(|c| !c.is_whitespace() && !matches!(c, '/' | '>' | '{' | ','));
        if self.reader.starts_with(" extends ") || self.reader.starts_with(",") {
            // Parameters of a generic function.
            return;
        }
        while let Some(c) = self.reader.peek() {
            if self.reader.take("/>") {
                return;
            } else if self.reader.take(">") {
                return self.element_content();
            } else if self.reader.take("{") {
                self.code();
            } else if is_word(c) {
                self.attribute();
            } else {
                self.reader.take_any();
            }
        }
    }

    /// Read an attribute of a JSX element, and collect its text if people see or hear it.
    fn attribute(&mut self) {
        let name = self.reader.take_while(|c| is_word(c) || c == '-');
        if !self.reader.take("=") {
            return;
        }
        let line = self.reader.line();
        if let Some(quote) = self.reader.peek().filter(|c| matches!(c, '"' | '\'')) {
            self.reader.take_any();
            let text = self.reader.take_past(quote.encode_utf8(&mut [0; 4])).to_owned();
            if SHOWN.contains(&name) && has_words(&text) {
                self.found.push((line, text));
            }
        } else if self.reader.take("{") {
            self.code();
        }
    }

    /// Read the text and the inner elements of a JSX element, up to its closing tag, and collect the texts.
    fn element_content(&mut self) {
        let line = self.reader.line();
        let mut text = String::new();
        while let Some(c) = self.reader.peek() {
            let breaks = self.reader.line();
            if self.reader.take("</") {
                self.reader.take_past(">");
                break;
            } else if self.reader.take("{\" \"}") {
                text.push(' ');
            } else if self.reader.take("{") {
                self.code();
                text.push_str(VALUE);
            } else if c == '<' {
                self.element();
                text.push_str(VALUE);
            } else {
                self.reader.take_any();
                text.push(c);
                continue;
            }
            text.push_str(&"\n".repeat(self.reader.line() - breaks));
        }
        if has_words(&text) {
            self.found.push((line, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{doc_comments, page_text};

    fn assert_text(source: &str, expected: &[(usize, &str)]) {
        let found = page_text(source, true);
        let found: Vec<(usize, &str)> = found.iter().map(|(line, text)| (*line, text.trim())).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn text_between_tags() {
        assert_text(
            "const a = <p class=\"x y\">No GPU events were found</p>;\nif (a > b && c < d) {}\n",
            &[(1, "No GPU events were found")],
        );
        assert_text(
            "return (\n  <p>\n    One {two(\"a b\")}{\" \"}\n    <b>three</b> four.\n  </p>\n);",
            &[(2, "One `x` \n    `x` four."), (3, "a b"), (4, "three")],
        );
        assert_text(
            "const a = <>{b.map((c) => <li key={c}>Item</li>)}<br /></>; const d: A<B> = e! / f; <Q extends R>(g: Q) => h;",
            &[(1, "Item")],
        );
    }

    #[test]
    fn attributes_that_are_shown() {
        assert_text(
            "a && <A title=\"One\" id=\"two three\" aria-label={`Four ${5} six`} open {...b} />;",
            &[(1, "Four `x` six"), (1, "One")],
        );
    }

    #[test]
    fn literals_of_several_words() {
        assert_text(
            "// \"not this\"\nf(/[/\"]\"/, 'one \\'two\\'', `a ${b(`c d`, { e: `${f} g` })} h\n  i`, \"word\");",
            &[(2, "`x` g"), (2, "a `x` h"), (2, "c d"), (2, "one 'two'")],
        );
        assert!(page_text("const a = <T>b(\"x\");", false).is_empty());
    }

    #[test]
    fn documentation_of_code() {
        let source = "/** One. */\nconst a = b; /* no */\n  /**\n   * Two\n   * three.\n   */\nc();\n";
        assert_eq!(doc_comments(source), " One. \n\n\n Two\n three.\n\n\n");
    }

    #[test]
    fn open_parts_end_with_the_text() {
        for source in ["`a ${b", "<a", "<a b=\"c d", "<a>b c", "\"a b", "/a", "/*", "a => <", "}", "<a b={", "</"] {
            assert!(page_text(source, true).len() < 2, "{source}");
        }
    }
}
