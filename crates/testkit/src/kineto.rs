//! Writer of traces in Kineto's format, record by record.
//!
//! ```
//! use stackline_testkit::kineto::Writer;
//! let mut json = Writer::new("{\"traceEvents\": [".to_owned(), 0);
//! json.slice("cpu_op", "aten::mm", (1, 1), (1_500, 2_000), |args| args.raw("External id", 7));
//! assert!(json.finish("tiny.json", 0).contains("\"ts\": 1.500, \"dur\": 2.000"));
//! ```

use std::fmt::{Arguments, Display, Write};

/// Start or end of a flow arrow between two events, with the id of the arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The arrow starts at this event.
    Start(u64),
    /// The arrow ends at this event.
    End(u64),
}

/// JSON text of a trace that is being written. Times are nanoseconds since the start of the profiler.
#[derive(Debug, Clone)]
pub struct Writer {
    text: String,
    first: bool,
    started: i64,
    /// True if whole microseconds are written without decimals.
    short_times: bool,
}

/// Arguments of the event that is being written.
#[derive(Debug)]
pub struct ArgsText<'a> {
    text: &'a mut String,
    any: bool,
}

impl ArgsText<'_> {
    /// Add an argument to a record: a number, or another value whose text is valid JSON.
    pub fn raw(&mut self, key: &str, value: impl Display) {
        self.text.push_str(if std::mem::replace(&mut self.any, true) { ", " } else { ",\n    \"args\": {\n      " });
        let _ = write!(self.text, "\"{key}\": {value}");
    }

    /// Add a text argument to a record.
    pub fn text(&mut self, key: &str, value: &str) {
        self.raw(key, "");
        push_quoted(self.text, value);
    }
}

impl Writer {
    /// Create a writer whose text begins with `header`, which ends with the `[` of the event list. The profiler was
    /// started `started` ns after the base of the file's times.
    #[must_use]
    pub fn new(header: String, started: i64) -> Self {
        Self { text: header, first: true, started, short_times: false }
    }

    /// Let the writer omit the decimals of whole microseconds, as PyTorch before 2.3.
    #[must_use]
    pub(crate) fn short_times(mut self) -> Self {
        self.short_times = true;
        self
    }

    /// Write the separator and the opening brace of a record.
    fn begin(&mut self) {
        self.text.push_str(if std::mem::take(&mut self.first) { "\n  {\n    " } else { ",\n  {\n    " });
    }

    /// Format a time, ns since the start of the profiler, as the file does: microseconds since its base.
    #[must_use]
    pub fn stamp(&self, ns: i64) -> String {
        self.micros(self.started + ns)
    }

    /// Format a duration of `ns` nanoseconds in the unit of the file: microseconds.
    #[must_use]
    pub fn micros(&self, ns: i64) -> String {
        let mut out = String::with_capacity(20);
        push_micros(&mut out, ns, self.short_times);
        out
    }

    /// Add a record to the event list; `body` is the JSON text between its braces.
    pub fn record(&mut self, body: Arguments<'_>) {
        self.begin();
        let _ = self.text.write_fmt(body);
        self.text.push_str("\n  }");
    }

