//! SL050 to SL060: wasted memory, one code per pattern.
//!
//! Patterns are found in memory traces by `engine`, not by rules over execution traces. This module holds their texts.

use crate::{Area, GainMethod, Requirement, Rule, Setting};

/// Fields that all memory rules share.
const COMMON: Rule = Rule {
    code: "",
    name: "",
    area: Area::Memory,
    about: "",
    why: "",
    gain_methods: &[GainMethod::Memory],
    gain_text: "",
    advice: "",
    example: ("", ""),
    cost: "none",
    false_positives: "",
    source: "DrGPUM (ASPLOS 2023), section 3; docs/reference/memory-patterns.md lists the differences",
    needs: &[Requirement::Memory, Requirement::MemoryAccesses],
    settings: &[],
    advice_variants: &[],
    // Memory rules do not analyze an execution trace.
    check: |_| Vec::new(),
};

const fn kernels(about: &'static str) -> Setting {
    Setting { name: "kernels", default: 1.0, range: (1.0, 1e9), about }
}

const fn share(name: &'static str, default: f64, about: &'static str) -> Setting {
    Setting { name, default, range: (0.0, 100.0), about }
}

const BYTES: &[Requirement] = &[Requirement::Memory, Requirement::MemoryAccesses, Requirement::MemoryRanges];

pub(super) const EARLY_ALLOCATION: Rule = Rule {
    code: "SL050",
    name: "early-allocation",
    about: "memory is allocated long before its first use",
    why: "From its allocation to its first use, the object holds bytes that other objects could use, possibly at the \
         peak.",
    gain_text: "The rule counts the kernels (or operators) from the allocation of an object to its first use. For the \
         saving, Stackline simulates the memory trace again with the object allocated, and filled, just before that \
         use.",
    advice: "Allocate and fill the object just before its first use.",
    example: (
        "mask = torch.zeros(n, n, device=\"cuda\")\nx = encode(batch)\ny = attend(x, mask)",
        "x = encode(batch)\nmask = torch.zeros(n, n, device=\"cuda\")\ny = attend(x, mask)",
    ),
    false_positives: "The object must exist early: other code knows its address, or an allocation in the loop costs \
         more time than the saved bytes justify. Filling it later may read changed data.",
    settings: &[kernels("minimum number of kernels (or operators) from the allocation to the first use")],
    ..COMMON
};

pub(super) const LATE_DEALLOCATION: Rule = Rule {
    code: "SL051",
    name: "late-deallocation",
    about: "memory is freed long after its last use",
    why: "A name that still refers to a tensor keeps its bytes allocated, possibly through the peak.",
    gain_text: "The rule counts the kernels (or operators) from the last use of an object to its free. For the saving, \
         Stackline simulates the memory trace again with the object freed just after that use.",
    advice: "Drop the last reference after the last use: use del, a separate function, or no name at all. Use \
         torch.no_grad(), or loss.item() where the loss is kept, to drop tensors that autograd keeps for a backward \
         pass that never runs.",
    example: (
        "hidden = encode(batch)\nlogits = head(hidden)\nloss = big_loss(logits)",
        "hidden = encode(batch)\nlogits = head(hidden)\ndel hidden\nloss = big_loss(logits)",
    ),
    cost: "none; a free that waits for a stream reduces overlap",
    false_positives: "Unrecorded code uses the object, such as a kernel of an extension through its address.",
    settings: &[kernels("minimum number of kernels (or operators) from the last use to the free")],
    ..COMMON
};

pub(super) const REDUNDANT_ALLOCATION: Rule = Rule {
    code: "SL052",
    name: "redundant-allocation",
    about: "an object could reuse the memory of another object of its size after the other's last use",
    why: "Two buffers that are never in use at the same time need the bytes of only one.",
    gain_text: "The rule pairs objects of similar size that are not in use at the same time. For the saving, Stackline \
         simulates the memory trace again with one object in the memory of the other, or with an operator that writes \
         into its input.",
    advice: "Write into the first object (out=, copy_), or free it before allocating the second.",
    example: ("a = scale(x)\nb = shift(y)  # a is not used any more", "a = scale(x)\ntorch.add(y, 1, out=a)"),
    cost: "less readable code, because one buffer serves two purposes",
    false_positives: "Unrecorded code still needs the content of the first object. With a caching allocator, freeing \
         the first object in time has the same effect.",
    settings: &[share("tolerance", 10.0, "by how much two objects may differ in size, in percent of the larger one")],
    ..COMMON
};

