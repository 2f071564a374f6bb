//! Export of a call tree to pprof's profile format, with each metric as one sample type.

use super::pprof_proto::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use super::{run_title, weighted_stacks};
use prost::Message;
use rustc_hash::FxHashMap;
use stackline_model::{CONTENT, CallMetric, CallNodeId, CallThreadId, CallingContextTree, Frame, StrId, Unit};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// String table of a pprof profile: texts by index, with the empty text first.
#[derive(Default)]
struct ProfileStrings {
    all: Vec<String>,
    ids: FxHashMap<String, i64>,
}

impl ProfileStrings {
    fn id(&mut self, text: &str) -> i64 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }
}

/// Write a call tree as a pprof profile, not compressed. Viewers show `metric` first.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write(tree: &CallingContextTree, metric: CallMetric, out: &mut dyn Write) -> io::Result<()> {
    let mut texts = ProfileStrings::default();
    texts.id("");
    let metrics = tree.measured();
    let mut profile = Profile { sample: samples(tree, &metrics, &mut texts), ..Profile::default() };
    for metric in &metrics {
        let unit = match metric.unit() {
            Unit::Ns => "nanoseconds",
            Unit::Bytes => "bytes",
            _ => "count",
        };
        let (r#type, unit) = (texts.id(type_name(tree, *metric)), texts.id(unit));
        profile.sample_type.push(ValueType { r#type, unit });
    }
    profile.default_sample_type = texts.id(type_name(tree, metric));
    profile.comment = vec![texts.id(&run_title(tree))];
    profile.time_nanos = tree.processes.first().map_or(0, |process| process.start_unix_ns);
    let lasted = tree.processes.iter().filter_map(|process| process.lasted_ns).max().unwrap_or(0);
    profile.duration_nanos = i64::try_from(lasted).unwrap_or(i64::MAX);
    locations(tree, &mut profile, &mut texts);
    profile.string_table = texts.all;
    out.write_all(&profile.encode_to_vec())
}

/// Name of a metric as a sample type: Go's name for allocated bytes, which other tools know, else its own name.
fn type_name(tree: &CallingContextTree, metric: CallMetric) -> &str {
    if metric == CallMetric::Allocated { "alloc_space" } else { metric.name(&tree.strings) }
}

fn samples(tree: &CallingContextTree, metrics: &[CallMetric], texts: &mut ProfileStrings) -> Vec<Sample> {
    let mut values: BTreeMap<(CallNodeId, CallThreadId), Vec<i64>> = BTreeMap::new();
    for (column, &metric) in metrics.iter().enumerate() {
        for stack in weighted_stacks(tree, metric) {
            let row = values.entry((stack.node, stack.thread)).or_insert_with(|| vec![0; metrics.len()]);
            row[column] = i64::try_from(stack.stats.sum).unwrap_or(i64::MAX);
        }
    }
    let keys = ["thread", "tid", "pid", "rank"].map(|key| texts.id(key));
    let labels = |thread: CallThreadId, texts: &mut ProfileStrings| {
        let Some(row) = tree.threads.get(thread.index()) else { return Vec::new() };
        let number = |key: usize, num: u32| Label { key: keys[key], num: i64::from(num), ..Label::default() };
        let mut labels =
            vec![Label { key: keys[0], str: texts.id(tree.strings.get(row.name)), num: 0 }, number(1, row.tid)];
        if let Some(process) = tree.processes.get(row.process.index()) {
            labels.push(number(2, process.pid));
            labels.extend(process.rank.map(|rank| number(3, rank)));
        }
        labels
    };
    let location = |node: CallNodeId| u64::from(tree.nodes.frame[node.index()].0) + 1;
    let sample = |((node, thread), value): ((CallNodeId, CallThreadId), Vec<i64>)| Sample {
        location_id: places_of(tree, node).into_iter().map(location).collect(),
        value,
        label: labels(thread, texts),
    };
    values.into_iter().map(sample).collect()
}

/// Nodes of a call path that are locations in pprof, innermost first. Functions inlined into each other are one
/// location, represented by the innermost node.
fn places_of(tree: &CallingContextTree, node: CallNodeId) -> Vec<CallNodeId> {
    let path = tree.path(node);
    let inner = path.iter().skip(1).map(|&inner| is_inlined(tree, inner)).chain([false]);
    let mut places: Vec<CallNodeId> =
        path.iter().zip(inner).filter(|(_, covered)| !covered).map(|(&at, _)| at).collect();
    places.reverse();
    places
}

/// Check if a node's frame is inlined into the frame of its parent, so that pprof has one location for both.
fn is_inlined(tree: &CallingContextTree, node: CallNodeId) -> bool {
    matches!(tree.frame(node), Some(Frame::Native { inlined: 1.., .. }))
}

/// Frames by address in a library; of one address, each is inlined into the one before it.
type Places = FxHashMap<(StrId, StrId, u64), Vec<(u32, usize)>>;

/// Group native frames by address in a library. Frames of one address are inlined into each other, sorted by inlining
/// depth.
fn places(tree: &CallingContextTree) -> Places {
    let mut places = Places::default();
    for (at, frame) in tree.frames.iter().enumerate() {
        if let Frame::Native { library, build_id, offset, inlined, .. } = *frame {
            places.entry((library, build_id, offset)).or_default().push((inlined, at));
        }
    }
    places.values_mut().for_each(|row| row.sort_unstable());
    places
}

/// Fill the tables of the pprof profile: a location per frame (with the functions around an inlined one), a function
/// per name and file, a mapping per library.
fn locations(tree: &CallingContextTree, profile: &mut Profile, texts: &mut ProfileStrings) {
    let places = places(tree);
    let mut functions: FxHashMap<(i64, i64), u64> = FxHashMap::default();
    let mut mappings: FxHashMap<(StrId, StrId), usize> = FxHashMap::default();
    for (id, frame) in (1..).zip(&tree.frames) {
        let mut line = vec![line(tree, frame, &mut functions, profile, texts)];
        let (mapping_id, address) = match *frame {
            Frame::Native { library, build_id, offset, inlined, .. } => {
                // Profiles of others have no addresses: all their frames are at one place.
                let around = if inlined > 0 { places.get(&(library, build_id, offset)) } else { None };
                let around = around.into_iter().flatten();
                for &(_, at) in around.rev().filter(|(depth, _)| *depth < inlined) {
                    line.push(self::line(tree, &tree.frames[at], &mut functions, profile, texts));
                }
                let next = profile.mapping.len();
                let mapping = *mappings.entry((library, build_id)).or_insert(next);
                if mapping == next {
                    let filename = texts.id(tree.strings.get(library));
                    let known_by = tree.strings.get(build_id);
                    let build_id = texts.id(if known_by.starts_with(CONTENT) { "" } else { known_by });
                    let id = next as u64 + 1;
                    profile.mapping.push(Mapping {
                        id,
                        memory_limit: u64::MAX,
                        filename,
                        build_id,
                        ..Mapping::default()
                    });
                }
                profile.mapping[mapping].add_symbol_flags(frame);
                (mapping as u64 + 1, offset)
            }
            Frame::Unmapped { address, .. } | Frame::Instruction { pc: address, .. } => (0, address),
            _ => (0, 0),
        };
        profile.location.push(Location { id, mapping_id, address, line });
    }
}

fn line(
    tree: &CallingContextTree,
    frame: &Frame,
    functions: &mut FxHashMap<(i64, i64), u64>,
    profile: &mut Profile,
    texts: &mut ProfileStrings,
) -> Line {
    let name = texts.id(&frame.title(&tree.strings));
    let filename = frame.file().map_or(0, |file| texts.id(tree.strings.get(file)));
    let next = profile.function.len() as u64 + 1;
    let function = *functions.entry((name, filename)).or_insert(next);
    if function == next {
        let start_line = if let Frame::Python { first_line, .. } = *frame { i64::from(first_line) } else { 0 };
        profile.function.push(Function { id: next, name, filename, start_line });
    }
    Line { function_id: function, line: i64::from(frame.line().unwrap_or(0)) }
}

impl Mapping {
    /// Set the flags for known function names, files, lines and inlined frames from a frame of the library. Viewers
    /// then do not symbolize the library again.
    fn add_symbol_flags(&mut self, frame: &Frame) {
        if let Frame::Native { function, file, line, inlined, .. } = *frame {
            self.has_functions |= function.is_some();
            self.has_filenames |= file.is_some();
            self.has_line_numbers |= line > 0;
            self.has_inline_frames |= inlined > 0;
        }
    }
}
