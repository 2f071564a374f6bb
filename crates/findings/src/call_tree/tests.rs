use super::testing::{MS, TestTree, summaries, training};
use super::{NoCalls, find_in_calls, steps_of_calls};
use crate::{ExternalRules, Findings, Options, Reason};
use proptest::prelude::*;
use stackline_model::{CallMetric, CallingContextTree};
use stackline_timeline::Scope;

#[test]
fn steps_exclude_the_set_up_of_the_loop() {
    let made = training();
    let tree = made.builder.finish();
    assert_eq!(steps_of_calls(&tree), 10);
    let found = find_in_calls(&tree, None, &Options::default(), &ExternalRules::default(), &|_| true).unwrap();
    assert_eq!((found.steps, found.step_ns), (10, 100 * MS as i64));
    assert!(
        found.notes[0].contains("in main of train.py: 10 recorded steps, marked by Optimizer.step#SGD.step"),
        "{:?}",
        found.notes
    );
    assert!(
        found.notes[1].starts_with("times exclude code outside of the step loop: 5040 ms of the analyzed thread."),
        "{:?}",
        found.notes
    );
    // No rule has a finding; the largest groups are named.
    assert_eq!(summaries(&found), []);
    let groups: Vec<(&str, usize, f64)> =
        found.uncovered.groups.iter().map(|g| (g.name.as_str(), g.count, g.percent.round())).collect();
    assert_eq!(groups, [("aten::mm", 20, 80.0)]);
}

/// Traces of the same program have the same steps.
#[test]
fn framework_step_marks_are_used() {
    for (spans, marks) in [
        (["[pl][profile]run_training_batch"; 2], "[pl][profile]run_training_batch"),
        (
            ["step[DECODE bs=31]", "step[EXTEND bs=1]"],
            "step[*] or execute_*context_*_generation_* or execute_new_*_cached_*",
        ),
    ] {
        let mut made = TestTree::new();
        let main = "train.py:50 <module> > train.py:24 main";
        for span in spans {
            made.calls(&format!("{main} > {span} > Optimizer.step#SGD.step"), 15, 0);
            made.calls(&format!("{main} > {span}"), 5, 500);
            made.cpu(&format!("{main} > {span}"), 500);
        }
        let found = made.found();
        assert_eq!((found.steps, found.step_ns), (10, 100 * MS as i64), "{marks}");
        assert!(found.notes[0].ends_with(&format!("10 recorded steps, marked by {marks}")), "{:?}", found.notes);
    }
}

#[test]
fn samples_count_for_the_outermost_classified_frame() {
    let mut made = training();
    let main = "train.py:50 <module> > train.py:22 main > ";
    let next = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ > data.py:9 __getitem__ > ";
    made.calls(&format!("{main}enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"), 10, 500);
    // Loading includes a wait, and resizing.
    made.waits(&format!("{main}{next}/usr/lib/python3.11/queue.py:171 Queue.get"), 200);
    made.cpu(&format!("{main}{next}/env/site-packages/PIL/Image.py:9 Image.resize"), 300);
    made.waits(&format!("{main}io.py:4 fetch > /usr/lib/python3.11/queue.py:171 Queue.get"), 400);
    made.cpu(&format!("{main}/usr/lib/python3.11/logging/__init__.py:3 Logger.info"), 100);
    made.waits(&format!("{main}io.py:6 look"), 50);
    let found = made.found();
    assert_eq!(found.step_ns, 205 * MS as i64);
    let mut codes = summaries(&found);
    codes.sort_unstable();
    assert_eq!(
        codes,
        [
            // Loading concurrent with the longer rest of a step: only the taking of a batch remains.
            ("SL009", Some(22), 49),
            ("SL010", Some(9), 30),
            ("SL029", Some(22), 10),
            ("SL039", Some(4), 40),
            ("SL039", Some(6), 5),
        ]
    );
    // Resizing is part of loading, so both together gain no more.
    let combined = found.combined.unwrap().likely_ns / MS as i64;
    assert_eq!(combined, 49 + 10 + 40 + 5);
    let named = |line| found.findings.iter().find(|f| f.place.line == Some(line)).unwrap().title.clone();
    assert_eq!(named(4), "Waiting for a queue: 20 % of the time");
    assert!(named(6).starts_with("Waiting for a file, the network, a lock, or time.sleep: "));
}

