//! Byte positions inside JSON text: just enough to edit a trace file in place without touching any other byte.

use std::ops::Range;

/// Top-level members of a JSON object: key (raw, between the quotes) and value, as ranges. `None` if the text is not
/// one well-formed object as far as brackets and quotes go.
pub(super) fn members(object: &[u8]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let mut members = Vec::new();
    let mut at = blank(object, 0);
    if object.get(at) != Some(&b'{') {
        return None;
    }
    at = blank(object, at + 1);
    if object.get(at) == Some(&b'}') {
        return Some(members);
    }
    loop {
        let key_end = string_end(object, at)?;
        let key = at + 1..key_end - 1;
        at = blank(object, key_end);
        if object.get(at) != Some(&b':') {
            return None;
        }
        at = blank(object, at + 1);
        let end = value_end(object, at)?;
        members.push((key, at..end));
        at = blank(object, end);
        match object.get(at)? {
            b',' => at = blank(object, at + 1),
            b'}' => return Some(members),
            _ => return None,
        }
    }
}

/// Value range of the last member with this key in a JSON object, given its parsed members; `None` if there is none.
pub(super) fn find(object: &[u8], members: &[(Range<usize>, Range<usize>)], key: &str) -> Option<Range<usize>> {
    members.iter().rev().find(|(k, _)| &object[k.clone()] == key.as_bytes()).map(|(_, v)| v.clone())
}

/// Position of the first byte at or after `at` that is not white space.
pub(super) fn blank(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Position after the closing quote of the JSON string that starts at a byte; `None` if no complete string starts
/// there.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    if text.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Position after the JSON value that starts at a byte; `None` if no complete value starts there.
fn value_end(text: &[u8], start: usize) -> Option<usize> {
    match text.get(start)? {
        b'"' => string_end(text, start),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0usize, start);
            loop {
                match text.get(at)? {
                    b'"' => {
                        at = string_end(text, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => {
            let length =
                text[start..].iter().position(|b| matches!(b, b',' | b'}' | b']')).unwrap_or(text.len() - start);
            let value = text[start..start + length].trim_ascii_end();
            if value.is_empty() { None } else { Some(start + value.len()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_an_object() {
        let text = br#" { "a" : [1, {"x": "}"}], "b\"" :-1.5e3 , "a":"\\" } "#;
        let found = members(text).unwrap();
        let value = |key: &str| find(text, &found, key).map(|r| std::str::from_utf8(&text[r]).unwrap());
        assert_eq!(value("b\\\""), Some("-1.5e3"));
        assert_eq!(value("a"), Some(r#""\\""#), "the last of equal keys");
        assert_eq!(members(b"{}"), Some(vec![]));
        for bad in [&b"{"[..], b"[]", b"{\"a\"}", b"{\"a\":}", b"{\"a\":1", b"{\"a\":\"", b"{\"a\":[1}", b"{,}"] {
            assert!(members(bad).is_none(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
