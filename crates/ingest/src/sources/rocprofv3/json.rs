//! Reader of `…_results.json`: one document with a list of processes, and lists of records by kind in each.
//!
//! Lists are read one record at a time, so that records before damage are kept. Names may precede or follow their
//! records, so events are created at the end.

use super::agents::{Agent, Agents, Gpu};
use super::events::{Call, Copy, Counters, Kernel, count_without_kernel, registers};
use super::samples::Samples;
use crate::diagnostics;
use crate::sources::processes::Processes;
use crate::sources::streamed_json::{Fields, FieldsSeed, Whole};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess};
use std::collections::BTreeSet;
use std::io::Read;

/// Key that every document has.
const ROOT: &str = "rocprofiler-sdk-tool";

/// Check if a text begins like a JSON document of rocprofv3.
pub(super) fn is_document(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    let key = text.strip_prefix(b"{").map(<[u8]>::trim_ascii_start).and_then(|text| text.strip_prefix(b"\""));
    key.is_some_and(|key| key.starts_with(ROOT.as_bytes()))
}

/// Read the processes of a document, and return the error at which it ends. Damage is counted; earlier records are
/// kept.
pub(super) fn read(stream: &mut dyn Read, processes: &mut Processes<'_>) -> (Vec<Process>, Option<String>) {
    let mut document = Document::default();
    let mut parser = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(256 << 10, stream));
    let error = FieldsSeed(&mut document).deserialize(&mut parser).err();
    if let Some(error) = &error {
        let code = if error.is_eof() || error.is_io() { diagnostics::TRUNCATED } else { diagnostics::TOO_DAMAGED };
        processes.count(code, &error.to_string());
    }
    (document.processes, error.map(|error| error.to_string()))
}

#[derive(Default)]
struct Document {
    processes: Vec<Process>,
}

impl<'de> Fields<'de> for Document {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            ROOT => map.next_value_seed(FieldsSeed(&mut List(&mut self.processes))),
            _ => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

/// Receiver of the processes of a document: a list, or a single one.
struct List<'p>(&'p mut Vec<Process>);

impl<'de> Fields<'de> for List<'_> {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if self.0.is_empty() {
            self.0.push(Process::default());
        }
        self.0[0].field(key, map)
    }

    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let mut process = Process::default();
        let read = list.next_element_seed(FieldsSeed(&mut process));
        // Of a truncated process, the records before the cut are kept.
        if !matches!(read, Ok(None)) {
            self.0.push(process);
        }
        Ok(read?.is_some())
    }
}

/// Content of a document for one process.
#[derive(Default)]
pub(super) struct Process {
    metadata: Metadata,
    agents: Vec<AgentRecord>,
    counters: Vec<Counter>,
    strings: Strings,
    symbols: Vec<KernelSymbol>,
    dispatches: Vec<DispatchRecord>,
    counted: Vec<CounterRecord>,
    copies: Vec<CopyRecord>,
    calls: Vec<ApiRecord>,
    code_objects: Vec<CodeObject>,
    samples: Samples,
    /// Lists of records that are not read and not empty.
    unread: BTreeSet<String>,
}

/// Lists of calls.
const CALLS: &[&str] =
    &["hip_api", "hsa_api", "marker_api", "rccl_api", "rocdecode_api", "rocjpeg_api", "rocshmem_api", "hipfile_api"];

impl<'de> Fields<'de> for Process {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "metadata" => self.metadata = map.next_value()?,
            "agents" => map.next_value_seed(FieldsSeed(&mut self.agents))?,
            "counters" => map.next_value_seed(FieldsSeed(&mut self.counters))?,
            "strings" => self.strings = map.next_value()?,
            "kernel_symbols" => map.next_value_seed(FieldsSeed(&mut self.symbols))?,
            "code_objects" => map.next_value_seed(FieldsSeed(&mut self.code_objects))?,
            "callback_records" | "buffer_records" => map.next_value_seed(FieldsSeed(&mut Records(self)))?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

/// Receiver of the record lists of a process.
struct Records<'p>(&'p mut Process);

