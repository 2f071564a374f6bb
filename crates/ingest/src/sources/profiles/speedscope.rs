//! Reader of the speedscope format (`*.speedscope.json`), as written by py-spy, pyinstrument and many other tools.
//!
//! The file is read element by element, and each stack is stored as one number.

use super::{FrameText, Path, Profile};
use crate::sources::streamed_json::{Fields, FieldsSeed};
use crate::sources::{Content, Sniff};
use crate::{Error, ReadOptions, diagnostics};
use memchr::memmem;
use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess};
use stackline_model::{CallProcess, CallingContextTree};
use std::io::BufReader;

/// Schema that each file names, usually in its first line.
const SCHEMA: &[u8] = b"speedscope.app/file-format-schema.json";

/// Detect the schema, or the two parts of a file, in the first bytes.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    let Content::Bytes { head, .. } = content else { return Sniff::No };
    let has = |text: &[u8]| memmem::find(head, text).is_some();
    if !head.trim_ascii_start().starts_with(b"{") || has(b"\"traceEvents\"") {
        return Sniff::No;
    }
    match () {
        () if has(SCHEMA) => Sniff::Yes("the file names the speedscope schema"),
        () if has(b"\"shared\"") && has(b"\"frames\"") || has(b"\"profiles\"") && has(b"\"endValue\"") => {
            Sniff::Yes("the file has the speedscope keys shared and frames, or profiles and endValue")
        }
        () => Sniff::No,
    }
}

/// Read a speedscope profile into a calling context tree.
pub(crate) fn open(name: &str, content: Content<'_>, options: &ReadOptions) -> Result<CallingContextTree, Error> {
    let Content::Bytes { stream, .. } = content else { return Ok(CallingContextTree::default()) };
    let mut document =
        Document { profile: Profile::new(CallProcess::default()), frames: Vec::new(), threads: 0, has_values: false };
    let mut parser = serde_json::Deserializer::from_reader(BufReader::with_capacity(256 << 10, stream));
    let read = FieldsSeed(&mut document).deserialize(&mut parser);
    let unnamed = document.profile.largest_frame().filter(|&number| number as usize >= document.frames.len());
    if let Err(error) = read {
        if options.is_cancelled() {
            return Err(Error::Cancelled);
        }
        // Truncated names cannot be restored.
        if !document.has_values || unnamed.is_some() {
            let reason = format!("the speedscope profile is truncated or damaged: {error}");
            return Err(Error::Malformed { path: name.into(), reason, offset: 0 });
        }
        let code = if error.is_eof() || error.is_io() { diagnostics::TRUNCATED } else { diagnostics::DAMAGED_EVENT };
        code.count(document.profile.report(), None, &error.to_string());
    }
    if let Some(number) = unnamed {
        let example = format!("frame {number} is used, although the profile has only {} frames", document.frames.len());
        diagnostics::DANGLING_RECORD.count(document.profile.report(), None, &example);
    }
    let frames = document.frames;
    Ok(document
        .profile
        .finish(|number| frames.get(number as usize).map_or_else(FrameText::default, SharedFrame::frame)))
}

/// Frame of the frame table that all profiles of a file share.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SharedFrame {
    name: String,
    file: Option<String>,
    line: Option<u32>,
}

impl SharedFrame {
    /// Texts and line of the shared frame.
    fn frame(&self) -> FrameText<'_> {
        let file = self.file.as_deref().unwrap_or_default();
        FrameText { function: &self.name, file, line: self.line.unwrap_or(0), ..FrameText::default() }
    }
}

/// Receiver of a file: the shared frames, and the call tree of its profiles.
struct Document {
    frames: Vec<SharedFrame>,
    profile: Profile,
    threads: u32,
    /// True if any profile was read to its end.
    has_values: bool,
}

impl<'de> Fields<'de> for Document {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "shared" => map.next_value_seed(FieldsSeed(&mut SharedFrames(&mut self.frames))),
            "profiles" => map.next_value_seed(FieldsSeed(&mut Profiles(self))),
            _ => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

struct SharedFrames<'f>(&'f mut Vec<SharedFrame>);

impl<'de> Fields<'de> for SharedFrames<'_> {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "frames" => map.next_value_seed(FieldsSeed(self.0)),
            _ => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

struct Profiles<'d>(&'d mut Document);

