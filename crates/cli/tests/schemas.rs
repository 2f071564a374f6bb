//! The documents of `critical-path` and `what-if`: every key and type, as snapshots and against `docs/schemas`.

use crate::common;
use crate::json_schema;

use common::stdout;
use json_schema::{closed, errors};
use serde_json::Value;
use stackline_present::json::schema_version;
use std::collections::{BTreeMap, BTreeSet};

/// Types by path: of lists and of objects whose keys are data, all members together.
type Shape = BTreeMap<String, BTreeSet<&'static str>>;

/// Objects whose keys are names of causes, rules, phases or tables.
const BY_NAME: [&str; 9] = [
    ".bound_by",
    ".bound_by_ns",
    ".bound_by_us",
    ".before.bound_by",
    ".edges",
    ".path_edges",
    ".phases_us",
    ".bound_by_ns_before",
    ".bound_by_ns_after",
];

fn shape(path: &str, value: &Value, out: &mut Shape) {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "text",
        Value::Array(items) => {
            items.iter().for_each(|item| shape(&format!("{path}[]"), item, out));
            "list"
        }
        Value::Object(members) => {
            for (key, member) in members {
                let key = if BY_NAME.contains(&path) { "*" } else { key };
                shape(&format!("{path}.{key}"), member, out);
            }
            "object"
        }
    };
    out.entry(path.to_owned()).or_default().insert(name);
}

/// A trace with frames, modules, several threads, collectives and waits; and each document that is promised.
fn documents() -> Vec<(&'static str, String, Shape)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let config = stackline_testkit::demo::Config { layers: 2, ..Default::default() };
    std::fs::write(&file, stackline_testkit::demo::generate(&config)).unwrap();
    let trace = file.to_str().unwrap();
    let of_path = ["critical-path", trace, "--format", "json"];
    // Without two rules, so that something is left that none covers.
    let of_findings = ["findings", trace, "--format", "json", "--min-gain", "0"];
    let of_what_if = ["what-if", trace, "--format", "json"];
    let commands = [
        ("exact", [&of_path[..], &["--method", "exact"]].concat()),
        ("ctda", [&of_path[..], &["--method", "ctda", "--what-if", "gpu=x0.5"]].concat()),
        ("hta", [&of_path[..], &["--method", "hta", "--what-if", "gpu=x0.5", "--what-if", "cpu:no such=0"]].concat()),
        ("compare", [&of_path[..], &["--compare"]].concat()),
        ("what-if", [&of_what_if[..], &["--scale", "sync:*", "0.5", "--remove", "kernel:*nccl*"]].concat()),
        ("sweep", [&of_what_if[..], &["--sweep", "--candidates", "8"]].concat()),
        ("findings", [&of_findings[..], &["--set", "SL019.share=100", "--set", "SL029.share=100"]].concat()),
        ("diff", vec!["diff", trace, trace, "--format", "json"]),
    ];
    let read = |(name, args): (&'static str, Vec<&str>)| {
        let document: Value = serde_json::from_str(&stdout(&args)).unwrap();
        let command = args[0];
        assert_eq!(document["schema"], format!("stackline/{command}/{}", schema_version(command)));
        let mut found = Shape::new();
        shape("", &document, &mut found);
        (name, command.to_owned(), found)
    };
    commands.into_iter().map(read).collect()
}

#[test]
fn documents_keep_their_keys_and_types() {
    for (name, _, found) in documents() {
        let types = |types: &BTreeSet<&str>| types.iter().copied().collect::<Vec<_>>().join(" or ");
        let lines: Vec<String> =
            found.iter().skip(1).map(|(path, found_types)| format!("{path}: {}", types(found_types))).collect();
        insta::assert_snapshot!(name, lines.join("\n"));
    }
}

