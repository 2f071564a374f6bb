//! What a rule is.

use super::finding::Candidate;
use super::rule_context::RuleContext;
use stackline_model::{CallMetric, CallingContextTree, EventKind, FrameKind, LinkKind, SampleMetric, Trace};
use std::sync::Arc;

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// The host keeps the GPU waiting.
    Host,
    /// Waits of the host for the GPU.
    Synchronization,
    /// Loading and preparing of data.
    Data,
    /// Kernels that could be fewer or faster.
    Kernels,
    /// Copies between and on host and GPU.
    Copies,
    /// Communication between ranks.
    Communication,
    /// Allocation of memory.
    Memory,
    /// Whether the numbers can be trusted.
    Measurement,
    /// What users look for with rules of their own.
    Own,
}

impl Area {
    /// Every area, in the order of lists.
    pub const ALL: [Self; 9] = [
        Self::Host,
        Self::Synchronization,
        Self::Data,
        Self::Kernels,
        Self::Copies,
        Self::Communication,
        Self::Memory,
        Self::Measurement,
        Self::Own,
    ];

    /// Stable text name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Synchronization => "synchronization",
            Self::Data => "data",
            Self::Kernels => "kernels",
            Self::Copies => "copies",
            Self::Communication => "communication",
            Self::Memory => "memory",
            Self::Measurement => "measurement",
            Self::Own => "own",
        }
    }
}

/// Requirement of a rule: records that a trace must hold.
///
/// [`Self::name`] is what rules in Python ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requirement {
    /// Operations of a GPU.
    GpuWork,
    /// The operations of all launches but a few, with times that can be true: rules that compare with GPU times cannot do without.
    GpuRecords,
    /// Calls of the runtime or driver.
    RuntimeCalls,
    /// Operators of a framework.
    Operators,
    /// Python frames.
    PythonFrames,
    /// A step.
    Step,
    /// Two or more steps.
    Steps,
    /// Shapes of operators' inputs.
    Shapes,
    /// Which backward operator belongs to which forward operator.
    BackwardLinks,
    /// Samples of instructions with the reasons of their stalls.
    InstructionSamples,
    /// Collective communication.
    Collectives,
    /// Counters of the clocks of GPUs.
    ClockCounters,
    /// What kind of GPU it is.
    GpuModel,
    /// Traces of several ranks: no single one has them.
    Ranks,
    /// How many processors the program may use, and samples of its threads' CPU time.
    Processors,
    /// How long functions of Python took by themselves: calls of which each was recorded, or samples of threads' CPU time.
    PythonTimes,
    /// What ran: a file of memory alone does not tell it.
    Events,
    /// When each call began and ended: sums of calls do not tell it.
    SingleCalls,
    /// Allocations of memory.
    Memory,
    /// Who touches memory.
    MemoryAccesses,
    /// Which bytes of objects are touched.
    MemoryRanges,
    /// The end of the program, or steps enough to see what grows: what is alive when a trace breaks off may be freed yet.
    MemoryEnd,
}

/// Whether a counter's name says that it is a clock's.
pub(super) fn is_clock(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["clock", "freq", "mhz"].iter().any(|part| name.contains(part))
}

impl Requirement {
    /// Every need of rules that look at a [`Trace`], in the order of lists.
    pub const ALL: [Self; 16] = [
        Self::GpuWork,
        Self::GpuRecords,
        Self::RuntimeCalls,
        Self::Operators,
        Self::PythonFrames,
        Self::Step,
        Self::Steps,
        Self::Shapes,
        Self::BackwardLinks,
        Self::InstructionSamples,
        Self::Collectives,
        Self::ClockCounters,
        Self::GpuModel,
        Self::Ranks,
        Self::Processors,
        Self::PythonTimes,
    ];

