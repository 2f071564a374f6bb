//! Leaks in traces that end before the program: growth per iteration.

use stackline_memory::{Certainty, Measure, MemoryAnalysis, Origin, Pattern, PatternMatch, Rules};
use stackline_model::{MemoryCallId, MemoryPhase, MemoryTrace};
use stackline_testkit::mini::MiniTrace;

fn read(text: &str) -> MemoryTrace {
    let trace = stackline_ingest::memory::text::read("program", text).unwrap();
    trace.check().unwrap();
    trace
}

fn leaks(trace: &MemoryTrace) -> Vec<PatternMatch> {
    let analysis = MemoryAnalysis::new(trace, 1);
    analysis.matches.into_iter().filter(|found| found.pattern == Pattern::MemoryLeak).collect()
}

/// Training iterations: each allocates and frees an activation, the optimizer's memory, and the objects of `more`.
fn training(iterations: usize, more: impl Fn(usize) -> String) -> MemoryTrace {
    let iteration = |at: usize| {
        format!(
            "a act{at} 4096 at=train.py:10:step; {} a tmp{at} 64 at=train.py:14:step at=torch/optim/adam.py:5:step; f tmp{at}; f act{at}; ",
            more(at)
        )
    };
    read(&(0..iterations).map(iteration).collect::<String>())
}

fn loss(at: usize) -> String {
    format!("a loss{at} 1000 at=train.py:12:step;")
}

#[test]
fn objects_kept_by_each_iteration_leak() {
    let trace = training(9, loss);
    let found = leaks(&trace);
    // Objects of the last iteration are still in use.
    assert_eq!(
        found.iter().map(|leak| trace.object_name(leak.object)).collect::<Vec<_>>(),
        (0..8).map(|at| format!("loss{at}")).collect::<Vec<_>>()
    );
    assert!(found.iter().all(|leak| leak.certainty == Certainty::Inferred && leak.bytes == 1000));
    let measure = Measure::Growth { left: 8, iterations: 8, per_iteration: 1000, origin: Origin::TrainingIterations };
    assert_eq!(found[0].measure, Some(measure));
    assert!(MemoryAnalysis::new(&trace, 1).ranked.is_empty(), "until when they are needed, nobody knows");
    // The first iteration lacks the objects that follow the optimizer: the others leave 1000 bytes each.
    let after = |at: usize| if at > 0 { loss(at) } else { String::new() };
    let found = leaks(&training(9, after));
    let measure = Measure::Growth { left: 7, iterations: 7, per_iteration: 1000, origin: Origin::TrainingIterations };
    assert_eq!(found[0].measure, Some(measure));
    // If some iterations leave nothing, the first one counts as one of them.
    let found = leaks(&training(31, |at| if at % 2 == 1 { loss(at) } else { String::new() }));
    let measure = Measure::Growth { left: 15, iterations: 30, per_iteration: 500, origin: Origin::TrainingIterations };
    assert_eq!(found[0].measure, Some(measure));
    // Only every third iteration, in a longer trace.
    let some = training(30, |at| if at % 3 == 0 { loss(at) } else { String::new() });
    assert_eq!(leaks(&some).len(), 10);
    // A setting can require more iterations.
    let rules = Rules { leak_iterations: 9, ..Rules::default() };
    assert!(
        MemoryAnalysis::by_rules(&trace, 1, rules).matches.iter().all(|found| found.pattern != Pattern::MemoryLeak)
    );
}