#[test]
fn loop_starts_at_the_wait_of_each_step() {
    let sleeps = |count: u64, longest: u64| {
        let mut made = training();
        let line = "train.py:50 <module> > train.py:20 main";
        made.waits(line, 10 * (count - 1));
        made.add((1, 0), line, CallMetric::WaitTime, (1, longest * MS));
        made.found()
    };
    assert_eq!(summaries(&sleeps(20, 10)), [("SL039", Some(20), 20)]);
    // One long wait, and waits in few of the steps, belong to the set-up.
    assert_eq!(summaries(&sleeps(20, 5000)), []);
    assert_eq!(summaries(&sleeps(4, 10)), []);
    // So do waits before the last line with one-time work.
    let mut made = training();
    made.waits("train.py:50 <module> > train.py:3 main", 300);
    assert_eq!(summaries(&made.found()), []);
}

#[test]
fn functions_called_in_steps_are_analyzed_from_their_first_line() {
    let mut made = TestTree::new();
    let step = |line: u32| format!("train.py:50 <module> > loop.py:8 train > train.py:{line} step");
    made.waits(&format!("{} > /usr/lib/python3.11/queue.py:171 Queue.get", step(3)), 300);
    for (line, ms) in [(5, 500), (6, 200)] {
        made.calls(&format!("{} > aten::mm", step(line)), 10, ms);
        made.cpu(&format!("{} > aten::mm", step(line)), ms);
    }
    made.calls(&format!("{} > Optimizer.step#SGD.step", step(7)), 10, 0);
    let found = made.found();
    assert_eq!((found.step_ns, summaries(&found)), (100 * MS as i64, vec![("SL039", Some(3), 30)]));
}

#[test]
fn span_longer_than_its_samples_waits() {
    let mut made = training();
    let next =
        "train.py:50 <module> > train.py:22 main > enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
    made.calls(next, 10, 600);
    made.cpu(next, 20);
    let found = made.found();
    assert_eq!(found.step_ns, 160 * MS as i64);
    let [loading] = &found.findings[..] else { panic!("{:?}", summaries(&found)) };
    assert!(loading.title.ends_with("DataLoader workers are too slow"), "{}", loading.title);
    assert_eq!((loading.rule.code.as_str(), loading.gain_ns() / MS as i64), ("SL009", 59));
    assert_eq!(loading.gain.unwrap().low_ns, 0, "whether there are processors for more is not known");
}

#[test]
fn first_batch_counts_like_later_batches() {
    let next =
        "train.py:50 <module> > train.py:22 main > enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
    let step = |longest| {
        let mut made = training();
        made.calls(next, 10, 600);
        made.waits(&format!("{next} > /usr/lib/python3.11/queue.py:171 Queue.get"), 300);
        made.durations(next, 10, (600, longest));
        made.found()
    };
    let found = step(420);
    assert_eq!((found.step_ns, summaries(&found)), (120 * MS as i64, vec![("SL009", Some(22), 19)]));
    let left_out = "times exclude 400.0 ms of loading the longest batch (probably the first): its excess over loading \
                    the other batches";
    assert!(found.notes.iter().any(|note| note == left_out), "{:?}", found.notes);
    // A batch that is not much longer counts as the others.
    assert_eq!(step(150).step_ns, 160 * MS as i64);
}

#[test]
fn unsampled_operator_time_is_divided_among_callees() {
    let mut made = training();
    let linear = "train.py:50 <module> > train.py:22 main > forward > aten::linear";
    made.calls("train.py:50 <module> > train.py:22 main > forward", 10, 100);
    made.calls(linear, 10, 100);
    made.calls(&format!("{linear} > aten::addmm"), 10, 900);
    made.cpu(linear, 100);
    made.cpu(&format!("{linear} > aten::addmm"), 300);
    let found = made.found();
    // Samples cover 400 of 1,000 ms in `linear`, and none of the span's own 100 ms.
    assert_eq!(found.step_ns, (100 + 100 + 10) * MS as i64);
    let groups: Vec<(&str, f64)> =
        found.uncovered.groups.iter().map(|g| (g.name.as_str(), g.percent * 21.0 / 10.0)).collect();
    let expected = [("aten::addmm", 90.0), ("aten::mm", 80.0), ("aten::linear", 10.0)];
    assert!(
        groups.iter().zip(expected).all(|(group, of)| group.0 == of.0 && (group.1 - of.1).abs() < 0.1),
        "{groups:?}"
    );
    assert_eq!(groups.len(), 3);
}

