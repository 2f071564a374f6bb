//! Registered rules: metadata, requirements, settings and advice.

use super::finding::{Candidate, CandidateKind};
use super::gain_method::GainMethod;
use super::rule_context::RuleContext;
use stackline_model::{CallMetric, CallingContextTree, EventKind, FrameKind, LinkKind, SampleMetric, Trace};
use stackline_timeline::recording::Recording;
use stackline_timeline::vocabulary::STALL_REASON;
use std::sync::Arc;

/// Area of the performance problems that a rule reports, such as the host, data or kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// The host keeps the GPU waiting.
    Host,
    /// Waits of the host for the GPU.
    Synchronization,
    /// Loading and preprocessing of data.
    Data,
    /// Kernels that could be fewer or faster.
    Kernels,
    /// Copies between host and GPU, and within each.
    Copies,
    /// Communication between ranks.
    Communication,
    /// Allocation of memory.
    Memory,
    /// Validity of the measurement.
    Measurement,
    /// Problems of Python rules.
    Own,
}

impl Area {
    /// All areas, in the order in which lists show them.
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

    /// Name of the area in documents, such as `host`.
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
/// Rules in Python name requirements by [`Self::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requirement {
    /// GPU operations.
    GpuWork,
    /// Device records with plausible times for nearly all launches. Rules that compare with GPU times require them.
    GpuRecords,
    /// Runtime or driver calls.
    RuntimeCalls,
    /// Operators of a framework.
    Operators,
    /// Python frames.
    PythonFrames,
    /// At least one step.
    Step,
    /// Two or more steps.
    Steps,
    /// Shapes of operators' inputs.
    Shapes,
    /// Links between forward and backward operators.
    BackwardLinks,
    /// Instruction samples with stall reasons.
    InstructionSamples,
    /// Collectives.
    Collectives,
    /// Counters of GPU clocks.
    ClockCounters,
    /// Properties of the GPUs.
    GpuModel,
    /// Traces of several ranks. A single trace never meets it.
    Ranks,
    /// Number of usable processors, and CPU samples of the threads.
    Processors,
    /// Self times of Python functions: each call recorded, or CPU samples.
    PythonTimes,
    /// Execution events. A memory-only file has none.
    Events,
    /// Start and end of each call. Call trees have none.
    SingleCalls,
    /// Memory allocations.
    Memory,
    /// Memory accesses.
    MemoryAccesses,
    /// Byte ranges of memory accesses.
    MemoryRanges,
    /// The end of the program, or enough steps to detect growth. Without it, live objects may still be freed later.
    MemoryEnd,
}

/// Test by its name if a counter is that of a clock, such as a GPU's frequency.
pub(super) fn is_clock(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["clock", "freq", "mhz"].iter().any(|part| name.contains(part))
}

impl Requirement {
    /// All requirements of rules on a [`Trace`], in the order in which lists show them.
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

    /// Name of the requirement in documents, such as `gpu_work`.
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

