//! Steps that are inferred from a repeated pattern of launches, in programs without marks.

use crate::steps::{call, step, trace};
use crate::support::read;
use stackline_critical_path::exact::WindowChoice;
use stackline_critical_path::exact::what_if;
use stackline_critical_path::exact::what_if::Edit;
use stackline_findings::{Finding, Findings, GainBasis, Options, find, merge};
use stackline_model::Trace;
use stackline_testkit::mini::MiniTrace;
use stackline_timeline::launch_pattern::LaunchPattern;
use stackline_timeline::steps::StepSelection;
use stackline_timeline::{Scope, step_marks};
use std::ops::Range;

/// Iterations of ten operations, as many as asked for; each copies its input first, or none does.
fn iterations(repeats: i64, copies: bool) -> Trace {
    let first = if copies { "gpu_memcpy Memcpy HtoD (Pageable -> Device)" } else { "kernel gather" };
    let names = ["kernel gemm", "kernel relu", "kernel norm"];
    let mut trace = MiniTrace::new("");
    for at in 0..repeats {
        for operation in 0..10 {
            let name = if operation == 0 { first } else { names[operation as usize % 3] };
            trace.add_at(1000 * at + 50 * operation, &format!("gpu0/7 {name} 0+40"));
        }
    }
    read(trace.json())
}

#[test]
fn repeated_launches_are_suggested_as_iterations() {
    let pattern = LaunchPattern::find(&iterations(8, true)).unwrap();
    assert_eq!((pattern.repeats.len(), pattern.operations, pattern.equal_percent), (8, 10, 100));
    assert_eq!(
        (pattern.median_ns(), pattern.repeats[7]),
        (1_000_000, (pattern.begin + 7_000_000, pattern.begin + 7_490_000))
    );
    let note = step_marks::note(&iterations(8, true)).unwrap();
    assert!(
        note.contains("8 repeats of a pattern of 10 GPU operations") && note.contains("median length 1000 µs,"),
        "{note}"
    );
    assert!(note.contains("call prof.step() after each iteration, or "), "{note}");
    // What the profiler marks needs no option, which would take other spans, too, such as Optimizer.step.
    assert!(note.ends_with("record_function('step') and use --step-annotation '^step$'"), "{note}");
    let mut recorded_otherwise = iterations(8, true);
    for (format, advice) in [("nsys", "an NVTX range"), ("rpd", "a roctx range"), ("xplane", "StepTraceAnnotation")] {
        recorded_otherwise.meta.format = format.to_owned();
        let note = step_marks::note(&recorded_otherwise).unwrap();
        assert!(note.contains(advice) && !note.contains("prof.step()"), "{note}");
        assert_eq!(note.ends_with("use --step-annotation '^step$'"), format != "xplane", "{note}");
    }
    // Layers of one pass repeat, too.
    assert_eq!(LaunchPattern::find(&iterations(8, false)), None);
    assert_eq!(LaunchPattern::find(&iterations(4, true)), None, "too few");
}

/// A decode loop of a server: each iteration launches twelve small kernels, copies a token to the host and waits for it.
fn decode_loop(iterations: i64, are_marked: bool) -> Trace {
    trace(decode(0..iterations, 0, are_marked))
}

/// These iterations, so many µs later.
fn decode(iterations: Range<i64>, later: i64, are_marked: bool) -> Vec<String> {
    let names = ["qkv", "attention", "projection", "mlp"];
    let mut events = Vec::new();
    for at in iterations {
        let begin = 1000 + 1000 * at + later;
        if are_marked {
            events.push(step(at, begin, 990));
        }
        events.push(format!("1/1 cpu_op aten::linear {begin}+700"));
        for kernel in 0..12 {
            let (id, launched) = (100 * at + kernel + 1, begin + 50 * kernel);
            events.push(call(id, launched, 40));
            let name = names[kernel as usize % 4];
            events.push(format!("gpu0/7 kernel {name} {}+5 correlation={id}", launched + 42));
        }
        let copy = 100 * at + 50;
        events.push(format!("1/1 cuda_runtime cudaMemcpyAsync {}+10 correlation={copy}", begin + 720));
        events.push(format!("gpu0/7 gpu_memcpy Memcpy DtoH (Device -> Pinned) {}+5 correlation={copy}", begin + 735));
        events.push(format!("1/1 cuda_runtime cudaStreamSynchronize {}+30 correlation={}", begin + 731, copy + 1));
    }
    events
}

