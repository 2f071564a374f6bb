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
    properties: &[],
    // Memory rules do not analyze an execution trace.
    check: |_| Vec::new(),
};

/// Setting `kernels` of a memory rule: minimum number of kernels (or operators).
const fn kernels(about: &'static str) -> Setting {
    Setting { name: "kernels", default: 1.0, range: (1.0, 1e9), about }
}

/// Setting of a memory rule, in percent.
const fn share(name: &'static str, default: f64, about: &'static str) -> Setting {
    Setting { name, default, range: (0.0, 100.0), about }
}

/// Requirements of rules on the accessed bytes of objects.
const BYTES: &[Requirement] = &[Requirement::Memory, Requirement::MemoryAccesses, Requirement::MemoryRanges];

pub(super) const EARLY_ALLOCATION: Rule = Rule {
    code: "SL050",
    name: "early-allocation",
    about: "memory is allocated long before its first use",
    why: "From its allocation to its first use, the object (a tensor or buffer) occupies bytes that other objects \
          could use, possibly at the memory peak.",
    gain_text: "The rule counts the kernels (or operators) from the allocation of an object to its first use. To \
         estimate the saving, Stackline simulates the memory trace again with the object allocated, and filled, just \
         before that use.",
    advice: "Allocate and fill the tensor just before its first use.",
    example: (
        "out = torch.empty(n, n, device=\"cuda\")  # first used in the last line\nx = encode(batch)\nout.copy_(attend(x))",
        "x = encode(batch)\nout = torch.empty(n, n, device=\"cuda\")\nout.copy_(attend(x))",
    ),
    false_positives: "Allocating the object later is wrong if other code needs its address before that, or if data \
                      that fill the object have changed by then. The change does not help if an additional allocation \
                      in the loop costs too much time for the saved bytes.",
    settings: &[kernels(
        "report an object only if at least this many kernels (or operators) run between its allocation and its first use",
    )],
    ..COMMON
};

pub(super) const LATE_DEALLOCATION: Rule = Rule {
    code: "SL051",
    name: "late-deallocation",
    about: "memory is freed long after its last use",
    why: "A variable that still refers to a tensor keeps the bytes of the tensor allocated, possibly until after the \
          memory peak.",
    gain_text: "The rule counts the kernels (or operators) from the last use of an object until it is freed. To \
         estimate the saving, Stackline simulates the memory trace again with the object freed just after that use.",
    advice: "Drop the last reference after the last use: use del, a separate function, or no variable at all. If \
         autograd keeps tensors for a backward pass that never runs, use torch.no_grad(), or store loss.item() instead \
         of the loss.",
    example: (
        "hidden = encode(batch)\nlogits = head(hidden)\nloss = big_loss(logits)",
        "hidden = encode(batch)\nlogits = head(hidden)\ndel hidden\nloss = big_loss(logits)",
    ),
    cost: "the change costs nothing, unless another stream still uses the memory: freeing then waits for that \
         stream, so less work overlaps",
    false_positives: "Freeing the object earlier is wrong if code that was not recorded still uses it, such as a \
         kernel of an extension through its address.",
    settings: &[kernels(
        "report an object only if at least this many kernels (or operators) run between its last use and its free",
    )],
    ..COMMON
};

pub(super) const REDUNDANT_ALLOCATION: Rule = Rule {
    code: "SL052",
    name: "redundant-allocation",
    about: "an object could reuse the memory of an earlier object of similar size that is no longer used",
    why: "Two buffers that are never in use at the same time could share the same memory.",
    gain_text: "The rule pairs objects of similar size that are not in use at the same time. To estimate the saving, \
         Stackline simulates the memory trace again with the second object in the memory of the first. Or it \
         simulates an operator that writes its result into its input.",
    advice: "Write into the first object (out=, copy_), or free it before allocating the second.",
    example: ("a = scale(x)\nb = shift(y)  # a is not used any more", "a = scale(x)\ntorch.add(y, 1, out=a)"),
    cost: "the code is less readable, because one buffer serves two purposes",
    false_positives: "Reuse is wrong if code that was not recorded still needs the content of the first object. With \
                      a caching allocator, freeing the first object before the second is allocated has the same \
                      effect.",
    settings: &[share(
        "tolerance",
        10.0,
        "report two objects only if their sizes differ by at most this percentage of the larger size",
    )],
    ..COMMON
};

