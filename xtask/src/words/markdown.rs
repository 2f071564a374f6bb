//! Sentences of Markdown text, without code blocks, link targets and generated parts.

/// Comments around parts of pages that tests write from Rust.
const GENERATED: &[(&str, &str)] =
    &[("<!-- codes: generated -->", "<!-- end of codes -->"), ("<!-- table: begin -->", "<!-- table: end -->")];

/// Abbreviations whose dot ends no sentence.
const ABBREVIATIONS: &[&str] = &["e.g.", "i.e.", "vs.", "cf.", "etc.", "no.", "sec.", "fig."];

/// Kind of block that a sentence belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// A paragraph or list item.
    Prose,
    Heading,
    TableCell,
}

/// A sentence of a page, with its line and block. Code spans are replaced by a backtick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    pub(super) line: usize,
    pub(super) block: Block,
    /// First sentence of its block.
    pub(super) is_first: bool,
    pub(super) text: String,
}

impl Sentence {
    /// Words of the sentence in lower case, without punctuation. Acronyms and names of arguments such as `WHAT` stay
    /// upper case.
    pub(super) fn words(&self) -> Vec<String> {
        let bare = |word: &str| {
            let is_sign = |c: char| !c.is_alphanumeric() && c != '`';
            // Names of options keep their dashes.
            let is_option = word.starts_with("--") && word.len() > 2;
            let word = if is_option { word.trim_end_matches(is_sign) } else { word.trim_matches(is_sign) };
            let is_acronym = word.len() > 1 && !word.contains(char::is_lowercase);
            if is_acronym { word.to_owned() } else { word.to_lowercase() }
        };
        self.text.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect()
    }
}

/// Split a Markdown page into sentences, in order.
pub(super) fn sentences(page: &str) -> Vec<Sentence> {
    let mut found = Vec::new();
    let mut paragraph: Vec<(usize, &str)> = Vec::new();
    let (mut is_code, mut generated) = (false, None);
    for (number, line) in page.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
        if let Some(end) = generated {
            generated = (!line.starts_with(end)).then_some(end);
            continue;
        }
        generated = GENERATED.iter().find(|(begin, _)| line.starts_with(begin)).map(|(_, end)| *end);
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        let item = list_item(line);
        if generated.is_some()
            || is_fence
            || is_code
            || line.is_empty()
            || item.is_some()
            || line.starts_with(['|', '#'])
        {
            end_paragraph(&mut paragraph, &mut found);
        }
        match line.chars().next() {
            _ if is_fence || is_code || generated.is_some() => {}
            None => {}
            Some('|') => {
                line.trim_matches('|')
                    .split(" | ")
                    .for_each(|cell| push_sentences(&[(number, cell)], Block::TableCell, &mut found));
            }
            Some('#') => push_sentences(&[(number, line.trim_start_matches('#'))], Block::Heading, &mut found),
            Some(_) => paragraph.push((number, item.unwrap_or(line))),
        }
    }
    end_paragraph(&mut paragraph, &mut found);
    found
}

