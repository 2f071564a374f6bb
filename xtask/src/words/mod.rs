//! Check of the wording of texts: phrases to avoid, length of sentences, American spelling.

mod areas;
mod help;
mod literals;
mod markdown;
mod names;
mod phrases;
mod python;
pub(crate) mod rust;
mod shell;
mod spelling;
mod typescript;

use areas::{AREAS, Area, Text};
use literals::Part;
use markdown::{Block, Sentence};
use phrases::{PHRASES, Phrase};

use anyhow::{Result, bail};

use crate::files;

/// Longest sentence at the 95th percentile of a page, in words.
const P95_WORDS: usize = 30;
/// Longest sentence, in words.
const MOST_WORDS: usize = 40;

/// Print the number of findings of each area, or the findings of one.
pub(crate) fn run(selected_area: Option<&str>) -> Result<()> {
    if let Some(name) = selected_area.filter(|name| !AREAS.iter().any(|area| area.name == *name)) {
        bail!("no area {name}; the areas are {}", AREAS.iter().map(|area| area.name).collect::<Vec<_>>().join(", "));
    }
    let text_of = |path: &str| std::fs::read_to_string(files::root().join(path)).unwrap_or_default();
    let paths = files::listed()?;
    let mut all = 0;
    for area in AREAS.iter().filter(|area| selected_area.is_none_or(|name| name == area.name)) {
        let found = findings(area, &paths, text_of);
        if selected_area.is_some() {
            found.iter().for_each(|finding| println!("{finding}"));
        }
        println!("{:14} {:6} findings", area.name, found.len());
        all += found.len();
    }
    if all == 0 { Ok(()) } else { bail!("{all} findings (CONTRIBUTING.md lists the rules)") }
}

/// Report the findings of all areas as faults.
pub(crate) fn check(paths: &[String], text_of: impl Fn(&str) -> String, faults: &mut Vec<String>) {
    faults.extend(AREAS.iter().flat_map(|area| findings(area, paths, &text_of)));
}

/// Check the texts of an area; returns the findings, by file and line.
fn findings(area: &Area, paths: &[String], text_of: impl Fn(&str) -> String) -> Vec<String> {
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| areas::areas_of_file(path).contains(&area.name)) {
        match area.text {
            Text::FileNames => found.extend(names::file_fault(path).map(|fault| format!("{path}: {fault}"))),
            Text::FunctionNames => check_functions(path, &text_of(path), &mut found),
            _ => {}
        }
        let sentences = sentences(area.text, path, &text_of(path));
        sentences.iter().for_each(|sentence| check_sentence(path, area.text, sentence, &mut found));
        if area.text == Text::Markdown {
            check_lengths(path, &sentences, &mut found);
            check_opening(path, &sentences, &mut found);
        }
    }
    found
}

/// Sentences of one kind of text in a file, with their lines.
fn sentences(text: Text, path: &str, file: &str) -> Vec<Sentence> {
    let of_parts = |parts: Vec<Part>| {
        let moved = |(line, part): Part| {
            let inside = markdown::sentences(&part).into_iter();
            inside.map(move |sentence| Sentence { line: sentence.line + line - 1, ..sentence })
        };
        parts.into_iter().flat_map(moved).collect()
    };
    let is_python = path.ends_with(".py") || path.ends_with(".pyi");
    let is_shell = areas::is_shell(path);
    match text {
        Text::Markdown => markdown::sentences(file),
        Text::Help => of_parts(help::paragraphs(file)),
        Text::DocComments if is_python => of_parts(python::docstrings(file)),
        Text::DocComments if path.ends_with(".rs") => markdown::sentences(&rust::doc_comments(file)),
        Text::DocComments => markdown::sentences(&typescript::doc_comments(file)),
        Text::Comments if is_shell => of_parts(shell::comments(file)),
        Text::Comments => of_parts(rust::comments(file)),
        Text::Messages if is_shell => of_parts(shell::messages(file)),
        Text::Messages if is_python => of_parts(python::messages(file)),
        Text::Messages => of_parts(rust::messages(file)),
        Text::Web => of_parts(typescript::page_text(file, path.ends_with(".tsx"))),
        Text::FileNames | Text::FunctionNames => Vec::new(),
    }
}

/// Report the faults in names of functions in a Rust file.
fn check_functions(path: &str, file: &str, found: &mut Vec<String>) {
    for (line, name) in rust::function_names(file) {
        found.extend(names::name_fault(&name).map(|fault| format!("{path}:{line}: {fault}")));
    }
}

/// Report phrases to avoid, British spelling, and too many words in a sentence.
fn check_sentence(path: &str, text: Text, sentence: &Sentence, found: &mut Vec<String>) {
    let words = sentence.words();
    let line = sentence.line;
    let is_comment = matches!(text, Text::DocComments | Text::Help);
    let is_shown = !matches!(text, Text::DocComments | Text::Comments);
    let is_found = |phrase: &&Phrase| phrases::matches(phrase, &words, sentence.is_first, (is_comment, is_shown));
    for phrase in PHRASES.iter().filter(is_found) {
        found.push(format!("{path}:{line}: \"{}\": say {}", phrase.pattern, phrase.instead));
    }
    for word in &words {
        if let Some(american) = spelling::american(word) {
            found.push(format!("{path}:{line}: \"{word}\": American spelling: {american}"));
        }
    }
    if words.len() > MOST_WORDS {
        found.push(format!(
            "{path}:{line}: a sentence of {} words, more than {MOST_WORDS} ## {}",
            words.len(),
            sentence.text
        ));
    }
}

