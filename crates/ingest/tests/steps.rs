//! Steps from the marks of different producers.

use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::Trace;
use stackline_testkit::mini;

/// An event of a CPU thread: process, name, start and length in µs, and arguments as in [`mini`].
type Event<'e> = (u32, &'e str, u32, u32, &'e str);

fn read(events: &[Event<'_>], pattern: Option<&str>) -> Trace {
    let line = |(process, name, start, length, arguments): &Event<'_>| {
        let category = if name.starts_with("aten::") { "cpu_op" } else { "user_annotation" };
        format!("{process}/{process} {category} {name} {start}+{length} {arguments}")
    };
    read_lines(&events.iter().map(line).collect::<Vec<_>>(), pattern)
}

/// A Chrome trace of lines of [`mini`].
fn read_lines(lines: &[String], pattern: Option<&str>) -> Trace {
    let text = mini::trace(&format!("file -\n{}", lines.join("\n")));
    let options =
        ReadOptions { step_annotation: pattern.map(|p| regex_lite::Regex::new(p).unwrap()), ..ReadOptions::default() };
    read_bytes("steps", text.as_bytes(), &options).unwrap()
}

/// Number, start and end of each step in µs.
fn steps(trace: &Trace) -> Vec<(i64, i64, i64)> {
    trace.steps.iter().map(|step| (step.number, step.start / 1000, step.end / 1000)).collect()
}

#[test]
fn iterations_of_a_server_are_numbered_in_order() {
    let events =
        [(1, "step[DECODE bs=31]", 100, 50, ""), (1, "step[EXTEND bs=1]", 200, 50, ""), (1, "other", 210, 5, "")];
    assert_eq!(steps(&read(&events, None)), [(0, 100, 150), (1, 200, 250)]);
}

#[test]
fn batches_of_lightning_are_steps() {
    let events = [
        (1, "[pl][profile][_TrainingEpochLoop].train_dataloader_next", 100, 20, ""),
        (1, "[pl][profile]run_training_batch", 120, 80, ""),
        (1, "Optimizer.step#Adam.step", 130, 60, ""),
        (1, "[pl][profile][_TrainingEpochLoop].train_dataloader_next", 200, 20, ""),
        (1, "[pl][profile]run_training_batch", 220, 80, ""),
        (1, "Optimizer.step#Adam.step", 230, 60, ""),
    ];
    assert_eq!(steps(&read(&events, None)), [(0, 120, 200), (1, 220, 300)]);
}

/// ZeRO stage 3 runs PyTorch's optimizer once per parameter group; its own span encloses them.
#[test]
fn deepspeed_step_takes_precedence_over_group_steps() {
    let mut events: Vec<Event<'_>> = Vec::new();
    for at in [100, 1100, 2100] {
        events.push((1, "DeepSpeedEngine.forward", at, 300, ""));
        events.push((1, "DeepSpeedEngine.backward", at + 300, 400, ""));
        events.push((1, "DeepSpeedZeroOptimizer_Stage3.step", at + 700, 300, ""));
        events.push((1, "Optimizer.step#FusedAdam.step", at + 710, 80, ""));
        events.push((1, "Optimizer.step#FusedAdam.step", at + 810, 80, ""));
    }
    assert_eq!(steps(&read(&events, None)), [(0, 100, 1100), (1, 1100, 2100), (2, 2100, 3100)]);
}