pub(super) const UNUSED_ALLOCATION: Rule = Rule {
    code: "SL053",
    name: "unused-allocation",
    about: "memory is allocated and never accessed",
    why: "The object occupies memory, but nothing uses it.",
    gain_text: "The rule finds objects that are never accessed between allocation and free. To estimate the saving, \
         Stackline simulates the memory trace again with the object not allocated.",
    advice: "Remove the allocation.",
    example: ("buffer = torch.empty(n, device=\"cuda\")\ny = model(x)", "y = model(x)"),
    false_positives: "The finding is wrong if code that was not recorded uses the object. The rule does not report \
         an object if a kernel ran during its lifetime and the trace shows only some of the kernel's memory accesses.",
    ..COMMON
};

pub(super) const NEVER_READ: Rule = Rule {
    code: "SL054",
    name: "written-never-read",
    about: "memory is written and never read",
    why: "The object occupies memory, and filling it takes time, but nothing reads it.",
    gain_text: "The rule finds objects that only fills and copies write, and that are never read. To estimate the \
         saving, Stackline simulates the memory trace again with the object neither allocated nor filled.",
    advice: "Remove the object and the writes to it.",
    example: ("mask = torch.ones(n, n)  # left from before\ny = model(x)", "y = model(x)"),
    source: "DrGPUM (ASPLOS 2023) counts memory that is never read as an unused allocation; \
         docs/reference/memory-patterns.md lists the differences",
    false_positives: "The finding is wrong if code that was not recorded reads the object, such as a NumPy array that \
                      uses the same memory (tensor.numpy()).",
    ..COMMON
};

pub(super) const MEMORY_LEAK: Rule = Rule {
    code: "SL055",
    name: "memory-leak",
    about: "memory is never freed after its last use, or grows with each step",
    why: "The object occupies its bytes until the program ends. Memory that grows with each step eventually runs \
         out, for example if a list of loss values keeps all their autograd graphs.",
    gain_methods: &[GainMethod::Memory, GainMethod::Nothing],
    gain_text: "If the trace covers the end of the program, the rule reports objects that are not freed. To estimate \
         the saving, Stackline simulates the memory trace again with the object freed just after its last use. If \
         the trace ends earlier, the rule reports objects that each step leaves allocated. Such a finding has no \
         estimated saving.",
    advice: "Keep loss.item() or loss.detach() instead of a loss that refers to its autograd graph. Evaluate under \
         torch.no_grad(), because each loss otherwise keeps its graph with all activations. Reduce results batch by \
         batch, or move them to the CPU. Limit the size of caches.",
    example: ("losses.append(loss)", "losses.append(loss.detach())"),
    needs: &[Requirement::Memory, Requirement::MemoryEnd],
    false_positives: "The finding is wrong if the memory is meant to be kept until the end. The rule does not report \
                      known parameters, gradients and optimizer state. It also does not report objects that a long \
                      program uses from beginning to end, such as the weights in inference. If the trace ends before \
                      the program, the objects may be freed later. They may also belong to a cache that stops \
                      growing once it is full.",
    settings: &[Setting {
        name: "iterations",
        default: 5.0,
        range: (2.0, 1e6),
        about: "in a trace that ends before the program: report a leak only if at least this many steps each leave an \
             object allocated",
    }],
    ..COMMON
};

pub(super) const TEMPORARY_IDLENESS: Rule = Rule {
    code: "SL056",
    name: "temporary-idleness",
    about: "an object is not used for a long time, and the memory peak occurs in that time",
    why: "At the memory peak, the object occupies bytes that no running operation needs.",
    gain_text: "The rule counts the kernels (or operators) between two uses of an object. To estimate the saving, \
         Stackline simulates the memory trace again with the object freed while it is idle. Before its next use, the \
         object is refilled, recomputed, or copied back from the host. The finding reports the time of these \
         operations.",
    advice: "If the content is not needed, free the object and allocate it again (zero_grad(set_to_none=True)). \
         Otherwise recompute it (torch.utils.checkpoint), or move it to the host between the two uses.",
    example: (
        "loss.backward()\noptimizer.step()\noptimizer.zero_grad(set_to_none=False)",
        "loss.backward()\noptimizer.step()\noptimizer.zero_grad(set_to_none=True)",
    ),
    cost: "moving the object to the host and back takes two copies (the finding lists their time at an assumed 25 \
         GB/s); recomputing the object takes the time of the operators",
    false_positives: "The change does not help if copying out and back takes longer than the object is idle. The \
        change is unsafe if other code keeps a pointer to the object.",
    settings: &[kernels(
        "report an object only if at least this many kernels (or operators) run between two of its uses",
    )],
    ..COMMON
};

