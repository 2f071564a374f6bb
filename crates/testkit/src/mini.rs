//! Mini traces as text: a test writes one line per event and gets the JSON of PyTorch's profiler (Kineto).
//!
//! ```
//! use stackline_testkit::mini;
//! let json = mini::trace(
//!     "# track  category      name              time     arguments
//!      10/11    cpu_op        aten::mm          10..110  Input Dims=[[4, 8], [8, 16]]
//!      10/11    cuda_runtime  cudaLaunchKernel  20+10    correlation=1
//!      gpu0/7   kernel        sgemm             50..170  correlation=1",
//! );
//! assert!(json.contains(r#""name": "cudaLaunchKernel", "pid": 10, "tid": 11, "ts": 20, "dur": 10"#));
//! assert!(json.contains(r#""args": {"device": 0, "stream": 7, "correlation": 1}"#));
//! ```
//!
//! | part | form |
//! |---|---|
//! | track | `PROCESS/THREAD`, or `PROCESS` alone, each a number or a word; `gpu0/7` is stream 7 of GPU 0, and adds the arguments `device` and `stream` |
//! | category | Kineto's category; `-` for none |
//! | name | all words up to the time; a JSON string if it begins with `"` |
//! | time | in µs, with up to three decimals: `10..30` from 10 to 30, `10+20` the same by its duration, `@10` an instant. `C@10` is an event of another phase without a duration (`B` begin, `E` end, `C` counter, `P` sample, `s` and `f` arrow). |
//! | arguments | `KEY=VALUE`; keys may contain spaces; a value is JSON, or one word, which becomes a string; `.KEY=VALUE` is a field of the event itself, such as `.id=4`; or all of them as one JSON object |
//!
//! Other lines:
//!
//! | line | meaning |
//! |---|---|
//! | `process 10 name=python labels=CPU sort_index=1` | names a process |
//! | `thread 10/11 name=main sort_index=1` | names a thread or stream |
//! | `file distributedInfo={"rank": 0}` | keys of the file, in addition to the list of events and `schemaVersion` |
//! | `file -` | a Chrome trace of another program: removes the keys by which Kineto's files are recognized |
//! | `# anything`, or nothing | skipped |

use crate::kineto::{Writer, quote};
use std::fmt::Write;

/// Convert a mini trace, in the text form of the module's description, to JSON in Kineto's format.
///
/// # Panics
/// If a line is invalid; the message has its number and the expected form.
#[must_use]
#[track_caller]
pub fn trace(text: &str) -> String {
    MiniTrace::new(text).json()
}

/// A mini trace to which a test can add lines, to repeat events for example.
///
/// ```
/// use stackline_testkit::mini::MiniTrace;
/// let mut trace = MiniTrace::new("process 10 name=python");
/// for step in 0..3 {
///     trace.add_at(1000 * step, &format!("10/11 user_annotation ProfilerStep#{step} 0..900"));
/// }
/// assert_eq!(trace.add("10/11 cpu_op aten::mm 3000+5"), 4, "the position of the event in the file");
/// assert!(trace.json().contains(r#""ProfilerStep#2", "pid": 10, "tid": 11, "ts": 2000"#));
/// ```
#[derive(Debug, Clone)]
pub struct MiniTrace {
    records: Writer,
    count: u32,
    /// Text of the keys in addition to the list of events.
    file: String,
}

/// Parsed time of an event in ns: a span or an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    Span { start: i64, duration: i64 },
    Point { phase: char, at: i64 },
}

impl MiniTrace {
    /// Create a mini trace from its text form, which may be empty.
    ///
    /// # Panics
    /// If a line is invalid.
    #[must_use]
    #[track_caller]
    pub fn new(text: &str) -> Self {
        let records = Writer::new(String::new(), 0).short_times();
        let mut trace = Self { records, count: 0, file: "\"schemaVersion\": 1, ".to_owned() };
        trace.add(text);
        trace
    }

    /// Add lines of a mini trace; returns the position of the last record in the file's event list.
    ///
    /// # Panics
    /// If a line is invalid.
    #[track_caller]
    pub fn add(&mut self, text: &str) -> u32 {
        self.add_at(0, text)
    }