    /// Stable text name.
    pub fn name(self) -> &'static str {
        match self {
            Self::GpuWork => "gpu_work",
            Self::GpuRecords => "gpu_records",
            Self::RuntimeCalls => "runtime_calls",
            Self::Operators => "operators",
            Self::PythonFrames => "python_frames",
            Self::Step => "step",
            Self::Steps => "steps",
            Self::Shapes => "shapes",
            Self::BackwardLinks => "backward_links",
            Self::InstructionSamples => "instruction_samples",
            Self::Collectives => "collectives",
            Self::ClockCounters => "clock_counters",
            Self::GpuModel => "gpu_model",
            Self::Ranks => "ranks",
            Self::Processors => "processors",
            Self::PythonTimes => "python_times",
            Self::Events => "events",
            Self::SingleCalls => "single_calls",
            Self::Memory => "memory",
            Self::MemoryAccesses => "memory_accesses",
            Self::MemoryRanges => "memory_ranges",
            Self::MemoryEnd => "memory_end",
        }
    }

    /// The need with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|need| need.name() == name)
    }

    /// What is missing, and how to get it: the end of a sentence that begins with "the trace has".
    pub fn missing(self) -> &'static str {
        match self {
            Self::GpuWork => "no GPU operations",
            Self::GpuRecords => {
                "incomplete GPU times (launches without a device record, operations without a time, or a truncated \
                 file)"
            }
            Self::RuntimeCalls => "no calls of the GPU runtime",
            Self::Operators => "no operators",
            Self::PythonFrames => {
                "no Python frames (torch.profiler: with_stack=True; or `stackline record --mode trace`)"
            }
            Self::Step => "no steps (prof.step(), or record_function(\"ProfilerStep#0\"), …)",
            Self::Steps => "fewer than two steps (prof.step(), or record_function(\"ProfilerStep#0\"), …)",
            Self::Shapes => "no shapes (torch.profiler: record_shapes=True; or `stackline record --shapes`)",
            Self::BackwardLinks => "no links from forward to backward operators",
            Self::InstructionSamples => "no samples of GPU instructions",
            Self::Collectives => "no collectives",
            Self::ClockCounters => "no counters of GPU clocks",
            Self::GpuModel => "no GPU properties",
            Self::Ranks => "one rank only (pass the folder with the traces of all ranks)",
            Self::Processors => {
                "no number of processors or no samples of CPU time (`stackline record --mode trace` has both)"
            }
            Self::PythonTimes => "no samples of CPU time (`stackline record` without --sample-hz 0)",
            Self::Events => "only memory events",
            Self::SingleCalls => {
                "only sums of calls, no single calls (`stackline record --mode trace`, or torch.profiler)"
            }
            Self::Memory => "no memory allocations (`stackline record --mode trace --memory`)",
            Self::MemoryAccesses => "no memory accesses (`stackline record --mode trace --memory`)",
            Self::MemoryRanges => "no byte ranges of memory accesses",
            Self::MemoryEnd => "neither the end of the program nor enough steps: live objects may still be freed",
        }
    }

    /// Whether a trace holds it.
    pub fn is_met(self, trace: &Trace) -> bool {
        let any = |wanted: &dyn Fn(EventKind) -> bool| trace.events.kind.iter().any(|&kind| wanted(kind));
        match self {
            Self::GpuWork => !trace.gpu.is_empty(),
            Self::GpuRecords => !trace.gpu_records().are_incomplete(),
            Self::RuntimeCalls => any(&EventKind::is_api_call),
            Self::Operators => any(&|kind| kind == EventKind::Operator),
            Self::PythonFrames => any(&|kind| kind == EventKind::PythonFunction),
            Self::Step => !trace.steps.is_empty(),
            Self::Steps => trace.steps.len() >= 2,
            Self::Events | Self::SingleCalls => true,
            // Only several traces, and memory traces, have these.
            Self::Ranks | Self::Memory | Self::MemoryAccesses | Self::MemoryRanges | Self::MemoryEnd => false,
            Self::Shapes => trace.key("Input Dims").is_some(),
            Self::BackwardLinks => trace.links.has(LinkKind::Backward),
            Self::GpuModel => trace.meta.devices().iter().any(|of| of.name.is_some() || of.multiprocessors.is_some()),
            Self::Processors => {
                let is_known =
                    super::Recording::from_trace(trace).is_some_and(|recording| recording.knows_processors());
                is_known && trace.key(SampleMetric::CpuTime.key()).is_some()
            }
            // Calls in recordings are concluded from operators and samples.
            Self::PythonTimes => {
                super::Recording::from_trace(trace).is_none() || trace.key(SampleMetric::CpuTime.key()).is_some()
            }
            Self::InstructionSamples => trace.key(STALL_REASON).is_some(),
            Self::ClockCounters => {
                let is_clock: Vec<bool> = trace.strings.iter().map(is_clock).collect();
                let name = |e: stackline_model::EventId| trace.events.name[e.index()].index();
                let mut counters = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Counter);
                counters.any(|e| is_clock.get(name(e)).copied().unwrap_or(false))
            }
            Self::Collectives => {
                let mut types = crate::kernel_type::NameTypes::new(trace, crate::kernel_type::RULES);
                trace.gpu.event.iter().any(|&e| types.of_event(e) == crate::kernel_type::KernelType::Communication)
                    || !crate::host_collectives::host_collectives(trace).is_empty()
            }
        }
    }

    /// Whether a tree of calls holds it, for rules that look at such.
    pub fn is_met_by_calls(self, tree: &CallingContextTree) -> bool {
        let any = |wanted: FrameKind| tree.frames.iter().any(|frame| frame.kind() == wanted);
        let is_measured = |metric: CallMetric| tree.measured().contains(&metric);
        match self {
            Self::GpuWork | Self::GpuRecords => is_measured(CallMetric::GpuTime),
            Self::RuntimeCalls => any(FrameKind::Runtime),
            Self::Operators => any(FrameKind::Operator),
            Self::PythonFrames => any(FrameKind::Python),
            Self::BackwardLinks => any(FrameKind::Backward),
            Self::PythonTimes => is_measured(CallMetric::CpuTime) || is_measured(CallMetric::WallTime),
            Self::Step => super::steps_of_calls(tree) > 0,
            Self::Steps => super::steps_of_calls(tree) > 1,
            _ => false,
        }
    }
}

