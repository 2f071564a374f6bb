//! From a memory trace to text.

use super::lex::is_bare;
use rustc_hash::FxHashMap;
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, MemoryAccess, MemoryCallId, MemoryCallKind, MemoryDeviceId,
    MemoryObjectId, MemoryObjectKind, MemoryStackId, MemoryTrace, StrId, call_flags,
};
use std::fmt::Write;

/// The text form of a trace: calls, objects and accesses. The caching allocator's side, phases and the read report have
/// no text form and are left out.
pub fn write(trace: &MemoryTrace) -> String {
    let mut writer = Writer { trace, text: String::new(), labels: labels(trace), device: "gpu:0".to_owned() };
    for object in trace.objects.ids().filter(|object| trace.objects.allocated_by[object.index()].is_none()) {
        writer.on_device(trace.objects.device[object.index()]);
        writer.object("o", object);
        writer.frames(trace.objects.stack[object.index()]);
        writer.text.push('\n');
    }
    for call in trace.calls.ids() {
        writer.call(call);
    }
    if trace.saw_end {
        writer.text.push_str("end\n");
    }
    writer.text
}

/// What each object is called in the text: its name if no other has it, else a number.
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

/// A name as it stands in the text.
fn quoted(name: &str) -> String {
    if !name.is_empty() && name.chars().all(is_bare) && !["opaque", "sync", "within"].contains(&name) {
        return name.to_owned();
    }
    let escaped = name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r");
    format!("\"{escaped}\"")
}

struct Writer<'a> {
    trace: &'a MemoryTrace,
    text: String,
    labels: Vec<String>,
    device: String,
}

