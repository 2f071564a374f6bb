//! Writes seed inputs for the fuzz target `symbols`: `cargo run -p stackline-symbols --example fuzz_seeds -- FOLDER`.
#![allow(clippy::print_stderr, reason = "a program for people")]

#[path = "../tests/support/made.rs"]
mod made;

use made::{
    ADDRESS, Bytes, CODE, CODE_SIZE, DATA8, FUNCTION, HIGH, LINES, LOW, Made, NAME, OFFSET, RANGES, TEXT, UNIT,
    abbreviation, inlined, unit,
};
use std::path::Path;
use std::process::ExitCode;

/// A unit with a function, a list of ranges, and a table of lines with three rows.
fn with_lines() -> Vec<u8> {
    let mut abbreviations = Bytes::default();
    abbreviation(&mut abbreviations, 1, UNIT, true, &[(LOW, ADDRESS), (HIGH, DATA8), (LINES, OFFSET)]);
    abbreviation(&mut abbreviations, 2, FUNCTION, false, &[(NAME, TEXT), (RANGES, OFFSET)]);
    let mut entries = Bytes::default();
    entries.uleb(1).u64(CODE).u64(CODE_SIZE).u32(0).uleb(2).text("_Z1fv").u32(0).u8(0);
    let mut ranges = Bytes::default();
    ranges.u64(0).u64(0x10).u64(0x20).u64(CODE_SIZE).u64(0).u64(0);
    let mut header = Bytes::default();
    header.u8(1).u8(1).u8(1).u8(0xfb).u8(14).u8(13).raw(&[0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]);
    header.text("folder").u8(0).text("file.c").uleb(1).uleb(0).uleb(0).u8(0);
    // The address, three lines each some bytes on, and the end.
    let mut program = Bytes::default();
    program.raw(&[0, 9, 2]).u64(CODE).u8(1).raw(&[2, 16, 3, 7, 1, 0x4b]).u8(2).uleb(0x1000).raw(&[0, 1, 1]);
    let mut lines = Bytes::default();
    lines.u32((header.0.len() + program.0.len()) as u32 + 6).u16(4).u32(header.0.len() as u32);
    lines.raw(&header.0).raw(&program.0);
    Made::new()
        .section(".debug_abbrev", [abbreviations.0, vec![0]].concat())
        .section(".debug_info", unit(0, &entries.0))
        .section(".debug_ranges", ranges.0)
        .section(".debug_line", lines.0)
        .symbols(b"\0_Z1fv\0g\0".to_vec(), &[(1, true, CODE, 0), (7, true, CODE + 64, 16), (7, false, CODE, 0)])
        .notes(2, 2)
        .finish()
}

fn write(folder: &Path) -> std::io::Result<()> {
    let folder = folder.join("symbols");
    std::fs::create_dir_all(&folder)?;
    let seeds = [with_lines(), inlined(0).finish(), inlined(3).finish(), inlined(40).finish(), Made::new().finish()];
    for (number, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number:04}")), seed)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: fuzz_seeds FOLDER");
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