#[test]
fn first_compilations_are_excluded_and_later_ones_reported() {
    let mut made = training();
    let at = "train.py:50 <module> > train.py:21 main > ";
    for (name, ms) in
        [("Compile 0/0: f (m.py:1)", 900), ("Recompile 0/1: f (m.py:1)", 300), ("Recompile 0/2: f (m.py:1)", 200)]
    {
        made.calls(&format!("{at}{name}"), 1, ms);
        made.cpu(&format!("{at}{name}"), ms);
    }
    let found = made.found();
    assert_eq!((found.step_ns, summaries(&found)), (150 * MS as i64, vec![("SL026", Some(21), 50)]));
    assert_eq!(found.findings[0].title, "Recompilation: torch.compile compiles again 2 times, 250.0 ms each");
    assert!(
        found.notes.iter().any(|note| note.starts_with("times exclude imports and compilations: 900.0 ms")),
        "{:?}",
        found.notes
    );
}

#[test]
fn operators_by_count() {
    let mut made = training();
    let adam = "train.py:50 <module> > train.py:24 main > Optimizer.step#Adam.step";
    made.calls(adam, 10, 10);
    for name in ["aten::add_", "aten::mul_", "aten::addcmul_", "aten::sqrt"] {
        made.calls(&format!("{adam} > {name}"), 10 * 50, 5);
    }
    let iteration = "train.py:50 <module> > train.py:25 main";
    made.calls(&format!("{iteration} > aten::sub"), 10 * 100, 10);
    made.cpu(iteration, 90);
    let found = made.found();
    // Adam: 10 ms of its own and 20 ms of operators. 3 µs for each of 500 parameters remain, and 0.35 of the operators'
    // time beyond 2.5 µs each.
    let left = 1.5 + 0.35 * (20.0 - 2000.0 * 0.0025);
    let gain =
        |code: &str| found.findings.iter().find(|f| f.rule.code == code).unwrap().gain.unwrap().likely_ns as f64 / 1e6;
    assert!((gain("SL015") - (30.0 - left) / 10.0).abs() < 1e-3, "{}", gain("SL015"));
    // One of 100 calls remains, and the same share of their Python.
    assert!((gain("SL038") - 100.0 * 0.99 / 10.0).abs() < 1e-3, "{}", gain("SL038"));
}

#[test]
fn copies_that_only_put_tensors_in_order() {
    let mut made = training();
    // Conversions and views are no copies.
    let all = [(22, "aten::clone", "aten::copy_"), (24, "aten::to", "aten::copy_"), (25, "aten::view", "aten::alias")];
    for (line, inner, innermost) in all {
        let mut path = format!("train.py:50 <module> > train.py:{line} main > aten::contiguous");
        for operator in [inner, innermost] {
            path = format!("{path} > {operator}");
            made.calls(&path, 10, 150);
        }
    }
    let deep = "train.py:50 <module> > train.py:26 main > /usr/lib/python3.11/copy.py:9 deepcopy > ";
    made.cpu(&format!("{deep}aten::clone > aten::copy_"), 400);
    made.calls(&format!("{deep}aten::clone > aten::copy_"), 10, 400);
    made.cpu(&format!("{deep}/usr/lib/python3.11/copy.py:7 _reconstruct"), 100);
    let found = made.found();
    assert_eq!(summaries(&found), [("SL017", Some(26), 50), ("SL017", Some(22), 30)]);
    let titles: Vec<&str> = found.findings.iter().map(|f| f.title.as_str()).collect();
    assert!(titles[0].starts_with("copy.deepcopy in each step: "), "{titles:?}");
    assert!(titles[1].starts_with("aten::contiguous copies tensors into another memory layout"), "{titles:?}");
    let uncovered = found.uncovered.groups.iter().map(|group| (group.name.as_str(), group.place.line));
    assert!(!uncovered.clone().any(|(_, line)| line == Some(22)), "{:?}", uncovered.collect::<Vec<_>>());
    assert!(found.findings[0].rule.advice.starts_with("Do not copy a model in the loop"));
    // The line does not determine copies of an optimizer, or of a backward pass below a view.
    let mut made = training();
    let main = "train.py:50 <module> > train.py:";
    made.calls(&format!("{main}23 main > Optimizer.step#SGD.step > aten::clone > aten::copy_"), 10, 300);
    made.calls(&format!("{main}24 main > aten::reshape > ReshapeBackward0 > aten::clone > aten::copy_"), 10, 300);
    assert_eq!(summaries(&made.found()), []);
    // A configuration has no tensors, and a model copied after each epoch is not copied in each step.
    let mut made = training();
    for (line, copies) in [(26, 0), (27, 2)] {
        let deep = format!("{main}{line} main > /usr/lib/python3.11/copy.py:9 deepcopy");
        made.cpu(&deep, 400);
        if copies > 0 {
            made.calls(&format!("{deep} > aten::clone"), copies, 10);
        }
    }
    assert_eq!(summaries(&made.found()), []);
    // Without steps, a copy of a model may be one-time work.
    let mut once = TestTree::new();
    once.cpu("train.py:3 main > /usr/lib/python3.11/copy.py:9 deepcopy", 500);
    assert_eq!(summaries(&once.found()), []);
}

