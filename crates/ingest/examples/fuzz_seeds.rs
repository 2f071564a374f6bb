//! Write seed inputs for the fuzz targets: `cargo run -p stackline-ingest --example fuzz_seeds -- FOLDER`.
#![allow(clippy::print_stderr, reason = "a program for people")]

#[path = "../tests/fuzz/seeds.rs"]
mod seeds;

use seeds::seeds;
use std::path::Path;
use std::process::ExitCode;

fn write(folder: &Path) -> std::io::Result<usize> {
    let seeds = seeds().ok_or_else(|| std::io::Error::other("the generated step cannot be taken apart"))?;
    for (i, (target, bytes)) in seeds.iter().enumerate() {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("seed-{i:04}")), bytes)?;
    }
    Ok(seeds.len())
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: fuzz_seeds FOLDER");
        return ExitCode::from(2);
    };
    match write(Path::new(&folder)) {
        Ok(count) => {
            eprintln!("{count} seeds");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", Path::new(&folder).display());
            ExitCode::FAILURE
        }
    }
}
