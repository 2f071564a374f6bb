//! Tokens of memory text, with line and column.

use super::TextError;

/// A token of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// An unquoted word.
    Word(String),
    /// A quoted word, which is never an option.
    Quoted(String),
    /// One of `, > [ ] @ = + * :`.
    Mark(char),
    /// The end of a statement.
    End,
}

impl Token {
    /// Description of a token of memory text for error messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Word(word) | Self::Quoted(word) => format!("`{word}`"),
            Self::Mark(mark) => format!("`{mark}`"),
            Self::End => "the end of the statement".to_owned(),
        }
    }
}

/// A token with the line and column of its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// True for characters that a word of memory text may contain without quotes.
pub(super) fn is_bare(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '.' | '/' | '-' | '$')
}

const MARKS: &str = ",>[]@=+*:";

/// Split a text into tokens; the last one is [`Token::End`].
pub(super) fn lex(text: &str) -> Result<Vec<Placed>, TextError> {
    let mut tokens = Vec::new();
    let mut lines = 0;
    for (number, line) in text.lines().enumerate() {
        lines = number + 1;
        let mut characters = line.chars().enumerate().peekable();
        while let Some((at, character)) = characters.next() {
            let (line, column) = (lines, at + 1);
            let token = match character {
                '#' => break,
                ';' => Token::End,
                '"' => Token::Quoted(quoted(&mut characters).ok_or_else(|| TextError {
                    line,
                    column,
                    what: "a quoted name has no closing quote; close the name with \" on the same line".to_owned(),
                })?),
                space if space.is_whitespace() => continue,
                mark if MARKS.contains(mark) => Token::Mark(mark),
                first if is_bare(first) => {
                    let mut word = String::from(first);
                    while let Some((_, more)) = characters.next_if(|(_, next)| is_bare(*next)) {
                        word.push(more);
                    }
                    Token::Word(word)
                }
                other => {
                    let what = format!("unexpected `{other}`; put names with such characters in double quotes");
                    return Err(TextError { line, column, what });
                }
            };
            tokens.push(Placed { token, line, column });
        }
        tokens.push(Placed { token: Token::End, line: lines, column: line.chars().count() + 1 });
    }
    tokens.push(Placed { token: Token::End, line: lines.max(1), column: 1 });
    Ok(tokens)
}

/// Read a quoted word after its opening quote; `None` if the quote is not closed on this line.
fn quoted(characters: &mut impl Iterator<Item = (usize, char)>) -> Option<String> {
    let mut word = String::new();
    loop {
        match characters.next()?.1 {
            '"' => return Some(word),
            '\\' => word.push(match characters.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                other => other,
            }),
            other => word.push(other),
        }
    }
}