pub(super) const UNUSED_ALLOCATION: Rule = Rule {
    code: "SL053",
    name: "unused-allocation",
    about: "memory is allocated and never accessed",
    why: "The object occupies its bytes without any use.",
    gain_text: "The rule finds objects without any access from allocation to free. For the saving, Stackline simulates \
         the memory trace again with the object not allocated.",
    advice: "Remove the allocation.",
    example: ("buffer = torch.empty(n, device=\"cuda\")\ny = model(x)", "y = model(x)"),
    false_positives: "Unrecorded code uses the object. The rule reports nothing if a kernel with partly unknown \
         accesses ran meanwhile.",
    ..COMMON
};

pub(super) const NEVER_READ: Rule = Rule {
    code: "SL054",
    name: "written-never-read",
    about: "memory is written and never read",
    why: "The bytes of the object and the time to fill it are wasted.",
    gain_text: "The rule finds objects that only fills and copies write, and that are never read. For the saving, \
         Stackline simulates the memory trace again with the object neither allocated nor filled.",
    advice: "Remove the object and the writes to it.",
    example: ("mask = torch.ones(n, n)  # left from before\ny = model(x)", "y = model(x)"),
    source: "a separate class of DrGPUM's unused allocations (ASPLOS 2023); docs/reference/memory-patterns.md",
    false_positives: "Unrecorded code reads the object, such as NumPy through shared memory.",
    ..COMMON
};

pub(super) const MEMORY_LEAK: Rule = Rule {
    code: "SL055",
    name: "memory-leak",
    about: "memory is never freed after its last use, or grows with each step",
    why: "The object occupies its bytes until the program ends. Memory that grows with each step eventually runs out: \
         a list of losses keeps all of their graphs alive.",
    gain_methods: &[GainMethod::Memory, GainMethod::Nothing],
    gain_text: "If the trace has the end of the program and no free of the object, Stackline simulates the memory \
         trace again with the object freed just after its last use. Without the end of the program, the rule uses the \
         objects that each step leaves allocated; then the finding has no savings.",
    advice: "Keep numbers instead of tensors: loss.item() or loss.detach(). Evaluate under torch.no_grad(), because \
         each loss otherwise keeps its graph and all activations in it; reduce results batch by batch, or move them \
         to the CPU; limit the size of caches.",
    example: ("losses.append(loss)", "losses.append(loss.detach())"),
    needs: &[Requirement::Memory, Requirement::MemoryEnd],
    false_positives: "The memory is meant to be kept until the end. The rule excludes known parameters, gradients and \
         optimizer state, and objects in use from begin to end of a long program, such as weights of an inference. If \
         the trace ends before the program: the objects may be freed later, or a cache may soon be full.",
    settings: &[Setting {
        name: "rounds",
        default: 5.0,
        range: (2.0, 1e6),
        about: "minimum number of steps that leave an object each, to report a leak in a trace that ends before the \
             program",
    }],
    ..COMMON
};

pub(super) const TEMPORARY_IDLENESS: Rule = Rule {
    code: "SL056",
    name: "temporary-idleness",
    about: "memory is idle between two uses while the peak occurs",
    why: "At the peak, the device holds bytes that no operation needs then.",
    gain_text: "The rule counts the kernels (or operators) between two uses of an object. For the saving, Stackline \
         simulates the memory trace again with the object freed while idle, and then refilled, recomputed, or copied \
         to the host and back. The finding reports the time of these operations.",
    advice: "Free the object and allocate it again if its content is not needed (zero_grad(set_to_none=True)); \
         recompute it (torch.utils.checkpoint); or move it to the host meanwhile.",
    example: (
        "loss.backward()\noptimizer.step()\noptimizer.zero_grad(set_to_none=False)",
        "loss.backward()\noptimizer.step()\noptimizer.zero_grad(set_to_none=True)",
    ),
    cost: "moving it to the host takes two copies (their time is in the evidence, at 25 GB/s); recomputing it takes \
         the time of its operators",
    false_positives: "Copies take longer than the object is idle, or other code keeps its address.",
    settings: &[kernels("minimum number of kernels (or operators) between two uses")],
    ..COMMON
};

