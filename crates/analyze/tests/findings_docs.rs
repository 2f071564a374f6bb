//! The page of each finding, and the list of all: made from the rules (`STACKLINE_BLESS=1` writes them).

use stackline_analyze::findings::{Area, Rule, rules};
use stackline_model::format::capital;
use std::fmt::Write;
use std::path::PathBuf;

fn list() -> String {
    let mut list = "# Findings\n\nWhat `stackline findings` looks for. The gain of each is predicted by replaying the \
                    dependency graph of the trace with the change made ([what-if](../analyses/what-if.md)), with bounds; where a \
                    change cannot be replayed, the finding names the model that was used instead. `stackline findings --explain SL012` \
                    shows a page in the terminal.\n\nThey stand in the order of what they likely gain. One whose lower bound is no gain at all says \
                    \"perhaps nothing\" and keeps its place: a recording often cannot tell work from waiting, and what gains most would come \
                    last. If its confidence is low, too, it stands behind the others, and `--fail-on new` leaves it alone. \
                    Percentages are of a step without what it cost to record it. A step takes its part of the whole stretch of steps; how much of that lies between steps is told where it is 1 % or more. A gap without recorded calls as long as ten median steps and 20 % of the window is named in a note with the steps beside it; `--min-gain` then compares gains with a step without the gap. Where a program marks no steps, but a pattern of launches repeats, as in decode loops of servers, the repeats are the steps: a note says so, and what depends on steps has less confidence.\n\nWhat all gain together is replayed, too; its bounds are as far apart as those of the single findings, whose errors partly even out. No part of it \
                    are hopes (such as half of a kernel's time), gains by a model, and changes that contradict those above them: their \
                    numbers are told beside it. What no rule covers is named below the list, if it takes 20 % of the window or more, or if findings \
                     cover less than half of the critical path: calls, operators, functions and GPU work by name, with what their removal \
                     gains in replay, and time in no event: waits whose cause is not recorded (told of the call that was in progress \
                     meanwhile, if there is one, and never of the operation after it) and time of threads in which no call is \
                     recorded, with what could record it. Each page says under \"How measured\" which of these a finding is.\n\nWith `--baseline` a \
                    finding is new, gone or changed beside all that was found in both runs, whether it was listed, ignored or below \
                    `--min-gain`.\n\nWhat is found in memory (SL050 to SL060) gains bytes at the \
                    highest peak of a device, predicted by replaying its allocations ([memory](../reference/memory.md#findings)), and stands behind \
                    what gains time: the one cannot be weighed against the other. Where a run does not tell of memory, these are not checked.\n\n\
                    Of recordings without single calls, and of profiles, [fewer rules look, and gains are the time that goes](sums-of-calls.md).\n"
        .to_owned();
    for area in Area::ALL {
        let of_area: Vec<&Rule> = rules::ALL.iter().filter(|rule| rule.area == area).collect();
        if of_area.is_empty() {
            continue;
        }
        write!(list, "\n## {}\n\n| code | name | what it finds |\n|---|---|---|\n", capital(area.name())).unwrap();
        for rule in of_area {
            writeln!(list, "| [{}]({}) | {} | {} |", rule.code, rule.page_file(), rule.name, rule.about).unwrap();
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

#[test]
fn pages_are_those_of_the_rules() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings");
    let mut pages: Vec<(String, String)> = rules::ALL.iter().map(|rule| (rule.page_file(), rule.page())).collect();
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
