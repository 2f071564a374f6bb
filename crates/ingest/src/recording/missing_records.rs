//! Descriptions of records that a recorder dropped ([`stackline_recording::Record::Lost`]).

/// Description of each kind of dropped record; the diagnostic adds the count.
const SENTENCES: [(&str, &str); 16] = [
    ("tree_full", "calls merged into one node, because the call tree was full"),
    ("calls_too_fast", "single calls dropped: more per second than could be written"),
    ("calls_not_written", "single calls dropped while the disk could not be written"),
    ("calls_over_limit", "single calls dropped above the size limit of the recording"),
    ("calls_without_names", "single calls with the merged name of a group of spans"),
    ("touches_too_fast", "allocations and memory accesses dropped: more per second than could be written"),
    ("touches_not_written", "allocations and memory accesses dropped while the disk could not be written"),
    ("touches_over_limit", "allocations and memory accesses dropped above the size limit of the recording"),
    ("touches_damaged", "a damaged part of the stream with allocations and memory accesses"),
    ("samples_not_written", "single samples dropped while the disk could not be written"),
    ("threads_not_written", "calls dropped of threads that ended while the disk could not be written"),
    ("threads_over_limit", "threads not sampled, above the limit of 1,024 threads"),
    ("inputs_over_limit", "tensors not recorded, above the limit of 4,096 per call"),
    (
        "native_frames_without_stack",
        "operators without native frames: their threads had too little stack left for unwinding",
    ),
    ("forward_links_over_limit", "backward nodes without forward operator: too many operators ran in between"),
    ("names_over_limit", "tensors without names, above the limit of named tensors"),
];

/// Description of a kind of dropped record, followed by its name in the documentation; only the name if a newer
/// recorder wrote it.
pub(super) fn sentence(what: &str) -> String {
    match SENTENCES.iter().find(|(name, _)| *name == what) {
        Some((name, sentence)) => format!("{sentence} ({name})"),
        None => what.to_owned(),
    }
}