impl Writer<'_> {
    /// Formatting into a string cannot fail.
    fn put(&mut self, words: std::fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(words);
    }

    fn on_device(&mut self, device: MemoryDeviceId) {
        let name = self.trace.devices.get(device.index()).map_or("", |device| self.trace.strings.get(device.name));
        if name != self.device && !name.is_empty() {
            self.device = name.to_owned();
            self.put(format_args!("device {}\n", quoted(name)));
        }
    }

    fn call(&mut self, call: MemoryCallId) {
        let (trace, row) = (self.trace, call.index());
        let stream = trace.streams.get(trace.calls.stream[row].index());
        if let Some(stream) = stream {
            self.on_device(stream.device);
        }
        self.statement(call);
        let default = trace.calls.kind[row] == MemoryCallKind::HostSync && trace.calls.target[row] == u32::MAX;
        if let Some(stream) = stream.filter(|stream| stream.key != 0 && !default) {
            self.put(format_args!(" @{}", stream.key));
        } else if trace.calls.kind[row] == MemoryCallKind::HostSync && !default {
            self.text.push_str(" @0");
        }
        if trace.calls.start_ns[row] != i64::try_from(row).unwrap_or(i64::MAX) {
            self.put(format_args!(" t={}", trace.calls.start_ns[row]));
        }
        if trace.calls.duration_ns[row] != 0 {
            self.put(format_args!(" dur={}", trace.calls.duration_ns[row]));
        }
        let words = [
            (call_flags::OPAQUE, " opaque"),
            (call_flags::SYNCHRONOUS, " sync"),
            (call_flags::WITHIN_OPERATOR, " within"),
        ];
        for (flag, word) in words {
            if trace.calls.flags[row] & flag != 0 {
                self.text.push_str(word);
            }
        }
        self.frames(trace.calls.stack[row]);
        self.text.push('\n');
    }

    fn statement(&mut self, call: MemoryCallId) {
        let (trace, row) = (self.trace, call.index());
        let name = quoted(trace.strings.get(trace.calls.name[row]));
        match trace.calls.kind[row] {
            MemoryCallKind::Allocate => self.object("a", trace.calls.target_object(call)),
            MemoryCallKind::Free => {
                let object = trace.calls.target_object(call);
                let label = self.labels.get(object.index()).map_or_else(|| quoted(""), |label| quoted(label));
                self.put(format_args!("f {label}"));
            }
            MemoryCallKind::Set => self.parts("s", call),
            MemoryCallKind::CopyToDevice => self.parts("h", call),
            MemoryCallKind::CopyToHost => self.parts("d", call),
            MemoryCallKind::CopyOnDevice => self.parts("c", call),
            MemoryCallKind::Kernel => self.kernel(call, &name),
            MemoryCallKind::EventRecord => self.put(format_args!("e {}", event(row))),
            MemoryCallKind::EventWait => self.put(format_args!("w {}", event(trace.calls.target[row] as usize))),
            MemoryCallKind::HostSync => self.text.push('y'),
        }
    }

    fn object(&mut self, statement: &str, object: MemoryObjectId) {
        let (objects, row) = (&self.trace.objects, object.index());
        let label = self.labels[row].clone();
        self.put(format_args!("{statement} {} {}", quoted(&label), objects.bytes[row]));
        let name = self.trace.strings.get(objects.name[row]);
        if name != label {
            self.put(format_args!(" name={}", quoted(name)));
        }
        if objects.address[row] != 0 {
            self.put(format_args!(" address={}", objects.address[row]));
        }
        if objects.requested[row] != objects.bytes[row] {
            self.put(format_args!(" requested={}", objects.requested[row]));
        }
        let texts = [
            ("pool", objects.pool[row]),
            ("module", objects.module[row]),
            ("operator", objects.operator[row]),
            ("dtype", objects.dtype[row]),
            ("shape", objects.shape[row]),
        ];
        for (key, text) in texts.into_iter().filter(|(_, text)| text.is_some()) {
            self.put(format_args!(" {key}={}", quoted(self.trace.strings.get(text))));
        }
        if objects.kind[row] != MemoryObjectKind::Unknown {
            self.put(format_args!(" kind={}", quoted(objects.kind[row].name())));
        }
    }

    fn parts(&mut self, statement: &str, call: MemoryCallId) {
        self.text.push_str(statement);
        for access in self.trace.accesses_of(call) {
            self.text.push(' ');
            self.part(access, AccessExtent::Whole);
        }
    }

    fn kernel(&mut self, call: MemoryCallId, name: &str) {
        self.put(format_args!("k {name} "));
        let sides: [fn(AccessMode) -> bool; 2] = [AccessMode::reads, AccessMode::writes];
        for (side, belongs) in sides.into_iter().enumerate() {
            self.text.push_str(if side == 0 { "" } else { ">" });
            for (at, access) in self.trace.accesses_of(call).filter(|access| belongs(access.mode)).enumerate() {
                self.text.push_str(if at == 0 { "" } else { "," });
                self.part(access, AccessExtent::Unknown);
            }
        }
        let evidence = self.trace.accesses_of(call).next().map(|access| access.evidence);
        if let Some(evidence) = evidence.filter(|evidence| *evidence != AccessEvidence::Instrumented) {
            self.put(format_args!(" via={}", evidence.name()));
        }
    }

    fn part(&mut self, access: MemoryAccess, unsaid: AccessExtent) {
        let label = quoted(&self.labels[access.object.index()]);
        self.text.push_str(&label);
        if access.extent == AccessExtent::Whole && unsaid != AccessExtent::Whole {
            self.text.push_str("[:]");
        }
        let trace = self.trace;
        for (at, range) in trace.accesses.ranges_of(access.row).iter().enumerate() {
            let before = if at == 0 { '[' } else { '+' };
            self.put(format_args!("{before}{}:{}", range.begin, range.end));
            if range.times != 1 {
                self.put(format_args!("*{}", range.times));
            }
        }
        if access.extent == AccessExtent::Ranges {
            self.text.push(']');
        }
    }

    fn frames(&mut self, stack: MemoryStackId) {
        let mut frames: Vec<_> = self.trace.stacks.frames_of(stack).collect();
        frames.reverse();
        for frame in frames {
            let (file, function) = (self.trace.strings.get(frame.file), self.trace.strings.get(frame.function));
            let (file, function) = (quoted(file), quoted(function));
            self.put(format_args!(" at={file}:{}:{function}", frame.line));
        }
    }
}

/// The name of the event that the call at `row` records.
fn event(row: usize) -> String {
    format!("event{row}")
}
