//! Check that the types and functions that ARCHITECTURE.md names exist in the Rust sources.

use std::collections::BTreeSet;

/// The checked page.
const PAGE: &str = "ARCHITECTURE.md";

/// Names that no Rust source declares, with the file that does.
const EXEMPTIONS: &[(&str, &str)] = &[("Transport", "web/src/transport/index.ts")];

/// Keywords that declare a type.
const TYPE_KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// Report each type and function in a code span of the page that no Rust source declares.
pub(crate) fn check(paths: &[String], text_of: impl Fn(&str) -> String, faults: &mut Vec<String>) {
    let page = text_of(PAGE);
    let names = names(&page);
    let parts: BTreeSet<&str> = names.iter().flat_map(|(_, name)| name.split("::")).collect();
    let is_source = |path: &&String| path.ends_with(".rs");
    let sources: Vec<Found<'_>> =
        paths.iter().filter(is_source).map(|path| Found::in_source(&text_of(path), &parts)).collect();
    for (line, name) in &names {
        let is_exempt = EXEMPTIONS.iter().any(|(exempt, _)| exempt == name);
        if !is_exempt && !is_declared(name, &sources) {
            faults.push(format!("{PAGE}:{line}: no Rust source declares `{name}`"));
        }
    }
    for (name, path) in EXEMPTIONS {
        if !names.iter().any(|(_, used)| used == name) || !identifiers(&text_of(path)).any(|word| word == *name) {
            faults.push(format!("xtask/src/architecture.rs: {name} of {path} needs no exemption any more"));
        }
    }
}

/// Parts of the page's names in one Rust source.
#[derive(Debug, Default)]
struct Found<'a> {
    /// Identifiers outside of comments.
    used: BTreeSet<&'a str>,
    /// Types that the source declares and other modules may use.
    types: BTreeSet<&'a str>,
}

impl<'a> Found<'a> {
    /// Find the parts of names in a Rust source.
    fn in_source(source: &str, parts: &BTreeSet<&'a str>) -> Self {
        let mut found = Self::default();
        for line in source.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
            let mut before = "";
            for word in identifiers(line) {
                if let Some(&part) = parts.get(word) {
                    found.used.insert(part);
                    if line.starts_with("pub") && TYPE_KEYWORDS.contains(&before) {
                        found.types.insert(part);
                    }
                }
                before = word;
            }
        }
        found
    }
}

/// Test if a name is declared: its types are, and one source has all of its parts.
fn is_declared(name: &str, sources: &[Found<'_>]) -> bool {
    let is_type =
        |part: &str| !part.starts_with(char::is_uppercase) || sources.iter().any(|of| of.types.contains(part));
    name.split("::").all(is_type) && sources.iter().any(|of| name.split("::").all(|part| of.used.contains(part)))
}

/// Names of types (`Trace`) and paths (`Trace::pauses`) in the code spans of a page, with their lines.
fn names(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (at, line) in page.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            let spans = line.split('`').skip(1).step_by(2).map(|span| span.trim_end_matches("()"));
            found.extend(spans.filter(|span| is_name(span)).map(|span| (at + 1, span)));
        }
    }
    found
}

/// Test if a code span is a path of identifiers, or a type's name. Names of environment variables are upper case.
fn is_name(span: &str) -> bool {
    let is_path = span.split("::").all(|part| !part.is_empty() && part.chars().all(is_word));
    let is_type = span.starts_with(char::is_uppercase) && span.contains(char::is_lowercase);
    is_path && (is_type || span.contains("::"))
}

/// Identifiers, keywords and numbers in a text.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

/// True for letters, digits and the underscore.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Faults of a page with these lines and one Rust source.
    fn faults(page: &str, source: &str) -> Vec<String> {
        let exempt: Vec<String> = EXEMPTIONS.iter().map(|(name, _)| format!("`{name}`")).collect();
        let text_of = |path: &str| match path {
            PAGE => format!("{page}\n{}\n", exempt.join(" ")),
            "crates/a/src/b.rs" => source.to_owned(),
            _ => EXEMPTIONS
                .iter()
                .find(|(_, file)| *file == path)
                .map_or_else(String::new, |(name, _)| (*name).to_owned()),
        };
        let mut faults = Vec::new();
        check(&["crates/a/src/b.rs".to_owned(), PAGE.to_owned()], text_of, &mut faults);
        faults
    }

    #[test]
    fn declared_names_are_no_faults() {
        let source =
            "pub struct Trace { base_ns: i64 }\nimpl Trace { fn pauses(&self) {} }\npub(crate) type Rows = u8;\n";
        for page in ["`Trace`", "`Trace::pauses`", "`Trace::pauses()` and `Trace::base_ns`", "`Rows`", ""] {
            assert_eq!(faults(page, source), [""; 0], "{page}");
        }
    }

    #[test]
    fn missing_names_are_faults() {
        let source = "// Rows of old\n/// [`Rows`]\npub struct Trace;\nenum Shape { Pauses }\nlet a = Shape::Pauses;\n";
        for name in ["Rows", "Trace::pauses", "Shape", "Pauses", "a::b"] {
            let found = faults(&format!("one\n`{name}`"), source);
            assert!(found.len() == 1 && found[0].starts_with("ARCHITECTURE.md:2: "), "{name}: {found:?}");
        }
    }

    #[test]
    fn other_code_is_not_checked() {
        let page = "`PYTHONPATH`, `steps.rs`, `cargo xtask tidy`, `i64`, `crates/model`, Trace\n```\nRead `Rows`\n```";
        assert_eq!(faults(page, ""), [""; 0]);
    }

    #[test]
    fn unused_exemptions_are_faults() {
        let mut faults = Vec::new();
        check(&[], |_| String::new(), &mut faults);
        assert_eq!(faults.len(), EXEMPTIONS.len());
    }
}
