//! Writer of memory traces as memory text, their line-based notation (docs/formats/memory-text.md).

use super::lex::is_bare;
use super::{FIRST_DEVICE, FLAGS};
use rustc_hash::FxHashMap;
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, MemoryAccess, MemoryCallId, MemoryCallKind, MemoryDeviceId,
    MemoryObjectId, MemoryObjectKind, MemoryStackId, MemoryTrace, StrId,
};
use std::fmt::Write;

/// Write a trace as memory text: calls, objects and accesses. Data of the caching allocator, phases, names of events
/// and the read report are not part of the format.
pub fn write(trace: &MemoryTrace) -> String {
    write_counted(trace).0
}

/// Write a trace like [`write()`], and count the omitted accesses, ranges and waits: accesses of calls without accesses,
/// of objects that are not alive, of bytes outside the object, and waits without an event.
pub fn write_counted(trace: &MemoryTrace) -> (String, u64) {
    let (text, device) = (String::new(), FIRST_DEVICE.to_owned());
    let mut writer = Writer { trace, text, labels: labels(trace), device, older: 0, left_out: 0 };
    writer.devices();
    for call in trace.calls.ids() {
        // Objects keep their order: older ones are written before younger ones, and before their uses.
        let last = named_objects(trace, call).map(MemoryObjectId::index).max();
        writer.older_up_to(last.map_or(0, |last| last + 1));
        writer.call(call);
    }
    writer.older_up_to(trace.objects.len());
    if trace.saw_end {
        writer.text.push_str("end\n");
    }
    (writer.text, writer.left_out)
}

/// Check if the statement of a call lists its accesses.
fn lists_accesses(trace: &MemoryTrace, call: MemoryCallId) -> bool {
    let kind = trace.calls.kind[call.index()];
    kind.is_copy() || matches!(kind, MemoryCallKind::Kernel | MemoryCallKind::Set)
}

/// Objects in the statement of a call: accessed live objects, and the one that it allocates or frees.
fn named_objects(trace: &MemoryTrace, call: MemoryCallId) -> impl Iterator<Item = MemoryObjectId> {
    let lists = lists_accesses(trace, call);
    let alive = move |access: &MemoryAccess| lists && trace.life(access.object).contains(&call.index());
    let about = trace.object_of(call).filter(move |object| {
        let row = object.index();
        trace.objects.allocated_by[row] == call || trace.objects.freed_by[row] == call
    });
    trace.accesses_of(call).filter(alive).map(|access| access.object).chain(about)
}

/// Label of each object in the text: its name if unique, else a number.
fn labels(trace: &MemoryTrace) -> Vec<String> {
    let mut uses: FxHashMap<StrId, u32> = FxHashMap::default();
    for name in &trace.objects.name {
        *uses.entry(*name).or_default() += 1;
    }
    let free = |object: MemoryObjectId| {
        let label = format!("o{}", object.index());
        let taken = trace.strings.find(&label).is_some_and(|name| uses.contains_key(&name));
        if taken { format!("object~{}", object.index()) } else { label }
    };
    let label = |object: MemoryObjectId| {
        let name = trace.objects.name[object.index()];
        let single = uses.get(&name) == Some(&1) && !trace.strings.get(name).is_empty();
        if single { trace.strings.get(name).to_owned() } else { free(object) }
    };
    trace.objects.ids().map(label).collect()
}

/// Write a name of memory text with quotes if it is not a bare word.
fn quoted(name: &str) -> String {
    if !name.is_empty() && name.chars().all(is_bare) && !FLAGS.iter().any(|(word, _)| *word == name) {
        return name.to_owned();
    }
    let escaped = name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r");
    format!("\"{escaped}\"")
}

/// Writer of the statements of a trace, with the current device of the text.
struct Writer<'a> {
    trace: &'a MemoryTrace,
    text: String,
    labels: Vec<String>,
    device: String,
    /// Number of older objects that are already written.
    older: usize,
    left_out: u64,
}

