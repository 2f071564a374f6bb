//! `stackline-sim`: command-line interface of the simulator, for tests and benchmarks.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use stackline_testkit::io;
use stackline_testkit::simulator::{Profile, simulate};

const USAGE: &str = "\
stackline-sim: simulated training programs with a known critical path

Usage: stackline-sim trace -o FILE [--seed N] [--events N] [--ground-truth FILE]

Write the trace of a simulated program in the format of PyTorch's profiler. The same arguments give the same trace.

Options:
  -o FILE         Write the trace to FILE, gzipped if the name ends in .gz.
  --seed N        Seed of the random program [default: 1].
  --events N      Simulate a training run of about N events, for benchmarks [default: a small program with random features].
  --ground-truth FILE
                  Also write the known critical path (ground truth) as JSON.
  -h, --help      Print help.

Example:
  stackline-sim trace --seed 7 -o program.json --ground-truth path.json";

fn value(words: &mut std::slice::Iter<'_, String>, name: &str) -> Result<String, String> {
    words.next().cloned().ok_or_else(|| format!("{name} needs a value"))
}

fn number<T: std::str::FromStr>(words: &mut std::slice::Iter<'_, String>, name: &str) -> Result<T, String> {
    let text = value(words, name)?;
    text.parse().map_err(|_| format!("{name} needs a number, not {text:?}"))
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| matches!(word.as_str(), "--help" | "-h")) {
        return writeln!(std::io::stdout(), "{USAGE}").map_err(|error| error.to_string());
    }
    let Some((command, rest)) = words.split_first() else { return Err(USAGE.to_owned()) };
    if command != "trace" {
        return Err(format!("unknown command {command}\n\n{USAGE}"));
    }
    let (mut seed, mut out, mut truth, mut events) = (1, None, None, None);
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--seed" => seed = number(&mut rest, word)?,
            "-o" => out = Some(value(&mut rest, word)?),
            "--ground-truth" => truth = Some(value(&mut rest, word)?),
            "--events" => events = Some(number(&mut rest, word)?),
            other => return Err(format!("unknown option {other}\n\n{USAGE}")),
        }
    }
    let out = out.ok_or("trace needs -o FILE")?;
    let simulated = simulate(seed, &events.map_or_else(|| Profile::any(seed), |events| large_profile(seed, events)));
    write(&out, &simulated.json())?;
    match truth {
        Some(path) => write(&path, &simulated.truth_json().map_err(|error| error.to_string())?),
        None => Ok(()),
    }
}

/// Profile of a training run whose trace has about `events` slices.
fn large_profile(seed: u64, events: usize) -> Profile {
    const LAYERS: u32 = 48;
    let probe = simulate(seed, &Profile::large(8, LAYERS));
    let per_step = probe.json().matches("\"ph\": \"X\"").count() / 8;
    Profile::large(u32::try_from(events / per_step.max(1)).unwrap_or(u32::MAX).max(1), LAYERS)
}

fn write(path: &str, text: &str) -> Result<(), String> {
    io::write(Path::new(path), |file| Ok(file.write_all(text.as_bytes())?)).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "{message}");
            ExitCode::from(2)
        }
    }
}
