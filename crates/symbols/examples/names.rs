//! Prints functions of a library. `names LIBRARY COUNT` resolves COUNT addresses, evenly distributed over its code,
//! and prints the duration. `names LIBRARY 0x1234…` prints the functions at these addresses.

#![allow(clippy::print_stdout, reason = "prints")]

use stackline_symbols::{Library, Symbolizer, content_hash};
use std::path::PathBuf;
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next().map(PathBuf::from) else { return };
    let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
    let library = Library { content: content_hash(&path), path, build_id: Vec::new() };
    for argument in arguments {
        let hexadecimal = argument.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16).unwrap_or(0));
        let count: u64 = argument.parse().unwrap_or(0);
        let offsets: Vec<u64> = match hexadecimal {
            Some(offset) => vec![offset],
            None => (0..count).map(|at| at * (size / count.max(1))).collect(),
        };
        let since = Instant::now();
        let names = Symbolizer::new().names(&library, &offsets);
        let took = since.elapsed();
        if hexadecimal.is_some() {
            for frame in names.frames.iter().flatten() {
                println!("{} {}:{}", frame.function, frame.file, frame.line);
            }
            continue;
        }
        let named = names.frames.iter().filter(|frames| !frames.is_empty()).count();
        println!("{:?}: {named} of {} addresses named in {took:?}", names.state, offsets.len());
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        for line in status.lines().filter(|line| line.starts_with("VmHWM") || line.starts_with("RssAnon")) {
            println!("{line}");
        }
    }
}
