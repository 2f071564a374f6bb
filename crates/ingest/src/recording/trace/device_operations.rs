//! Rows of a trace for launches and for operations of devices, on a track per queue.

use super::calls::Calls;
use super::device_clock::DeviceClock;
use super::devices::{MAX_DURATION_NS, Operation};
use super::rows::{Row, Rows};
use super::times::MAX_NS;
use serde_json::{Map, Value};
use stackline_model::{
    AttrValue, CLOCK_RATE, DEVICE_PROPERTIES, EventKind, FUSED_OPERATORS, Key, MEMORY_BANDWIDTH, PEAK_FLOPS, Phase,
    TrackId, TrackKind, VENDOR, flags,
};
use stackline_recording::{CompiledOperation, CopyDirection, Device, DeviceKind, Interface, MemoryKind, Queue, Work};

/// Devices of a trace, over all of its processes, each with its number in the trace.
#[derive(Debug, Default)]
pub(super) struct TraceDevices {
    known: Vec<(i64, Device)>,
}

/// Track and conversion of times of a queue.
struct QueueTrack {
    track: TrackId,
    device: i64,
    stream: i64,
    clock: DeviceClock,
}

impl TraceDevices {
    /// Number in the trace of a process's device: that in the process, unless another device has it. A device that
    /// several processes use has one number.
    fn number(&mut self, device: &Device) -> i64 {
        let own = i64::from(device.number);
        let id = identity(device);
        let same = self.known.iter().find(|(_, known)| id.is_some() && identity(known) == id);
        if let Some(&(number, _)) = same {
            return number;
        }
        let number = match self.known.iter().find(|(number, _)| *number == own) {
            Some((_, known)) if id.is_none() || identity(known).is_none() => return own,
            Some(_) => self.known.iter().map(|(number, _)| number + 1).max().unwrap_or(own),
            None => own,
        };
        self.known.push((number, device.clone()));
        number
    }

    /// Metadata entry with the properties of the devices in Kineto's form; `None` without devices.
    pub(super) fn entry(&self) -> Option<(String, String)> {
        let list: Vec<Value> = self.known.iter().map(|(number, device)| properties(*number, device)).collect();
        (!list.is_empty()).then(|| (DEVICE_PROPERTIES.to_owned(), Value::from(list).to_string()))
    }
}

/// Identity of a device in all processes of its machine; `None` if unknown.
fn identity(device: &Device) -> Option<&str> {
    [device.uuid.as_str(), device.bus_id.as_str()].into_iter().find(|id| !id.is_empty())
}

/// Properties of a device, with the keys of [`DEVICE_PROPERTIES`]. Unknown ones have no entry.
fn properties(number: i64, device: &Device) -> Value {
    let text = |text: &str| (!text.is_empty()).then(|| Value::from(text));
    let count = |count: u64| (count > 0).then(|| Value::from(count));
    let capability = device.compute_capability;
    let rates = &device.peak_rates;
    let flops: Map<String, Value> =
        rates.flops.iter().map(|(format, rate)| (format.clone(), Value::from(*rate))).collect();
    let known = [
        ("id", Some(Value::from(number))),
        ("name", text(&device.name)),
        (VENDOR, text(&device.vendor)),
        ("uuid", text(&device.uuid)),
        ("pciBusId", text(&device.bus_id)),
        ("totalGlobalMem", count(device.memory_bytes)),
        ("numSms", count(device.multiprocessors.into())),
        ("warpSize", count(device.warp_size.into())),
        ("computeMajor", capability.map(|(major, _)| Value::from(major))),
        ("computeMinor", capability.map(|(_, minor)| Value::from(minor))),
        (MEMORY_BANDWIDTH, rates.memory_bandwidth.map(Value::from)),
        (CLOCK_RATE, rates.clock_rate.map(Value::from)),
        (PEAK_FLOPS, (!flops.is_empty()).then_some(Value::Object(flops))),
    ];
    let entries = known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(entries.collect())
}

