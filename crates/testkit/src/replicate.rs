//! Replication of a real trace to any length: copies with shifted times and new ids.
//!
//! The input is scanned once. The byte ranges of values that differ between copies (times and ids) are stored; all
//! other bytes are copied unchanged. The copies therefore have the names, arguments, formatting and order of the real
//! file. The output is streamed, and memory holds the input's text and 24 bytes per patched value, for any length of
//! the output.
//!
//! In each copy, `ts` moves by the length of the input; `correlation`, `External id`, `Python id`, `Sequence number`,
//! `Ev Idx`, flow ids and `ProfilerStep#N` continue after the largest value of the previous copy. Metadata rows (`ph:
//! "M"`) and the profiler's own span (`cat: "Trace"`) are written once. Values for "none" (0, negative, null) are
//! unchanged.

use std::io::Write;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::scan;

/// Kind of a number (time or id) that is renumbered in each copy, separately from the other kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Space {
    Time,
    Correlation,
    External,
    Python,
    Sequence,
    EventIndex,
    OtherFlow,
    Step,
}

const SPACES: usize = 8;

/// A number in the text of an event that differs between copies: position, kind and original value.
#[derive(Debug, Clone, Copy)]
struct Patch {
    /// Position relative to the event's first byte: start, length.
    at: u32,
    len: u32,
    space: Space,
    value: i64,
}

/// The parsed input trace: its events, and the numbers that differ between copies.
struct Template<'a> {
    text: &'a [u8],
    layout: scan::Layout,
    /// Text of each event, end of its patches in `patches`, and true if it is repeated.
    events: Vec<(Range<usize>, usize, bool)>,
    patches: Vec<Patch>,
    /// Increase per copy, by space.
    stride: [i64; SPACES],
}

/// Write `text` repeatedly until the event array has exactly `events` events, including metadata rows.
pub fn replicate(text: &[u8], events: u64, out: &mut dyn Write) -> Result<()> {
    let template = Template::new(text)?;
    out.write_all(&text[..=template.layout.events.start])?;
    let (mut left, mut copy) = (events, 0);
    while left > 0 {
        left = template.write_copy(copy, left, events == left, out)?;
        copy += 1;
    }
    out.write_all(b"\n  ")?;
    out.write_all(&text[template.layout.events.end - 1..])?;
    Ok(())
}

impl<'a> Template<'a> {
    fn new(text: &'a [u8]) -> Result<Self> {
        let layout = scan::layout(text).ok_or(Error::NotATrace("no event array"))?;
        let ranges = scan::elements(text, &layout.events).ok_or(Error::NotATrace("the event array is broken"))?;
        let mut template = Self { text, layout, events: Vec::new(), patches: Vec::new(), stride: [0; SPACES] };
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for range in ranges {
            let event =
                Event::read(text, range.clone(), &mut template.patches).ok_or(Error::NotATrace("a broken event"))?;
            if event.repeats && event.timed {
                low = low.min(event.start);
                high = high.max(event.end);
            }
            template.events.push((range, template.patches.len(), event.repeats));
        }
        if !template.events.iter().any(|e| e.2) {
            return Err(Error::NotATrace("no event that could be repeated"));
        }
        for patch in &template.patches {
            let stride = &mut template.stride[patch.space as usize];
            *stride = (*stride).max(patch.value + 1);
        }
        // Step numbers continue without a gap.
        let first_step = template.patches.iter().filter(|p| p.space == Space::Step).map(|p| p.value).min().unwrap_or(0);
        template.stride[Space::Step as usize] -= first_step;
        // Whole microseconds, so that only the digits before the decimal point change.
        template.stride[Space::Time as usize] = (high.saturating_sub(low)).max(0) + 1_000;
        Ok(template)
    }

    /// Write copy number `copy`, at most `left` events of it; returns the number of events that are still to be
    /// written.
    fn write_copy(&self, copy: i64, mut left: u64, mut first: bool, out: &mut dyn Write) -> Result<u64> {
        let mut from = 0;
        for (range, to, repeats) in &self.events {
            let patches = &self.patches[from..*to];
            from = *to;
            if copy > 0 && !repeats {
                continue;
            }
            if left == 0 {
                break;
            }
            left -= 1;
            out.write_all(if std::mem::take(&mut first) { b"\n  " } else { b",\n  " })?;
            self.write_event(range.clone(), patches, copy, out)?;
        }
        Ok(left)
    }