pub(super) const DEAD_WRITE: Rule = Rule {
    code: "SL057",
    name: "dead-write",
    about: "memory is overwritten before any read of its previous content",
    why: "The first write takes time without effect. Removing it saves time, but no bytes.",
    gain_methods: &[GainMethod::Nothing],
    gain_text: "The rule finds fills and copies whose bytes another call overwrites completely before any read. \
         Removing such a write saves time, not memory: the reported bytes are the wasted writes.",
    advice: "Remove the unread write: an upload that a later one overwrites, or torch.zeros where torch.empty is \
         enough.",
    example: (
        "out = torch.zeros(n, device=\"cuda\")\nout.copy_(x)",
        "out = torch.empty(n, device=\"cuda\")\nout.copy_(x)",
    ),
    false_positives: "The second write does not always run, or does not always cover the whole object.",
    ..COMMON
};

pub(super) const OVERALLOCATION: Rule = Rule {
    code: "SL058",
    name: "overallocation",
    about: "kernels access only a part of an object's bytes",
    why: "The remaining bytes are wasted.",
    gain_methods: &[GainMethod::Memory, GainMethod::Nothing],
    gain_text: "The rule needs a trace with the bytes that kernels access. For the saving, Stackline simulates the \
         memory trace again with only the needed size of the object allocated. If the unused bytes are in many pieces, \
         the finding reports them without a smaller size.",
    advice: "Allocate only the used part if the rest is in few pieces: for example, pad to the longest sequence of \
         the batch rather than of the data set.",
    example: ("cache = torch.empty(batch, 32768, width)", "cache = torch.empty(batch, longest + new_tokens, width)"),
    cost: "changed offsets at all uses of the object",
    needs: BYTES,
    false_positives: "Other inputs access the rest. If the rest is in many small pieces, the finding reports it \
         without advising a smaller size.",
    settings: &[
        share(
            "touched",
            80.0,
            "report only objects of which kernels access at most this share of the bytes, in percent",
        ),
        share(
            "fragmentation",
            80.0,
            "fragmentation of the unused bytes, in percent, from which the finding advises no smaller size",
        ),
    ],
    ..COMMON
};

pub(super) const NON_UNIFORM_ACCESS: Rule = Rule {
    code: "SL059",
    name: "non-uniform-access",
    about: "kernels access some bytes of an object much more often than others",
    why: "Frequently accessed bytes could be in faster memory (shared memory, registers), and the rest on the host. \
         Moving them saves time, not memory.",
    gain_methods: &[GainMethod::Nothing],
    gain_text: "The rule measures how unevenly a kernel accesses the bytes of an object: the standard deviation of the \
         access counts divided by their mean. Moving the frequently accessed part saves time, not memory: the reported \
         bytes are those of the object.",
    advice: "Move the frequently accessed part into a separate object.",
    example: (
        "table = torch.empty(rows, width)  # few rows are hot",
        "hot = torch.empty(few, width)\ncold = torch.empty(rows - few, width, pin_memory=True)",
    ),
    cost: "two objects instead of one",
    needs: BYTES,
    false_positives: "Other inputs access other bytes.",
    settings: &[Setting {
        name: "variation",
        default: 20.0,
        range: (0.0, 1e6),
        about: "report only objects whose access counts vary by more than this (standard deviation over mean), in \
             percent",
    }],
    ..COMMON
};

pub(super) const STRUCTURED_ACCESS: Rule = Rule {
    code: "SL060",
    name: "structured-access",
    about: "each launch of a kernel accesses a different slice of an object",
    why: "Only one slice is needed at a time, but all slices are allocated.",
    gain_methods: &[GainMethod::Memory, GainMethod::Nothing],
    gain_text: "The rule finds objects of which each kernel launch accesses a different part. For the saving, \
         Stackline simulates the memory trace again with the slices allocated one at a time, each for its access. If \
         the trace does not show that this is possible, the finding reports the bytes without a gain.",
    advice: "Allocate the slices one by one, each only while it is in use.",
    example: (
        "parts = torch.empty(k, n, device=\"cuda\")\nfor i in range(k):\n    run(parts[i])",
        "for i in range(k):\n    part = torch.empty(n, device=\"cuda\")\n    run(part)",
    ),
    cost: "one allocation per slice",
    needs: BYTES,
    false_positives: "All slices are needed together later, such as by a copy of the whole object.",
    ..COMMON
};
