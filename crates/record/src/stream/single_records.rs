//! Single records: calls, memory events, samples. Times are differences from the previous record in the same chunk.

use super::{CHUNK, MAX_NAMES, Stream, Written};
use crate::event_queue::{Call, CallName, MemoryAccess, TimedSample};
use crate::process::{Process, Registered};
use dlmonitor::clock;
use stackline_recording::{CallDetail, Record};

impl Stream {
    /// Append the individual calls of a thread, with their exact names.
    pub(super) fn append_calls(&mut self, registered: &Registered, calls: &[Call], names: Vec<CallName>) {
        let thread = registered.thread.id;
        if !names.is_empty() {
            let waiting = &mut self.written(thread).names;
            waiting.extend(names.into_iter().map(|name| (name.number, name.name)));
            // Names of lost calls are never requested.
            while waiting.len() > MAX_NAMES {
                waiting.pop_first();
            }
        }
        for (at, call) in calls.iter().enumerate() {
            if self.calls_left == 0 {
                self.calls_cut += (calls.len() - at) as u64;
                return;
            }
            let (start, duration_ns) = (call.start, call.took_ns);
            let written = self.written(thread);
            let start_delta_ns = start - std::mem::replace(&mut written.last_end, start + duration_ns.cast_signed());
            let name = if call.name == 0 { None } else { written.names.remove(&call.name) };
            let detail = match (call.sequence.get(), name) {
                (Some((number, forward_thread)), _) => {
                    let number = number.cast_signed();
                    let delta = number - std::mem::replace(&mut written.last_number, number);
                    CallDetail::Autograd { delta, forward_thread }
                }
                (None, Some(name)) => CallDetail::Name(name.into()),
                (None, None) => CallDetail::None,
            };
            self.push_single(&Record::Call { thread, node: call.node.0, start_delta_ns, duration_ns, detail });
        }
    }

    /// Append the individual memory events of a thread.
    pub(super) fn append_touches(&mut self, registered: &Registered, touches: &[MemoryAccess]) {
        let thread = registered.thread.id;
        for (at, touch) in touches.iter().enumerate() {
            if self.calls_left == 0 {
                self.touches_cut += (touches.len() - at) as u64;
                return;
            }
            let (before, address) = std::mem::replace(&mut self.written(thread).last_touch, (touch.at, touch.address));
            self.push_single(&Record::Touch {
                thread,
                node: touch.node.0,
                delta_ns: touch.at - before,
                kind: touch.kind,
                address_delta: touch.address.wrapping_sub(address).cast_signed() as i64,
                bytes: touch.bytes,
            });
        }
    }

    /// Append new or changed names of tensors, and the memory that got names since the last write.
    pub(super) fn append_names(&mut self, process: &Process) {
        let (names, named) = process.tensors.take(&process.modules, &mut self.names);
        for name in &names {
            self.push(name);
        }
        for (at, one) in named.iter().enumerate() {
            if self.calls_left == 0 {
                self.names_cut += (named.len() - at) as u64;
                return;
            }
            self.push_single(&Record::Named { at_ns: one.at, address: one.address as u64, name: one.name });
        }
    }

    /// State of writing a tree, whose differences restart if a new chunk begins; a full chunk is sent before.
    fn written(&mut self, tree: u32) -> &mut Written {
        if self.chunk.len() >= CHUNK {
            self.send();
        }
        self.begin_chunk();
        let written = self.trees.entry(tree).or_default();
        if written.chunk != self.chunks {
            written.chunk = self.chunks;
            (written.last_end, written.last_sample, written.last_number, written.last_touch) = Default::default();
        }
        written
    }

    /// Append the individual samples of all threads.
    pub(super) fn append_samples(&mut self, samples: &[TimedSample]) {
        for (at, sample) in samples.iter().enumerate() {
            if self.calls_left == 0 {
                self.calls_cut += (samples.len() - at) as u64;
                return;
            }
            // A tree that is not written yet has no samples: they are posted after its creation.
            if !self.trees.contains_key(&sample.tree) {
                continue;
            }
            let now = clock::monotonic_at(sample.at);
            let delta_ns = now - std::mem::replace(&mut self.written(sample.tree).last_sample, now);
            let &TimedSample { tree: thread, node, metric, value, .. } = sample;
            self.push_single(&Record::Sample { thread, node: node.0, delta_ns, metric, value });
        }
    }

    /// Add a record that counts against the limit of individual calls to the chunk of [`Self::written`].
    fn push_single(&mut self, record: &Record) {
        let before = self.chunk.len() as u64;
        self.add(record);
        self.calls_left = self.calls_left.saturating_sub((self.chunk.len() as u64).saturating_sub(before).max(1));
    }
}
