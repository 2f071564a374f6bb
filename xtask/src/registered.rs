//! Check that everything registered (a source, an analysis) has a page, a test (an oracle, a fixture or a case worked
//! out by hand) and a snapshot, and that sources are fuzzed.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::files;

/// Kind of registered items (analyses or sources): their list, modules, pages and fuzz targets.
struct Registry {
    /// Noun in messages.
    noun: &'static str,
    /// The file with the list, and the folder of its modules.
    list: &'static str,
    folder: &'static str,
    /// Folder of the pages.
    pages: &'static str,
    /// Page with a table of fuzz targets and their sources; empty for kinds that are not parsed.
    fuzzed_by: &'static str,
}

const REGISTRIES: &[Registry] = &[
    Registry {
        noun: "analysis",
        list: "crates/analyze/src/analyses/mod.rs",
        folder: "crates/analyze/src/analyses",
        pages: "docs/analyses",
        fuzzed_by: "",
    },
    Registry {
        noun: "source",
        list: "crates/ingest/src/sources/mod.rs",
        folder: "crates/ingest/src/sources",
        pages: "docs/formats",
        fuzzed_by: "fuzz/README.md",
    },
];

/// Report each page, test, snapshot or fuzz target that a registered item lacks.
pub(crate) fn check(paths: &[String], faults: &mut Vec<String>) -> Result<()> {
    let tests = file_texts(paths, |path| path.ends_with(".rs") && path.contains("/tests/"))?;
    let snapshots = file_texts(paths, |path| path.ends_with(".snap"))?;
    for registry in REGISTRIES.iter().filter(|r| files::root().join(r.list).is_file()) {
        let targets = std::fs::read_to_string(files::root().join(registry.fuzzed_by)).unwrap_or_default();
        for (module, name) in registered_items(registry, faults)? {
            let noun = registry.noun;
            if !registry.fuzzed_by.is_empty() && !is_fuzzed(paths, &targets, &name) {
                faults.push(format!("{}: no target in fuzz/fuzz_targets fuzzes the {noun} {name}", registry.fuzzed_by));
            }
            let page = format!("{}/{}.md", registry.pages, name.replace('_', "-"));
            if !paths.contains(&page) {
                faults.push(format!("{page}: missing; the {noun} {name} needs a page"));
            }
            let prefix = format!("{}/{module}", registry.folder);
            let own_tests = paths.iter().any(|path| path.starts_with(&prefix) && file_contains(path, "#[cfg(test)]"));
            if !own_tests && !tests.values().any(|text| has_word(text, &name)) {
                faults.push(format!("{prefix}: no test of the {noun} {name}, in its file or under crates/*/tests"));
            }
            for what in expected_names(registry, &module, &name) {
                if !snapshots.values().any(|text| has_word(text, &what)) {
                    faults.push(format!(
                        "{}/{module}: no snapshot (*.snap) shows {what} of the {noun} {name}",
                        registry.folder
                    ));
                }
            }
        }
    }
    Ok(())
}

/// True if the table of fuzz targets names an existing target for a source.
fn is_fuzzed(paths: &[String], table: &str, source: &str) -> bool {
    let quoted = format!("`{source}`");
    let targets = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let target = cells.next()?.trim_end_matches('`');
        cells.next()?.split(", ").any(|name| name == quoted).then(|| format!("fuzz/fuzz_targets/{target}.rs"))
    });
    targets.into_iter().any(|target| paths.contains(&target))
}

/// Names that snapshots must contain for a registered item: the tables that its file makes, or its own name if it makes
/// none.
fn expected_names(registry: &Registry, module: &str, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(files::root().join(registry.folder).join(module)).unwrap_or_default();
    let tables = table_names(&text);
    if tables.is_empty() { vec![name.to_owned()] } else { tables }
}

/// Names of the tables that the source text of a module makes, outside its tests.
fn table_names(module: &str) -> Vec<String> {
    let code = module.split_once("#[cfg(test)]").map_or(module, |(code, _)| code);
    code.split("Table::new(\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

/// True if `text` contains `name` as a whole word.
fn has_word(text: &str, name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(inside)
            && !text[at + name.len()..].chars().next().is_some_and(inside)
    })
}

