//! Methodology of gain estimates, as printed on rule pages.

use super::finding::{Finding, REPLAY, SPECULATIVE};
use super::rule::Rule;

/// Method of a gain estimate. Pages list the methods of their rule; [`Finding::measured`] returns the one of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GainMethod {
    /// Replay of the graph with the change.
    Replay,
    /// Replay of a speculative change.
    Speculative,
    /// A model that the finding names.
    Model,
    /// Replay of the allocations of a memory trace.
    Memory,
    /// No gain.
    Nothing,
}

use GainMethod::{Memory, Model, Nothing, Replay, Speculative};

impl GainMethod {
    /// Description of the gain method for rule pages.
    fn about(self) -> &'static str {
        match self {
            Self::Replay => {
                "Replay: the gain is the time by which a step gets shorter in the dependency graph of the trace with \
                these edits ([what-if](../analyses/what-if.md)). The cost of recording the removed events is \
                subtracted. The bounds are those of replay, and also cover the cases above. They do not cover \
                effects that no trace shows, such as freed caches, memory and processors: some programs [gained more \
                or less](../findings-accuracy.md)."
            }
            Self::Speculative => {
                "Speculative replay: the gain is the time by which a step gets shorter in the dependency graph of \
                the trace with these edits ([what-if](../analyses/what-if.md)). No record shows that the assumed \
                change is possible, so the lower bound is 0. The combined gain of all findings and `--fail-on gain` \
                exclude the gain."
            }
            Self::Model => {
                "Model: edits of the dependency graph cannot express the change, so no replay predicts the gain. \
                Instead, a formula estimates the gain from measured times, and the finding names this model. The \
                combined gain of all findings excludes this gain."
            }
            Self::Memory => {
                "Replay of allocations: the allocations of the trace are repeated with the change \
                 ([memory](../reference/memory.md#findings)). The gain is the number of bytes saved at the highest \
                 peak of the device. The finding also reports how far the change alone lowers the peak. The lower \
                 bound excludes objects whose waste is inferred."
            }
            Self::Nothing => "Without a known change that saves time, the finding has no gain.",
        }
    }
}

impl Finding {
    /// Method by which the finding's gain was estimated.
    pub fn measured(&self) -> GainMethod {
        match self.method {
            _ if self.memory.is_some() => Memory,
            "" => Nothing,
            REPLAY => Replay,
            SPECULATIVE => Speculative,
            _ => Model,
        }
    }
}

impl Rule {
    /// Methods of the gain estimates of this rule; empty if the table has no entry.
    pub fn measured(&self) -> &'static [GainMethod] {
        told(self.code).map_or(&[], |(ways, _)| ways)
    }

    /// Text of the rule page on how the rule estimates gains.
    pub(super) fn how_measured(&self) -> String {
        let Some((ways, text)) = told(self.code) else { return String::new() };
        let ways: Vec<&str> = ways.iter().map(|way| way.about()).collect();
        format!("{text}\n\n{}", ways.join("\n\n"))
    }
}

/// Methods, and the description of measured and changed times, by code of the rule.
fn told(code: &str) -> Option<(&'static [GainMethod], &'static str)> {
    METHODOLOGY.iter().find(|(of, ..)| *of == code).map(|(_, ways, text)| (*ways, *text))
}

