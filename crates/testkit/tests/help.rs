//! Tests of the `--help` output of this crate's programs.

use std::process::{Command, Output};

fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap()
}

#[test]
fn help_is_printed_for_all_help_options() {
    let synth = (env!("CARGO_BIN_EXE_stackline-synth"), "demo", "--world");
    let sim = (env!("CARGO_BIN_EXE_stackline-sim"), "trace", "--ground-truth");
    for (program, command, option) in [synth, sim] {
        for args in [&["--help"][..], &["-h"], &[command, "--help"], &[command, "--seed", "--help"]] {
            let output = run(program, args);
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{args:?}");
            for part in ["Usage", option, "--seed", "--help", "Example:"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        let output = run(program, &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8(output.stderr).unwrap().contains("Usage"));
    }
}
