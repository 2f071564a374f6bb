//! `stackline-synth`: command-line interface of this crate's generators, for tests, `./dev run` and benchmarks.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stackline_testkit::{Result, damage, demo, io, recording, replicate};

const USAGE: &str = "\
stackline-synth: trace generators

Usage:
  stackline-synth demo OUT [OPTIONS]              Write the trace of one rank of a data-parallel transformer.
  stackline-synth recording RUN [OPTIONS]         Write a recording: streams of several ranks.
  stackline-synth tree RUN --nodes N              Write a recording whose call tree has exactly N nodes.
  stackline-synth replicate IN OUT --events N     Repeat a trace up to exactly N events.
  stackline-synth damage IN OUT --kind KIND       Damage a trace in a way that occurs in real files.
  stackline-synth damage all                      List kinds of damage and the expected behavior of a reader.

OUT is written gzipped if its name ends in .gz; IN may be gzipped. The same arguments give the same bytes.

Options of demo:
  --steps N         Number of profiler steps.
  --layers N        Number of layers of the model.
  --rank R          Rank of this trace.
  --world N         Number of ranks of the job.
  --seed S          Seed of the random times.
  --no-host-sync    Omit loss.item() between forward and backward.

Options of recording:
  --steps N         Number of training steps.
  --ranks N         Number of processes.
  --slower N        Slowdown of the feed-forward layer, as a factor.
  --seed S          Seed of the random times.

Options of tree:
  --nodes N         Number of nodes of the call tree.
  --seed S          Seed of the random calls.

Options of damage:
  --kind KIND       Kind of damage.
  --seed S          Seed of the damaged positions [default: 1].

  -h, --help        Print help.

Example:
  stackline-synth demo demo.json.gz --steps 5";

/// Positional arguments and `--name value` pairs of the command line.
struct Arguments {
    plain: Vec<String>,
    options: Vec<(String, String)>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut plain, mut options) = (Vec::new(), Vec::new());
        while let Some(word) = words.next() {
            match word.strip_prefix("--") {
                Some("no-host-sync") => options.push(("no-host-sync".to_owned(), String::new())),
                Some(name) => {
                    let value = words.next().ok_or_else(|| format!("--{name} needs a value"))?;
                    options.push((name.to_owned(), value));
                }
                None => plain.push(word),
            }
        }
        Ok(Self { plain, options })
    }

    /// Remove an option from the arguments; returns its value.
    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.options.iter().position(|(known, _)| known == name)?;
        Some(self.options.remove(at).1)
    }

    /// Remove an option from the arguments; returns its value as a number, or the default.
    fn number<T: std::str::FromStr>(&mut self, name: &str, default: T) -> Result<T, String> {
        match self.take(name) {
            Some(text) => text.parse().map_err(|_| format!("--{name} needs a number, not {text:?}")),
            None => Ok(default),
        }
    }

    /// Fail if an option is left, since it is unknown.
    fn finish(self) -> Result<(), String> {
        match self.options.first() {
            Some((name, _)) => Err(format!("unknown option --{name}")),
            None => Ok(()),
        }
    }
}

fn run() -> Result<(), String> {
    if std::env::args().skip(1).any(|word| matches!(word.as_str(), "--help" | "-h")) {
        return writeln!(std::io::stdout(), "{USAGE}").map_err(|error| error.to_string());
    }
    let mut arguments = Arguments::parse(std::env::args().skip(1))?;
    let plain: Vec<PathBuf> = arguments.plain.iter().map(PathBuf::from).collect();
    let as_text = |result: Result<()>| result.map_err(|error| error.to_string());
    match (arguments.plain.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), plain.as_slice()) {
        (["demo", _], [_, out]) => {
            let standard = demo::Config::default();
            let config = demo::Config {
                seed: arguments.number("seed", standard.seed)?,
                steps: arguments.number("steps", standard.steps)?,
                first_step: standard.first_step,
                layers: arguments.number("layers", standard.layers)?,
                rank: arguments.number("rank", standard.rank)?,
                world: arguments.number("world", standard.world)?,
                host_sync: arguments.take("no-host-sync").is_none(),
            };
            arguments.finish()?;
            let text = demo::generate(&config);
            as_text(io::write(out, |file| Ok(file.write_all(text.as_bytes())?)))
        }
        (["recording", _], [_, run]) => {
            let standard = recording::Config::default();
            let config = recording::Config {
                seed: arguments.number("seed", standard.seed)?,
                steps: arguments.number("steps", standard.steps)?,
                ranks: arguments.number("ranks", standard.ranks)?,
                slower: arguments.number("slower", standard.slower)?,
                ..standard
            };
            arguments.finish()?;
            write_streams(run, recording::streams(&config)).map_err(|error| format!("{}: {error}", run.display()))
        }
        (["tree", _], [_, run]) => write_tree(run, arguments),
        (["replicate", _, _], [_, from, out]) => {
            let events = arguments.take("events").ok_or("replicate needs --events N")?;
            let events = events.parse().map_err(|_| format!("--events needs a number, not {events:?}"))?;
            arguments.finish()?;
            as_text(io::read(from).and_then(|text| io::write(out, |file| replicate::replicate(&text, events, file))))
        }
        (["damage", "all"], _) => list_kinds().map_err(|error| error.to_string()),
        (["damage", _, _], [_, from, out]) => {
            let name = arguments.take("kind").ok_or("damage needs --kind KIND (`damage all` lists them)")?;
            let kind = damage::kind(&name).ok_or_else(|| format!("no damage {name:?}; `damage all` lists them"))?;
            let seed = arguments.number("seed", 1)?;
            arguments.finish()?;
            as_text(break_file(from, out, kind, seed))
        }
        _ => Err(USAGE.to_owned()),
    }
}

fn write_tree(run: &Path, mut arguments: Arguments) -> Result<(), String> {
    let nodes = arguments.take("nodes").ok_or("tree needs --nodes N")?;
    let nodes = nodes.parse().map_err(|_| format!("--nodes needs a number, not {nodes:?}"))?;
    let seed = arguments.number("seed", 1)?;
    arguments.finish()?;
    let streams = vec![("4000-0.slr".to_owned(), recording::tree(nodes, seed))];
    write_streams(run, streams).map_err(|error| format!("{}: {error}", run.display()))
}

fn write_streams(run: &Path, streams: Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let folder = run.join("streams");
    std::fs::create_dir_all(&folder)?;
    for (name, bytes) in streams {
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

/// Read a trace, damage it, and write it to `out`.
fn break_file(from: &Path, out: &Path, kind: &damage::Kind, seed: u64) -> Result<()> {
    let broken = damage::apply(kind, &io::read(from)?, seed);
    // Kinds that damage the gzip stream have compressed it already.
    let packed = broken.starts_with(&[0x1f, 0x8b]);
    if packed {
        return Ok(std::fs::write(out, broken)?);
    }
    io::write(out, |file| Ok(file.write_all(&broken)?))
}

fn list_kinds() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for kind in damage::kinds() {
        writeln!(out, "{:<26} {}", kind.name, kind.expects)?;
    }
    Ok(())
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
