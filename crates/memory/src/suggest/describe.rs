//! Descriptions of memory suggestions as sentences for people.

use super::in_place::operator_of;
use super::smaller_types::half_of;
use super::{Action, Suggestion};
use crate::source_location::place_text;
use stackline_model::format::{bytes, count};
use stackline_model::{MemoryCallId, MemoryObjectId, MemoryStackId, MemoryTrace};

/// Describe a suggestion in one phrase: the change, with its call and line. For several members, describe the first one
/// and give the number of the others.
pub fn describe(trace: &MemoryTrace, suggestion: &Suggestion) -> String {
    let first = describe_first(trace, suggestion);
    let has_line = || place(trace, trace.objects.stack[suggestion.object.index()]).is_some();
    let more = suggestion.more.len();
    match (suggestion.objects(), more) {
        (_, 0) => first,
        (1, 1) => format!("{first}; the same change also applies at 1 other time"),
        (1, _) => format!("{first}; the same change also applies at {more} other times"),
        (_, 1) if has_line() => format!("{first}; the same change also applies to 1 more object at this line"),
        _ if has_line() => format!("{first}; the same change also applies to {more} more objects at this line"),
        // Without a line, objects of one name are one change.
        (_, 1) => format!("{first}; the same change also applies to 1 more object of this name"),
        _ => format!("{first}; the same change also applies to {more} more objects of this name"),
    }
}

/// Describe the change of a suggestion's first object in one phrase.
fn describe_first(trace: &MemoryTrace, suggestion: &Suggestion) -> String {
    let object = named(trace, suggestion.object);
    let fills = match suggestion.fills {
        0 => None,
        1 => Some("the call that fills the object".to_owned()),
        several => Some(format!("the {several} calls that fill the object")),
    };
    match &suggestion.action {
        Action::Remove => match fills {
            None => format!("remove {object}"),
            Some(fills) => format!("remove {object} and {fills}"),
        },
        Action::MoveFree { after } => {
            let after = call(trace, *after);
            match fills {
                None => format!("free {object} just after {after}"),
                Some(_) => format!("free {object} just after {after}, and remove later calls that fill the object"),
            }
        }
        Action::MoveAllocation { before } => {
            let before = call(trace, *before);
            match fills {
                None => format!("allocate {object} just before {before}"),
                Some(fills) => format!("allocate {object} just before {before}, and move {fills} there"),
            }
        }
        Action::FreeWhileIdle { after, before } => {
            let (after, before) = (call(trace, *after), call(trace, *before));
            match fills {
                None => format!("free {object} after {after} and allocate it again before {before}"),
                Some(fills) => {
                    format!("free {object} after {after}, allocate it again before {before}, and move {fills} there")
                }
            }
        }
        Action::SetToNone { after, before } => {
            let (after, before) = (call(trace, *after), call(trace, *before));
            match fills {
                None => format!("set gradient {object} to None after {after}; {before} allocates it again"),
                Some(_) => format!(
                    "set gradient {object} to None after {after} instead of filling it; {before} allocates it again"
                ),
            }
        }
        Action::Reuse { owner } => reuse_text(trace, suggestion, *owner),
        Action::Shrink { to } => {
            let (less, whole) = (exact_bytes(*to), bytes(trace.objects.bytes[suggestion.object.index()]));
            match fills {
                None => format!("allocate {less} for {object} instead of {whole}"),
                Some(_) => format!("allocate {less} for {object} instead of {whole}, and fill and copy only that much"),
            }
        }
        Action::Split { slices } => format!("allocate the {} slices of {object} one at a time", slices.len()),
        Action::Offload { after, before } => {
            format!("move {object} to the host after {} and back before {}", call(trace, *after), call(trace, *before))
        }
        Action::InPlace { owner } => in_place_text(trace, suggestion.object, *owner),
        Action::Recompute { after, before, by, first, .. } => {
            let calls = recomputing_calls(trace, *first, *by);
            let (after, before) = (call(trace, *after), call(trace, *before));
            format!(
                "free {object} after {after} and recompute it before {before} (activation checkpointing): repeat {calls}"
            )
        }
        Action::SmallerDtype { .. } => smaller_dtype_text(trace, suggestion.object),
        Action::ExpandableSegments => {
            let device = trace.devices.get(trace.objects.device[suggestion.object.index()].index());
            let device = device.map_or("the device", |device| trace.strings.get(device.name));
            format!(
                "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; a model of the allocator predicts {} less \
                 reserved memory on {device}",
                bytes(suggestion.bytes)
            )
        }
    }
}