impl<'de> Fields<'de> for Records<'_> {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let process = &mut *self.0;
        match key {
            "kernel_dispatch" => map.next_value_seed(FieldsSeed(&mut process.dispatches)),
            "memory_copy" => map.next_value_seed(FieldsSeed(&mut process.copies)),
            "counter_collection" => map.next_value_seed(FieldsSeed(&mut process.counted)),
            "pc_sample_host_trap" | "pc_sample_stochastic" => map.next_value_seed(FieldsSeed(&mut process.samples)),
            key if CALLS.contains(&key) => map.next_value_seed(FieldsSeed(&mut process.calls)),
            key => {
                let mut records: Vec<IgnoredAny> = Vec::new();
                map.next_value_seed(FieldsSeed(&mut records))?;
                if !records.is_empty() {
                    process.unread.insert(key.to_owned());
                }
                Ok(())
            }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    pid: Whole,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Handle {
    handle: Whole,
}

/// A CPU or GPU.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AgentRecord {
    id: Handle,
    /// 1 for a CPU, 2 for a GPU.
    r#type: Whole,
    name: String,
    product_name: String,
    logical_node_type_id: Whole,
    cu_count: Whole,
    wave_front_size: Whole,
    max_waves_per_cu: Whole,
    workgroup_max_size: Whole,
    mem_banks: Vec<MemoryBank>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MemoryBank {
    size_in_bytes: Whole,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counter {
    id: Handle,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Strings {
    buffer_records: Vec<Domain>,
    marker_api: Vec<Message>,
    pc_sample_instructions: Vec<String>,
    pc_sample_comments: Vec<String>,
}

/// Loaded binary with device code.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CodeObject {
    code_object_id: Whole,
    uri: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Domain {
    kind: String,
    operations: Vec<String>,
}

/// Text of a program's mark, by the correlation ID of its call.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    key: Whole,
    value: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KernelSymbol {
    kernel_id: Whole,
    kernel_name: String,
    formatted_kernel_name: String,
    arch_vgpr_count: Whole,
    accum_vgpr_count: Whole,
}

impl KernelSymbol {
    /// Formatted name of the kernel, else its mangled name without `.kd`.
    fn name(&self) -> &str {
        if self.formatted_kernel_name.is_empty() {
            self.kernel_name.strip_suffix(".kd").unwrap_or(&self.kernel_name)
        } else {
            &self.formatted_kernel_name
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Correlation {
    pub(super) internal: Whole,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct DispatchRecord {
    correlation_id: Correlation,
    start_timestamp: Whole,
    end_timestamp: Whole,
    dispatch_info: DispatchInfo,
    /// Not recorded by older versions.
    stream_id: Option<Handle>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct DispatchInfo {
    agent_id: Handle,
    queue_id: Handle,
    kernel_id: Whole,
    dispatch_id: Whole,
    private_segment_size: Whole,
    group_segment_size: Whole,
    workgroup_size: Sizes,
    grid_size: Sizes,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Sizes {
    x: Whole,
    y: Whole,
    z: Whole,
}

impl Sizes {
    /// Sizes in x, y and z; `None` if one is missing.
    fn known(self) -> Option<[i64; 3]> {
        Some([self.x.0?, self.y.0?, self.z.0?])
    }
}

/// Values of counters of one dispatch.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CounterRecord {
    dispatch_data: DispatchRecord,
    records: Vec<Reading>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reading {
    counter_id: Handle,
    value: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CopyRecord {
    kind: Whole,
    operation: Whole,
    correlation_id: Correlation,
    start_timestamp: Whole,
    end_timestamp: Whole,
    src_agent_id: Handle,
    dst_agent_id: Handle,
    bytes: Whole,
    stream_id: Option<Handle>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ApiRecord {
    kind: Whole,
    operation: Whole,
    correlation_id: Correlation,
    start_timestamp: Whole,
    end_timestamp: Whole,
    thread_id: Whole,
}

impl Process {
    /// Convert all records of this process into events of the trace.
    pub(super) fn push(mut self, processes: &mut Processes<'_>) {
        let pid = self.metadata.pid.0.map(|pid| processes.add_process(pid));
        let (agents, mut samples) = (self.agents(), std::mem::take(&mut self.samples));
        samples.instructions.list(&self.strings.pc_sample_instructions, &self.strings.pc_sample_comments);
        for object in &self.code_objects {
            object.code_object_id.0.into_iter().for_each(|id| samples.instructions.add_module(id, &object.uri));
        }
        self.calls(pid, processes);
        self.kernels((pid, &agents), &mut samples, processes);
        for copy in &self.copies {
            let copy = Copy {
                direction: self.operation(copy.kind, copy.operation).1,
                source: copy.src_agent_id.handle.0.and_then(|agent| agents.gpu(Agent::Number(agent))),
                destination: copy.dst_agent_id.handle.0.and_then(|agent| agents.gpu(Agent::Number(agent))),
                stream: copy.stream_id.and_then(|id| id.handle.0),
                correlation: copy.correlation_id.internal.0,
                times: (copy.start_timestamp.0, copy.end_timestamp.0),
                bytes: copy.bytes.0,
            };
            copy.push(pid, processes);
        }
        samples.push_rest(|_| pid, processes);
        for list in &self.unread {
            processes.count(diagnostics::TABLE_NOT_READ, list);
        }
        processes.trace_of(pid).trace.meta.entries = agents.described();
    }

    /// GPUs of the process, by handle.
    fn agents(&self) -> Agents {
        let mut agents = Agents::default();
        for agent in self.agents.iter().filter(|agent| agent.r#type.0 == Some(2)) {
            let Some(id) = agent.id.handle.0 else { continue };
            let gpu = Gpu {
                number: agent.logical_node_type_id.0,
                name: if agent.product_name.is_empty() { &agent.name } else { &agent.product_name },
                memory: agent.mem_banks.first().and_then(|bank| bank.size_in_bytes.0).filter(|&bytes| bytes > 0),
                compute_units: agent.cu_count.0,
                wave: agent.wave_front_size.0,
                waves: agent.max_waves_per_cu.0,
                group: agent.workgroup_max_size.0,
            };
            agents.add(id, &gpu);
        }
        agents
    }

    /// Names of a record's kind and operation, by their numbers; empty if unknown.
    fn operation(&self, kind: Whole, operation: Whole) -> (&str, &str) {
        let at = |number: Whole| number.0.and_then(|number| usize::try_from(number).ok());
        let Some(domain) = at(kind).and_then(|kind| self.strings.buffer_records.get(kind)) else { return ("", "") };
        let name = at(operation).and_then(|operation| domain.operations.get(operation));
        (&domain.kind, name.map_or("", |name| name))
    }

    /// Add the API calls and marks to the trace of the process.
    fn calls(&self, pid: Option<i64>, processes: &mut Processes<'_>) {
        let messages: FxHashMap<i64, &str> =
            self.strings.marker_api.iter().filter_map(|mark| Some((mark.key.0?, &*mark.value))).collect();
        for call in &self.calls {
            let (domain, function) = self.operation(call.kind, call.operation);
            let correlation = call.correlation_id.internal.0;
            let is_mark = domain.starts_with("MARKER");
            let message = correlation.filter(|_| is_mark).and_then(|id| messages.get(&id).copied());
            let times = (call.start_timestamp.0, call.end_timestamp.0);
            let call = Call { domain, function, message, tid: call.thread_id.0, correlation, times };
            call.push(pid, processes);
        }
    }

    /// Add the kernels with their counter values and samples; without dispatch records, those listed with the counters
    /// are used.
    fn kernels(&self, (pid, agents): (Option<i64>, &Agents), samples: &mut Samples, processes: &mut Processes<'_>) {
        let names: FxHashMap<i64, Box<str>> =
            self.counters.iter().filter_map(|counter| Some((counter.id.handle.0?, (*counter.name).into()))).collect();
        let symbols: FxHashMap<i64, &KernelSymbol> =
            self.symbols.iter().filter_map(|symbol| Some((symbol.kernel_id.0?, symbol))).collect();
        let mut counters: FxHashMap<i64, Counters> = FxHashMap::default();
        // A run that only counts lists its dispatches next to the counters, once per counter.
        let mut only_counted: Vec<&DispatchRecord> = Vec::new();
        let mut without_dispatch = 0;
        for counted in &self.counted {
            let Some(dispatch) = counted.dispatch_data.dispatch_info.dispatch_id.0 else {
                without_dispatch += 1;
                continue;
            };
            if !counters.contains_key(&dispatch) && self.dispatches.is_empty() {
                only_counted.push(&counted.dispatch_data);
            }
            let of_dispatch = counters.entry(dispatch).or_default();
            for reading in &counted.records {
                let Some(value) = reading.value else { continue };
                of_dispatch.add_numbered(reading.counter_id.handle.0, &names, value);
            }
        }
        for dispatch in self.dispatches.iter().chain(only_counted) {
            let info = &dispatch.dispatch_info;
            let symbol = info.kernel_id.0.and_then(|id| symbols.get(&id));
            let kernel = Kernel {
                name: symbol.map_or("", |symbol| symbol.name()),
                device: agents.of_kernel(info.agent_id.handle.0.map(Agent::Number)),
                queue: info.queue_id.handle.0,
                stream: dispatch.stream_id.and_then(|id| id.handle.0),
                correlation: dispatch.correlation_id.internal.0,
                times: (dispatch.start_timestamp.0, dispatch.end_timestamp.0),
                group: info.workgroup_size.known(),
                grid: info.grid_size.known(),
                shared: info.group_segment_size.0,
                scratch: info.private_segment_size.0,
                registers: symbol.and_then(|symbol| registers(symbol.arch_vgpr_count.0, symbol.accum_vgpr_count.0)),
                counters: info.dispatch_id.0.and_then(|id| counters.remove(&id)),
            };
            samples.push_kernel(&kernel, ("", info.dispatch_id.0), pid, processes);
        }
        count_without_kernel(counters.len() + without_dispatch, processes);
    }
}
