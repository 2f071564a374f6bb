//! Reader of `…_results.db`: SQLite tables (rocpd), whose names end with the identifier of their process.
//!
//! Rows contain their times and location themselves, or refer to a track and two times: both schemas are supported.

use super::agents::{Agent, Agents, Gpu};
use super::events::{Call, Copy, Counters, Kernel, Times, count_without_kernel, registers};
use super::instructions::Code;
use super::samples::{INSTRUCTION_TYPES, RecordedSample, STALL_REASONS, Samples};
use crate::sources::processes::Processes;
use crate::sources::tables::{self, Texts};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use stackline_model::ReadReport;
use stackline_sqlite::{Database, Row};

/// Table that each process has.
const AGENTS: &str = "rocpd_info_agent";
/// Other tables that are read or contain no data of their own, without the identifier in their names.
const KNOWN: &[&str] = &[
    AGENTS,
    "rocpd_disassembly_data",
    "rocpd_event",
    "rocpd_gpu_pc_sample",
    "rocpd_info_blob_field",
    "rocpd_info_blob_schema",
    "rocpd_info_category",
    "rocpd_info_code_object",
    "rocpd_info_kernel_symbol",
    "rocpd_info_node",
    "rocpd_info_pmc",
    "rocpd_info_process",
    "rocpd_info_queue",
    "rocpd_info_stream",
    "rocpd_info_thread",
    "rocpd_kernel_dispatch",
    "rocpd_memory_copy",
    "rocpd_metadata",
    "rocpd_pmc_event",
    "rocpd_region",
    "rocpd_sample",
    "rocpd_string",
    "rocpd_timestamp",
    "rocpd_track",
    "sqlite_sequence",
    "sqlite_stat1",
];

/// Detect the database tables of a rocprofv3 recording.
pub(super) fn is_recording(file: &Database) -> bool {
    identifiers(file).next().is_some()
}

/// Identifiers of the recorded processes: the suffixes of their table names.
fn identifiers(file: &Database) -> impl Iterator<Item = &str> {
    file.tables().filter_map(|table| table.strip_prefix(AGENTS))
}

/// Read all processes of a rocprofv3 database.
pub(super) fn read(file: &Database, processes: &mut Processes<'_>) {
    for identifier in identifiers(file) {
        ProcessTables::new(file, identifier, processes).push(processes);
    }
}

/// Count the tables with data that is not read.
pub(super) fn note_unread(file: &Database, report: &mut ReadReport) {
    let found: Vec<&str> = identifiers(file).collect();
    let is_known = |table: &str| {
        KNOWN.iter().any(|known| table.strip_prefix(known).is_some_and(|rest| rest.is_empty() || found.contains(&rest)))
    };
    tables::note_unread(file, is_known, report);
}

/// Domain, correlation ID and message of an event to which rows refer.
struct EventInfo {
    /// String number of its domain.
    domain: Option<i64>,
    /// Correlation ID of the call itself, or of its launch call.
    correlation: Option<i64>,
    message: Option<Box<str>>,
}

/// Process, thread, device and stream of a row.
#[derive(Clone, Copy, Default)]
struct RowLocation {
    pid: Option<i64>,
    tid: Option<i64>,
    agent: Option<i64>,
    queue: Option<i64>,
    stream: Option<i64>,
}

struct KernelSymbol {
    name: Box<str>,
    registers: Option<i64>,
}

/// Lookup tables of one process, such as strings, agents and events, to which other tables refer.
struct ProcessTables<'f> {
    file: &'f Database,
    identifier: &'f str,
    texts: Texts,
    pids: FxHashMap<i64, i64>,
    tids: FxHashMap<i64, i64>,
    agents: Agents,
    symbols: FxHashMap<i64, KernelSymbol>,
    events: FxHashMap<i64, EventInfo>,
    tracks: FxHashMap<i64, RowLocation>,
    times: FxHashMap<i64, i64>,
    /// Counters by the number of the counted event.
    counters: FxHashMap<i64, Counters>,
    samples: Samples,
}

/// Columns with the location and times of a row: direct ones, or references.
const PLACE: [&str; 10] =
    ["pid", "tid", "agent_id", "queue_id", "stream_id", "start", "end", "track_id", "start_id", "end_id"];

