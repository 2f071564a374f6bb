//! SL010: data preparation that is repeated in each step.

use super::dataloader_starved::takes_batch;
use crate::{
    AdviceVariant, Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support,
};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::{EventId, EventKind, Unit};
use stackline_timeline::confidence::Confidence;
use std::collections::BTreeMap;

pub(crate) const RULE: Rule = Rule {
    code: "SL010",
    name: "preprocessing-in-pipeline",
    area: Area::Data,
    about: "images, audio or text are decoded, resized, normalized or tokenized while the GPU waits",
    why: "The host computes the same result in each step or epoch while the GPU waits for it.",
    gain_methods: &[GainMethod::Replay],
    gain_text: "The reported share is the percentage of the critical path in preprocessing functions. The estimate \
                removes these functions (what-if operation `remove`). If one of them calls another, only the outer \
                call counts.",
    advice: "Prepare the data once and store the result. If this is not possible, prepare the data on the GPU \
         (torchvision.transforms.v2 on batches), or in DataLoader workers.",
    example: (
        "def __getitem__(self, i):\n    return to_tensor(Image.open(self.files[i]).resize((224, 224)))",
        "# once: image.resize((224, 224)).save(...)\ndef __getitem__(self, i):\n    return to_tensor(Image.open(self.small_files[i]))",
    ),
    cost: "the change takes a script that runs once, and storage for its result",
    false_positives: "Preprocessing cannot be done in advance if its result differs each time (random crops), or if \
         the input is new each time, as in inference. In these cases, the work can only be moved to DataLoader \
         workers or the GPU, or be made faster. The estimate assumes that all preprocessing is removed.",
    source: "Yang et al., critical paths across threads (CTDA-CPA), section 5.4 (resize took 21.75 % of the time; \
             resizing once: 47 % faster)",
    needs: &[Requirement::PythonFrames],
    settings: &[Setting {
        name: "share",
        default: 3.0,
        range: (0.0, 100.0),
        about: "report only kinds of preprocessing that take at least this percentage of the critical path",
    }],
    advice_variants: &[AdviceVariant::without_gpu(
        "Prepare the data once and store the result. If this is not possible, prepare whole batches instead of single \
             items, or use DataLoader workers.",
        (
            "def __getitem__(self, i):\n    return to_tensor(Image.open(self.files[i]).resize((224, 224)))",
            "def __getitem__(self, i):  # resized once, before the training\n    return torch.load(self.small[i])",
        ),
    )],
    properties: &[],
    check,
};

/// Kinds of preprocessing, and name parts of their frames.
const FRAMES: &[(&str, &[&str])] = &[
    ("resizing", &["built-in method resize of ImagingCore"]),
    ("resizing", &["PIL/Image.py(", "): resize"]),
    ("resizing", &["image_transforms.py(", "): resize"]),
    ("resizing", &["<built-in function resize>"]),
    ("resizing", &["transforms/functional.py(", "): resize"]),
    ("resizing", &["transforms/v2/functional/", "): resize*"]),
    ("decoding", &["built-in method decode of ImagingDecoder"]),
    ("decoding", &["PIL/ImageFile.py(", "): load"]),
    ("decoding", &["<built-in function imread>"]),
    ("decoding", &["<built-in function imdecode>"]),
    ("decoding", &["torchvision/io/", "): decode_*"]),
    ("decoding", &["torchvision/io/", "): read_*"]),
    ("decoding", &["av.video.frame.VideoFrame", "decode"]),
    ("normalizing", &["image_transforms.py(", "): normalize"]),
    ("normalizing", &["transforms/functional.py(", "): normalize"]),
    ("normalizing", &["transforms/v2/functional/", "): normalize*"]),
    ("normalizing", &["image_transforms.py(", "): rescale"]),
    ("turning images into tensors", &["transforms/functional.py(", "): to_tensor"]),
    ("turning images into tensors", &["transforms/functional.py(", "): pil_to_tensor"]),
    ("augmenting", &["albumentations/", "): apply"]),
    ("augmenting", &["transforms/functional.py(", "): adjust_*"]),
    ("cutting text into tokens", &["tokenization_utils", "): _batch_encode_plus"]),
    ("cutting text into tokens", &["tokenization_utils", "): _encode_plus"]),
    ("preparing sound", &["librosa/", "): load"]),
    ("preparing sound", &["librosa/", "): resample"]),
    ("preparing sound", &["torchaudio/", "): load"]),
    ("preparing sound", &["torchaudio/", "): resample"]),
];

/// Functions that preprocess data in a loader, and elsewhere are part of a model.
const LOADER_FRAMES: &[(&str, &[&str])] = &[
    ("resizing", &["torch/nn/functional.py(", "): interpolate"]),
    ("resizing", &["torch/nn/functional.py(", "): grid_sample"]),
    ("preparing sound", &["torch/functional.py(", "): stft"]),
];

/// Find data preparation on the critical path, one candidate per kind.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let mut frames = context.named(&[EventKind::PythonFunction], |name| kind_of(name).is_some());
    let is_loading = |name: &str| takes_batch(name) || super::matches_parts(name, &["): __getitem__"]);
    frames.retain(|&frame| {
        super::kind_in(LOADER_FRAMES, trace.name(frame)).is_none()
            || trace.ancestors(frame).any(|e| is_loading(trace.name(e)))
    });
    if frames.is_empty() {
        return Vec::new();
    }
    let frames = context.outermost(&frames);
    let on_path = context.path_inside(&frames);
    let mut kinds: BTreeMap<&str, Vec<(EventId, i64)>> = BTreeMap::new();
    for (&frame, ns) in frames.iter().zip(on_path) {
        kinds.entry(kind_of(trace.name(frame)).unwrap_or_default()).or_default().push((frame, ns));
    }
    kinds.into_iter().filter_map(|(kind, frames)| candidate(context, kind, &frames)).collect()
}

/// Kind of preprocessing in a frame with this name, wherever it is called; `None` for other frames.
pub(crate) fn kind_anywhere(name: &str) -> Option<&'static str> {
    super::kind_in(FRAMES, name)
}

/// Kind of preprocessing in a frame with this name, including functions that preprocess data only in a loader.
pub(crate) fn kind_of(name: &str) -> Option<&'static str> {
    super::kind_in(FRAMES, name).or_else(|| super::kind_in(LOADER_FRAMES, name))
}

/// Candidate for one kind of preprocessing, from frames with their times on the critical path; `None` if the share is
/// small.
fn candidate(context: &RuleContext<'_>, kind: &str, frames: &[(EventId, i64)]) -> Option<Candidate> {
    let on_path: i64 = frames.iter().map(|&(_, ns)| ns).sum();
    let share = context.percent(on_path);
    if share < context.setting("share") {
        return None;
    }
    let frames: Vec<EventId> = frames.iter().map(|&(frame, _)| frame).collect();
    let edit = context.edit(Action::Remove, format!("frame:{}", context.trace().name(frames[0])), &frames)?;
    let (place, _) = context.by_place(&frames).into_iter().max_by_key(|(_, of)| context.total(of))?;
    Some(Candidate {
        title: format!("Preprocessing: {kind} takes {share:.0} % of the time"),
        place,
        facts: vec![
            Fact::count("calls", frames.len()),
            Fact { name: "share of the critical path in preprocessing", value: share, unit: Unit::Percent },
            Fact::time("mean duration of a preprocessing call", context.total(&frames) / frames.len().max(1) as i64),
        ],
        events: frames,
        kind: None,
        support: Support::Exact,
        confidence: Confidence::Medium,
        gain_estimate: GainEstimate::edits(vec![edit]),
    })
}
