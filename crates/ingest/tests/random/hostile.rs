//! Inputs that aim at long run times: for any repeated pattern, the time is proportional to the bytes.

use stackline_ingest::{ReadOptions, read_bytes};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PIECES: &[&str] = &[
    "\"",
    "\\\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "{\"ph\":",
    "{\"ph\":\"X\"",
    "{\"name\":\"",
    "\"x\"y",
    "\"a\":",
    "{\"ph\":[",
    "{\"args\":{",
    "{}",
    "{\"ph\":\"b\",\"id\":1,\"name\":\"a\"},",
    "{\"ph\":\"e\",\"id\":1,\"name\":\"z\"},",
    "{\"ph\":\"B\",\"ts\":1},",
    "nan",
    "-",
    "\n",
    "\"stackFrames\":{",
    "\"a\",\"b\"",
    "\\u00",
];

/// Patterns that were slow in earlier versions.
const KNOWN: &[&str] = &["\\\"", "{\"ph\":[", "{\"ph\":\"x\"y", "{\"ph\":\"x\\\"y", "\"\\\"", "{\"a\":[\""];

const OPENINGS: &[&str] = &["[", "{", "{\"traceEvents\":[", "[{\"ph\":\"X\",\"name\":\"", "[{\"ph\":\"X\",\"args\":{"];

const SIZE: usize = 400_000;
/// Far above the time of any pattern on a busy machine, far below quadratic time.
const LIMIT: Duration = Duration::from_secs(40);

fn patterns() -> Vec<String> {
    let mut all: Vec<String> = KNOWN.iter().chain(PIECES).map(|p| (*p).to_owned()).collect();
    // A fixed walk through pairs and triples.
    let mut seed = 17usize;
    for n in 0..60 {
        let mut pattern = String::new();
        for _ in 0..2 + n % 2 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            pattern += PIECES[(seed >> 33) % PIECES.len()];
        }
        all.push(pattern);
    }
    all
}

#[test]
fn repeated_patterns_take_linear_time() {
    let (done, next) = mpsc::channel();
    std::thread::spawn(move || {
        for (i, pattern) in patterns().iter().enumerate() {
            // All openings for known slow patterns; one each, in turn, for the rest.
            let opens = if i < KNOWN.len() { OPENINGS } else { &OPENINGS[i % OPENINGS.len()..][..1] };
            for open in opens {
                let text = format!("{open}{}", pattern.repeat(SIZE / pattern.len()));
                let start = Instant::now();
                let _ = read_bytes("hostile", text.as_bytes(), &ReadOptions { threads: 1, ..ReadOptions::default() });
                if done.send((format!("{open} {pattern}"), start.elapsed())).is_err() {
                    return;
                }
            }
        }
    });
    let mut slowest = (String::new(), Duration::ZERO);
    loop {
        match next.recv_timeout(LIMIT) {
            Ok((pattern, time)) if time > slowest.1 => slowest = (pattern, time),
            Ok(_) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("stuck; the slowest until now was {slowest:?}"),
        }
    }
    println!("slowest: {slowest:?}");
    assert!(slowest.1 < LIMIT / 4, "{slowest:?}");
}
