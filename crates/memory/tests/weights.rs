//! Parameters and frozen weights in the composition of peaks.

use crate::composition::{KIB, Program, build, bytes_of, forward, optim, parts, set};
use crate::snapshots::{MIB, frame};
use serde_json::Value;
use stackline_memory::composition::{Evidence, Use, remedies};

/// `nn.Linear.__init__`, called by a line of the program.
fn layer(line: u32) -> [Value; 2] {
    [frame("/env/site-packages/torch/nn/modules/linear.py", 106, "__init__"), frame("train.py", line, "build")]
}

/// Training step with AdamW for the objects of `layer(3)`, in addition to other objects of the program.
fn step(program: &mut Program) {
    program.set(1, &layer(3));
    program.passes();
    program.set(1, &optim(170, "_init_group"));
    program.set(1, &optim(175, "_init_group"));
}

/// LoRA: most weights have neither gradients nor moments. They have another type than the trained ones, and safetensors
/// loaded them.
#[test]
fn frozen_weights_are_identified_by_allocating_code() {
    let safetensors = [frame("/env/site-packages/safetensors/torch.py", 313, "load_file"), build()[0].clone()];
    let moved = [frame("/env/site-packages/torch/nn/modules/module.py", 930, "_apply"), frame("train.py", 4, "main")];
    for frames in [&safetensors[..], &moved, &layer(2)] {
        let mut program = Program::default();
        (0..6).for_each(|at| _ = program.make((9 + at) * MIB, frames));
        step(&mut program);
        let parts = parts(&program.trace());
        let frozen =
            parts.iter().find(|part| part.purpose == Use::FrozenParameters).unwrap_or_else(|| panic!("{parts:#?}"));
        assert_eq!((frozen.bytes, frozen.objects, frozen.evidence), (69 * MIB, 6, Evidence::CallPath), "{parts:?}");
        for trained in [Use::Parameters, Use::Gradients, Use::FirstMoments, Use::SecondMoments] {
            assert_eq!(bytes_of(&parts, trained), set(), "{trained:?}: {parts:?}");
        }
        assert_eq!(bytes_of(&parts, Use::Other), 0);
        let notes = remedies(&parts).join(" ");
        assert!(notes.contains("Parameters without gradients are ") && notes.contains("QLoRA"), "{notes}");
    }
}

/// Without PyTorch frames, the evidence is the line of the trained weights, and a lifetime from before the first pass
/// to the end.
#[test]
fn frozen_weights_are_identified_by_line_and_lifetime() {
    let mut program = Program::default();
    program.make(20 * MIB, &build());
    let batch = program.make(15 * MIB, &build());
    program.make(10 * MIB, &[frame("train.py", 5, "table")]);
    program.set(1, &build());
    program.passes();
    program.set(1, &optim(170, "_init_group"));
    program.free([batch]);
    program.make(KIB, &forward(33, "train"));
    let parts = parts(&program.trace());
    let frozen =
        parts.iter().find(|part| part.purpose == Use::FrozenParameters).unwrap_or_else(|| panic!("{parts:#?}"));
    assert_eq!((frozen.bytes, frozen.evidence), (20 * MIB, Evidence::Lifetime), "{parts:?}");
    assert_eq!(bytes_of(&parts, Use::Other), 25 * MIB, "what is freed, and what another line made: {parts:?}");
}

/// Without gradients, weights cannot be known as frozen, so they are parameters.
#[test]
fn weights_of_inference_are_parameters() {
    let mut program = Program::default();
    program.set(1, &layer(3));
    // A cache of keys and values: equal blocks, allocated by a class of the program.
    let cache = [frame("/srv/cache.py", 9, "__init__"), frame("serve.py", 3, "main")];
    (0..32).for_each(|_| _ = program.make(MIB, &cache));
    let hidden = program.make(KIB, &forward(33, "serve"));
    program.free([hidden]);
    let parts = parts(&program.trace());
    let parameters = parts.iter().find(|part| part.purpose == Use::Parameters).unwrap();
    assert_eq!((parameters.bytes, parameters.evidence), (set(), Evidence::CallPath), "{parts:?}");
    assert_eq!([bytes_of(&parts, Use::FrozenParameters), bytes_of(&parts, Use::Other)], [0, 32 * MIB], "{parts:?}");
}

