//! Certainty of advice, and cases without advice: offloading objects that are in host memory, and freeing objects that
//! training keeps.

use stackline_memory::allocator::{Allocator, AllocatorSettings};
use stackline_memory::replay::Replay;
use stackline_memory::suggest::{Action, Suggestion, describe, suggestions};
use stackline_memory::{Certainty, MemoryAnalysis, ObjectUsage, Pattern, Rules, patterns, tables};
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, MemoryCallKind, MemoryDeviceId, MemoryObjectId, MemoryObjectKind,
    MemoryTrace, NewCall, NewObject, Values,
};

fn kernel(trace: &mut MemoryTrace, objects: &[(MemoryObjectId, AccessMode)]) {
    let start_ns = trace.calls.len() as i64;
    trace.calls.push(MemoryCallKind::Kernel, NewCall { start_ns, ..NewCall::default() });
    for &(object, mode) in objects {
        trace.accesses.push(object, mode, AccessEvidence::Instrumented, AccessExtent::Whole);
    }
    trace.seal_call();
}

/// Object that is written, idle for three kernels, and read; then three more kernels run, and the trace ends.
fn idle(device: &str, kind: MemoryObjectKind) -> Vec<Suggestion> {
    let mut trace = MemoryTrace { saw_end: true, ..MemoryTrace::default() };
    let device = trace.device(device);
    let new = |bytes| NewObject { bytes, device, kind, ..NewObject::default() };
    let (object, other) = (trace.allocate(new(4096), NewCall::default()), trace.allocate(new(64), NewCall::default()));
    kernel(&mut trace, &[(object, AccessMode::Write)]);
    for at in 0..7 {
        let touched = if at == 3 { (object, AccessMode::Read) } else { (other, AccessMode::Both) };
        kernel(&mut trace, &[touched]);
    }
    trace.check().unwrap();
    let usage = ObjectUsage::new(&trace, Rules::default());
    let made = suggestions(&usage, &patterns::find(&usage));
    made.into_iter().filter(|suggestion| suggestion.object == object).collect()
}

fn has(made: &[Suggestion], is: impl Fn(&Action) -> bool) -> bool {
    made.iter().any(|suggestion| is(&suggestion.action))
}

#[test]
fn host_memory_is_not_offloaded() {
    let offload = |action: &Action| matches!(action, Action::Offload { .. });
    assert!(has(&idle("cuda:0", MemoryObjectKind::Unknown), offload));
    assert!(!has(&idle("cpu", MemoryObjectKind::Unknown), offload));
}

#[test]
fn training_state_is_not_freed_at_the_end_of_the_recording() {
    let free = |action: &Action| matches!(action, Action::MoveFree { .. });
    assert!(has(&idle("cuda:0", MemoryObjectKind::Activation), free));
    assert!(!has(&idle("cuda:0", MemoryObjectKind::Parameter), free));
    assert!(!has(&idle("cuda:0", MemoryObjectKind::OptimizerState), free));
}

fn advised(text: &str) -> Vec<(String, Certainty)> {
    let trace = stackline_ingest::memory::text::read("advised", text).unwrap();
    let usage = ObjectUsage::new(&trace, Rules::default());
    let made = suggestions(&usage, &patterns::find(&usage));
    made.iter().map(|suggestion| (describe(&trace, suggestion), suggestion.certainty)).collect()
}

/// The first gap is the longest, and the second one contains an opaque kernel.
#[test]
fn certainty_of_idle_times_follows_from_their_kernels() {
    let text = "a x 64; a y 64; k one >x[:]; k two y>y; k two y>y; k two y>y; k one x[:]; k two y>y opaque; k one x[:]; \
                f x; f y; end";
    let offloads: Vec<Certainty> =
        advised(text).into_iter().filter(|(what, _)| what.starts_with("move x")).map(|(_, sure)| sure).collect();
    assert_eq!(offloads, [Certainty::Exact, Certainty::Inferred]);
}