    /// Write one event with the numbers of copy `copy`.
    fn write_event(&self, range: Range<usize>, patches: &[Patch], copy: i64, out: &mut dyn Write) -> Result<()> {
        let mut done = range.start;
        for patch in patches {
            let at = range.start + patch.at as usize;
            out.write_all(&self.text[done..at])?;
            write_number(out, patch.value + copy * self.stride[patch.space as usize])?;
            done = at + patch.len as usize;
        }
        out.write_all(&self.text[done..range.end])?;
        Ok(())
    }
}

/// Write an integer in decimal, faster than the formatter of the standard library.
fn write_number(out: &mut dyn Write, value: i64) -> Result<()> {
    let mut digits = [0_u8; 20];
    let (mut at, mut rest) = (digits.len(), value.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.write_all(&digits[at..])?;
    Ok(())
}

/// Repetition, start and end of an input event.
#[derive(Debug, Default)]
struct Event {
    repeats: bool,
    timed: bool,
    /// Whole microseconds.
    start: i64,
    end: i64,
}

impl Event {
    /// Read the properties of an event, and append its patches to `patches`.
    fn read(text: &[u8], range: Range<usize>, patches: &mut Vec<Patch>) -> Option<Self> {
        let mut event = Self { repeats: true, ..Self::default() };
        let (mut args, mut id, mut duration, mut async_copy) = (None, None, 0, false);
        let first = patches.len();
        let base = range.start;
        scan::each_member(text, range.start, |member| {
            let value = &text[member.value.clone()];
            match member.name(text) {
                b"ph" if value == b"\"M\"" => event.repeats = false,
                b"cat" => {
                    event.repeats &= value != b"\"Trace\"";
                    async_copy = value == b"\"ac2g\"" || value.starts_with(b"\"async");
                }
                b"ts" => {
                    if let Some((len, start)) = leading_integer(value) {
                        (event.start, event.timed) = (start, true);
                        patches.push(patch(base, member.value.start, len, Space::Time, start));
                    }
                }
                b"dur" => duration = leading_integer(value).map_or(0, |(_, n)| n),
                b"id" => id = leading_integer(value).map(|(len, n)| (member.value.start, len, n)),
                b"name" if value.starts_with(b"\"ProfilerStep#") => {
                    if let Some((len, step)) = leading_integer(&value[14..]) {
                        patches.push(patch(base, member.value.start + 14, len, Space::Step, step));
                    }
                }
                b"args" if value.starts_with(b"{") => args = Some(member.value.start),
                _ => {}
            }
        })?;
        event.end = event.start + duration + 1;
        if let Some((at, len, value)) = id.filter(|id| id.2 >= 0) {
            patches.push(patch(base, at, len, if async_copy { Space::Correlation } else { Space::OtherFlow }, value));
        }
        if let Some(args) = args {
            scan::each_member(text, args, |member| {
                let space = match member.name(text) {
                    b"correlation" | b"wait_on_cuda_event_record_corr_id" => Space::Correlation,
                    b"External id" | b"external id" | b"Record function id" => Space::External,
                    b"Python id" | b"Python parent id" => Space::Python,
                    b"Sequence number" => Space::Sequence,
                    b"Ev Idx" => Space::EventIndex,
                    _ => return,
                };
                let start = member.value.start;
                if let Some((len, value)) = leading_integer(&text[member.value])
                    .filter(|(_, n)| *n > 0 || (*n == 0 && space == Space::EventIndex))
                {
                    patches.push(patch(base, start, len, space, value));
                }
            })?;
        }
        patches[first..].sort_by_key(|p| p.at);
        Some(event)
    }
}

fn patch(base: usize, at: usize, len: usize, space: Space, value: i64) -> Patch {
    Patch { at: (at - base) as u32, len: len as u32, space, value }
}

/// Parse the digits of a JSON number before its decimal point: length in bytes and value. `None` with an exponent.
fn leading_integer(value: &[u8]) -> Option<(usize, i64)> {
    let len = value.iter().position(|b| !(b.is_ascii_digit() || *b == b'-')).unwrap_or(value.len());
    let number = std::str::from_utf8(&value[..len]).ok()?.parse().ok()?;
    // With an exponent, the integer part has another meaning.
    let exponent = value[len..].iter().any(|b| matches!(b, b'e' | b'E'));
    (!exponent).then_some((len, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo;
    use serde_json::Value;
    use std::collections::BTreeSet;

    fn events(text: &[u8], count: u64) -> Vec<Value> {
        let mut out = Vec::new();
        replicate(text, count, &mut out).unwrap();
        let mut json: Value = serde_json::from_slice(&out).unwrap();
        let list = if json.is_array() { json.take() } else { json["traceEvents"].take() };
        serde_json::from_value(list).unwrap()
    }

    fn ids(events: &[Value], category: &str, key: &str) -> Vec<i64> {
        events.iter().filter(|e| e["cat"] == category).filter_map(|e| e["args"][key].as_i64()).collect()
    }

    #[test]
    fn exact_count_and_fresh_ids() {
        let demo = demo::generate(&demo::Config { steps: 2, layers: 1, ..demo::Config::default() });
        let one: Value = serde_json::from_str(&demo).unwrap();
        let length = one["traceEvents"].as_array().unwrap().len() as u64;
        for count in [0, 1, length - 1, length, length + 1, 5 * length + 17] {
            let copies = events(demo.as_bytes(), count);
            assert_eq!(copies.len() as u64, count);
            for (category, key) in
                [("cuda_runtime", "correlation"), ("python_function", "Python id"), ("cpu_op", "Ev Idx")]
            {
                let all = ids(&copies, category, key);
                assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{category} {key} at {count}");
            }
        }
        let copies = events(demo.as_bytes(), 4 * length);
        let steps: BTreeSet<_> =
            copies.iter().filter_map(|e| e["name"].as_str()).filter(|n| n.starts_with("ProfilerStep#")).collect();
        assert_eq!(
            steps.iter().copied().collect::<Vec<_>>()[..3],
            ["ProfilerStep#10", "ProfilerStep#11", "ProfilerStep#12"]
        );
        assert!(steps.len() >= 8);
    }

    #[test]
    fn first_copy_equals_the_input_and_others_follow() {
        let demo = demo::generate(&demo::Config { steps: 1, layers: 1, ..demo::Config::default() });
        let one: Value = serde_json::from_str(&demo).unwrap();
        let one = one["traceEvents"].as_array().unwrap();
        let two = events(demo.as_bytes(), 2 * one.len() as u64);
        assert_eq!(two[..one.len()], one[..]);
        let end = |e: &Value| e["ts"].as_f64().unwrap() + e["dur"].as_f64().unwrap_or(0.0);
        let slices =
            |part: &[Value]| part.iter().filter(|e| e["ph"] == "X" && e["cat"] != "Trace").cloned().collect::<Vec<_>>();
        let last = slices(one).iter().map(end).fold(0.0, f64::max);
        assert!(slices(&two[one.len()..]).iter().all(|e| e["ts"].as_f64().unwrap() > last));
        assert!(two[one.len()..].iter().all(|e| e["ph"] != "M"));
    }

    #[test]
    fn bare_arrays_and_whole_microseconds() {
        let text =
            br#"[{"ph":"X","cat":"cpu_op","name":"a","ts":100,"dur":5,"pid":1,"tid":"7","args":{"correlation":-1}}]"#;
        let copies = events(text, 3);
        assert_eq!(copies.iter().map(|e| e["ts"].as_i64().unwrap()).collect::<Vec<_>>(), [100, 1106, 2112]);
        assert!(copies.iter().all(|e| e["args"]["correlation"] == -1));
        assert!(replicate(b"{}", 3, &mut Vec::new()).is_err());
    }
}
