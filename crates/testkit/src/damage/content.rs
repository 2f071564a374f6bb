//! Damage to the content: well-formed JSON with changed or missing data.

use super::doc::Doc;
use crate::rng::Rng;

/// Bytes of the damaged file; `None` if the damage consists of edits of the document.
type Out = Option<Vec<u8>>;

/// Largest number of events per variant.
const PLACES: usize = 6;

/// Replace the value of member `key` of the header, or add the member.
fn header_value(doc: &mut Doc<'_>, key: &str, value: &str) {
    match doc.layout.header.iter().find(|m| m.name(doc.text) == key.as_bytes()).cloned() {
        Some(member) => doc.replace(member.value, value),
        None => {
            doc.add_header(&format!("\"{key}\": {value}"));
        }
    }
}

/// Set `displayTimeUnit` of the header to "ns", although the times are microseconds.
pub(super) fn wrong_display_unit(doc: &mut Doc<'_>, _: &mut Rng) -> Out {
    header_value(doc, "displayTimeUnit", "\"ns\"");
    None
}

/// Write a key of the header twice, at first with a wrong value.
pub(super) fn duplicate_header_key(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let keys: Vec<_> = doc.layout.header.iter().map(|m| m.key.clone()).collect();
    match rng.pick(&keys).cloned() {
        // The first of two equal keys has wrong data, so that "last wins" gives the original value.
        Some(key) => {
            let key = String::from_utf8_lossy(&doc.text[key]).into_owned();
            doc.add_header(&format!("{key}: null"));
        }
        None => {
            doc.add_header("\"distributedInfo\": {\"rank\": 3},\n  \"distributedInfo\": {\"rank\": 0}");
        }
    }
    None
}

/// Write `name` and `pid` of some slices twice, at first with wrong values.
pub(super) fn duplicate_event_key(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, PLACES, Doc::is_slice) {
        doc.insert(doc.events[index].start + 1, "\"name\": \"first of two names\", \"pid\": 77, ");
    }
    None
}

/// Replace the categories of events in the trace. `rename` returns the new name of a category, or `None` to keep it.
fn rename_categories(doc: &mut Doc<'_>, rename: impl Fn(&str) -> Option<&'static str>) -> Out {
    for index in 0..doc.events.len() {
        let Some(member) = doc.member(index, "cat").filter(|m| m.value.len() > 2) else { continue };
        let old = String::from_utf8_lossy(&doc.text[member.value.start + 1..member.value.end - 1]).into_owned();
        if let Some(new) = rename(&old) {
            doc.replace(member.value, format!("\"{new}\""));
        }
    }
    None
}

/// Rename all categories to the names in traces of old PyTorch versions.
pub(super) fn old_categories(doc: &mut Doc<'_>, _: &mut Rng) -> Out {
    rename_categories(doc, |old| {
        Some(match old {
            "cpu_op" => "Operator",
            "cuda_runtime" => "Runtime",
            "kernel" => "Kernel",
            "gpu_memcpy" => "Memcpy",
            "gpu_memset" => "Memset",
            "ac2g" => "async",
            "python_function" => "PythonFunction",
            _ => return None,
        })
    })
}

/// Rename the categories of runtime calls and kernels to those of another vendor (XPU, MTIA or PrivateUse1).
pub(super) fn other_vendor_categories(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let vendor = rng.below(3);
    rename_categories(doc, |old| {
        Some(match (vendor, old) {
            (0, "cuda_runtime") => "xpu_runtime",
            (1, "cuda_runtime") => "mtia_runtime",
            (1, "kernel") => "mtia_ccp_events",
            (2, "cuda_runtime") => "privateuse1_runtime",
            (2, "cuda_driver") => "privateuse1_driver",
            _ => return None,
        })
    })
}

/// Replace the category of some slices by a name that no reader knows.
pub(super) fn unknown_category(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let new = rng.pick(&["quantum_op", "", "KERNEL ", "cpu op"]).copied().unwrap_or("quantum_op");
    for index in doc.some(rng, 40, Doc::is_slice) {
        if let Some(member) = doc.member(index, "cat") {
            doc.replace(member.value, format!("\"{new}\""));
        }
    }
    None
}