impl Rows<'_> {
    /// Add the calls of a thread into runtimes and drivers of devices to the trace, each with the call path of its
    /// caller.
    pub(super) fn add_launches(&mut self, calls: &Calls, tree: usize, track: TrackId) {
        for launch in &calls.threads[tree].launches {
            let (category, kind) = match launch.interface {
                Interface::Runtime => ("cuda_runtime", EventKind::Runtime),
                Interface::Driver => ("cuda_driver", EventKind::Driver),
            };
            let name = self.trace.strings.intern(calls.text(launch.name));
            let row = Row { name, category, kind, phase: Phase::Complete, flags: flags::HAS_DURATION };
            let correlation = self.correlation(launch.correlation);
            let attrs: Vec<_> = correlation.map(|id| ("correlation", AttrValue::Int(id))).into_iter().collect();
            // Half of the limit, so that differences from operations cannot overflow after a shift of the device.
            let (start, end) = (self.limited(launch.start, MAX_NS / 2), self.limited(launch.end, MAX_NS / 2));
            let event = self.push(row, start, end - start, track, &attrs);
            if launch.node != 0 {
                let stack = self.stack(calls, (tree, launch.node));
                self.trace.stacks.event.push(event);
                self.trace.stacks.stack.push(stack);
            }
        }
    }

    /// Add the operations of the devices of a process to the trace. Queues without operations have no track.
    pub(super) fn add_operations(&mut self, calls: &Calls, devices: &mut TraceDevices) {
        let of_process = &calls.devices;
        // Idle devices are listed, too.
        for device in of_process.known_devices() {
            devices.number(device);
        }
        let mut tracks: Vec<Option<QueueTrack>> = of_process.queues.iter().map(|_| None).collect();
        for operation in &of_process.operations {
            let at = operation.queue as usize;
            let queue = of_process.queues.get(at).map(|open| &open.queue);
            let device = queue.and_then(|queue| of_process.devices.get(queue.device as usize));
            let (Some(queue), Some(device), Some(slot)) = (queue, device, tracks.get_mut(at)) else { continue };
            let track = slot.get_or_insert_with(|| {
                let (number, clock) = (devices.number(device), of_process.clock(device));
                self.queue_track(calls, device, number, queue, clock)
            });
            self.add_operation(calls, operation, track);
        }
    }

    /// Track of a queue. Devices are processes of the trace, as in Kineto's traces, with a text as key: their numbers
    /// may equal PIDs.
    fn queue_track(
        &mut self,
        calls: &Calls,
        device: &Device,
        number: i64,
        queue: &Queue,
        clock: DeviceClock,
    ) -> QueueTrack {
        let kind = match device.kind {
            DeviceKind::Gpu => "GPU",
            DeviceKind::Tpu => "TPU",
            _ => "device",
        };
        let stream = i64::try_from(queue.number).unwrap_or(i64::MAX);
        let key = Key::Str(self.trace.strings.intern(&format!("{kind} {number}")));
        let mut tid = Key::Int(stream);
        // Queues with the same number, of several processes or of one, are different queues.
        let process = calls.process.pid;
        for text in [format!("process {process} stream {stream}"), format!("process {process} queue {}", queue.id)] {
            if self.trace.tracks.find(key, tid, TrackKind::Stream).is_some() {
                tid = Key::Str(self.trace.strings.intern(&text));
            }
        }
        let track = self.trace.tracks.track(key, tid, TrackKind::Stream);
        let name = match (queue.name.as_str(), queue.priority) {
            ("", 0) => String::new(),
            ("", priority) => format!("stream {stream} (priority {priority})"),
            (name, 0) => name.to_owned(),
            (name, priority) => format!("{name} (priority {priority})"),
        };
        if !name.is_empty() {
            self.trace.tracks.tracks[track.index()].name = self.trace.strings.intern(&name);
        }
        QueueTrack { track, device: number, stream, clock }
    }

    /// Add an operation of a device to the trace, at times of the host's clock.
    fn add_operation(&mut self, calls: &Calls, operation: &Operation, queue: &QueueTrack) {
        let [start, end] = [operation.start, operation.end].map(|at| self.limited(queue.clock.host_ns(at), MAX_NS));
        let dur = (end - start).clamp(0, MAX_DURATION_NS);
        let mut attrs = vec![("device", AttrValue::Int(queue.device)), ("stream", AttrValue::Int(queue.stream))];
        attrs.extend(self.correlation(operation.correlation).map(|id| ("correlation", AttrValue::Int(id))));
        let (name, category, kind) = match operation.work {
            Work::Kernel { name, grid, block, shared_bytes, registers } => {
                for (key, sizes) in [("grid", grid), ("block", block)] {
                    if sizes != [0; 3] {
                        attrs.push((key, self.sizes(sizes)));
                    }
                }
                if registers > 0 {
                    attrs.push(("registers per thread", AttrValue::Int(registers.into())));
                }
                attrs.push(("shared memory", AttrValue::Int(shared_bytes.into())));
                let name = calls.text(name);
                attrs.extend(calls.devices.compiled(name).into_iter().flat_map(|compiled| self.compiled(compiled)));
                (name.to_owned(), "kernel", EventKind::Kernel)
            }
            Work::Copy { direction, from, to, bytes } => {
                attrs.extend(bytes_and_rate(bytes, dur));
                let (direction, from, to) = (direction_name(direction), memory_name(from), memory_name(to));
                (format!("Memcpy {direction} ({from} -> {to})"), "gpu_memcpy", EventKind::Memcpy)
            }
            Work::Fill { memory, bytes } => {
                attrs.extend(bytes_and_rate(bytes, dur));
                (format!("Memset ({})", memory_name(memory)), "gpu_memset", EventKind::Memset)
            }
            // The crate of records declares that kinds may be added.
            _ => ("operation of an unknown kind".to_owned(), "kernel", EventKind::Kernel),
        };
        let name = self.trace.strings.intern(&name);
        let row = Row { name, category, kind, phase: Phase::Complete, flags: flags::HAS_DURATION };
        self.push(row, start, dur, queue.track, &attrs);
    }

    /// Attributes of a compiled kernel: operator, source line and fused operators, as in traces of XLA.
    fn compiled(&mut self, compiled: &CompiledOperation) -> Vec<(&'static str, AttrValue)> {
        let CompiledOperation { operator, fused, file, line, .. } = compiled;
        let strings = &mut self.trace.strings;
        let mut attrs = Vec::new();
        if !operator.is_empty() {
            attrs.push(("op_name", AttrValue::Str(strings.intern(operator))));
        }
        if !file.is_empty() {
            attrs.push(("source", AttrValue::Str(strings.intern(&format!("{file}:{line}")))));
        }
        if !fused.is_empty() {
            attrs.push((FUSED_OPERATORS, AttrValue::Json(strings.intern(&Value::from(fused.clone()).to_string()))));
        }
        attrs
    }

    /// Attribute value for the sizes of a grid or block: a JSON list.
    fn sizes(&mut self, [x, y, z]: [u32; 3]) -> AttrValue {
        AttrValue::Json(self.trace.strings.intern(&format!("[{x},{y},{z}]")))
    }
}