#[test]
fn user_marks_take_precedence_over_library_marks() {
    let events = [
        (1, "ProfilerStep#7", 100, 100, ""),
        (1, "Optimizer.step#SGD.step", 150, 10, ""),
        (1, "ProfilerStep#8", 200, 100, ""),
        (1, "Optimizer.step#SGD.step", 250, 10, ""),
    ];
    assert_eq!(steps(&read(&events, None)), [(7, 100, 200), (8, 200, 300)]);
    assert_eq!(steps(&read(&events[1..2], None)), [], "where one optimizer's step begins is not known");
    let numbered = [(1, "train", 100, 50, r#"step_num="3""#), (1, "train", 200, 50, "step_num=4")];
    assert_eq!(steps(&read(&numbered, None)), [(3, 100, 150), (4, 200, 250)], "JAX");
}

#[test]
fn optimizers_end_steps_in_each_process() {
    let of_process = |process| {
        [
            // Prepares the training, with an operator that each step repeats.
            (process, "aten::empty", 0, 1, ""),
            (process, "aten::mm", 900, 10, ""),
            (process, "aten::empty", 910, 10, ""),
            (process, "Optimizer.step#SGD.step", 950, 50, ""),
            (process, "aten::mm", 1010, 10, ""),
            (process, "aten::empty", 1030, 10, ""),
            (process, "Optimizer.step#SGD.step", 1050, 50, ""),
        ]
    };
    assert_eq!(steps(&read(&of_process(1), None)), [(0, 900, 1000), (1, 1000, 1100)], "no longer than the second");
    let both = [of_process(1), of_process(2)].concat();
    assert_eq!(steps(&read(&both, None)), [(0, 900, 1000), (0, 900, 1000), (1, 1000, 1100), (1, 1000, 1100)]);
}

#[test]
fn duplicate_marks_count_once_and_repeated_numbers_are_reported() {
    let events = [
        (1, "ProfilerStep#3", 100, 100, ""),
        (1, "ProfilerStep#4", 200, 100, ""),
        (1, "ProfilerStep#4", 210, 80, ""),
        (1, "ProfilerStep#4", 300, 100, ""),
    ];
    let trace = read(&events, None);
    assert_eq!(steps(&trace), [(3, 100, 200), (4, 200, 300), (4, 300, 400)]);
    let problems: Vec<_> = trace.report.problems.iter().map(|problem| (problem.code.as_str(), problem.count)).collect();
    assert_eq!(problems, [("repeated_step", 1)]);
}

/// A thread of the autograd engine, or of a data loader, that repeats each mark 3 µs later.
#[test]
fn overlapping_marks_of_one_number_on_several_threads_are_one_step() {
    let event = |thread: u32, name: &str, start: u32, length: u32| {
        format!("1/{thread} user_annotation {name} {start}+{length}")
    };
    let read = |busy_thread: u32| {
        let mut events = vec![event(busy_thread, "work", 110, 5), event(busy_thread, "work", 120, 5)];
        for number in 3..6 {
            let (name, start) = (format!("ProfilerStep#{number}"), 100 * (number - 2));
            events.extend([event(1, &name, start, 100), event(2, &name, start + 3, 100)]);
        }
        read_lines(&events, None)
    };
    assert_eq!(steps(&read(1)), [(3, 100, 200), (4, 200, 300), (5, 300, 400)]);
    let later = read(2);
    assert_eq!(steps(&later), [(3, 103, 203), (4, 203, 303), (5, 303, 403)]);
    assert_eq!(later.report.count_of("repeated_step"), 0);
}

/// Two trainers in one process, the second one half a step later.
#[test]
fn marks_of_another_thread_at_other_times_are_noted() {
    let read = |later: u32| {
        let mark = |thread: u32, number: u32| {
            let start = 1000 * number + if thread == 2 { later } else { 0 };
            format!("1/{thread} user_annotation ProfilerStep#{number} {start}+1000")
        };
        read_lines(&(1..5).flat_map(|number| [mark(1, number), mark(2, number)]).collect::<Vec<_>>(), None)
    };
    let apart = read(500);
    assert_eq!(steps(&apart), (1..5).map(|n| (n, 1000 * n, 1000 * n + 1000)).collect::<Vec<_>>());
    assert_eq!(apart.report.count_of("step_mark_of_other_thread"), 4);
    assert_eq!(read(30).report.count_of("step_mark_of_other_thread"), 0, "a thread that repeats the mark");
}

#[test]
fn pattern_replaces_known_marks() {
    let events =
        [(1, "ProfilerStep#3", 100, 300, ""), (1, "iteration 17", 100, 50, ""), (1, "iteration 18", 200, 50, "")];
    assert_eq!(steps(&read(&events, Some(r"^iteration (\d+)"))), [(17, 100, 150), (18, 200, 250)]);
    let none = read(&events, Some("nothing"));
    assert_eq!(steps(&none), []);
    let problems: Vec<_> = none.report.problems.iter().map(|problem| problem.code.as_str()).collect();
    assert_eq!(problems, ["step_annotation_matches_nothing"]);
}

/// Workers that serve requests concurrently.
#[test]
fn spans_within_steps_of_another_thread_are_reported() {
    let span = |thread: u32, start: u32, length: u32| format!("1/{thread} user_annotation request {start}+{length}");
    // The second is in the first; the third in itself, on its own thread; the fourth ends after its enclosing span.
    let spans = [span(1, 100, 100), span(2, 120, 50), span(1, 130, 10), span(2, 190, 50)];
    let trace = read_lines(&spans, Some("^request$"));
    assert_eq!(steps(&trace), [(0, 100, 200), (1, 190, 240)]);
    assert_eq!(trace.report.count_of("step_annotation_within_another"), 1);
}

/// A discriminator and a generator, each with its own Adam: equal numbers of spans with one name, but a step ends with
/// every second one.
#[test]
fn alternating_optimizers_of_one_class() {
    let mut events = Vec::new();
    for iteration in 0..5 {
        let at = iteration * 1000;
        for (start, parameters) in [(200, 6), (700, 3)] {
            events.push((1, "aten::mm", at + start - 100, 50, ""));
            events.push((1, "Optimizer.step#Adam.step", at + start, 100, ""));
            events.extend((0..parameters).map(|n| (1, "aten::add_", at + start + 10 * n, 5, "")));
        }
    }
    let ends: Vec<i64> = steps(&read(&events, None)).iter().map(|step| step.2).collect();
    assert_eq!(ends, [800, 1800, 2800, 3800, 4800]);
}

/// Equal numbers of parameters with other shapes.
#[test]
fn optimizers_of_one_class_differ_by_the_shapes_of_their_parameters() {
    let ends = |second: &str| {
        let mut events = Vec::new();
        for iteration in 0..5 {
            for (start, dims) in [(200, "[[64, 32]]"), (700, second)] {
                let at = iteration * 1000 + start;
                events.push((1, "Optimizer.step#Adam.step", at, 100, String::new()));
                events.push((1, "aten::add_", at + 10, 5, format!("Input Dims={dims}")));
            }
        }
        let events: Vec<Event<'_>> = events.iter().map(|(a, b, c, d, more)| (*a, *b, *c, *d, more.as_str())).collect();
        steps(&read(&events, None)).iter().map(|step| step.2).collect::<Vec<i64>>()
    };
    assert_eq!(ends("[[16, 8]]"), [800, 1800, 2800, 3800, 4800]);
    assert_eq!(ends("[[64, 32]]").len(), 10);
}

/// The same without shapes: different graphs run backward before each.
#[test]
fn optimizers_of_one_class_differ_by_their_backward_passes() {
    let ends = |nodes: [u32; 2]| {
        let mut events = Vec::new();
        for (iteration, half) in (0..5).flat_map(|iteration| [(iteration, 0), (iteration, 1)]) {
            let at = iteration * 1000 + half * 500;
            let name = "autograd::engine::evaluate_function: AddmmBackward0";
            events.extend((0..nodes[half as usize]).map(|node| (1, name, at + 100 + 10 * node, 8, "")));
            events.push((1, "Optimizer.step#Adam.step", at + 200, 100, ""));
            events.push((1, "aten::_foreach_add_", at + 210, 5, ""));
        }
        steps(&read(&events, None)).iter().map(|step| step.2).collect::<Vec<i64>>()
    };
    assert_eq!(ends([4, 3]), [800, 1800, 2800, 3800, 4800]);
    assert_eq!(ends([4, 4]).len(), 10, "nothing distinguishes two halves of one model");
}

/// A step without a recorded start is excluded.
#[test]
fn first_step_begins_like_the_second() {
    let operators = ["aten::embedding", "aten::mm", "aten::relu", "aten::mm"];
    let starts = |missing: usize, before: &[(&'static str, u32)]| {
        let mut events: Vec<Event<'_>> = before.iter().map(|&(name, at)| (1, name, at, 50, "")).collect();
        for iteration in 10..14 {
            let missing = if iteration == 10 { missing } else { 0 };
            let times = (iteration * 1000..).step_by(100);
            events.extend(operators.into_iter().zip(times).skip(missing).map(|(name, at)| (1, name, at, 50, "")));
            events.push((1, "Optimizer.step#Adam.step", iteration * 1000 + 400, 100, ""));
        }
        steps(&read(&events, None)).iter().map(|step| step.1).collect::<Vec<i64>>()
    };
    assert_eq!(starts(0, &[]), [10_000, 10_500, 11_500, 12_500]);
    let prepared = [("aten::empty", 1_000), ("aten::uniform_", 1_100), ("aten::mm", 2_000)];
    assert_eq!(starts(0, &prepared), [10_000, 10_500, 11_500, 12_500], "what prepares the model is in no step");
    assert_eq!(starts(3, &[]), [10_500, 11_500, 12_500], "the recording begins in the middle of it");
}

/// A step of four batches after `start`: each runs the same operators. The optimizer's first call creates its state,
/// and the first batch allocates memory and loads kernels.
fn accumulation(start: u32, batches: u32, is_first: bool) -> Vec<Event<'static>> {
    let mut events: Vec<Event<'static>> = Vec::new();
    for at in (0..batches).map(|batch| start + 100 * batch) {
        events.extend([(1, "aten::embedding", at, 10, ""), (1, "aten::mm", at + 10, 10, "")]);
        events.extend([
            (1, "aten::relu", at + 20, 10, ""),
            (1, "aten::mm", at + 30, 10, ""),
            (1, "loss", at + 40, 5, ""),
        ]);
    }
    let at = start + 100 * batches;
    events.push((1, "Optimizer.step#AdamW.step", at, 90, ""));
    events.extend((0..20).filter(|_| is_first).map(|state| (1, "aten::zeros_like", at + 4 * state, 3, "")));
    events.push((1, "aten::_foreach_add_", at + 81, 5, ""));
    events.push((1, "Optimizer.zero_grad#AdamW.zero_grad", at + 90, 5, ""));
    events
}

/// Batches before the first optimizer call belong to its step, as in later steps.
#[test]
fn first_step_of_several_batches_begins_with_their_first() {
    let set_up = [(1, "aten::empty", 0, 5, ""), (1, "aten::mm", 10, 10, "")];
    let rest = [accumulation(600, 4, false), accumulation(1100, 4, false)].concat();
    let whole = [&set_up[..], &accumulation(100, 4, true), &rest].concat();
    // The gradients are zeroed after the optimizer's end.
    assert_eq!(steps(&read(&whole, None)), [(0, 100, 590), (1, 590, 1090), (2, 1090, 1590)]);
    // The recording begins within the first step.
    for batches in [1, 2] {
        let cut = [accumulation(500 - 100 * batches, batches, true), rest.clone()].concat();
        assert_eq!(steps(&read(&cut, None)), [(1, 590, 1090), (2, 1090, 1590)], "{batches}");
    }
}