/// Convert a trace to the export of `torch.autograd.profiler`: a bare array, threads of a process "CPU functions", no
/// header.
pub(super) fn legacy_array(doc: &mut Doc<'_>, _: &mut Rng) -> Out {
    let mut out = b"[".to_vec();
    for (n, event) in doc.events.clone().into_iter().enumerate() {
        if n > 0 {
            out.extend_from_slice(b",\n ");
        }
        let process = doc.is_slice_of(n, &["cpu_op"]).then(|| doc.member(n, "pid")).flatten();
        match process {
            Some(member) => {
                out.extend_from_slice(&doc.text[event.start..member.value.start]);
                out.extend_from_slice(b"\"CPU functions\"");
                out.extend_from_slice(&doc.text[member.value.end..event.end]);
            }
            None => out.extend_from_slice(&doc.text[event]),
        }
    }
    out.push(b']');
    Some(out)
}

/// Convert all GPU copies to kernels with the names of copies in ROCm traces.
pub(super) fn copies_as_kernels(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let names = ["__amd_rocclr_copyBuffer", "CopyDeviceToHost", "CopyHostToDevice"];
    for index in doc.all(|doc, i| doc.is_slice_of(i, &["gpu_memcpy", "Memcpy"])) {
        if let (Some(category), Some(name), Some(new)) =
            (doc.member(index, "cat"), doc.member(index, "name"), rng.pick(&names))
        {
            doc.replace(category.value, "\"kernel\"");
            doc.replace(name.value, format!("\"{new}\""));
        }
    }
    None
}

/// Rename NCCL kernels to names of communication kernels in other versions and libraries.
pub(super) fn renamed_collectives(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let names = [
        "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "void vllm::cross_device_reduce_2stage<__hip_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)",
        "void deep_ep::internode::dispatch<false, 4, false, 8192, true, 1024>(int4*, float*)",
    ];
    let collective = |doc: &Doc<'_>, i: usize| {
        doc.is_slice_of(i, &["kernel", "Kernel"])
            && doc.value(i, "name").windows(4).any(|w| w.eq_ignore_ascii_case(b"nccl"))
    };
    for index in doc.all(collective) {
        if let (Some(name), Some(new)) = (doc.member(index, "name"), rng.pick(&names)) {
            doc.replace(name.value, format!("\"{new}\""));
        }
    }
    None
}

/// Replace the split sizes of some collectives by a list that ends in "...", as the profiler writes long ones.
pub(super) fn cut_split_sizes(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, 40, |doc, i| doc.argument(i, "In split size").is_some()) {
        for key in ["In split size", "Out split size"] {
            if let Some(member) = doc.argument(index, key) {
                doc.replace(member.value, format!("\"[{}...]\"", "128, ".repeat(30)));
            }
        }
    }
    None
}

/// Hide arguments of some collectives, such as the process group and the number of elements, by other keys.
pub(super) fn missing_group_fields(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    // Renaming the key removes the field without changing commas.
    let keys = ["Group size", "Process Group Name", "Process Group Ranks", "dtype", "In msg nelems"];
    for index in doc.some(rng, 40, |doc, i| doc.argument(i, "Group size").is_some()) {
        let found: Vec<_> = keys.iter().filter_map(|key| doc.argument(index, key)).collect();
        let count = 1 + rng.below(found.len());
        for at in rng.sample(found.len(), count) {
            doc.replace(found[at].key.clone(), format!("\"unused {at}\""));
        }
    }
    None
}

/// Add the host name and environment variables with secrets to the header.
pub(super) fn environment_dump(doc: &mut Doc<'_>, _: &mut Rng) -> Out {
    doc.add_header(
        "\"host_name\": \"trainer-17.cluster.example\",\n  \"env\": {\"USER\": \"someone\", \"HOME\": \"/home/someone\", \
         \"WANDB_API_KEY\": \"0123456789abcdef\", \"MASTER_ADDR\": \"192.0.2.7\"}",
    );
    None
}
