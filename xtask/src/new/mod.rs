//! Skeletons of new rules, analyses, sources and queries: file, registration, page. Each compiles and passes its own test.

use anyhow::{Context, Result, bail, ensure};

use crate::files;

/// Kind of item that can be added to the repository (rule, analysis, source, query): its skeleton, files and list.
struct Kind {
    noun: &'static str,
    /// Skeleton of its file.
    skeleton: &'static str,
    /// File, page and list; `{name}` has underscores, `{dashed}` has dashes.
    file: &'static str,
    /// Hand-written page and its skeleton; `None` of a kind whose pages are generated, or that has none.
    page: Option<(&'static str, &'static str)>,
    list: &'static str,
    /// Entry of the list.
    entry: &'static str,
    order: EntryPosition,
    /// Steps that remain.
    next: &'static str,
}

/// Position of a new entry in its list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryPosition {
    /// At the end: lists in the order of codes or of output.
    Last,
    /// By `name: "…"`.
    ByName,
}

const KINDS: [Kind; 4] = [
    Kind {
        noun: "rule",
        skeleton: include_str!("rule.txt"),
        file: "crates/findings/src/rules/{name}.rs",
        page: None,
        list: "crates/findings/src/rules/mod.rs",
        entry: "    {name}::RULE,\n",
        order: EntryPosition::Last,
        next: "Write its page: STACKLINE_BLESS=1 cargo nextest run -p stackline-analyze -E 'test(findings_docs)'",
    },
    Kind {
        noun: "analysis",
        skeleton: include_str!("analysis.txt"),
        file: "crates/analyze/src/analyses/{name}.rs",
        page: Some(("docs/analyses/{dashed}.md", include_str!("analysis_page.txt"))),
        list: "crates/analyze/src/analyses/mod.rs",
        entry: "    {name}::ANALYSIS,\n",
        order: EntryPosition::Last,
        next: "Accept its snapshot: cargo insta test --accept -p stackline-analyze -- demo_snapshots\n\
               Write its Python method: ./dev test, or with the package built .venv/bin/python -P python/generate_methods.py",
    },
    Kind {
        noun: "source",
        skeleton: include_str!("source.txt"),
        file: "crates/ingest/src/sources/{name}.rs",
        page: Some(("docs/formats/{dashed}.md", include_str!("source_page.txt"))),
        list: "crates/ingest/src/sources/mod.rs",
        entry: "    Source { name: \"{dashed}\", sniff: {name}::sniff, read: Traces({name}::open), run_of: none },\n",
        order: EntryPosition::ByName,
        next: "Add a file that a program wrote to fixtures/, with a snapshot of its model in crates/ingest/tests\n\
               Add it to the table of fuzz targets in fuzz/README.md, or write a target",
    },
    Kind {
        noun: "query",
        skeleton: include_str!("query.txt"),
        file: "crates/query/src/queries/{name}.rs",
        page: None,
        list: "crates/query/src/queries/mod.rs",
        entry: "    Query {\n        name: \"{dashed}\",\n        about: \"TODO: the answer, in one line.\",\n        \
                arguments: RANK,\n        columns: &[],\n        first: {name}::first,\n        order: 0,\n        \
                answer: {name}::answer,\n        #[cfg(test)]\n        \
                typescript: Declarations::add::<{name}::Document>,\n    },\n",
        order: EntryPosition::ByName,
        next: "Write its TypeScript: STACKLINE_UPDATE_TYPES=1 cargo nextest run -p stackline-query -E 'test(typescript_types)'\n\
               Add its page, if it has one: web/src/pages/{dashed}.tsx, a line in PAGES of web/src/state.ts, and one in Page of web/src/main.tsx",
    },
];

/// Write the skeleton of a kind under a name, register it, and print the steps that remain.
pub(crate) fn run(kind: &str, name: &str) -> Result<()> {
    let nouns = || KINDS.map(|kind| kind.noun).join(", ");
    let Some(kind) = KINDS.iter().find(|known| known.noun == kind) else {
        bail!("no kind {kind}; the kinds are {}", nouns());
    };
    ensure!(is_name(name), "{name}: a name has lower-case letters, digits and underscores, and starts with a letter");
    let code = next_code()?;
    let fill = |text: &str| fill_placeholders(text, name, &code);
    let mut files = vec![(fill(kind.file), fill(kind.skeleton))];
    files.extend(kind.page.map(|(path, text)| (fill(path), fill(text))));
    for (path, _) in &files {
        ensure!(!files::root().join(path).exists(), "{path} exists already");
    }
    let list = read(kind.list)?;
    let list = with_module(&list, name).and_then(|list| with_entry(&list, &fill(kind.entry), kind.order));
    files.push((kind.list.to_owned(), list.with_context(|| format!("{}: no list of modules, or no ALL", kind.list))?));
    for (path, text) in files {
        std::fs::write(files::root().join(&path), text).with_context(|| path.clone())?;
        println!("{path}");
    }
    println!("\nReplace each TODO, and run the tests of the crate. Then:\n{}", fill(kind.next));
    Ok(())
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(files::root().join(path)).with_context(|| path.to_owned())
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Replace the placeholders of a skeleton: `{name}`, `{dashed}`, `{words}`, `{code}`.
fn fill_placeholders(text: &str, name: &str, code: &str) -> String {
    text.replace("{name}", name)
        .replace("{dashed}", &name.replace('_', "-"))
        .replace("{words}", &name.replace('_', " "))
        .replace("{code}", code)
}

/// Code for a new rule, after the highest one of all rules, such as `SL066`.
fn next_code() -> Result<String> {
    let mut highest = 0;
    for path in files::listed()?.iter().filter(|path| path.starts_with("crates/findings/src/")) {
        highest = highest.max(highest_code(&read(path)?));
    }
    Ok(format!("SL{:03}", highest + 1))
}

/// Number of the highest rule code that a file declares; 0 if it declares none.
fn highest_code(text: &str) -> u32 {
    let codes = text.split("code: \"SL").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok());
    codes.max().unwrap_or(0)
}

