//! Pull scanner of JSON tokens from a slice, tolerant of the damage in real traces (see the codes of the read report in
//! `docs/formats/chrome.md`).

use memchr::{memchr, memchr2};

/// Failure to scan a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fail {
    /// The slice ends within the token.
    End,
    /// The text is invalid up to this position of the slice.
    Bad(usize),
}

/// Raw bytes of a string, with flags for decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawStr<'a> {
    /// Bytes between the quotes.
    pub(crate) raw: &'a [u8],
    /// True if the string contains backslashes.
    pub(crate) escaped: bool,
    /// True if the string contains unescaped quotes.
    pub(crate) bare_quotes: bool,
}

/// An undecoded scalar or container value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RawValue<'a> {
    /// A string.
    Str(RawStr<'a>),
    /// An integer of at most 18 digits.
    Int(i64),
    /// Text of any other number.
    Number(&'a [u8]),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
    /// An array or object, brackets included.
    Json(&'a [u8]),
    /// Not JSON: `nan`, `inf`, `N/A`, an identifier, or a missing value.
    Odd(&'a [u8]),
}

/// Reading position in a slice of JSON text.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

/// Check if a byte is white space in JSON.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Next byte that is not white space, without consuming it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8, Fail> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !is_space(byte) {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(Fail::End)
    }

    /// Read an object's key with its colon. A missing opening quote is repaired; the second result is then true.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<(RawStr<'a>, bool), Fail> {
        if self.peek()? != b'"' {
            return self.key_without_quote();
        }
        let start = self.at + 1;
        // Keys are short, so a plain loop is faster than a vectorized search.
        let mut end = start;
        let mut escaped = false;
        loop {
            match self.bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    end += 2;
                }
                Some(_) => end += 1,
                None => return Err(Fail::End),
            }
        }
        let mut after = Self { bytes: self.bytes, at: end + 1 };
        if after.peek()? != b':' {
            return Err(Fail::Bad(after.at));
        }
        self.at = after.at + 1;
        Ok((RawStr { raw: &self.bytes[start..end], escaped, bare_quotes: false }, false))
    }

    /// Read a key without its opening quote: a few plain characters, a quote, a colon.
    #[cold]
    fn key_without_quote(&mut self) -> Result<(RawStr<'a>, bool), Fail> {
        let limit = self.bytes.len().min(self.at + LONGEST_PLAIN_KEY + 1);
        let Some(length) = memchr(b'"', &self.bytes[self.at..limit]) else {
            return Err(if limit == self.bytes.len() { Fail::End } else { Fail::Bad(limit) });
        };
        let raw = &self.bytes[self.at..self.at + length];
        let mut after = Self { bytes: self.bytes, at: self.at + length + 1 };
        if !is_plain_key(raw) || after.peek()? != b':' {
            return Err(Fail::Bad(after.at));
        }
        self.at = after.at + 1;
        Ok((RawStr { raw, escaped: false, bare_quotes: false }, true))
    }

    /// Position of the closing quote of a well-formed string from `from` (after its opening quote) on, and true if it
    /// contains backslashes.
    #[inline]
    fn string_end(&self, from: usize) -> Result<(usize, bool), Fail> {
        const SHORT: usize = 16;
        for at in from..from + SHORT {
            match self.bytes.get(at) {
                Some(b'"') => return Ok((at, false)),
                Some(b'\\') => return self.string_end_far(at),
                Some(_) => {}
                None => return Err(Fail::End),
            }
        }
        self.string_end_far(from + SHORT)
    }

    /// Position of the closing quote from `from` on, found by vectorized search, and true after any backslash.
    fn string_end_far(&self, from: usize) -> Result<(usize, bool), Fail> {
        let mut at = from;
        let mut escaped = false;
        loop {
            let found = at + memchr2(b'"', b'\\', self.bytes.get(at..).ok_or(Fail::End)?).ok_or(Fail::End)?;
            if self.bytes[found] == b'"' {
                return Ok((found, escaped));
            }
            escaped = true;
            at = found + 2;
        }
    }

    /// Read a string value within an object or array. If invalid text follows its end, quotes inside were not escaped:
    /// the string then ends at the first quote after which the object visibly continues.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<RawStr<'a>, Fail> {
        let start = self.at + 1;
        let (end, escaped) = self.string_end(start)?;
        match (Self { bytes: self.bytes, at: end + 1 }).peek()? {
            b',' | b'}' | b']' => {
                self.at = end + 1;
                Ok(RawStr { raw: &self.bytes[start..end], escaped, bare_quotes: false })
            }
            _ => self.string_slow(start),
        }
    }

    /// Read a string with unescaped quotes, up to the first quote after which the object visibly continues.
    #[cold]
    fn string_slow(&mut self, start: usize) -> Result<RawStr<'a>, Fail> {
        const LONGEST: usize = 64 << 10;
        let limit = self.bytes.len().min(start + LONGEST);
        let mut at = start;
        while let Some(found) = memchr(b'"', &self.bytes[at..limit]) {
            let quote = at + found;
            // An escaped quote ends the string only if the last backslash of a path precedes it: a key must follow.
            let hidden = quote > start && self.bytes[quote - 1] == b'\\';
            if self.object_continues(quote + 1, !hidden)? {
                let raw = &self.bytes[start..quote];
                self.at = quote + 1;
                return Ok(RawStr { raw, escaped: memchr(b'\\', raw).is_some(), bare_quotes: true });
            }
            at = quote + 1;
        }
        if limit == self.bytes.len() { Err(Fail::End) } else { Err(Fail::Bad(limit)) }
    }

    /// Check if a comma and a key with its colon follow, or (if `may_end`) the end of the object.
    fn object_continues(&self, from: usize, may_end: bool) -> Result<bool, Fail> {
        let mut next = Self { bytes: self.bytes, at: from };
        match next.peek()? {
            b'}' => Ok(may_end),
            b',' => {
                next.at += 1;
                next.is_key_ahead()
            }
            _ => Ok(false),
        }
    }

    /// Check if a quoted key of usual length and its colon follow.
    fn is_key_ahead(&mut self) -> Result<bool, Fail> {
        const LONGEST_KEY: usize = 80;
        if self.peek()? != b'"' {
            return Ok(false);
        }
        let start = self.at + 1;
        let limit = self.bytes.len().min(start + LONGEST_KEY);
        match memchr(b'"', &self.bytes[start..limit]) {
            Some(length) => Ok((Self { bytes: self.bytes, at: start + length + 1 }).peek()? == b':'),
            None if limit == self.bytes.len() => Err(Fail::End),
            None => Ok(false),
        }
    }

    /// Read any JSON value at the cursor.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<RawValue<'a>, Fail> {
        match self.peek()? {
            b'"' => self.string().map(RawValue::Str),
            b'-' | b'0'..=b'9' => self.number_or_odd(),
            b'[' | b'{' => {
                let start = self.at;
                self.skip_container()?;
                Ok(RawValue::Json(&self.bytes[start..self.at]))
            }
            _ => self.word(),
        }
    }

    /// Read an integer of at most 18 digits, the text of any other number, or an invalid word.
    #[inline]
    fn number_or_odd(&mut self) -> Result<RawValue<'a>, Fail> {
        let start = self.at;
        let negative = self.bytes[start] == b'-';
        let first = start + usize::from(negative);
        let mut at = first;
        let mut value = 0i64;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(at) {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
            at += 1;
        }
        // Up to 18 digits fit; "-0" is not the integer 0.
        let digits = at - first;
        let fits = (1..=18).contains(&digits) && !(negative && value == 0);
        match self.bytes.get(at) {
            None => Err(Fail::End),
            Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') if fits => {
                self.at = at;
                Ok(RawValue::Int(if negative { -value } else { value }))
            }
            Some(_) => self.number_text(start, at),
        }
    }

    /// Read the rest of a number that is not a plain integer.
    #[inline]
    fn number_text(&mut self, start: usize, from: usize) -> Result<RawValue<'a>, Fail> {
        let mut at = from;
        while let Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') = self.bytes.get(at) {
            at += 1;
        }
        match self.bytes.get(at) {
            None => Err(Fail::End),
            Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') => {
                self.at = at;
                Ok(RawValue::Number(&self.bytes[start..at]))
            }
            Some(_) => {
                self.at = start;
                self.word()
            }
        }
    }

    /// Read an unquoted word up to a delimiter, such as `true`, `null` or `nan`.
    fn word(&mut self) -> Result<RawValue<'a>, Fail> {
        let start = self.at;
        let mut at = start;
        loop {
            match self.bytes.get(at) {
                None => return Err(Fail::End),
                Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' | b'"' | b'{' | b'[' | b':') => break,
                Some(_) => at += 1,
            }
        }
        self.at = at;
        Ok(match &self.bytes[start..at] {
            b"true" => RawValue::Bool(true),
            b"false" => RawValue::Bool(false),
            b"null" => RawValue::Null,
            other => RawValue::Odd(other),
        })
    }

    /// Skip an array or object; strings in it must be well-formed.
    pub(crate) fn skip_container(&mut self) -> Result<(), Fail> {
        let mut depth = 0usize;
        let mut at = self.at;
        loop {
            match self.bytes.get(at) {
                None => return Err(Fail::End),
                Some(b'"') => at = self.string_end(at + 1)?.0,
                Some(b'[' | b'{') => depth += 1,
                Some(b']' | b'}') => {
                    depth -= 1;
                    if depth == 0 {
                        self.at = at + 1;
                        return Ok(());
                    }
                }
                Some(_) => {}
            }
            at += 1;
        }
    }

    /// Move to the next position, at most `limit` bytes ahead, where an object continues with a key or ends. Used for
    /// foreign text, such as spliced log lines.
    #[cold]
    pub(crate) fn skip_to_key(&mut self, limit: usize) -> Result<(), Fail> {
        let start = self.at;
        let end = self.bytes.len().min(start + limit);
        let mut at = start;
        while at < end {
            match self.bytes[at] {
                b'"' => {
                    let mut next = Self { bytes: self.bytes, at };
                    if next.is_key_ahead()? {
                        self.at = at;
                        return Ok(());
                    }
                }
                b'}' => {
                    self.at = at;
                    return Ok(());
                }
                // Another event begins: the end of this one is lost.
                b'{' => return Err(Fail::Bad(at)),
                _ => {}
            }
            at += 1;
        }
        if end == self.bytes.len() { Err(Fail::End) } else { Err(Fail::Bad(end)) }
    }
}

