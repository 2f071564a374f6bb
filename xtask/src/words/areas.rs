//! Areas of text whose wording is checked.

/// Kind of text that is checked in the files of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// Prose of Markdown pages.
    Markdown,
    /// Code blocks of generated pages of commands: the output of `--help`.
    Help,
    /// Documentation comments in Rust and TypeScript, and docstrings in Python.
    DocComments,
    /// Other comments in Rust, and comments in shell scripts.
    Comments,
    /// String literals of several words in Rust and Python, outside of tests, and printed texts of shell scripts.
    Messages,
    /// Text between tags, shown attributes, and literals of several words, in TypeScript.
    Web,
    /// Names of files without folder and extension.
    FileNames,
    /// Names of functions in Rust, with those of tests.
    FunctionNames,
}

/// Area of the wording check: its name, and the kind of text in its files.
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
    Area { name: "comments", text: Text::Comments },
    Area { name: "docstrings", text: Text::DocComments },
    Area { name: "messages", text: Text::Messages },
    Area { name: "python-messages", text: Text::Messages },
    Area { name: "shell-comments", text: Text::Comments },
    Area { name: "shell-messages", text: Text::Messages },
    Area { name: "page-text", text: Text::Web },
    Area { name: "file-names", text: Text::FileNames },
    Area { name: "function-names", text: Text::FunctionNames },
];

/// Pages that are written from Rust as a whole.
const GENERATED_PAGES: &[&str] = &["docs/diff-example.md", "docs/findings/README.md"];

/// Names of the areas that a file belongs to.
pub(super) fn areas_of_file(path: &str) -> Vec<&'static str> {
    let (_, extension) = path.rsplit_once('.').unwrap_or_default();
    // Declarations written from Rust, and inputs.
    let is_given = path.starts_with("web/src/generated/") || path.starts_with("fixtures/");
    match extension {
        "md" => vec![page_area(path)],
        _ if is_given => Vec::new(),
        "rs" if is_test(path) && path.contains("/src/") => {
            vec!["doc-comments", "comments", "file-names", "function-names"]
        }
        "rs" if is_test(path) => vec!["doc-comments", "file-names", "function-names"],
        // These files contain the phrases.
        "rs" if path.starts_with("xtask/src/words/") => vec!["doc-comments", "file-names", "function-names"],
        "rs" => vec!["doc-comments", "comments", "messages", "file-names", "function-names"],
        "ts" | "tsx" if is_test(path) => vec!["doc-comments", "file-names"],
        "ts" | "tsx" => vec!["doc-comments", "page-text", "file-names"],
        "py" | "pyi" if is_test(path) => vec!["docstrings", "file-names"],
        "py" | "pyi" => vec!["docstrings", "python-messages", "file-names"],
        _ if is_shell(path) => vec!["shell-comments", "shell-messages"],
        _ => Vec::new(),
    }
}

/// True for shell scripts of this repository.
pub(super) fn is_shell(path: &str) -> bool {
    path == "dev" || path.starts_with("scripts/") && path.ends_with(".sh")
}

/// Name of the area of a Markdown page.
fn page_area(path: &str) -> &'static str {
    let is_rule = path.starts_with("docs/findings/SL") || GENERATED_PAGES.contains(&path);
    match path.starts_with("docs/cli/") {
        true => "help",
        false if is_rule => "rule-pages",
        false => "docs",
    }
}

/// True for files of tests and of programs that tests run.
fn is_test(path: &str) -> bool {
    path.contains("/tests/")
        || ["tests.rs", "testing.rs", ".test.ts", "testing.ts"].iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::{AREAS, areas_of_file};

    #[test]
    fn areas_of_files() {
        assert_eq!(areas_of_file("docs/how-to/a.md"), ["docs"]);
        assert_eq!(areas_of_file("README.md"), ["docs"]);
        assert_eq!(areas_of_file("docs/findings/SL001-hotspot.md"), ["rule-pages"]);
        assert_eq!(areas_of_file("docs/cli/diff.md"), ["help"]);
        assert_eq!(
            areas_of_file("crates/a/src/b.rs"),
            ["doc-comments", "comments", "messages", "file-names", "function-names"]
        );
        assert_eq!(areas_of_file("web/src/b.tsx"), ["doc-comments", "page-text", "file-names"]);
        assert_eq!(areas_of_file("crates/a/tests/b.rs"), ["doc-comments", "file-names", "function-names"]);
        assert_eq!(
            areas_of_file("crates/a/src/b/tests.rs"),
            ["doc-comments", "comments", "file-names", "function-names"]
        );
        for script in ["dev", "scripts/a.sh"] {
            assert_eq!(areas_of_file(script), ["shell-comments", "shell-messages"]);
        }
        assert_eq!(areas_of_file("python/a/b.pyi"), ["docstrings", "python-messages", "file-names"]);
        assert_eq!(areas_of_file("python/tests/test_a.py"), ["docstrings", "file-names"]);
        assert_eq!(areas_of_file("web/src/a.test.ts"), ["doc-comments", "file-names"]);
        for none in ["web/src/generated/a.ts", "fixtures/a.py", "fixtures/a.sh", "deny.toml"] {
            assert!(areas_of_file(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn every_area_of_a_file_is_listed() {
        for path in ["a.md", "docs/cli/a.md", "docs/findings/SL1.md", "a/src/b.rs", "a/src/b.ts", "a.py", "dev"] {
            for name in areas_of_file(path) {
                assert!(AREAS.iter().any(|area| area.name == name), "{name}");
            }
        }
    }
}