#[test]
fn gradients_that_are_filled_with_zeros() {
    let step = |fills: &str, count: u64, passes: u64| {
        let mut made = training();
        let main = "train.py:50 <module> > train.py:";
        made.calls(&format!("{main}27 main > Optimizer.zero_grad#SGD.zero_grad"), 10, 10);
        made.calls(&format!("{main}27 main > Optimizer.zero_grad#SGD.zero_grad > {fills}"), count, 200);
        let backward = "28 main > torch::autograd::AccumulateGrad > aten::add_";
        made.calls(&format!("{main}{backward}"), 80 * passes, 400);
        made.found()
    };
    let gain = |found: &Findings| {
        let [one] = &found.findings[..] else { panic!("{:?}", summaries(found)) };
        assert_eq!((one.rule.code.as_str(), one.place.line), ("SL042", Some(27)));
        let gain = one.gain.unwrap();
        [gain.low_ns, gain.likely_ns, gain.high_ns].map(|ns| ns / MS as i64)
    };
    let found = step("aten::zero_", 80, 1);
    assert!(
        found.findings[0].title.starts_with("Zeroed gradients: SGD.zero_grad fills 8 gradients"),
        "{}",
        found.findings[0].title
    );
    assert_eq!(gain(&found), [20, 60, 60]);
    // The second of two passes adds to gradients, not to zeros.
    assert_eq!(gain(&step("aten::zero_", 80, 2)), [20, 40, 60]);
    // The length of a list is unknown.
    assert_eq!(gain(&step("aten::_foreach_zero_", 10, 1)), [20, 20, 60]);
    assert_eq!(summaries(&step("aten::zero_", 30, 1)), []);
}

/// Sums of host calls exclude GPU work.
#[test]
fn rules_on_operator_cost_skip_gpu_programs() {
    const WEIGH: [&str; 2] = ["SL015", "SL042"];
    let lacking = |made: TestTree| -> Vec<String> {
        let unchecked = made.found().unchecked.into_iter().map(|lacks| lacks.rule.code.clone());
        unchecked.filter(|code| WEIGH.contains(&code.as_str())).collect()
    };
    assert_eq!(lacking(training()), [""; 0]);
    let mut of_gpu = training();
    of_gpu.calls("train.py:50 <module> > train.py:21 main > aten::mm > cudaLaunchKernel", 20, 1);
    assert_eq!(lacking(of_gpu), WEIGH);
}

#[test]
fn rules_without_data_are_reported_as_not_checked() {
    let options = |scope| Options { scope, ..Options::default() };
    let find = |tree: &CallingContextTree, rank, scope| {
        find_in_calls(tree, rank, &options(scope), &ExternalRules::default(), &|_| true)
    };
    let tree = training().builder.finish();
    assert_eq!(find(&tree, None, Scope::from_steps(Some((1, 2)))), Err(NoCalls::Steps));
    assert_eq!(find(&tree, Some(3), Scope::default()), Err(NoCalls::NoRank(3, Vec::new())));
    let mut made = TestTree::new();
    made.add((1, 0), "train.py:1 f", CallMetric::Allocated, (1, 10));
    let none = find(&made.builder.finish(), None, Scope::default()).unwrap_err();
    assert_eq!(none, NoCalls::NoTimes(vec!["allocated".to_owned()]));
    // Without samples, the time in Python is unknown.
    let mut made = TestTree::new();
    made.calls("train.py:1 f > aten::mm", 5, 10);
    let found = made.found();
    let needs_samples = |code: &str| {
        let of = found.unchecked.iter().find(|one| one.rule.code == code).unwrap();
        matches!(of.reason, Reason::Missing(need) if need.name() == "python_times")
    };
    assert!(needs_samples("SL039") && needs_samples("SL043"));
    assert_eq!((found.steps, found.step_ns), (0, 10 * MS as i64));
}

