//! Reader of folders that DrGPUM's collector writes (`gvprof -e memory_liveness`).
//!
//! * `memory_liveness.txt`: `[OBJECT]: OPERATION(TYPE), …` per object. Types are 0 allocation, 1 set, 2 copy to the
//!   object, 3 copy from it, 4 kernel that accesses it, 5 free. An object has the number of its allocation, and
//!   operations are numbered in host order.
//! * `memory_size_list.txt`: `op_id=OBJECT, size=BYTES`
//! * `operation_stream_info.txt` (optional): `op_id: OPERATION, KIND CONTEXT, stream_id: STREAM`
//!
//! The files do not distinguish reads and writes of kernels. Call paths are in files of HPCToolkit and are not read.

use super::MOST_BYTES;
use crate::{Error, diagnostics};
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, MemoryCallKind, MemoryDeviceId, MemoryObjectId, MemoryTrace, NewCall,
    NewObject,
};
use std::collections::BTreeMap;
use std::path::Path;

const LIVENESS: &str = "memory_liveness.txt";
const SIZES: &str = "memory_size_list.txt";
const STREAMS: &str = "operation_stream_info.txt";

const ALLOCATE: u64 = 0;
const SET: u64 = 1;
const COPY_TO: u64 = 2;
const COPY_FROM: u64 = 3;
const KERNEL: u64 = 4;
const FREE: u64 = 5;

/// Check if a directory contains at least one file of DrGPUM's collector.
pub(super) fn is_drgpum(directory: &Path) -> bool {
    [LIVENESS, SIZES, STREAMS].into_iter().any(|name| directory.join(name).is_file())
}

/// Check if a directory contains all required files of DrGPUM's collector.
pub(super) fn has_all_files(directory: &Path) -> bool {
    [LIVENESS, SIZES].into_iter().all(|name| directory.join(name).is_file())
}

