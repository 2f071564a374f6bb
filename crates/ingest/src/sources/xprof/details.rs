//! Sizes that XProf writes into one text: `regs:38 shm:0 grid:160,1,1 block:1024,1,1`,
//! `kind_src:device kind_dst:pinned size:4`. They become separate arguments with Kineto's names.

use stackline_model::{AttrValue, EventId, StrId, Trace};

const KERNEL: &str = "kernel_details";
/// Copies and fills.
const BYTES: [&str; 2] = ["memcpy_details", "memset_details"];

/// Limit on registers per thread; larger numbers are errors of profilers.
const MOST_REGISTERS: i64 = 1024;

/// Add sizes from XProf's text of details to GPU operations as arguments.
pub(super) fn add_arguments(trace: &mut Trace) {
    let kernels = trace.attr(KERNEL);
    let copies = BYTES.map(|key| trace.attr(key));
    let text = |value: Option<AttrValue>| match value? {
        AttrValue::Str(text) => Some(text),
        _ => None,
    };
    let mut found: Vec<(EventId, StrId, bool)> = Vec::new();
    for event in trace.events.ids().filter(|&e| trace.kind(e).is_gpu_work()) {
        let copied = || copies.iter().find_map(|column| text(column.get(event)));
        match text(kernels.get(event)) {
            Some(details) => found.push((event, details, true)),
            None => found.extend(copied().map(|details| (event, details, false))),
        }
    }
    let mut additions = Vec::new();
    for (event, details, is_kernel) in found {
        let details = trace.strings.get(details).to_owned();
        let arguments =
            if is_kernel { of_kernel(&details) } else { of_copy(&details, trace.events.dur[event.index()]) };
        for (key, value) in arguments {
            let key = trace.strings.intern(key);
            let value = match value {
                Detail::Int(number) => AttrValue::Int(number),
                Detail::Float(number) => AttrValue::Float(number),
                Detail::Json(text) => AttrValue::Json(trace.strings.intern(&text)),
            };
            additions.push((event, key, value));
        }
    }
    trace.attrs.append(&additions);
}

#[derive(Clone, Debug, PartialEq)]
enum Detail {
    Int(i64),
    Float(f64),
    Json(String),
}

/// Value after `key:` in XProf's text of sizes; `None` without the key.
fn value_of<'d>(details: &'d str, key: &str) -> Option<&'d str> {
    details.split_ascii_whitespace().find_map(|part| part.strip_prefix(key)?.strip_prefix(':'))
}

/// Integer after `key:` in XProf's text of sizes; `None` without the key or a valid number.
fn number(details: &str, key: &str) -> Option<i64> {
    value_of(details, key)?.parse().ok()
}

/// Kineto arguments from the details of a kernel: grid, block, registers per thread, shared memory in bytes.
fn of_kernel(details: &str) -> Vec<(&'static str, Detail)> {
    let mut found = Vec::new();
    for key in ["grid", "block"] {
        let sizes =
            value_of(details, key).map(|sizes| sizes.split(',').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>());
        if let Some(Ok(sizes)) = sizes {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            found.push((key, Detail::Json(format!("[{}]", sizes.join(",")))));
        }
    }
    let registers = number(details, "regs");
    if registers.is_some_and(|count| !(0..=MOST_REGISTERS).contains(&count)) {
        return found;
    }
    found.extend(registers.map(|count| ("registers per thread", Detail::Int(count))));
    let parts = [("static_shared", "dynamic_shared"), ("group_mem", "group_mem"), ("shm", "shm")];
    let shared = parts.iter().find_map(|&(fixed, dynamic)| {
        let fixed_bytes = number(details, fixed)?;
        Some(if fixed == dynamic { fixed_bytes } else { fixed_bytes.saturating_add(number(details, dynamic)?) })
    });
    found.extend(shared.map(|bytes| ("shared memory", Detail::Int(bytes))));
    found
}

/// Kineto arguments of a copy or fill: bytes, and bandwidth in GB/s (bytes per ns). Empty if the size is 0 (not
/// recorded).
fn of_copy(details: &str, ns: i64) -> Vec<(&'static str, Detail)> {
    let Some(bytes) = number(details, "size").filter(|&bytes| bytes > 0) else { return Vec::new() };
    let mut found = vec![("bytes", Detail::Int(bytes))];
    if ns > 0 {
        found.push(("memory bandwidth (GB/s)", Detail::Float(bytes as f64 / ns as f64)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_sizes_of_several_versions() {
        let json = |text: &str| Detail::Json(text.to_owned());
        let expected = vec![
            ("grid", json("[256,1,1]")),
            ("block", json("[64,1,1]")),
            ("registers per thread", Detail::Int(184)),
            ("shared memory", Detail::Int(49_153)),
        ];
        let cuda = "regs:184 static_shared:1 dynamic_shared:49152 grid:256,1,1 block:64,1,1 occ_pct:12.5";
        assert_eq!(of_kernel(cuda), expected);
        let tensorflow = "regs:38 shm:7 grid:160,1,1 block:1024,1,1";
        assert_eq!(
            of_kernel(tensorflow)[2..],
            [("registers per thread", Detail::Int(38)), ("shared memory", Detail::Int(7))]
        );
        let rocm = " grid:1,1,1 block:512,1,1 private_mem:0 group_mem:8 occ_pct:0";
        assert_eq!(of_kernel(rocm)[2..], [("shared memory", Detail::Int(8))]);
        let garbage = "regs:2191500840 static_shared:32462 dynamic_shared:0 grid:1280,1,1 block:256,1,1";
        assert_eq!(of_kernel(garbage), [("grid", json("[1280,1,1]")), ("block", json("[256,1,1]"))]);
        assert_eq!(of_kernel("grid:1,x,1"), []);
    }

    #[test]
    fn sizes_of_copies() {
        let details = "kind_src:device kind_dst:pinned size:4096 dest:0 async:1";
        let expected = [("bytes", Detail::Int(4096)), ("memory bandwidth (GB/s)", Detail::Float(2.0))];
        assert_eq!(of_copy(details, 2048), expected);
        assert_eq!(of_copy(details, 0)[..], expected[..1]);
        assert_eq!(of_copy("kind:Unknown size:0 dest:512 async:1", 10), []);
    }
}
