//! Descriptions of memory suggestions as sentences for people.

use super::in_place::operator_of;
use super::smaller_types::half_of;
use super::{Action, Suggestion};
use crate::source_location::place_text;
use stackline_model::format::{bytes, count};
use stackline_model::{MemoryCallId, MemoryObjectId, MemoryStackId, MemoryTrace};

/// One sentence: the change, with its call and line. For several members, the first one and the number of the others.
pub fn describe(trace: &MemoryTrace, suggestion: &Suggestion) -> String {
    let first = describe_first(trace, suggestion);
    let has_line = || place(trace, trace.objects.stack[suggestion.object.index()]).is_some();
    let more = suggestion.more.len();
    let times = |more: usize| if more == 1 { "1 other time".to_owned() } else { format!("{more} other times") };
    let objects = |more: usize| if more == 1 { "1 more object".to_owned() } else { format!("{more} more objects") };
    match suggestion.objects() {
        _ if more == 0 => first,
        1 => format!("{first}; the same change also applies at {}", times(more)),
        _ if has_line() => format!("{first}; the same change also applies to {} at this line", objects(more)),
        // Without a line, objects of one name are one change.
        _ => format!("{first}; the same change also applies to {} of this name", objects(more)),
    }
}

fn describe_first(trace: &MemoryTrace, suggestion: &Suggestion) -> String {
    let object = named(trace, suggestion.object);
    let fills = match suggestion.fills {
        0 => String::new(),
        1 => " with the call that fills it".to_owned(),
        several => format!(" with the {several} calls that fill it"),
    };
    match &suggestion.action {
        Action::Remove => format!("remove {object}{fills}"),
        Action::MoveFree { after } => {
            let left_out = if suggestion.fills > 0 { ", and remove later calls that fill it" } else { "" };
            format!("free {object} just after {}{left_out}", call(trace, *after))
        }
        Action::MoveAllocation { before } => format!("allocate {object}{fills} just before {}", call(trace, *before)),
        Action::FreeWhileIdle { after, before } => {
            let (after, before) = (call(trace, *after), call(trace, *before));
            format!("free {object} after {after} and allocate it again{fills} before {before}")
        }
        Action::SetToNone { after, before } => {
            let (after, before) = (call(trace, *after), call(trace, *before));
            let instead = if suggestion.fills > 0 { " instead of filling it" } else { "" };
            format!("set gradient {object} to None after {after}{instead}; {before} allocates it again")
        }
        Action::Reuse { owner } => {
            let moved = if suggestion.fills > 0 {
                ", and move the calls that fill it after the last use of that memory"
            } else {
                ""
            };
            format!("let {object} reuse the memory of {}{moved}", named(trace, *owner))
        }
        Action::Shrink { to } => {
            let less = if suggestion.fills > 0 { ", and fill and copy only that much" } else { "" };
            let whole = trace.objects.bytes[suggestion.object.index()];
            format!("allocate {} for {object} instead of {}{less}", exact_bytes(*to), bytes(whole))
        }
        Action::Split { slices } => format!("allocate the {} slices of {object} one at a time", slices.len()),
        Action::Offload { after, before } => {
            format!("move {object} to the host after {} and back before {}", call(trace, *after), call(trace, *before))
        }
        Action::InPlace { owner } => {
            let operator = trace.strings.get(operator_of(trace, suggestion.object));
            let by = if operator.is_empty() { "the operator that allocates it" } else { operator };
            format!(
                "let {by} write {object} in place, into the memory of {} (inplace=True, +=, or the operator with a \
                 trailing _)",
                named(trace, *owner)
            )
        }
        Action::Recompute { after, before, by, first, .. } => {
            let first = first.map_or(String::new(), |first| format!("{} and ", call(trace, first)));
            let (after, before, by) = (call(trace, *after), call(trace, *before), call(trace, *by));
            format!(
                "free {object} after {after} and recompute it before {before} (activation checkpointing): repeat \
                 {first}{by}"
            )
        }
        Action::SmallerDtype { .. } => {
            let dtype = trace.strings.get(trace.objects.dtype[suggestion.object.index()]);
            let half = half_of(dtype).unwrap_or("a type of half the size");
            format!("keep {object} in {half} instead of {dtype}; this changes numerical results")
        }
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

/// Size that a user has to type: exact bytes.
fn exact_bytes(size: u64) -> String {
    let text = bytes(size);
    if text.ends_with(" B") { text } else { format!("{text} ({} bytes)", count(size)) }
}

fn named(trace: &MemoryTrace, object: MemoryObjectId) -> String {
    let place = place(trace, trace.objects.stack[object.index()]);
    format!("{}{}", trace.object_name(object), place.map_or(String::new(), |place| format!(" ({place})")))
}

/// Text of a call: kind, name, number and line.
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

/// Innermost line of the program, such as `train.py:88`, if the call path is known.
fn place(trace: &MemoryTrace, stack: MemoryStackId) -> Option<String> {
    let place = place_text(trace, stack);
    // Tables have the folders; here they would take too much room.
    let (path, rest) = place.split_once(':').unwrap_or((&place, ""));
    let name = path.rsplit('/').next().unwrap_or(path);
    let short = if rest.is_empty() { name.to_owned() } else { format!("{name}:{rest}") };
    Some(short).filter(|place| !place.is_empty())
}
