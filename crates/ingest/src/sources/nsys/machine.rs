//! Machine data of an export: names of processes and threads, GPUs, start of the recording, warnings of the profiler.

use super::Export;
use super::ids::{pid_of, tid_of};
use crate::diagnostics;
use crate::sources::processes::Processes;
use crate::sources::row::MAX_NS;
use serde_json::{Map, Value, json};
use stackline_model::{CLOCK_RATE, DEVICE_PROPERTIES, Key, MEMORY_BANDWIDTH, Trace, TrackKind};
use std::collections::BTreeMap;

/// GPUs of the machine by process and the process's own device number.
pub(super) type Gpus = BTreeMap<(i64, i64), i64>;

/// Set the names of processes and threads, and return the GPUs that the processes use. Runs before traces are created,
/// because their labels are names of processes.
pub(super) fn name_tracks(export: &Export<'_>, processes: &mut Processes<'_>) -> Gpus {
    let (mut names, mut threads) = (BTreeMap::new(), BTreeMap::new());
    export.rows("PROCESSES", &["pid", "name"], processes, |row, _| {
        if let (Some(pid), Some(name)) = (row.i64(0), row.text(1)) {
            names.insert(pid, name.into_owned());
        }
    });
    export.rows("ThreadNames", &["globalTid", "nameId"], processes, |row, _| {
        if let (Some(global), Some(name)) = (row.i64(0), export.text(row.i64(1))) {
            threads.insert((pid_of(global), tid_of(global)), name.to_owned());
        }
    });
    let gpus = gpus(export, processes);
    if !names.is_empty() {
        processes.note_unlisted(|pid| names.contains_key(&pid));
    }
    for process in processes.all() {
        let in_machine = |device: i64| gpus.get(&(process.pid, device)).copied().unwrap_or(device);
        process.device = process.devices().map(in_machine).min();
        let (pid, trace) = (process.pid, &mut process.trace);
        if let Some(name) = names.get(&pid) {
            let name = trace.strings.intern(name);
            let id = trace.tracks.process(Key::Int(pid));
            trace.tracks.processes[id.index()].name = name;
        }
        for track in trace.tracks.tracks.iter_mut().filter(|track| track.kind == TrackKind::Thread) {
            if let Some(name) = track.tid.as_int().and_then(|tid| threads.get(&(pid, tid))) {
                track.name = trace.strings.intern(name);
            }
        }
    }
    gpus
}

/// Number in the machine of each process's GPUs, by PID and device number, which `CUDA_VISIBLE_DEVICES` changes.
fn gpus(export: &Export<'_>, processes: &mut Processes<'_>) -> Gpus {
    let mut gpus = Gpus::new();
    export.rows("TARGET_INFO_CUDA_DEVICE", &["pid", "cudaId", "gpuId"], processes, |row, _| {
        if let [Some(pid), Some(cuda), Some(gpu)] = [0, 1, 2].map(|column| row.i64(column)) {
            gpus.insert((pid, cuda), gpu);
        }
    });
    gpus
}

/// Fill the metadata of the trace of process `pid`: version of the export, start time, properties of its GPUs.
pub(super) fn describe(export: &Export<'_>, gpus: &Gpus, pid: i64, trace: &mut Trace) {
    let mut entries: Vec<(String, String)> = Vec::new();
    let _ = export.file.rows("META_DATA_EXPORT", &["name", "value"], |row| {
        if let (Some(name), Some(value)) = (row.text(0), row.text(1))
            && ["EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"].contains(&&*name)
        {
            entries.push((name.into_owned(), Value::from(value.into_owned()).to_string()));
        }
        Ok(())
    });
    let _ = export.file.rows("TARGET_INFO_SESSION_START_TIME", &["utcEpochNs"], |row| {
        trace.meta.base_ns = row.i64(0).filter(|ns| (0..=MAX_NS).contains(ns)).unwrap_or(0);
        Ok(())
    });
    let devices = devices(export, gpus, pid);
    if !devices.is_empty() {
        entries.push((DEVICE_PROPERTIES.to_owned(), Value::from(devices).to_string()));
    }
    trace.meta.entries = entries;
}

/// Properties of a GPU: the column of `TARGET_INFO_GPU`, and Kineto's name.
const NUMBERS: [(&str, &str); 12] = [
    ("totalMemory", "totalGlobalMem"),
    ("computeMajor", "computeMajor"),
    ("computeMinor", "computeMinor"),
    ("smCount", "numSms"),
    ("threadsPerWarp", "warpSize"),
    ("maxThreadsPerBlock", "maxThreadsPerBlock"),
    ("maxRegistersPerBlock", "regsPerBlock"),
    ("maxRegistersPerSm", "regsPerMultiprocessor"),
    ("maxShmemPerBlock", "sharedMemPerBlock"),
    ("maxShmemPerSm", "sharedMemPerMultiprocessor"),
    ("memoryBandwidth", MEMORY_BANDWIDTH),
    ("clockRate", CLOCK_RATE),
];

/// GPUs of a process in Kineto's form, with the process's device numbers. Unrecorded properties have no entry.
fn devices(export: &Export<'_>, gpus: &Gpus, pid: i64) -> Vec<Value> {
    let of_process = gpus.range((pid, i64::MIN)..=(pid, i64::MAX));
    let numbers_of: BTreeMap<i64, i64> = of_process.map(|(&(_, cuda), &gpu)| (gpu, cuda)).collect();
    let numbers = NUMBERS.map(|(column, _)| column);
    let columns = [&["id", "cuDevice", "name", "maxWarpsPerSm"][..], &numbers].concat();
    let mut devices = Vec::new();
    let _ = export.file.rows("TARGET_INFO_GPU", &columns, |row| {
        let Some(gpu) = row.i64(0).or_else(|| row.i64(1)) else { return Ok(()) };
        let id = match numbers_of.get(&gpu) {
            Some(&cuda) => cuda,
            None if numbers_of.is_empty() => row.i64(1).unwrap_or(gpu),
            None => return Ok(()),
        };
        let mut device = Map::new();
        device.insert("id".to_owned(), json!(id));
        device.extend(row.text(2).map(|name| ("name".to_owned(), json!(name))));
        for (at, (_, key)) in NUMBERS.iter().enumerate() {
            device.extend(row.i64(4 + at).map(|number| ((*key).to_owned(), json!(number))));
        }
        let width = device.get("warpSize").and_then(Value::as_i64);
        if let (Some(warps), Some(width)) = (row.i64(3), width) {
            device.insert("maxThreadsPerMultiprocessor".to_owned(), json!(warps.saturating_mul(width)));
        }
        devices.push(Value::Object(device));
        Ok(())
    });
    devices
}

/// Severities of warnings and errors of the profiler (`ENUM_DIAGNOSTIC_SEVERITY_LEVEL`).
const WARNINGS: [i64; 2] = [2, 3];

/// Count the warnings of the profiler, which explain missing data.
pub(super) fn note_diagnostics(export: &Export<'_>, trace: &mut Trace) {
    let _ = export.file.rows("DIAGNOSTIC_EVENT", &["severity", "text"], |row| {
        if row.i64(0).is_some_and(|severity| WARNINGS.contains(&severity)) {
            let text = row.text(1).unwrap_or_default();
            diagnostics::PROFILER_MESSAGE.count(&mut trace.report, None, text.trim());
        }
        Ok(())
    });
    trace.report.sort();
}
