use super::{Plan, read};
use crate::sources::chrome::SNIFF;
use crate::{Error, ReadOptions};
use proptest::collection::vec;
use proptest::prelude::*;
use stackline_model::Trace;
use stackline_testkit::{damage, demo};
use std::io::{self, Read};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// One small training step with all kinds of records.
const STEP: &str = include_str!("../../../../tests/common/step.json");

/// A short trace of the generator.
static DEMO: LazyLock<String> =
    LazyLock::new(|| demo::generate(&demo::Config { steps: 1, layers: 1, ..demo::Config::default() }));

/// Everything that a read returns, with byte offsets and examples of the report.
fn whole(result: Result<Trace, Error>) -> Vec<String> {
    match result {
        Err(error) => vec![error.to_string()],
        Ok(trace) => vec![
            format!("{:?}", trace.report),
            format!("{:?}", trace.strings.iter().collect::<Vec<_>>()),
            format!("{:?}", trace.meta),
            format!("{:?} {:?}", trace.tracks.processes, trace.tracks.tracks),
            format!("{:?}", trace.events),
            format!("{:?}", trace.attrs.columns()),
            format!("{:?}", trace.gpu),
            format!("{:?} {:?} {:?}", trace.links, trace.stacks, trace.steps),
        ],
    }
}

/// Text with so much white space after its first bracket that the search for the start of the document ends there.
fn padded(text: &[u8], block: usize) -> Vec<u8> {
    match text {
        [first @ (b'{' | b'['), rest @ ..] => [&[*first], &vec![b' '; 2 * SNIFF + block][..], rest].concat(),
        _ => text.to_vec(),
    }
}

fn compare(text: &[u8], block: usize, name: &str) -> Result<(), TestCaseError> {
    let shown = String::from_utf8_lossy(text);
    let text = padded(text, block);
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    let expected = whole(crate::sources::chrome::read("t", &text[..], &options));
    for workers in [1, 2, 6] {
        let plan = Plan { workers, block, ahead: 2 + 3 * workers };
        let found = whole(read("t", &mut &text[..], &plan, &options));
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(found, expected, "{} with {} workers, blocks of {}:\n{}", name, workers, block, shown);
        }
        prop_assert_eq!(found.len(), expected.len(), "{} with {} workers, blocks of {}", name, workers, block);
    }
    Ok(())
}

#[test]
fn undamaged_text_gives_the_same_trace() {
    for text in [STEP, &DEMO] {
        for block in [16, 100, 1000, 10_000, 1 << 20] {
            compare(text.as_bytes(), block, "undamaged").unwrap();
        }
    }
}

#[test]
fn damaged_text_gives_the_same_trace() {
    for (seed, kind) in damage::kinds().iter().enumerate() {
        for text in [STEP, &DEMO] {
            let damaged = damage::apply(kind, text.as_bytes(), seed as u64);
            for block in [64, 700, 5000] {
                compare(&damaged, block, kind.name).unwrap();
            }
        }
    }
}

/// A reader that fails at its end.
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("broken")),
            count => Ok(count),
        }
    }
}

#[test]
fn a_broken_stream_gives_the_same_trace() {
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    let plan = Plan { workers: 2, block: 500, ahead: 6 };
    for end in (2..STEP.len()).step_by(97) {
        let text = padded(&STEP.as_bytes()[..end], plan.block);
        let expected = whole(crate::sources::chrome::read("t", Failing(&text), &options));
        assert_eq!(whole(read("t", &mut Failing(&text), &plan, &options)), expected, "up to byte {end}");
    }
}

/// A piece of text: one or more records, and text that misleads the search for borders.
fn piece() -> impl Strategy<Value = String> {
    let record = (0u32..40, 0u32..5, 0u32..1000, "[a-c\\\\{}\\[\\], ]{0,6}").prop_map(|(name, thread, ts, text)| {
        let text = text.replace('\\', "\\\\");
        format!(
            "{{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"op{name}\", \"pid\": 1, \"tid\": {thread}, \"ts\": {ts}, \
             \"dur\": 5, \"args\": {{\"k{name}\": \"{text}\", \"list\": [{{\"ph\": 1}}, {{\"ph\": \"{text}\"}}]}}}}, "
        )
    });
    let other = prop::sample::select(vec![
        r#"{"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 7}, "#,
        r#"{"ph": "E", "pid": 1, "tid": 1, "ts": 9, "args": {"late": "text"}}, "#,
        r#"{"ph": "s", "cat": "ac2g", "id": 4, "pid": 1, "tid": 1, "ts": 7}, "#,
        r#"{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "worker"}}, "#,
        r#"{"ph": "C", "name": "memory", "pid": 1, "ts": 3, "args": {"bytes": 12345678901234567890}}, "#,
        r#"{"ph": "b", "cat": "x", "name": "span", "id2": {"local": "0x1"}, "pid": 1, "tid": 2, "ts": 1.5}, "#,
        r#"{"ph": "X", "name": "}, {\"ph\": \"X\"", "ts": 1, "dur": 2, "pid": "p", "tid": "t"}, "#,
        r#"{"ph": "X", "name": "bare "quote"", "ts": "1", "dur": -2, "pid": 3, "tid": 4}, "#,
        "{}, ",
        ", ",
        "{\"ph\": \"X\" ",
        "null, ",
        "log line\n",
        "\"",
        "}, {\"ph\": ",
        "], \"deviceProperties\": [{\"id\": 1}], \"traceEvents\": [",
        "], \"damaged: [",
        "]",
    ]);
    prop_oneof![6 => record, 2 => other.prop_map(str::to_owned)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_text_gives_the_same_trace(
        pieces in vec(piece(), 0..60), is_object in any::<bool>(), is_whole in any::<bool>(), block in 16usize..3000,
    ) {
        let (open, close) = if is_object { ("{\"schemaVersion\": 1, \"traceEvents\": [", "]}") } else { ("[", "]") };
        let close = if is_whole { close } else { "" };
        compare([open, &pieces.concat(), close].concat().as_bytes(), block, "random")?;
    }

    #[test]
    fn mutated_text_gives_the_same_trace(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), block in 16usize..2000,
    ) {
        let mut text = STEP.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(text.len() - 1) + 1;
            text[at] = byte;
        }
        compare(&text, block, "mutated")?;
    }
}

#[test]
fn a_cancelled_read_ends() {
    let cancel = std::sync::Arc::new(AtomicBool::new(false));
    let options = ReadOptions { cancel: Some(std::sync::Arc::clone(&cancel)), ..ReadOptions::default() };
    cancel.store(true, Ordering::Relaxed);
    let plan = Plan { workers: 2, block: 500, ahead: 6 };
    assert!(matches!(read("t", &mut DEMO.as_bytes(), &plan, &options), Err(Error::Cancelled)));
}
