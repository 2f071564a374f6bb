//! Count of the lines of code of each part of the repository, without blank lines, lines of comments, and tests.
//! Comments in blocks and docstrings count as code; style sheets, stubs and `dev` are left out.

use crate::files;
use anyhow::Result;
use std::collections::BTreeMap;

/// Numbers of lines in a part of the repository: code and tests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines {
    code: usize,
    tests: usize,
}

/// Print the numbers of lines of code and of tests: each crate, the page, the Python package, builds and benchmarks.
pub(crate) fn run() -> Result<()> {
    let mut parts: BTreeMap<String, Lines> = BTreeMap::new();
    for path in files::listed()? {
        if let (Some(part), Some(comment)) = (part_of(&path), comment_of(&path)) {
            let text = std::fs::read_to_string(files::root().join(&path))?;
            let found = count(&path, &text, comment);
            let lines = parts.entry(part).or_default();
            lines.code += found.code;
            lines.tests += found.tests;
        }
    }
    println!("{:24} {:>8} {:>8}", "part", "code", "tests");
    for (part, lines) in &parts {
        println!("{part:24} {:8} {:8}", lines.code, lines.tests);
    }
    let total = |lines_of: fn(&Lines) -> usize| parts.values().map(lines_of).sum::<usize>();
    println!("{:24} {:8} {:8}", "in all", total(|lines| lines.code), total(|lines| lines.tests));
    Ok(())
}

/// Name of the part of the repository that a file belongs to: a crate, or the folder at the root.
fn part_of(path: &str) -> Option<String> {
    let mut folders = path.split('/');
    match (folders.next()?, folders.next()?) {
        ("crates", name) => Some(format!("crates/{name}")),
        ("fixtures" | "docs", _) => None,
        (folder, _) => Some(folder.to_owned()),
    }
}

/// Text that starts a comment in a file of code; `None` for other files.
fn comment_of(path: &str) -> Option<&'static str> {
    match path.rsplit_once('.')?.1 {
        "rs" | "ts" | "tsx" | "c" | "cpp" | "h" => Some("//"),
        "py" | "sh" => Some("#"),
        _ => None,
    }
}

/// Count the lines of code and of tests in a file, without blank lines and comments.
fn count(path: &str, text: &str, comment: &str) -> Lines {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains(".test.");
    let mut lines = Lines::default();
    // The indentation of a module of tests that is open.
    let mut inside: Option<usize> = None;
    for line in text.lines() {
        let code = line.trim_start();
        if code.is_empty() || code.starts_with(comment) {
            continue;
        }
        let indentation = line.len() - code.len();
        if code.starts_with("#[cfg(test)]") {
            inside = inside.or(Some(indentation));
        }
        let is_of_tests = is_test || inside.is_some();
        *(if is_of_tests { &mut lines.tests } else { &mut lines.code }) += 1;
        // The module's last line, or a declaration of one line.
        let is_end = code == "}" || (code.ends_with(';') && !code.starts_with("#["));
        if inside == Some(indentation) && is_end {
            inside = None;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{Lines, comment_of, count, part_of};

    #[test]
    fn code_without_comments_and_tests() {
        let text = "//! A module.\n\nuse a;\n#[cfg(test)]\nmod tests;\n\n/// A function.\nfn f() {\n    // Why.\n    g();\n}\n\n#[cfg(test)]\n\
                    mod more {\n    #[test]\n    fn t() {}\n}\n";
        assert_eq!(count("crates/a/src/b.rs", text, "//"), Lines { code: 4, tests: 7 });
        assert_eq!(count("crates/a/tests/b.rs", text, "//"), Lines { code: 0, tests: 11 });
    }

    #[test]
    fn parts() {
        assert_eq!(part_of("crates/model/src/lib.rs").as_deref(), Some("crates/model"));
        assert_eq!(part_of("web/src/main.tsx").as_deref(), Some("web"));
        assert_eq!((part_of("README.md"), part_of("fixtures/a/b.py")), (None, None));
        assert_eq!((comment_of("a/b.py"), comment_of("a/b.json")), (Some("#"), None));
    }
}
