//! Damage to the ids of events, processes and threads in a trace, and to the links between events.

use super::doc::Doc;
use crate::rng::Rng;

/// Bytes of the damaged file; `None` if the damage consists of edits of the document.
type Out = Option<Vec<u8>>;

/// Largest number of events per variant.
const PLACES: usize = 6;

/// Add an argument with an integer above the range of int64 to some slices.
pub(super) fn integer_above_int64(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let values = [
        "10159970886766084423",
        "18446744073709551615",
        "9223372036854775808",
        "340282366920938463463374607431768211455",
    ];
    for index in doc.some(rng, PLACES, |doc, i| doc.is_slice(i)) {
        if let Some(value) = rng.pick(&values) {
            doc.add_arguments(index, &format!("\"Comms Id\": {value}"));
        }
    }
    None
}

/// True if event `index` is a slice on a GPU with a correlation id.
fn linked(doc: &Doc<'_>, index: usize) -> bool {
    doc.on_gpu(index) && doc.argument(index, "correlation").is_some()
}

/// True if event `index` is a runtime or driver call with a correlation id.
fn call(doc: &Doc<'_>, index: usize) -> bool {
    doc.is_slice_of(index, &["cuda_runtime", "cuda_driver", "Runtime"]) && doc.argument(index, "correlation").is_some()
}

/// Replace the correlation ids of the events `picked` by the values that `new` returns.
fn set_correlation(doc: &mut Doc<'_>, picked: Vec<usize>, mut new: impl FnMut() -> Vec<u8>) -> Out {
    for index in picked {
        if let Some(member) = doc.argument(index, "correlation") {
            doc.replace(member.value, new());
        }
    }
    None
}

/// Give some runtime calls the correlation ids of other calls.
pub(super) fn duplicate_correlation(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    // A launch gets the id of another one, as after an overflow of the counter or a merge of two ranks.
    let calls = doc.all(call);
    let known: Vec<Vec<u8>> =
        calls.iter().filter_map(|&i| doc.argument(i, "correlation")).map(|m| doc.text[m.value].to_vec()).collect();
    let count = 1 + rng.below(PLACES);
    let picked = rng.sample(calls.len(), count).into_iter().map(|i| calls[i]).collect();
    let others: Vec<_> = (0..PLACES).filter_map(|_| rng.pick(&known).cloned()).collect();
    let mut others = others.into_iter().cycle();
    set_correlation(doc, picked, || others.next().unwrap_or_default())
}

/// Give some GPU events correlation ids that no runtime call has.
pub(super) fn orphan_kernel(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let picked = doc.some(rng, PLACES, linked);
    let mut id = 3_900_000_000_u64 + rng.below(1000) as u64;
    set_correlation(doc, picked, || {
        id += 1;
        id.to_string().into_bytes()
    })
}

/// Give some runtime calls correlation ids that no GPU event has.
pub(super) fn orphan_launch(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let picked = doc.some(rng, PLACES, call);
    let mut id = 3_800_000_000_u64 + rng.below(1000) as u64;
    set_correlation(doc, picked, || {
        id += 1;
        id.to_string().into_bytes()
    })
}

/// Change the flow ids at the starts of some arrows, so that their ends have no start.
pub(super) fn orphan_flow(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    // The starts of arrows lose their id, so that the ends have no start.
    for index in doc.some(rng, PLACES, |doc, i| doc.value(i, "ph") == b"\"s\"") {
        if let Some(member) = doc.member(index, "id") {
            doc.replace(member.value, (4_000_000_000_u64 + rng.bits() % 1000).to_string());
        }
    }
    None
}

/// Replace the thread id in all events of one host thread by one of `new`.
fn rename_thread(doc: &mut Doc<'_>, rng: &mut Rng, new: &[&str]) -> Out {
    let host = doc.all(|doc, i| {
        doc.is_slice_of(i, &["cpu_op", "cuda_runtime", "cuda_driver", "python_function", "Operator", "Runtime"])
    });
    let old = doc.value(*rng.pick(&host)?, "tid");
    let text = *rng.pick(new)?;
    for index in doc.all(|doc, i| doc.value(i, "tid") == old && !doc.on_gpu(i)) {
        if let Some(member) = doc.member(index, "tid") {
            doc.replace(member.value, text);
        }
    }
    None
}

/// Replace the id of one host thread by a negative, zero or very large number, as edits of the document.
pub(super) fn odd_thread_id(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    rename_thread(doc, rng, &["-9223372036854775808", "-1", "-549452224", "18446744073709551615", "0"])
}

/// Replace the id of one host thread by a string.
pub(super) fn text_thread_id(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    rename_thread(doc, rng, &["\"main\"", "\"stream 7\"", "\"7\"", "\"\"", "\"thread 7 (python)\""])
}

/// Replace the numeric process ids of host events by the one under which the GPU is listed.
pub(super) fn colliding_process_id(doc: &mut Doc<'_>, _: &mut Rng) -> Out {
    // In a container, the process id can equal the number of a GPU.
    let gpu = doc.all(Doc::on_gpu);
    let device = doc.value(*gpu.first()?, "pid");
    for index in doc.all(|doc, i| !doc.on_gpu(i) && doc.value(i, "pid").first().is_some_and(u8::is_ascii_digit)) {
        if let Some(member) = doc.member(index, "pid") {
            doc.replace(member.value, device);
        }
    }
    None
}

/// Replace the device number in all GPU events by the agent id of a ROCm trace.
pub(super) fn agent_id_device(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let agent = rng.pick(&["2", "9", "17"]).copied().unwrap_or("9");
    for index in doc.all(|doc, i| doc.on_gpu(i) || doc.is_slice_of(i, &["gpu_user_annotation", "cuda_sync"])) {
        if let Some(member) = doc.member(index, "pid") {
            doc.replace(member.value, agent);
        }
        if let Some(member) = doc.argument(index, "device") {
            doc.replace(member.value, agent);
        }
    }
    None
}

/// Link all GPU events to one call of `cudaGraphLaunch`, without an operator.
pub(super) fn graph_replay(doc: &mut Doc<'_>, _: &mut Rng) -> Out {
    // All kernels come from one graph launch without operator.
    let kernels = doc.all(linked);
    let first = doc.argument(*kernels.first()?, "correlation").map(|m| doc.text[m.value].to_vec())?;
    for &index in &kernels {
        for (key, new) in [("correlation", first.as_slice()), ("External id", b"0")] {
            if let Some(member) = doc.argument(index, key) {
                doc.replace(member.value, new);
            }
        }
    }
    let launch =
        doc.all(|doc, i| call(doc, i) && doc.argument(i, "correlation").is_some_and(|m| doc.text[m.value] == *first));
    if let Some(member) = launch.first().and_then(|&index| doc.member(index, "name")) {
        doc.replace(member.value, "\"cudaGraphLaunch\"");
    }
    None
}
