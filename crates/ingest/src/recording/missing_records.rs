//! Descriptions of records that a recorder dropped ([`stackline_recording::Record::Lost`]).

/// Description of each kind of dropped record; the diagnostic adds the count.
const SENTENCES: [(&str, &str); 16] = [
    ("tree_full", "calls were merged into one node, because the call tree reached its maximum number of nodes"),
    ("calls_too_fast", "individual calls were dropped, because there were more per second than could be written"),
    ("calls_not_written", "individual calls were dropped, because the disk could not be written"),
    ("calls_over_limit", "individual calls were dropped, because the recording reached its size limit"),
    (
        "calls_without_names",
        "individual calls share one merged name, because too many span names differ only in numbers or identifiers",
    ),
    (
        "touches_too_fast",
        "allocations and memory accesses were dropped, because there were more per second than could be written",
    ),
    ("touches_not_written", "allocations and memory accesses were dropped, because the disk could not be written"),
    (
        "touches_over_limit",
        "allocations and memory accesses were dropped, because the recording reached its size limit",
    ),
    (
        "touches_damaged",
        "allocations and memory accesses may be missing, because a part of the recorded data is damaged",
    ),
    ("samples_not_written", "individual samples were dropped, because the disk could not be written"),
    (
        "threads_not_written",
        "calls of threads were dropped, because the threads ended while the disk could not be written",
    ),
    ("threads_over_limit", "threads were not sampled, because the limit is 1,024 threads"),
    ("inputs_over_limit", "tensors were not recorded, because the limit is 4,096 tensors per call"),
    (
        "native_frames_without_stack",
        "operators have no native frames, because their threads had too little stack space left for unwinding",
    ),
    (
        "forward_links_over_limit",
        "backward operators are not linked to their forward operators, because too many operators ran between them or the \
         forward operator's thread ended before",
    ),
    ("names_over_limit", "tensors have no names, because the limit of named tensors was reached"),
];

/// Description of a kind of dropped record (a key such as `names_over_limit`), followed by the key. If a newer recorder
/// wrote the key, only the key.
pub(super) fn sentence(what: &str) -> String {
    match SENTENCES.iter().find(|(name, _)| *name == what) {
        Some((name, sentence)) => format!("{sentence} ({name})"),
        None => what.to_owned(),
    }
}