/// Describe the reuse of another object's memory.
fn reuse_text(trace: &MemoryTrace, suggestion: &Suggestion, owner: MemoryObjectId) -> String {
    let (object, old) = (named(trace, suggestion.object), named(trace, owner));
    match suggestion.fills {
        0 => format!("let {object} reuse the memory of {old}"),
        _ => format!(
            "let {object} reuse the memory of {old}, and move the calls that fill {} after the last use of {}",
            trace.object_name(suggestion.object),
            trace.object_name(owner)
        ),
    }
}

/// Describe the operator that could write its result into the memory of its input `owner`.
fn in_place_text(trace: &MemoryTrace, object: MemoryObjectId, owner: MemoryObjectId) -> String {
    let (operator, object, owner) = (operator_of(trace, object), named(trace, object), named(trace, owner));
    match trace.strings.get(operator) {
        "" => format!(
            "let the operator that allocates {object} write it in place, into the memory of {owner} (inplace=True, +=, \
             or the operator with a trailing _)"
        ),
        operator => format!(
            "let {operator} write {object} in place, into the memory of {owner} (inplace=True, +=, or the operator with \
             a trailing _)"
        ),
    }
}

/// Calls that compute an object again, as text: first the call of its freed input, if needed.
fn recomputing_calls(trace: &MemoryTrace, first: Option<MemoryCallId>, by: MemoryCallId) -> String {
    match first {
        None => call(trace, by),
        Some(first) => format!("{} and {}", call(trace, first), call(trace, by)),
    }
}

/// Describe the change to an element type of half the size.
fn smaller_dtype_text(trace: &MemoryTrace, object: MemoryObjectId) -> String {
    let (dtype, object) = (trace.strings.get(trace.objects.dtype[object.index()]), named(trace, object));
    match half_of(dtype) {
        Some(half) => format!("keep {object} in {half} instead of {dtype}; this changes numerical results"),
        None => {
            format!("keep {object} in a type of half the size instead of {dtype}; this changes numerical results")
        }
    }
}

/// Format a size as exact bytes, for sizes that a user has to type.
fn exact_bytes(size: u64) -> String {
    let text = bytes(size);
    if text.ends_with(" B") { text } else { format!("{text} ({} bytes)", count(size)) }
}

/// Name of an object, with the allocating source location in brackets if known.
fn named(trace: &MemoryTrace, object: MemoryObjectId) -> String {
    let place = place(trace, trace.objects.stack[object.index()]);
    format!("{}{}", trace.object_name(object), place.map_or(String::new(), |place| format!(" ({place})")))
}

/// Format a call of a memory trace (allocation, kernel, wait) as text: kind, name, number of the call, and source
/// location in the program.
pub fn call(trace: &MemoryTrace, call: MemoryCallId) -> String {
    let row = call.index();
    let title = match trace.strings.get(trace.calls.name[row]) {
        "" => trace.calls.kind[row].name().to_owned(),
        name => format!("{} {name}", trace.calls.kind[row].name()),
    };
    match place(trace, trace.calls.stack[row]) {
        Some(place) => format!("{title} (call {row}, {place})"),
        None => format!("{title} (call {row})"),
    }
}

/// Line of the program in a call path without folders, such as `train.py:88`; `None` if unknown.
fn place(trace: &MemoryTrace, stack: MemoryStackId) -> Option<String> {
    let place = place_text(trace, stack);
    // Tables have the folders; here they would take too much room.
    let (path, rest) = place.split_once(':').unwrap_or((&place, ""));
    let name = path.rsplit('/').next().unwrap_or(path);
    let short = if rest.is_empty() { name.to_owned() } else { format!("{name}:{rest}") };
    Some(short).filter(|place| !place.is_empty())
}
