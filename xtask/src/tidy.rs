//! Checks of rules of this repository that no compiler checks. Each fault is one line: file, fault, remedy.

use anyhow::{Result, bail};

use crate::{architecture, directions, files, layers, links, registered, vocabulary, words};

/// Longest source file, lines. Short files are easy to read and to merge.
const MOST_LINES: usize = 500;

/// Declarations that are generated from Rust, of any length.
const GENERATED: &str = "web/src/generated/";

/// Text that must not be committed: it holds only on one machine or names one registry's servers.
/// Written in two halves so that this file does not hold it either.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/tm", "p/"), "a fixed path; tests use tempfile, scripts mktemp"),
    (concat!("/home", "/"), "a path of one machine"),
    (concat!("index.crates", ".io"), "a registry host"),
    (concat!("static.crates", ".io"), "a registry host"),
    (concat!("pypi", ".org"), "a registry host"),
    (concat!("files.python", "hosted"), "a registry host"),
    (concat!("proxy.golang", ".org"), "a registry host"),
    (concat!("registry.npm", "js"), "a registry host"),
];

/// Files that may hold a forbidden text, and why.
const EXEMPTIONS: &[(&str, &str, &str)] = &[(
    "crates/testkit/src/damage/content.rs",
    concat!("/home", "/"),
    "the made-up environment dump that redaction is tested on",
)];

/// Run all checks; fail with the number of faults if there are any.
pub(crate) fn run() -> Result<()> {
    let paths = files::listed()?;
    let mut faults = Vec::new();
    let mut checked = 0;
    for path in &paths {
        let bytes = std::fs::read(files::root().join(path))?;
        // Binary files have no lines.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        checked += 1;
        check_text(path, &text, &mut faults);
    }
    check_exemptions(&paths, &mut faults);
    let text_of = |path: &str| std::fs::read_to_string(files::root().join(path)).unwrap_or_default();
    vocabulary::check_exemptions(text_of, &mut faults);
    links::check(&paths, text_of, &mut faults);
    architecture::check(&paths, text_of, &mut faults);
    words::check(&paths, text_of, &mut faults);
    layers::check(&mut faults)?;
    directions::check(text_of, &mut faults);
    registered::check(&paths, &mut faults)?;
    for fault in &faults {
        println!("{fault}");
    }
    println!("tidy: {checked} files, {} faults", faults.len());
    if faults.is_empty() { Ok(()) } else { bail!("{} faults", faults.len()) }
}

/// Report the faults in the text of one file: long files, line ends, paths of one machine, registry hosts.
fn check_text(path: &str, text: &str, faults: &mut Vec<String>) {
    vocabulary::check(path, text, faults);
    let generated = path.ends_with(".lock")
        || path.ends_with("package-lock.json")
        || path.ends_with(".snap")
        || path.starts_with("fixtures/");
    if !text.is_empty() && !text.ends_with('\n') && !generated {
        faults.push(format!("{path}: does not end with a newline"));
    }
    if text.contains('\r') && !generated {
        faults.push(format!("{path}: has carriage returns"));
    }
    let source = [".rs", ".py", ".pyi", ".sh", ".toml", ".ts", ".tsx", ".css"].iter().any(|end| path.ends_with(end))
        || path == "dev";
    let lines = text.lines().count();
    if source && !path.starts_with(GENERATED) && lines > MOST_LINES {
        faults.push(format!("{path}: {lines} lines, more than {MOST_LINES}; split it"));
    }
    for (forbidden, reason) in FORBIDDEN {
        let excused =
            path.ends_with(".lock") || EXEMPTIONS.iter().any(|(file, text, _)| *file == path && text == forbidden);
        if let Some(at) = text.find(forbidden).filter(|_| !excused) {
            let line = text[..at].lines().count().max(1);
            faults.push(format!("{path}:{line}: {forbidden:?} is {reason}"));
        }
    }
}

/// Report each exemption whose file is gone, because it would hide a fault of a new file.
fn check_exemptions(paths: &[String], faults: &mut Vec<String>) {
    for (path, _, _) in EXEMPTIONS {
        if !paths.iter().any(|known| known == path) {
            faults.push(format!("xtask/src/tidy.rs: {path} is gone, its exemption too should be"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check_text(path, text, &mut faults);
        faults
    }

    #[test]
    fn each_rule_finds_its_fault() {
        assert!(faults("a.rs", "fn main() {}\n").is_empty());
        assert!(faults("a.rs", "fn main() {}")[0].contains("newline"));
        assert!(faults("a.rs", "a\r\nb\n")[0].contains("carriage"));
        assert!(faults("a.rs", &"x\n".repeat(MOST_LINES + 1))[0].contains("lines"));
        assert!(faults("a.csv", &"x\n".repeat(MOST_LINES + 1)).is_empty());
        let path = format!("one\ntwo {}x\n", FORBIDDEN[0].0);
        assert!(faults("a.md", &path)[0].starts_with("a.md:2"));
    }
}
