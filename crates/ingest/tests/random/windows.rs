//! The result is independent of the window's position and of the number of bytes per read.

use crate::random::STEP;
use stackline_ingest::{ReadOptions, sources};
use stackline_model::Trace;
use stackline_testkit::damage;
use std::io::{self, Read};

/// The size of the reader's window is a multiple of this.
const WINDOW: usize = 1 << 20;

/// A reader that returns at most `step` bytes at a time, with occasional interrupts.
struct Drip<'a> {
    bytes: &'a [u8],
    step: usize,
    calls: usize,
}

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(11) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = self.step.min(buffer.len()).min(self.bytes.len());
        buffer[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        Ok(count)
    }
}

fn read(mut input: impl Read) -> Result<Trace, String> {
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    let content = sources::Content::Bytes { head: b"", stream: &mut input };
    let sources::Reader::Traces(read) = sources::ALL[0].read else { panic!("the first is Chrome's") };
    let traces = read("window", content, &options);
    traces.map(|mut traces| traces.remove(0)).map_err(|e| e.to_string().replace(char::is_numeric, ""))
}

/// Complete result of a reader, with byte offsets relative to `from`. Examples of damaged text end with the window and
/// are excluded.
fn whole(result: Result<Trace, String>, from: u64) -> Vec<String> {
    match result {
        Err(reason) => vec![reason],
        Ok(mut trace) => {
            trace.report.bytes -= from;
            for problem in &mut trace.report.problems {
                problem.offsets.iter_mut().for_each(|o| *o -= from);
                problem.example.clear();
            }
            vec![
                format!("{:?}", trace.report),
                format!("{:?}", trace.meta),
                format!("{:?}", trace.events),
                format!("{:?}", trace.gpu),
                format!("{:?}", trace.attrs.columns()),
                format!("{:?} {:?}", trace.links, trace.stacks),
            ]
        }
    }
}

#[test]
fn result_is_independent_of_bytes_per_read() {
    let text = STEP.as_bytes();
    let expected = whole(read(text), 0);
    for step in [1, 7, 4096] {
        assert_eq!(whole(read(Drip { bytes: text, step, calls: 0 }), 0), expected);
    }
}

/// Read `text` after a number of spaces such that the window ends at selected positions in it.
fn at_every_edge(name: &str, text: &[u8], stride: usize) {
    let expected = whole(read(text), 0);
    let mut padded = vec![b' '; WINDOW];
    padded.extend_from_slice(text);
    for place in (1..text.len()).step_by(stride) {
        let padding = WINDOW - place;
        let found = whole(read(&padded[place..]), padding as u64);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(
                found,
                expected,
                "{name}: the window ends at byte {place} of\n{}",
                String::from_utf8_lossy(text)
            );
        }
        assert_eq!(found.len(), expected.len(), "{name}: the window ends at byte {place}");
    }
}

#[test]
fn result_is_independent_of_the_window_end() {
    at_every_edge("undamaged", STEP.as_bytes(), 13);
}

#[test]
fn result_for_damaged_documents_is_independent_of_the_window_end() {
    for (i, kind) in damage::kinds().iter().enumerate() {
        let damaged = damage::apply(kind, STEP.as_bytes(), i as u64);
        if damaged.first() == Some(&b'{') || damaged.first() == Some(&b'[') {
            at_every_edge(kind.name, &damaged, 331);
        }
    }
}