const METHODOLOGY: &[(&str, &[GainMethod], &str)] = &[
    (
        "SL001",
        &[Speculative],
        "All runs of the kernel take half their time (`scale 0.5`). The reported share is the kernel's part of the \
        time of kernels, copies and fills on the GPU.",
    ),
    (
        "SL002",
        &[Replay],
        "The kernels of each call become one kernel with their total time (`fuse`). The operators that launched all \
        kernels but the first go (`remove`); in the lower bound they stay. Calls longer than ten times the median, \
        such as a first call, stay unchanged.",
    ),
    (
        "SL003",
        &[Replay],
        "The conversion kernels and the calls that launch them go (`remove`). In the upper bound, batch norm also \
        takes 0.3 of its time.",
    ),
    (
        "SL004",
        &[Replay],
        "Calls that waited at least `SL004.wait_us` no longer wait, and the thread continues (`remove`). An operator \
        that only reads a value (`item`) goes with its copy. For an operator that reads the size of its result \
        (`nonzero`), the copy to the host goes.",
    ),
    (
        "SL005",
        &[Speculative],
        "The reported share is the host time on the critical path in the code, excluding code that has a finding of \
        its own. The host time of all its calls is halved (`scale 0.5`).",
    ),
    (
        "SL006",
        &[Speculative],
        "The kernels of the backward pass take twice the time of those of the forward pass (`scale`). The trace's \
        links connect backward and forward operators.",
    ),
    (
        "SL007",
        &[Replay],
        "The GPU work of the backward pass takes `SL007.factor` times that of its forward pass (`scale`). If the \
        trace has no link to the forward pass, it takes a quarter of its time.",
    ),
    (
        "SL008",
        &[Speculative],
        "Half of the time in samples with the stall reason goes (`scale` by 1 minus half of the share of these \
         samples).",
    ),
    (
        "SL009",
        &[Replay, Nothing],
        "The reported share is the time of data loading on the critical path. Replay adds as many workers as are \
        needed to avoid the wait (`more-workers`), but no more than there are free processors, if a recording counts \
        them. If the program loads batches itself, taking a batch costs the time to take a batch from a worker, and \
        at least the loading time divided by the workers. If a recording shows that the added workers would keep all \
        processors busy, the gain is limited to the free processors, with lower bound 0. If all processors are busy \
        already, more workers gain nothing.",
    ),
    (
        "SL010",
        &[Replay],
        "The reported share is the time of the preprocessing functions on the critical path. They take no time \
        (`remove`). If these functions call each other, only the outermost counts.",
    ),
    (
        "SL011",
        &[Replay],
        "The copies take the time that their bytes need from pinned memory (`scale`), and the host no longer waits \
        in their calls (`remove`). The rate is that of the trace's own copies from pinned memory, else that of the \
        GPU model, else `SL011.gb_per_s`. The bounds cover copies that take 0.8 and 1.25 times as long.",
    ),
    (
        "SL012",
        &[Replay],
        "The outermost operators that launch kernels, except those in which the host waits, take `SL012.scale` of \
        their time (`scale`). This factor is an assumption about CUDA graphs and compiled code, not a measurement of \
        the program.",
    ),
    (
        "SL013",
        &[Replay],
        "The kernels of `nll_loss` and of copies in the loss take no time, and operators that launch nothing else go \
        (`remove`). The kernels of `log_softmax`, forward and backward, take `SL013.scale` of their time (`scale`), \
        and half of that if the logits are converted. The bounds are 0.5 and 1.7 times the remaining time.",
    ),
    (
        "SL014",
        &[Replay],
        "All GPU work between the two matrix products, including softmax, takes no time, and operators that launch \
        nothing else go (`remove`). The products stay unchanged. In the upper bound the products and the copies next \
        to them go, too.",
    ),
    (
        "SL015",
        &[Replay],
        "On a GPU, the kernels of an optimizer step become one kernel with their total time (`fuse`), and all \
        operators that launch kernels but one go (`remove`). If the optimizer makes many passes, its kernels also \
        take 0.4 of their time (`scale`; bounds: 0.25 and 1). On a CPU, 3 µs per parameter remain of the optimizer's \
        time, and a part of the operators' time beyond 2.5 µs each (`scale`): 0.35, with bounds 0.2 and 1.",
    ),
    (
        "SL016",
        &[Replay],
        "The conversions take no time, and operators that do nothing else go (`remove`). A converted tensor is a \
        parameter if it has the shape of an input after the first input of a layer, and is converted at least once \
        per step.",
    ),
    (
        "SL017",
        &[Replay],
        "On a GPU, the kernels that copy take no time, and operators that do nothing else go. On a CPU, the \
        outermost operators that copied take no time (`remove`). If calls are recorded, all calls of copy.deepcopy \
        go with their Python time. Otherwise, the time from its first to its last operator goes; the bounds cover \
        its operators alone, and also the time before the first of them.",
    ),
    (
        "SL018",
        &[Replay],
        "Kernels with float32 in their names, of at least `SL018.kernel_us` each, take `SL018.scale` of their time \
        (`scale`). On GPUs other than A100, H100 and their successors they take `SL018.scale_others`. The bounds are \
        0.5 and 2 times the remaining time.",
    ),
    (
        "SL019",
        &[Replay],
        "The reported share is the time of the collective on the critical path. No other GPU work waits for the \
        collective (`overlap`); waits of the host stay. Traces do not show which work needs the result, so the gain \
        is an upper limit.",
    ),
    (
        "SL020",
        &[Replay],
        "The AllReduces take half of their time without waits for other ranks (`scale`). Time beyond the median of \
        AllReduces of the same size counts as such a wait, and stays. The lower bound removes from each AllReduce \
        only 0.4 of the shortest time of AllReduces of its size. The upper bound removes half of the whole time, \
        including the waits.",
    ),
    ("SL021", &[Replay], "The searches take no time (`remove`)."),
    (
        "SL022",
        &[Replay],
        "Between two optimizer steps, the AllReduces of all backward passes but the last take no time, and neither \
        do the operators that call them (`remove`). Only backward passes that reduce the same tensors count.",
    ),
    (
        "SL023",
        &[Replay],
        "Replay shortens calls longer than `SL023.times` the median of their name and size to the median (edit `set`). \
        The bounds of the gain use the 5th and 95th percentiles of the other calls.",
    ),
    ("SL024", &[Replay], "Driver calls that allocate, free and retry take no time, and waits in them go (`remove`)."),
    (
        "SL025",
        &[Replay],
        "Collections that recur take no time (`remove`). Of nested collections only the outermost counts.",
    ),
    (
        "SL026",
        &[Replay],
        "Compilation in steps after the first takes no time (`remove`). Of nested spans only the outermost counts.",
    ),
    (
        "SL027",
        &[Replay, Model],
        "If all breaks are at one source location and the trace has the checks after them, these checks take no time \
        (`remove`). Otherwise each break on the critical path costs `SL027.check_us`, with bounds 0 and 3 times \
        that. The gain excludes the effect of fusion across the breaks.",
    ),
    (
        "SL028",
        &[Model],
        "Samples measure the CPU time of each thread, and the part of it in OpenMP's library. One estimate divides \
        the computing evenly among the processors. The other removes the waiting: its CPU time divided by the number \
        of processors. The gain is the smaller estimate; its bounds are half of the smaller and the larger \
        estimate.",
    ),
    (
        "SL029",
        &[Replay],
        "Calls that log, print or save take no time, including the waits for the GPU in them (`remove`). If only \
        samples show these calls, the time between two operators shrinks by their share of the samples (`scale`). If \
        nearly all samples show them, all of that time goes, including waits.",
    ),
    (
        "SL030",
        &[Replay],
        "The `aten::to` operators that copy such tensors, and their copies, take no time (`remove`). The rule \
        recognizes them by the calls of `torch.tensor(…, device=…)`: a small copy right before the tensor is \
        returned.",
    ),
    (
        "SL031",
        &[Model, Nothing],
        "The slow steps, and each step after one, become as long as the median step; the saved time is divided among \
        all steps. The lower bound is 0. The upper bound assumes a median that is lower by twice its distance from \
        the shortest step. The extra time is the additional critical path of the worst step, compared to usual \
        steps. In recordings, a slow step without additional work may be insignificant: a note reports it.",
    ),
    (
        "SL032",
        &[Replay],
        "Runs of at least `SL032.times` the median of their name and size take the median (`set`). The bounds are \
        the 5th and 95th percentiles of the other runs.",
    ),
    (
        "SL033",
        &[Nothing],
        "The rule reports two numbers. One is the share of the critical path that the trace marks as the profiler's \
        own work. The other is the number of Python frames of the thread with most of them, times `SL033.frame_ns`, \
        as a share of the time in these frames.",
    ),
    (
        "SL034",
        &[Replay],
        "Kernels that started at a low clock take their time at a high clock (`scale`). The factor is the mean over \
        kernels with the same name and grid that ran at both clocks. The bounds are three standard errors, and at \
        least 3 % of the difference.",
    ),
    (
        "SL035",
        &[Replay],
        "The kernels get shorter by the share of idle lanes (`scale`): the threads of a block, divided by the same \
        number rounded up to whole warps.",
    ),
    (
        "SL036",
        &[Replay],
        "Of each chain of consecutive elementwise kernels, all kernels but the longest take no time, and operators \
        that launch nothing else go (`remove`).",
    ),
    (
        "SL037",
        &[Replay],
        "The kernels take `SL037.scale` of their time (`scale`). This factor is an assumption about kernels with \
        fixed types.",
    ),
    (
        "SL038",
        &[Replay],
        "The calls of the loop, the Python time between them, and their backward pass shrink to a rest (`scale`). \
         The rest is one call of each operator a step, and their computation beyond the cost of a call. In the upper \
         bound all of it goes, including the gathering of the results and the code before and after the loop.",
    ),
    (
        "SL039",
        &[Replay],
        "Functions that wait, by their names, take no time (`remove`). If no such function is on the stack, the time \
        between two operators shrinks by the time in which samples show no computation (`scale`). Then the bounds \
        are the sampling error.",
    ),
    (
        "SL040",
        &[Model],
        "For each rank, the rule measures the time in which collectives run alone. The last rank has the least of \
        it. The gain is the difference to the next rank. The lower bound is 0, and the upper bound is the difference \
        to the median of the other ranks.",
    ),
    (
        "SL041",
        &[Speculative],
        "The kernels take a share of their time equal to blocks divided by multiprocessors, and at least one warp of \
        each block (`scale`).",
    ),
    ("SL042", &[Replay], "The operators in `zero_grad`, and the kernels that they launch, take no time (`remove`)."),
    (
        "SL043",
        &[Speculative],
        "In a recording, the rule takes the time between two operators in which CPU samples show the function, \
        outside of operators and frameworks. That time is halved (`scale`), and goes in the upper bound; the bounds \
        cover the sampling error. The reported line has most of these samples. In a trace with every call, the same \
        applies to the time of the function and its callees on the critical path.",
    ),
    (
        "SL044",
        &[Replay],
        "All collectives but one per bucket of 25 MB go, with their operators, launches and the short gaps between \
        them (`remove`). The remaining collectives carry all data: they take the time of all, less one latency for \
        each removed collective (`scale`). The latency is the time of the shortest collective. The lower bound \
        removes half of the latencies, the upper bound all time of the removed collectives.",
    ),
    (
        "SL045",
        &[Replay],
        "The reported share is the critical path in the function, if the function does nothing else, otherwise in \
        the builtin functions and operators. They take no time, and their GPU work goes (`remove`). The bounds cover \
        the operators alone, and also the time from the first to the last of them. Without a GPU, the time of \
        `torch.tensor` of a list from its first to its last operator counts, too. Of the time before \
        the first operator, in which PyTorch determines the sizes of the list, 1.2 times that span counts; the upper \
        bound is twice the span.",
    ),
    (
        "SL046",
        &[Replay],
        "Each call keeps the share of its new elements among all copied elements (`scale`): in kernels on a GPU, \
        otherwise in operators.",
    ),
    (
        "SL047",
        &[Replay, Speculative],
        "The reported share is the critical path in the calls and in their GPU work. Both take no time (`remove`); \
        the lower bound assumes an evaluation in every tenth step (`scale`). If nothing identifies the code as an \
        evaluation, the gain is speculative. Measured on the CPU: see [accuracy](../findings-accuracy.md).",
    ),
    (
        "SL048",
        &[Replay],
        "The outermost operators with a sequence number get shorter by 2.4 µs per graph node (`scale`), a value \
        between those measured in two programs. The bounds are 0.8 and 5 µs. Kernels keep their time, so the gain is \
        0 if the GPU is the bottleneck.",
    ),
    (
        "SL049",
        &[Replay],
        "The reported share is the critical path in operators of such names, with a mean time of at least \
        `SL049.mean_us`. CPU samples of all threads show how many processors the process uses meanwhile. Available \
        processors are those that the process may use, without those of other busy threads, divided by the number of \
        recorded processes that compute. With n threads the operators take 1 / (1 + 0.6 (n - 1)) of their time \
        (`scale`). The bounds are half of that saving, and 1 / n.",
    ),
    (
        "SL050",
        &[Memory],
        "The rule counts the kernels (or operators) from the allocation of an object to its first use. In the replay \
        the object is allocated, and filled, just before that use.",
    ),
    (
        "SL051",
        &[Memory],
        "The rule counts the kernels (or operators) from the last use of an object to its free. In the replay the \
        object is freed just after that use.",
    ),
    (
        "SL052",
        &[Memory],
        "The rule pairs objects of similar size that are not in use at the same time. In the replay an object reuses \
        the memory of the other one, or its operator writes into its input.",
    ),
    (
        "SL053",
        &[Memory],
        "The rule finds objects without any access from allocation to free. In the replay the \
        object is not allocated.",
    ),
    (
        "SL054",
        &[Memory],
        "The rule finds objects that only fills and copies write, and that are never read. In the replay the object \
        is neither allocated nor filled.",
    ),
    (
        "SL055",
        &[Memory, Nothing],
        "If the trace has the end of the program and no free of the object, the object is freed just after its last \
        use. Without the end of the program, the rule uses the objects that each step leaves allocated; then the \
        finding has no savings.",
    ),
    (
        "SL056",
        &[Memory],
        "The rule counts the kernels (or operators) between two uses of an object. In the replay the object is freed \
        while idle, and then refilled, recomputed, or copied to the host and back. The finding reports the time that \
        this costs.",
    ),
    (
        "SL057",
        &[Nothing],
        "The rule finds fills and copies whose bytes another call overwrites completely before any read. The change \
        saves no memory: the reported bytes are the wasted writes.",
    ),
    (
        "SL058",
        &[Memory, Nothing],
        "The rule needs a trace with the bytes that kernels access. In the replay the object is allocated with the \
        size that is needed. If the unused bytes are in many pieces, the finding reports them without a smaller \
        size.",
    ),
    (
        "SL059",
        &[Nothing],
        "The rule measures how unevenly a kernel accesses the bytes of an object: the standard deviation of the \
        access counts divided by their mean. The change saves no memory: the reported bytes are those of the \
        object.",
    ),
    (
        "SL060",
        &[Memory, Nothing],
        "The rule finds objects of which each kernel launch accesses a different part. In the replay the slices are \
        allocated one at a time, each for its access. If that is not known to be possible, the finding reports the \
        bytes without a gain.",
    ),
    (
        "SL061",
        &[Replay, Speculative],
        "The inputs of `pad_sequence` show the lengths of the sequences, so the share of padding in their batches. \
        The rule computes the padding that remains if the sequences of a call in all recorded steps are sorted by \
        length. Operators (on a GPU their kernels) with inputs of such shapes shrink accordingly (`scale`); \
        attention shrinks with the squares of the lengths. The bounds are half of the padding and all of it. If \
        sorting leaves more than half, or all sequences are padded to one length, the gain is speculative: half of \
        the padding.",
    ),
    (
        "SL062",
        &[Replay],
        "In each convolution that searches, the runtime calls up to the end of its last wait go, with the kernels \
        that they launched (`remove`). Of an autotuner's function, all work goes. Searches of the first step count \
        if all later steps search.",
    ),
    (
        "SL063",
        &[Replay],
        "Kernels on tensor cores that read one or two elements at once take `SL063.scale` of their time (`scale`). \
        The bounds are 0.5 and 2.4 times that.",
    ),
    (
        "SL064",
        &[Speculative],
        "Copies of one direction and kind of memory go, with their calls (`remove`). In the upper bound, operators \
        that only copy go, too. No trace shows how much of the data can stay on the GPU.",
    ),
    (
        "SL065",
        &[Replay],
        "Operators (on a GPU their kernels) that read or write all rows of the embedding table shrink (`scale`). Their \
        first input has the shape of the table; lookups and copies of the table stay unchanged. The share of used \
        rows is the number of indices in the largest lookup divided by the number of rows of the table. The operators \
        keep three times this share of their time; the bounds are one and ten times the share. For an operator with \
        a list of tensors, only the table's part of the elements shrinks.",
    ),
];

#[cfg(test)]
mod tests;