/// The argument of kernels that holds their stalls by reason, in samples: `{"memory_dependency": 120, …}`.
pub(crate) const STALL_REASON: &str = "stall_reasons";

/// A number that says when a rule fires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Name after the rule's code: `SL001.share` for `share`.
    pub name: &'static str,
    /// Without a choice of the user.
    pub default: f64,
    /// Least and greatest sensible value.
    pub range: (f64, f64),
    /// What it means, with its unit.
    pub about: &'static str,
}

impl Setting {
    /// `share`: the least part of the GPU's time that a rule reports.
    pub(super) const fn share_of_gpu(default: f64) -> Self {
        let about = "minimum reported share of GPU busy time, in percent";
        Self { name: "share", default, range: (0.0, 100.0), about }
    }
}

/// Programs of some kind.
#[derive(Clone, Copy)]
pub enum Programs {
    /// All.
    Any,
    /// Those that use JAX.
    Jax,
    /// Those that have no GPU.
    WithoutGpu,
    /// Those of which a trace tells it.
    Where(fn(&RuleContext<'_>) -> bool),
}

impl Programs {
    fn hold(self, context: &RuleContext<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Jax => context.uses_jax(),
            Self::WithoutGpu => !context.uses_gpu(),
            Self::Where(is_one) => is_one(context),
        }
    }
}

/// Variant of a rule's advice for programs of some kind.
#[derive(Clone, Copy)]
pub struct AdviceVariant {
    /// Which programs: the end of a sentence that begins with "in programs".
    pub programs: &'static str,
    /// Whether what is looked at is of one.
    pub which: Programs,
    /// Which of what it found in them; mostly all.
    pub fits: fn(&Candidate) -> bool,
    /// What to do.
    pub advice: &'static str,
    /// A few lines of code before and after.
    pub example: (&'static str, &'static str),
}

impl AdviceVariant {
    /// Of all programs, as far as what was found is of some kind.
    pub(super) const fn for_all(
        programs: &'static str,
        fits: fn(&Candidate) -> bool,
        advice: &'static str,
        example: (&'static str, &'static str),
    ) -> Self {
        Self { programs, which: Programs::Any, fits, advice, example }
    }

