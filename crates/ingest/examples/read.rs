//! Reads traces and prints what came of them: `cargo run --release -p stackline-ingest --example read -- FILES…`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;

fn main() {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    for path in paths {
        let start = std::time::Instant::now();
        match stackline_ingest::read_paths(std::slice::from_ref(&path), &Default::default()) {
            Err(error) => eprintln!("{error}"),
            Ok(set) => {
                for t in &set.traces {
                    let seconds = start.elapsed().as_secs_f64();
                    println!(
                        "{}: {} events, {} gpu, {} strings, {} flows, {} backward, {} steps, {} tracks, {:.3} s, {:.0} MB/s",
                        t.meta.name,
                        t.events.len(),
                        t.gpu.len(),
                        t.strings.len(),
                        t.flows.len(),
                        t.backward.len(),
                        t.steps.len(),
                        t.tracks.len(),
                        seconds,
                        t.report.bytes as f64 / 1e6 / seconds
                    );
                    for p in &t.report.problems {
                        println!("    {} {} {} {:?} {}", p.severity.name(), p.code, p.count, p.offsets, p.example);
                    }
                }
            }
        }
    }
}