#[test]
fn findings_use_inferred_steps_without_marks() {
    let found = |marked: bool| find(&decode_loop(20, marked), &Options::default()).unwrap();
    let (inferred, marked) = (found(false), found(true));
    // A repeat begins with the rarest operation, the copy: before the first one and after the last one there are parts of a step.
    assert_eq!((inferred.steps, marked.steps), (19, 20));
    let near = |a: i64, b: i64| (a - b).abs() * 20 < b;
    assert!(near(inferred.step_ns, marked.step_ns), "{} {}", inferred.step_ns, marked.step_ns);
    let note = inferred
        .notes
        .iter()
        .find(|note| note.starts_with("steps are inferred from a repeated pattern of 13 launches"));
    assert!(
        note.is_some_and(|note| note.contains("19 repeats") && note.contains("prof.step()")),
        "{:?}",
        inferred.notes
    );
    assert!(!marked.notes.iter().any(|note| note.contains("inferred")), "{:?}", marked.notes);
    // What is told by the step is told of both, with less confidence of the inferred ones.
    let confidence = |found: &Findings, code: &str| {
        found.findings.iter().find(|finding| finding.rule.code == code).map(|finding| finding.confidence)
    };
    let of_both: Vec<&str> =
        marked.findings.iter().map(|f| &*f.rule.code).filter(|code| confidence(&inferred, code).is_some()).collect();
    let is_lower = |code: &&str| confidence(&inferred, code) > confidence(&marked, code);
    assert!(of_both.iter().any(is_lower), "{of_both:?}");
    // All of the trace is one stretch, if that is asked for.
    let whole = Options { scope: Scope { whole: true, ..Scope::default() }, ..Options::default() };
    assert_eq!(find(&decode_loop(20, false), &whole).unwrap().steps, 0);
    // Without a pattern there are no steps either.
    assert_eq!(find(&decode_loop(3, false), &Options::default()).unwrap().steps, 0);
}

/// A second without requests is no part of a step.
#[test]
fn inferred_steps_exclude_pauses() {
    let pause = 1_000_000;
    let served = |first: i64| trace([decode(0..first, 0, false), decode(first..20, pause, false)].concat());
    let found = find(&served(10), &Options::default()).unwrap();
    assert!(found.are_inferred && found.steps == 9, "{}", found.steps);
    assert!((900_000..1_100_000).contains(&found.step_ns), "{}", found.step_ns);
    let note = found.notes.iter().find(|note| note.contains("9 repeats of median length 1000 µs,")).unwrap();
    assert!(
        note.contains(
            " in total are excluded, and 10 repeats of the pattern that a pause separates from the other repeats."
        ),
        "{note}"
    );
    // The later requests are more.
    let pattern = LaunchPattern::find(&served(7)).unwrap();
    assert_eq!((pattern.repeats.len(), pattern.left_out, pattern.pauses_ns), (12, 7, pause * 1000));
    // No run of requests is long enough.
    let bursts = (0..5).flat_map(|burst| decode(4 * burst..4 * burst + 4, burst * pause, false));
    assert_eq!(LaunchPattern::find(&trace(bursts)), None);
}

/// Critical paths and what-if use the window of findings: the edits of one have its gain there.
#[test]
fn finding_edits_replay_their_gain_in_inferred_steps() {
    let trace = decode_loop(20, false);
    let found = find(&trace, &Options::default()).unwrap();
    let selection = StepSelection::select_or_infer(&trace, &Scope::default());
    assert_eq!((selection.steps, selection.are_inferred()), (found.steps, true));
    let repairs = found.findings.iter().filter(|finding| !finding.edits.is_empty());
    let tried = repairs.map(|finding| {
        let edits = Edit::parse_all(&finding.edits.join("; ")).unwrap();
        let gain = what_if::predict(&trace, &selection.choice, &edits).unwrap().gain.likely_ns;
        assert!((gain / selection.steps as i64 - finding.gain_ns()).abs() <= 1, "{gain}: {finding:?}");
    });
    assert!(tried.count() > 0, "{:?}", found.findings);
    let whole = Scope { whole: true, ..Scope::default() };
    assert_eq!(StepSelection::select_or_infer(&trace, &whole), StepSelection::select(&trace, &whole));
    let marked = decode_loop(20, true);
    assert_eq!(
        StepSelection::select_or_infer(&marked, &Scope::default()),
        StepSelection::select(&marked, &Scope::default())
    );
}