/// Work between backward and the optimizer (gradient clipping) starts no iteration, and neither does a second backward.
/// Without optimizer allocations, backward separates iterations.
#[test]
fn iterations_end_with_their_optimizer() {
    let backward =
        |at: usize| format!("a g{at} 64 at=\"\":0:\"autograd::engine::evaluate_function: MmBackward0\"; f g{at};");
    let clip =
        |at: usize| format!("a norm{at} 64 at=torch/nn/utils/clip_grad.py:5:clip at=train.py:13:step; f norm{at};");
    let iterations = |trace: &MemoryTrace| match leaks(trace).first().and_then(|leak| leak.measure.clone()) {
        Some(Measure::Growth { left, iterations, per_iteration, origin: Origin::TrainingIterations }) => {
            Some((left, iterations, per_iteration))
        }
        _ => None,
    };
    let clipped = training(9, |at| format!("{} {} {} {}", loss(at), backward(at), clip(at), backward(at + 100)));
    assert_eq!(iterations(&clipped), Some((8, 8, 1000)));
    // Two optimizers: each of them ends an iteration.
    let second = |at: usize| {
        format!("a t{at} 64 at=torch/optim/sgd.py:5:step; f t{at}; a fake{at} 64 at=gan.py:5:step; f fake{at};")
    };
    let two = training(9, |at| format!("{} {}", loss(at), second(at)));
    assert_eq!(iterations(&two), Some((9, 17, 529)));
    let bare = |at: usize| format!("a act{at} 4096 at=train.py:10:step; {} {} f act{at}; ", loss(at), backward(at));
    let state = "a s0 64 at=train.py:14:step at=torch/optim/adam.py:5:step; ";
    let bare = read(&format!("{}{state}{}", bare(0), (1..9).map(bare).collect::<String>()));
    assert_eq!(iterations(&bare), Some((8, 8, 1000)));
    // Momentum in the first step, and one more when a parameter is unfrozen: backward still separates the iterations.
    let momentum = |at: usize| match at {
        0 | 29 => format!("a m{at} 64 at=train.py:14:step at=torch/optim/sgd.py:5:step; "),
        _ => String::new(),
    };
    let iteration = |at: usize| {
        format!("a act{at} 4096 at=train.py:10:step; {} {} f act{at}; {}", loss(at), backward(at), momentum(at))
    };
    assert_eq!(iterations(&read(&(0..60).map(iteration).collect::<String>())), Some((59, 59, 1000)));
}

#[test]
fn temporary_and_single_objects_do_not_leak() {
    let leak_count = |trace: &MemoryTrace| leaks(trace).len();
    assert_eq!(leak_count(&training(5, loss)), 0, "too few turns");
    assert_eq!(leak_count(&training(20, |at| format!("{} f loss{at};", loss(at)))), 0, "freed at once");
    let window = |at: usize| if at < 3 { loss(at) } else { format!("{} f loss{};", loss(at), at - 3) };
    assert_eq!(leak_count(&training(20, window)), 0, "the last three are kept");
    assert_eq!(leak_count(&training(20, |at| if at < 6 { loss(at) } else { String::new() })), 0, "at the begin alone");
    let weights = |at: usize| if at == 0 { (0..40).map(loss).collect() } else { String::new() };
    assert_eq!(leak_count(&training(20, weights)), 0, "made once");
    let state = |at: usize| format!("a s{at} 64 kind=\"optimizer state\" at=train.py:9:step;");
    assert_eq!(leak_count(&training(20, state)), 0, "state of an optimizer");
    // Accesses are known, also in the last iteration.
    let touched = |at: usize| match at {
        19 => format!(
            "{} k sum loss0,loss1,loss2,loss3,loss4,loss5,loss6,loss7,loss8,loss9,loss10,loss11,loss12,loss13,loss14,loss15,loss16,loss17,loss18,loss19>act19;",
            loss(at)
        ),
        _ => format!("{} k f act{at}>loss{at};", loss(at)),
    };
    assert_eq!(leak_count(&training(20, touched)), 0, "used in the last turn");
    assert_eq!(leak_count(&training(20, |at| format!("{} k f act{at}>loss{at};", loss(at)))), 19);
}

