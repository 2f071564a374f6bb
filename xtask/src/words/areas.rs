//! Areas of text whose wording is checked.

/// Kind of text that an area takes from its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// Prose of Markdown pages.
    Markdown,
    /// Code blocks of generated pages of commands: the output of `--help`.
    Help,
    /// Documentation comments in Rust, outside of tests.
    DocComments,
    /// String literals of several words in Rust, outside of tests.
    Messages,
    /// Text between tags, and string literals of several words, in TypeScript.
    Web,
    /// Names of files without folder and extension.
    FileNames,
}

/// A kind of text in a set of files.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) name: &'static str,
    pub(super) text: Text,
}

/// All areas. `cargo run -p xtask -- words` prints their numbers of findings.
pub(super) const AREAS: &[Area] = &[
    Area { name: "docs", text: Text::Markdown },
    Area { name: "rule-pages", text: Text::Markdown },
    Area { name: "help", text: Text::Help },
    Area { name: "doc-comments", text: Text::DocComments },
    Area { name: "messages", text: Text::Messages },
    Area { name: "page-text", text: Text::Web },
    Area { name: "file-names", text: Text::FileNames },
];

/// Pages that are written from Rust as a whole.
const GENERATED_PAGES: &[&str] = &["docs/diff-example.md", "docs/findings/README.md"];

/// Names of the areas that a file belongs to.
pub(super) fn of_file(path: &str) -> Vec<&'static str> {
    let is_test = path.contains("/tests/") || path.ends_with("tests.rs") || path.ends_with("testing.rs");
    let is_source = path.contains("/src/") && !is_test && !path.starts_with("web/src/generated/");
    if path.ends_with(".md") {
        let is_rule = path.starts_with("docs/findings/SL") || GENERATED_PAGES.contains(&path);
        let area = if path.starts_with("docs/cli/") {
            "help"
        } else if is_rule {
            "rule-pages"
        } else {
            "docs"
        };
        vec![area]
    } else if !is_source {
        Vec::new()
    } else if path.ends_with(".rs") {
        match path.starts_with("xtask/src/words/") {
            // It contains the phrases.
            true => vec!["doc-comments", "file-names"],
            false => vec!["doc-comments", "messages", "file-names"],
        }
    } else if path.ends_with(".ts") || path.ends_with(".tsx") {
        vec!["page-text", "file-names"]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{AREAS, of_file};

    #[test]
    fn areas_of_files() {
        assert_eq!(of_file("docs/how-to/a.md"), ["docs"]);
        assert_eq!(of_file("README.md"), ["docs"]);
        assert_eq!(of_file("docs/findings/SL001-hotspot.md"), ["rule-pages"]);
        assert_eq!(of_file("docs/cli/diff.md"), ["help"]);
        assert_eq!(of_file("crates/a/src/b.rs"), ["doc-comments", "messages", "file-names"]);
        assert_eq!(of_file("web/src/b.tsx"), ["page-text", "file-names"]);
        for none in [
            "crates/a/tests/b.rs",
            "crates/a/src/b/tests.rs",
            "web/src/generated/a.ts",
            "fuzz/fuzz_targets/a.rs",
            "dev",
        ] {
            assert!(of_file(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn every_area_of_a_file_is_listed() {
        for path in ["a.md", "docs/cli/a.md", "docs/findings/SL1.md", "a/src/b.rs", "a/src/b.ts"] {
            for name in of_file(path) {
                assert!(AREAS.iter().any(|area| area.name == name), "{name}");
            }
        }
    }
}
