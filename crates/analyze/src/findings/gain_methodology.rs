//! Methodology of gain estimates, as shown on the pages of the rules.

use super::finding::{Finding, REPLAY, SPECULATIVE};
use super::rule::Rule;

/// Method of a gain estimate. Pages name those of their rule; [`Finding::measured`] tells which one a finding has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GainMethod {
    /// Replay of a repair,
    Replay,
    /// of what is no repair but a hope,
    Speculative,
    /// a model that the finding names,
    Model,
    /// replay of the allocations of a memory trace;
    Memory,
    /// no gain is told.
    Nothing,
}

use GainMethod::{Memory, Model, Nothing, Replay, Speculative};

impl GainMethod {
    /// What that means, for a page.
    fn about(self) -> &'static str {
        match self {
            Self::Replay => {
                "Replayed: the gain is what a step gets shorter by in the dependency graph of the trace with these edits ([what-if](../analyses/what-if.md)), less what it cost to record what goes; the bounds are those of replay, and hold what is said of them above. They are no proof: what a change leaves free of caches, memory and processors is in no trace, \
                 and more or less than them [was measured](../findings-accuracy.md) of some programs."
            }
            Self::Speculative => {
                "Replayed as a hope: the gain is what a step gets shorter by in the dependency graph of the trace with these edits ([what-if](../analyses/what-if.md)). As nobody knows whether it can be reached, the lower bound is nothing, and it is no part of what all findings gain together, nor of `--fail-on gain`."
            }
            Self::Model => {
                "A model, which the finding names: replay cannot express the change, and the gain is no part of what all findings gain together."
            }
            Self::Memory => {
                "Replayed: the bytes are what is saved at the moment of the highest peak of the device when the allocations of the trace are made again with the change ([memory](../reference/memory.md#findings)), and it is told how far the peak falls \
                 by it alone. The lower bound counts only what is more than a guess."
            }
            Self::Nothing => "No gain is told where no change is known that would bring one.",
        }
    }
}

impl Finding {
    /// How its gain was measured.
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
    /// The ways in which gains of its findings are measured; none if nobody wrote them down.
    pub fn measured(&self) -> &'static [GainMethod] {
        told(self.code).map_or(&[], |(ways, _)| ways)
    }

    /// How gains of its findings are measured, for its page.
    pub(super) fn how_measured(&self) -> String {
        let Some((ways, text)) = told(self.code) else { return String::new() };
        let ways: Vec<&str> = ways.iter().map(|way| way.about()).collect();
        format!("{text}\n\n{}", ways.join("\n\n"))
    }
}

/// Of the rule with this code: the ways, and what is measured and changed.
fn told(code: &str) -> Option<(&'static [GainMethod], &'static str)> {
    METHODOLOGY.iter().find(|(of, ..)| *of == code).map(|(_, ways, text)| (*ways, *text))
}

