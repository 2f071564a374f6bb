//! Matching of span names with patterns in which `*` stands for any text.

/// True if a whole name matches a pattern, in which `*` stands for any text.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn star_matches_any_text() {
        assert!(matches("step[*]", "step[DECODE bs=31]") && matches("step[*]", "step[]"));
        assert!(!matches("step[*]", "step[") && !matches("step", "steps"));
        assert!(matches("*a*b", "xaxb") && !matches("*a*b", "xbxa"));
    }
}