/// Report a page whose sentences are too long at the 95th percentile, tables and headings left out.
fn check_lengths(path: &str, sentences: &[Sentence], found: &mut Vec<String>) {
    let prose = sentences.iter().filter(|sentence| sentence.block == Block::Prose);
    let mut lengths: Vec<(usize, usize)> = prose.map(|sentence| (sentence.words().len(), sentence.line)).collect();
    lengths.sort_unstable();
    let Some(at) = (lengths.len() * 95).div_ceil(100).checked_sub(1) else { return };
    if lengths[at].0 > P95_WORDS {
        let lines: Vec<String> =
            lengths[at..].iter().rev().take(5).map(|(words, line)| format!("{line} ({words})")).collect();
        found.push(format!(
            "{path}: 95th percentile of sentences is {} words, more than {P95_WORDS}; longest: line {}",
            lengths[at].0,
            lines.join(", ")
        ));
    }
}

/// Report a page below `docs` that does not open with the question that it answers. Pages of rules are reference pages
/// and open with their summary.
fn check_opening(path: &str, sentences: &[Sentence], found: &mut Vec<String>) {
    // Pages of rules are reference, and examples show output as it is.
    if path.starts_with("docs/findings/SL") || path == "docs/diff-example.md" {
        return;
    }
    let opening = sentences.iter().find(|sentence| sentence.block == Block::Prose);
    if path.starts_with("docs/")
        && let Some(opening) = opening.filter(|sentence| !sentence.text.ends_with('?'))
    {
        found.push(format!("{path}:{}: the page opens without the question that it answers", opening.line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: Text, path: &str, content: &str) -> Vec<String> {
        let name = areas::areas_of_file(path)
            .into_iter()
            .find(|name| AREAS.iter().any(|area| area.name == *name && area.text == text));
        let area = Area { name: name.unwrap(), text };
        findings(&area, &[path.to_owned()], |_| content.to_owned())
    }

    #[test]
    fn each_rule_finds_its_fault() {
        let long = format!("{}end.\n", "word ".repeat(MOST_WORDS));
        assert!(found(Text::Markdown, "a.md", "# A page\n\nReport issues.\n").is_empty());
        assert!(
            found(Text::Markdown, "a.md", "a\n\nThe note is told.\n")[0].starts_with("a.md:3: \"told|tells|telling\"")
        );
        assert!(found(Text::Markdown, "a.md", "The colour.\n")[0].contains("color"));
        let lengths = found(Text::Markdown, "a.md", &long);
        assert!(
            lengths.len() == 2 && lengths[0].contains("41 words") && lengths[1].contains("percentile"),
            "{lengths:?}"
        );
        assert!(found(Text::Markdown, "a.md", &format!("```\n{long}```\n")).is_empty());
        assert!(found(Text::Help, "docs/cli/a.md", "# a\n```text\nWhat runs\n```\n")[0].starts_with("docs/cli/a.md:3"));
        assert!(found(Text::DocComments, "a/src/b.rs", "\n/// It is.\nfn a() {}\n")[0].starts_with("a/src/b.rs:2"));
        assert!(
            found(Text::Messages, "a/src/b.rs", "\nlet a = \"nothing that was told here\";\n")[0]
                .starts_with("a/src/b.rs:2")
        );
        assert!(found(Text::Comments, "a/src/b.rs", "\n// nothing is told\n")[0].starts_with("a/src/b.rs:2"));
        assert!(found(Text::Comments, "dev", "\n# nothing is told\n")[0].starts_with("dev:2"));
        assert!(found(Text::Messages, "dev", "\nsay \"nothing is told\"\n")[0].starts_with("dev:2"));
        assert!(
            found(Text::Web, "web/src/b.tsx", "<p>nothing that was told here</p>\n")[0].starts_with("web/src/b.tsx:1")
        );
        assert_eq!(found(Text::FileNames, "a/src/beside.rs", "").len(), 1);
        assert!(found(Text::FileNames, "a/src/parse.rs", "").is_empty());
        assert_eq!(found(Text::FunctionNames, "a/src/b.rs", "\nfn told() {}\nfn a() {}\n").len(), 1);
        assert!(found(Text::DocComments, "web/src/b.ts", "\n/** It is. */\n")[0].starts_with("web/src/b.ts:2"));
        assert!(found(Text::DocComments, "python/b.py", "\n\"\"\"It is.\"\"\"\n")[0].starts_with("python/b.py:2"));
        assert!(found(Text::Messages, "python/b.py", "\nraise A('it is told')\n")[0].starts_with("python/b.py:2"));
    }

    #[test]
    fn pages_open_with_a_question() {
        assert_eq!(found(Text::Markdown, "docs/a.md", "# A\n\nReport. How?\n").len(), 1);
        assert!(found(Text::Markdown, "docs/a.md", "# A?\n\nHow does `a` work? Well.\n").is_empty());
        assert!(found(Text::Markdown, "docs/findings/SL001-a.md", "# SL001 a\n\nReport. How?\n").is_empty());
        assert_eq!(found(Text::Markdown, "docs/findings/a.md", "# A\n\nReport. How?\n").len(), 1);
    }

    #[test]
    fn some_long_sentences_are_allowed() {
        let page = format!("{}{}end.\n", "One two three. ".repeat(19), "Word ".repeat(P95_WORDS + 5));
        assert!(found(Text::Markdown, "a.md", &page).is_empty());
        let page = format!("{}{}end.\n", "One two three. ".repeat(18), "Word ".repeat(P95_WORDS + 5));
        assert_eq!(found(Text::Markdown, "a.md", &page).len(), 1);
    }
}