impl<'de> Fields<'de> for Profiles<'_> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let mut one = OneProfile {
            profile: &mut self.0.profile,
            name: String::new(),
            unit: String::new(),
            end: None,
            stacks: Vec::new(),
            weights: Vec::new(),
            events: Vec::new(),
        };
        let read = list.next_element_seed(FieldsSeed(&mut one));
        let OneProfile { name, unit, end, stacks, weights, events, .. } = one;
        if !stacks.is_empty() || !events.is_empty() {
            self.0.threads += 1;
            self.0.has_values = true;
            self.0.put(&name, &unit, (&stacks, &weights), (&events, end));
        }
        Ok(read?.is_some())
    }
}

/// Receiver of one profile of a file: sampled, or evented.
struct OneProfile<'p> {
    profile: &'p mut Profile,
    name: String,
    unit: String,
    end: Option<f64>,
    stacks: Vec<Path>,
    weights: Vec<Option<f64>>,
    events: Vec<Event>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Event {
    r#type: EventType,
    at: f64,
    frame: u32,
}

/// Type of an event: a frame opens or closes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
enum EventType {
    O,
    C,
    #[default]
    #[serde(other)]
    Other,
}

impl<'de> Fields<'de> for OneProfile<'_> {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "name" => self.name = map.next_value::<Option<String>>()?.unwrap_or_default(),
            "unit" => self.unit = map.next_value::<Option<String>>()?.unwrap_or_default(),
            "endValue" => self.end = map.next_value()?,
            "samples" => {
                let Self { profile, stacks, .. } = self;
                map.next_value_seed(FieldsSeed(&mut Stacks { profile, stacks }))?;
            }
            "weights" => map.next_value_seed(FieldsSeed(&mut self.weights))?,
            "events" => map.next_value_seed(FieldsSeed(&mut self.events))?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

/// Receiver of the stacks of a sampled profile, each starting with the outermost frame.
struct Stacks<'s> {
    profile: &'s mut Profile,
    stacks: &'s mut Vec<Path>,
}

impl<'de> Fields<'de> for Stacks<'_> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let mut stack = Stack { profile: self.profile, path: 0 };
        let read = list.next_element_seed(FieldsSeed(&mut stack))?;
        self.stacks.extend(read.map(|()| stack.path));
        Ok(read.is_some())
    }
}

/// Receiver of the frames of one stack, which are added to its path.
struct Stack<'s> {
    profile: &'s mut Profile,
    path: Path,
}

impl<'de> Fields<'de> for Stack<'_> {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let frame = list.next_element::<u32>()?;
        if let Some(frame) = frame {
            self.path = self.profile.child(self.path, frame);
        }
        Ok(frame.is_some())
    }
}

impl Document {
    /// Add one profile as a thread: sampled stacks with weights, or events that open and close frames.
    fn put(
        &mut self,
        name: &str,
        unit: &str,
        (stacks, weights): (&[Path], &[Option<f64>]),
        (events, end): (&[Event], Option<f64>),
    ) {
        let profile = &mut self.profile;
        let thread = profile.thread(self.threads, name);
        // Without weights the number of samples is used, because their duration is unknown.
        let unit = if weights.is_empty() && !stacks.is_empty() { "none" } else { unit };
        let (metric, scale) = profile.metric("", unit);
        let add = |profile: &mut Profile, path: Path, weight: f64| {
            profile.add_number(
                (path, thread, metric),
                weight * scale,
                &format!("a sample value of {weight:e} in {name}"),
            );
        };
        for (at, &path) in stacks.iter().enumerate() {
            match weights.get(at) {
                Some(&Some(weight)) => add(profile, path, weight),
                None if weights.is_empty() => add(profile, path, 1.0),
                _ => diagnostics::MISSING_VALUE.count(profile.report(), None, "a sample without a weight"),
            }
        }
        let mut open: Vec<(Path, u32)> = Vec::new();
        let mut last = events.first().map_or(0.0, |event| event.at);
        for event in events {
            let path = open.last().map_or(0, |&(path, _)| path);
            if !open.is_empty() {
                add(profile, path, event.at - last);
            }
            last = event.at;
            match event.r#type {
                EventType::O => open.push((profile.child(path, event.frame), event.frame)),
                // Frames that are still open within this one close with it.
                EventType::C => match open.iter().rposition(|&(_, frame)| frame == event.frame) {
                    Some(at) => open.truncate(at),
                    None => diagnostics::UNMATCHED_END.count(profile.report(), None, name),
                },
                EventType::Other => diagnostics::UNKNOWN_RECORD.count(profile.report(), None, name),
            }
        }
        if let Some(&(path, _)) = open.last() {
            add(profile, path, end.map_or(0.0, |end| (end - last).max(0.0)));
            diagnostics::UNFINISHED.count(profile.report(), None, name);
        }
    }
}