#[test]
fn line_time_excludes_its_waits() {
    let mut made = training();
    made.cpu("train.py:50 <module> > train.py:22 main > text.py:3 parse", 900);
    made.waits("train.py:50 <module> > train.py:22 main > text.py:3 parse", 100);
    let found = made.found();
    let mut codes = summaries(&found);
    codes.sort_unstable();
    assert_eq!(codes, [("SL039", Some(3), 10), ("SL043", Some(3), 45)]);
}

#[test]
fn preprocessing_is_reported_once() {
    let mut made = training();
    let line = "train.py:50 <module> > train.py:22 main > ";
    made.cpu(&format!("{line}/env/site-packages/PIL/Image.py:9 Image.resize"), 1000);
    // Interpolation in a model is not preprocessing.
    made.cpu(&format!("{line}/env/site-packages/torch/nn/functional.py:3 interpolate"), 1000);
    assert_eq!(summaries(&made.found()), [("SL010", Some(22), 100)]);
}

#[test]
fn steps_follow_the_rarest_optimizer_or_the_profiler() {
    let mut gan = TestTree::new();
    for (line, count) in [(21, 50), (22, 10)] {
        let main = format!("train.py:50 <module> > train.py:{line} main > ");
        gan.calls(&format!("{main}Optimizer.step#Adam.step"), count, 10);
        gan.cpu(&format!("{main}Optimizer.step#Adam.step"), 100);
    }
    assert_eq!(steps_of_calls(&gan.builder.finish()), 10);
    let mut scheduled = TestTree::new();
    scheduled.cpu("train.py:50 <module> > train.py:5 main > aten::uniform_", 5000);
    scheduled.calls("train.py:50 <module> > train.py:5 main > aten::uniform_", 77, 5000);
    for step in 0..10 {
        let step = format!("train.py:50 <module> > train.py:20 main > ProfilerStep#{step} > ");
        scheduled.calls(step.trim_end_matches(" > "), 1, 0);
        for (line, ms) in [(21, 60), (22, 40)] {
            let path = format!("{step}train.py:{line} main > aten::mm");
            scheduled.calls(&path, 1, ms);
            scheduled.cpu(&path, ms);
        }
    }
    let found = scheduled.found();
    assert_eq!((found.steps, found.step_ns), (10, 100 * MS as i64), "{:?}", found.notes);
}

#[test]
fn alternating_spans_are_counted_once() {
    let mut made = training();
    let at = "train.py:50 <module> > train.py:21 main > ";
    let names = ["Recompile 0/1: f (m.py:1)", "Recompile 0/2: f (m.py:1)"];
    names.iter().for_each(|name| made.calls(&format!("{at}{name}"), 1, 0));
    for inner in ["aten::a", "aten::b"] {
        names.iter().for_each(|name| made.cpu(&format!("{at}{name} > {inner}"), 100));
    }
    let found = made.found();
    assert_eq!(found.findings[0].title, "Recompilation: torch.compile compiles again 2 times, 200.0 ms each");
}

#[test]
fn extreme_times_do_not_overflow() {
    let mut made = TestTree::new();
    for (line, path) in [(1, "/usr/lib/python3.11/queue.py:171 Queue.get"), (2, "aten::mm"), (3, "io.py:1 read")] {
        let path = format!("train.py:{line} main > {path}");
        made.add((1, 0), &path, CallMetric::CpuTime, (u64::MAX, u64::MAX));
        made.add((1, 0), &path, CallMetric::OperatorTime, (u64::MAX, u64::MAX));
    }
    let found = made.found();
    assert!(found.findings.iter().all(|f| f.gain_ns() <= found.step_ns), "{found:?}");
}

