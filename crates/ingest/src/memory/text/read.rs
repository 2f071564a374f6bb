//! Parser of memory text, a line-based notation of memory traces (docs/formats/memory-text.md).

mod options;

use super::lex::{Placed, Token, lex};
use super::{FIRST_DEVICE, FLAGS, TextError, range_error};
use crate::diagnostics;
use crate::memory::MOST_BYTES;
use options::Options;
use rustc_hash::FxHashMap;
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, AddressMap, ByteRange, MemoryCallId, MemoryCallKind, MemoryDeviceId,
    MemoryObjectId, MemoryStreamId, MemoryTrace, NewCall, NewObject, call_flags,
};

/// Read a memory trace from memory text. `label` is the name that users see.
///
/// # Errors
/// The first error, with its line and column.
pub fn read(label: &str, text: &str) -> Result<MemoryTrace, TextError> {
    let mut reader = Reader::new(label, lex(text)?);
    while reader.at < reader.tokens.len() {
        if reader.take(&Token::End) {
            continue;
        }
        reader.statement()?;
        reader.trace.report.records += 1;
    }
    let mut trace = reader.trace;
    trace.report.events = trace.calls.len() as u64;
    trace.report.sort();
    Ok(trace)
}

/// Object in a statement's list of accesses, with the accessed bytes.
#[derive(PartialEq)]
struct Part {
    object: MemoryObjectId,
    /// Accessed bytes, if the text states them.
    extent: Option<AccessExtent>,
    ranges: Vec<ByteRange>,
    /// Evidence of the access, if it differs from that of the call.
    evidence: Option<AccessEvidence>,
}

/// Parser of the tokens of a text, with the trace so far and the live objects by name.
struct Reader {
    tokens: Vec<Placed>,
    at: usize,
    trace: MemoryTrace,
    /// Device of the statements, if the text names one.
    device: Option<MemoryDeviceId>,
    live: FxHashMap<String, MemoryObjectId>,
    events: FxHashMap<String, MemoryCallId>,
    /// Live objects by address and device; objects without an address are not included.
    places: FxHashMap<MemoryDeviceId, AddressMap>,
    /// Latest time of each stream: streams run concurrently.
    latest_ns: FxHashMap<MemoryStreamId, i64>,
}

impl Reader {
    fn new(label: &str, tokens: Vec<Placed>) -> Self {
        let trace = MemoryTrace { label: label.to_owned(), ..MemoryTrace::default() };
        let (live, events, places) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Self { tokens, at: 0, trace, device: None, live, events, places, latest_ns: FxHashMap::default() }
    }

    /// Current device of the statements; the default device if the text has named none.
    fn device(&mut self) -> MemoryDeviceId {
        *self.device.get_or_insert_with(|| self.trace.device(FIRST_DEVICE))
    }

    /// Stream with this number on the current device; none if the device is unknown.
    fn stream(&mut self, key: u64) -> MemoryStreamId {
        match self.device() {
            MemoryDeviceId::NONE => MemoryStreamId::NONE,
            device => self.trace.stream(device, key),
        }
    }

