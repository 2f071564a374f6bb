//! Calls of the generated program. A path lists its frames, outermost first, separated by `|`: `FUNCTION@FILE:LINE`
//! is Python, `module:PATH/CLASS`, `backward:NAME`, `span:NAME` and `native:LIBRARY+OFFSET` have their kind as
//! prefix, all others are operators. The name of an operator or backward node may be followed by `#` and its inputs.

/// A call that the generated program makes in each step: path, times and allocated bytes.
pub(super) struct Call {
    pub(super) path: &'static str,
    /// Exclusive time.
    pub(super) ns: i64,
    /// Time of the callees.
    pub(super) below_ns: i64,
    /// Allocated memory.
    pub(super) bytes: u64,
}

const fn call(path: &'static str, ns: i64, below_ns: i64, bytes: u64) -> Call {
    Call { path, ns, below_ns, bytes }
}

macro_rules! train {
    ($rest:literal) => {
        concat!("<module>@train.py:88|main@train.py:71|train_step@train.py:52|", $rest)
    };
}
macro_rules! forward {
    ($rest:literal) => {
        concat!(
            "<module>@train.py:88|main@train.py:71|train_step@train.py:48|Model.forward@model.py:41|",
            "module:layers.0/Block|Block.forward@model.py:28|",
            $rest
        )
    };
}

pub(super) const STEP: &[Call] = &[
    call(train!("Optimizer.zero_grad@optim.py:12|aten::zero_"), 9_000, 0, 0),
    call(forward!("Attention.forward@model.py:14|aten::linear"), 6_000, 41_000, 0),
    call(forward!("Attention.forward@model.py:14|aten::linear|aten::addmm"), 41_000, 0, 16_384),
    call(forward!("Attention.forward@model.py:16|aten::scaled_dot_product_attention"), 88_000, 0, 16_384),
    call(forward!("feed_forward@model.py:22|aten::linear"), 7_000, 120_000, 0),
    call(forward!("feed_forward@model.py:22|aten::linear|aten::addmm"), 120_000, 0, 65_536),
    call(forward!("feed_forward@model.py:23|aten::gelu"), 33_000, 0, 65_536),
    call(
        "<module>@train.py:88|main@train.py:71|train_step@train.py:49|cross_entropy@loss.py:7|aten::cross_entropy_loss",
        12_000,
        31_000,
        0,
    ),
    call(
        "<module>@train.py:88|main@train.py:71|train_step@train.py:49|cross_entropy@loss.py:7|aten::cross_entropy_loss|aten::log_softmax",
        31_000,
        0,
        4_096,
    ),
    call(
        "<module>@train.py:88|main@train.py:71|train_step@train.py:49|cross_entropy@loss.py:7|aten::cross_entropy_loss|aten::log_softmax|backward:LogSoftmaxBackward0|aten::_log_softmax_backward_data",
        22_000,
        0,
        4_096,
    ),
    call(forward!("feed_forward@model.py:23|aten::gelu|backward:GeluBackward0|aten::gelu_backward"), 47_000, 0, 65_536),
    call(forward!("feed_forward@model.py:22|aten::linear|aten::addmm|backward:AddmmBackward0"), 9_000, 230_000, 0),
    call(
        forward!("feed_forward@model.py:22|aten::linear|aten::addmm|backward:AddmmBackward0|aten::mm"),
        230_000,
        0,
        81_920,
    ),
    call(
        forward!(
            "Attention.forward@model.py:16|aten::scaled_dot_product_attention|backward:ScaledDotProductFlashAttentionForCpuBackward0"
        ),
        171_000,
        0,
        49_152,
    ),
    call(forward!("Attention.forward@model.py:14|aten::linear|aten::addmm|backward:AddmmBackward0"), 8_000, 79_000, 0),
    call(
        forward!("Attention.forward@model.py:14|aten::linear|aten::addmm|backward:AddmmBackward0|aten::mm"),
        79_000,
        0,
        32_768,
    ),
    call(train!("span:Optimizer.step#AdamW|AdamW.step@optim.py:31|aten::_foreach_add_"), 64_000, 0, 0),
    call(train!("span:Optimizer.step#AdamW|AdamW.step@optim.py:33|aten::_foreach_addcdiv_"), 73_000, 0, 0),
];

pub(super) const SAMPLES: &[&str] = &[
    forward!(
        "feed_forward@model.py:22|aten::linear|aten::addmm|native:libtorch_cpu.so+0x1f3a20|native:libmkl_core.so+0x8810"
    ),
    train!("span:Optimizer.step#AdamW|AdamW.step@optim.py:33|native:libpython3.11.so+0x19f0"),
];

macro_rules! load {
    ($rest:literal) => {
        concat!("<module>@train.py:88|main@train.py:66|_worker_loop@worker.py:309|", $rest)
    };
}

pub(super) const LOADING: &[Call] = &[
    call(load!("Text.__getitem__@train.py:31|aten::slice"), 5_000, 0, 0),
    call(load!("collate@collate.py:130|aten::stack"), 26_000, 0, 8_192),
];

/// Inputs of operators, in the feed-forward layer and elsewhere.
const INPUTS: &[(&str, &str, &str)] = &[
    ("aten::zero_", "f32[128]", "f32[128]"),
    ("aten::linear", "f32[64,128], f32[512,128], f32[512]", "f32[64,128], f32[128,128], f32[128]"),
    (
        "aten::addmm",
        "f32[512], f32[64,128], f32[128,512], scalar, scalar",
        "f32[128], f32[64,128], f32[128,128], scalar, scalar",
    ),
    ("aten::mm", "f32[512,64], f32[64,128]", "f32[128,64], f32[64,128]"),
    ("backward:AddmmBackward0", "f32[64,512]", "f32[64,128]"),
];

/// Add the input shapes to the operators in a call path, where they are known.
pub(super) fn with_input_shapes(path: &str) -> String {
    let wide = path.contains("feed_forward");
    let part = |part: &str| match INPUTS.iter().find(|(name, ..)| *name == part) {
        Some((name, in_wide, in_others)) => format!("{name}#{}", if wide { in_wide } else { in_others }),
        None => part.to_owned(),
    };
    path.split('|').map(part).collect::<Vec<_>>().join("|")
}
