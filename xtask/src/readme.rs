//! Run of the commands that the README and other pages show, so that none of them goes stale.
//!
//! Every block fenced as `sh` runs, in order, in one shell (`bash -eu`) at the repository's root. A comment that begins
//! with `<!-- sh` runs as well: it makes the input files of a page, and readers do not see it. Lines that call `./dev
//! test` are left out: this runs inside it. Where `./dev test` built the programs in another profile, that profile's
//! folder takes the place of `target/release`.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::files;

/// Run the shell blocks of `file`; fail at the first command that fails.
pub(crate) fn run(file: &str) -> Result<()> {
    let text = std::fs::read_to_string(files::root().join(file)).with_context(|| file.to_owned())?;
    let blocks = blocks(&text);
    ensure!(!blocks.is_empty(), "{file} shows no commands");
    let mut script = String::from("set -euo pipefail\n");
    for (line, block) in &blocks {
        script.push_str(&format!("echo '--- {file}:{line}' >&2\n"));
        let kept = block.lines().filter(|command| !command.trim_start().starts_with("./dev test"));
        kept.for_each(|command| {
            script.push_str(command);
            script.push('\n');
        });
    }
    let programs = files::programs().display().to_string();
    let script = script.replace("$PWD/target/release", &programs);
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{programs}:{}:{path}", files::root().join(".venv/bin").display());
    let status = Command::new("bash")
        .args(["-c", &script])
        .current_dir(files::root())
        .env("PATH", path)
        .status()
        .context("cannot run bash")?;
    ensure!(status.success(), "a command of {file} failed (the block's line is printed above)");
    println!("readme: {} blocks ran", blocks.len());
    Ok(())
}

/// Find the blocks of a page that run, also those of list items, which are indented: line number and text of each.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut end = None;
    for (number, line) in text.lines().enumerate() {
        match end {
            None => {
                end = match line.trim() {
                    "```sh" => Some("```"),
                    "<!-- sh" => Some("-->"),
                    _ => None,
                };
                if end.is_some() {
                    found.push((number + 1, String::new()));
                }
            }
            Some(mark) if line.trim() == mark => end = None,
            Some(_) => {
                if let Some((_, block)) = found.last_mut() {
                    block.push_str(line.trim_end());
                    block.push('\n');
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_sh_blocks() {
        let text = "a\n```sh\nls\npwd\n```\n```text\nno\n```\n```sh\ntrue\n```\n";
        assert_eq!(super::blocks(text), [(2, "ls\npwd\n".to_owned()), (9, "true\n".to_owned())]);
    }

    #[test]
    fn comments_and_indented_blocks() {
        let text = "<!-- sh\ncat <<'END'\n  a\nEND\n-->\n<!-- no -->\n1. a\n\n   ```sh\n   ls\n   ```\n```\nno\n```\n";
        assert_eq!(super::blocks(text), [(1, "cat <<'END'\n  a\nEND\n".to_owned()), (9, "   ls\n".to_owned())]);
    }
}
