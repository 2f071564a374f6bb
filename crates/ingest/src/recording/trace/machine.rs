//! CPU limits, CPU use and recording cost of the processes of a machine, as a metadata entry of the trace. The entry is
//! JSON, such as
//!
//! ```json
//! {"processes": [{"pid": 7, "own": true, "machine": 8, "usable_milli": 2000, "loads": [[0, 5, 0]],
//!   "cost": {"begin_ns": 120, "end_ns": 80, "torch_ns": 90, "measured": 4711}}]}
//! ```
//!
//! `own` marks the processes of the trace itself; the others ran on the same machine. Each of `loads` is a time (ns
//! since the base) with the total running and CPU-wait time of all threads of the process up to then. The trace of each
//! rank has all processes of its machine, so the samples of long recordings are thinned out.

use super::calls::{Calls, CpuLoad};
use serde_json::{Value, json};
use stackline_model::RECORDING;
use stackline_recording::Processors;

/// Limit on load samples of an entry, over all processes. Each process keeps at least [`LEAST_LOADS`].
const MOST_LOADS: usize = 4096;
/// Minimum number of load samples per process.
const LEAST_LOADS: usize = 16;

/// A process in the metadata entry on CPU limits, CPU use and recording cost.
pub(super) struct MachineProcess {
    /// Load samples with ascending times, in ns since the base.
    loads: Vec<CpuLoad>,
    boot: Option<u64>,
    rank: Option<u32>,
    value: Value,
}

impl MachineProcess {
    /// Describe a process for the metadata entry. `offset` is added to its times to get ns since the base.
    pub(super) fn new(calls: &Calls, offset: i64) -> Self {
        let loads = calls.loads.iter().map(|load| CpuLoad { at: load.at.saturating_add(offset), ..*load }).collect();
        let mut value = json!({ "pid": calls.process.pid });
        if let Some(processors) = &calls.processors {
            value["machine"] = processors.machine.into();
            value["usable_milli"] = usable_milli(processors).into();
        }
        if let Some(cost) = &calls.cost {
            value["cost"] = json!({ "begin_ns": cost.begin_ns, "end_ns": cost.end_ns, "torch_ns": cost.torch_ns,
                "measured": cost.measured });
        }
        Self { loads, boot: calls.boot, rank: calls.process.rank, value }
    }

    /// JSON value of the process with at most `most_loads` load samples; `own` is true for processes of the trace
    /// itself.
    fn entry(&self, own: bool, most_loads: usize) -> Value {
        let loads = thin_out(&self.loads, most_loads).map(|load| json!([load.at, load.ran_ns, load.waited_ns]));
        let mut value = self.value.clone();
        value["loads"] = loads.collect();
        value["own"] = own.into();
        value
    }
}

/// Select at most `most` load samples, including the first and last one. Values are cumulative, so only the
/// distribution between two samples is lost.
fn thin_out(loads: &[CpuLoad], most: usize) -> impl Iterator<Item = &CpuLoad> {
    let (count, last) = (loads.len().min(most), loads.len().saturating_sub(1));
    (0..count).filter_map(move |index| loads.get(index * last / (count - 1).max(1)))
}

/// CPU limit of the process, in thousandths of a processor; `None` if unknown.
fn usable_milli(processors: &Processors) -> Option<u32> {
    let allowed = Some(processors.allowed).filter(|&allowed| allowed > 0).map(|allowed| allowed.saturating_mul(1000));
    [allowed, processors.quota_milli].into_iter().flatten().min()
}

/// Name and JSON text of the metadata entry for the trace of a rank, with all processes of its machine; `None` without
/// data.
pub(super) fn entry(all: &[MachineProcess], rank: Option<u32>) -> Option<(String, String)> {
    let is_known =
        |described: &&MachineProcess| described.value.get("machine").is_some() || described.value.get("cost").is_some();
    let machines: Vec<Option<u64>> = all.iter().filter(|one| one.rank == rank).map(|one| one.boot).collect();
    let near = all.iter().filter(|one| one.rank == rank || one.boot.is_some() && machines.contains(&one.boot));
    let near: Vec<&MachineProcess> = near.filter(is_known).collect();
    let most_loads = (MOST_LOADS / near.len().max(1)).max(LEAST_LOADS);
    let processes: Vec<Value> = near.iter().map(|one| one.entry(one.rank == rank, most_loads)).collect();
    (!processes.is_empty()).then(|| (RECORDING.to_owned(), json!({ "processes": processes }).to_string()))
}
