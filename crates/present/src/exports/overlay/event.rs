//! Matching and marking of single events in the text of a trace file.

use super::scan::{blank, find, members};
use stackline_critical_path::Mark;

/// Difference in ns up to which two start times are the same: one in a float's text may have lost digits.
const SAME_NS: f64 = 1_000.0;

/// Time stamps from here on (the year 5000 in µs) are nanoseconds already, as the reader of traces takes them.
const NANOSECONDS_FROM: f64 = 1e17;

/// Check if an event's JSON text has the name and start of a mark. Values that this scanner cannot parse count as
/// equal, since the trace reader repairs more.
pub(super) fn fits(event: &[u8], mark: &Mark) -> bool {
    let Some(found) = members(event) else { return true };
    let text = |key: &str| find(event, &found, key).map(|range| &event[range]);
    let name = text("name").and_then(|raw| serde_json::from_slice::<String>(raw).ok());
    let start = text("ts").and_then(number);
    let near = |ts: f64| {
        let ns = if ts.abs() < NANOSECONDS_FROM { ts * 1e3 } else { ts };
        let is = |start: i64| (ns - start as f64).abs() <= SAME_NS;
        is(mark.start_ns) || is(mark.start_ns.saturating_sub(mark.clock_shift_ns))
    };
    name.is_none_or(|name| name == mark.name) && start.is_none_or(near)
}

/// Parse a JSON number, also one in quotes.
fn number(raw: &[u8]) -> Option<f64> {
    std::str::from_utf8(raw).ok()?.trim_matches('"').trim().parse().ok().filter(|v: &f64| v.is_finite())
}

/// Copy the JSON text of a trace event with `"critical": 1` added to its arguments; `None` if the text is not an
/// object.
pub(super) fn mark(event: &[u8]) -> Option<Vec<u8>> {
    let outer = members(event)?;
    let (at, text): (std::ops::Range<usize>, &[u8]) = match find(event, &outer, "args") {
        Some(args) if event[args.start] == b'{' => {
            let inner = members(&event[args.clone()])?;
            match find(&event[args.clone()], &inner, "critical") {
                Some(value) => (args.start + value.start..args.start + value.end, b"1"),
                None if inner.is_empty() => (args.start + 1..args.start + 1, b"\"critical\": 1"),
                None => (args.start + 1..args.start + 1, b"\"critical\": 1, "),
            }
        }
        Some(args) => (args, b"{\"critical\": 1}"),
        None => {
            let open = blank(event, 0) + 1;
            let text: &[u8] =
                if outer.is_empty() { b"\"args\": {\"critical\": 1}" } else { b"\"args\": {\"critical\": 1}, " };
            (open..open, text)
        }
    };
    Some([&event[..at.start], text, &event[at.end..]].concat())
}

/// Check if the overlay omits this event if it is off the critical path: complete events (`X`) other than annotations
/// and Python frames.
pub(super) fn is_left_out(event: &[u8]) -> bool {
    let Some(found) = members(event) else { return false };
    let is = |key: &str, value: &[u8]| find(event, &found, key).is_some_and(|range| &event[range] == value);
    is("ph", b"\"X\"") && !is("cat", b"\"user_annotation\"") && !is("cat", b"\"python_function\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_marks_are_replaced() {
        let marked = mark(br#"{"args": {"critical": 0, "b": 2}}"#).unwrap();
        assert_eq!(marked, br#"{"args": {"critical": 1, "b": 2}}"#);
    }

    #[test]
    fn events_match_by_name_and_start() {
        let mark = Mark { index: 0, name: "a\"b".to_owned(), start_ns: 1_500, clock_shift_ns: 0 };
        for (event, expected) in [
            (r#"{"name": "a\"b", "ts": 1.5}"#, true),
            (r#"{"name": "a\"b", "ts": "1.5"}"#, true),
            (r#"{"name": "a\"b", "ts": 3}"#, false),
            (r#"{"name": "a\"b", "ts": 1500}"#, false),
            (r#"{"name": "a", "ts": 1.5}"#, false),
            (r#"{"name": "a\"b"}"#, true),
            ("{\"name\": \"raw\nbreak\", \"ts\": 1.5}", true),
        ] {
            assert_eq!(fits(event.as_bytes(), &mark), expected, "{event}");
        }
    }
}
