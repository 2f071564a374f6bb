//! Options forwarded from a command to the suggested next command.

use super::{Common, SourceArgs, command, refused_options::given_options, refused_options::refuses_option};
use crate::failure::quoted;

/// Options for the suggested command `next`, quoted for a shell: given options that select data (steps, rank, times,
/// source text) and that `next` accepts. Output options are not forwarded.
pub(crate) fn options_for(next: &str, common: &Common, source: Option<&SourceArgs>) -> Vec<String> {
    let of_common = given_options(common).into_iter().filter(|option| !refuses_option(next, option.id));
    let mut options: Vec<String> = of_common.map(|option| typed(option.typed, option.value.as_deref())).collect();
    if let Some(source) = source.filter(|_| has_source_options(next)) {
        options.extend(source.source_root.iter().map(|root| typed("--source-root", Some(&root.to_string_lossy()))));
        options.extend(source.no_source.then(|| "--no-source".to_owned()));
    }
    options
}

fn has_source_options(name: &str) -> bool {
    let root = command();
    let has = |id| root.find_subcommand(name).is_some_and(|one| one.get_arguments().any(|arg| arg.get_id() == id));
    has("source_root") && has("no_source")
}

/// Format an option with its value for a shell.
fn typed(option: &str, value: Option<&str>) -> String {
    match value {
        None => option.to_owned(),
        // A value with a leading hyphen would parse as another option.
        Some(value) if value.starts_with('-') => format!("{option}={}", quoted(value)),
        Some(value) => format!("{option} {}", quoted(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::options_for;
    use crate::args::{Cli, Command};
    use clap::Parser;

    /// Options that `report` forwards to the command `next`.
    fn next(next: &str, options: &[&str]) -> String {
        let words = ["stackline", "report", "t.json"].iter().chain(options);
        let cli = Cli::try_parse_from(words).unwrap();
        let Command::Report(args) = &cli.command else { panic!() };
        options_for(next, &cli.common, Some(&args.source)).join(" ")
    }

    #[test]
    fn options_go_on_to_commands_that_accept_them() {
        let steps = ["--steps", "-1..8", "--rank", "3", "--clip-overlaps", "--step-annotation", r"^it's (\d+)$"];
        let all = r"--steps=-1..8 --rank 3 --clip-overlaps --step-annotation '^it'\''s (\d+)$'";
        assert_eq!(next("findings", &steps), all);
        assert_eq!(next("view", &steps), r"--clip-overlaps --step-annotation '^it'\''s (\d+)$'");
        assert_eq!(next("calls", &steps), "--rank 3");
        assert_eq!(next("findings", &["--whole"]), "--whole");
        assert_eq!(next("findings", &["--steps", "5"]), "--steps 5");
        let roots = ["--source-root", "src", "--source-root", "my lib"];
        for command in ["findings", "view"] {
            assert_eq!(next(command, &roots), "--source-root src --source-root 'my lib'");
            assert_eq!(next(command, &["--no-source"]), "--no-source");
        }
        assert_eq!(next("operators", &roots), "");
        assert_eq!(next("findings", &["--limit", "3", "--threads", "2"]), "", "not what is looked at");
    }
}