pub(super) const DEAD_WRITE: Rule = Rule {
    code: "SL057",
    name: "dead-write",
    about: "memory is overwritten before any read of its previous content",
    why: "The first write takes time without effect. Removing it saves time, but no bytes.",
    gain_methods: &[GainMethod::Nothing],
    gain_text: "The rule finds fills and copies whose bytes are all overwritten by another call before any read. \
         Removing such a write saves time, not memory: the reported bytes are those of the wasted writes.",
    advice: "Remove the write whose result is never read: a copy to the GPU that a later copy overwrites, or \
         torch.zeros where torch.empty is enough.",
    example: (
        "out = torch.zeros(n, device=\"cuda\")\nout.copy_(x)",
        "out = torch.empty(n, device=\"cuda\")\nout.copy_(x)",
    ),
    false_positives: "The first of the two writes is needed if the second write, which overwrites its content, does \
        not always run. The first write is also needed if the second does not always cover the whole object.",
    ..COMMON
};

pub(super) const OVERALLOCATION: Rule = Rule {
    code: "SL058",
    name: "overallocation",
    about: "kernels access only a part of an object's bytes",
    why: "The bytes that no kernel accesses are wasted.",
    gain_methods: &[GainMethod::Memory, GainMethod::Nothing],
    gain_text: "The rule needs a trace with the byte ranges that kernels access. To estimate the saving, Stackline \
         simulates the memory trace again with only the used part of the object allocated. If the unused bytes are in \
         many pieces, the finding reports them without advising a smaller object.",
    advice: "If the unused bytes are in few pieces, allocate only the used part: for example, pad to the longest \
         sequence of the batch rather than of the data set.",
    example: ("cache = torch.empty(batch, 32768, width)", "cache = torch.empty(batch, longest + new_tokens, width)"),
    cost: "all code that uses the object needs the new size and offsets",
    needs: BYTES,
    false_positives: "The unused bytes are needed if kernels access them with other inputs of the program. If the \
                      unused bytes are in many small pieces, the finding reports them without advising a smaller \
                      object.",
    settings: &[
        share("accessed", 80.0, "report only objects of which kernels access at most this percentage of the bytes"),
        share(
            "fragmentation",
            80.0,
            "advise allocating a smaller object only if less than this percentage of the unused bytes lies outside \
             of the largest contiguous unused range",
        ),
    ],
    ..COMMON
};

pub(super) const NON_UNIFORM_ACCESS: Rule = Rule {
    code: "SL059",
    name: "non-uniform-access",
    about: "kernels access some bytes of an object much more often than its other bytes",
    why: "Frequently accessed bytes could be in faster memory (shared memory, registers), and the rest on the host. \
         Moving them saves time, not memory.",
    gain_methods: &[GainMethod::Nothing],
    gain_text: "The rule measures how unevenly a kernel accesses the bytes of an object: the standard deviation of the \
         access counts divided by their mean. Moving the frequently accessed part saves time, not memory: the reported \
         bytes are the size of the object.",
    advice: "Move the frequently accessed part into a separate object.",
    example: (
        "table = torch.empty(rows, width)  # a few rows get most accesses",
        "hot = torch.empty(few, width)\ncold = torch.empty(rows - few, width, pin_memory=True)",
    ),
    cost: "the program has two objects instead of one",
    needs: BYTES,
    false_positives: "The finding is wrong if, with other inputs, kernels access other bytes of the object more often.",
    settings: &[Setting {
        name: "variation",
        default: 20.0,
        range: (0.0, 1e6),
        about: "report only objects whose access counts vary by more than this: standard deviation divided by mean, in \
             percent",
    }],
    ..COMMON
};

pub(super) const STRUCTURED_ACCESS: Rule = Rule {
    code: "SL060",
    name: "structured-access",
    about: "each launch of a kernel accesses a different slice of an object",
    why: "Each kernel needs only one slice, but all slices are allocated at the same time.",
    gain_methods: &[GainMethod::Memory, GainMethod::Nothing],
    gain_text: "The rule finds objects of which each kernel launch accesses a different part. To estimate the saving, \
         Stackline simulates the memory trace again with the slices allocated one at a time, each only during its \
         access. If the trace does not show that this is possible, the finding reports the bytes without a gain.",
    advice: "Allocate the slices one by one, each only while a kernel uses it.",
    example: (
        "parts = torch.empty(k, n, device=\"cuda\")\nfor i in range(k):\n    run(parts[i])",
        "for i in range(k):\n    part = torch.empty(n, device=\"cuda\")\n    run(part)",
    ),
    cost: "the program makes one allocation per slice",
    needs: BYTES,
    false_positives: "The slices must be allocated at the same time if later code needs all of them, such as a copy \
                      of the whole object.",
    ..COMMON
};
