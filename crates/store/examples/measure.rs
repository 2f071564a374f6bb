//! Write the given traces as a run directory and read them: CPU times of one thread, and wall time on all cores.
//!
//! `cargo run --release -p stackline-store --example measure -- TRACE... RUN`
#![allow(clippy::print_stdout, reason = "prints measurements")]

use stackline_store::{Attributes, ReadSelection, WriteOptions, read_run, write_run};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let run = paths.pop().ok_or("no run directory given")?;
    if !paths.is_empty() {
        let start = cpu_ms();
        let options = stackline_ingest::ReadOptions { threads: 1, ..Default::default() };
        let set = stackline_ingest::read_paths(&paths, &options)?;
        let events: usize = set.traces.iter().map(|t| t.events.len()).sum();
        println!("read {events} events of JSON: {:.1} ms", cpu_ms() - start);
        let start = cpu_ms();
        let options = WriteOptions { overwrite: true, sync: false, ..Default::default() };
        write_run(&set, &[], &run, &options)?;
        println!("write: {:.1} ms", cpu_ms() - start);
    }
    for (what, selection) in [
        ("all", ReadSelection::all()),
        ("events and 3 arguments", with_keys(["correlation", "bytes", "Collective name"])),
        ("events", ReadSelection { skip_side_tables: true, ..with_keys([]) }),
    ] {
        let (mut best, mut shortest) = (f64::MAX, f64::MAX);
        let alone = ReadSelection { threads: 1, ..selection.clone() };
        for _ in 0..5 {
            let start = cpu_ms();
            drop(read_run(&run, &alone)?);
            best = best.min(cpu_ms() - start);
            let start = std::time::Instant::now();
            let set = read_run(&run, &selection)?;
            shortest = shortest.min(start.elapsed().as_secs_f64() * 1e3);
            drop(set);
        }
        println!("read {what}: {best:.1} ms of CPU, {shortest:.1} ms on all cores");
    }
    Ok(())
}

/// All events and links, and only arguments with these keys.
fn with_keys<const N: usize>(keys: [&str; N]) -> ReadSelection {
    ReadSelection { attributes: Attributes::Keys(keys.map(str::to_owned).into()), ..ReadSelection::all() }
}

/// CPU time of this thread so far, which other programs do not disturb (Linux only).
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0) / 1e6
}