    /// Add lines whose times count from `offset_us` µs; returns the position of the last record.
    ///
    /// # Panics
    /// If a line is invalid.
    #[track_caller]
    pub fn add_at(&mut self, offset_us: i64, text: &str) -> u32 {
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if let Err(expected) = self.add_line(line, offset_us * 1000) {
                panic!("line {number} of a mini trace: expected {expected}: {line:?}");
            }
        }
        self.count.saturating_sub(1)
    }

    /// Mini trace as JSON text in Kineto's format.
    #[must_use]
    pub fn json(&self) -> String {
        format!("{{{}\"traceEvents\": [{}\n]}}\n", self.file, self.records.text())
    }

    /// Add one line of a mini trace; an error is the expected form.
    fn add_line(&mut self, line: &str, offset: i64) -> Result<(), &'static str> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (first, rest) = split_word(line);
        match first {
            "file" if rest == "-" => self.file.clear(),
            "file" => {
                for (key, value) in parse_arguments(rest)? {
                    let _ = write!(self.file, "{}: {value}, ", quote(key));
                }
            }
            "process" | "thread" => {
                let (track, rest) = split_word(rest);
                let (track, _) = parse_track(track);
                for (key, value) in parse_arguments(rest)? {
                    let (kind, key) = (quote(&format!("{first}_{key}")), quote(key));
                    self.record(&format!("\"ph\": \"M\", \"name\": {kind}, {track}, \"args\": {{{key}: {value}}}"));
                }
            }
            track => self.event(track, rest, offset)?,
        }
        Ok(())
    }

    /// Add an event from the parts of its line.
    fn event(&mut self, track: &str, rest: &str, offset: i64) -> Result<(), &'static str> {
        let (category, rest) = split_word(rest);
        let (name, time, rest) = parse_name_and_time(rest)?;
        let (phase, when) = match time {
            Time::Span { start, duration } => {
                ('X', format!("{}, \"dur\": {}", self.records.stamp(offset + start), self.records.micros(duration)))
            }
            Time::Point { phase, at } => (phase, self.records.stamp(offset + at)),
        };
        let (track, mut args) = parse_track(track);
        let mut body = format!("\"ph\": \"{phase}\", ");
        if category != "-" {
            let _ = write!(body, "\"cat\": {}, ", quote(category));
        }
        let _ = write!(body, "\"name\": {name}, {track}, \"ts\": {when}");
        if phase == 'i' {
            body.push_str(", \"s\": \"t\"");
        }
        let object = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        args.extend(object.filter(|pairs| !pairs.is_empty()).map(str::to_owned));
        let pairs = if object.is_some() { Vec::new() } else { parse_arguments(rest)? };
        for (key, value) in pairs {
            match key.strip_prefix('.') {
                Some(field) => {
                    let _ = write!(body, ", {}: {value}", quote(field));
                }
                None => args.push(format!("{}: {value}", quote(key))),
            }
        }
        if !args.is_empty() {
            let _ = write!(body, ", \"args\": {{{}}}", args.join(", "));
        }
        self.record(&body);
        Ok(())
    }

    fn record(&mut self, body: &str) {
        self.records.record(format_args!("{body}"));
        self.count += 1;
    }
}

/// Split a text into its first word and the rest, without the white space in between.
fn split_word(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (first, rest.trim_start())
}

/// Parse a track such as `10/11` or `gpu0/7`: JSON fields of process and thread, and arguments that a GPU adds.
fn parse_track(text: &str) -> (String, Vec<String>) {
    let on_gpu = text.strip_prefix("gpu").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let Some((process, thread)) = on_gpu.unwrap_or(text).split_once('/') else {
        return (format!("\"pid\": {}", value_of_word(text)), Vec::new());
    };
    let track = format!("\"pid\": {}, \"tid\": {}", value_of_word(process), value_of_word(thread));
    let args = on_gpu.map(|_| vec![format!("\"device\": {process}"), format!("\"stream\": {thread}")]);
    (track, args.unwrap_or_default())
}