    /// Next token, without taking it; [`Token::End`] at the end of the text.
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |placed| &placed.token)
    }

    /// Take the next token if it is this one, and return true if it was taken.
    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        self.at += usize::from(found);
        found
    }

    /// Syntax error at the token `back` positions before the next one.
    fn error<T>(&self, back: usize, what: String) -> Result<T, TextError> {
        let at = self.at.saturating_sub(back).min(self.tokens.len().saturating_sub(1));
        let (line, column) = self.tokens.get(at).map_or((1, 1), |placed| (placed.line, placed.column));
        Err(TextError { line, column, what })
    }

    /// Take a word, quoted or not; an error that begins with `expectation` for any other token.
    fn word(&mut self, expectation: &str) -> Result<String, TextError> {
        if let Token::Word(word) | Token::Quoted(word) = self.peek() {
            let word = word.clone();
            self.at += 1;
            return Ok(word);
        }
        self.error(0, format!("{expectation}, found {}", self.peek().shown()))
    }

    /// Take this punctuation mark; an error for any other token.
    fn mark(&mut self, mark: char) -> Result<(), TextError> {
        if self.take(&Token::Mark(mark)) {
            return Ok(());
        }
        self.error(0, format!("expected `{mark}`, found {}", self.peek().shown()))
    }

    /// Take a word and parse it as an integer; an error that begins with `expectation` for any other token.
    fn number<T: std::str::FromStr>(&mut self, expectation: &str) -> Result<T, TextError> {
        let word = self.word(expectation)?;
        match word.parse() {
            Ok(number) => Ok(number),
            Err(_) => self.error(1, format!("{expectation} as an integer within range, found `{word}`")),
        }
    }

    /// Parse one statement with its options, and add its calls and objects to the trace.
    fn statement(&mut self) -> Result<(), TextError> {
        if self.trace.saw_end {
            return self.error(0, "a statement follows `end`; remove it, or move `end` to the last line".to_owned());
        }
        let first = self.word("expected a statement")?;
        match first.as_str() {
            "a" | "o" => self.object(first == "a")?,
            "f" => {
                let object = if self.is_name() { self.take_freed()? } else { MemoryObjectId::NONE };
                if object.is_none() {
                    diagnostics::MEMORY_UNKNOWN_FREE.count(&mut self.trace.report, None, "a free without an object");
                }
                let call = self.options()?.call;
                self.trace.release(object, call);
            }
            "s" => self.copy(MemoryCallKind::Set, &[AccessMode::Write])?,
            "h" => self.copy(MemoryCallKind::CopyToDevice, &[AccessMode::Write])?,
            "d" => self.copy(MemoryCallKind::CopyToHost, &[AccessMode::Read])?,
            "c" => self.copy(MemoryCallKind::CopyOnDevice, &[AccessMode::Write, AccessMode::Read])?,
            "k" => self.kernel()?,
            "e" | "w" | "y" => self.synchronization(&first)?,
            "device" => {
                let name = self.word("expected the name of a device")?;
                self.device = Some(self.device_named(&name));
            }
            "end" => self.trace.saw_end = true,
            other => {
                let what = format!(
                    "unknown memory-text statement `{other}`; docs/formats/memory-text.md lists all statements"
                );
                return self.error(1, what);
            }
        }
        if self.take(&Token::End) {
            return Ok(());
        }
        self.error(0, format!("expected the end of the statement, found {}", self.peek().shown()))
    }

    /// Find or add a device by name; an empty name means an unknown device.
    fn device_named(&mut self, name: &str) -> MemoryDeviceId {
        if name.is_empty() { MemoryDeviceId::NONE } else { self.trace.device(name) }
    }

    /// Parse the name of the object that a statement frees, and remove the object from the live ones.
    fn take_freed(&mut self) -> Result<MemoryObjectId, TextError> {
        let name = self.word("expected the name of the object to free")?;
        match self.live.remove(&name) {
            Some(object) => {
                let row = object.index();
                let address = self.trace.objects.address[row];
                let place = self.places.get_mut(&self.trace.objects.device[row]);
                let own = place.filter(|place| place.find(address).is_some_and(|(found, _)| found == object));
                own.and_then(|place| place.remove(address));
                Ok(object)
            }
            None => self.not_alive(&name),
        }
    }

    /// Count an object as a problem if its size is impossible or it overlaps a live object.
    fn count_impossible(&mut self, name: &str, id: MemoryObjectId) {
        let (objects, row) = (&self.trace.objects, id.index());
        let (address, bytes, device) = (objects.address[row], objects.bytes[row], objects.device[row]);
        if bytes > MOST_BYTES {
            diagnostics::MEMORY_HUGE.count(&mut self.trace.report, None, &format!("{name} of {bytes} bytes"));
        }
        if address > 0 && !self.places.entry(device).or_default().insert(address, bytes, id).is_empty() {
            diagnostics::MEMORY_SAME_PLACE.count(&mut self.trace.report, None, &format!("{name} at {address:#x}"));
        }
    }

    /// Error at the last token for the name of an object that is not live.
    fn not_alive<T>(&self, name: &str) -> Result<T, TextError> {
        self.error(1, format!("object `{name}` is not allocated at this line; allocate it first with: a {name} BYTES"))
    }

    /// Parse an object's name, size and options, and add the object as `allocated` by a call or as older than the
    /// trace.
    fn object(&mut self, allocated: bool) -> Result<(), TextError> {
        let name = self.word("expected the name of the object")?;
        if self.live.contains_key(&name) {
            return self.error(1, format!("object `{name}` is not freed yet; free it first or use another name"));
        }
        let bytes = self.number("expected the size in bytes")?;
        let known = self.trace.strings.intern(&name);
        let Options { call, mut object, device, .. } = self.options()?;
        object.device = device;
        object.bytes = bytes;
        if object.name.is_none() {
            object.name = known;
        }
        object.stream = call.stream;
        let id = if allocated {
            self.trace.allocate(object, call)
        } else {
            self.trace.add_older(NewObject { stack: call.stack, ..object })
        };
        self.count_impossible(&name, id);
        self.live.insert(name, id);
        Ok(())
    }

    /// Parse a fill or copy, with one object per mode or with lists of accesses, and add its call.
    fn copy(&mut self, kind: MemoryCallKind, modes: &[AccessMode]) -> Result<(), TextError> {
        let mut parts = Vec::new();
        if self.peek() != &Token::Mark('>') {
            parts.push(self.part()?);
        }
        if parts.is_empty() || matches!(self.peek(), Token::Mark(',' | '>')) {
            parts.extend(if self.take(&Token::Mark(',')) { self.list()? } else { Vec::new() });
            let lists = self.access_lists(parts)?;
            let options = self.options()?;
            self.trace.calls.push(kind, options.call);
            self.touch(&lists, options.evidence, AccessExtent::Whole);
            return Ok(());
        }
        for _ in 1..modes.len() {
            parts.push(self.part()?);
        }
        let options = self.options()?;
        self.trace.calls.push(kind, options.call);
        for (mode, part) in modes.iter().zip(&parts) {
            self.access(part, *mode, options.evidence, AccessExtent::Whole);
        }
        self.trace.seal_call();
        Ok(())
    }

    /// Parse a kernel's name, access lists and options, and add its call.
    fn kernel(&mut self) -> Result<(), TextError> {
        let name = self.word("expected the name of the kernel")?;
        let name = self.trace.strings.intern(&name);
        let reads = self.list()?;
        let lists = self.access_lists(reads)?;
        let options = self.options()?;
        // Any other kernel lists all of its accesses, even if there are none.
        self.trace.has_accesses |= options.call.flags & call_flags::OPAQUE == 0;
        self.trace.calls.push(MemoryCallKind::Kernel, NewCall { name, ..options.call });
        self.touch(&lists, options.evidence, AccessExtent::Unknown);
        Ok(())
    }

    /// Lists of reads, writes and accesses of unknown direction; the reads are already parsed.
    fn access_lists(&mut self, reads: Vec<Part>) -> Result<[Vec<Part>; 3], TextError> {
        let mut lists = [reads, Vec::new(), Vec::new()];
        for list in &mut lists[1..] {
            if self.take(&Token::Mark('>')) {
                *list = self.list()?;
            }
        }
        Ok(lists)
    }

    /// Add the accesses of the last call. Objects in both of the first two lists are read and written.
    fn touch(&mut self, [reads, writes, others]: &[Vec<Part>; 3], evidence: AccessEvidence, unsaid: AccessExtent) {
        for part in reads {
            let mode = if writes.contains(part) { AccessMode::Both } else { AccessMode::Read };
            self.access(part, mode, evidence, unsaid);
        }
        for part in writes.iter().filter(|part| !reads.contains(part)) {
            self.access(part, AccessMode::Write, evidence, unsaid);
        }
        for part in others {
            self.access(part, AccessMode::Unknown, evidence, unsaid);
        }
        self.trace.seal_call();
    }

    /// Add one access to the last call; `evidence` and the extent `unsaid` apply if the text states none.
    fn access(&mut self, part: &Part, mode: AccessMode, evidence: AccessEvidence, unsaid: AccessExtent) {
        let evidence = part.evidence.unwrap_or(evidence);
        let accesses = &mut self.trace.accesses;
        match part.extent.unwrap_or(unsaid) {
            AccessExtent::Ranges => accesses.push_ranges(part.object, mode, evidence, &part.ranges),
            extent => accesses.push(part.object, mode, evidence, extent),
        }
    }

    /// Parse a list of object names with byte ranges, up to another token or an option.
    fn list(&mut self) -> Result<Vec<Part>, TextError> {
        let mut parts = Vec::new();
        if self.is_name() {
            parts.push(self.part()?);
            while self.take(&Token::Mark(',')) {
                parts.push(self.part()?);
            }
        }
        Ok(parts)
    }

    /// Check if the next token is a name, not an option.
    fn is_name(&self) -> bool {
        match self.peek() {
            Token::Quoted(_) => true,
            Token::Word(_) => !self.is_option(),
            _ => false,
        }
    }

    /// Check if the next word is an option, not a name: `opaque`, `sync` and similar words, or a word before `=`.
    fn is_option(&self) -> bool {
        let after = self.tokens.get(self.at + 1).map(|placed| &placed.token);
        let flag = matches!(self.peek(), Token::Word(word) if FLAGS.iter().any(|(name, _)| name == word));
        flag && !matches!(after, Some(Token::Mark(',' | '>' | '['))) || after == Some(&Token::Mark('='))
    }

    /// Parse one accessed object: a live object's name, with optional byte ranges and evidence.
    fn part(&mut self) -> Result<Part, TextError> {
        let name = self.word("expected the name of a memory object")?;
        let Some(object) = self.live.get(&name).copied() else { return self.not_alive(&name) };
        let mut part = Part { object, extent: None, ranges: Vec::new(), evidence: None };
        if self.take(&Token::Mark('[')) {
            if self.take(&Token::Word("some".to_owned())) {
                self.mark(']')?;
                part.extent = Some(AccessExtent::Unknown);
            } else {
                part.ranges = self.ranges(object)?;
                part.extent = Some(if part.ranges.is_empty() { AccessExtent::Whole } else { AccessExtent::Ranges });
            }
        }
        if self.take(&Token::Mark(':')) {
            part.evidence = Some(self.evidence()?);
        }
        Ok(part)
    }

    /// Parse the byte ranges of an access after the bracket, up to the closing bracket; empty for `[:]`, all bytes.
    fn ranges(&mut self, object: MemoryObjectId) -> Result<Vec<ByteRange>, TextError> {
        let mut ranges: Vec<ByteRange> = Vec::new();
        if self.take(&Token::Mark(':')) {
            self.mark(']')?;
            return Ok(ranges);
        }
        loop {
            let begin = self.number("expected the first byte of the range")?;
            self.mark(':')?;
            let end = self.number("expected the end of the byte range")?;
            let times = if self.take(&Token::Mark('*')) { self.number("expected the number of accesses")? } else { 1 };
            let after = ranges.last().map_or(0, |last| last.end);
            let size = self.trace.objects.bytes[object.index()];
            if begin < after || end <= begin || end > size || times == 0 {
                return self.error(1, range_error(begin, end, size, times));
            }
            ranges.push(ByteRange { begin, end, times });
            if !self.take(&Token::Mark('+')) {
                self.mark(']')?;
                return Ok(ranges);
            }
        }
    }

    /// Parse and add a statement `e` (record an event), `w` (wait for an event) or `y` (host wait), given by `what`.
    fn synchronization(&mut self, what: &str) -> Result<(), TextError> {
        let name = if what == "y" { String::new() } else { self.word("expected a synchronization event")? };
        let waited = self.events.get(&name).copied();
        if what == "w" && waited.is_none() {
            let why = format!(
                "the wait uses event `{name}`, which no earlier statement records; put the statement `e {name}` before it"
            );
            return self.error(1, why);
        }
        let options = self.options()?;
        let (kind, target) = match (what, waited) {
            ("e", _) => (MemoryCallKind::EventRecord, u32::MAX),
            ("w", Some(event)) => (MemoryCallKind::EventWait, event.0),
            _ => (MemoryCallKind::HostSync, if options.has_stream { options.call.stream.0 } else { u32::MAX }),
        };
        let text = self.trace.strings.intern(&name);
        let id = self.trace.calls.push(kind, NewCall { target, name: text, ..options.call });
        self.trace.seal_call();
        if what == "e" {
            self.events.insert(name, id);
        }
        Ok(())
    }
}