/// Text of a line that begins a list item.
fn list_item(line: &str) -> Option<&str> {
    let bullet = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
    let numbered =
        line.split_once(". ").filter(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
    bullet.or(numbered.map(|(_, text)| text))
}

/// Append the sentences of a paragraph, and clear it.
fn end_paragraph(paragraph: &mut Vec<(usize, &str)>, found: &mut Vec<Sentence>) {
    push_sentences(paragraph, Block::Prose, found);
    paragraph.clear();
}

/// Append the sentences of one block, given by its lines.
fn push_sentences(lines: &[(usize, &str)], block: Block, found: &mut Vec<Sentence>) {
    let joined = lines.iter().map(|(_, text)| *text).collect::<Vec<_>>().join("\n");
    let Some(&(first_line, _)) = lines.first() else { return };
    let (mut line, mut is_first) = (first_line, true);
    for sentence in split_sentences(&without_markup(&joined)) {
        let text = sentence.trim();
        if text.chars().any(|c| c.is_alphanumeric() || c == '`') {
            let leading = sentence.len() - sentence.trim_start().len();
            let at = line + sentence[..leading].matches('\n').count();
            found.push(Sentence { line: at, block, is_first, text: text.replace('\n', " ") });
            is_first = false;
        }
        line += sentence.matches('\n').count();
    }
}

/// Text of Markdown: code spans become single backticks, links their text; emphasis and comments are removed. Line
/// breaks stay.
fn without_markup(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', ']', '<', '*']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (kept, length) = markup(rest);
        out.push_str(&kept);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// Replacement for the markup at the start of a text, and the length of the markup in bytes.
fn markup(text: &str) -> (String, usize) {
    let length_to = |begin: usize, end: &str| text[begin..].find(end).map(|at| begin + at + end.len());
    let found = if text.starts_with("](") {
        length_to(2, ")").map(|end| ("]", end))
    } else if text.starts_with("<!--") {
        length_to(4, "-->").map(|end| ("", end))
    } else if text.starts_with('`') {
        let ticks = text.len() - text.trim_start_matches('`').len();
        length_to(ticks, &text[..ticks]).map(|end| ("`", end))
    } else if text.starts_with('*') {
        Some(("", 1))
    } else {
        None
    };
    let (kept, length) = found.unwrap_or((&text[..1], 1));
    let breaks = text[..length].matches('\n').count();
    (format!("{kept}{}", "\n".repeat(breaks)), length)
}

/// Split a text after each end of a sentence.
fn split_sentences(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, _) in text.match_indices(['.', '?', '!']) {
        let end = at + 1 + text[at + 1..].find(|c| !matches!(c, ')' | '"' | ']' | '\'')).unwrap_or(text.len() - at - 1);
        let next = text[end..].trim_start().chars().next();
        let is_break = text[end..].starts_with(char::is_whitespace)
            && next.is_some_and(|c| c.is_uppercase() || c.is_ascii_digit() || matches!(c, '`' | '(' | '"' | '['));
        let last_word = text[begin..=at].split_whitespace().next_back().unwrap_or_default().to_lowercase();
        if is_break && !ABBREVIATIONS.contains(&last_word.trim_start_matches('(')) {
            parts.push(&text[begin..end]);
            begin = end;
        }
    }
    parts.push(&text[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::{Block, sentences};

    #[test]
    fn blocks_and_lines() {
        let page = "# Title of it\n\nOne two\nthree. Four\nfive! `a. B` six.\n- Item e.g. This\n  goes on.\n\n| a b | c. D |\n|---|---|\n\
                    ```sh\ncode here.\n```\n1. Last\n";
        let found: Vec<_> = sentences(page).into_iter().map(|s| (s.line, s.block, s.is_first, s.text)).collect();
        let expected = [
            (1, Block::Heading, true, "Title of it"),
            (3, Block::Prose, true, "One two three."),
            (4, Block::Prose, false, "Four five!"),
            (5, Block::Prose, false, "` six."),
            (6, Block::Prose, true, "Item e.g. This goes on."),
            (9, Block::TableCell, true, "a b"),
            (9, Block::TableCell, true, "c."),
            (9, Block::TableCell, false, "D"),
            (14, Block::Prose, true, "Last"),
        ];
        let found: Vec<_> =
            found.iter().map(|(line, block, first, text)| (*line, *block, *first, text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn markup_and_generated_parts_are_left_out() {
        let page = "**A** [link\ntext](a/b.md \"x\") ``c ` d`` <!-- no -->end.\n\n<!-- table: begin -->\nNo. No.\n<!-- table: end -->\nYes.\n";
        let found: Vec<_> = sentences(page).into_iter().map(|s| (s.line, s.text)).collect();
        assert_eq!(found, [(1, "A [link text] ` end.".to_owned()), (7, "Yes.".to_owned())]);
    }

    #[test]
    fn unclosed_markup_is_text() {
        for page in ["a ` b", "a ](b", "a <!-- b", "é*", "```\nopen", "|", "#", "`", "a.", "ä.\u{301}B"] {
            let _ = sentences(page);
        }
        assert_eq!(sentences("A ` WHAT (B), --as -- c.")[0].words(), ["a", "`", "WHAT", "b", "--as", "c"]);
    }
}
