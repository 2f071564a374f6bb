//! SL050 to SL060: memory that is held for nothing, a code for each pattern.
//!
//! Patterns are found in memory traces, which rules over traces of what ran do not see: here stands what people are told of them.

use crate::{Area, Requirement, Rule, Setting};

/// What all of them have in common.
const COMMON: Rule = Rule {
    code: "",
    name: "",
    area: Area::Memory,
    about: "",
    why: "",
    advice: "",
    example: ("", ""),
    cost: "none",
    false_positives: "",
    source: "DrGPUM (ASPLOS 2023), section 3; docs/reference/memory-patterns.md tells where the rule differs",
    needs: &[Requirement::Memory, Requirement::MemoryAccesses],
    settings: &[],
    advice_variants: &[],
    // One of them shows no trace of what ran.
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
    why: "From its allocation to its first use it holds bytes that something else could have, perhaps at the peak.",
    advice: "Allocate it, and fill it, just before its first use.",
    example: (
        "mask = torch.zeros(n, n, device=\"cuda\")\nx = encode(batch)\ny = attend(x, mask)",
        "x = encode(batch)\nmask = torch.zeros(n, n, device=\"cuda\")\ny = attend(x, mask)",
    ),
    false_positives: "It must be there early: others know its address, or an allocation in the loop would cost more time than the \
                 bytes are worth. What fills it may find other data later.",
    settings: &[kernels("least number of kernels (or operators) from the allocation to the first use")],
    ..COMMON
};

pub(super) const LATE_DEALLOCATION: Rule = Rule {
    code: "SL051",
    name: "late-deallocation",
    about: "memory is freed long after its last use",
    why: "A name that still refers to a tensor keeps its bytes, also while the peak comes.",
    advice: "Drop the last reference after the last use: del, a function of its own, or no name at all. What autograd keeps for a \
             backward pass that never comes goes with torch.no_grad(), or with loss.item() where the loss is kept.",
    example: (
        "hidden = encode(batch)\nlogits = head(hidden)\nloss = big_loss(logits)",
        "hidden = encode(batch)\nlogits = head(hidden)\ndel hidden\nloss = big_loss(logits)",
    ),
    cost: "none; a free that waits for a stream costs overlap",
    false_positives: "Something uses it that was not recorded, such as a kernel of an extension through its address.",
    settings: &[kernels("least number of kernels (or operators) from the last use to the free")],
    ..COMMON
};

pub(super) const REDUNDANT_ALLOCATION: Rule = Rule {
    code: "SL052",
    name: "redundant-allocation",
    about: "memory could be that of another object of its size, whose last use is over",
    why: "Two buffers of which each is only used when the other is not need the bytes of one.",
    advice: "Write into the first one (out=, copy_), or free it before the second is made.",
    example: ("a = scale(x)\nb = shift(y)  # a is not used any more", "a = scale(x)\ntorch.add(y, 1, out=a)"),
    cost: "code that is harder to read: two things in one buffer",
    false_positives: "What is in the first one is still wanted, by something that was not recorded. With a caching allocator, freeing the first one \
                 in time does the same.",
    settings: &[share("tolerance", 10.0, "by how much two objects may differ in size, in percent of the larger one")],
    ..COMMON
};

pub(super) const UNUSED_ALLOCATION: Rule = Rule {
    code: "SL053",
    name: "unused-allocation",
    about: "memory is allocated and never touched",
    why: "Its bytes are for nothing as long as it lives.",
    advice: "Leave it out.",
    example: ("buffer = torch.empty(n, device=\"cuda\")\ny = model(x)", "y = model(x)"),
    false_positives: "It is used by something that was not recorded. It is never said where a kernel ran of which not all is known.",
    ..COMMON
};

pub(super) const NEVER_READ: Rule = Rule {
    code: "SL054",
    name: "written-never-read",
    about: "memory is filled and never used",
    why: "Its bytes, and the time to fill it, are for nothing.",
    advice: "Leave it out, with what fills it.",
    example: ("mask = torch.ones(n, n)  # left from before\ny = model(x)", "y = model(x)"),
    source: "a class of its own of DrGPUM's unused allocations (ASPLOS 2023); docs/reference/memory-patterns.md",
    false_positives: "It is used by something that was not recorded, such as NumPy through shared memory.",
    ..COMMON
};