/// Two streams use the object without an order, and the host's last use is not the last to end.
#[test]
fn early_frees_of_objects_shared_by_streams_are_inferred() {
    let text = |wait: &str| {
        format!(
            "a x 64; a y 64; k one >x[:] @1; e done @1; w done @2; k two x[:] @1; {wait}k three x[:] @2; \
                 k four y>y @2; f x; f y; end"
        )
    };
    let frees =
        |text: String| advised(&text).into_iter().find(|(what, _)| what.starts_with("free x")).map(|(_, sure)| sure);
    assert_eq!(frees(text("")), Some(Certainty::Inferred));
    assert_eq!(frees(text("e over @1; w over @2; ")), Some(Certainty::Exact));
}

/// Bytes that only copies access: a copy of the whole object to the host can be shortened, other copies need their
/// source.
#[test]
fn copies_need_the_bytes_that_they_read() {
    let shrinks = |copy: &str| {
        let text = format!("a x 1000; a y 1000; k one x[0:100]>x[0:100]; {copy}; f x; f y; end");
        advised(&text).into_iter().find(|(what, _)| what.contains(" for x instead of"))
    };
    assert_eq!(shrinks("k two y>y").map(|(_, sure)| sure), Some(Certainty::Exact));
    let (what, sure) = shrinks("d x").unwrap();
    assert_eq!(
        (what.as_str(), sure),
        ("allocate 100 B for x instead of 1000 B, and fill and copy only that much", Certainty::Partial)
    );
    assert_eq!(shrinks("d x[0:200]"), None);
    assert_eq!(shrinks("c y x"), None);
}

