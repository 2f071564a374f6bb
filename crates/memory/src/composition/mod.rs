//! Composition of a peak: parameters, gradients, optimizer state, activations.
//!
//! Snapshots do not record the use of memory, but sizes reveal it: a gradient has the size of its parameter, and so
//! have Adam's two moments. One set of sizes that was allocated in the backward pass, in an optimizer, and outside of
//! both and of the forward pass, is a model's, if the sets share more than one size. Objects that code of modules
//! allocated and that equal no gradient are frozen parameters. Temporaries of an optimizer step have the same sizes;
//! lifetimes distinguish them from state. Activations are kept for a backward pass; without one in the records, they
//! are only results of forward passes. Kinds in the source (recordings, memory timelines) take precedence.

mod equal_sets;
mod lifetimes;
mod remedies;
mod retained_results;
mod sets;
mod weights;

use crate::curve::alive_at;
use crate::iterations::may_train;
use crate::source_location::place_text;
use crate::suggest::callers::Callers;
use lifetimes::Lifetimes;
pub use remedies::remedies;
use retained_results::KeptResults;
use rustc_hash::{FxHashMap, FxHashSet};
use sets::{Classes, recognize};
use stackline_model::library_workspaces::WorkspaceLibrary;
use stackline_model::native_names::is_autocast_copy;
use stackline_model::{MemoryCallId, MemoryDeviceId, MemoryObjectId, MemoryObjectKind, MemoryStackId, MemoryTrace};
use std::collections::BTreeMap;
use weights::Weights;

/// Purpose of memory, such as parameters, gradients or activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Parameters of the model.
    Parameters,
    /// Frozen weights: parameters and buffers of modules without gradients or optimizer state, as with LoRA.
    FrozenParameters,
    /// Gradients of parameters.
    Gradients,
    /// Adam's averages of gradients, or a momentum.
    FirstMoments,
    /// Adam's averages of squared gradients.
    SecondMoments,
    /// Other state of an optimizer.
    OptimizerState,
    /// Sets with the sizes of other sets and unknown use: master weights, averaged weights, state of a handwritten
    /// optimizer.
    EqualSets,
    /// Allocated in an optimizer step and freed before the next one.
    OptimizerTemporaries,
    /// Copies of weights and inputs in a lower precision, by autocast.
    AutocastCopies,
    /// Allocated by the forward pass, and kept for the backward pass.
    Activations,
    /// Allocated by a line that keeps more with each forward pass, without a backward pass.
    KeptResults,
    /// Allocated by forward passes without a backward pass.
    Forward,
    /// Allocated by the backward pass, and not a parameter's gradient.
    Backward,
    /// Allocated in an optimizer, and not recognized as state.
    Optimizer,
    /// Freed within the allocating operator or phase, by the source; [`Self::Backward`] in the backward pass, where
    /// call paths show it.
    Temporary,
    /// Working memory of CUDA libraries.
    Workspaces,
    /// Inputs of the model, and data loading.
    Inputs,
    /// Allocated before the records begin, and not recognized.
    Older,
    /// All other objects.
    Other,
}

impl Use {
    /// Stable name of a purpose of memory (parameters, gradients …) in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::FrozenParameters => "parameters without gradients (frozen)",
            Self::Gradients => "gradients",
            Self::FirstMoments => "first moments",
            Self::SecondMoments => "second moments",
            Self::OptimizerState => "optimizer state",
            Self::EqualSets => "equal set of sizes",
            Self::OptimizerTemporaries => "optimizer temporaries",
            Self::AutocastCopies => "autocast copies",
            Self::Activations => "activations",
            Self::KeptResults => "kept results",
            Self::Forward => "forward pass",
            Self::Backward => "backward pass, other",
            Self::Optimizer => "optimizer, other",
            Self::Temporary => "temporary",
            Self::Workspaces => "library workspaces",
            Self::Inputs => "inputs",
            Self::Older => "allocated before the recording",
            Self::Other => "other",
        }
    }

    /// True if memory of this purpose grows with the size of the model and not with the batch.
    pub(crate) const fn grows_with_model(self) -> bool {
        use Use::{EqualSets, FirstMoments, FrozenParameters, Gradients, OptimizerState, Parameters, SecondMoments};
        matches!(self, Parameters | FrozenParameters | Gradients)
            || matches!(self, FirstMoments | SecondMoments | OptimizerState | EqualSets)
    }

    /// True if memory of this purpose is divided into one part per allocating line.
    const fn is_by_line(self) -> bool {
        matches!(self, Self::EqualSets | Self::KeptResults)
    }
}