    /// Of programs that use JAX, where what PyTorch offers is of no use.
    pub(super) const fn of_jax(advice: &'static str, example: (&'static str, &'static str)) -> Self {
        Self { programs: "that use JAX", which: Programs::Jax, fits: |_| true, advice, example }
    }

    /// Of programs that have no GPU.
    pub(super) const fn without_gpu(advice: &'static str, example: (&'static str, &'static str)) -> Self {
        Self { programs: "without a GPU", which: Programs::WithoutGpu, fits: |_| true, advice, example }
    }
}

/// One registered rule.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Stable code, such as `SL001`.
    pub code: &'static str,
    /// Stable name in words, such as `hotspot`.
    pub name: &'static str,
    /// What it is about.
    pub area: Area,
    /// What it finds, in one line.
    pub about: &'static str,
    /// Why that costs time.
    pub why: &'static str,
    /// What to do.
    pub advice: &'static str,
    /// A few lines of code before and after.
    pub example: (&'static str, &'static str),
    /// What the change costs.
    pub cost: &'static str,
    /// When the finding is wrong.
    pub false_positives: &'static str,
    /// Where it comes from: paper and section, or the field's.
    pub source: &'static str,
    /// What it cannot do without.
    pub needs: &'static [Requirement],
    /// Its settings.
    pub settings: &'static [Setting],
    /// Other advice for programs of some kinds: the first that fits is told.
    pub advice_variants: &'static [AdviceVariant],
    /// Looks at a trace.
    pub check: fn(&RuleContext<'_>) -> Vec<Candidate>,
}

/// What people are told of a rule, whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    /// Stable code, such as `SL001` or, of a rule of the user's own, `MY001`.
    pub code: String,
    /// Stable name in words, such as `hotspot`.
    pub name: String,
    /// What it is about.
    pub area: Area,
    /// What it finds, in one line.
    pub about: String,
    /// Why that costs time; may be empty of the user's own.
    pub why: String,
    /// What to do.
    pub advice: String,
    /// A few lines of code before and after; none of the user's own.
    pub example: Option<(String, String)>,
    /// What the change costs; may be empty of the user's own.
    pub cost: String,
    /// Its page in the repository, [`Rule::page_path`]; none of the user's own.
    pub page: Option<String>,
}

impl Rule {
    /// Whether it looks at memory traces: what it finds gains bytes, and no time.
    pub fn is_of_memory(&self) -> bool {
        self.needs.contains(&Requirement::Memory)
    }

    /// What people are told of it.
    pub fn info(&self) -> Arc<RuleInfo> {
        Arc::new(RuleInfo {
            code: self.code.to_owned(),
            name: self.name.to_owned(),
            area: self.area,
            about: self.about.to_owned(),
            why: self.why.to_owned(),
            advice: self.advice.to_owned(),
            example: Some((self.example.0.to_owned(), self.example.1.to_owned())),
            cost: self.cost.to_owned(),
            page: Some(self.page_path()),
        })
    }

    /// The same where it found something, with the advice that fits that.
    pub(super) fn info_of(&self, context: &RuleContext<'_>, candidate: &Candidate) -> Arc<RuleInfo> {
        self.info_where(candidate, |programs| programs.hold(context))
    }

    /// The same where a test says of which kinds the program is.
    pub(super) fn info_where(&self, candidate: &Candidate, holds: impl Fn(Programs) -> bool) -> Arc<RuleInfo> {
        let info = self.info();
        let fits = |other: &&AdviceVariant| (other.fits)(candidate) && holds(other.which);
        let Some(other) = self.advice_variants.iter().find(fits) else { return info };
        let (before, after) = other.example;
        let example = Some((before.to_owned(), after.to_owned()));
        Arc::new(RuleInfo { advice: other.advice.to_owned(), example, ..(*info).clone() })
    }
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rule({} {})", self.code, self.name)
    }
}
