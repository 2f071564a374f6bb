//! `docs/cli` holds the help of every command, as the binary prints it. `STACKLINE_BLESS=1` writes it anew.

use crate::common;

use common::stdout;
use std::path::PathBuf;

const COMMANDS: [&str; 20] = [
    "findings",
    "view",
    "diff",
    "report",
    "critical-path",
    "what-if",
    "record",
    "calls",
    "memory",
    "import",
    "steps",
    "kernels",
    "operators",
    "collectives",
    "timeline",
    "export",
    "doctor",
    "check",
    "completions",
    "man",
];

fn check(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli").join(format!("{name}.md"));
    if std::env::var_os("STACKLINE_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "docs/cli/{name}.md is stale: run the test docs of stackline-cli with STACKLINE_BLESS=1");
}

#[test]
fn help_pages_are_up_to_date() {
    let page = |title: &str, help: &str| format!("# {title}\n\n```text\n{}\n```\n", help.trim_end());
    check("stackline", &page("stackline", &stdout(&["--help"])));
    for command in COMMANDS {
        let help = stdout(&[command, "--help"]);
        check(command, &page(&format!("stackline {command}"), &help));
    }
    let listed = stdout(&["--help"]);
    for command in COMMANDS {
        assert!(listed.contains(&format!("\n  {command} ")), "{command} is not in --help");
    }
}

#[test]
fn completions_and_manual_pages_are_generated() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(stdout(&["completions", shell]).contains("critical-path"), "{shell}");
    }
    assert!(stdout(&["man"]).contains(".TH"));
    let folder = tempfile::tempdir().unwrap();
    stdout(&["man", "-o", folder.path().to_str().unwrap()]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), COMMANDS.len() + 1);
}