/// Limit on the length of keys without their opening quote.
const LONGEST_PLAIN_KEY: usize = 40;

/// Check if a key is short and consists of letters, digits, `_`, `-` and spaces.
fn is_plain_key(raw: &[u8]) -> bool {
    !raw.is_empty()
        && raw.len() <= LONGEST_PLAIN_KEY
        && raw.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b' ' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(input: &str) -> (String, bool) {
        let mut cursor = Cursor::new(input.as_bytes());
        match cursor.value() {
            Ok(RawValue::Str(s)) => (String::from_utf8_lossy(s.raw).into_owned(), s.bare_quotes),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn strings() {
        assert_eq!(text(r#""a b", "#), ("a b".into(), false));
        assert_eq!(text(r#""a\"b" }"#), (r#"a\"b"#.into(), false));
        assert_eq!(text(r#""<m "a", line 3>", "pid": 1}"#), (r#"<m "a", line 3>"#.into(), true));
        assert_eq!(text(r#""x "", "pid" : 1}"#), (r#"x ""#.into(), true));
        assert_eq!(text(r#""C:\dir\", "pid": 1}"#), (r"C:\dir\".into(), true));
    }

    #[test]
    fn values() {
        let odd = |input: &'static str| Cursor::new(input.as_bytes()).value();
        assert_eq!(odd("nan,"), Ok(RawValue::Odd(b"nan")));
        assert_eq!(odd("-inf}"), Ok(RawValue::Odd(b"-inf")));
        assert_eq!(odd("N/A }"), Ok(RawValue::Odd(b"N/A")));
        assert_eq!(odd(", "), Ok(RawValue::Odd(b"")));
        assert_eq!(odd("12.5e3}"), Ok(RawValue::Number(b"12.5e3")));
        assert_eq!(odd("12"), Err(Fail::End));
        assert_eq!(odd(r#"[1, {"a]": "}"}], 2"#), Ok(RawValue::Json(br#"[1, {"a]": "}"}]"#)));
        assert_eq!(odd("[[1, 2"), Err(Fail::End));
        assert_eq!(odd("true,"), Ok(RawValue::Bool(true)));
    }

    #[test]
    fn keys() {
        let mut cursor = Cursor::new(br#" "ph" : 1"#);
        assert_eq!(cursor.key().map(|(k, repaired)| (k.raw, repaired)), Ok((&b"ph"[..], false)));
        let mut cursor = Cursor::new(br#"pid": 1"#);
        assert_eq!(cursor.key().map(|(k, repaired)| (k.raw, repaired)), Ok((&b"pid"[..], true)));
        assert!(Cursor::new(br#"a:b "x": 1"#).key().is_err());
    }
}
