//! Reader of collapsed stacks: one line per stack, `outermost;…;innermost 12`, as Brendan Gregg's scripts,
//! `py-spy record -f raw` and many other tools write. Values are usually integers. If one has a fraction, all are read
//! in thousandths.

use super::{FrameText, Path, Profile};
use crate::sources::{Content, Sniff};
use crate::{Error, ReadOptions, diagnostics};
use rustc_hash::FxHashMap;
use stackline_model::{CallProcess, CallingContextTree};
use std::io::{self, BufRead, BufReader, Read};

/// Number of lines that are examined for detection.
const EXAMINED_LINES: usize = 64;

/// Number of frames from which on a line is a stack, even if its end is not in the examined bytes.
const MIN_DEEP_FRAMES: usize = 1000;

/// Limit on the length of a line, in bytes: more than a hundred thousand frames.
const MAX_LINE: u64 = 8 << 20;

/// Detect text whose first lines all end with a number and some of which have several frames.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    let Content::Bytes { head, .. } = content else { return Sniff::No };
    let Some(end) = head.iter().rposition(|&byte| byte == b'\n') else {
        // A stack may be longer than the examined bytes.
        let is_deep =
            head.iter().filter(|&&byte| byte == b';').count() >= MIN_DEEP_FRAMES && head.first() != Some(&b'{');
        return if is_deep { Sniff::Maybe } else { Sniff::No };
    };
    let Ok(text) = std::str::from_utf8(&head[..end]) else { return Sniff::No };
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(EXAMINED_LINES).collect();
    // Logs end with fractions, too: `epoch 1; loss 0.5`.
    let is_stack =
        |line: &&str| parse_line(line).is_some_and(|(frames, value)| value.fract() == 0.0 || !frames.contains("; "));
    let are_stacks =
        lines.iter().all(|line| line.starts_with('#') || is_stack(line)) && lines.iter().any(|line| line.contains(';'));
    if are_stacks && !lines.is_empty() { Sniff::Maybe } else { Sniff::No }
}

/// Parse a line into its frames, separated by `;`, and its value; `None` without a number at the end of the line.
fn parse_line(line: &str) -> Option<(&str, f64)> {
    let (frames, value) = line.trim_end().rsplit_once([' ', '\t'])?;
    // Words such as `nan` are not values.
    let is_number = value.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
    Some((frames.trim_end(), value.parse().ok().filter(|value: &f64| is_number && value.is_finite())?))
}

/// Factor for values with fractions.
const PARTS: f64 = 1000.0;

/// Read collapsed stacks into a calling context tree.
pub(crate) fn open(_: &str, content: Content<'_>, options: &ReadOptions) -> Result<CallingContextTree, Error> {
    let mut profile = Profile::new(CallProcess::default());
    let mut stacks = Stacks::default();
    if let Content::Bytes { stream, .. } = content {
        stacks.read(stream, &mut profile, options)?;
    }
    let Stacks { names, values, .. } = stacks;
    let fractions = values.iter().filter(|(_, value)| value.fract() != 0.0);
    let (first, count) = (fractions.clone().next().map(|&(_, value)| value), fractions.count());
    let example = first.map_or(String::new(), |value| format!("{value}"));
    diagnostics::FRACTIONAL_VALUE.count_many(profile.report(), count as u64, None, &example);
    let (unit, scale) = if count > 0 { ("thousandths of samples", PARTS) } else { ("samples", 1.0) };
    let thread = profile.thread(0, "");
    let (metric, _) = profile.metric(unit, "");
    for (path, value) in values {
        profile.add_number((path, thread, metric), value * scale, &format!("a sample value of {value:e}"));
    }
    Ok(profile.finish(|number| {
        names
            .get(number as usize)
            .map_or_else(FrameText::default, |name| FrameText { function: name, ..FrameText::default() })
    }))
}

/// Number of bytes that a diagnostic shows of a line that is too long.
const EXAMPLE: usize = 80;

/// Result of reading a line.
enum Line {
    End,
    Complete,
    /// The line is longer than [`MAX_LINE`]: its first bytes were read, and the others skipped.
    TooLong,
}

/// Read a line of limited length into a buffer.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    let count = reader.by_ref().take(MAX_LINE).read_until(b'\n', line)? as u64;
    if count < MAX_LINE || line.ends_with(b"\n") {
        return Ok(if count == 0 { Line::End } else { Line::Complete });
    }
    reader.skip_until(b'\n')?;
    Ok(Line::TooLong)
}

/// Stacks of a collapsed text with their values. Only its end shows if values have fractions.
#[derive(Default)]
struct Stacks {
    numbers: FxHashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
    values: Vec<(Path, f64)>,
}

impl Stacks {
    /// Read all stacks of a text; invalid lines and a damaged stream are counted.
    fn read(&mut self, stream: &mut dyn Read, profile: &mut Profile, options: &ReadOptions) -> Result<(), Error> {
        let mut reader = BufReader::with_capacity(256 << 10, stream);
        let mut line = Vec::new();
        loop {
            match read_line(&mut reader, &mut line) {
                Ok(Line::End) => return Ok(()),
                Ok(Line::Complete) => {}
                Ok(Line::TooLong) => {
                    let start = String::from_utf8_lossy(&line[..EXAMPLE]);
                    diagnostics::LONG_LINE.count(profile.report(), None, &format!("{start}…"));
                    continue;
                }
                Err(error) => {
                    diagnostics::DAMAGED_STREAM.count(profile.report(), None, &error.to_string());
                    return Ok(());
                }
            }
            let text = String::from_utf8_lossy(&line);
            if text.trim().is_empty() || text.starts_with('#') {
                continue;
            }
            match parse_line(&text) {
                Some((frames, value)) => {
                    let path = self.path(frames, profile);
                    self.values.push((path, value));
                }
                None => diagnostics::DAMAGED_EVENT.count(profile.report(), None, text.trim_end()),
            }
            if options.is_cancelled() {
                return Err(Error::Cancelled);
            }
        }
    }

    /// Path number of frames that are separated by `;`, outermost first; new frame names get numbers.
    fn path(&mut self, frames: &str, profile: &mut Profile) -> Path {
        // py-spy writes a line without frames for stacks that it could not unwind.
        frames.split(';').filter(|name| !name.is_empty()).fold(0, |path, name| {
            let number = match self.numbers.get(name) {
                Some(&number) => number,
                None => {
                    let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
                    self.numbers.insert(name.into(), number);
                    self.names.push(name.into());
                    number
                }
            };
            profile.child(path, number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::split_location;
    use super::*;

    #[test]
    fn frames_with_places() {
        let parts = |name| {
            let FrameText { function, file, line, .. } = split_location(name);
            (function.to_owned(), file.to_owned(), line)
        };
        assert_eq!(parts("forward (model.py:12)"), ("forward".to_owned(), "model.py".to_owned(), 12));
        assert_eq!(parts("forward (model.py)"), ("forward".to_owned(), "model.py".to_owned(), 0));
        assert_eq!(parts("operator() (int)").0, "operator() (int)");
        assert_eq!(parts("start_thread").0, "start_thread");
        assert_eq!(parse_line("a;b c 12\r\n"), Some(("a;b c", 12.0)));
        assert_eq!(parse_line("a;b 1.5"), Some(("a;b", 1.5)));
        assert_eq!(parse_line("a;b"), None);
        assert_eq!(parse_line("a; nan"), None);
    }
}