/// Evidence for the purpose of a memory object, such as its call path or equal sizes of several sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Recorded by the source.
    Source,
    /// Equal sizes of several sets, and the call path of one of them.
    EqualSizes,
    /// Equal sizes of several sets, without a call path that explains them: low confidence.
    EqualSizesOnly,
    /// The call path of the allocation.
    CallPath,
    /// Time of the free, or its absence.
    Lifetime,
    /// None.
    Unknown,
}

impl Evidence {
    /// Stable name of the evidence for the purpose of a memory object.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::EqualSizes => "equal sizes",
            Self::EqualSizesOnly => "equal sizes only",
            Self::CallPath => "call path",
            Self::Lifetime => "lifetime",
            Self::Unknown => "unknown",
        }
    }

    /// True if the purpose of tensors (gradients, moments) follows from sizes that equal those of the parameters.
    const fn is_of_sizes(self) -> bool {
        matches!(self, Self::EqualSizes | Self::EqualSizesOnly)
    }
}

/// Part of the memory at a peak: the objects of one use, such as parameters or gradients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Use of the memory.
    pub purpose: Use,
    /// Evidence of the use.
    pub evidence: Evidence,
    /// Bytes.
    pub bytes: u64,
    /// Number of objects.
    pub objects: u32,
    /// Line that allocated the whole part; empty if several lines did.
    pub place: String,
    /// Of workspaces: bytes by library, largest first.
    pub libraries: Vec<(&'static WorkspaceLibrary, u64)>,
    /// True if code of `torch.optim` allocated the whole part.
    pub by_torch_optim: bool,
    /// Of kept results: number of forward passes that left them, and bytes per pass.
    pub left_by_passes: Option<(u32, u64)>,
}

impl Part {
    /// Create an empty part of a purpose with this allocating line.
    fn new(purpose: Use, evidence: Evidence, place: String) -> Self {
        Self {
            purpose,
            evidence,
            bytes: 0,
            objects: 0,
            place,
            libraries: Vec::new(),
            by_torch_optim: true,
            left_by_passes: None,
        }
    }

    /// Add bytes to a library's workspaces, and sort the libraries by size.
    fn add_library(&mut self, library: &'static WorkspaceLibrary, bytes: u64) {
        match self.libraries.iter_mut().find(|(known, _)| *known == library) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => self.libraries.push((library, bytes)),
        }
        self.libraries.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    }
}

/// Divide the live memory on a device at a position into parts by purpose, in the order of [`Use`].
pub fn composition(trace: &MemoryTrace, device: MemoryDeviceId, position: MemoryCallId) -> Vec<Part> {
    let lookups = SharedLookups::new(trace);
    parts(&lookups, &uses_at(&lookups, device, position))
}

/// Divide the live memory at each of several peaks into parts by purpose. The purpose of an object stays the same: the
/// parameters of a peak in the forward pass are those that gradients and moments of another peak reveal.
pub(crate) fn compositions(trace: &MemoryTrace, peaks: &[(MemoryDeviceId, MemoryCallId)]) -> Vec<Vec<Part>> {
    let lookups = SharedLookups::new(trace);
    let mut all: Vec<Vec<ObjectUse>> = peaks.iter().map(|&(device, at)| uses_at(&lookups, device, at)).collect();
    let is_carried = |purpose: Use, evidence: Evidence| evidence.is_of_sizes() || purpose == Use::FrozenParameters;
    let mut known: FxHashMap<MemoryObjectId, (Use, Evidence)> = FxHashMap::default();
    for (object, purpose, evidence) in
        all.iter().flatten().filter(|(_, purpose, evidence)| is_carried(*purpose, *evidence))
    {
        let known = known.entry(*object).or_insert((*purpose, *evidence));
        if matches!(known.0, Use::EqualSets | Use::FrozenParameters) {
            *known = (*purpose, *evidence);
        }
    }
    for (object, purpose, evidence) in all.iter_mut().flatten().filter(|(.., evidence)| *evidence != Evidence::Source) {
        if let Some(recognized) = known.get(object) {
            (*purpose, *evidence) = *recognized;
        }
    }
    all.iter().map(|uses| parts(&lookups, uses)).collect()
}

