//! Pages of rules and their index, generated from the rules (`STACKLINE_BLESS=1` writes them).

use stackline_analyze::findings::{Area, Rule, rules};
use stackline_model::format::capital;
use std::fmt::Write;
use std::path::PathBuf;

fn list() -> String {
    let mut list = "# Findings\n\nWhich problems does `stackline findings` report, and how does it estimate their \
        gains?\n\nReplay of the dependency graph with the change predicts the gain of a finding, with bounds \
        ([what-if](../analyses/what-if.md)). If replay cannot express a change, the finding names the model used \
        instead. `stackline findings --explain SL012` shows a page in the terminal.\n\nFindings are sorted by \
        estimated gain. A finding with lower bound 0 keeps its place in this order, because recordings often cannot \
        distinguish work from waiting. If its confidence is low, too, the finding is listed after the others, and \
        `--fail-on new` ignores it. Percentages are relative to a step without the cost of recording. The time of a \
        step is its share of the window; time between steps is reported from 1 % on. A gap without recorded calls, \
        as long as ten median steps and 20 % of the window, is named in a note with the adjacent steps. Then \
        `--min-gain` compares gains with a step without the gap. If a program marks no steps, but a pattern of \
        launches repeats, as in decode loops of servers, the repetitions are the steps. A note reports these steps, \
        and findings that depend on steps have lower confidence.\n\nThe combined gain of all findings is replayed, \
        too. Its bounds are as wide as those of the single findings, whose errors partly cancel. Excluded are \
        speculative gains (such as half of a kernel's time), gains by a model, and changes that contradict \
        higher-ranked changes; they are counted separately. Time without a rule is listed below the findings if it \
        takes 20 % of the window or more, or if findings cover less than half of the critical path. The list names \
        calls, operators, functions and GPU work, with the gain of their removal in replay. It also has time outside \
        of all events. One kind is waits without a recorded cause, attributed to the call in progress. The other is \
        time of threads without recorded calls, with a way to record them. Each page says under \"How the gain is \
        estimated\" which method applies.\n\nWith `--baseline`, a finding is new, gone or changed relative to all \
        findings of both runs, including ignored findings and those below `--min-gain`.\n\nMemory findings (SL050 to \
        SL060) save bytes at the highest peak of a device, predicted by replay of its allocations \
        ([memory](../reference/memory.md#findings)). They are listed after findings that save time, as bytes and \
        time cannot be compared. For runs without memory data, these rules are not checked.\n\nFor recordings \
        without single calls, and for profiles, [fewer rules apply, and gains are the removed \
        time](sums-of-calls.md).\n"
        .to_owned();
    for area in Area::ALL {
        let of_area: Vec<&Rule> = rules::ALL.iter().filter(|rule| rule.area == area).collect();
        if of_area.is_empty() {
            continue;
        }
        write!(list, "\n## {}\n\n| code | name | problem |\n|---|---|---|\n", capital(area.name())).unwrap();
        for rule in of_area {
            writeln!(list, "| [{}]({}) | {} | {} |", rule.code, rule.page_file(), rule.name, rule.about).unwrap();
        }
    }
    list.push_str(
        "\n## Several ranks\n\nPass the folder with the traces of all ranks: `stackline findings DIRECTORY`. The \
         traces are read one after another. Findings of one rule at one source location are combined: the finding \
         shows the rank with the largest gain, and lists all ranks that have it. The step and the combined gain are \
         those of the rank with the longest step; percentages are of that step. SL040 compares the ranks. `--rank 3` \
         selects one rank. Each trace or its file name must give the rank (`rank3.json`). Traces that are not ranks \
         of one job are rejected.\n",
    );
    list.push_str(
        "\n## Python rules\n\n[Rules in Python](python-rules.md) find problems that are specific to your \
        program.\n",
    );
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
        assert_eq!(&written, text, "docs/findings/{name} is stale: write it with STACKLINE_BLESS=1");
    }
    let names = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let there = names.filter(|name| name.starts_with("SL") || name == "README.md").count();
    assert_eq!(there, pages.len(), "pages of removed rules");
}
