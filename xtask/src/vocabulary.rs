//! Check that only vocabularies contain names of frameworks: an analysis with its own names misses other producers.

/// Starts of names of frameworks and libraries. Written in halves, so that this file does not contain them either.
const NAMES: &[&str] = &[
    concat!("at", "en::"),
    concat!("operator:at", "en::"),
    concat!("pri", "ms::"),
    concat!("c10", "d::"),
    concat!("_c10", "d_functional::"),
    concat!("nc", "cl:"),
    concat!("gl", "oo:"),
    concat!("xl", "a::"),
    concat!("auto", "grad::"),
    concat!("tor", "ch::"),
    concat!("a", "t::"),
    concat!("c1", "0::"),
    concat!("vl", "lm::"),
    concat!("sgl", "ang::"),
    concat!("Profiler", "Step"),
    concat!("Opti", "mizer."),
    concat!("enumerate(", "DataLoader)"),
    concat!("nn.Mod", "ule: "),
    concat!("Distributed", "DataParallel."),
    concat!("FullySharded", "DataParallel."),
    concat!("[p", "l]"),
    concat!("Deep", "Speed"),
    concat!("deep", "speed/"),
    concat!("mega", "tron"),
];

/// Crates that ask vocabularies. Sources (`ingest`) know the names that their formats have, `model` has the vocabulary itself.
const CRATES: &[&str] = &[
    "analyze",
    "calls",
    "cli",
    "critical-path",
    "diff",
    "engine",
    "findings",
    "memory",
    "present",
    "query",
    "timeline",
];

/// Lines that may hold such a name, by file and a part of the line, and why.
const EXEMPTIONS: &[(&str, &str, &str)] = &[(
    "crates/memory/src/suggest/smaller_types.rs",
    "torch.float",
    "all spellings of two data types, as data: the list is the only one that asks for them",
)];

/// Report each literal with a framework's name outside of vocabularies, tests and comments.
pub(crate) fn check(path: &str, text: &str, faults: &mut Vec<String>) {
    if !is_checked(path) {
        return;
    }
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    for (at, line) in code.lines().enumerate() {
        let is_excused = || EXEMPTIONS.iter().any(|(file, part, _)| *file == path && line.contains(part));
        if let Some(name) = framework_name_in(line).filter(|_| !is_excused()) {
            faults.push(format!(
                "{path}:{}: a framework's name, \"{name}…\"; crates/model/src/vocabulary, crates/model/src/names.rs and \
                 crates/timeline/src/vocabulary have them",
                at + 1
            ));
        }
    }
}

/// Check that each exempt file still contains its exempt text; otherwise the exemption would hide new faults.
pub(crate) fn check_exemptions(text_of: impl Fn(&str) -> String, faults: &mut Vec<String>) {
    for (path, part, _) in EXEMPTIONS {
        let text = text_of(path);
        if !text.lines().any(|line| line.contains(part) && framework_name_in(line).is_some()) {
            faults.push(format!("xtask/src/vocabulary.rs: {path} needs no exemption any more"));
        }
    }
}

/// True for source files of the checked crates, without vocabularies and tests.
fn is_checked(path: &str) -> bool {
    let inside = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
    let Some((_, file)) = inside.filter(|(of, _)| CRATES.contains(of)) else { return false };
    let is_test = ["tests.rs", "testing.rs"].iter().any(|end| file.ends_with(end)) || file.contains("tests/");
    file.ends_with(".rs") && !file.contains("vocabulary/") && !is_test
}

/// Framework's name at the beginning of a string literal in a line of code. Quotes within a literal are part of a
/// message to people.
fn framework_name_in(line: &str) -> Option<&'static str> {
    if line.trim_start().starts_with("//") {
        return None;
    }
    let mut begins = line.match_indices('"').filter(|(at, _)| !line[..*at].ends_with('\\'));
    begins.find_map(|(at, _)| NAMES.iter().find(|name| line[at + 1..].starts_with(**name))).copied()
}

#[cfg(test)]
mod tests {
    use super::{NAMES, check, check_exemptions};

    fn faults(path: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check(path, text, &mut faults);
        faults
    }

    #[test]
    fn names_outside_of_vocabularies_are_faults() {
        for name in NAMES {
            let rule = format!("const NAME: &str = \"{name}copy_\";\n");
            for path in ["crates/analyze/src/rule.rs", "crates/memory/src/a/b.rs", "crates/engine/src/names.rs"] {
                let found = faults(path, &rule);
                assert!(found.len() == 1 && found[0].starts_with(&format!("{path}:1")), "{name} {path} {found:?}");
            }
            for path in [
                "crates/timeline/src/vocabulary/a.rs",
                "crates/model/src/names.rs",
                "crates/ingest/src/a.rs",
                "crates/analyze/tests/a.rs",
                "crates/analyze/src/calls/tests.rs",
                "crates/analyze/src/rule.md",
            ] {
                assert!(faults(path, &rule).is_empty(), "{name} {path}");
            }
        }
    }

    #[test]
    fn tests_comments_and_messages_may_contain_names() {
        let (path, name) = ("crates/analyze/src/rule.rs", NAMES[0]);
        for text in [
            format!("#[cfg(test)]\nmod tests {{\nlet a = \"{name}mm\";\n}}\n"),
            format!("    /// Such as \"{name}mm\".\n"),
            format!("let advice = \"call \\\"{name}mm\\\"\";\n"),
        ] {
            assert!(faults(path, &text).is_empty(), "{text}");
        }
        let declared = format!("#[cfg(test)]\nmod testing;\nlet a = \"{name}mm\";\n");
        assert!(faults(path, &declared)[0].contains("rule.rs:3"));
    }

    #[test]
    fn unused_exemptions_are_faults() {
        let mut faults = Vec::new();
        check_exemptions(|_| String::new(), &mut faults);
        assert_eq!(faults.len(), super::EXEMPTIONS.len());
    }
}
