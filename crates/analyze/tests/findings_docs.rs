//! The page of each finding, and the list of all: made from the rules (`STACKLINE_BLESS=1` writes them).

#![allow(clippy::unwrap_used, reason = "tests")]

use stackline_analyze::findings::{Area, Rule, rules};
use std::fmt::Write;
use std::path::PathBuf;

fn page(rule: &Rule) -> String {
    let (before, after) = rule.example;
    let mut page = format!("# {} {}\n\n{}.\n\n", rule.code, rule.name, capital(rule.about));
    let mut section = |title: &str, text: &str| write!(page, "## {title}\n\n{text}\n\n").unwrap();
    section("Why it costs time", rule.why);
    section("What to do", rule.advice);
    section("Example", &format!("```python\n# before\n{before}\n\n# after\n{after}\n```"));
    section("What the change costs", &format!("{}.", capital(rule.cost)));
    section("When it is wrong", rule.wrong_when);
    let needs: Vec<&str> = rule.needs.iter().map(|need| need.missing()).collect();
    let needs = if needs.is_empty() {
        "It looks at every trace.".to_owned()
    } else {
        format!("It is not checked where the trace has {}.", needs.join(", or "))
    };
    section("What it needs", &needs);
    if !rule.settings.is_empty() {
        let mut table = "| `--set` | default | range | what it is |\n|---|---|---|---|".to_owned();
        for setting in rule.settings {
            let (least, most) = setting.range;
            write!(
                table,
                "\n| `{}.{}` | {} | {least} to {most} | {} |",
                rule.code, setting.name, setting.default, setting.about
            )
            .unwrap();
        }
        section("Settings", &table);
    }
    section("Where it comes from", &format!("{}.", capital(rule.source)));
    page.trim_end().to_owned() + "\n"
}

fn list() -> String {
    let mut list = "# Findings\n\nWhat `stackline findings` looks for. The gain of each is predicted by replaying the \
                    dependency graph of the trace with the change made ([what-if](../analyses/what-if.md)), with bounds; where a \
                    change cannot be replayed, the finding names the model that was used instead.\n"
        .to_owned();
    for area in Area::ALL {
        let of_area: Vec<&Rule> = rules::ALL.iter().filter(|rule| rule.area == area).collect();
        if of_area.is_empty() {
            continue;
        }
        write!(list, "\n## {}\n\n| code | name | what it finds |\n|---|---|---|\n", capital(area.name())).unwrap();
        for rule in of_area {
            writeln!(list, "| [{}]({}) | {} | {} |", rule.code, file(rule), rule.name, rule.about).unwrap();
        }
    }
    list.push_str(
        "\n## Several ranks\n\nGive the folder with the traces of all ranks: `stackline findings DIRECTORY`. They are read one after \
         another, and findings of one rule at one place become one, told of the rank that gains most by it, with all ranks that have \
         it. A step, and what all gain together, are those of the rank with the longest step; percentages are of that step. SL040 \
         compares the ranks. `--rank 3` looks at one alone. Each trace has to say which rank it is, or its file name has \
         (`rank3.json`): traces that are no ranks of one job are refused.\n",
    );
    list.push_str("\n## Your own\n\n[Rules in Python](python-rules.md) look for what you know about your program.\n");
    list
}

fn file(rule: &Rule) -> String {
    format!("{}-{}.md", rule.code, rule.name)
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[test]
fn pages_are_those_of_the_rules() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings");
    let mut pages: Vec<(String, String)> = rules::ALL.iter().map(|rule| (file(rule), page(rule))).collect();
    pages.push(("README.md".to_owned(), list()));
    if std::env::var_os("STACKLINE_BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in &pages {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
    for (name, text) in &pages {
        let written = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert_eq!(&written, text, "docs/findings/{name}: write it with STACKLINE_BLESS=1");
    }
    let names = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let there = names.filter(|name| name.starts_with("SL") || name == "README.md").count();
    assert_eq!(there, pages.len(), "pages of rules that are gone");
}