    /// Look up a requirement on traces ([`Self::ALL`]) by its name; `None` for other names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|need| need.name() == name)
    }

    /// Text that completes "the trace has …": the missing data, and how to record the data.
    pub fn missing(self) -> &'static str {
        match self {
            Self::GpuWork => "no GPU operations",
            Self::GpuRecords => {
                "incomplete GPU times (launches without a recorded GPU operation, operations without times, or a \
                 truncated file)"
            }
            Self::RuntimeCalls => "no calls of the GPU runtime",
            Self::Operators => "no operators",
            Self::PythonFrames => {
                "no Python frames (torch.profiler: with_stack=True; or `stackline record --mode trace`)"
            }
            Self::Step => {
                "no marked steps (call prof.step() after each step, or wrap step N in \
                 record_function(\"ProfilerStep#N\"))"
            }
            Self::Steps => {
                "fewer than two marked steps (call prof.step() after each step, or wrap step N in \
                 record_function(\"ProfilerStep#N\"))"
            }
            Self::Shapes => {
                "no input shapes of operators (torch.profiler: record_shapes=True; or `stackline record \
                 --shapes`)"
            }
            Self::BackwardLinks => "no links from forward operators to their backward operators",
            Self::InstructionSamples => "no samples of GPU instructions",
            Self::Collectives => "no collectives",
            Self::ClockCounters => "no counters of GPU clocks",
            Self::GpuModel => "no GPU properties",
            Self::Ranks => "only one rank (pass the folder with the traces of all ranks)",
            Self::Processors => {
                "no CPU time samples, or no record of the number of usable processors (`stackline record --mode \
                 trace` records both)"
            }
            Self::PythonTimes => "no CPU time samples (use `stackline record`, without --sample-hz 0)",
            Self::Events => "only memory events",
            Self::SingleCalls => {
                "only the total time per call path, not each call (use `stackline record --mode trace`, or \
                torch.profiler)"
            }
            Self::Memory => "no memory allocations (`stackline record --mode trace --memory`)",
            Self::MemoryAccesses => "no memory accesses (`stackline record --mode trace --memory`)",
            Self::MemoryRanges => "no records of the bytes that each memory access reads or writes",
            Self::MemoryEnd => {
                "too few steps and no record of the end of the program, so allocated objects may still be freed later"
            }
        }
    }

    /// True if the trace meets the requirement.
    pub fn is_met(self, trace: &Trace) -> bool {
        let any = |is_kind: &dyn Fn(EventKind) -> bool| trace.events.kind.iter().any(|&kind| is_kind(kind));
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
                    Recording::from_trace(trace).is_some_and(|recording| recording.knows_usable_processors());
                is_known && trace.key(SampleMetric::CpuTime.key()).is_some()
            }
            // Calls in recordings are inferred from operators and samples.
            Self::PythonTimes => {
                Recording::from_trace(trace).is_none() || trace.key(SampleMetric::CpuTime.key()).is_some()
            }
            Self::InstructionSamples => trace.key(STALL_REASON).is_some(),
            Self::ClockCounters => {
                let is_clock: Vec<bool> = trace.strings.iter().map(is_clock).collect();
                let name = |e: stackline_model::EventId| trace.events.name[e.index()].index();
                let mut counters = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Counter);
                counters.any(|e| is_clock.get(name(e)).copied().unwrap_or(false))
            }
            Self::Collectives => {
                let mut types =
                    stackline_timeline::kernel_type::NameTypes::new(trace, stackline_timeline::kernel_type::RULES);
                trace
                    .gpu
                    .event
                    .iter()
                    .any(|&e| types.of_event(e) == stackline_timeline::kernel_type::KernelType::Communication)
                    || !stackline_timeline::host_collectives::host_collectives(trace).is_empty()
            }
        }
    }

    /// True if the call tree meets the requirement.
    pub fn is_met_by_calls(self, tree: &CallingContextTree) -> bool {
        let any = |is_kind: FrameKind| tree.frames.iter().any(|frame| frame.kind() == is_kind);
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

/// Threshold of a rule that users can change: name, default, range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Name after the rule's code: `SL001.share` for `share`.
    pub name: &'static str,
    /// Default value.
    pub default: f64,
    /// Minimum and maximum.
    pub range: (f64, f64),
    /// Description with unit.
    pub about: &'static str,
}

impl Setting {
    /// Setting `share` with a default: minimum reported share of GPU busy time, in percent.
    pub(super) const fn share_of_gpu(default: f64) -> Self {
        let about = "report only work that takes at least this percentage of GPU busy time";
        Self { name: "share", default, range: (0.0, 100.0), about }
    }
}

/// Condition on the analyzed program under which a variant of advice applies.
#[derive(Clone, Copy)]
pub enum ProgramCondition {
    /// All programs.
    Any,
    /// Programs that use JAX.
    Jax,
    /// Programs without a GPU.
    WithoutGpu,
    /// Programs that a predicate recognizes by their trace.
    Where(fn(&RuleContext<'_>) -> bool),
}

impl ProgramCondition {
    /// Test if the analyzed program meets the condition.
    fn applies(self, context: &RuleContext<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Jax => context.uses_jax(),
            Self::WithoutGpu => !context.uses_gpu(),
            Self::Where(is_one) => is_one(context),
        }
    }
}

/// Variant of a rule's advice for a kind of program.
#[derive(Clone, Copy)]
pub struct AdviceVariant {
    /// Kind of program, as a continuation of "in".
    pub programs: &'static str,
    /// Kind of program, as a condition.
    pub condition: ProgramCondition,
    /// Kind of the candidates; none for all candidates of the rule.
    pub kind: Option<CandidateKind>,
    /// Advice.
    pub advice: &'static str,
    /// Example code before and after the change.
    pub example: (&'static str, &'static str),
}

impl AdviceVariant {
    /// Advice variant for candidate findings of one kind, in all programs.
    pub(super) const fn for_all(
        programs: &'static str,
        kind: CandidateKind,
        advice: &'static str,
        example: (&'static str, &'static str),
    ) -> Self {
        Self { programs, condition: ProgramCondition::Any, kind: Some(kind), advice, example }
    }

