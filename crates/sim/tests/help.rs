//! The command says what it can do.

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stackline-sim")).args(args).output().unwrap()
}

#[test]
fn help_is_given_wherever_it_is_asked_for() {
    for args in [&["--help"][..], &["-h"], &["trace", "--help"], &["trace", "--seed", "--help"]] {
        let output = run(args);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}");
        for part in ["Usage", "--truth", "--seed", "--help", "Example:"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("Usage"));
}