/// Program with a recorded end: weights are read in each request; a buffer is read only in the first half, outputs are
/// kept.
#[test]
fn objects_used_throughout_inference_do_not_leak() {
    let request = |at: usize| {
        let more = if at < 50 { "k add buffer>x" } else { "k norm x>x" };
        format!("a x 64; k mm weight>x; {more}; a out{at} 8; k sum x>out{at}; f x; ").replace('x', &format!("x{at}"))
    };
    let requests = |count: usize| (0..count).map(request).collect::<String>();
    let program = |count: usize| read(&format!("a weight 4096; h weight; a buffer 512; {} end", requests(count)));
    let names = |trace: &MemoryTrace| {
        let names = leaks(trace).iter().map(|leak| trace.object_name(leak.object)).collect::<Vec<_>>();
        names.into_iter().filter(|name| !name.starts_with("out")).collect::<Vec<_>>()
    };
    let long = program(100);
    assert_eq!(names(&long), ["buffer"]);
    assert_eq!(leaks(&long).len(), 101, "and what each request made");
    assert_eq!(names(&program(5)), ["weight", "buffer"], "too short to tell");
}

#[test]
fn recorded_steps_are_iterations() {
    // Without lines, call paths of operators are the sites, without step numbers.
    let step = |at: usize| {
        format!(
            "a kept{at} 1000 at=\"\":0:\"ProfilerStep#{at}\" at=\"\":0:\"aten::add\"; \
             a gone{at} 500 at=\"\":0:\"ProfilerStep#{at}\" at=\"\":0:\"aten::mm\"; f gone{at}; "
        )
    };
    let mut trace = read(&(0..10).map(step).collect::<String>());
    assert_eq!(leaks(&trace).len(), 0, "it is not known what is a step");
    for at in 0..10u32 {
        let name = trace.strings.intern(&format!("ProfilerStep#{at}"));
        let [first, end] = [3 * at, 3 * at + 3].map(MemoryCallId);
        trace.phases.push(MemoryPhase { name, first, end });
    }
    trace.check().unwrap();
    let found = leaks(&trace);
    assert_eq!(found.len(), 9);
    let measure = Measure::Growth { left: 9, iterations: 9, per_iteration: 1000, origin: Origin::Steps };
    assert_eq!(found[0].measure, Some(measure));
    assert!(MemoryAnalysis::new(&trace, 1).can_detect_leaks());
}

#[test]
fn steadily_growing_lines_leak_without_known_iterations() {
    let many = |count: usize, place: &str| {
        let one = |at: usize| format!("a x{at} 1048576 {place}; ");
        read(&(0..count).map(one).collect::<String>())
    };
    let found = leaks(&many(60, "at=train.py:12:main"));
    // Objects of the last tenth may be in use.
    assert_eq!(found.len(), 54);
    assert!(matches!(found[0].measure, Some(Measure::Growth { origin: Origin::Parts, .. })));
    assert!(leaks(&many(29, "at=train.py:12:main")).is_empty(), "few");
    assert!(leaks(&many(60, "")).is_empty(), "no line");
    // Successive layers keep their activations until backward.
    let layer = "at=train.py:12:main at=torch/nn/modules/module.py:1500:_call_impl at=model.py:5:forward";
    assert!(leaks(&many(60, layer)).is_empty(), "within a model");
    // Loading of weights comes first, and ends.
    let load: String = (0..60).map(|at| format!("a w{at} 1048576 at=load.py:3:load; ")).collect();
    let use_them: String = (0..200).map(|at| format!("a t{at} 64 at=run.py:9:step; f t{at}; ")).collect();
    let trace = read(&format!("{load}{use_them}"));
    assert!(leaks(&trace).is_empty(), "made at the begin alone");
    assert!(!MemoryAnalysis::new(&trace, 1).can_detect_leaks());
}

