//! Times that cannot be true as recorded: what the reader estimates, cuts or leaves out of the window.

use crate::common;

mod clocks;
mod device_shift;
mod garbled;
mod host;
mod unclosed;
mod unset;

use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::Trace;

fn read(json: &str) -> Trace {
    read_bytes("t.json", json.as_bytes(), &ReadOptions::default()).unwrap()
}

/// A complete event: category, name, (pid, tid), (start, duration) in µs, further arguments.
fn x(cat: &str, name: &str, place: (i64, i64), time: (i64, i64), args: &str) -> String {
    let ((pid, tid), (ts, dur)) = (place, time);
    format!(
        r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

fn list(events: &[String]) -> String {
    format!("[{}]", events.join(",\n"))
}
