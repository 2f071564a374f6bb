//! Reader of CSV files such as `…_kernel_trace.csv`: one file for each kind of records, together one run.
//!
//! The columns of a file determine its table, and the start of its name the run.

use super::agents::{Agents, Gpu};
use super::csv_table::{CsvTable, Row};
use super::events::{Call, Copy, Counters, Kernel, count_without_kernel, registers};
use super::instructions::Code;
use super::samples::{RecordedSample, Samples};
use crate::diagnostics;
use crate::sources::File;
use crate::sources::processes::Processes;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Known tables, in the order in which they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    Agents,
    Calls,
    Copies,
    /// Samples of instructions.
    Samples,
    /// Values of counters, with the kernels' data.
    Counters,
    Kernels,
    /// Known, but not supported yet.
    Unread,
}

/// Tables by columns that only they have.
const TABLES: &[(&[&str], Table)] = &[
    (&["Logical_Node_Id", "Agent_Type"], Table::Agents),
    (&["Counter_Name", "Kernel_Name"], Table::Counters),
    // Counters over time.
    (&["Counter_Name", "Dispatch_Id"], Table::Unread),
    (&["Kernel_Name", "Start_Timestamp"], Table::Kernels),
    (&["Function", "Start_Timestamp"], Table::Calls),
    (&["Direction", "Start_Timestamp"], Table::Copies),
    // Allocations, scratch memory.
    (&["Allocation_Size", "Start_Timestamp"], Table::Unread),
    (&["Kind", "Operation", "Start_Timestamp"], Table::Unread),
    (&["Sample_Timestamp", "Dispatch_Id"], Table::Samples),
];

/// Suffixes of the names of a run's files.
const ENDINGS: &[&str] = &[
    "_agent_info",
    "_counter_collection",
    "_counter_collection_trace",
    "_hip_api_trace",
    "_hipfile_api_trace",
    "_hip_compiler_api_trace",
    "_hip_runtime_api_trace",
    "_hsa_api_trace",
    "_kernel_trace",
    "_marker_api_trace",
    "_memory_allocation_trace",
    "_memory_copy_trace",
    "_pc_sampling_host_trap",
    "_pc_sampling_stochastic",
    "_rccl_api_trace",
    "_rocdecode_api_trace",
    "_regions_trace",
    "_rocjpeg_api_trace",
    "_rocshmem_api_trace",
    "_scratch_memory_trace",
    "_spm_counter_collection_trace",
    "_streaming_performance_monitor",
];

/// Name of a CSV table, plain or compressed, without its suffix.
fn stem(name: &str) -> Option<&str> {
    [".csv", ".csv.gz", ".csv.zst"].iter().find_map(|end| name.strip_suffix(end))
}

/// Run of a file by its name. A file with a name unlike `rocprofv3`'s is a run by itself.
pub(super) fn run_of(name: &str) -> Option<&str> {
    let stem = stem(name)?;
    Some(ENDINGS.iter().find_map(|ending| stem.strip_suffix(ending)).unwrap_or(name))
}

/// Detect the table of a CSV file by its first bytes, the header line; `None` if the table is unknown.
pub(super) fn table(head: &[u8]) -> Option<Table> {
    let line = head.split(|&byte| byte == b'\n').next()?;
    if !line.starts_with(b"\"") && !line.first().is_some_and(u8::is_ascii_uppercase) {
        return None;
    }
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let columns: Vec<&str> = line.split(',').map(|column| column.trim_matches('"')).collect();
    table_of(|column| columns.iter().any(|own| own.eq_ignore_ascii_case(column)))
}

/// First known table whose distinguishing columns are all present; `None` if there is none.
pub(super) fn table_of(has: impl Fn(&str) -> bool) -> Option<Table> {
    TABLES.iter().find(|(needed, _)| needed.iter().all(|column| has(column))).map(|&(_, table)| table)
}

/// Data of a run's files that were read before: agents, counters, samples and processes.
#[derive(Default)]
struct Run {
    agents: Agents,
    /// Counters by dispatch number, which several processes may use.
    counters: FxHashMap<i64, Vec<CountedDispatch>>,
    /// Samples of instructions without their kernel.
    samples: Samples,
    /// Process from the names of the files, used for kernels without another source of it.
    pid: Option<i64>,
    /// The first process that a table names.
    known: Option<i64>,
    /// Processes by the identifier in each row of tables that were made from a database.
    by_guid: FxHashMap<Box<str>, i64>,
}

/// Counter values of a dispatch of one process.
struct CountedDispatch {
    /// Identifier of the process; empty without one.
    guid: Box<str>,
    pid: Option<i64>,
    /// `None` once a kernel has taken them.
    values: Option<Counters>,
}

