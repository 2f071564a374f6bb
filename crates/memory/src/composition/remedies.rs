//! Advice that lowers a memory peak, from the peak's composition.

use super::{Part, Use};
use stackline_model::format::bytes as words;

/// Share of activations, in percent of the peak, below which checkpointing changes little.
const FEW_ACTIVATIONS: f64 = 10.0;

/// Advice for a peak with these parts, in sentences, including measures that do not help. Empty without evidence.
pub fn remedies(parts: &[Part]) -> Vec<String> {
    let all = parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add).max(1);
    let share = |is: &dyn Fn(Use) -> bool| {
        let bytes = parts.iter().filter(|part| is(part.purpose)).map(|part| part.bytes).fold(0, u64::saturating_add);
        100.0 * bytes as f64 / all as f64
    };
    let (model, activations) = (share(&Use::grows_with_model), share(&|purpose| purpose == Use::Activations));
    let frozen_share = share(&|purpose| purpose == Use::FrozenParameters);
    let trained = model - frozen_share;
    let autocast = share(&|purpose| purpose == Use::AutocastCopies);
    let mut notes = Vec::new();
    let equal = share(&|purpose| purpose == Use::EqualSets);
    if model >= 50.0 && equal >= model {
        notes.push(equal_sets(parts, equal));
    } else if model >= 50.0 {
        let subject = model_memory_text(frozen_share > 0.0, equal > 0.0);
        // If frozen weights are the larger part, few parameters are trained already, and the advice concerns the frozen
        // weights.
        if trained >= frozen_share {
            notes.push(format!(
                "{subject} are {trained:.1} % of the peak. Shard them over ranks (FSDP, ZeRO), keep optimizer state in \
                 8 bits, in bf16 or on the host, or train fewer parameters (LoRA)."
            ));
        }
        notes.push(if activations < FEW_ACTIVATIONS {
            format!(
                "Checkpointing activations or a smaller batch won't help: activations are only {activations:.1} % of \
                 the peak."
            )
        } else {
            format!("Checkpointing activations or a smaller batch saves at most {activations:.1} % of the peak.")
        });
    } else if activations >= 50.0 {
        notes.push(format!(
            "Activations are {activations:.1} % of the peak. Checkpoint them (torch.utils.checkpoint), or lower the batch \
             size or the sequence length. Sharding optimizer state or parameters saves at most {model:.1} % of the peak."
        ));
    }
    if frozen_share >= MIN_MENTIONED {
        notes.push(frozen(frozen_share));
    }
    notes.extend(
        parts.iter().filter(|part| part.purpose == Use::KeptResults).filter_map(|part| kept_results(part, all)),
    );
    if share(&|purpose| purpose == Use::Forward) >= 50.0 {
        notes.push(forward_pass(share(&|purpose| purpose == Use::Forward)));
    }
    notes.extend(
        parts.iter().find(|part| part.purpose == Use::OptimizerTemporaries).and_then(|part| temporaries(part, all)),
    );
    if autocast >= 5.0 {
        notes.push(format!(
            "Autocast copies are {autocast:.1} % of the peak. Autocast caches copies of weights until its outermost \
             block ends. Keep the weights in the lower precision, or cast at each use with torch.autocast(..., \
             cache_enabled=False)."
        ));
    }
    notes.extend(parts.iter().find(|part| part.purpose == Use::Workspaces).and_then(|part| workspaces(part, all)));
    notes
}

/// Memory that grows with the model, as the subject of a sentence.
const fn model_memory_text(has_frozen: bool, has_equal_sets: bool) -> &'static str {
    match (has_frozen, has_equal_sets) {
        (true, true) => "Trained parameters, gradients, optimizer state and other sets of tensors with the same sizes",
        (true, false) => "Trained parameters, gradients and optimizer state",
        (false, true) => "Parameters, gradients, optimizer state and other sets of tensors with the same sizes",
        (false, false) => "Parameters, gradients and optimizer state",
    }
}

/// Least share of the peak, in percent, from which temporaries and kept results are mentioned.
const MIN_MENTIONED: f64 = 5.0;

