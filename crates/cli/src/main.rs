//! `stackline`: command line of a performance tool for deep learning.
//!
//! This crate parses arguments, calls the engine and passes its tables to presenters. It computes nothing itself.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod failure;
mod output;
mod progress;
mod session;
mod view;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { failure::WRONG_USE } else { failure::DONE };
            // Nothing can be done about a closed output.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match commands::run(&cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => ExitCode::from(failure::report(&error)),
    }
}
