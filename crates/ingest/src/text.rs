//! Conversion of raw bytes of strings and arguments to interned text. Each distinct spelling is decoded and checked
//! once.

use crate::scan::{RawStr, is_space};
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use stackline_model::{StrId, StringTable};
use std::hash::Hasher;

/// Repairs of a string, as bits.
pub(crate) mod dirt {
    /// Bytes that are not UTF-8 were replaced.
    pub(crate) const INVALID_UTF8: u8 = 1;
    /// The string contains control characters or line breaks, which JSON requires to be escaped.
    pub(crate) const CONTROL: u8 = 2;
    /// An invalid escape sequence was read as a literal backslash.
    pub(crate) const BACKSLASH: u8 = 4;
    /// An array or object of an argument is not valid JSON and was kept as text.
    pub(crate) const NOT_JSON: u8 = 8;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Str,
    Json,
}

struct Entry {
    id: StrId,
    /// Copy of the raw spelling if it differs from the text: range in `spellings`.
    spelling: Option<(u32, u32)>,
    form: Form,
    dirt: u8,
}

/// Interner of strings and JSON values by their raw spelling.
#[derive(Default)]
pub(crate) struct TextReader {
    entries: HashTable<Entry>,
    spellings: Vec<u8>,
}

/// Hash of a raw spelling and its form (string or JSON value).
fn hash(form: Form, raw: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(raw);
    hasher.write_u8(form as u8);
    hasher.finish()
}

impl TextReader {
    /// Intern the decoded text of a JSON string, and return its ID with the repairs (bits of [`dirt`]).
    #[inline]
    pub(crate) fn string(&mut self, strings: &mut StringTable, raw: RawStr<'_>) -> (StrId, u8) {
        self.intern(strings, raw.raw, Form::Str)
    }

    /// Intern an array or object as compact, valid JSON text, and return its ID with the repairs (bits of [`dirt`]).
    #[inline]
    pub(crate) fn json(&mut self, strings: &mut StringTable, raw: &[u8]) -> (StrId, u8) {
        self.intern(strings, raw, Form::Json)
    }

    /// Return the ID and repairs of a raw spelling, which is decoded only at its first occurrence.
    #[inline]
    fn intern(&mut self, strings: &mut StringTable, raw: &[u8], form: Form) -> (StrId, u8) {
        let hash_value = hash(form, raw);
        let spellings = &self.spellings;
        let found = self.entries.find(hash_value, |e| e.form == form && spelling(e, spellings, strings) == raw);
        match found {
            Some(entry) => (entry.id, entry.dirt),
            None => self.insert(strings, raw, form, hash_value),
        }
    }

    /// Decode a new raw spelling, intern its text, and store the spelling for later lookups.
    #[cold]
    fn insert(&mut self, strings: &mut StringTable, raw: &[u8], form: Form, hash_value: u64) -> (StrId, u8) {
        let (text, dirt) = match form {
            Form::Str => decode(raw),
            Form::Json => compact(raw),
        };
        let id = strings.intern(&text);
        let spelling_copy = if text.as_bytes() == raw {
            None
        } else {
            let from = self.spellings.len();
            self.spellings.extend_from_slice(raw);
            u32::try_from(self.spellings.len()).ok().map(|end| (from as u32, end))
        };
        if text.as_bytes() == raw || spelling_copy.is_some() {
            let entry = Entry { id, spelling: spelling_copy, form, dirt };
            let spellings = &self.spellings;
            self.entries.insert_unique(hash_value, entry, |e| hash(e.form, spelling(e, spellings, strings)));
        }
        (id, dirt)
    }
}

/// Raw spelling of an entry: the stored copy, or the interned text if both are equal.
fn spelling<'a>(entry: &Entry, spellings: &'a [u8], strings: &'a StringTable) -> &'a [u8] {
    match entry.spelling {
        Some((from, to)) => &spellings[from as usize..to as usize],
        None => strings.get(entry.id).as_bytes(),
    }
}

/// Decode the raw bytes of a JSON string to text, and return the repairs (bits of [`dirt`]).
pub(crate) fn decode(raw: &[u8]) -> (String, u8) {
    let mut dirt = 0;
    if std::str::from_utf8(raw).is_err() {
        dirt |= dirt::INVALID_UTF8;
    }
    let text = String::from_utf8_lossy(raw);
    if text.bytes().any(|b| b < 0x20) {
        dirt |= dirt::CONTROL;
    }
    if !text.contains('\\') {
        return (text.into_owned(), dirt);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match unescape(rest) {
            Some((c, used)) => {
                if c == char::REPLACEMENT_CHARACTER && !rest.starts_with("ufffd") && !rest.starts_with("uFFFD") {
                    dirt |= dirt::INVALID_UTF8;
                }
                out.push(c);
                rest = &rest[used..];
            }
            None => {
                out.push('\\');
                dirt |= dirt::BACKSLASH;
            }
        }
    }
    out.push_str(rest);
    (out, dirt)
}