impl<'f> ProcessTables<'f> {
    /// Read the lookup tables of the process with this identifier.
    fn new(file: &'f Database, identifier: &'f str, processes: &mut Processes<'_>) -> Self {
        let texts = format!("rocpd_string{identifier}");
        let texts = tables::texts(file, &texts, ["id", "string"], processes);
        let (pids, tids, symbols, events) = Default::default();
        let (tracks, times, counters, agents, samples) = Default::default();
        let mut recorded =
            Self { file, identifier, texts, pids, tids, agents, symbols, events, tracks, times, counters, samples };
        recorded.numbers(processes);
        recorded.agents(processes);
        recorded.symbols(processes);
        recorded.events(processes);
        recorded.counters(processes);
        recorded.samples(processes);
        recorded
    }

    /// Pass each row of a table of this process to `take`.
    fn rows(
        &self,
        table: &str,
        columns: &[&str],
        processes: &mut Processes<'_>,
        take: impl FnMut(&Row<'_>, &mut Processes<'_>),
    ) {
        let table = format!("{table}{}", self.identifier);
        if self.file.has(&table) {
            tables::rows(self.file, &table, columns, processes, take);
        }
    }

    /// String with this ID; empty if missing.
    fn text(&self, id: Option<i64>) -> &str {
        id.and_then(|id| self.texts.get(&id)).map_or("", |text| text)
    }

    /// Read the PIDs, thread IDs, times and tracks to which rows refer by number.
    fn numbers(&mut self, processes: &mut Processes<'_>) {
        let mut pairs = |table: &str, columns: [&str; 2]| {
            let mut found = FxHashMap::default();
            self.rows(table, &columns, processes, |row, _| {
                if let (Some(id), Some(number)) = (row.i64(0), row.i64(1)) {
                    found.insert(id, number);
                }
            });
            found
        };
        let mut pids = pairs("rocpd_info_process", ["id", "pid"]);
        let tids = pairs("rocpd_info_thread", ["id", "tid"]);
        let times = pairs("rocpd_timestamp", ["id", "value"]);
        pids.values_mut().for_each(|pid| *pid = processes.add_process(*pid));
        (self.pids, self.tids, self.times) = (pids, tids, times);
        let mut tracks = FxHashMap::default();
        let columns = ["id", "pid", "tid", "agent_id", "queue_id", "stream_id"];
        self.rows("rocpd_track", &columns, processes, |row, _| {
            let [pid, tid, agent, queue, stream] = [1, 2, 3, 4, 5].map(|column| row.i64(column));
            tracks.extend(row.i64(0).map(|id| (id, RowLocation { pid, tid, agent, queue, stream })));
        });
        self.tracks = tracks;
    }