    /// Add a slice of a track (process, thread) with start and duration in ns.
    pub fn slice(
        &mut self,
        category: &str,
        name: &str,
        (process, thread): (impl Display, impl Display),
        (start, duration): (i64, i64),
        args: impl FnOnce(&mut ArgsText<'_>),
    ) {
        self.begin();
        let _ = write!(self.text, "\"ph\": \"X\", \"cat\": \"{category}\", \"name\": ");
        push_quoted(&mut self.text, name);
        let _ = write!(self.text, ", \"pid\": {process}, \"tid\": {thread},\n    \"ts\": ");
        push_micros(&mut self.text, self.started + start, self.short_times);
        self.text.push_str(", \"dur\": ");
        push_micros(&mut self.text, duration, self.short_times);
        let mut list = ArgsText { text: &mut self.text, any: false };
        args(&mut list);
        let any = list.any;
        self.text.push_str(if any { "\n    }\n  }" } else { "\n  }" });
    }

    /// Add a record of one end of a flow arrow, at time `at` in ns.
    pub fn flow(&mut self, category: &str, flow: Flow, (process, thread): (impl Display, impl Display), at: i64) {
        let (phase, id, tail) = match flow {
            Flow::Start(id) => ('s', id, ""),
            Flow::End(id) => ('f', id, ", \"bp\": \"e\""),
        };
        let ts = self.stamp(at);
        self.record(format_args!(
            "\"ph\": \"{phase}\", \"id\": {id}, \"pid\": {process}, \"tid\": {thread}, \"ts\": {ts},\n    \
             \"cat\": \"{category}\", \"name\": \"{category}\"{tail}"
        ));
    }

    /// Add a metadata record (`"ph": "M"`).
    fn meta(&mut self, kind: &str, process: i64, thread: i64, args: Arguments<'_>) {
        let ts = self.stamp(20_000);
        self.record(format_args!(
            "\"name\": \"{kind}\", \"ph\": \"M\", \"ts\": {ts}, \"pid\": {process}, \"tid\": {thread},\n    \
             \"args\": {{\n      {args}\n    }}"
        ));
    }

    /// Add records of the name, label and sort index of a process.
    pub fn process(&mut self, process: i64, label: &str, order: i64) {
        self.meta("process_name", process, 0, format_args!("\"name\": \"python\""));
        self.meta("process_labels", process, 0, format_args!("\"labels\": \"{label}\""));
        self.meta("process_sort_index", process, 0, format_args!("\"sort_index\": {order}"));
    }

    /// Add records of the name and sort index of a thread or stream.
    pub fn thread(&mut self, process: i64, thread: i64, name: &str) {
        self.meta("thread_name", process, thread, format_args!("\"name\": \"{name}\""));
        self.meta("thread_sort_index", process, thread, format_args!("\"sort_index\": {thread}"));
    }

    /// Add the profiler's own span and the marks of its start and stop; times in ns.
    pub fn recording(&mut self, start: i64, duration: i64, stop: i64) {
        let (begin, whole, stop) = (self.stamp(start), self.micros(duration), self.stamp(stop));
        self.record(format_args!(
            "\"ph\": \"X\", \"cat\": \"Trace\", \"ts\": {begin}, \"dur\": {whole},\n    \"pid\": \"Spans\", \"tid\": \"PyTorch Profiler\",\n    \
             \"name\": \"PyTorch Profiler (0)\",\n    \"args\": {{\n      \"Op count\": 0\n    }}"
        ));
        self.record(format_args!(
            "\"name\": \"process_sort_index\", \"ph\": \"M\", \"ts\": {begin},\n    \"pid\": \"Spans\", \"tid\": 0,\n    \
             \"args\": {{\n      \"sort_index\": 536870912\n    }}"
        ));
        self.record(format_args!(
            "\"name\": \"Iteration Start: PyTorch Profiler\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": \"Traces\", \
             \"tid\": \"Trace PyTorch Profiler\", \"ts\": {begin}"
        ));
        self.record(format_args!(
            "\"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": \"\", \"tid\": \"\", \"ts\": {stop}"
        ));
    }

    /// JSON text of the trace written so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Close the event list and the file; `name` is its `traceName`, and `base` the base of its times in ns since 1970.
    #[must_use]
    pub fn finish(mut self, name: &str, base: i64) -> String {
        let _ = write!(
            self.text,
            "\n  ],\n\"traceName\": \"{name}\",\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": {base}\n}}\n"
        );
        self.text
    }
}

/// Append a time in ns as microseconds.
fn push_micros(out: &mut String, ns: i64, short: bool) {
    let sign = if ns < 0 { "-" } else { "" };
    let (whole, rest) = (ns.abs() / 1000, ns.abs() % 1000);
    let _ = match (short, rest) {
        (true, 0) => write!(out, "{sign}{whole}"),
        _ => write!(out, "{sign}{whole}.{rest:03}"),
    };
}

/// Append a text as a JSON string.
fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Quote `text` as a JSON string.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(&mut out, text);
    out
}