/// Parse name and time of an event at the start of `text`: the name as JSON, the time, and the remaining text.
fn parse_name_and_time(text: &str) -> Result<(String, Time, &str), &'static str> {
    const EXPECTED: &str = "TRACK CATEGORY NAME TIME, with TIME in µs as START..END, START+DURATION or @INSTANT";
    if text.starts_with('"') {
        let (name, rest) = text.split_at(json_end(text).ok_or("a name whose quotes close")?);
        let (time, rest) = split_word(rest.trim_start());
        return Ok((name.to_owned(), parse_time(time).ok_or(EXPECTED)?, rest));
    }
    let mut rest = text;
    while !rest.is_empty() {
        let (time, after) = split_word(rest);
        if let Some(time) = parse_time(time) {
            let name = text[..text.len() - rest.len()].trim_end();
            return Ok((quote(name), time, after));
        }
        rest = after;
    }
    Err(EXPECTED)
}

/// Parse a time such as `10..30`, `10+20` or `@10`, in µs; `None` if `word` has another form.
fn parse_time(word: &str) -> Option<Time> {
    if let Some((phase, at)) = word.split_once('@') {
        let mut letters = phase.chars();
        let phase = letters.next().unwrap_or('i');
        return (letters.next().is_none()).then_some(Time::Point { phase, at: nanoseconds(at)? });
    }
    if let Some((start, end)) = word.split_once("..") {
        let start = nanoseconds(start)?;
        return Some(Time::Span { start, duration: nanoseconds(end)? - start });
    }
    let (start, duration) = word.split_once('+')?;
    Some(Time::Span { start: nanoseconds(start)?, duration: nanoseconds(duration)? })
}