#[test]
fn documents_are_valid_by_their_json_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let config = stackline_testkit::demo::Config { layers: 2, ..Default::default() };
    let trace = write("trace.json", &stackline_testkit::demo::generate(&config));
    let ranks = folder.path().join("ranks");
    std::fs::create_dir(&ranks).unwrap();
    (0..2).for_each(|rank| drop(common::write_sample(&ranks, rank)));
    let ranks = ranks.to_str().unwrap();
    let empty = write("none.json", &stackline_testkit::mini::trace("1/1 cpu_op aten::mm 1+5"));
    let memory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/memory/simple-multi-copy.txt");
    let ignore = write("ignore.txt", "SL004\nSL012\n");
    let before = write("before.json", &stdout(&["findings", &trace, "--format", "json"]));
    let (findings, diff) = (
        closed(include_str!("../../../docs/schemas/findings.json")),
        closed(include_str!("../../../docs/schemas/diff.json")),
    );
    let cases: [(&Value, &[&str]); 9] = [
        (&findings, &["findings", &trace, "--min-gain", "0"]),
        (&findings, &["findings", &trace, "--baseline", &before, "--ignore", &ignore]),
        (&findings, &["findings", &trace, "--table", "ignored", "--ignore", &ignore]),
        (&findings, &["findings", ranks]),
        (&findings, &["findings", memory]),
        (&findings, &["findings", &empty]),
        (&diff, &["diff", &trace, &trace]),
        (&diff, &["diff", ranks, ranks]),
        (&diff, &["diff", &empty, &empty]),
    ];
    for (schema, args) in cases {
        let document: Value = serde_json::from_str(&stdout(&[args, &["--format", "json"]].concat())).unwrap();
        assert_eq!(errors(schema, &document), [""; 0], "{args:?}");
    }
    // And they do hold documents to something.
    let good: Value = serde_json::from_str(&std::fs::read_to_string(&before).unwrap()).unwrap();
    for (pointer, wrong) in [
        ("/schema", Value::from("stackline/findings/1")),
        ("/steps", Value::from(-1)),
        ("/combined", Value::from("much")),
        ("/tables/findings/rows/0/confidence", Value::from("sure")),
        ("/tables/findings/rows/0/code", Value::Null),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = wrong;
        assert_eq!(errors(&findings, &bad).len(), 1, "{pointer}");
    }
}

/// A part of the page: from its title to the next.
fn section<'a>(page: &'a str, title: &str) -> &'a str {
    let from = page.find(title).unwrap_or_else(|| panic!("the page has no {title:?}"));
    let rest = &page[from + title.len()..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

/// Title of the section of a command's document.
fn title(command: &str) -> String {
    format!("## `stackline/{command}/{}`", schema_version(command))
}

/// Words between backticks.
fn words(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).flat_map(|t| t.split([' ', '.', '[', ']'])).collect()
}

/// Keys of the tables of a section, with the types that they promise.
fn promised(section: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in section.lines().filter(|l| l.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        for key in words(cells[1]) {
            found.entry(key).or_default().push(cells[2]);
        }
    }
    found
}

#[test]
fn documents_match_the_schema_page() {
    let page = include_str!("../../../docs/schemas/README.md");
    let common = section(page, "## Keys of every document");
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, command, found) in documents() {
        let of_command = section(page, &title(&command));
        let (known, promised) = (words(of_command), promised(of_command));
        for (path, types) in &found {
            // Tables have pages of their own, and so have the settings of a method.
            if path.starts_with(".tables.") || path.starts_with(".options.") {
                continue;
            }
            let key = path.trim_end_matches("[]").rsplit('.').next().unwrap();
            let is_common = words(common).contains(key);
            assert!(matches!(key, "" | "*") || is_common || known.contains(key), "{name}: {path} is not on the page");
            if path.matches('.').count() == 1 && !path.ends_with("[]") {
                seen.entry(command.clone()).or_default().insert(key.to_owned());
                let Some(promises) = promised.get(key) else { continue };
                let fits = |promise: &&str| types.iter().all(|found_type| promise.contains(found_type));
                assert!(promises.iter().any(fits), "{name}: {path} is {types:?}, promised {promises:?}");
            }
        }
    }
    for (command, seen) in seen {
        let of_command = section(page, &title(&command));
        for key in promised(of_command).keys() {
            assert!(seen.contains(*key), "{command}: no document has the promised {key}");
        }
    }
}
