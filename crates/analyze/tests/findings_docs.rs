//! Pages of rules and their index, generated from the rules (`STACKLINE_BLESS=1` writes them).

use stackline_findings::{Area, Rule, rules};
use stackline_model::format::capital;
use std::fmt::Write;
use std::path::PathBuf;

/// Text above the lists of rules.
const INTRODUCTION: &str = "\
# Findings

Which performance issues does `stackline findings` report, and in which order?

Each rule below looks for one kind of issue. Its page says how the issue is measured, how to fix it, and when the rule is wrong. \
`stackline findings --explain SL012` shows a page in the terminal.

## Estimated gain

- The gain is the time that a step gets shorter by when the dependency graph of the trace is replayed with the change \
([what-if](../analyses/what-if.md)). Where a change cannot be replayed, the finding names the model that was used instead.
- Bounds are a range, such as \"0 to 7.5 %\". A lower bound of 0 means that the change may gain nothing.
- Percentages are of a step without the cost of recording. A step is its share of the window of steps; the share between steps is \
reported where it is at least 1 %.
- A gap without recorded calls is named in a note if it is as long as ten median steps and 20 % of the window. `--min-gain` then \
compares gains with a step without the gap.
- A program without marked steps but with a repeated pattern of launches, such as the decode loop of a server, has inferred steps. \
A note says so, and findings that depend on steps have less confidence.

## Order

- Findings are sorted by likely gain. A finding with a lower bound of 0 keeps its rank, because recordings often cannot distinguish \
work from waiting.
- A finding with a lower bound of 0 and low confidence is listed after all others. `--fail-on new` ignores it.
- Findings on memory (SL050 to SL060) are listed last. Their gain is in bytes at the highest peak of a device, predicted by a replay of \
its allocations ([memory](../reference/memory.md#findings)). Runs without memory data are not checked for them.

## Gain of all findings together

All changes are replayed together, too. The bounds of this total are as far apart as those of single findings, whose errors partly \
cancel. The total excludes speculative gains (such as half of a kernel's time), gains by a model, and changes that contradict \
findings above them. Their numbers are listed next to it.

## Time that no rule covers

Uncovered time is listed below the findings if it takes 20 % of the window or more, or if findings cover less than half of the \
critical path. The list has calls, operators, functions and GPU work by name, with the gain of their removal in replay. It also has time \
without an event: waits with an unrecorded cause, and time of threads without recorded calls, with a way to record it. \
The name of such time ends with the program's annotation around it, if this annotation contains half of the time or 20 % of the path. A wait \
is listed under the call that was in progress meanwhile, never under the operation after it. A gap between two operators counts as \
covered in all steps if at least half of its sampled time belongs to findings. Of operators that share most of their time, such as \
nested ones, the one with the largest gain is listed. A compilation of torch.compile is listed by its outermost span.

## Options

With `--baseline` each finding is new, gone or changed, compared with all findings of both runs, including ignored ones and those below \
`--min-gain`.

Recordings without individual calls, and profiles, are checked by [fewer rules, whose gain is the time of the calls](call-trees.md).
";

/// Text below the lists of rules.
const RANKS_AND_PYTHON: &str = "
## Several ranks

Pass the folder with the traces of all ranks: `stackline findings DIRECTORY`. Traces are read one after another. Findings of one rule at \
one source location become one finding, with the numbers of the rank that gains most and a list of all ranks that have it. A step, and \
the gain of all findings together, are those of the rank with the longest step; percentages are of that step. SL040 compares the \
ranks. If the other ranks wait for one rank, the gain of all findings together is that of this rank, and findings that it shares \
with others have its numbers. The lower bound of a finding that it lacks is 0, because the other ranks would only wait longer. \
A cause on that rank that explains the wait is listed instead of SL040, so that its gain counts once. `--rank 3` selects one rank.

Each trace must contain its rank, or its file name must (`rank3.json`). Traces that are no ranks of one job are refused.

## Rules of your own

[Rules in Python](python-rules.md) check for issues that are specific to your program.
";

fn list() -> String {
    let mut list = INTRODUCTION.to_owned();
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
    list.push_str(RANKS_AND_PYTHON);
    list
}

#[test]
fn rule_pages_are_up_to_date() {
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
