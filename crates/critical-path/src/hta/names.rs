//! Name classification of rule set "hta", as bits per name.

use super::HtaOptions;
use stackline_model::{StrId, Trace};
use stackline_timeline::hta_view::LAUNCHES;

/// Call that acquires the runtime's lock (section 2.5 A).
pub(super) const LOCK: u16 = 1;
/// Call that blocks until the end of GPU work; its own time has weight 0.
pub(super) const BLOCKING: u16 = 2;
/// Call that adds work to a stream.
pub(super) const LAUNCH: u16 = 4;
/// `cudaEventRecord`.
pub(super) const EVENT_RECORD: u16 = 8;
/// `cudaStreamWaitEvent`, the call.
pub(super) const WAIT_CALL: u16 = 16;
/// `Stream Wait Event`, the GPU-side record.
pub(super) const STREAM_WAIT: u16 = 32;
/// `Event Sync`.
pub(super) const EVENT_SYNC: u16 = 64;
/// `Context Sync`.
pub(super) const CONTEXT_SYNC: u16 = 128;
/// `Stream Sync`.
pub(super) const STREAM_SYNC: u16 = 256;
/// Contains "forward".
pub(super) const FORWARD: u16 = 512;
/// Contains "autograd".
pub(super) const AUTOGRAD: u16 = 1024;
/// Contains one of [`HtaOptions::data_load_events`].
pub(super) const DATA_LOAD: u16 = 2048;
/// Contains the annotation text.
pub(super) const ANNOTATION: u16 = 4096;
const KNOWN: u16 = 1 << 15;

/// Bits per name, computed on first use.
pub(super) struct Names<'a> {
    trace: &'a Trace,
    options: &'a HtaOptions,
    bits: Vec<u16>,
}

impl<'a> Names<'a> {
    /// Create an empty cache of classification bits for the names of a trace.
    pub(super) fn new(trace: &'a Trace, options: &'a HtaOptions) -> Self {
        Self { trace, options, bits: vec![0; trace.strings.len()] }
    }

    /// Classification bits of an event name, computed on first use.
    pub(super) fn flags(&mut self, name: StrId) -> u16 {
        let Some(bits) = self.bits.get_mut(name.index()) else { return 0 };
        if *bits == 0 {
            *bits = KNOWN | classify(self.trace.strings.get(name), self.options);
        }
        *bits
    }
}

/// Classification bits of a name, by its full text and by texts that it contains.
fn classify(name: &str, options: &HtaOptions) -> u16 {
    let mut bits = by_full_name(name);
    if LAUNCHES.contains(&name) {
        bits |= LAUNCH;
    }
    if name.contains("forward") {
        bits |= FORWARD;
    }
    if name.contains("autograd") {
        bits |= AUTOGRAD;
    }
    if options.data_load_events.iter().any(|p| name.contains(p.as_str())) {
        bits |= DATA_LOAD;
    }
    if name.contains(&options.annotation) {
        bits |= ANNOTATION;
    }
    bits
}

/// Classification bits of names that must match as a whole; 0 for all other names.
fn by_full_name(name: &str) -> u16 {
    match name {
        "cudaLaunchKernel" => LOCK,
        "cudaMemcpyAsync" => LOCK | BLOCKING,
        "cudaHostAlloc" => LOCK,
        "cudaDeviceSynchronize"
        | "cudaStreamSynchronize"
        | "cudaEventQuery"
        | "cudaEventSynchronize"
        | "cudaMemcpy" => BLOCKING,
        "cudaEventRecord" => EVENT_RECORD,
        "cudaStreamWaitEvent" => WAIT_CALL,
        "Stream Wait Event" => STREAM_WAIT,
        "Event Sync" => EVENT_SYNC,
        "Context Sync" => CONTEXT_SYNC,
        "Stream Sync" => STREAM_SYNC,
        _ => 0,
    }
}