/// Lookups that all peaks of a trace share.
struct SharedLookups<'a> {
    trace: &'a MemoryTrace,
    callers: Callers<'a>,
    lifetimes: Lifetimes<'a>,
    /// None if backward passes may be among the records.
    kept: Option<KeptResults>,
}

impl<'a> SharedLookups<'a> {
    /// Compute callers and lifetimes of a trace, and results that forward passes leave if no backward pass is recorded.
    fn new(trace: &'a MemoryTrace) -> Self {
        let callers = Callers::new(trace);
        let lifetimes = Lifetimes::new(trace, &callers);
        let kept = (!may_train(trace, &callers)).then(|| KeptResults::new(trace, &callers));
        Self { trace, callers, lifetimes, kept }
    }
}

/// Object with its purpose and the evidence for it.
type ObjectUse = (MemoryObjectId, Use, Evidence);

/// Purpose and evidence of each live object of a device at a position: by recorded kinds if they cover half of the
/// bytes, else by sizes and call paths.
fn uses_at(lookups: &SharedLookups<'_>, device: MemoryDeviceId, position: MemoryCallId) -> Vec<ObjectUse> {
    let (trace, callers) = (lookups.trace, &lookups.callers);
    let alive = alive_at(trace, device, position);
    let bytes = |object: &MemoryObjectId| trace.objects.bytes[object.index()];
    let kind = |object: &MemoryObjectId| trace.kind_at(*object, position);
    let sum = |objects: &mut dyn Iterator<Item = &MemoryObjectId>| objects.map(bytes).fold(0, u64::saturating_add);
    let bytes_of_known_kind = sum(&mut alive.iter().filter(|object| kind(object) != MemoryObjectKind::Unknown));
    if bytes_of_known_kind > 0 && bytes_of_known_kind >= sum(&mut alive.iter()) / 2 {
        let purpose = |object: &MemoryObjectId| purpose_of_kind(kind(object), callers.phase_of(*object));
        return alive.iter().map(|object| (*object, purpose(object), Evidence::Source)).collect();
    }
    let (classes, mut uses) = classify(lookups, &alive);
    let recognized = recognize(trace, &classes);
    let by_hand = equal_sets::sets_of_program_lines(trace, &lookups.lifetimes, &classes, &recognized);
    let mut of_sets = [recognized.uses, by_hand].concat();
    let weights = Weights::new(lookups, position, &classes, &of_sets);
    // Parameters without gradients so far are as large as those with gradients.
    let is_weight = |object| weights.use_of(object).is_some_and(|(_, purpose, _)| purpose == Use::Parameters);
    of_sets.retain(|(object, purpose, _)| *purpose != Use::EqualSets || !is_weight(*object));
    uses.extend(of_sets);
    let known: FxHashSet<MemoryObjectId> = uses.iter().map(|(object, ..)| *object).collect();
    let temporaries = classes.temporaries.iter().copied();
    uses.extend(temporaries.map(|object| (object, Use::OptimizerTemporaries, Evidence::Lifetime)));
    let rest = [&classes.optimizer, &classes.backward, &classes.forward, &classes.others].into_iter().flatten();
    let rest = rest.filter(|object| !known.contains(object));
    uses.extend(rest.map(|object| weights.use_of(*object).unwrap_or_else(|| purpose_by_path(lookups, *object))));
    uses
}

/// Purpose of memory by the recorded kind of the object and the phase of its allocation.
fn purpose_of_kind(kind: MemoryObjectKind, phase: &str) -> Use {
    match kind {
        MemoryObjectKind::Parameter => Use::Parameters,
        MemoryObjectKind::Gradient => Use::Gradients,
        MemoryObjectKind::OptimizerState => Use::OptimizerState,
        MemoryObjectKind::Activation => Use::Activations,
        MemoryObjectKind::Input => Use::Inputs,
        MemoryObjectKind::Workspace => Use::Workspaces,
        MemoryObjectKind::Temporary if phase == "backward" => Use::Backward,
        MemoryObjectKind::Temporary => Use::Temporary,
        _ => Use::Other,
    }
}

