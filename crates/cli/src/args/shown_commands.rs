//! Tests that the parser accepts every command that the README and the pages of `docs` show.
//!
//! Complete commands are the lines in code blocks that begin with `stackline`. Code spans of the text may leave out
//! required arguments and values of options. Options that the help hides, such as former names, are refused.

use super::refused_options::{command, parse_words};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, Error};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Languages of code blocks that show commands.
const LANGUAGES: [&str; 4] = ["", "text", "sh", "bash"];

/// Fewest commands expected on all pages, to detect that pages are not found.
const FEWEST: usize = 250;

/// A command on a page.
struct Shown {
    line: usize,
    /// In a code block, not in a code span of the text.
    is_complete: bool,
    text: String,
}

/// Find the commands of a page, in order.
fn shown(page: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut language = None;
    let mut lines = page.lines().zip(1..);
    while let Some((text, line)) = lines.next() {
        let text = text.trim();
        if let Some(opened) = text.strip_prefix("```") {
            language = language.is_none().then_some(opened);
        } else if language.is_none() {
            // A table escapes its separator.
            let spans = text.split('`').skip(1).step_by(2).map(|span| span.replace(r"\|", "|"));
            found.extend(spans.map(|text| Shown { line, is_complete: false, text }));
        } else if language.is_some_and(|language| LANGUAGES.contains(&language)) {
            let mut text = text.strip_prefix("$ ").unwrap_or(text).to_owned();
            while text.ends_with('\\') {
                text.pop();
                text.push_str(lines.next().map_or("", |(next, _)| next.trim_end()));
            }
            found.push(Shown { line, is_complete: true, text });
        }
    }
    found.retain(|command| command.text.starts_with("stackline "));
    found
}

/// Split a line into words like a shell, and return its commands of this program. Operators such as `&&` and `>` begin
/// a new command. `None` if a quote is not closed.
fn commands(line: &str) -> Option<Vec<Vec<String>>> {
    let mut commands: Vec<Vec<String>> = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let (quoted, rest) = letters.as_str().split_once(letter)?;
                word.get_or_insert_default().push_str(quoted);
                letters = rest.chars();
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            '#' if word.is_none() => break,
            ' ' | '&' | ';' | '|' | '<' | '>' => {
                if let Some(command) = commands.last_mut() {
                    command.extend(word.take());
                }
                if letter != ' ' {
                    commands.push(Vec::new());
                }
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(command) = commands.last_mut() {
        command.extend(word);
    }
    commands.retain(|words| words.first().is_some_and(|program| program == "stackline"));
    Some(commands)
}

/// Error message for words that the parser refuses; `None` if it accepts them.
fn refusal(words: &[String], is_complete: bool) -> Option<String> {
    match parse_words(words.iter().map(OsString::from)) {
        Ok(_) => hidden_option(words),
        Err(error) if !error.use_stderr() || (!is_complete && is_abbreviation(&error)) => None,
        Err(error) => {
            let text = error.to_string();
            let message = text.split("\n\n").next().unwrap_or_default();
            Some(message.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

/// Check if only a required argument or the value of an option is missing.
fn is_abbreviation(error: &Error) -> bool {
    let lacks_value =
        matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    error.kind() == ErrorKind::MissingRequiredArgument || lacks_value
}

/// Error message for a given option that the help of the command hides.
fn hidden_option(words: &[String]) -> Option<String> {
    let mut root = command();
    let matches = root.try_get_matches_from_mut(words).ok()?;
    let (name, given) = matches.subcommand()?;
    let is_given = |arg: &Arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let mut arguments = root.find_subcommand(name)?.get_arguments();
    let option = arguments.find(|arg| arg.is_hide_set() && is_given(arg))?.get_long()?;
    Some(format!("the help of `stackline {name}` hides --{option}"))
}

/// Collect the faults of a page, each with its line; returns the number of commands.
fn check(name: &str, page: &str, faults: &mut Vec<String>) -> usize {
    let mut count = 0;
    for Shown { line, is_complete, text } in shown(page) {
        let Some(commands) = commands(&text) else {
            faults.push(format!("{name}:{line}: {text}: a quote is not closed"));
            continue;
        };
        count += commands.len();
        let messages = commands.iter().filter_map(|words| refusal(words, is_complete));
        faults.extend(messages.map(|message| format!("{name}:{line}: {text}: {message}")));
    }
    count
}

/// Append the Markdown files of a folder and of its folders.
fn add_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

#[test]
fn commands_on_pages_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    add_pages(&root.join("docs"), &mut pages);
    pages.sort();
    let (mut faults, mut count) = (Vec::new(), 0);
    for path in &pages {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        count += check(&name, &std::fs::read_to_string(path).unwrap(), &mut faults);
    }
    assert!(faults.is_empty(), "{} commands on pages are refused:\n{}", faults.len(), faults.join("\n"));
    assert!(count >= FEWEST, "only {count} commands on {} pages", pages.len());
}

#[test]
fn renamed_options_are_found() {
    let page = "`stackline report` and `stackline report --html`, `stackline report --htm`\n\
                ```text\n\
                $ stackline steps t.json --format csv > steps.csv  # as a table\n\
                stackline: a message\n\
                stackline report t.json \\\n  --gone 1\n\
                stackline steps t.json && stackline step t.json\n\
                stackline record --without python -- python train.py --gone\n\
                stackline report 'a b\n\
                stackline report\n\
                ```\n\
                ```python\n\
                stackline gone\n\
                ```\n";
    let mut faults = Vec::new();
    assert_eq!(check("page.md", page, &mut faults), 9);
    let expected = [
        (1, "'--htm'"),
        (5, "'--gone'"),
        (7, "'step'"),
        (8, "hides --without"),
        (9, "a quote is not closed"),
        (10, "<TRACE>"),
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, (line, text)) in faults.iter().zip(expected) {
        assert!(fault.starts_with(&format!("page.md:{line}: ")) && fault.contains(text), "{fault}");
    }
}

#[test]
fn lines_are_split_like_in_a_shell() {
    let words = |line: &str| commands(line).unwrap().iter().map(|words| words.join("|")).collect::<Vec<_>>();
    assert_eq!(words(r"stackline a 'b > c'd e\ f ''  # g"), ["stackline|a|b > cd|e f|"]);
    assert_eq!(words("stackline a#b && ls; stackline c > stackline.txt"), ["stackline|a#b", "stackline|c"]);
}