/// Parts of call paths, some of which rules match.
const PARTS: [&str; 9] = [
    "train.py:3 main",
    "train.py:4 main",
    "train.py:9 step",
    "/usr/lib/python3.11/queue.py:171 Queue.get",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "Optimizer.step#SGD.step",
    "aten::mm",
    "Recompile 0/1: f (m.py:1)",
    "Python GC",
];

proptest! {
    #[test]
    fn gains_never_exceed_the_total(
        rows in prop::collection::vec(
            (prop::collection::vec(0..PARTS.len(), 1..5), 0..3_usize, 1..50_u64, 1..900_u64), 1..40,
        ),
    ) {
        let mut made = TestTree::new();
        for (path, what, count, ms) in rows {
            let path: Vec<&str> = path.into_iter().map(|at| PARTS[at]).collect();
            let metric = [CallMetric::CpuTime, CallMetric::WaitTime, CallMetric::OperatorTime][what];
            made.add((1, (what == 2).into()), &path.join(" > "), metric, (count, ms * MS));
        }
        let tree = made.builder.finish();
        let found = find_in_calls(&tree, None, &Options::default(), &ExternalRules::default(), &|_| true);
        let Ok(found) = found else { return Ok(()) };
        for finding in &found.findings {
            let gain = finding.gain.unwrap();
            prop_assert!(gain.low_ns <= gain.likely_ns && gain.likely_ns <= gain.high_ns, "{finding:?}");
            prop_assert!(gain.likely_ns <= found.step_ns, "{finding:?} of {}", found.step_ns);
        }
        // Findings by name divide the time: each sample counts once.
        let named = ["SL009", "SL025", "SL026", "SL029", "SL039"];
        let all = || found.findings.iter().chain(&found.small).filter(|f| named.contains(&f.rule.code.as_str()));
        let sum: i64 = all().map(crate::Finding::gain_ns).sum();
        prop_assert!(sum <= found.step_ns + all().count() as i64, "{sum} of {}", found.step_ns);
        if let Some(combined) = found.combined {
            prop_assert!(combined.likely_ns <= found.step_ns);
        }
        let parts: f64 = found.uncovered.groups.iter().map(|group| group.percent).sum();
        prop_assert!(parts <= 100.1, "{parts}");
    }
}

#[test]
fn steps_without_samples_use_operator_times() {
    let mut made = TestTree::new();
    let at = "train.py:50 <module> > train.py:";
    made.calls(&format!("{at}5 main > aten::uniform_"), 33, 40);
    made.cpu(&format!("{at}6 main > data.py:3 prepare"), 500);
    made.calls(&format!("{at}21 main > aten::mm"), 20, 8);
    made.calls(&format!("{at}23 main > Optimizer.step#SGD.step"), 10, 2);
    let found = made.found();
    assert_eq!((found.steps, found.step_ns), (10, MS as i64));
    assert!(found.notes.iter().any(|note| note.starts_with("there are no samples")), "{:?}", found.notes);
}

#[test]
fn longest_loading_line_is_reported() {
    let mut made = training();
    let next = "train.py:50 <module> > train.py:22 main > enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    made.calls(next, 10, 500);
    made.cpu(&format!("{next} > data.py:9 __getitem__ > /usr/lib/python3.11/json/__init__.py:3 loads"), 400);
    made.cpu(&format!("{next} > data.py:4 collate"), 100);
    let found = made.found();
    let loading = found.findings.iter().find(|found| found.rule.code == "SL009").unwrap();
    assert!(loading.title.ends_with("; most of it at data.py:9 in __getitem__ (80 %)"), "{}", loading.title);
}

/// Time of a rule without a finding remains uncovered.
#[test]
fn rare_copies_are_reported_as_uncovered() {
    let mut made = training();
    made.cpu(
        "train.py:50 <module> > train.py:24 main > train.py:9 keep > /usr/lib/python3.11/copy.py:128 deepcopy",
        900,
    );
    let found = made.found();
    assert_eq!(summaries(&found), []);
    let named: Vec<(&str, f64)> = found.uncovered.groups.iter().map(|g| (g.name.as_str(), g.percent.round())).collect();
    assert!(named.contains(&("train.py(9): keep", 47.0)), "{named:?}");
}