pub(super) const MEMORY_LEAK: Rule = Rule {
    code: "SL055",
    name: "memory-leak",
    about: "memory is never freed, though its last use is over, or grows with each step",
    why: "It is held up to the end of the program. Where each step adds some, memory runs out in the end: losses kept in a list keep all of their graphs.",
    advice: "Keep numbers instead of tensors: loss.item() or loss.detach(); evaluate under torch.no_grad(), without which each loss keeps \
             its graph and all activations in it; reduce its results batch by batch, or move them to the CPU; bound what caches keep.",
    example: ("losses.append(loss)", "losses.append(loss.detach())"),
    needs: &[Requirement::Memory, Requirement::MemoryEnd],
    false_positives: "It is meant to be kept until the end. Parameters, gradients and state of the optimizer are left out where they are known, \
                 and what a long program uses from its begin to its end, as weights of an inference. Where the trace ends before the program: what the steps left is freed later, or a cache is full soon.",
    settings: &[Setting {
        name: "rounds",
        default: 5.0,
        range: (2.0, 1e6),
        about: "least number of steps in which something is left, from which on that is a leak where the trace does not see the end",
    }],
    ..COMMON
};

pub(super) const TEMPORARY_IDLENESS: Rule = Rule {
    code: "SL056",
    name: "temporary-idleness",
    about: "memory lies idle between two uses while the peak comes",
    why: "Bytes that are not needed at the peak are there all the same.",
    advice: "Free it and make it anew if its content is not needed (zero_grad(set_to_none=True)); compute it again \
             (torch.utils.checkpoint), or move it to the host meanwhile.",
    example: (
        "loss.backward()\noptimizer.step()\noptimizer.zero_grad(set_to_none=False)",
        "loss.backward()\noptimizer.step()\noptimizer.zero_grad(set_to_none=True)",
    ),
    cost: "moving it to the host takes two copies (their time stands in the evidence, at 25 GB/s); computing it again takes its \
           operators' time",
    false_positives: "Copies would take longer than it lies idle, or others refer to its address.",
    settings: &[kernels("least number of kernels (or operators) between two uses")],
    ..COMMON
};

pub(super) const DEAD_WRITE: Rule = Rule {
    code: "SL057",
    name: "dead-write",
    about: "memory is filled again before anybody read what was in it",
    why: "Filling it the first time takes time for nothing. It holds no bytes: none are saved.",
    advice: "Leave out the write that nobody reads: the upload that another one covers, or torch.zeros where torch.empty would do.",
    example: (
        "out = torch.zeros(n, device=\"cuda\")\nout.copy_(x)",
        "out = torch.empty(n, device=\"cuda\")\nout.copy_(x)",
    ),
    false_positives: "The second one does not always run, or not always writes all of it.",
    ..COMMON
};

pub(super) const OVERALLOCATION: Rule = Rule {
    code: "SL058",
    name: "overallocation",
    about: "kernels touch but a part of an object's bytes",
    why: "The rest is held for nothing.",
    advice: "Allocate what is used, if the rest lies in few pieces: padding to the longest of the batch rather than to the longest of all.",
    example: ("cache = torch.empty(batch, 32768, width)", "cache = torch.empty(batch, longest + new_tokens, width)"),
    cost: "other offsets wherever it is indexed",
    needs: BYTES,
    false_positives: "Other inputs touch the rest. What is not touched in many small pieces is told, but no smaller size is advised.",
    settings: &[
        share("touched", 80.0, "share of its bytes below which what kernels touch is a part, in percent"),
        share("fragmentation", 80.0, "fragmentation of the rest from which no smaller size is advised, in percent"),
    ],
    ..COMMON
};

pub(super) const NON_UNIFORM_ACCESS: Rule = Rule {
    code: "SL059",
    name: "non-uniform-access",
    about: "kernels touch some bytes of an object much more often than others",
    why: "What is touched often could lie where access is fast (shared memory, registers), the rest on the host. No bytes are saved by that \
          alone.",
    advice: "Put what is touched often into an object of its own.",
    example: (
        "table = torch.empty(rows, width)  # few rows are hot",
        "hot = torch.empty(few, width)\ncold = torch.empty(rows - few, width, pin_memory=True)",
    ),
    cost: "two objects where there was one",
    needs: BYTES,
    false_positives: "Other inputs touch other bytes.",
    settings: &[Setting {
        name: "variation",
        default: 20.0,
        range: (0.0, 1e6),
        about: "variation (standard deviation over mean) of how often bytes are touched that is uniform, at most, in percent",
    }],
    ..COMMON
};

pub(super) const STRUCTURED_ACCESS: Rule = Rule {
    code: "SL060",
    name: "structured-access",
    about: "each launch of a kernel touches a slice of an object of its own",
    why: "Of all slices only one is needed at a time, and all of them are held.",
    advice: "Allocate the slices one by one, each while it is used.",
    example: (
        "parts = torch.empty(k, n, device=\"cuda\")\nfor i in range(k):\n    run(parts[i])",
        "for i in range(k):\n    part = torch.empty(n, device=\"cuda\")\n    run(part)",
    ),
    cost: "an allocation for each slice",
    needs: BYTES,
    false_positives: "All slices are wanted at once in the end, such as by a copy of the whole.",
    ..COMMON
};