fn file_contains(path: &str, text: &str) -> bool {
    std::fs::read_to_string(files::root().join(path)).is_ok_and(|found| found.contains(text))
}

/// Texts of the files whose paths `is_included` selects, by path.
fn file_texts(paths: &[String], is_included: impl Fn(&str) -> bool) -> Result<BTreeMap<String, String>> {
    let read = |path: &String| -> Result<(String, String)> {
        Ok((path.clone(), std::fs::read_to_string(files::root().join(path)).with_context(|| path.clone())?))
    };
    paths.iter().filter(|path| is_included(path)).map(read).collect()
}

/// Items in the list of a registry: file or folder of the module, and the registered name. An entry is a line
/// `module::CONSTANT,` or contains its name (`Source { name: "chrome", .. }`).
fn registered_items(registry: &Registry, faults: &mut Vec<String>) -> Result<Vec<(String, String)>> {
    let list = std::fs::read_to_string(files::root().join(registry.list))?;
    let body = list.split_once("ALL").map_or("", |(_, rest)| rest);
    let body = body.split_once("];").map_or(body, |(body, _)| body);
    let in_place = body.split("name: \"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut found: Vec<_> = in_place.map(|name| (name.to_owned(), name.to_owned())).collect();
    for line in body.lines().filter(|line| !line.contains(['{', '|'])) {
        let line = line.trim().trim_start_matches('&').trim_end_matches(',');
        let Some((module, constant)) = line.split_once("::").filter(|(module, _)| is_identifier(module)) else {
            continue;
        };
        let file = format!("{module}.rs");
        let path = [file.clone(), format!("{module}/mod.rs")];
        let path = path.iter().map(|p| files::root().join(registry.folder).join(p)).find(|p| p.is_file());
        let text = path.map(std::fs::read_to_string).transpose()?.unwrap_or_default();
        match registered_name(&text, constant) {
            Some(name) => found.push((file, name)),
            None => faults.push(format!("{}: cannot find the name that {line} registers", registry.list)),
        }
    }
    if found.is_empty() {
        faults.push(format!(
            "{}: found nothing registered in ALL; the tidy check no longer understands it",
            registry.list
        ));
    }
    Ok(found)
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Name that a constant registers: the first `name: "..."` (or `name() ... "..."`) after its declaration.
fn registered_name(text: &str, constant: &str) -> Option<String> {
    let after = text.split_once(constant)?.1;
    let at = after.find("name: \"").map(|at| at + 7);
    let at = at.or_else(|| after.find("fn name(").and_then(|f| after[f..].find('"').map(|q| f + q + 1)))?;
    after[at..].split('"').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_registered_names() {
        let text = "pub(super) const COVERAGE: Analysis = Analysis { name: \"coverage\", about: \"x\" };";
        assert_eq!(registered_name(text, "COVERAGE").as_deref(), Some("coverage"));
        assert_eq!(registered_name(text, "OTHER"), None);
    }

    #[test]
    fn finds_targets_of_sources() {
        let table = "| target | sources | input |\n| `nsys` | `nsys`, `rpd` | a database |\n| `numbers` | | digits |";
        let paths = ["fuzz/fuzz_targets/nsys.rs".to_owned()];
        assert!(is_fuzzed(&paths, table, "rpd") && is_fuzzed(&paths, table, "nsys"));
        assert!(!is_fuzzed(&paths, table, "digits") && !is_fuzzed(&[], table, "rpd"));
    }

    #[test]
    fn finds_tables_outside_tests() {
        let text = "Table::new(\"a\", \"A\")\nTable::new(name, title)\n#[cfg(test)]\nTable::new(\"b\", \"B\")";
        assert_eq!(table_names(text), ["a"]);
    }

    #[test]
    fn whole_words_only() {
        assert!(has_word("run(\"kernels\")", "kernels"));
        assert!(!has_word("gpu_kernels", "kernels"));
        assert!(!has_word("kernels_2", "kernels"));
    }
}