/// Read the CSV files of a run into traces.
pub(super) fn read(files: Vec<File<'_>>, processes: &mut Processes<'_>) {
    let mut run = Run { pid: files.first().and_then(|file| pid_of(&file.name)), ..Run::default() };
    let mut opened: Vec<CsvTable<'_>> = files.into_iter().filter_map(|file| CsvTable::new(file, processes)).collect();
    let mut known = BTreeSet::new();
    opened.retain(|file| {
        let is_new = known.insert(stem(&file.name).unwrap_or(&file.name).to_owned());
        if !is_new {
            processes.count(diagnostics::REPEATED_FILE, &file.name);
        }
        is_new
    });
    let has_kernels = opened.iter().any(|file| file.table == Table::Kernels);
    // Kernels need agents, samples and counters, and calls identify the process of kernels.
    opened.sort_by_key(|file| file.table);
    for file in &mut opened {
        match file.table {
            Table::Agents => run.agents(file, processes),
            Table::Calls => run.calls(file, processes),
            Table::Copies => run.copies(file, processes),
            Table::Samples => run.samples(file, processes),
            Table::Counters if has_kernels => run.counters(file, processes),
            Table::Counters => run.counted_kernels(file, processes),
            Table::Kernels => run.kernels(file, processes),
            Table::Unread => processes.count(diagnostics::TABLE_NOT_READ, &file.name),
        }
    }
    let left = run.counters.values().flatten().filter(|counted| counted.values.is_some()).count();
    count_without_kernel(left, processes);
    let (named, only) = (&run.by_guid, run.known.or(run.pid));
    run.samples.push_rest(|guid| named.get(guid).copied().or(only), processes);
    let described = run.agents.described();
    processes.all().for_each(|process| process.trace.meta.entries.clone_from(&described));
}

/// PID in the name of a file: `908_kernel_trace.csv` belongs to process 908.
fn pid_of(name: &str) -> Option<i64> {
    run_of(name)?.rsplit('/').next()?.parse().ok()
}

/// Columns that tables of kernels and of counters share; their own columns follow.
const KERNEL: [&str; 12] = [
    "Kernel_Name",
    "Dispatch_Id",
    "Guid",
    "Agent_Id",
    "Queue_Id",
    "Correlation_Id",
    "Start_Timestamp",
    "End_Timestamp",
    "LDS_Block_Size",
    "Scratch_Size",
    "VGPR_Count",
    "Accum_VGPR_Count",
];

