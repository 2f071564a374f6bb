//! Differential: times and numbers in any decimal spelling, against arithmetic on the digits and serde_json.

use crate::oracle;
use stackline_ingest::{ReadOptions, read_bytes};

/// The text of a JSON number that the fuzzer's bytes spell: its alphabet is all that numbers are made of.
fn spelled(data: &[u8]) -> String {
    const ALPHABET: &[u8; 16] = b"0123456789.-+eE0";
    data.iter().take(48).map(|b| char::from(ALPHABET[usize::from(b % 16)])).collect()
}

/// Panics where it does not hold.
pub(crate) fn check(data: &[u8]) {
    let (time, rest) = data.split_at(data.len() / 2);
    let (ts, value) = (spelled(time), spelled(rest));
    // Unquoted the number must be JSON; quoted, anything goes.
    let quoted = data.len().is_multiple_of(3);
    let ts = if quoted { format!("\"{ts}\"") } else { ts };
    let text = format!(
        "[{{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,\"tid\":2,\"ts\":{ts},\"dur\":{value},\"args\":{{\"v\":{value}}}}}]"
    );
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    let trace = read_bytes("fuzz", text.as_bytes(), &options);
    if let Some((records, others)) = oracle::parse(text.as_bytes()) {
        let compared = trace.map_err(|e| e.to_string()).and_then(|t| oracle::compare(&t, &records, &others));
        if let Err(difference) = compared {
            panic!("{text}: {difference}");
        }
    }
}
