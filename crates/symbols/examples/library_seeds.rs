//! Writes seed inputs for the fuzz target `symbols`: `cargo run -p stackline-symbols --example library_seeds -- FOLDER`.
#![allow(clippy::print_stderr, reason = "a program for people")]

#[path = "../tests/support/made.rs"]
mod made;

use std::path::Path;
use std::process::ExitCode;

fn write(folder: &Path) -> std::io::Result<()> {
    let folder = folder.join("symbols");
    std::fs::create_dir_all(&folder)?;
    for (number, seed) in made::seeds().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number:04}")), seed)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: library_seeds FOLDER");
        return ExitCode::from(2);
    };
    match write(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", Path::new(&folder).display());
            ExitCode::FAILURE
        }
    }
}
