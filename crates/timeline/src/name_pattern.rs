//! Patterns for names: globs, regular expressions and whole words.

use regex_lite::Regex;

/// Pattern that matches names: glob, regular expression or whole words.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Glob for the whole name; `*` matches any text, `?` one character.
    Glob(String),
    /// Regular expression, matched anywhere in the name.
    Regex(Regex),
    /// Whole words of this text, anywhere in the name, case-insensitive.
    Words(String),
}

/// Escape a text as a glob that matches only this text.
pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('*', "\\*").replace('?', "\\?")
}

impl Pattern {
    /// Create a pattern that matches exactly this name, without wildcards.
    pub fn exactly(name: &str) -> Self {
        Self::Glob(escaped(name))
    }

    /// Parse a glob, or a regular expression after `~`.
    ///
    /// # Errors
    /// Returns an error if the regular expression is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix('~') {
            Some(regex) => Regex::new(regex).map(Self::Regex).map_err(|e| format!("not a regular expression: {e}")),
            None => Ok(Self::Glob(text.to_owned())),
        }
    }

    /// Test if a name matches the pattern.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Glob(glob) => glob_matches(glob.as_bytes(), name.as_bytes()),
            Self::Regex(regex) => regex.is_match(name),
            Self::Words(words) => has_words(name, words),
        }
    }

    /// Text of the pattern as typed after the colon of a selector.
    pub fn selector_text(&self) -> String {
        match self {
            Self::Glob(text) | Self::Words(text) => text.clone(),
            Self::Regex(regex) => format!("~{}", regex.as_str()),
        }
    }

    /// Text of the pattern, for the search for similar names.
    pub fn text(&self) -> &str {
        match self {
            Self::Glob(text) | Self::Words(text) => text,
            Self::Regex(regex) => regex.as_str(),
        }
    }
}

/// Test if a glob matches the whole `name`, in linear time except for backtracking to the last `*`.
fn glob_matches(glob: &[u8], name: &[u8]) -> bool {
    let (mut g, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match glob.get(g) {
            Some(b'*') => {
                back = Some((g + 1, n));
                g += 1;
                continue;
            }
            Some(b'?') => Some(1),
            Some(b'\\') if glob.get(g + 1) == Some(&name[n]) => Some(2),
            Some(c) if *c != b'\\' && *c == name[n] => Some(1),
            // A backslash that escapes nothing matches itself.
            Some(b'\\') if name[n] == b'\\' && !matches!(glob.get(g + 1), Some(b'*' | b'?' | b'\\')) => Some(1),
            _ => None,
        };
        match (step, back) {
            (Some(step), _) => {
                g += step;
                n += 1;
            }
            (None, Some((after, from))) => {
                g = after;
                n = from + 1;
                back = Some((after, n));
            }
            (None, None) => return false,
        }
    }
    glob[g..].iter().all(|&c| c == b'*')
}

/// Test if a name contains a text as whole words, case-insensitive.
fn has_words(name: &str, words: &str) -> bool {
    let (name, words) = (name.to_ascii_lowercase(), words.to_ascii_lowercase());
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    name.match_indices(&words)
        .any(|(at, _)| !is_word(name[..at].chars().next_back()) && !is_word(name[at + words.len()..].chars().next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        let fits = |glob: &str, name: &str| glob_matches(glob.as_bytes(), name.as_bytes());
        assert!(fits("*gemm*", "ampere_sgemm_32"));
        assert!(fits("a*b*c", "a_b_b_c"));
        assert!(fits("a?c", "abc"));
        assert!(!fits("a*bc*c", "a_bc"));
        assert!(!fits("gemm", "sgemm"));
        assert!(fits("**", ""));
        for name in ["Foo<a*>(b?)\\c", "plain", "*", "\\*"] {
            assert!(fits(&escaped(name), name), "{name}");
            assert!(!fits(&escaped(name), &format!("{name}x")), "{name}");
        }
    }

    #[test]
    fn words() {
        assert!(has_words("<built-in method item of Tensor object at 0x7f>", "item"));
        assert!(has_words("aten::item", "item"));
        assert!(!has_words("aten::items", "item"));
        assert!(has_words("cudaStreamSynchronize", "cudastreamsynchronize"));
    }
}