/// Snapshot of `steps` steps in PyTorch's format: an optimizer's memory is allocated and freed, the loss of each step
/// is kept or not.
fn snapshot(steps: u64, is_kept: bool) -> MemoryTrace {
    let frame = |line: u32, file: &str| format!(r#"{{"name": "step", "filename": "{file}", "line": {line}}}"#);
    let mut events = Vec::new();
    let mut event = |action: &str, address: u64, frames: &str| {
        let time = events.len();
        events.push(format!(
            r#"{{"action": "{action}", "addr": {address}, "size": 1024, "stream": 0, "time_us": {time}, "frames": [{frames}]}}"#
        ));
    };
    let own = frame(12, "train.py");
    let optimizer = [frame(5, "/venv/torch/optim/adam.py"), frame(14, "train.py")].join(",");
    for step in 1..=steps {
        let (loss, scratch) = (step * 4096, 4096 * 1000);
        event("alloc", loss, &own);
        event("alloc", scratch, &optimizer);
        for address in [scratch].into_iter().chain((!is_kept).then_some(loss)) {
            event("free_requested", address, "");
            event("free_completed", address, "");
        }
    }
    let text = format!(r#"{{"device_traces": [[{}]], "segments": []}}"#, events.join(","));
    stackline_ingest::memory::read_bytes("snapshot.json", text.as_bytes()).unwrap()
}

#[test]
fn growth_in_snapshots_is_found() {
    let kept = snapshot(8, true);
    let found = leaks(&kept);
    assert_eq!((found.len(), kept.has_accesses, kept.saw_end), (7, false, false));
    assert_eq!(stackline_memory::place_text(&kept, found[0].stack(&kept)), "train.py:12 step");
    let freed = snapshot(8, false);
    assert!(leaks(&freed).is_empty() && MemoryAnalysis::new(&freed, 1).can_detect_leaks());
    assert!(leaks(&snapshot(5, true)).is_empty(), "too few steps");
}

/// Trace of `torch.profiler` with `steps` steps: in each, an operator allocates memory that is kept or not.
fn profile(steps: i64, is_kept: bool) -> MemoryTrace {
    let device = "Device Id=0 Device Type=1 Total Allocated=0 Total Reserved=0";
    let mut trace = MiniTrace::new("");
    for step in 0..steps {
        let address = 4096 * (step + 1);
        let events = format!(
            "1/2  user_annotation    ProfilerStep#{step}  0+900
             1/2  cpu_op             aten::sum            10+100
             1/2  cpu_instant_event  [memory]             @20      Bytes=512 Addr={address} {device}
             1/2  cpu_op             aten::mm             200+100
             1/2  cpu_instant_event  [memory]             @210     Bytes=2048 Addr=4096000 {device}
             1/2  cpu_instant_event  [memory]             @400     Bytes=-2048 Addr=4096000 {device}"
        );
        trace.add_at(1000 * step, &events);
        if !is_kept {
            trace.add_at(
                1000 * step,
                &format!("1/2 cpu_instant_event [memory] @500 Bytes=-512 Addr={address} {device}"),
            );
        }
    }
    let options = stackline_ingest::ReadOptions::default();
    let trace = stackline_ingest::read_bytes("profile.json", trace.json().as_bytes(), &options).unwrap();
    stackline_ingest::memory::from_trace(&trace).unwrap()
}

#[test]
fn growth_in_profiler_traces_is_found() {
    let kept = profile(8, true);
    assert_eq!(kept.phases.len(), 8);
    let found = leaks(&kept);
    let operators: Vec<&str> =
        found.iter().map(|leak| kept.strings.get(kept.objects.operator[leak.object.index()])).collect();
    assert_eq!(operators, ["aten::sum"; 7]);
    let measure = Measure::Growth { left: 7, iterations: 7, per_iteration: 512, origin: Origin::Steps };
    assert_eq!(found[0].measure, Some(measure));
    assert!(leaks(&profile(8, false)).is_empty());
    assert!(leaks(&profile(5, true)).is_empty(), "too few steps");
}