/// One rank without a pattern, or with another one: times of a step and of a trace cannot be compared.
#[test]
fn steps_are_inferred_on_all_ranks_or_none() {
    let found = |rank: i64, events: Vec<String>| {
        let mut trace = trace(events);
        trace.meta.rank = Some(rank);
        (rank, find(&trace, &Options::default()).unwrap())
    };
    let of = |all: Vec<(i64, Findings)>| merge(all, &Options::default(), &|_| true).unwrap();
    let first = || found(0, decode(0..20, 0, false));
    // Of a trace alone there is nothing to agree on.
    let mut alone = trace(decode(0..20, 0, false));
    alone.meta.rank = Some(0);
    let alone = find(&alone, &Options { is_alone: true, ..Options::default() }).unwrap();
    assert_eq!((alone.whole.is_some(), first().1.whole.is_some()), (false, true));
    assert_eq!(alone.window.as_deref(), Some("the inferred steps"));
    // Where each has as many repeats, but for one, a step is the unit.
    let both = of(vec![first(), found(1, decode(0..21, 0, false))]);
    assert_eq!((both.are_inferred, both.ranks.iter().map(|rank| rank.steps).collect::<Vec<_>>()), (true, vec![19, 20]));
    let without_copies = decode(0..20, 0, false).into_iter().filter(|event| !event.contains("emcpy")).collect();
    for other in [without_copies, decode(0..10, 0, false)] {
        let alone = first().1.whole.unwrap();
        let together = of(vec![first(), found(1, other.clone())]);
        assert!(!together.are_inferred && together.ranks.iter().all(|rank| rank.steps == 0), "{:?}", together.ranks);
        assert_eq!(together.ranks[0].step_ns, alone.step_ns);
        let on_first = |finding: &&Finding| finding.ranks.iter().any(|of| of.rank == 0);
        assert_eq!(together.findings.iter().filter(on_first).count(), alone.findings.len(), "{:?}", together.findings);
        let has_note =
            |note: &String| note.starts_with("steps could not be inferred, because the launch pattern repeats ");
        assert!(together.notes.iter().any(has_note), "{:?}", together.notes);
        // What-if replays their edits in that window, which the note names, and gains what they say.
        assert!(together.notes.iter().any(|note| note.contains("`stackline what-if --whole`")), "{:?}", together.notes);
        assert_eq!(together.window.as_deref(), Some("the whole trace"));
        let traces = [decode(0..20, 0, false), other].map(trace);
        let replayed =
            |finding: &&Finding| finding.basis == GainBasis::Replay && finding.is_repair() && !finding.edits.is_empty();
        assert!(together.findings.iter().any(|finding| replayed(&finding)), "{:?}", together.findings);
        for finding in together.findings.iter().filter(replayed) {
            let of_rank = &traces[usize::try_from(finding.detail_rank().unwrap()).unwrap()];
            let edits = Edit::parse_all(&finding.edits.join("; ")).unwrap();
            let gain = what_if::predict(of_rank, &WindowChoice::Whole, &edits).unwrap().gain.likely_ns;
            assert!((gain - finding.gain_ns()).abs() <= 1, "{}: {gain} of {}", finding.title, finding.gain_ns());
        }
    }
}

/// Note on the steps of a program with ten spans of 90 µs, and an operator in each.
fn note_of_spans(name: impl Fn(i64) -> String) -> Option<String> {
    let mut program = MiniTrace::new("");
    for at in 0..10 {
        program.add_at(100 * at, &format!("1/1 user_annotation {} 0+90\n1/1 cpu_op aten::mm 10+50", name(at)));
    }
    step_marks::note(&read(program.json()))
}

#[test]
fn spans_with_a_number_inside_their_names_are_suggested() {
    let batch = note_of_spans(|at| format!("request {at}: batch={}", 16 * (at % 3 + 1))).unwrap();
    assert!(batch.contains("10 spans are named 'request 0: batch=16', 'request 1: batch=32', …"), "{batch}");
    assert!(batch.contains(r"--step-annotation '^request (\d+)'"), "{batch}");
    let bracket = note_of_spans(|at| format!("step [{at}] of 10")).unwrap();
    assert!(bracket.contains(r"--step-annotation '^step \[(\d+)\] of 10$'"), "{bracket}");
    let epoch = note_of_spans(|at| format!("epoch_9/step_{at}")).unwrap();
    assert!(epoch.contains(r"--step-annotation '^epoch_9/step_(\d+)$'"), "{epoch}");
    let dated = note_of_spans(|at| format!("2024-05-01 12:30 step {at}")).unwrap();
    assert!(dated.contains(r"--step-annotation '^2024-05-01 12:30 step (\d+)$'"), "{dated}");
}

#[test]
fn outermost_spans_of_one_name_are_suggested() {
    let note = note_of_spans(|_| "train_iter".to_owned()).unwrap();
    assert!(
        note.starts_with(
            "no steps are marked, but spans repeat like steps: 10 spans are named 'train_iter' (median length 90.00 µs)"
        ),
        "{note}"
    );
    assert!(note.contains("give --step-annotation '^train_iter$'"), "{note}");
    let phases = note_of_spans(|at| ["load", "forward", "backward"][at as usize % 3].to_owned());
    assert_eq!(phases, None, "phases of a step");
    let mut waits = MiniTrace::new("");
    (0..10).for_each(|at| _ = waits.add_at(100 * at, "1/1 user_annotation wait_for_batch 0+90"));
    assert_eq!(step_marks::note(&read(waits.json())), None, "nothing runs in them");
}