/// Divide live objects into classes by the code that allocated them. Objects whose purpose the call path alone
/// determines are returned separately, with it.
fn classify(lookups: &SharedLookups<'_>, alive: &[MemoryObjectId]) -> (Classes, Vec<ObjectUse>) {
    let (trace, callers) = (lookups.trace, &lookups.callers);
    let mut copies: FxHashMap<MemoryStackId, bool> = FxHashMap::default();
    let (mut classes, mut uses) = (Classes::default(), Vec::new());
    for object in alive {
        let stack = trace.objects.stack[object.index()];
        let is_copy = *copies.entry(stack).or_insert_with(|| {
            trace.stacks.frames_of(stack).any(|frame| is_autocast_copy(frame.function_text(&trace.strings)))
        });
        match callers.phase_of(*object) {
            _ if callers.workspace_of(*object).is_some() => {
                uses.push((*object, Use::Workspaces, Evidence::CallPath));
            }
            _ if is_copy => uses.push((*object, Use::AutocastCopies, Evidence::CallPath)),
            "optimizer" if lookups.lifetimes.is_temporary(*object) => classes.temporaries.push(*object),
            "optimizer" => classes.optimizer.push(*object),
            "forward" => classes.forward.push(*object),
            "backward" if callers.is_recomputed(*object) => classes.forward.push(*object),
            "backward" => classes.backward.push(*object),
            _ => {
                classes.others.push(*object);
                if callers.is_of_weights(*object) {
                    classes.of_weights.insert(*object);
                }
            }
        }
    }
    // Parameters are older than other objects of their sizes.
    classes.others.sort_by_key(|object| (is_allocated(trace, *object), *object));
    (classes, uses)
}

/// True if the call that allocated an object is recorded, so that the object is not older than the trace.
fn is_allocated(trace: &MemoryTrace, object: MemoryObjectId) -> bool {
    trace.objects.allocated_by[object.index()].is_some()
}

/// Purpose of a memory object (inputs, activations …) by the call path of its allocation, for objects outside of
/// equal-size sets.
fn purpose_by_path(lookups: &SharedLookups<'_>, object: MemoryObjectId) -> ObjectUse {
    let (purpose, evidence) = match (lookups.callers.phase_of(object), &lookups.kept) {
        ("optimizer", _) => (Use::Optimizer, Evidence::CallPath),
        ("backward", _) => (Use::Backward, Evidence::CallPath),
        ("forward", None) => (Use::Activations, Evidence::CallPath),
        ("forward" | "other", Some(kept)) if kept.has(object) => (Use::KeptResults, Evidence::Lifetime),
        ("forward", _) => (Use::Forward, Evidence::CallPath),
        ("data", _) => (Use::Inputs, Evidence::CallPath),
        _ if !is_allocated(lookups.trace, object) => (Use::Older, Evidence::Unknown),
        _ => (Use::Other, Evidence::Unknown),
    };
    (object, purpose, evidence)
}

/// Sum objects by purpose into parts; some purposes have one part per allocating line.
fn parts(lookups: &SharedLookups<'_>, uses: &[ObjectUse]) -> Vec<Part> {
    let trace = lookups.trace;
    let mut parts = BTreeMap::<(Use, String), (Part, Vec<MemoryObjectId>)>::new();
    let mut places: FxHashMap<MemoryStackId, String> = FxHashMap::default();
    for &(object, purpose, evidence) in uses {
        let stack = trace.objects.stack[object.index()];
        let place = places.entry(stack).or_insert_with(|| place_text(trace, stack)).clone();
        let key = (purpose, if purpose.is_by_line() { place.clone() } else { String::new() });
        let new = || (Part::new(purpose, evidence, place.clone()), Vec::new());
        let (part, objects) = parts.entry(key).or_insert_with(new);
        let bytes = trace.objects.bytes[object.index()];
        part.bytes = part.bytes.saturating_add(bytes);
        if let Some(library) = lookups.callers.workspace_of(object).filter(|_| purpose == Use::Workspaces) {
            part.add_library(library, bytes);
        }
        part.objects += 1;
        part.by_torch_optim &= lookups.lifetimes.is_by_torch_optim(object);
        objects.push(object);
        if part.place != place {
            part.place.clear();
        }
    }
    let finish = |(mut part, objects): (Part, Vec<MemoryObjectId>)| {
        let kept = lookups.kept.as_ref().filter(|_| part.purpose == Use::KeptResults);
        part.left_by_passes = kept.map(|kept| kept.passes(trace, &objects));
        part
    };
    parts.into_values().map(finish).collect()
}