    /// Read the GPUs to which rows refer, by agent ID.
    fn agents(&mut self, processes: &mut Processes<'_>) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Details {
            cu_count: Option<i64>,
            wave_front_size: Option<i64>,
            max_waves_per_cu: Option<i64>,
            workgroup_max_size: Option<i64>,
        }
        let mut agents = Agents::default();
        let columns = ["id", "type", "type_index", "product_name", "name", "extdata"];
        self.rows(AGENTS, &columns, processes, |row, _| {
            if row.text(1).as_deref() != Some("GPU") {
                return;
            }
            let details = row.text(5).and_then(|text| serde_json::from_str::<Details>(&text).ok()).unwrap_or_default();
            let name = row.text(3).filter(|name| !name.is_empty()).or_else(|| row.text(4)).unwrap_or_default();
            if let Some(id) = row.i64(0) {
                let gpu = Gpu {
                    number: row.i64(2),
                    name: &name,
                    memory: None,
                    compute_units: details.cu_count,
                    wave: details.wave_front_size,
                    waves: details.max_waves_per_cu,
                    group: details.workgroup_max_size,
                };
                agents.add(id, &gpu);
            }
        });
        self.agents = agents;
    }

    /// Read the names and registers of kernels, by symbol ID.
    fn symbols(&mut self, processes: &mut Processes<'_>) {
        let mut symbols = FxHashMap::default();
        let columns = ["id", "display_name", "kernel_name", "arch_vgpr_count", "accum_vgpr_count"];
        self.rows("rocpd_info_kernel_symbol", &columns, processes, |row, _| {
            let name = row.text(1).filter(|name| !name.is_empty()).or_else(|| row.text(2)).unwrap_or_default();
            let name = name.strip_suffix(".kd").unwrap_or(&name).into();
            let registers = registers(row.i64(3), row.i64(4));
            symbols.extend(row.i64(0).map(|id| (id, KernelSymbol { name, registers })));
        });
        self.symbols = symbols;
    }

    /// Read the domain, correlation ID and message of events, by event ID.
    fn events(&mut self, processes: &mut Processes<'_>) {
        #[derive(Deserialize)]
        struct Marked {
            message: Box<str>,
        }
        let mut events = FxHashMap::default();
        self.rows("rocpd_event", &["id", "category_id", "stack_id", "extdata"], processes, |row, _| {
            let message = row.text(3).filter(|text| text.contains("\"message\""));
            let message = message.and_then(|text| serde_json::from_str::<Marked>(&text).ok()).map(|mark| mark.message);
            let about = EventInfo { domain: row.i64(1), correlation: row.i64(2), message };
            events.extend(row.i64(0).map(|id| (id, about)));
        });
        self.events = events;
    }

    /// Read the counter values of kernels, by the ID of the counted event.
    fn counters(&mut self, processes: &mut Processes<'_>) {
        let mut names: FxHashMap<i64, Box<str>> = FxHashMap::default();
        self.rows("rocpd_info_pmc", &["id", "name"], processes, |row, _| {
            names.extend(row.i64(0).zip(row.text(1)).map(|(id, name)| (id, name.as_ref().into())));
        });
        let mut counters: FxHashMap<i64, Counters> = FxHashMap::default();
        self.rows("rocpd_pmc_event", &["event_id", "pmc_id", "value"], processes, |row, processes| {
            match (row.i64(0), row.f64(2)) {
                (Some(event), Some(value)) => {
                    counters.entry(event).or_default().add_numbered(row.i64(1), &names, value);
                }
                (None, Some(_)) => count_without_kernel(1, processes),
                (_, None) => {}
            }
        });
        self.counters = counters;
    }

    /// Read the samples of instructions, with the instructions that were decoded.
    fn samples(&mut self, processes: &mut Processes<'_>) {
        let mut samples = Samples::default();
        self.rows("rocpd_info_code_object", &["id", "uri"], processes, |row, _| {
            if let (Some(id), Some(uri)) = (row.i64(0), row.text(1)) {
                samples.instructions.add_module(id, &uri);
            }
        });
        let mut decoded: FxHashMap<(i64, i64), Code> = FxHashMap::default();
        let columns = ["code_object_id", "code_object_offset", "instruction", "comment"];
        self.rows("rocpd_disassembly_data", &columns, processes, |row, _| {
            if let (Some(object), Some(offset), Some(text)) = (row.i64(0), row.i64(1), row.text(2)) {
                let code = samples.instructions.code(&text, &row.text(3).unwrap_or_default());
                decoded.insert((object, offset), code);
            }
        });
        let columns = [
            "dispatch_id",
            "correlation_id",
            "timestamp",
            "code_object_id",
            "code_object_offset",
            "wave_issued",
            "inst_type",
            "stall_reason",
        ];
        self.rows("rocpd_gpu_pc_sample", &columns, processes, |row, _| {
            let (object, offset) = (row.i64(3), row.i64(4));
            let known = object.zip(offset).and_then(|at| decoded.get(&at)).copied().unwrap_or_default();
            let name = |names: &[&'static str], column: usize| {
                let number = row.i64(column).and_then(|number| usize::try_from(number).ok());
                number.and_then(|number| names.get(number)).copied().unwrap_or_default()
            };
            samples.add(&RecordedSample {
                guid: "",
                dispatch: row.i64(0),
                correlation: row.i64(1),
                time: row.i64(2),
                code: Code { object, offset, ..known },
                issued: row.i64(5),
                instruction_type: name(INSTRUCTION_TYPES, 6),
                stall_reason: name(STALL_REASONS, 7),
            });
        });
        self.samples = samples;
    }

    /// Location and times of a row that begins with the columns of [`PLACE`].
    fn location(&self, row: &Row<'_>) -> (RowLocation, Times) {
        let number = |column: usize| row.i64(column);
        let mapped_id = |ids: &FxHashMap<i64, i64>, id: Option<i64>| id.map(|id| ids.get(&id).copied().unwrap_or(id));
        let by_number = number(7).and_then(|id| self.tracks.get(&id).copied()).unwrap_or_default();
        let track = RowLocation {
            pid: mapped_id(&self.pids, number(0).or(by_number.pid)),
            tid: mapped_id(&self.tids, number(1).or(by_number.tid)),
            agent: number(2).or(by_number.agent),
            queue: number(3).or(by_number.queue),
            stream: number(4).or(by_number.stream),
        };
        let time = |own: usize, id: usize| number(own).or_else(|| self.times.get(&number(id)?).copied());
        (track, (time(5, 8), time(6, 9)))
    }

    /// Domain, correlation ID and message of the event with this ID; `None` if missing.
    fn about(&self, event: Option<i64>) -> Option<&EventInfo> {
        self.events.get(&event?)
    }

    /// Convert all rows of this process's tables into events of the trace.
    fn push(&mut self, processes: &mut Processes<'_>) {
        self.calls(processes);
        self.kernels(processes);
        self.copies(processes);
        let pid = self.pids.values().copied().min();
        self.samples.push_rest(|_| pid, processes);
        let described = self.agents.described();
        for process in processes.all().filter(|process| self.pids.values().any(|&pid| pid == process.pid)) {
            process.trace.meta.entries.clone_from(&described);
        }
    }

    /// Add the API calls, ranges and marks to the trace of their process.
    fn calls(&self, processes: &mut Processes<'_>) {
        let columns = [&PLACE[..], &["name_id", "event_id", "timestamp", "timestamp_id"]].concat();
        for table in ["rocpd_region", "rocpd_sample"] {
            self.rows(table, &columns, processes, |row, processes| {
                let (track, (start, end)) = self.location(row);
                let about = self.about(row.i64(11));
                let instant = row.i64(12).or_else(|| self.times.get(&row.i64(13)?).copied());
                let call = Call {
                    domain: self.text(about.and_then(|about| about.domain)),
                    function: self.text(row.i64(10)),
                    message: about.and_then(|about| about.message.as_deref()),
                    tid: track.tid,
                    correlation: about.and_then(|about| about.correlation),
                    times: (start.or(instant), end.or(instant)),
                };
                call.push(track.pid, processes);
            });
        }
    }

    /// Add the kernels with their counter values and samples to the trace of their process.
    fn kernels(&mut self, processes: &mut Processes<'_>) {
        let own = [
            "kernel_id",
            "event_id",
            "private_segment_size",
            "group_segment_size",
            "workgroup_size_x",
            "workgroup_size_y",
            "workgroup_size_z",
            "grid_size_x",
            "grid_size_y",
            "grid_size_z",
            "dispatch_id",
        ];
        let columns = [&PLACE[..], &own].concat();
        let mut counters = std::mem::take(&mut self.counters);
        let mut samples = std::mem::take(&mut self.samples);
        self.rows("rocpd_kernel_dispatch", &columns, processes, |row, processes| {
            let (track, times) = self.location(row);
            let symbol = row.i64(10).and_then(|id| self.symbols.get(&id));
            let sizes = |first: usize| Some([row.i64(first)?, row.i64(first + 1)?, row.i64(first + 2)?]);
            let kernel = Kernel {
                name: symbol.map_or("", |symbol| &symbol.name),
                device: self.agents.of_kernel(track.agent.map(Agent::Number)),
                queue: track.queue,
                stream: track.stream,
                correlation: self.about(row.i64(11)).and_then(|about| about.correlation),
                times,
                group: sizes(14),
                grid: sizes(17),
                shared: row.i64(13),
                scratch: row.i64(12),
                registers: symbol.and_then(|symbol| symbol.registers),
                counters: row.i64(11).and_then(|event| counters.remove(&event)),
            };
            samples.push_kernel(&kernel, ("", row.i64(20)), track.pid, processes);
        });
        self.samples = samples;
        count_without_kernel(counters.len(), processes);
    }

    /// Add the copies to the trace of their process.
    fn copies(&self, processes: &mut Processes<'_>) {
        let columns = [&PLACE[..], &["name_id", "event_id", "src_agent_id", "dst_agent_id", "size"]].concat();
        self.rows("rocpd_memory_copy", &columns, processes, |row, processes| {
            let (track, times) = self.location(row);
            let gpu = |column: usize| row.i64(column).and_then(|agent| self.agents.gpu(Agent::Number(agent)));
            let copy = Copy {
                direction: self.text(row.i64(10)),
                source: gpu(12),
                destination: gpu(13),
                stream: track.stream,
                correlation: self.about(row.i64(11)).and_then(|about| about.correlation),
                times,
                bytes: row.i64(14),
            };
            copy.push(track.pid, processes);
        });
    }
}
