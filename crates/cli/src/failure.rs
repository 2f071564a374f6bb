//! Exit codes, and failures as one sentence on standard error.

use anyhow::Error;
use stackline_present::terminal::{clean, clean_lines};
use std::io::{self, Write};
use std::path::PathBuf;

/// Done.
pub(crate) const DONE: u8 = 0;
/// Internal error, or missing records prevent judging a `--fail-on` condition.
pub(crate) const FAILED: u8 = 1;
/// Wrong use: unknown option, name, step, rank or instance.
pub(crate) const WRONG_USE: u8 = 2;
/// The input cannot be read.
pub(crate) const UNREADABLE: u8 = 3;
/// A `--fail-on` condition held.
pub(crate) const CONDITION_HELD: u8 = 4;

/// Error of wrong use, such as an unknown option, name or step (exit code 2).
#[derive(Debug)]
pub(crate) struct WrongUse(pub(crate) String);

impl std::fmt::Display for WrongUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUse {}

/// Create a [`WrongUse`] error from a message.
pub(crate) fn wrong_use(message: impl Into<String>) -> Error {
    WrongUse(message.into()).into()
}

/// Error for an input that cannot be read (exit code 3), for cases without an error of their own.
#[derive(Debug)]
pub(crate) struct Unreadable(pub(crate) String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

/// Create an [`Unreadable`] error from a message.
pub(crate) fn unreadable(message: impl Into<String>) -> Error {
    Unreadable(message.into()).into()
}

/// Error for a command to record that cannot be run, with the exit code that shells use in this case.
#[derive(Debug)]
pub(crate) struct CannotRun(u8, String);

impl std::fmt::Display for CannotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for CannotRun {}

/// Create a [`CannotRun`] error from an exit code and a message.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "recording requires Linux"))]
pub(crate) fn cannot_run(code: u8, message: impl Into<String>) -> Error {
    CannotRun(code, message.into()).into()
}

/// Create the text "did you mean …?" with names similar to the typed one; a period if there are none.
pub(crate) fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = stackline_engine::nearest(typed, names, 3);
    if near.is_empty() { ".".to_owned() } else { format!("; did you mean {}?", near.join(" or ")) }
}

/// Print a failure on standard error and return its exit code. A closed pipe is not a failure.
pub(crate) fn report(error: &Error) -> u8 {
    if is_closed_pipe(error) {
        return DONE;
    }
    let mut text = format!("{error}");
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Messages of our own errors already contain their source's text.
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    // Only tracebacks of rules in Python contain line breaks.
    let at = text.find("\nTraceback (most recent call last):").unwrap_or(text.len());
    let (message, traceback) = text.split_at(at);
    let _ = writeln!(io::stderr(), "error: {}{}", clean(message), clean_lines(traceback));
    if let Some(next) = next(error) {
        let _ = writeln!(io::stderr(), "Next: {}", clean(&next));
    }
    code(error)
}

/// Suggested command for an input that lacks the data of this command; `None` for other errors.
fn next(error: &Error) -> Option<String> {
    let stackline_engine::Error::Lacks(lacks) = error.downcast_ref()? else { return None };
    // Options that select parts of a trace do not apply to inputs without a trace.
    lacks.next().map(|(command, paths)| command_line(command, paths, &[]))
}

/// Format a `stackline` command with inputs and options ([`options_for`](crate::args::options_for)) for a shell.
pub(crate) fn command_line(command: &str, paths: &[PathBuf], options: &[String]) -> String {
    let path = |path: &PathBuf| {
        let path = path.to_string_lossy();
        if path.starts_with('-') { quoted(&format!("./{path}")) } else { quoted(&path) }
    };
    let words: Vec<String> = paths.iter().map(path).chain(options.iter().cloned()).collect();
    format!("stackline {command} {}", words.join(" "))
}

/// Quote a word for a shell, if necessary.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@,%".contains(c);
    let is_word = !word.is_empty() && word.chars().all(is_plain);
    if is_word { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Exit code for an error: wrong use, unreadable input, command that cannot be run, or internal error.
fn code(error: &Error) -> u8 {
    if error.is::<WrongUse>() {
        return WRONG_USE;
    }
    if error.is::<Unreadable>() {
        return UNREADABLE;
    }
    if let Some(CannotRun(code, _)) = error.downcast_ref() {
        return *code;
    }
    match error.downcast_ref::<stackline_engine::Error>() {
        Some(e) if e.is_unreadable() => UNREADABLE,
        Some(e) if e.is_wrong_use() => WRONG_USE,
        _ => FAILED,
    }
}

/// Check if a failure only means that the reader closed the pipe.
pub(crate) fn is_closed_pipe(error: &Error) -> bool {
    error.chain().any(is_broken_pipe)
}

fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
