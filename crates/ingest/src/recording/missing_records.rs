//! Sentences for records that a recorder dropped ([`stackline_recording::Record::Lost`]).

/// What each name says of what was left out; how much of it there is, stands beside it.
const SENTENCES: [(&str, &str); 16] = [
    ("tree_full", "calls found no place in a full tree"),
    ("calls_too_fast", "single calls came faster than they could be written"),
    ("calls_not_written", "single calls were dropped while the disk took nothing"),
    ("calls_over_limit", "single calls beyond the size that the recording may have"),
    ("calls_without_names", "single calls have the name of a group of spans, not their own"),
    ("touches_too_fast", "allocations and accesses of memory came faster than they could be written"),
    ("touches_not_written", "allocations and accesses of memory were dropped while the disk took nothing"),
    ("touches_over_limit", "allocations and accesses of memory beyond the size that the recording may have"),
    ("touches_damaged", "a part of the stream with allocations and accesses of memory is damaged"),
    ("samples_not_written", "single samples were dropped while the disk took nothing"),
    ("threads_not_written", "threads ended while the disk took nothing, and their calls were dropped"),
    ("threads_over_limit", "threads were not sampled, as 1,024 others were"),
    ("inputs_over_limit", "tensors of calls with more than 4,096 of them were not looked at"),
    (
        "native_frames_without_stack",
        "operators have no native frames: their threads had too little stack left to unwind them",
    ),
    ("forward_links_over_limit", "backward nodes have no forward operator, as too many others ran in between"),
    ("names_over_limit", "tensors have no names, as there were too many"),
];

/// A sentence of what was left out, with the name by which the documentation knows it; the name alone, if a newer recorder made it.
pub(super) fn sentence(what: &str) -> String {
    match SENTENCES.iter().find(|(name, _)| *name == what) {
        Some((name, sentence)) => format!("{sentence} ({name})"),
        None => what.to_owned(),
    }
}
