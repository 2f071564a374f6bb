//! Chores of this repository: `cargo run -p xtask -- NAME`.
//!
//! * `tidy`: the rules that compilers do not check (sizes, directions between crates and between modules, links, names in ARCHITECTURE.md, wording, pages and tests of registered analyses and sources)
//! * `licenses`: every dependency's license is on the list in `deny.toml`
//! * `lines`: lines of code and of tests of each crate
//! * `new rule|analysis|source|query NAME`: writes a skeleton, registers it and names the steps that remain
//! * `readme [FILE]`: runs the `sh` blocks of the README
//! * `slowest [PROFILE]`: the slowest tests of the last run of `cargo nextest`
//! * `picture [--check]`: draws the README's picture from real output, or checks that it is up to date
//! * `words [AREA]`: findings of wording per area of text, or those of one area; `tidy` fails on any
//!
//! `./dev test` calls all of them but `lines`, `new` and `words`.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool that reports to people")]

mod architecture;
mod directions;
mod files;
mod layers;
mod licenses;
mod lines;
mod links;
mod new;
mod picture;
mod readme;
mod registered;
mod slowest;
mod tidy;
mod vocabulary;
mod words;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- tidy | licenses | lines | new rule|analysis|source|query NAME | readme [FILE] | slowest [PROFILE] | picture [--check] | words [AREA]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::run(),
        ["licenses"] => licenses::run(),
        ["lines"] => lines::run(),
        ["new", kind, name] => new::run(kind, name),
        ["readme"] => readme::run("README.md"),
        ["readme", file] => readme::run(file),
        ["slowest"] => slowest::run("default"),
        ["slowest", profile] => slowest::run(profile),
        ["picture"] => picture::run(false),
        ["picture", "--check"] => picture::run(true),
        ["words"] => words::run(None),
        ["words", area] => words::run(Some(area)),
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