const METHODOLOGY: &[(&str, &[GainMethod], &str)] = &[
    (
        "SL001",
        &[Speculative],
        "All runs of the kernel take half their time (`scale 0.5`). Its share is that of the time that kernels, copies and fills take on \
         the GPU.",
    ),
    (
        "SL002",
        &[Replay],
        "The kernels of each call become one, which takes as long as all of them together (`fuse`), and the operators that launched all \
         but the first go (`remove`). The lower bound holds that they stay and do nothing else. Calls that take more than ten times as \
         long as the middle one, such as a first one, are left as they are.",
    ),
    (
        "SL003",
        &[Replay],
        "The conversion kernels and the calls that launch them go (`remove`). The upper bound: batch norm takes 0.3 of its time, too.",
    ),
    (
        "SL004",
        &[Replay],
        "The calls that waited at least `SL004.wait_us` no longer wait, and the thread runs on (`remove`). An operator that does nothing \
         but read a value (`item`) goes with its copy; of one that reads the size of its result (`nonzero`) the copy to the host goes.",
    ),
    (
        "SL005",
        &[Speculative],
        "Its share is the host's time on the critical path in it, and in nothing that is told by itself. The host's time in all of its \
         calls is half as long (`scale 0.5`).",
    ),
    (
        "SL006",
        &[Speculative],
        "The kernels of the backward take twice as long as those of the forward, instead of as long as they do (`scale`). Which backward \
         belongs to which forward is told by the trace's own links.",
    ),
    (
        "SL007",
        &[Replay],
        "The GPU work of the backward takes `SL007.factor` times as long as that of its forward (`scale`); a quarter of its time where \
         the trace does not tell the forward.",
    ),
    (
        "SL008",
        &[Speculative],
        "Half of the time goes in which samples of the kernel's instructions name the reason (`scale` by 1 less half of the share of \
         these samples).",
    ),
    (
        "SL009",
        &[Replay, Nothing],
        "Its share is the time that the critical path spends in loading. As many workers are replayed as it takes to wait no longer \
         (`more-workers`), no more than find a processor if a recording tells how many there are. Where the program loads batches itself, \
         taking one costs it what it costs to take a batch from a worker, and no less than so many workers take to load one; if a recording \
         tells that the processors would all be busy then, no more is told than what they allow, and at least nothing. Where all \
         processors are busy, more workers gain nothing.",
    ),
    (
        "SL010",
        &[Replay],
        "Its share is the time that the critical path spends inside the functions that do it. They take no time (`remove`); of functions \
         that call each other the outermost count.",
    ),
    (
        "SL011",
        &[Replay],
        "The copies take as long as their bytes take from pinned memory (`scale`), and the host no longer waits in their calls \
         (`remove`). How fast that is, the trace's own copies from pinned memory tell, else the GPU's model, else `SL011.gb_per_s`; the \
         bounds hold copies that take 0.8 and 1.25 times as long.",
    ),
    (
        "SL012",
        &[Replay],
        "The outermost operators that launch kernels, but for those in which the host waits, take `SL012.scale` of their time (`scale`): \
         what is left is an assumption about graphs and compiled code, not measured on the program.",
    ),
    (
        "SL013",
        &[Replay],
        "The kernels of `nll_loss` and of copies in the loss take no time, nor do operators that launch nothing else (`remove`); those \
         of `log_softmax`, forward and backward, take `SL013.scale` of theirs (`scale`), half of that where the logits are converted. The \
         bounds: half and 1.7 times of what is left.",
    ),
    (
        "SL014",
        &[Replay],
        "All GPU work between the two products, softmax included, takes no time, nor do operators that launch nothing else (`remove`). \
         The products stay as they are; the upper bound is that of all of it, products and copies beside them included.",
    ),
    (
        "SL015",
        &[Replay],
        "On a GPU: the kernels of a step of the optimizer become one, which takes as long as all of them together (`fuse`), and all \
         operators that launch some but one go (`remove`). Of one that makes many passes the kernels take 0.4 of their time, too (`scale`; \
         the bounds: 0.25 and all of it). On a CPU: of the optimizer's time 3 µs a parameter are left, and a part of \
         what its operators take beyond 2.5 µs each (`scale`): likely 0.35; the bounds hold 0.2 and all of it.",
    ),
    (
        "SL016",
        &[Replay],
        "The conversions take no time, nor do operators that do nothing else (`remove`). What is converted is a parameter if it has the \
         shape of an input of a layer behind its first one, and is converted at least as often as there are steps.",
    ),
    (
        "SL017",
        &[Replay],
        "On a GPU the kernels that copy take no time, nor do operators that do nothing else; on a CPU the outermost operators that copied \
         take none (`remove`). Of copy.deepcopy all calls go with what Python does in them, where calls are recorded; else the time from the \
         first operator of it to the last, and the bounds hold its operators alone, and also what is done before the first of them.",
    ),
    (
        "SL018",
        &[Replay],
        "Kernels that compute in float32 by their names, and take at least `SL018.kernel_us` each, take `SL018.scale` of their time \
         (`scale`), `SL018.scale_others` on GPUs other than A100, H100 and their successors; the bounds: half and twice of what is left.",
    ),
    (
        "SL019",
        &[Replay],
        "Its share is the time of the collective on the critical path. No other GPU work waits for it any more (`overlap`); waits of the \
         host stay. What needs its result is not in a trace, so that this is the most that can be gained.",
    ),
    (
        "SL020",
        &[Replay],
        "The AllReduces take half of what they take without waiting for other ranks (`scale`): what one takes longer than the middle one \
         of its size is such a wait, and stays. The bounds hold 0.6 of what the shortest one takes, and half of all.",
    ),
    ("SL021", &[Replay], "The searches take no time (`remove`)."),
    (
        "SL022",
        &[Replay],
        "Between two steps of the optimizer the AllReduces of all backward passes but the last one, and the operators that ask for them, \
         take no time (`remove`). Only passes that all reduce the same are counted.",
    ),
    (
        "SL023",
        &[Replay],
        "Calls that take more than `SL023.times` the median of their name and size take as long as that (`set`). The bounds hold the \
         times below which, and above which, a twentieth of the other calls lie.",
    ),
    (
        "SL024",
        &[Replay],
        "The calls of the driver that allocate, free and retry take no time, and waits in them go (`remove`).",
    ),
    (
        "SL025",
        &[Replay],
        "The collections that recur take no time (`remove`); of those inside each other the outermost count.",
    ),
    (
        "SL026",
        &[Replay],
        "The compiling in steps after the first takes no time (`remove`); of spans inside each other the outermost count.",
    ),
    (
        "SL027",
        &[Replay, Model],
        "Where all breaks are at one place, and the trace has the checks that are made behind them, these take no time (`remove`). Else \
         each break on the critical path costs `SL027.check_us`, at least nothing and at most three times that. What the pieces would \
         gain as one compiled function is not told.",
    ),
    (
        "SL028",
        &[Model],
        "Samples tell the CPU time of each thread, and how much of it lies in OpenMP's library. If what the threads compute were divided \
         evenly among the processors, the window would be shorter by some time; if the waiting went, by its CPU time over the number of \
         processors. The gain is the smaller of the two, at least half of that and at most the larger one.",
    ),
    (
        "SL029",
        &[Replay],
        "Calls that log, print or save take no time, with the waits for the GPU in them (`remove`). Where only samples saw them, between two \
         operators, the time between shrinks as far as these count (`scale`): by all, waits included, where hardly any saw anything else.",
    ),
    (
        "SL030",
        &[Replay],
        "The `aten::to` that copy such tensors, and their copies, take no time (`remove`). They are told by what `torch.tensor(…, \
         device=…)` calls: a small copy right before a tensor is handed out as new.",
    ),
    (
        "SL031",
        &[Model, Nothing],
        "The slow steps, and each step right behind one, become as long as the median step; what goes is divided among all steps. At \
         least nothing is gained, and at most what it would be if the median were lower by twice its distance from the shortest step. What \
         grew is what the critical path of the worst step has more of than that of usual steps. In recordings a step that does nothing \
         more than the others may be slow by chance: a note tells of it.",
    ),
    (
        "SL032",
        &[Replay],
        "Runs that take at least `SL032.times` the median of their name and size take as long as that (`set`). The bounds hold the times \
         below which, and above which, a twentieth of the other runs lie.",
    ),
    (
        "SL033",
        &[Nothing],
        "Two numbers: the share of the critical path that the trace marks as the profiler's own work; and the Python frames of the thread \
         that has most of them, times `SL033.frame_ns`, as a share of the time in which it is in any.",
    ),
    (
        "SL034",
        &[Replay],
        "Kernels that began while the clock was low take as long as while it was high (`scale`). By how much they differ is the mean over \
         kernels of one name and grid that ran at both. The bounds hold three standard errors of it, and no less than 3 % of the \
         difference.",
    ),
    (
        "SL035",
        &[Replay],
        "The kernels take less time by the part of the lanes that are idle (`scale`): the threads of a block, over the same rounded up to \
         whole groups of threads that run as one.",
    ),
    (
        "SL036",
        &[Replay],
        "Of each chain of elementwise kernels that are launched one after another, all but the longest take no time, nor do operators \
         that launch nothing else (`remove`).",
    ),
    (
        "SL037",
        &[Replay],
        "The kernels take `SL037.scale` of their time (`scale`): what a kernel with fixed types would take is an assumption.",
    ),
    (
        "SL038",
        &[Replay],
        "The calls of the loop, what Python does between them and their backward shrink to what is left (`scale`): one call of each \
         operator a step, and what calls seem to compute beyond what a call costs. The upper bound holds that all of it goes, with what \
         gathers the results and what leads to and from the loop.",
    ),
    (
        "SL039",
        &[Replay],
        "Functions that are waits by their names take no time (`remove`). Where none is on the stack, the time between two operators in \
         which samples did not see the thread compute shrinks by as much as they count for (`scale`), and the bounds are the error of \
         counting samples.",
    ),
    (
        "SL040",
        &[Model],
        "Of each rank the time is taken in which it does nothing but communicate. The rank with the least of it comes last. The gain is \
         what the rank with the next to least has more, at least nothing, and at most what the middle one of the others has more.",
    ),
    (
        "SL041",
        &[Speculative],
        "The kernels take as much of their time as there are blocks for multiprocessors, no less than one group of threads of each block \
         (`scale`).",
    ),
    (
        "SL042",
        &[Replay],
        "The operators inside of `zero_grad`, and the kernels that they launch, take no time (`remove`).",
    ),
    (
        "SL043",
        &[Speculative],
        "Of a recording: what its samples of CPU time saw in that function, outside of operators and frameworks, of the time between \
         two operators takes half as long (`scale`), and at most no time; how sure a share of few samples is stands in the bounds. The \
         line that is named is the one that most of them saw. Of a trace that has each call: the same of the time on the critical path \
         in the function and in what it calls.",
    ),
    (
        "SL044",
        &[Replay],
        "All but one collective for each bucket of 25 MB go, with their operators, their launches and the short pauses between them \
         (`remove`); those that are left carry all data: they take the time of all less a latency each (`scale`), which is the length of the \
         shortest one. The lower bound holds half of the latencies alone, the upper one all of their time.",
    ),
    (
        "SL045",
        &[Replay],
        "Its share is the critical path inside the function, where it does nothing else, else inside the builtin functions and operators. They \
         take no time, nor does the GPU work that they launch (`remove`). The bounds hold the operators alone, and also what is done from \
         the first of them to the last. Without a GPU, what `torch.tensor` of a list does from its first operator to its last counts, too, and \
         of the time before the first 1.2 times as much, at most twice: so long PyTorch takes for the sizes of a list.",
    ),
    (
        "SL046",
        &[Replay],
        "Of each call the part is left that its new elements are of all that it copies (`scale`): kernels on a GPU, else operators.",
    ),
    (
        "SL047",
        &[Replay, Speculative],
        "Its share is the critical path in the calls and in the GPU work that they launch. They take no time, nor does that work \
         (`remove`): the gain is that of steps without it; the lower bound is that of one in ten (`scale`). Where nothing says that it is an \
         evaluation, it is a hope. Measured on the CPU: see [how close](../findings-accuracy.md).",
    ),
    (
        "SL048",
        &[Replay],
        "The outermost operators with a sequence number take less time (`scale`): 2.4 µs for each node that they make, between what was measured of two programs; the bounds \
         hold 0.8 and 5 µs. Kernels take as long as before, so that nothing is gained where the GPU is what is waited for.",
    ),
    (
        "SL049",
        &[Replay],
        "Its share is the critical path in operators of such names, whose mean length is at least `SL049.mean_us`. Samples of CPU time of all \
         threads tell how many processors the process uses while they run. Available are the processors that it may use, without those that \
         other threads keep busy, divided by the recorded processes that compute. With n threads the operators take 1 / (1 + 0.6 (n - 1)) \
         of their time (`scale`); the bounds hold half of that saving, and 1 / n.",
    ),
    (
        "SL050",
        &[Memory],
        "Found by the number of kernels (or operators) from the allocation to what first needs it. It is allocated, and filled, just \
         before that.",
    ),
    (
        "SL051",
        &[Memory],
        "Found by the number of kernels (or operators) from the last use to the free. It is freed just after that use.",
    ),
    (
        "SL052",
        &[Memory],
        "Found by a matching of objects of about one size, none of which is used while the other one is. It lives in the other one's \
         memory, or its operator writes into its input.",
    ),
    ("SL053", &[Memory], "Found where no call touched it from its allocation to its free. It is not made at all."),
    (
        "SL054",
        &[Memory],
        "Found where only sets and copies fill it, and nothing uses it. It is not made at all, nor filled.",
    ),
    (
        "SL055",
        &[Memory, Nothing],
        "Found where the trace saw the end of the program, and no free: it is freed just after its last use. Where it did not see the end, by what \
         each step leaves behind; then no bytes are told to be saved.",
    ),
    (
        "SL056",
        &[Memory],
        "Found by the number of kernels (or operators) between two uses. It is freed while it is idle, if something fills it anew, or \
         made again, or copied to the host and back; what that costs in time is told beside it.",
    ),
    (
        "SL057",
        &[Nothing],
        "Found where one call writes all bytes of what a set or copy wrote before any of them is read. It holds no bytes: the bytes told \
         are those written for nothing.",
    ),
    (
        "SL058",
        &[Memory, Nothing],
        "Found by the bytes that kernels touch, which a trace has to tell. It is allocated with as many as are needed. Where what is not touched lies in many pieces, the bytes are told and no smaller size.",
    ),
    (
        "SL059",
        &[Nothing],
        "Found by how often each byte is touched within one kernel: the deviation over the mean. No bytes are saved: those told are the \
         object's.",
    ),
    (
        "SL060",
        &[Memory, Nothing],
        "Found where each launch of a kernel touches bytes of its own. The slices are allocated one by one, each while it is touched. \
         Where that is not known to be possible, the bytes are told without a gain.",
    ),
    (
        "SL061",
        &[Replay, Speculative],
        "Inputs of `pad_sequence` tell how long sequences are, so how much of their batches is padding, and how much would be if the sequences that a call pads \
         in all recorded steps were sorted by length. Operators (on a GPU their kernels) with inputs of such shapes shrink by as much (`scale`), attention as the \
         squares of the lengths do; the bounds hold half of the padding gone, and all of it. Where sorting leaves more than half, or all are padded to one length: half of it, as a hope.",
    ),
    (
        "SL062",
        &[Replay],
        "Within each convolution that searches: the runtime calls up to the end of its last wait go, and the kernels that they launched \
         (`remove`). Of an autotuner's function: all that it did. Searches of the first step count where all later steps search.",
    ),
    (
        "SL063",
        &[Replay],
        "Kernels on tensor cores that read one or two elements at once take `SL063.scale` of their time (`scale`); bounds: 0.5 and 2.4 times that.",
    ),
    (
        "SL064",
        &[Speculative],
        "Copies of one direction and kind of memory go, with their calls (`remove`), and at most the operators that do nothing but copy. Nobody knows how much of what they copy can stay on the GPU.",
    ),
    (
        "SL065",
        &[Replay],
        "Operators (on a GPU their kernels) whose first input has the table's shape, but for the lookup itself, take three times the share of rows that a batch looks \
         up (`scale`); bounds: that share, and ten times of it. Of an operator that takes a list of tensors the table's part of their elements.",
    ),
];

#[cfg(test)]
mod tests;