/// Attributes of a copy or fill: bytes, and bandwidth in GB/s (bytes per ns) if the operation took time.
fn bytes_and_rate(bytes: u64, dur: i64) -> impl Iterator<Item = (&'static str, AttrValue)> {
    let rate = (dur > 0).then(|| ("memory bandwidth (GB/s)", AttrValue::Float(bytes as f64 / dur as f64)));
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    std::iter::once(("bytes", AttrValue::Int(bytes))).chain(rate)
}

/// Name of a copy's direction in Kineto's spelling.
fn direction_name(direction: CopyDirection) -> &'static str {
    match direction {
        CopyDirection::HostToDevice => "HtoD",
        CopyDirection::DeviceToHost => "DtoH",
        CopyDirection::DeviceToDevice => "DtoD",
        CopyDirection::HostToHost => "HtoH",
        CopyDirection::PeerToPeer => "PtoP",
        _ => "Unknown",
    }
}

/// Name of a kind of memory in Kineto's spelling.
fn memory_name(memory: MemoryKind) -> &'static str {
    match memory {
        MemoryKind::Pageable => "Pageable",
        MemoryKind::Pinned => "Pinned",
        MemoryKind::Device => "Device",
        MemoryKind::Array => "Array",
        MemoryKind::Managed => "Managed",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(number: u32, uuid: &str) -> Device {
        Device { number, uuid: uuid.to_owned(), ..Device::default() }
    }

    /// Two processes that see one device each, as with `CUDA_VISIBLE_DEVICES`, and a third that sees both.
    #[test]
    fn devices_have_distinct_numbers_in_a_trace() {
        let mut devices = TraceDevices::default();
        let numbers = [(0, "a"), (0, "b"), (0, "b"), (1, "a"), (2, "c")];
        assert_eq!(numbers.map(|(number, uuid)| devices.number(&device(number, uuid))), [0, 1, 1, 0, 2]);
        let mut unknown = TraceDevices::default();
        assert_eq!([0, 1, 0].map(|number| unknown.number(&device(number, ""))), [0, 1, 0]);
        assert_eq!(unknown.known.len(), 2);
    }
}