/// Columns [`KERNEL`], followed by the table's own columns.
fn of_kernel<const M: usize, const N: usize>(own: [&'static str; M]) -> [&'static str; N] {
    std::array::from_fn(|at| KERNEL.get(at).copied().unwrap_or_else(|| own[at - KERNEL.len()]))
}

impl Run {
    /// Read the GPUs of the agent table, and number them in the order of their nodes.
    fn agents(&mut self, file: &mut CsvTable<'_>, processes: &mut Processes<'_>) {
        let columns = [
            "Node_Id",
            "Agent_Type",
            "Cu_Count",
            "Wave_Front_Size",
            "Max_Waves_Per_Cu",
            "Workgroup_Max_Size",
            "Product_Name",
            "Name",
            "Logical_Node_Id",
        ];
        let mut gpus = Vec::new();
        file.for_each_row(columns, processes, |row, _| {
            if let (Some(node), "GPU") = (row.i64(0), row.text(1)) {
                let gpu = Gpu {
                    compute_units: row.i64(2),
                    wave: row.i64(3),
                    waves: row.i64(4),
                    group: row.i64(5),
                    ..Gpu::default()
                };
                let name = [row.text(6), row.text(7)].into_iter().find(|name| !name.is_empty()).unwrap_or_default();
                gpus.push((node, row.i64(8).unwrap_or(node), name.to_owned(), gpu));
            }
        });
        // GPUs are numbered in the order of their nodes, as in HIP. `Agent 4` is a logical number
        // (`--agent-index relative`), unless the user requested nodes.
        gpus.sort_by_key(|&(node, ..)| node);
        for (_, logical, name, gpu) in &gpus {
            self.agents.add(*logical, &Gpu { name, ..*gpu });
        }
        gpus.iter().enumerate().for_each(|(number, &(node, ..))| self.agents.add_alias(node, number as i64));
    }

    /// Process of a row: by its identifier, which creates a process at first use; else by a PID from tables or the
    /// file's name.
    fn process_of(&mut self, guid: &str, pid: Option<i64>, processes: &mut Processes<'_>) -> Option<i64> {
        // The process in tables takes precedence over the name of the file.
        self.known = self.known.or(pid);
        let pid = pid.or(self.known).or(self.pid);
        if guid.is_empty() {
            return pid;
        }
        if let Some(&known) = self.by_guid.get(guid) {
            return Some(known);
        }
        let key = processes.add_process(pid.unwrap_or(0));
        self.by_guid.insert(guid.into(), key);
        Some(key)
    }

    /// Read API calls, marks and ranges into the traces of their processes.
    fn calls(&mut self, file: &mut CsvTable<'_>, processes: &mut Processes<'_>) {
        let columns = [
            "Domain",
            "Function",
            "Process_Id",
            "Thread_Id",
            "Correlation_Id",
            "Start_Timestamp",
            "End_Timestamp",
            "Guid",
        ];
        file.for_each_row(columns, processes, |row, processes| {
            let call = Call {
                domain: row.text(0),
                function: row.text(1),
                message: None,
                tid: row.i64(3),
                correlation: row.i64(4),
                times: (row.i64(5), row.i64(6)),
            };
            let owner = self.process_of(row.text(7), row.i64(2), processes);
            call.push(owner, processes);
        });
    }

    /// Read memory copies into the traces of their processes.
    fn copies(&mut self, file: &mut CsvTable<'_>, processes: &mut Processes<'_>) {
        let columns = [
            "Direction",
            "Source_Agent_Id",
            "Destination_Agent_Id",
            "Stream_Id",
            "Correlation_Id",
            "Start_Timestamp",
            "End_Timestamp",
            "Guid",
        ];
        file.for_each_row(columns, processes, |row, processes| {
            let gpu = |column: usize| row.agent(column).and_then(|agent| self.agents.gpu(agent));
            let copy = Copy {
                direction: row.text(0),
                source: gpu(1),
                destination: gpu(2),
                stream: row.i64(3),
                correlation: row.i64(4),
                times: (row.i64(5), row.i64(6)),
                bytes: None,
            };
            let owner = self.process_of(row.text(7), None, processes);
            copy.push(owner, processes);
        });
    }

    /// Kernel from the [`KERNEL`] columns of a row, except its name.
    fn kernel<const N: usize>(&self, row: &Row<'_, N>) -> Kernel<'static> {
        Kernel {
            device: self.agents.of_kernel(row.agent(3)),
            queue: row.i64(4),
            correlation: row.i64(5),
            times: (row.i64(6), row.i64(7)),
            shared: row.i64(8),
            scratch: row.i64(9),
            registers: registers(row.i64(10), row.i64(11)),
            ..Kernel::default()
        }
    }

    /// Read kernels into the traces of their processes, with the counter values of their dispatch.
    fn kernels(&mut self, file: &mut CsvTable<'_>, processes: &mut Processes<'_>) {
        let columns: [&str; 19] = of_kernel([
            "Stream_Id",
            "Workgroup_Size_X",
            "Workgroup_Size_Y",
            "Workgroup_Size_Z",
            "Grid_Size_X",
            "Grid_Size_Y",
            "Grid_Size_Z",
        ]);
        file.for_each_row(columns, processes, |row, processes| {
            let own = KERNEL.len();
            let kernel = Kernel {
                name: row.text(0),
                stream: row.i64(own),
                group: row.sizes(own + 1),
                grid: row.sizes(own + 4),
                counters: row.i64(1).and_then(|dispatch| self.take_counters(row.text(2), dispatch)),
                ..self.kernel(row)
            };
            let owner = self.process_of(row.text(2), None, processes);
            self.samples.push_kernel(&kernel, (row.text(2), row.i64(1)), owner, processes);
        });
    }

    /// Read samples of instructions, which the tables of kernels or counters, read later, take.
    fn samples(&mut self, file: &mut CsvTable<'_>, processes: &mut Processes<'_>) {
        let samples = &mut self.samples;
        let columns = [
            "Guid",
            "Dispatch_Id",
            "Correlation_Id",
            "Sample_Timestamp",
            "Instruction",
            "Instruction_Comment",
            "Wave_Issued_Instruction",
            "Instruction_Type",
            "Stall_Reason",
        ];
        file.for_each_row(columns, processes, |row, _| {
            let (text, comment) = (row.text(4), row.text(5));
            let code = match text.is_empty() {
                // The comment of an instruction that was not decoded ends with its address.
                true => Code { offset: comment.rsplit(':').next().and_then(|at| at.parse().ok()), ..Code::default() },
                false => samples.instructions.code(text, comment),
            };
            samples.add(&RecordedSample {
                guid: row.text(0),
                dispatch: row.i64(1),
                correlation: row.i64(2),
                time: row.i64(3),
                code,
                issued: row.i64(6),
                instruction_type: row.text(7),
                stall_reason: row.text(8),
            });
        });
    }

    /// Read counter values by process and dispatch number; the kernel table, which is read later, takes them.
    fn counters(&mut self, file: &mut CsvTable<'_>, processes: &mut Processes<'_>) {
        let counters = &mut self.counters;
        let columns = ["Dispatch_Id", "Counter_Name", "Counter_Value", "Guid", "Process_Id"];
        file.for_each_row(columns, processes, |row, processes| {
            let (guid, pid) = (row.text(3), row.i64(4));
            match (row.i64(0), row.text(2).parse::<f64>()) {
                (Some(dispatch), Ok(value)) => {
                    let of_dispatch = counters.entry(dispatch).or_default();
                    let own = of_dispatch.iter().position(|counted| *counted.guid == *guid && counted.pid == pid);
                    let at = own.unwrap_or(of_dispatch.len());
                    if own.is_none() {
                        of_dispatch.push(CountedDispatch { guid: guid.into(), pid, values: None });
                    }
                    of_dispatch[at].values.get_or_insert_default().add(row.text(1), value);
                }
                (None, Ok(_)) => count_without_kernel(1, processes),
                (_, Err(_)) => processes.count(diagnostics::ODD_VALUE, row.text(2)),
            }
        });
    }

    /// Take the counter values of a kernel's dispatch. Tables of kernels lack the PID: without an identifier, these are
    /// the values of the only process with such a dispatch, or else those of the run's process.
    fn take_counters(&mut self, guid: &str, dispatch: i64) -> Option<Counters> {
        let pid = self.known.or(self.pid);
        let of_dispatch = self.counters.get_mut(&dispatch)?;
        let is_of_guid = |counted: &CountedDispatch| *counted.guid == *guid;
        let is_only = of_dispatch.iter().filter(|counted| is_of_guid(counted)).count() == 1;
        let at = of_dispatch.iter().position(|counted| is_of_guid(counted) && (is_only || counted.pid == pid))?;
        of_dispatch[at].values.take()
    }

    /// Read the kernels of a run that only counted: one row per kernel and counter.
    fn counted_kernels(&mut self, file: &mut CsvTable<'_>, processes: &mut Processes<'_>) {
        let columns: [&str; 15] = of_kernel(["Process_Id", "Counter_Name", "Counter_Value"]);
        let own = KERNEL.len();
        let mut kernels: Vec<CountedKernel> = Vec::new();
        let mut of_dispatch: FxHashMap<(Option<i64>, i64), usize> = FxHashMap::default();
        file.for_each_row(columns, processes, |row, processes| {
            let owner = self.process_of(row.text(2), row.i64(own), processes);
            let next = kernels.len();
            let at = row.i64(1).map_or(next, |dispatch| *of_dispatch.entry((owner, dispatch)).or_insert(next));
            if at == next {
                // The sizes of its grid and groups are products of three sizes, which cannot be separated.
                let kernel = Kernel { counters: Some(Counters::default()), ..self.kernel(row) };
                let (name, guid) = (row.text(0).into(), row.text(2).into());
                kernels.push(CountedKernel { name, guid, dispatch: row.i64(1), owner, kernel });
            }
            match (row.text(own + 2).parse(), &mut kernels[at].kernel.counters) {
                (Ok(value), Some(counters)) => counters.add(row.text(own + 1), value),
                _ => processes.count(diagnostics::ODD_VALUE, row.text(own + 2)),
            }
        });
        for CountedKernel { name, guid, dispatch, owner, kernel } in kernels {
            self.samples.push_kernel(&Kernel { name: &name, ..kernel }, (&*guid, dispatch), owner, processes);
        }
    }
}

/// A kernel whose counters are still being read.
struct CountedKernel {
    name: Box<str>,
    guid: Box<str>,
    dispatch: Option<i64>,
    owner: Option<i64>,
    kernel: Kernel<'static>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_by_their_columns() {
        let kernels =
            b"\"Kind\",\"Agent_Id\",\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\"\n\"KERNEL_DISPATCH\"";
        assert_eq!(table(kernels), Some(Table::Kernels));
        assert_eq!(
            table(b"Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\r\n"),
            Some(Table::Calls)
        );
        let samples = b"\"Sample_Timestamp\",\"Exec_Mask\",\"Dispatch_Id\",\"Instruction\",\"Correlation_Id\"\n";
        assert_eq!(table(samples), Some(Table::Samples));
        assert_eq!(table(b"\"Name\",\"Calls\",\"TotalDurationNs\"\n"), None, "a summary has no times");
        assert_eq!(table(b"Direction,Start_Timestamp and more text"), None);
        assert_eq!(table(b"{\"Kernel_Name\"}"), None);
    }

    #[test]
    fn runs_by_their_names() {
        assert_eq!(run_of("host/908_kernel_trace.csv"), Some("host/908"));
        assert_eq!(run_of("host/908_hip_api_trace.csv.gz"), Some("host/908"));
        assert_eq!(run_of("kernels.csv"), Some("kernels.csv"));
        assert_eq!(run_of("908_results.json"), None);
        assert_eq!((pid_of("host/908_kernel_trace.csv"), pid_of("decode_kernel_trace.csv")), (Some(908), None));
    }
}