/// Within a backward pass, layers without gradients so far are not frozen, for any evidence of weights.
#[test]
fn weights_without_gradients_yet_are_parameters() {
    for frames in [&layer(3)[..], &build()] {
        let mut program = Program::default();
        let layers = |program: &mut Program, count: u64, frames: &[Value]| {
            (0..count).for_each(|_| _ = (program.make(256 * KIB, frames), program.make(64 * KIB, frames)));
        };
        layers(&mut program, 24, frames);
        program.make(MIB, &forward(33, "train"));
        layers(&mut program, 6, &[frame("??", 0, "torch::autograd::generated::AddmmBackward0::apply(int)")]);
        let parts = parts(&program.trace());
        assert_eq!(
            [Use::Parameters, Use::Gradients, Use::FrozenParameters, Use::EqualSets]
                .map(|purpose| bytes_of(&parts, purpose)),
            [24 * 320 * KIB, 6 * 320 * KIB, 0, 0],
            "{parts:?}"
        );
        assert!(!remedies(&parts).join(" ").contains("QLoRA"));
    }
}

/// After the backward pass, gradients identify frozen weights, even without optimizer state.
#[test]
fn gradients_of_a_complete_backward_pass_reveal_frozen_weights() {
    for is_over in [false, true] {
        let mut program = Program::default();
        (0..6).for_each(|at| _ = program.make((9 + at) * MIB, &layer(2)));
        program.set(1, &layer(3));
        program.passes();
        if is_over {
            program.make(MIB, &forward(33, "train"));
        }
        let parts = parts(&program.trace());
        let frozen = if is_over { 69 * MIB } else { 0 };
        assert_eq!(bytes_of(&parts, Use::FrozenParameters), frozen, "{parts:?}");
        assert_eq!(bytes_of(&parts, Use::Parameters), 69 * MIB + set() - frozen, "{parts:?}");
        assert_eq!(bytes_of(&parts, Use::Gradients), set(), "{parts:?}");
    }
}

/// Sizes of twelve layers, and of the first nine, which have optimizer state.
const LAYERS: std::ops::RangeInclusive<u64> = 1..=12;
const WITH_STATE: std::ops::RangeInclusive<u64> = 1..=9;

fn layer_bytes(layers: std::ops::RangeInclusive<u64>) -> u64 {
    layers.map(|at| at * 64 * KIB).sum()
}

/// Within the first step of Adam, weights without state so far are not frozen; those without gradients are.
#[test]
fn weights_without_optimizer_state_yet_are_parameters() {
    for frames in [&layer(3)[..], &build()] {
        let mut program = Program::default();
        let node = [frame("??", 0, "torch::autograd::generated::AddmmBackward0::apply(int)")];
        program.make(20 * MIB, frames);
        LAYERS.for_each(|at| _ = program.make(at * 64 * KIB, frames));
        let activation = program.make(MIB, &forward(33, "train"));
        LAYERS.for_each(|at| _ = program.make(at * 64 * KIB, &node));
        program.free([activation]);
        WITH_STATE.for_each(|at| {
            program.make(at * 64 * KIB, &optim(170, "_init_group"));
            program.make(at * 64 * KIB, &optim(175, "_init_group"));
        });
        let parts = parts(&program.trace());
        assert_eq!(
            [Use::Parameters, Use::FrozenParameters, Use::FirstMoments].map(|purpose| bytes_of(&parts, purpose)),
            [layer_bytes(LAYERS), 20 * MIB, layer_bytes(WITH_STATE)],
            "{parts:?}"
        );
    }
}

/// An optimizer within the backward pass allocates state layer by layer: the next forward pass shows that the step is
/// over.
#[test]
fn weights_without_state_are_frozen_once_the_step_within_backward_is_over() {
    for (is_over, frees) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut program = Program::default();
        let node = [frame("??", 0, "torch::autograd::generated::AddmmBackward0::apply(int)")];
        let within = |line: u32| -> Vec<Value> { optim(line, "_init_group").into_iter().chain(node.clone()).collect() };
        LAYERS.for_each(|at| _ = program.make(at * 64 * KIB, &layer(3)));
        let activation = program.make(KIB, &forward(33, "train"));
        for at in WITH_STATE {
            let gradient = program.make(at * 64 * KIB, &node);
            program.make(at * 64 * KIB, &within(170));
            program.make(at * 64 * KIB, &within(175));
            program.free(frees.then_some(gradient));
        }
        program.free([activation]);
        if is_over {
            program.make(MIB, &forward(33, "train"));
        }
        let parts = parts(&program.trace());
        let frozen = if is_over { layer_bytes(10..=12) } else { 0 };
        assert_eq!(bytes_of(&parts, Use::FrozenParameters), frozen, "{is_over} {frees}: {parts:?}");
        assert_eq!(bytes_of(&parts, Use::Parameters), layer_bytes(LAYERS) - frozen, "{is_over} {frees}: {parts:?}");
    }
}