/// Check if a text begins like `memory_liveness.txt`: `[12]: 12(0), …`.
pub(super) fn is_liveness(text: &str) -> bool {
    let number = text.strip_prefix('[').and_then(|rest| rest.split_once("]:")).map(|(number, _)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Error for a single file of a DrGPUM folder, which cannot be read by itself.
pub(super) fn incomplete_folder_error(path: &Path) -> Error {
    let found = "a single file of a DrGPUM folder, which cannot be read by itself".to_owned();
    let advice = format!("give the folder that contains {LIVENESS} and {SIZES}");
    Error::Unsupported { path: path.to_owned(), found, advice }
}

/// Read a folder of DrGPUM's collector into a memory trace.
///
/// # Errors
/// If a file cannot be read. Invalid lines are counted.
pub(super) fn read(label: &str, directory: &Path) -> Result<MemoryTrace, Error> {
    let text = |name: &str| {
        let path = directory.join(name);
        let bytes = std::fs::read(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
        Ok::<String, Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let missing: Vec<&str> = [LIVENESS, SIZES].into_iter().filter(|name| !directory.join(name).is_file()).collect();
    if !missing.is_empty() {
        let found = format!("the DrGPUM folder lacks {}", missing.join(" and "));
        let advice = format!("add {LIVENESS} and {SIZES}; {STREAMS} is optional");
        return Err(Error::Unsupported { path: directory.to_owned(), found, advice });
    }
    let streams = if directory.join(STREAMS).is_file() { text(STREAMS)? } else { String::new() };
    let (liveness, sizes) = (text(LIVENESS)?, text(SIZES)?);
    let mut trace = parse(label, &liveness, &sizes, &streams);
    trace.report.bytes = (liveness.len() + sizes.len() + streams.len()) as u64;
    if trace.calls.is_empty() {
        return Err(Error::Unsupported {
            path: directory.to_owned(),
            found: format!("the file {LIVENESS} of the DrGPUM folder contains no readable operation"),
            advice: "run the program to its end under `gvprof -e memory_liveness` and give the folder that it writes"
                .to_owned(),
        });
    }
    Ok(trace)
}

/// Accesses of one operation: object and type.
type Operation = Vec<(u64, u64)>;

/// Parse the texts of the three files into a memory trace; invalid lines are counted.
fn parse(label: &str, liveness: &str, sizes: &str, streams: &str) -> MemoryTrace {
    let mut trace =
        MemoryTrace { label: label.to_owned(), has_accesses: true, saw_end: true, ..MemoryTrace::default() };
    let mut operations: BTreeMap<u64, Operation> = BTreeMap::new();
    for line in liveness.lines().filter(|line| !line.trim().is_empty()) {
        trace.report.records += 1;
        match numbers(line).split_first() {
            Some((object, rest))
                if line.trim_start().starts_with('[') && rest.len().is_multiple_of(2) && !has_negative(line) =>
            {
                for pair in rest.chunks_exact(2) {
                    operations.entry(pair[0]).or_default().push((*object, pair[1]));
                }
            }
            _ => diagnostics::MEMORY_BAD_EVENT.count(&mut trace.report, None, line),
        }
    }
    let pairs = |text: &str| -> BTreeMap<u64, u64> {
        let rows = text.lines().map(numbers).filter(|row| row.len() >= 2);
        rows.map(|row| (row[0], row[row.len() - 1])).collect()
    };
    let can_be = |line: &&str| !has_negative(line) && numbers(line).last().is_none_or(|bytes| *bytes <= MOST_BYTES);
    for line in sizes.lines().filter(|line| !can_be(line)) {
        diagnostics::MEMORY_BAD_EVENT.count(&mut trace.report, None, line);
    }
    let sizes: String = sizes.lines().filter(can_be).flat_map(|line| [line, "\n"]).collect();
    let mut writer = Writer { device: trace.device("gpu:0"), trace, sizes: pairs(&sizes), objects: BTreeMap::new() };
    let streams = pairs(streams);
    for (number, operation) in &operations {
        writer.operation(operation, streams.get(number).copied().unwrap_or(0));
    }
    let mut trace = writer.trace;
    // An operation's number is no time.
    trace.clear_times();
    let older = trace.objects.allocated_by.iter().filter(|call| call.is_none()).count();
    diagnostics::MEMORY_OLDER.count_many(&mut trace.report, older as u64, None, "");
    trace.report.events = trace.calls.len() as u64;
    trace.report.sort();
    trace
}

/// Check if a line contains a negative number, which the format does not allow.
fn has_negative(line: &str) -> bool {
    line.as_bytes().windows(2).any(|pair| pair[0] == b'-' && pair[1].is_ascii_digit())
}

/// All unsigned integers in a line of a DrGPUM file.
fn numbers(line: &str) -> Vec<u64> {
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// Conversion of numbered operations to calls and objects of a memory trace.
struct Writer {
    trace: MemoryTrace,
    device: MemoryDeviceId,
    sizes: BTreeMap<u64, u64>,
    objects: BTreeMap<u64, MemoryObjectId>,
}

impl Writer {
    /// Add an operation to the trace: its allocations, one call with all accesses, and its frees.
    fn operation(&mut self, operation: &Operation, stream: u64) {
        let stream = self.trace.stream(self.device, stream);
        let call = NewCall { stream, ..NewCall::default() };
        for (object, _) in operation.iter().filter(|(_, kind)| *kind == ALLOCATE) {
            let new = self.new_object(*object, call);
            let id = self.trace.allocate(new, call);
            self.objects.insert(*object, id);
        }
        let touches = |kind: &u64| (SET..=KERNEL).contains(kind);
        if operation.iter().any(|(_, kind)| touches(kind)) {
            let touched: Vec<(MemoryObjectId, u64)> = operation
                .iter()
                .filter(|(_, kind)| touches(kind))
                .map(|(object, kind)| (self.find_or_create(*object, call), *kind))
                .collect();
            self.trace.calls.push(kind_of(operation), call);
            for (object, kind) in touched {
                let (mode, extent) = match kind {
                    SET | COPY_TO => (AccessMode::Write, AccessExtent::Unknown),
                    COPY_FROM => (AccessMode::Read, AccessExtent::Unknown),
                    _ => (AccessMode::Unknown, AccessExtent::Unknown),
                };
                self.trace.accesses.push(object, mode, AccessEvidence::Instrumented, extent);
            }
            self.trace.seal_call();
        }
        for (object, _) in operation.iter().filter(|(_, kind)| *kind == FREE) {
            let id = self.find_or_create(*object, call);
            self.trace.release(id, call);
        }
        let unknown = operation.iter().filter(|(_, kind)| *kind > FREE).count() as u64;
        diagnostics::MEMORY_UNKNOWN_EVENT.count_many(
            &mut self.trace.report,
            unknown,
            None,
            "a memory operation whose type number is above 5, the largest known",
        );
    }

    /// Description of the object with this number, not yet added to the trace; a missing size is counted and becomes 0.
    fn new_object(&mut self, object: u64, call: NewCall) -> NewObject {
        let bytes = self.sizes.get(&object).copied();
        if bytes.is_none() {
            diagnostics::MEMORY_BAD_EVENT.count(
                &mut self.trace.report,
                None,
                &format!("memory object {object} has no size"),
            );
        }
        let name = self.trace.strings.intern(&format!("object {object}"));
        NewObject { bytes: bytes.unwrap_or(0), device: self.device, stream: call.stream, name, ..NewObject::default() }
    }

    /// Memory object with this DrGPUM number. If no allocation was recorded, an object older than the trace is created.
    fn find_or_create(&mut self, object: u64, call: NewCall) -> MemoryObjectId {
        if let Some(id) = self.objects.get(&object) {
            return *id;
        }
        let new = self.new_object(object, call);
        let id = self.trace.add_older(new);
        self.objects.insert(object, id);
        id
    }
}

/// Call kind of an operation by the types of its accesses: kernel, else copy, else set.
fn kind_of(operation: &Operation) -> MemoryCallKind {
    let has = |expected: u64| operation.iter().any(|(_, kind)| *kind == expected);
    match (has(KERNEL), has(COPY_TO), has(COPY_FROM)) {
        (true, _, _) => MemoryCallKind::Kernel,
        (_, true, true) => MemoryCallKind::CopyOnDevice,
        (_, true, false) => MemoryCallKind::CopyToDevice,
        (_, false, true) => MemoryCallKind::CopyToHost,
        _ => MemoryCallKind::Set,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two objects: uploaded, used by two kernels, the first downloaded, both freed.
    #[test]
    fn files_become_a_trace() {
        let liveness = "[1]: 1(0), 3(2), 5(4), 6(4), 7(3), 8(5), \n[2]: 2(0), 4(1), 5(4), 9(5), \n";
        let sizes = "op_id=2, size=512\nop_id=1, size=256\n";
        let streams = "test\nop_id: 5, ACCESS 12, stream_id: 3\nop_id: 6, ACCESS 12, stream_id: 0\n";
        let trace = parse("d", liveness, sizes, streams);
        trace.check().unwrap_or_else(|error| panic!("{error}"));
        use MemoryCallKind as K;
        let kinds =
            [K::Allocate, K::Allocate, K::CopyToDevice, K::Set, K::Kernel, K::Kernel, K::CopyToHost, K::Free, K::Free];
        assert_eq!(trace.calls.kind, kinds);
        assert_eq!(trace.objects.bytes, [256, 512]);
        assert_eq!(trace.accesses.len(), 6);
        let keys: Vec<u64> = trace.calls.stream[4..6].iter().map(|s| trace.streams[s.index()].key).collect();
        assert_eq!(keys, [3, 0]);
        assert!(trace.report.problems.is_empty());
        assert!(!trace.has_times(), "the numbers of operations are no times");
    }

    #[test]
    fn invalid_lines_are_counted() {
        let trace = parse("d", "[1]: 1(0), 3\nhello\n[7]: 4(5), 5(9), \n", "", "");
        assert_eq!(trace.report.count_of("damaged_memory_event"), 3);
        assert_eq!(trace.report.count_of("unknown_memory_event"), 1);
        assert_eq!(trace.report.count_of("older_than_records"), 1);
        assert_eq!(trace.calls.len(), 1);
    }

    #[test]
    fn impossible_sizes_are_counted() {
        let trace = parse("d", "[1]: 1(0), 3(5)\n[2]: 2(0), -4(5)\n", "op_id=1, size=-4\nop_id=2, size=8\n", "");
        assert_eq!(trace.objects.bytes, [0], "the line of object 2 is left out");
        let problem = trace.report.problems.iter().find(|problem| problem.code == "damaged_memory_event");
        let problem = problem.map(|problem| (problem.count, problem.example.as_str()));
        assert_eq!(problem, Some((3, "[2]: 2(0), -4(5)")), "the line, the size, the object without one");
        let trace = parse("d", "[1]: 1(0)\n", "op_id=1, size=4611686018427387904\n", "");
        assert_eq!((trace.objects.bytes[0], trace.report.count_of("damaged_memory_event")), (0, 2));
    }

    #[test]
    fn files_without_operations_are_reported() {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        for name in [LIVENESS, SIZES] {
            std::fs::write(folder.path().join(name), "").unwrap_or_else(|error| panic!("{error}"));
        }
        let message = read("d", folder.path()).map_or_else(|error| error.to_string(), |_| String::new());
        assert!(message.contains("contains no readable operation"), "{message}");
    }
}