/// Add `mod NAME;` to the text of a file, in the alphabetical order of its modules. `None` if it has no modules.
fn with_module(list: &str, name: &str) -> Option<String> {
    let module = |line: &str| Some(line.rsplit_once("mod ")?.1.strip_suffix(';')?.to_owned());
    let is_module = |line: &&str| !line.starts_with(' ') && module(line).is_some();
    let lines: Vec<&str> = list.lines().collect();
    let next = lines.iter().position(|line| is_module(line) && module(line).is_some_and(|known| *known > *name));
    let after_last = || Some(lines.iter().rposition(&is_module)? + 1);
    let mut at = next.or_else(after_last)?;
    // An attribute belongs to the module below it.
    while at > 0 && lines[at - 1].starts_with("#[") {
        at -= 1;
    }
    let declared = format!("mod {name};");
    let all: Vec<&str> = [&lines[..at], &[declared.as_str()], &lines[at..]].concat();
    Some(all.join("\n") + "\n")
}

/// Add an entry to the list `ALL` in the text of a file. `None` if it has no such list.
fn with_entry(list: &str, entry: &str, order: EntryPosition) -> Option<String> {
    let from = list.find("pub const ALL")?;
    let from = from + list[from..].find("[\n")? + 2;
    let end = from + list[from..].find("\n];")? + 1;
    let name_of = |text: &str| Some(text.split_once("name: \"")?.1.split('"').next()?.to_owned());
    let starts = list[from..end].match_indices("\n    ").map(|(at, _)| from + at + 1);
    let entries = std::iter::once(from).chain(starts).filter(|&at| !list[at + 4..].starts_with([' ', '}']));
    let is_later = |at: &usize| order == EntryPosition::ByName && name_of(&list[*at..]) > name_of(entry);
    let at = entries.into_iter().find(is_later).unwrap_or(end);
    Some(format!("{}{entry}{}", &list[..at], &list[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_and_entries_keep_their_order() {
        let list = "//! Text\n\nmod a;\n#[cfg(test)]\nmod c;\n\npub const ALL: &[X] = &[\n    X { name: \"a\" },\n    X {\n        name: \"c\",\n    },\n];\n";
        let module = |name| with_module(list, name).unwrap();
        assert!(module("b").contains("mod a;\nmod b;\n#[cfg(test)]\nmod c;"));
        assert!(module("d").contains("mod c;\nmod d;\n\npub"));
        let entry = |name: &str, order| with_entry(list, &format!("    X {{ name: \"{name}\" }},\n"), order).unwrap();
        assert!(entry("b", EntryPosition::ByName).contains("\"a\" },\n    X { name: \"b\" },\n    X {\n"));
        assert!(entry("b", EntryPosition::Last).ends_with("    },\n    X { name: \"b\" },\n];\n"));
        assert!(entry("d", EntryPosition::ByName).ends_with("    },\n    X { name: \"d\" },\n];\n"));
        assert_eq!(with_entry("no list", "", EntryPosition::Last), None);
    }

    #[test]
    fn lists_of_this_repository_take_an_entry_of_each_kind() {
        for kind in &KINDS {
            let list = read(kind.list).unwrap();
            let entry = fill_placeholders(kind.entry, "zz_new", "SL999");
            let with = with_module(&list, "zz_new").and_then(|list| with_entry(&list, &entry, kind.order)).unwrap();
            assert!(with.contains("\nmod zz_new;\n") && with.contains(&entry), "{}", kind.noun);
            assert_eq!(with.len(), list.len() + "mod zz_new;\n".len() + entry.len(), "{}", kind.noun);
            let text = fill_placeholders(kind.skeleton, "zz_new", "SL999");
            assert!(text.starts_with("//! ") && !text.contains("{name}") && text.contains("#[test]"), "{}", kind.noun);
        }
    }

    #[test]
    fn names_and_codes() {
        assert!(is_name("slow_sort2") && !is_name("Slow") && !is_name("2a") && !is_name("a-b") && !is_name(""));
        assert_eq!(highest_code("code: \"SL007\", code: \"SL061\"; code: \"X\""), 61);
    }
}