impl Writer<'_> {
    /// Append formatted text, which cannot fail for a string.
    fn append(&mut self, words: std::fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(words);
    }

    /// Write all devices in their order, also unused ones; nothing if the only one is the default.
    fn devices(&mut self) {
        let trace = self.trace;
        let named = trace.devices.iter().map(|device| trace.strings.get(device.name)).filter(|name| !name.is_empty());
        let mut names: Vec<&str> = named.collect();
        let is_something = !(trace.calls.is_empty() && trace.objects.is_empty());
        if names == [FIRST_DEVICE] && is_something {
            return;
        }
        if names.is_empty() && is_something {
            names.push("");
        }
        for name in names {
            self.device = name.to_owned();
            self.append(format_args!("device {}\n", quoted(name)));
        }
    }

    /// Write the statements of the objects older than the trace, up to index `end` (exclusive).
    fn older_up_to(&mut self, end: usize) {
        let trace = self.trace;
        for object in (self.older..end).map(MemoryObjectId::new) {
            if trace.objects.allocated_by[object.index()].is_some() {
                continue;
            }
            self.on_device(trace.objects.device[object.index()]);
            self.object("o", object);
            let stream = trace.streams.get(trace.objects.stream[object.index()].index());
            if let Some(stream) = stream.filter(|stream| stream.key != 0) {
                self.append(format_args!(" @{}", stream.key));
            }
            self.frames(trace.objects.stack[object.index()]);
            self.text.push('\n');
        }
        self.older = self.older.max(end);
    }

    /// Write a `device` statement, unless this device is the current one or has no name.
    fn on_device(&mut self, device: MemoryDeviceId) {
        let name = self.trace.devices.get(device.index()).map_or("", |device| self.trace.strings.get(device.name));
        if name != self.device && !name.is_empty() {
            self.device = name.to_owned();
            self.append(format_args!("device {}\n", quoted(name)));
        }
    }

    /// Write the line of a call: its statement, stream, time, flags and call path.
    fn call(&mut self, call: MemoryCallId) {
        let (trace, row) = (self.trace, call.index());
        let stream = trace.streams.get(trace.calls.stream[row].index());
        let object = trace.object_of(call).map(|object| trace.objects.device[object.index()]);
        if let Some(device) = stream.map(|stream| stream.device).or(object) {
            self.on_device(device);
        }
        self.statement(call);
        let default = trace.calls.kind[row] == MemoryCallKind::HostSync && trace.calls.target[row] == u32::MAX;
        if let Some(stream) = stream.filter(|stream| stream.key != 0 && !default) {
            self.append(format_args!(" @{}", stream.key));
        } else if trace.calls.kind[row] == MemoryCallKind::HostSync && !default {
            self.text.push_str(" @0");
        }
        if trace.calls.start_ns[row] != i64::try_from(row).unwrap_or(i64::MAX) {
            self.append(format_args!(" t={}", trace.calls.start_ns[row]));
        }
        if trace.calls.duration_ns[row] != 0 {
            self.append(format_args!(" dur={}", trace.calls.duration_ns[row]));
        }
        for (word, _) in FLAGS.iter().filter(|(_, flag)| trace.calls.flags[row] & flag != 0) {
            self.append(format_args!(" {word}"));
        }
        self.frames(trace.calls.stack[row]);
        self.text.push('\n');
    }

    /// Write the statement of a call with its objects, without the options for stream, time, flags and call path.
    fn statement(&mut self, call: MemoryCallId) {
        let (trace, row) = (self.trace, call.index());
        let name = quoted(trace.strings.get(trace.calls.name[row]));
        self.left_out += if lists_accesses(trace, call) { 0 } else { trace.accesses_of(call).len() as u64 };
        match trace.calls.kind[row] {
            MemoryCallKind::Allocate => {
                let object = trace.calls.target_object(call);
                if trace.objects.allocated_by.get(object.index()) == Some(&call) {
                    self.object("a", object);
                } else {
                    // An allocation of no object becomes an event without a wait.
                    self.append(format_args!("e {}", event(row)));
                }
            }
            MemoryCallKind::Free => {
                let object = trace.calls.target_object(call);
                self.text.push('f');
                // A second free refers to no object.
                let is_alive = object.is_some() && trace.life(object).end == row;
                if is_alive && trace.objects.freed_by[object.index()] == call {
                    let label = quoted(&self.labels[object.index()]);
                    self.append(format_args!(" {label}"));
                }
            }
            MemoryCallKind::Set => self.copy("s", &[AccessMode::Write], call),
            MemoryCallKind::CopyToDevice => self.copy("h", &[AccessMode::Write], call),
            MemoryCallKind::CopyToHost => self.copy("d", &[AccessMode::Read], call),
            MemoryCallKind::CopyOnDevice => self.copy("c", &[AccessMode::Write, AccessMode::Read], call),
            MemoryCallKind::Kernel => {
                self.append(format_args!("k {name} "));
                self.lists(call, AccessExtent::Unknown);
            }
            MemoryCallKind::EventRecord => self.append(format_args!("e {}", event(row))),
            MemoryCallKind::EventWait => self.wait(call),
            MemoryCallKind::HostSync => self.text.push('y'),
        }
        let is_named = matches!(
            trace.calls.kind[row],
            MemoryCallKind::Kernel | MemoryCallKind::EventRecord | MemoryCallKind::EventWait | MemoryCallKind::HostSync
        );
        if !is_named && trace.calls.name[row].is_some() {
            self.append(format_args!(" call={name}"));
        }
    }

    /// Write the statement of a wait. A wait without a recorded event becomes an event of its own, which orders
    /// nothing.
    fn wait(&mut self, call: MemoryCallId) {
        let target = self.trace.calls.target[call.index()] as usize;
        let is_event = self.trace.calls.kind.get(target) == Some(&MemoryCallKind::EventRecord);
        let (statement, row) = if is_event { ('w', target) } else { ('e', call.index()) };
        self.left_out += u64::from(!is_event);
        self.append(format_args!("{statement} {}", event(row)));
    }

    /// Write the statement `a` or `o` of an object with its size and options.
    fn object(&mut self, statement: &str, object: MemoryObjectId) {
        let (objects, row) = (&self.trace.objects, object.index());
        let label = self.labels[row].clone();
        self.append(format_args!("{statement} {} {}", quoted(&label), objects.bytes[row]));
        let name = self.trace.strings.get(objects.name[row]);
        let device = self.trace.devices.get(objects.device[row].index());
        let device = device.map_or("", |device| self.trace.strings.get(device.name));
        if !device.is_empty() && device != self.device {
            self.append(format_args!(" on={}", quoted(device)));
        }
        if name != label {
            self.append(format_args!(" name={}", quoted(name)));
        }
        if objects.address[row] != 0 {
            self.append(format_args!(" address={}", objects.address[row]));
        }
        if objects.requested[row] != objects.bytes[row] {
            self.append(format_args!(" requested={}", objects.requested[row]));
        }
        let texts = [
            ("pool", objects.pool[row]),
            ("module", objects.module[row]),
            ("operator", objects.operator[row]),
            ("dtype", objects.dtype[row]),
            ("shape", objects.shape[row]),
        ];
        for (key, text) in texts.into_iter().filter(|(_, text)| text.is_some()) {
            self.append(format_args!(" {key}={}", quoted(self.trace.strings.get(text))));
        }
        if objects.kind[row] != MemoryObjectKind::Unknown {
            self.append(format_args!(" kind={}", quoted(objects.kind[row].name())));
        }
    }

    /// Accesses of a call to live objects; other accesses are counted as omitted.
    fn accesses(&mut self, call: MemoryCallId) -> Vec<MemoryAccess> {
        let (trace, row) = (self.trace, call.index());
        let all = trace.accesses_of(call);
        let count = all.len();
        let alive: Vec<MemoryAccess> = all.filter(|access| trace.life(access.object).contains(&row)).collect();
        self.left_out += (count - alive.len()) as u64;
        alive
    }

    /// Write a copy or fill with the names of its short form, or with lists of accesses.
    fn copy(&mut self, statement: &str, modes: &[AccessMode], call: MemoryCallId) {
        let accesses = self.accesses(call);
        self.text.push_str(statement);
        self.text.push(' ');
        if !accesses.iter().map(|access| access.mode).eq(modes.iter().copied()) {
            return self.lists_of(&accesses, AccessExtent::Whole);
        }
        let evidence = accesses[0].evidence;
        for (at, access) in accesses.iter().enumerate() {
            self.text.push_str(if at == 0 { "" } else { " " });
            self.part(*access, AccessExtent::Whole, evidence);
        }
        self.write_evidence(evidence);
    }

    /// Write the accesses of a call as lists of the memory text. `unsaid`: extent that readers assume for an access without
    /// byte ranges, which is therefore left out.
    fn lists(&mut self, call: MemoryCallId, unsaid: AccessExtent) {
        let accesses = self.accesses(call);
        self.lists_of(&accesses, unsaid);
    }

    /// Write accesses as lists of reads, writes and accesses of unknown mode, separated by `>`.
    fn lists_of(&mut self, accesses: &[MemoryAccess], unsaid: AccessExtent) {
        // In the order of the reader: reads first, then pure writes.
        let mut accesses = accesses.to_vec();
        accesses.sort_by_key(|access| access.mode == AccessMode::Write);
        let evidence = accesses.first().map_or(AccessEvidence::Instrumented, |access| access.evidence);
        let is_known = |mode: AccessMode| mode != AccessMode::Unknown;
        let lists: [&dyn Fn(AccessMode) -> bool; 3] =
            [&|mode| is_known(mode) && mode.reads(), &|mode| is_known(mode) && mode.writes(), &|mode| !is_known(mode)];
        let others = accesses.iter().any(|access| !is_known(access.mode));
        for (number, belongs) in lists.into_iter().take(if others { 3 } else { 2 }).enumerate() {
            self.text.push_str(if number == 0 { "" } else { ">" });
            for (at, access) in accesses.iter().filter(|access| belongs(access.mode)).enumerate() {
                self.text.push_str(if at == 0 { "" } else { "," });
                self.part(*access, unsaid, evidence);
            }
        }
        self.write_evidence(evidence);
    }

    /// Write the evidence of a call's accesses, unless it is the default (instrumented).
    fn write_evidence(&mut self, evidence: AccessEvidence) {
        if evidence != AccessEvidence::Instrumented {
            self.append(format_args!(" via={}", evidence.name()));
        }
    }

    /// Write one access: label, byte ranges unless the extent is `unsaid`, and its evidence if other than the call's.
    fn part(&mut self, access: MemoryAccess, unsaid: AccessExtent, evidence: AccessEvidence) {
        let (trace, object) = (self.trace, access.object.index());
        let label = quoted(&self.labels[object]);
        self.text.push_str(&label);
        match access.extent {
            AccessExtent::Whole if unsaid != AccessExtent::Whole => self.text.push_str("[:]"),
            AccessExtent::Unknown if unsaid != AccessExtent::Unknown => self.text.push_str("[some]"),
            _ => {}
        }
        let (ranges, bytes) = (trace.accesses.ranges_of(access.row), trace.objects.bytes[object]);
        if ranges.iter().all(|range| range.end <= bytes && range.times > 0) {
            for (at, range) in ranges.iter().enumerate() {
                let before = if at == 0 { '[' } else { '+' };
                self.append(format_args!("{before}{}:{}", range.begin, range.end));
                if range.times != 1 {
                    self.append(format_args!("*{}", range.times));
                }
            }
            self.text.push_str(if ranges.is_empty() { "" } else { "]" });
        } else {
            self.left_out += 1;
        }
        if access.evidence != evidence {
            self.append(format_args!(":{}", access.evidence.name()));
        }
    }

    /// Write the frames of a call path as `at=` options, outermost first.
    fn frames(&mut self, stack: MemoryStackId) {
        let mut frames: Vec<_> = self.trace.stacks.frames_of(stack).collect();
        frames.reverse();
        for frame in frames {
            let (file, function) = (frame.file_text(&self.trace.strings), frame.function_text(&self.trace.strings));
            let (file, function) = (quoted(file), quoted(function));
            self.append(format_args!(" at={file}:{}:{function}", frame.line().unwrap_or(0)));
        }
    }
}

/// Name in the text for the event that the call with index `row` records.
fn event(row: usize) -> String {
    format!("event{row}")
}