/// Parse a number of µs with up to three decimals as nanoseconds.
fn nanoseconds(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 3 {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    let decimals: i64 = format!("{decimals:0<3}").parse().ok()?;
    Some(sign * (whole.checked_mul(1000)? + decimals))
}

/// Parse pairs of the form `KEY=VALUE`; the values become JSON.
fn parse_arguments(text: &str) -> Result<Vec<(&str, String)>, &'static str> {
    let mut pairs = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').ok_or("arguments of the form KEY=VALUE")?;
        let (value, after) = match after.starts_with(['"', '[', '{']) {
            true => {
                let (value, after) = after.split_at(json_end(after).ok_or("a value whose brackets and quotes close")?);
                (value.to_owned(), after)
            }
            false => {
                let (value, after) = split_word(after);
                (value_of_word(value), after)
            }
        };
        pairs.push((key.trim(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

/// Convert a word to JSON: a number, a literal or a quoted word is unchanged, others become a string.
fn value_of_word(word: &str) -> String {
    let is_json = matches!(word, "null" | "true" | "false")
        || word.starts_with('"')
        || (word.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && word.parse::<f64>().is_ok());
    if is_json { word.to_owned() } else { quote(word) }
}

/// Length in bytes of the string, list or object at the start of `text`; `None` if it is not closed.
fn json_end(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 && !in_string && !escaped {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{MiniTrace, Time, nanoseconds, parse_time, trace};
    use serde_json::{Value, json};

    fn events(text: &str) -> Vec<Value> {
        let document: Value = serde_json::from_str(&trace(text)).unwrap();
        document["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn all_parts_of_a_line_are_read() {
        let all = events(
            r#"process 10 name=python labels="GPU 0" sort_index=-3
            thread 10/main name=main

            10/11 cpu_op void f<int, 3>(int, char*) 0.5..1.25 Input Dims=[[2, "a ]"], []] kind=pinned External id=7 on=true
            gpu1/20 kernel k 3+2
            1/1 cpu_op in an object 1+1 {"a": [1, {"b": "}"}]}
            1/1 cpu_op with none 1+1 {}
            Spans/x - "a \"b\" @3" -4+1
            7 counter GPU 0 MHz C@5 value=12
            1/"1" flow f s@6 .id=4 .bp=e a=1e3
            1/1 cpu_instant_event [memory] @7 Bytes=-512"#,
        );
        let meta = |name: &str, track: Value, args: Value| {
            let mut event = json!({"ph": "M", "name": name, "args": args});
            event.as_object_mut().unwrap().extend(track.as_object().unwrap().clone());
            event
        };
        let expected = [
            meta("process_name", json!({"pid": 10}), json!({"name": "python"})),
            meta("process_labels", json!({"pid": 10}), json!({"labels": "GPU 0"})),
            meta("process_sort_index", json!({"pid": 10}), json!({"sort_index": -3})),
            meta("thread_name", json!({"pid": 10, "tid": "main"}), json!({"name": "main"})),
            json!({"ph": "X", "cat": "cpu_op", "name": "void f<int, 3>(int, char*)", "pid": 10, "tid": 11, "ts": 0.5, "dur": 0.75,
                "args": {"Input Dims": [[2, "a ]"], []], "kind": "pinned", "External id": 7, "on": true}}),
            json!({"ph": "X", "cat": "kernel", "name": "k", "pid": 1, "tid": 20, "ts": 3, "dur": 2,
                "args": {"device": 1, "stream": 20}}),
            json!({"ph": "X", "cat": "cpu_op", "name": "in an object", "pid": 1, "tid": 1, "ts": 1, "dur": 1,
                "args": {"a": [1, {"b": "}"}]}}),
            json!({"ph": "X", "cat": "cpu_op", "name": "with none", "pid": 1, "tid": 1, "ts": 1, "dur": 1}),
            json!({"ph": "X", "name": "a \"b\" @3", "pid": "Spans", "tid": "x", "ts": -4, "dur": 1}),
            json!({"ph": "C", "cat": "counter", "name": "GPU 0 MHz", "pid": 7, "ts": 5, "args": {"value": 12}}),
            json!({"ph": "s", "cat": "flow", "name": "f", "pid": 1, "tid": "1", "ts": 6, "id": 4, "bp": "e", "args": {"a": 1e3}}),
            json!({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 7,
                "args": {"Bytes": -512}}),
        ];
        for (event, expected) in all.iter().zip(&expected) {
            assert_eq!(event, expected);
        }
        assert_eq!(all.len(), expected.len());
    }

    #[test]
    fn file_keys_are_top_level_members() {
        let document: Value =
            serde_json::from_str(&trace("file distributedInfo={\"rank\": 3} hostname=node traceName=\"a b\"")).unwrap();
        let expected = json!({"schemaVersion": 1, "distributedInfo": {"rank": 3}, "hostname": "node",
            "traceName": "a b", "traceEvents": []});
        assert_eq!(document, expected);
        assert_eq!(trace("file -"), "{\"traceEvents\": [\n]}\n");
    }

    #[test]
    fn times_are_exact() {
        assert_eq!(parse_time("10..30"), Some(Time::Span { start: 10_000, duration: 20_000 }));
        assert_eq!(parse_time("0.5+1.001"), Some(Time::Span { start: 500, duration: 1_001 }));
        assert_eq!(parse_time("-2.25..-1"), Some(Time::Span { start: -2_250, duration: 1_250 }));
        assert_eq!(parse_time("@7"), Some(Time::Point { phase: 'i', at: 7_000 }));
        assert_eq!(
            (parse_time("10"), parse_time("1.0001..2"), parse_time("a@b"), parse_time("ab@1"), parse_time("a+b")),
            (None, None, None, None, None)
        );
        assert_eq!(
            (nanoseconds("1."), nanoseconds(""), nanoseconds("9223372036854775")),
            (None, None, Some(9_223_372_036_854_775_000))
        );
    }

    #[test]
    fn lines_are_added_at_an_offset() {
        let mut trace = MiniTrace::new("");
        assert_eq!(trace.add_at(100, "1/1 cpu_op a 5..6\n1/1 cpu_op b @7.5"), 1);
        assert_eq!(trace.add("1/1 cpu_op c 1+1"), 2);
        let text = trace.json();
        assert!(text.contains("\"ts\": 105, \"dur\": 1") && text.contains("\"ts\": 107.500,"), "{text}");
    }

    /// Panic message for a text.
    fn refused(text: &'static str) -> String {
        let panic = std::panic::catch_unwind(|| trace(text)).expect_err("refused");
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn invalid_lines_are_reported_with_the_expected_form() {
        let expected = "line 2 of a mini trace: expected TRACK CATEGORY NAME TIME, with TIME in µs as START..END, \
             START+DURATION or @INSTANT: \"1/1 cpu_op a\"";
        assert_eq!(refused("1/1 cpu_op a 0+1\n1/1 cpu_op a"), expected);
        assert!(refused("1/1 cpu_op a 0+1 correlation").contains("expected arguments of the form KEY=VALUE"));
        assert!(refused("1/1 cpu_op a 0+1 dims=[[1]").contains("expected a value whose brackets and quotes close"));
        assert!(refused("1/1 cpu_op \"a 0+1").contains("expected a name whose quotes close"));
    }
}
