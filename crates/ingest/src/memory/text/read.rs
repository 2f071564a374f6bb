//! Parser of memory text, a line-based notation of memory traces (docs/formats/memory-text.md).

use super::lex::{Placed, Token, lex};
use super::{FIRST_DEVICE, FLAGS, TextError, range_error};
use crate::diagnostics;
use crate::memory::MOST_BYTES;
use rustc_hash::FxHashMap;
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, AddressMap, ByteRange, MemoryCallId, MemoryCallKind, MemoryDeviceId,
    MemoryObjectId, MemoryObjectKind, MemoryStreamId, MemoryTrace, NewCall, NewObject, StrId, call_flags,
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

/// Options of a statement, for its call and its object.
struct Options {
    call: NewCall,
    object: NewObject,
    evidence: AccessEvidence,
    /// Device of the object.
    device: MemoryDeviceId,
    has_stream: bool,
    has_time: bool,
}

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

    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |placed| &placed.token)
    }

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

    fn word(&mut self, expectation: &str) -> Result<String, TextError> {
        if let Token::Word(word) | Token::Quoted(word) = self.peek() {
            let word = word.clone();
            self.at += 1;
            return Ok(word);
        }
        self.error(0, format!("{expectation}, found {}", self.peek().shown()))
    }

    fn mark(&mut self, mark: char) -> Result<(), TextError> {
        if self.take(&Token::Mark(mark)) {
            return Ok(());
        }
        self.error(0, format!("expected `{mark}`, found {}", self.peek().shown()))
    }

    fn number<T: std::str::FromStr>(&mut self, expectation: &str) -> Result<T, TextError> {
        let word = self.word(expectation)?;
        match word.parse() {
            Ok(number) => Ok(number),
            Err(_) => self.error(1, format!("{expectation} as an integer within range, found `{word}`")),
        }
    }

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
                let what = format!("unknown statement `{other}`; use a, o, f, s, h, d, c, k, e, w, y, device or end");
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

    fn not_alive<T>(&self, name: &str) -> Result<T, TextError> {
        self.error(1, format!("object `{name}` is not allocated at this line; allocate it first with: a {name} BYTES"))
    }

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

    fn part(&mut self) -> Result<Part, TextError> {
        let name = self.word("expected the name of an object")?;
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

    fn synchronization(&mut self, what: &str) -> Result<(), TextError> {
        let name = if what == "y" { String::new() } else { self.word("expected a synchronization event")? };
        let waited = self.events.get(&name).copied();
        if what == "w" && waited.is_none() {
            let why = format!("synchronization event `{name}` is not recorded yet; record it first with: e {name}");
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

    fn options(&mut self) -> Result<Options, TextError> {
        let (device, stream) = (self.device(), self.stream(0));
        let start_ns = i64::try_from(self.trace.calls.len()).unwrap_or(i64::MAX);
        let call = NewCall { start_ns, stream, ..NewCall::default() };
        let object = NewObject { device, ..NewObject::default() };
        let evidence = AccessEvidence::Instrumented;
        let mut options = Options { call, object, evidence, device, has_stream: false, has_time: false };
        loop {
            if self.take(&Token::Mark('@')) {
                let key = self.number("expected a stream number")?;
                options.call.stream = self.stream(key);
                options.has_stream = true;
                continue;
            }
            let Token::Word(key) = self.peek().clone() else {
                if options.has_time {
                    self.count_decreasing_time(&options.call);
                }
                return Ok(options);
            };
            self.at += 1;
            match FLAGS.iter().find(|(name, _)| *name == key) {
                Some((_, flag)) => options.call.flags |= flag,
                None => self.option(&key, &mut options)?,
            }
        }
    }

    fn option(&mut self, key: &str, options: &mut Options) -> Result<(), TextError> {
        if !self.take(&Token::Mark('=')) {
            return self.error(1, format!("`{key}` is not an option; see docs/formats/memory-text.md for all options"));
        }
        let object = &mut options.object;
        match key {
            "t" => (options.call.start_ns, options.has_time) = (self.number("expected a time in ns")?, true),
            "dur" => options.call.duration_ns = self.number("expected a duration in ns")?,
            "address" => object.address = self.number("expected an address")?,
            "requested" => object.requested = self.number("expected the number of requested bytes")?,
            "at" => options.call.stack = self.frame(options)?,
            "via" => options.evidence = self.evidence()?,
            "on" => {
                let name = self.word("expected the name of a device")?;
                options.device = self.device_named(&name);
            }
            "call" => {
                let name = self.word("expected the name of the call")?;
                options.call.name = self.trace.strings.intern(&name);
            }
            "kind" => {
                let name = self.word("the kind of the object")?;
                match MemoryObjectKind::from_name(&name) {
                    Some(kind) => object.kind = kind,
                    None => {
                        return self
                            .error(1, format!("`{name}` is not a kind of object; use parameter, gradient, activation or another kind listed in docs/formats/memory-text.md"));
                    }
                }
            }
            _ => self.text_option(key, options)?,
        }
        Ok(())
    }

    /// Count a call that starts before an earlier call of its stream.
    fn count_decreasing_time(&mut self, call: &NewCall) {
        let latest = self.latest_ns.entry(call.stream).or_insert(call.start_ns);
        if call.start_ns < *latest {
            let example = format!("{} ns", latest.saturating_sub(call.start_ns));
            diagnostics::MEMORY_CLOCK_BACK.count(&mut self.trace.report, None, &example);
        }
        *latest = call.start_ns.max(*latest);
    }

    fn evidence(&mut self) -> Result<AccessEvidence, TextError> {
        let name = self.word("expected the evidence of the accesses")?;
        match AccessEvidence::ALL.into_iter().find(|known| known.name() == name) {
            Some(evidence) => Ok(evidence),
            None => self
                .error(1, format!("`{name}` is not evidence; use instrumented, operator-level, may-access or opaque")),
        }
    }

    fn text_option(&mut self, key: &str, options: &mut Options) -> Result<(), TextError> {
        let object = &mut options.object;
        let place: &mut StrId = match key {
            "name" => &mut object.name,
            "pool" => &mut object.pool,
            "dtype" => &mut object.dtype,
            "shape" => &mut object.shape,
            "module" => &mut object.module,
            "operator" => &mut object.operator,
            _ => return self.error(2, format!("unknown option `{key}`")),
        };
        let value = self.word("expected the value of the option")?;
        *place = self.trace.strings.intern(&value);
        Ok(())
    }

    fn frame(&mut self, options: &Options) -> Result<stackline_model::MemoryStackId, TextError> {
        let file = self.word("expected a file name")?;
        self.mark(':')?;
        let line = self.number("expected a line number")?;
        self.mark(':')?;
        let function = self.word("expected a function name")?;
        let (file, function) = (self.trace.strings.intern(&file), self.trace.strings.intern(&function));
        let frame = stackline_model::Frame::of_line(function, file, line, &self.trace.strings);
        Ok(self.trace.stacks.intern(options.call.stack, frame))
    }
}