/// Decode an escape sequence (without its backslash) to a character and the number of its bytes; `None` if invalid.
fn unescape(rest: &str) -> Option<(char, usize)> {
    let c = match rest.as_bytes().first()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unescape_unicode(rest),
        _ => return None,
    };
    Some((c, 1))
}

/// Decode `uXXXX`, or a surrogate pair, to a character and the number of its bytes. A lone surrogate becomes U+FFFD.
fn unescape_unicode(rest: &str) -> Option<(char, usize)> {
    let unit = |at: usize| rest.get(at..at + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let high = unit(1)?;
    if let Some(c) = char::from_u32(high) {
        return Some((c, 5));
    }
    // A surrogate pair; a lone half cannot be text.
    if rest.get(5..7) == Some("\\u")
        && let Some(low @ 0xdc00..0xe000) = unit(7)
        && (0xd800..0xdc00).contains(&high)
    {
        return char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).map(|c| (c, 11));
    }
    Some((char::REPLACEMENT_CHARACTER, 5))
}

/// Remove white space between the tokens of an array or object, repair it to valid JSON, and return the repairs (bits
/// of [`dirt`]). Text that is not JSON is returned unchanged.
pub(crate) fn compact(raw: &[u8]) -> (String, u8) {
    let lossy = String::from_utf8_lossy(raw);
    let mut dirt = if matches!(lossy, std::borrow::Cow::Owned(_)) { dirt::INVALID_UTF8 } else { 0 };
    let mut out = String::with_capacity(lossy.len());
    let mut chars = lossy.char_indices().peekable();
    let mut in_string = false;
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                in_string = !in_string;
                out.push(c);
            }
            '\\' if in_string => match unescape(&lossy[at + 1..]) {
                Some(_) => {
                    out.push('\\');
                    out.extend(chars.next().map(|(_, escaped)| escaped));
                }
                None => {
                    out.push_str("\\\\");
                    dirt |= dirt::BACKSLASH;
                }
            },
            c if in_string && (c as u32) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", c as u32));
                dirt |= dirt::CONTROL;
            }
            c if !in_string && c.is_ascii() && is_space(c as u8) => {}
            c => out.push(c),
        }
    }
    if serde_json::from_str::<serde::de::IgnoredAny>(&out).is_err() {
        return (lossy.into_owned(), dirt | dirt::NOT_JSON);
    }
    (out, dirt)
}

/// First bytes without the byte order mark that some editors and shells put before UTF-8.
pub(crate) fn without_byte_order_mark(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head)
}

/// Check if binary data was converted as text: bytes above 0x7f became U+FFFD.
pub(crate) fn was_converted_as_text(head: &[u8]) -> bool {
    let replaced = head.windows(3).filter(|w| *w == b"\xef\xbf\xbd").count();
    let other_high = head.iter().filter(|b| **b >= 0x80).count() - 3 * replaced;
    replaced >= 8 && other_high < replaced
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(raw: &str) -> (String, u8) {
        decode(raw.as_bytes())
    }

    #[test]
    fn decoding_reports_repairs() {
        assert_eq!(text("plain"), ("plain".into(), 0));
        assert_eq!(text(r#"a\"b\\c\u00e9\ud83d\ude00"#), ("a\"b\\cé😀".into(), 0));
        assert_eq!(text(r"C:\Programs\x"), (r"C:\Programs\x".into(), dirt::BACKSLASH));
        assert_eq!(text("two\nlines").1, dirt::CONTROL);
        assert_eq!(decode(b"a\xffb"), ("a\u{fffd}b".into(), dirt::INVALID_UTF8));
    }

    #[test]
    fn compacts_and_checks() {
        assert_eq!(compact(b"[ [1, 2],\n {\"a b\": \"c d\"} ]"), ("[[1,2],{\"a b\":\"c d\"}]".into(), 0));
        assert_eq!(compact(b"[nan, 1]").1, dirt::NOT_JSON);
        assert_eq!(compact(b"[\"a\nb\"]"), ("[\"a\\u000ab\"]".into(), dirt::CONTROL));
    }

    #[test]
    fn equal_bytes_as_text_and_as_json_differ() {
        let mut strings = StringTable::new();
        let mut reader = TextReader::default();
        let raw = RawStr { raw: b"[1, 2]", escaped: false, bare_quotes: false };
        let (as_text, _) = reader.string(&mut strings, raw);
        let (as_json, _) = reader.json(&mut strings, b"[1, 2]");
        assert_eq!((strings.get(as_text), strings.get(as_json)), ("[1, 2]", "[1,2]"));
        assert_eq!(reader.string(&mut strings, raw).0, as_text);
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json_on_valid_strings(s in any::<String>()) {
            let json = serde_json::to_string(&s).unwrap();
            prop_assert_eq!(decode(&json.as_bytes()[1..json.len() - 1]), (s, 0));
        }
    }
}
