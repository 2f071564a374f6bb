//! Impossible recorded times: estimates, cuts and exclusions of the reader.

use crate::common;

mod clocks;
mod device_shift;
mod duplicates;
mod garbled;
mod host;
mod nameless;
mod unclosed;
mod unset;

use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::Trace;
use stackline_testkit::mini;

fn read(json: &str) -> Trace {
    read_bytes("t.json", json.as_bytes(), &ReadOptions::default()).unwrap()
}

/// A line of a mini trace: category, name, (pid, tid), (start, duration) in µs, arguments as members of a JSON object.
fn x(cat: &str, name: &str, place: (i64, i64), time: (i64, i64), args: &str) -> String {
    let ((pid, tid), (ts, dur)) = (place, time);
    format!("{pid}/{tid} {cat} {name} {ts}+{dur} {{{args}}}")
}

fn list(lines: &[String]) -> String {
    mini::trace(&format!("file -\n{}", lines.join("\n")))
}
