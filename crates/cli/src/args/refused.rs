//! Common options that a command refuses: they do not stand in its help.

use super::{Cli, Common};
use clap::{ArgMatches, Command, CommandFactory, Error, FromArgMatches};

/// Commands, and the common options that mean nothing to them.
const REFUSED: &[(&str, &[&str])] = &[
    ("calls", &["steps", "whole", "clip_overlaps", "step_annotation"]),
    ("memory", &["steps", "whole", "step_annotation"]),
    ("record", &["whole", "rank", "clip_overlaps", "format", "tables", "limit", "step_annotation"]),
    ("view", &["steps", "whole", "rank"]),
];

/// The command line as help, manual pages and completions show it.
pub(crate) fn command() -> Command {
    let mut root = Cli::command();
    for (name, refused) in REFUSED {
        let hidden: Vec<_> =
            root.get_arguments().filter(|arg| refused.contains(&arg.get_id().as_str())).cloned().collect();
        // An argument that a command has itself stands before the common one, and its value reaches it all the same.
        root = root.mut_subcommand(name, |command| command.args(hidden.into_iter().map(|arg| arg.hide(true))));
    }
    root
}

/// What was typed; an error is a message for the terminal, or the help that was asked for.
pub(crate) fn parse() -> Result<Cli, Error> {
    let mut command = command();
    let of = |matches: &ArgMatches| Cli::from_arg_matches(matches);
    of(&command.try_get_matches_from_mut(std::env::args_os())?).map_err(|error| error.format(&mut command))
}

/// The common options that were given and mean nothing to a command, as they are typed.
pub(crate) fn refused(command: &str, common: &Common) -> Vec<&'static str> {
    let given = [
        ("steps", "--steps", common.steps.is_some()),
        ("whole", "--whole", common.whole),
        ("rank", "--rank", common.rank.is_some()),
        ("clip_overlaps", "--clip-overlaps", common.clip_overlaps),
        ("step_annotation", "--step-annotation", common.step_annotation.is_some()),
    ];
    let refused = REFUSED.iter().find(|(name, _)| *name == command).map_or(&[][..], |(_, refused)| refused);
    given.into_iter().filter(|(name, _, given)| *given && refused.contains(name)).map(|(_, typed, _)| typed).collect()
}
