//! Commands `completions` and `man`: shell completions and manual pages, generated from the help texts.

use crate::args::{self, Common};
use crate::output::{to_file, to_output};
use anyhow::{Context, Result};
use std::io::Write;

/// Print the completion script of a shell.
pub(crate) fn completions(shell: clap_complete::Shell, common: &Common) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "stackline", &mut script);
    to_output(common, |out| out.write_all(&script))
}

/// Print the manual page of the tool, or write those of all commands into a directory.
pub(crate) fn man(common: &Common) -> Result<()> {
    let mut command = args::command();
    command.build();
    let Some(directory) = &common.output else {
        return to_output(common, |out| clap_mangen::Man::new(command).render(out));
    };
    std::fs::create_dir_all(directory).with_context(|| format!("{}: cannot create", directory.display()))?;
    let pages = command.get_subcommands().filter(|c| c.get_name() != "help").cloned();
    for page in pages.chain([command.clone()]) {
        let name = match page.get_name() {
            "stackline" => "stackline".to_owned(),
            other => format!("stackline-{other}"),
        };
        let path = directory.join(format!("{name}.1"));
        let man = clap_mangen::Man::new(page).title(name);
        to_file(&path, |out: &mut dyn Write| man.render(out))?;
    }
    Ok(())
}
