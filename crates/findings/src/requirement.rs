//! Requirements of rules: records that a trace must hold.

use stackline_model::{EventKind, LinkKind, SampleMetric, Trace};
use stackline_timeline::recording::Recording;
use stackline_timeline::vocabulary::STALL_REASON;

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
}