/// 24 layers keep their results until the end of the step: one line, one change.
#[test]
fn objects_of_one_line_are_one_row() {
    let mut text = String::new();
    for layer in 0..24 {
        text += &format!(
            "a h{layer} 1000 operator=relu module=layers.{layer} at=train.py:90:main at=model.py:30:forward\n"
        );
        text += &format!("k relu >h{layer}[:]; k mm h{layer}[:]\n");
    }
    text += "a x 500 at=train.py:91:main; k loss >x\n";
    for layer in 0..24 {
        text += &format!("f h{layer}; ");
    }
    text += "f x; end";
    let trace = stackline_ingest::memory::text::read("layers", &text).unwrap();
    let usage = ObjectUsage::new(&trace, Rules::default());
    let (peaks, matches) = (tables::named_peaks(&trace, 1), patterns::find(&usage));
    let ranked = tables::ranked_suggestions(&usage, &matches, &peaks);
    let first = &ranked[0].suggestion;
    assert_eq!((first.objects(), first.total_bytes(), ranked[0].savings[0]), (24, 24_000, 24_000));
    assert_eq!(
        describe(&trace, first),
        "free h0 (model.py:30 forward) just after kernel mm (call 2); the same change also applies to 23 more objects at this line"
    );
    let table = tables::suggestions_table(&trace, &ranked, &tables::listed(&ranked, None), &peaks);
    let cell = |name: &str| format!("{:?}", table.column(name).unwrap().values);
    assert!(cell("file").starts_with(r#"Str([Some("model.py")"#), "{}", cell("file"));
    assert!(cell("line").starts_with("I64([Some(30)"), "{}", cell("line"));
    assert!(cell("function").starts_with(r#"Str([Some("forward")"#), "{}", cell("function"));
    assert!(cell("module").starts_with(r#"Str([Some("layers.0")"#), "{}", cell("module"));
    let applied = tables::apply(&trace, &ranked, &[1]).unwrap();
    // One layer at a time, and the final results.
    assert_eq!(applied.column("peak_after").unwrap().values, Values::I64(vec![Some(1000)]));
    let waste = tables::waste_table(&trace, &matches);
    // All are freed late; each but the first could reuse the memory of the previous one.
    assert_eq!(waste.column("objects").unwrap().values, Values::I64(vec![Some(24), Some(23)]));
    assert_eq!(waste.column("bytes").unwrap().values, Values::I64(vec![Some(24_000), Some(23_000)]));
}

#[test]
fn phases_follow_from_call_paths() {
    let text = "a weight 8 at=train.py:3:build; a batch 16 at=train.py:8:step at=site-packages/torch/utils/data/dataloader.py:700:__next__
        a h 32 at=train.py:9:step at=net.py:4:forward; a loss 64 at=train.py:9:step at=site-packages/torch/nn/functional.py:3:cross_entropy
        a own 128 at=train.py:9:step module=layers.0; a layers.0.running_mean 1024 at=train.py:3:build module=layers.0
        a g 256 at=train.py:9:step at=net.py:4:forward at=\"\":0:AddmmBackward0; a m 512 at=train.py:11:step at=\"\":0:\"Optimizer.step#Adam.step\"
        y; f g; f m";
    let trace = stackline_ingest::memory::text::read("phases", text).unwrap();
    let table = tables::at_peak_table(&trace, &tables::named_peaks(&trace, 1), tables::By::Phase);
    let Values::Str(phases) = &table.column("phase").unwrap().values else { panic!("{table:?}") };
    let names: Vec<&str> = phases.iter().flatten().map(String::as_str).collect();
    assert_eq!(names, ["other", "optimizer", "backward", "forward", "data"]);
    // The module of a buffer is its owner.
    let bytes = [8 + 1024, 512, 256, 32 + 64 + 128, 16].map(Some).to_vec();
    assert_eq!(table.column("bytes").unwrap().values, Values::I64(bytes));
}

/// Sizes beyond any device: sums saturate without overflow.
#[test]
fn absurd_sizes_do_not_overflow() {
    let huge = i64::MAX as u64;
    let text = format!(
        "device \"cuda:0\"; a x {huge}; a y {huge}; a z {}; k one x>y; k one z; k one z; k one x>x; f x; f y; f z; end",
        u64::MAX
    );
    let trace = stackline_ingest::memory::text::read("huge", &text).unwrap();
    let usage = ObjectUsage::new(&trace, Rules::default());
    let peaks = tables::named_peaks(&trace, 2);
    let ranked = tables::ranked_suggestions(&usage, &patterns::find(&usage), &peaks);
    let every: Vec<usize> = (1..=ranked.len()).collect();
    let table = tables::apply(&trace, &ranked, &every).unwrap();
    assert_eq!(table.column("peak_before").unwrap().values, Values::I64(vec![Some(i64::MAX)]));
    let suggestions: Vec<Suggestion> = ranked.into_iter().map(|one| one.suggestion).collect();
    let of_kinds = tables::at_peak_table(&trace, &peaks, tables::By::Kind);
    assert_eq!(of_kinds.column("share").unwrap().values, Values::F64(vec![Some(100.0)]), "no more than all");
    let mut replay = Replay::new(&trace, MemoryDeviceId(0), &suggestions);
    let among: Vec<usize> = (0..suggestions.len()).collect();
    let combination = replay.lower(&among, 1);
    assert!(combination.after.bytes <= combination.before.bytes);
    let mut allocator = Allocator::new(AllocatorSettings::default());
    assert!(allocator.allocate(u64::MAX, 0).is_err());
    assert!(allocator.allocate(1 << 40, 0).is_ok(), "a terabyte may be");
    assert!((0..200_000).all(|stream| allocator.allocate(1, stream).is_ok() || allocator.reserved() <= 1 << 44));
}

/// Table that compares the rules, for `--rules drgpum`.
#[test]
fn rules_table_has_both_counts() {
    let trace =
        stackline_ingest::memory::text::read("rules", "a x 64; a y 64; h x; k one x>x; k two >y; f x; f y; end")
            .unwrap();
    let usage = ObjectUsage::new(&trace, Rules::default());
    let matches = patterns::find(&usage);
    let table = tables::rules_table(&usage, &matches);
    let column = |name: &str| match &table.column(name).unwrap().values {
        Values::I64(values) => values.clone(),
        other => panic!("{other:?}"),
    };
    let redundant = 2;
    assert_eq!([column("drgpum")[redundant], column("paper")[redundant], column("ours")[redundant]], [Some(1); 3]);
    assert_eq!((column("drgpum")[1], column("ours")[1]), (Some(1), Some(1)), "late: x, while y is made");
    assert_eq!(matches.iter().find(|found| found.object.index() == 0).unwrap().distance, Some(2));
}

/// The program cannot change the time between an allocation and a use in the same operator; the text form keeps this
/// flag.
#[test]
fn allocations_within_an_operator_are_not_early() {
    let early = |word: &str| {
        let text = format!("a y 64; a x 64{word}; k one >y; k two y>x; f x; f y; end");
        let trace = stackline_ingest::memory::text::read("within", &text).unwrap();
        let again =
            stackline_ingest::memory::text::read("again", &stackline_ingest::memory::text::write(&trace)).unwrap();
        assert_eq!(again.calls.flags, trace.calls.flags);
        let usage = ObjectUsage::new(&trace, Rules::default());
        patterns::find(&usage).iter().filter(|found| found.pattern == Pattern::EarlyAllocation).count()
    };
    assert_eq!([early(""), early(" within")], [1, 0]);
    let unused = |word: &str| advised(&format!("a y 64; a x 64{word}; h x; f x; k one >y; f y; end")).len();
    assert_eq!([unused(""), unused(" within")], [1, 0], "scratch memory of an operator");
}

/// The model also predicts PyTorch's reserved memory: for two objects of 30 MiB, then for one at a time.
#[test]
fn reserved_memory_is_predicted() {
    let mib = 1 << 20;
    let text = format!(
        "device \"cuda:0\"; a x {0}; a y {0}; k one >x[:]; k one x[:]; k two >y[:]; k two y[:]; f x; f y; end",
        30 * mib
    );
    let trace = stackline_ingest::memory::text::read("held", &text).unwrap();
    let usage = ObjectUsage::new(&trace, Rules::default());
    let peaks = tables::named_peaks(&trace, 1);
    let ranked = tables::ranked_suggestions(&usage, &patterns::find(&usage), &peaks);
    let reuse = ranked.iter().position(|one| matches!(one.suggestion.action, Action::Reuse { .. })).unwrap();
    let table = tables::apply(&trace, &ranked, &[reuse + 1]).unwrap();
    let value = |name: &str| table.column(name).unwrap().values.clone();
    let one = |value: i64| Values::I64(vec![Some(value)]);
    assert_eq!((value("peak_before"), value("peak_after")), (one(60 * mib), one(30 * mib)));
    assert_eq!((value("reserved_before"), value("reserved_after")), (one(60 * mib), one(30 * mib)));
}

/// Slices of an object exclude its later allocation, which takes less effort but saves less.
#[test]
fn combination_saves_at_least_as_much_as_slices() {
    let text = "a A 1000; a B 500; a C 4000; h A\nk p A>B[:]\nk q B[:]>B[:]\nk k3 B[0:100]>C[0:1000]\nk k3 B[0:100]>C[1000:2000]\n\
                k k3 B[0:100]>C[2000:3000]\nk k3 B[0:100]>C[3000:4000]\nk z A>\nf A; f B; f C\nend\n";
    let trace = stackline_ingest::memory::text::read("slices", text).unwrap();
    let analysis = MemoryAnalysis::new(&trace, 1);
    let alone = analysis.ranked.iter().map(|one| one.lowers).max().unwrap();
    let together = analysis.combination(MemoryDeviceId(0)).unwrap();
    assert_eq!((together.before.bytes, alone), (5500, 3000));
    assert!(together.after.bytes <= 2500, "{together:?}");
}

/// Without a line, the text has none; a size in bytes appears once.
#[test]
fn descriptions_of_repeated_work() {
    let descriptions = |text: &str| -> Vec<String> {
        let trace = stackline_ingest::memory::text::read("words", text).unwrap();
        let analysis = MemoryAnalysis::new(&trace, 1);
        analysis.ranked.iter().map(|one| describe(&trace, &one.suggestion)).collect()
    };
    let between = "k b B>B; k b B>B; k a X>";
    let idle = |times: usize| {
        descriptions(&format!("a X 5000; a B 10; k a >X; {}; f X; f B; end", vec![between; times].join("; ")))
    };
    let ends = |times: usize, end: &str| {
        idle(times).iter().any(|description| description.starts_with("move X to") && description.ends_with(end))
    };
    assert!(ends(2, "; the same change also applies at 1 other time"), "{:?}", idle(2));
    assert!(ends(3, "; the same change also applies at 2 other times"), "{:?}", idle(3));
    let small = descriptions("a C 9000; k k C[0:3000]>C[0:3000]; f C; end");
    assert!(small.iter().any(|description| description == "allocate 3000 B for C instead of 9000 B"), "{small:?}");
}