/// Two networks with an optimizer each: the first step of one is no evidence for the weights of the other.
#[test]
fn weights_of_a_second_optimizer_are_parameters_before_its_first_step() {
    let mut program = Program::default();
    let second =
        |program: &mut Program, frames: &[Value]| (9..15).for_each(|at| _ = program.make(at * 8 * KIB, frames));
    second(&mut program, &layer(2));
    step(&mut program);
    let activation = program.make(4 * MIB, &forward(33, "train"));
    second(&mut program, &[frame("??", 0, "torch::autograd::generated::AddmmBackward0::apply(int)")]);
    program.free([activation]);
    second(&mut program, &optim(170, "_init_group"));
    second(&mut program, &optim(175, "_init_group"));
    let parts = parts(&program.trace());
    assert_eq!(
        [bytes_of(&parts, Use::Parameters), bytes_of(&parts, Use::FrozenParameters)],
        [set() + (9..15).map(|at| at * 8 * KIB).sum::<u64>(), 0],
        "{parts:?}"
    );
}

/// The advice to train fewer parameters is not given if few are trained already.
#[test]
fn lora_is_not_suggested_to_its_users() {
    let notes = |frozen: u64| {
        let mut program = Program::default();
        (0..6).for_each(|at| _ = program.make((9 + at) * frozen, &layer(2)));
        step(&mut program);
        remedies(&parts(&program.trace())).join(" ")
    };
    let mostly_frozen = notes(MIB);
    assert!(!mostly_frozen.contains("(LoRA)") && mostly_frozen.contains("(QLoRA)"), "{mostly_frozen}");
    let few_frozen = notes(8 * KIB);
    let advice = "Trained parameters, gradients and optimizer state are 93.";
    assert!(few_frozen.contains(advice) && few_frozen.contains("(LoRA)"), "{few_frozen}");
}

/// Input buffers in a ring have one size, which temporaries of backward may share.
#[test]
fn buffers_of_one_size_are_not_parameters() {
    let mut program = Program::default();
    (0..8).for_each(|_| _ = program.make(MIB, &[frame("loader.py", 12, "ring")]));
    (0..8).for_each(|_| {
        _ = program.make(MIB, &[frame("??", 0, "torch::autograd::generated::AddmmBackward0::apply(int)")]);
    });
    let parts = parts(&program.trace());
    assert_eq!([bytes_of(&parts, Use::Other), bytes_of(&parts, Use::Backward)], [8 * MIB, 8 * MIB], "{parts:?}");
}

/// The largest weights of a model have the size of buffers in a ring: the weights are those that modules allocated.
#[test]
fn buffers_of_the_size_of_weights_are_not_parameters() {
    let mut program = Program::default();
    let large = |program: &mut Program, frames: &[Value]| (0..4).for_each(|_| _ = program.make(4 * MIB, frames));
    let small = |program: &mut Program, frames: &[Value]| (0..4).for_each(|_| _ = program.make(4 * KIB, frames));
    large(&mut program, &[frame("loader.py", 12, "ring")]);
    let node = [frame("??", 0, "torch::autograd::generated::AddmmBackward0::apply(int)")];
    for frames in [&layer(3)[..], &node, &optim(170, "_init_group")] {
        large(&mut program, frames);
        small(&mut program, frames);
    }
    let parts = parts(&program.trace());
    let model = 16 * (MIB + KIB);
    for (purpose, place) in [(Use::Parameters, "train.py:3 build"), (Use::Gradients, "AddmmBackward0")] {
        let part = parts.iter().find(|part| part.purpose == purpose).unwrap();
        assert_eq!((part.bytes, part.place.as_str(), part.evidence), (model, place, Evidence::EqualSizes), "{parts:?}");
    }
    assert_eq!([bytes_of(&parts, Use::Other), bytes_of(&parts, Use::EqualSets)], [16 * MIB, 0], "{parts:?}");
}

/// Evidence from sizes only is reported as such.
#[test]
fn parameters_by_sizes_alone_are_of_low_confidence() {
    let mut program = Program::default();
    program.set(1, &build());
    program.passes();
    let parts = parts(&program.trace());
    let evidence = |purpose: Use| parts.iter().find(|part| part.purpose == purpose).unwrap().evidence;
    assert_eq!([evidence(Use::Parameters), evidence(Use::Gradients)], [Evidence::EqualSizesOnly, Evidence::EqualSizes]);
    assert_eq!(Evidence::EqualSizesOnly.name(), "equal sizes only");
}