    /// Advice variant for programs that use JAX, where advice on PyTorch does not apply.
    pub(super) const fn for_jax(advice: &'static str, example: (&'static str, &'static str)) -> Self {
        Self { programs: "programs that use JAX", condition: ProgramCondition::Jax, kind: None, advice, example }
    }

    /// Advice variant for programs without a GPU.
    pub(super) const fn without_gpu(advice: &'static str, example: (&'static str, &'static str)) -> Self {
        Self {
            programs: "programs without a GPU",
            condition: ProgramCondition::WithoutGpu,
            kind: None,
            advice,
            example,
        }
    }
}

/// Built-in rule: metadata, requirements, thresholds, advice and check.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Stable code, such as `SL001`.
    pub code: &'static str,
    /// Stable name in words, such as `hotspot`.
    pub name: &'static str,
    /// Area.
    pub area: Area,
    /// Summary in one line.
    pub about: &'static str,
    /// Reason why the problem costs time.
    pub why: &'static str,
    /// Methods of the gain estimates; a finding has one of them.
    pub gain_methods: &'static [GainMethod],
    /// Description of the gain estimate: measured and changed times, with the edits.
    pub gain_text: &'static str,
    /// Advice.
    pub advice: &'static str,
    /// Example code before and after the change.
    pub example: (&'static str, &'static str),
    /// Cost of the change.
    pub cost: &'static str,
    /// False positives.
    pub false_positives: &'static str,
    /// Source: a paper with section, or common practice.
    pub source: &'static str,
    /// Requirements.
    pub needs: &'static [Requirement],
    /// Thresholds.
    pub settings: &'static [Setting],
    /// Advice for kinds of programs; the first that applies is used.
    pub advice_variants: &'static [AdviceVariant],
    /// Check of a trace.
    pub check: fn(&RuleContext<'_>) -> Vec<Candidate>,
}

/// Printable metadata of a rule, built-in or in Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    /// Stable code, such as `SL001` or, for a Python rule, `MY001`.
    pub code: String,
    /// Stable name in words, such as `hotspot`.
    pub name: String,
    /// Area.
    pub area: Area,
    /// Summary in one line.
    pub about: String,
    /// Reason why the problem costs time; may be empty for Python rules.
    pub why: String,
    /// Advice.
    pub advice: String,
    /// Example code before and after the change; none for Python rules.
    pub example: Option<(String, String)>,
    /// Cost of the change; may be empty for Python rules.
    pub cost: String,
    /// Page in the repository, `Rule::page_path`; none for Python rules.
    pub page: Option<String>,
}

impl Rule {
    /// True for rules on memory traces, whose findings save bytes instead of time.
    pub fn is_of_memory(&self) -> bool {
        self.needs.contains(&Requirement::Memory)
    }

    /// Copy of the rule's metadata for output, without its check.
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

    /// Printable metadata with the advice variant for candidates of a kind in the analyzed program.
    pub(super) fn info_of(&self, context: &RuleContext<'_>, kind: Option<CandidateKind>) -> Arc<RuleInfo> {
        self.info_where(kind, |programs| programs.applies(context))
    }

    /// Printable metadata with the advice variant for candidates of a kind; `holds` tests if its condition on programs
    /// holds.
    pub(super) fn info_where(
        &self,
        kind: Option<CandidateKind>,
        holds: impl Fn(ProgramCondition) -> bool,
    ) -> Arc<RuleInfo> {
        let info = self.info();
        let is_for_kind = |other: &AdviceVariant| other.kind.is_none() || other.kind == kind;
        let applies_to = |other: &&AdviceVariant| is_for_kind(other) && holds(other.condition);
        let Some(other) = self.advice_variants.iter().find(applies_to) else { return info };
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
