//! Reader of source code and text of string literals, shared by the languages.

/// A text and the line that it begins in.
pub(super) type Part = (usize, String);

/// Stand-in for a computed value within a text: a code span for the parser of Markdown.
pub(super) const VALUE: &str = "`x`";

/// End of a line within a literal. The texts before and after it are checked one by one: preformatted text such as a
/// table of options.
const LINE_END: char = '\u{2028}';

/// Spaces that a literal has at least to be a message.
const LEAST_SPACES: usize = 1;

/// Characters of a line of wrapped prose, at least.
const LEAST_WRAPPED: usize = 60;

/// Position in source code, from which text is read and consumed.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Self { rest: source, line: 1 }
    }

    /// Line number of the position, counted from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Next character, without consuming it; `None` at the end.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// True if the source continues with `text`.
    pub(super) fn starts_with(&self, text: &str) -> bool {
        self.rest.starts_with(text)
    }

    /// Consume the next character and return it; `None` at the end.
    pub(super) fn take_any(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.skip(c.len_utf8());
        Some(c)
    }

    /// Consume `length` bytes and return them.
    pub(super) fn skip(&mut self, length: usize) -> &'a str {
        let (skipped, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.line += skipped.matches('\n').count();
        skipped
    }

    /// Consume `text` if the source continues with it; true if it does.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let is_next = self.starts_with(text);
        self.skip(if is_next { text.len() } else { 0 });
        is_next
    }

    /// Consume the source up to and including `end`, or up to its own end; returns it without `end`.
    pub(super) fn take_past(&mut self, end: &str) -> &'a str {
        let length = self.rest.find(end).unwrap_or(self.rest.len());
        let text = self.skip(length);
        self.take(end);
        text
    }

    /// Consume the longest run of characters that satisfy `is_part`, and return it.
    pub(super) fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        self.skip(self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len()))
    }

    /// Consume an identifier, keyword or number, and return it; empty if none follows.
    pub(super) fn take_word(&mut self) -> &'a str {
        self.take_while(is_word)
    }

    /// Consume the next character of a literal and append it to `text`, with escapes replaced.
    pub(super) fn take_char(&mut self, text: &mut String) {
        match self.take_any() {
            Some('\\') => match self.take_any() {
                // A literal that goes on: the indentation of the next line is no text.
                Some('\n') => *text = format!("{}\n", text.trim_end()),
                Some(quote @ ('"' | '\'' | '`')) => text.push(quote),
                Some('n') => text.push(LINE_END),
                _ => text.push(' '),
            },
            Some('\n') => self.break_line(text),
            c => text.extend(c),
        }
    }

    /// Append a line break within a literal to `text`. Wrapped prose continues after a long line, in lower case and
    /// without indentation; otherwise the line ends.
    fn break_line(&self, text: &mut String) {
        let last = text.rsplit(['\n', LINE_END]).next().unwrap_or_default();
        let goes_on = last.chars().count() >= LEAST_WRAPPED && self.rest.starts_with(char::is_lowercase);
        text.extend((!goes_on).then_some(LINE_END));
        text.push('\n');
    }
}

/// Append a line of a comment, given by its number and text: to the last part if it `continues` the part's comment.
/// Indented lines, such as examples, are parts of their own.
pub(super) fn push_line(found: &mut Vec<Part>, (line, text): (usize, &str), continues: bool) {
    let continues = continues && !text.starts_with("  ");
    match found.last_mut().filter(|(_, open)| continues && !open.starts_with("  ")) {
        Some((_, open)) => *open = format!("{open}\n{text}"),
        None => found.push((line, text.to_owned())),
    }
}

/// True for letters, digits and the underscore.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Lines of a literal that are prose, each with its line number in the source.
pub(super) fn prose_lines((first, text): Part) -> Vec<Part> {
    let mut line = first;
    let part = move |part: &str| {
        let at = line;
        line += part.matches('\n').count();
        (at, part.to_owned())
    };
    text.split(LINE_END).map(part).filter(|(_, text)| is_prose(text)).collect()
}

/// True if a text has words and at least one space.
fn is_prose(text: &str) -> bool {
    has_words(text) && text.trim().matches([' ', '\n']).count() >= LEAST_SPACES
}

/// True if a text has letters outside of computed values.
pub(super) fn has_words(text: &str) -> bool {
    text.replace(VALUE, "").chars().any(char::is_alphabetic)
}