/// Advice on temporaries of the optimizer step; `None` if they are a small share of the peak of `all` bytes.
fn temporaries(part: &Part, all: u64) -> Option<String> {
    let share = 100.0 * part.bytes as f64 / all as f64;
    let place = if part.place.is_empty() { String::new() } else { format!(" ({})", part.place) };
    let remedy = if part.by_torch_optim {
        "Create the optimizer with fused=True (one kernel, no temporaries), or foreach=False (temporaries of one \
         parameter at a time)."
    } else {
        "Update the parameters in place (add_, mul_, addcdiv_), one after the other, or use torch.optim with fused=True."
    };
    (share >= MIN_MENTIONED).then(|| {
        format!(
            "Temporaries of the optimizer step are {share:.1} % of the peak{place}, and are freed after the step. \
            {remedy}"
        )
    })
}

/// Advice on sets of tensors with equal sizes and unknown use; `share` is in percent of the peak.
fn equal_sets(parts: &[Part], share: f64) -> String {
    let sets: Vec<&Part> = parts.iter().filter(|part| part.purpose == Use::EqualSets).collect();
    let places: Vec<&str> = sets.iter().map(|part| part.place.as_str()).filter(|place| !place.is_empty()).collect();
    format!(
        "{} sets of tensors with the same sizes are {share:.1} % of the peak ({}). Stackline infers their use only from \
         the sizes, so confidence is low. The sets may be parameters, gradients, optimizer state, averaged weights or \
         buffers (a ring of inputs, blocks of a KV cache). If the sets belong to the model, shard them over ranks, keep \
         them in bf16 or on the host, or keep fewer copies.",
        sets.len(),
        places.join(", ")
    )
}

/// Advice on parameters without gradients; `share` is in percent of the peak.
fn frozen(share: f64) -> String {
    format!(
        "Parameters without gradients are {share:.1} % of the peak. Quantize them to 8 or 4 bits (QLoRA), keep them in \
         bf16, shard them over ranks (FSDP), or run a frozen encoder once and keep its results."
    )
}

/// Advice on results that forward passes leave live; `None` if they are a small share of the peak of `all` bytes.
fn kept_results(part: &Part, all: u64) -> Option<String> {
    let share = 100.0 * part.bytes as f64 / all as f64;
    let (passes, each) = part.left_by_passes?;
    (share >= MIN_MENTIONED).then(|| {
        format!(
            "{} of tensors ({share:.1} % of the peak), allocated at {}, stay live after forward passes without a backward \
             pass. Each of the {passes} forward passes adds {}. Keep only a result per batch (a sum, a metric), move the \
             tensors to the CPU (.cpu()), or call .detach() on them if they keep an autograd graph.",
            words(part.bytes),
            part.place,
            words(each),
        )
    })
}

/// Advice on memory of forward passes without a backward pass; `share` is in percent of the peak.
fn forward_pass(share: f64) -> String {
    format!(
        "Forward passes allocated {share:.1} % of the peak, and the recording contains no backward pass. For \
         evaluation or inference, use torch.inference_mode() and a smaller batch. For training whose backward pass \
         was not recorded, checkpoint the activations (torch.utils.checkpoint)."
    )
}

/// Least share of the peak, in percent, from which library workspaces are mentioned.
const MUCH_WORKSPACE: f64 = 10.0;

/// Advice on workspaces of CUDA libraries; `None` if they are a small share of the peak of `all` bytes.
fn workspaces(part: &Part, all: u64) -> Option<String> {
    let share = 100.0 * part.bytes as f64 / all as f64;
    let of_libraries: Vec<String> =
        part.libraries.iter().map(|(library, sum)| format!("{} {}", library.name, words(*sum))).collect();
    let sized_by: Vec<String> =
        part.libraries.iter().map(|(library, _)| format!("{}: {}.", library.name, library.sized_by)).collect();
    (share >= MUCH_WORKSPACE && !part.libraries.is_empty()).then(|| {
        format!(
            "Library workspaces are {share:.1} % of the peak ({}). PyTorch keeps the workspaces of cuBLAS and cuBLASLt \
             until torch._C._cuda_clearCublasWorkspaces() frees them. Smaller workspaces may slow down matrix \
             products. {}",
            of_libraries.join(", "),
            sized_by.join(" ")
        )
    })
}
