//! Common options that a command refuses and hides from its help.

use super::{Cli, Common};
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, CommandFactory, Error, FromArgMatches};
use std::ffi::OsString;

/// Common options without effect, by command.
const REFUSED: &[(&str, &[&str])] = &[
    ("check", &["steps", "whole"]),
    ("doctor", &["steps", "whole"]),
    ("calls", &["steps", "whole", "clip_overlaps", "step_annotation"]),
    ("memory", &["steps", "whole", "step_annotation"]),
    ("record", &["whole", "rank", "clip_overlaps", "format", "tables", "limit", "step_annotation"]),
    ("view", &["steps", "whole", "rank"]),
];

/// Refused options for which a command has an error message of its own.
const OWN_MESSAGE: &[(&str, &[&str])] = &[
    ("calls", &["--steps"]),
    ("memory", &["--steps"]),
    ("record", &["--rank", "--clip-overlaps"]),
    ("view", &["--steps", "--rank"]),
];

/// Help of common options that mean something else for one command: command, option and text.
const OWN_HELP: &[(&str, &str, &str)] = &[
    (
        "record",
        "output",
        "Directory to create for the recording [default: NAME.stackline, where NAME is the script, module or command; \
         NAME-2.stackline if that exists]",
    ),
    ("record", "steps", "Record only these steps, by number, both ends included: 5 or 5..8"),
    ("findings", "limit", "Maximum number of findings, as with --top"),
    ("import", "output", "Run directory to create; required"),
    ("man", "output", "Write the manual pages of all commands to this directory instead of printing one page"),
];

/// Command-line parser for help, manual pages and completions. Each subcommand hides the common options that it
/// refuses, and may describe the others in its own words.
pub(crate) fn command() -> Command {
    let mut root = Cli::command();
    for (name, refused) in REFUSED {
        let hidden: Vec<_> =
            root.get_arguments().filter(|arg| refused.contains(&arg.get_id().as_str())).cloned().collect();
        // clap lists a command's own argument before the common one of the same id, and the common one still receives
        // the value.
        root = root.mut_subcommand(name, |command| command.args(hidden.into_iter().map(|arg| arg.hide(true))));
    }
    for (name, id, help) in OWN_HELP {
        let own = root.get_arguments().find(|arg| arg.get_id().as_str() == *id).cloned();
        root = root.mut_subcommand(name, |command| command.args(own.map(|arg| arg.help(*help))));
    }
    root
}

/// Parse the command line. The error is a message for the terminal, or the requested help.
pub(crate) fn parse() -> Result<Cli, Error> {
    parse_words(std::env::args_os())
}

/// Parse the words of a command line, the first of which is the program.
pub(super) fn parse_words(words: impl IntoIterator<Item = OsString>) -> Result<Cli, Error> {
    let mut command = command();
    let parse_cli = |matches: &ArgMatches| Cli::from_arg_matches(matches);
    let matches = command.try_get_matches_from_mut(words)?;
    let cli = parse_cli(&matches).map_err(|error| error.format(&mut command))?;
    match without_effect(cli.command.name(), &cli.common) {
        Some(message) => Err(command.error(ErrorKind::UnknownArgument, message)),
        None => Ok(cli),
    }
}

/// Error message for given options that a command refuses; `None` if there are none, or if the command has its own
/// message.
fn without_effect(command: &str, common: &Common) -> Option<String> {
    let has_own = |option: &str| OWN_MESSAGE.iter().any(|(name, own)| *name == command && own.contains(&option));
    let given: Vec<&str> = refused(command, common).into_iter().filter(|option| !has_own(option)).collect();
    (!given.is_empty()).then(|| match &given[..] {
        [option] => format!("{option} has no effect on `stackline {command}`; leave it out"),
        _ => format!("{} have no effect on `stackline {command}`; leave them out", given.join(" and ")),
    })
}

/// A common option on the command line that selects data, such as `--steps` or `--rank`, with its value.
pub(super) struct GivenOption {
    /// Argument id in clap.
    pub(super) id: &'static str,
    /// Option as typed.
    pub(super) typed: &'static str,
    pub(super) value: Option<String>,
}

/// Collect the options on the command line that select data, such as `--steps` or `--rank`, with their values.
pub(super) fn given_options(common: &Common) -> Vec<GivenOption> {
    let flag = |id, typed, is_given: bool| is_given.then_some(GivenOption { id, typed, value: None });
    let with_value =
        |id, typed, value: Option<String>| value.map(|value| GivenOption { id, typed, value: Some(value) });
    let options = [
        with_value("steps", "--steps", common.steps.map(|steps| steps.to_string())),
        flag("whole", "--whole", common.whole),
        with_value("rank", "--rank", common.rank.map(|rank| rank.to_string())),
        flag("clip_overlaps", "--clip-overlaps", common.clip_overlaps),
        with_value("step_annotation", "--step-annotation", common.step_annotation.as_ref().map(ToString::to_string)),
    ];
    options.into_iter().flatten().collect()
}

/// Check if a command refuses a common option, given by its id in clap.
pub(super) fn refuses_option(command: &str, id: &str) -> bool {
    REFUSED.iter().any(|(name, refused)| *name == command && refused.contains(&id))
}

/// Names of the common options on the command line that a command refuses, such as `--steps`.
pub(crate) fn refused(command: &str, common: &Common) -> Vec<&'static str> {
    given_options(common)
        .into_iter()
        .filter(|option| refuses_option(command, option.id))
        .map(|option| option.typed)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::without_effect;
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn options_without_effect_are_errors() {
        let message = |words: &[&str]| {
            let cli = Cli::try_parse_from(["stackline"].iter().chain(words)).unwrap();
            without_effect(cli.command.name(), &cli.common)
        };
        for command in ["check", "doctor"] {
            let of = |option: &str| Some(format!("{option} has no effect on `stackline {command}`; leave it out"));
            assert_eq!(message(&[command, "t.json", "--steps", "5"]), of("--steps"));
            assert_eq!(message(&[command, "t.json", "--whole"]), of("--whole"));
            assert_eq!(message(&[command, "t.json", "--rank", "1"]), None);
        }
        let both = message(&["calls", "run", "--whole", "--clip-overlaps"]);
        assert_eq!(
            both.as_deref(),
            Some("--whole and --clip-overlaps have no effect on `stackline calls`; leave them out")
        );
        assert_eq!(message(&["calls", "run", "--steps", "5"]), None, "the command explains it");
        assert_eq!(message(&["findings", "t.json", "--steps", "5"]), None);
    }
}
