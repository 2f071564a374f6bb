//! Views of a small program, with numbers computed by hand; and properties of all trees.

use super::*;
use proptest::prelude::*;
use stackline_model::{CallProcess, CallThread, CallThreadId, CallingContextTreeBuilder, Frame, StrId};

/// Tree from paths of single letters: capitals are Python functions at the line of their position, others are
/// operators.
fn tree(hits: &[(&str, u64)]) -> CallingContextTree {
    let mut builder = CallingContextTreeBuilder::new();
    let process = builder.process(CallProcess { pid: 7, ..CallProcess::default() });
    let name = builder.text("main");
    let threads: Vec<CallThreadId> =
        (0..2).map(|tid| builder.thread(CallThread { process, tid, torch_id: 0, name })).collect();
    for (index, (path, value)) in hits.iter().enumerate() {
        let node = path.chars().fold(CallingContextTree::ROOT, |node, letter| {
            let name = builder.text(&letter.to_string());
            let file = builder.text("dir/a.py");
            let python = Frame::Python { function: name, file, line: letter as u32, first_line: 1 };
            let frame = if letter.is_uppercase() { python } else { Frame::operator(name) };
            let frame = builder.frame(frame);
            builder.child(node, frame)
        });
        builder.add(node, threads[index % 2], CallMetric::OperatorTime, &CallStats::from_value(*value));
    }
    builder.finish()
}

fn options() -> ViewOptions {
    ViewOptions::new(CallMetric::OperatorTime)
}

fn rows(view: &CallView) -> Vec<String> {
    let row = |(row, node): (usize, &ViewNode)| {
        format!("{}{} {} {}", " ".repeat(node.depth - 1), view.label(row).name, node.inclusive.sum, node.exclusive.sum)
    };
    view.nodes.iter().enumerate().skip(1).map(row).collect()
}

fn pattern(text: &str) -> Option<Regex> {
    Some(Regex::new(text).unwrap())
}

const HITS: &[(&str, u64)] = &[("ABx", 10), ("ABxy", 5), ("Cx", 2), ("AAz", 1)];

#[test]
fn top_down() {
    let view = view(&tree(HITS), &options());
    assert_eq!(rows(&view), ["A 16 0", " B 15 0", "  x 15 10", "   y 5 5", " A 1 0", "  z 1 1", "C 2 0", " x 2 2"]);
    assert_eq!((view.total.sum, view.total.count), (18, 4));
}

#[test]
fn bottom_up() {
    let view = view(&tree(HITS), &ViewOptions { shape: ViewDirection::BottomUp, ..options() });
    let expected = [
        "x 12 12", " B 10 0", "  A 10 0", " C 2 0", "y 5 5", " x 5 0", "  B 5 0", "   A 5 0", "z 1 1", " A 1 0",
        "  A 1 0",
    ];
    assert_eq!(rows(&view), expected);
}

#[test]
fn flat_counts_recursion_once() {
    let view = view(&tree(HITS), &ViewOptions { shape: ViewDirection::Flat, ..options() });
    assert_eq!(rows(&view), ["x 17 12", "A 16 0", "B 15 0", "y 5 5", "C 2 0", "z 1 1"]);
}

#[test]
fn callers() {
    let of = |text| ViewOptions { shape: ViewDirection::Callers, callers_of: pattern(text), ..options() };
    assert_eq!(rows(&view(&tree(HITS), &of("^x"))), ["x 17 12", " B 15 0", "  A 15 0", " C 2 0"]);
    assert_eq!(rows(&view(&tree(HITS), &of("^A"))), ["A 16 0"], "the outermost A is meant");
}

#[test]
fn callees() {
    let of = |text| ViewOptions { shape: ViewDirection::Callees, callers_of: pattern(text), ..options() };
    let of_x = view(&tree(HITS), &of("^x"));
    assert_eq!(rows(&of_x), ["x 17 12", " y 5 5"]);
    assert_eq!(of_x.total.sum, 18, "shares are those of the whole");
    let of_a = view(&tree(HITS), &of("^A"));
    assert_eq!(rows(&of_a), ["A 16 0", " B 15 0", "  x 15 10", "   y 5 5", " A 1 0", "  z 1 1"]);
}

#[test]
fn only_filter_defines_the_total() {
    let only = |by: Grouping, name: &str| {
        let view = view(&tree(HITS), &ViewOptions { only: vec![(by, name.to_owned())], ..options() });
        (view.total.sum, rows(&view).join(";"))
    };
    assert_eq!(only(Grouping::Operator, "x"), (12, "A 10 0; B 10 0;  x 10 10;C 2 0; x 2 2".to_owned()));
    assert_eq!(only(Grouping::Thread, "thread 1 main of process 7").0, 6);
    assert_eq!(only(Grouping::Thread, "nobody"), (0, String::new()));
}

#[test]
fn recursion_collapses_into_the_first_call() {
    let collapsed = |hits: &[(&str, u64)]| rows(&view(&tree(hits), &ViewOptions { collapse: true, ..options() }));
    assert_eq!(collapsed(&[("AAz", 1), ("AAAx", 2)]), ["A 3 0", " x 2 2", " z 1 1"]);
    // Indirect recursion, too; the self time of the function in between stays.
    assert_eq!(collapsed(&[("ABAx", 5), ("ABy", 3)]), ["A 8 0", " x 5 5", " B 3 0", "  y 3 3"]);
    // Frames below the selected frame stay unchanged.
    let of = ViewOptions { shape: ViewDirection::Callees, callers_of: pattern("^B"), collapse: true, ..options() };
    assert_eq!(rows(&view(&tree(&[("ABAx", 5), ("ABABz", 3)]), &of)), ["B 8 0", " A 5 0", "  x 5 5", " z 3 3"]);
}

#[test]
fn focus_and_hide() {
    let focused = view(&tree(HITS), &ViewOptions { focus: pattern("^y"), ..options() });
    assert_eq!(rows(&focused), ["A 5 0", " B 5 0", "  x 5 0", "   y 5 5"]);
    assert_eq!(focused.total.sum, 18, "shares are those of the whole");
    let hidden = view(&tree(HITS), &ViewOptions { hide: pattern("^[ABy] ?"), ..options() });
    assert_eq!(rows(&hidden), ["x 15 10", "C 2 0", " x 2 2", "z 1 1"]);
}

/// Times of calls include nested ones, so in any view the total is the sum of the outermost calls.
#[test]
fn call_time_total_is_that_of_outermost_calls() {
    let mut builder = CallingContextTreeBuilder::new();
    let process = builder.process(CallProcess::default());
    let name = builder.text("main");
    let thread = builder.thread(CallThread { process, tid: 0, torch_id: 0, name });
    let mut at = CallingContextTree::ROOT;
    for (name, ns) in [("outer", 100), ("inner", 60), ("core", 50)] {
        let frame = Frame::operator(builder.text(name));
        let frame = builder.frame(frame);
        at = builder.child(at, frame);
        builder.add(at, thread, CallMetric::CallTime, &CallStats::from_value(ns));
    }
    let tree = builder.finish();
    let options = || ViewOptions::new(CallMetric::CallTime);
    let shown = |options: &ViewOptions| {
        let view = view(&tree, options);
        (view.total.sum, view.nodes[0].inclusive.sum, rows(&view).join(";"))
    };
    let (whole, root, _) = shown(&options());
    assert_eq!((whole, root), (100, 100));
    let focused = shown(&ViewOptions { focus: pattern("^inner"), ..options() });
    assert_eq!(focused, (100, 60, "outer 60 0; inner 60 60;  core 50 50".to_owned()));
    let hidden = shown(&ViewOptions { hide: pattern("^outer"), ..options() });
    assert_eq!((hidden.0, hidden.1), (100, 100));
}

#[test]
fn groups_are_the_outermost_rows() {
    let by = |by| rows(&view(&tree(HITS), &ViewOptions { by: Some(by), shape: ViewDirection::Flat, ..options() }));
    assert_eq!(by(Grouping::Operator), ["x 12 12", "y 5 5", "z 1 1"]);
    assert_eq!(by(Grouping::Thread), ["thread 0 main of process 7 12 12", "thread 1 main of process 7 6 6"]);
    assert_eq!(by(Grouping::Function), ["B dir/a.py 15 15", "C dir/a.py 2 2", "A dir/a.py 1 1"]);
    assert_eq!(by(Grouping::Module), ["(no module) 18 18"]);
    let tree_by = view(&tree(&HITS[2..3]), &ViewOptions { by: Some(Grouping::File), ..options() });
    assert_eq!(rows(&tree_by), ["dir/a.py 2 0", " C 2 0", "  x 2 2"]);
}

/// Phase of a path: frames by name, `~` for backward frames, `:` for spans.
#[test]
fn phases() {
    let mut builder = CallingContextTreeBuilder::new();
    let process = builder.process(CallProcess::default());
    let name = builder.text("main");
    let thread = builder.thread(CallThread { process, tid: 0, torch_id: 0, name });
    let paths = [
        ("a", 1),
        ("a ~b", 2),
        (":Optimizer.step#SGD.step a", 4),
        ("~b :Optimizer.step#SGD.step a", 8),
        (":Compile_0/0 a", 16),
        ("~b :Compile_0/0:_lazy_backward a", 32),
        (":Compile_me a", 64),
        // As PyTorch records DDP, hooks and checkpoints.
        ("autograd::engine::evaluate_function:_AddmmBackward0 a", 128),
        ("autograd::engine::evaluate_function:_A ~A torch::distributed::reducer::mul_out a", 256),
        ("autograd::engine::evaluate_function:_A c10d::allreduce_", 512),
        ("torch.distributed.ddp.reducer::copy_bucket_to_grad a", 1024),
        (":DistributedDataParallel.forward a", 2048),
        (":DistributedDataParallel.forward c10d::broadcast_", 4096),
        (":gloo:all_reduce", 8192),
        (":my_backward a", 16384),
        (":Python_GC a", 32768),
    ];
    for (path, value) in paths {
        let node = path.split(' ').fold(CallingContextTree::ROOT, |node, text| {
            let name = builder.text(&text.trim_start_matches(['~', ':']).replace('_', " "));
            let frame = match text.chars().next() {
                Some('~') => Frame::backward(name),
                Some(':') => Frame::Span { name },
                _ => Frame::operator(name),
            };
            let frame = builder.frame(frame);
            builder.child(node, frame)
        });
        builder.add(node, thread, CallMetric::OperatorTime, &CallStats::from_value(value));
    }
    let by = ViewOptions { by: Some(Grouping::Phase), shape: ViewDirection::Flat, ..options() };
    let expected = [
        "garbage collection 32768 32768",
        "forward pass and other work 18497 18497",
        "communication 14080 14080",
        "backward 138 138",
        "compilation 48 48",
        "optimizer 4 4",
    ];
    assert_eq!(rows(&view(&builder.finish(), &by)), expected);
}

/// Spans and functions of training frameworks, with `:` before spans and the file before functions.
#[test]
fn phases_of_frameworks() {
    let mut builder = CallingContextTreeBuilder::new();
    let process = builder.process(CallProcess::default());
    let name = builder.text("main");
    let thread = builder.thread(CallThread { process, tid: 0, torch_id: 0, name });
    let paths: [(&[&str], u64); 6] = [
        // The optimizer's step calls forward and backward.
        (&[":Optimizer.step#Adam.step", ":[pl][profile][Strategy]DDPStrategy.training_step", "a"], 1),
        (&[":Optimizer.step#Adam.step", ":[pl][profile][Strategy]DDPStrategy.backward", "a"], 2),
        (&[":DeepSpeedZeroOptimizer_Stage3.step", "a"], 4),
        (&["deepspeed/runtime/engine.py step", "a"], 8),
        (&["deepspeed/runtime/engine.py DeepSpeedEngine.backward", "a"], 16),
        (&[":PartitionedParameterCoordinator.fetch_sub_module", "a"], 32),
    ];
    for (path, value) in paths {
        let node = path.iter().fold(CallingContextTree::ROOT, |node, text| {
            let frame = match (text.strip_prefix(':'), text.split_once(' ')) {
                (Some(span), _) => Frame::Span { name: builder.text(span) },
                (None, Some((file, function))) => {
                    let (function, file) = (builder.text(function), builder.text(file));
                    Frame::Python { function, file, line: 7, first_line: 1 }
                }
                (None, None) => Frame::operator(builder.text(text)),
            };
            let frame = builder.frame(frame);
            builder.child(node, frame)
        });
        builder.add(node, thread, CallMetric::OperatorTime, &CallStats::from_value(value));
    }
    let by = ViewOptions { by: Some(Grouping::Phase), shape: ViewDirection::Flat, ..options() };
    let expected = ["communication 32 32", "backward 18 18", "optimizer 12 12", "forward pass and other work 1 1"];
    assert_eq!(rows(&view(&builder.finish(), &by)), expected);
}

#[test]
fn comparison_is_sorted_by_change() {
    let (before, after) = (tree(&[("Ax", 10), ("Ay", 3)]), tree(&[("Ax", 11), ("Az", 5), ("Ay", 3)]));
    let view = compare(&before, &after, &options());
    let changes: Vec<_> =
        view.nodes.iter().enumerate().skip(1).map(|(row, n)| (view.label(row).name.as_str(), n.change())).collect();
    assert_eq!(changes, [("A", 6), ("z", 5), ("x", 1), ("y", 0)]);
    let kept = view.keep(0, 2);
    assert_eq!((kept.nodes.len(), kept.left_out), (3, 2));
}

#[test]
fn frames_in_one_line_count_as_one() {
    let view = view(&tree(&[("ABCDx", 10), ("ABCDy", 3), ("ABEz", 1)]), &options());
    // A › B, C › D, x, y, E, z.
    let kept = view.keep_lines(0, 4);
    assert_eq!(rows(&kept), ["A 14 0", " B 14 0", "  C 13 0", "   D 13 0", "    x 10 10", "    y 3 3"]);
    assert_eq!(kept.left_out, 2);
    assert_eq!(rows(&view.keep(0, 4)), ["A 14 0", " B 14 0", "  C 13 0", "   D 13 0"]);
    assert_eq!(rows(&view.keep_lines(3, 2)), rows(&view.keep(3, 3)));
}

#[test]
fn functions_on_one_line_share_a_row() {
    let mut builder = CallingContextTreeBuilder::new();
    let (file, process) = (builder.text("a.py"), builder.process(CallProcess::default()));
    let name = builder.text("main");
    let thread = builder.thread(CallThread { process, tid: 1, torch_id: 0, name });
    let mut node = CallingContextTree::ROOT;
    for (function, value) in [("work", 1), ("work.<locals>.<lambda>", 2)] {
        let frame = Frame::Python { function: builder.text(function), file, line: 7, first_line: 1 };
        let frame = builder.frame(frame);
        node = builder.child(node, frame);
        builder.add(node, thread, CallMetric::OperatorTime, &CallStats::from_value(value));
    }
    let lines = source_lines(&builder.finish(), CallMetric::OperatorTime);
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(
        (line.function.as_str(), line.inclusive.sum, line.exclusive.sum),
        ("work, work.<locals>.<lambda>", 3, 3)
    );
}

#[test]
fn source_line_costs() {
    let lines = source_lines(&tree(HITS), CallMetric::OperatorTime);
    let lines: Vec<_> = lines.iter().map(|l| (l.function.as_str(), l.line, l.inclusive.sum, l.exclusive.sum)).collect();
    assert_eq!(lines, [("A", 65, 16, 1), ("B", 66, 15, 15), ("C", 67, 2, 2)]);
}

proptest! {
    /// Every view contains every value once.
    #[test]
    fn views_contain_every_value_once(hits in proptest::collection::vec(("[A-Ca-c]{1,6}", 0_u64..1000), 0..40)) {
        let hits: Vec<(&str, u64)> = hits.iter().map(|(path, value)| (path.as_str(), *value)).collect();
        let sum: u64 = hits.iter().map(|hit| hit.1).sum();
        for shape in [ViewDirection::TopDown, ViewDirection::BottomUp, ViewDirection::Flat] {
            for by in [None, Some(Grouping::Thread), Some(Grouping::Operator)] {
                for collapse in [false, true] {
                    let view = view(&tree(&hits), &ViewOptions { shape, by, collapse, ..options() });
                    let exclusive: u64 = view.nodes.iter().map(|node| node.exclusive.sum).sum();
                    prop_assert_eq!((view.total.sum, view.nodes[0].inclusive.sum, exclusive), (sum, sum, sum));
                    let parents = view.nodes.iter().enumerate().skip(1).all(|(row, node)| node.parent < row);
                    prop_assert!(parents);
                }
            }
        }
    }
}

#[test]
fn span_in_a_function_is_no_recursive_call() {
    let collapsed = |path: &[(&str, u32)]| {
        let mut builder = CallingContextTreeBuilder::new();
        let process = builder.process(CallProcess { pid: 7, ..CallProcess::default() });
        let [main, file] = ["main", "dir/a.py"].map(|text| builder.text(text));
        let thread = builder.thread(CallThread { process, tid: 0, torch_id: 0, name: main });
        let node = path.iter().fold(CallingContextTree::ROOT, |node, &(name, line)| {
            let name = builder.text(name);
            let python = Frame::Python { function: name, file, line, first_line: 1 };
            let frame = builder.frame(if line > 0 { python } else { Frame::Span { name } });
            builder.child(node, frame)
        });
        builder.add(node, thread, CallMetric::OperatorTime, &CallStats::from_value(1));
        let view = view(&builder.finish(), &ViewOptions { collapse: true, ..options() });
        (1..view.nodes.len())
            .map(|row| format!("{}:{}", view.label(row).name, view.label(row).line))
            .collect::<Vec<_>>()
    };
    assert_eq!(collapsed(&[("f", 3), ("step", 0), ("f", 4), ("g", 9)]), ["f:3", "step:0", "f:4", "g:9"]);
    // Recursion is possible inside, too. Calls at the same line cannot be distinguished.
    assert_eq!(collapsed(&[("f", 3), ("step", 0), ("f", 4), ("f", 5), ("g", 9)]), ["f:3", "step:0", "f:4", "g:9"]);
    assert_eq!(collapsed(&[("f", 3), ("step", 0), ("f", 3), ("g", 9)]), ["f:3", "g:9"]);
}

#[test]
fn built_in_time_counts_for_the_callers_line() {
    let mut builder = CallingContextTreeBuilder::new();
    let process = builder.process(CallProcess { pid: 7, ..CallProcess::default() });
    let [name, file] = ["linear", "dir/a.py"].map(|text| builder.text(text));
    let thread = builder.thread(CallThread { process, tid: 0, torch_id: 0, name });
    let outer = builder.frame(Frame::Python { function: name, file, line: 3, first_line: 1 });
    let inner = builder.frame(Frame::Python { function: name, file: StrId::NONE, line: 0, first_line: 0 });
    let outer = builder.child(CallingContextTree::ROOT, outer);
    let inner = builder.child(outer, inner);
    builder.add(inner, thread, CallMetric::OperatorTime, &CallStats::from_value(9));
    let lines = source_lines(&builder.finish(), CallMetric::OperatorTime);
    let shown: Vec<_> = lines.iter().map(|l| (l.file.as_str(), l.line, l.inclusive.sum, l.exclusive.sum)).collect();
    assert_eq!(shown, [("dir/a.py", 3, 9, 9)]);
}

#[test]
fn programs_with_a_reused_process_id_are_distinct() {
    let mut builder = CallingContextTreeBuilder::new();
    let name = builder.text("main");
    let operator = builder.text("x");
    let frame = builder.frame(Frame::operator(operator));
    let node = builder.child(CallingContextTree::ROOT, frame);
    // `python prepare.py` calls exec, and becomes `python train.py`.
    for (pid, program, ns) in [(7, "prepare.py", 10), (7, "train.py", 5), (8, "worker.py", 2)] {
        let command = vec!["python".to_owned(), program.to_owned()];
        let process = builder.process(CallProcess { pid, command, ..CallProcess::default() });
        let thread = builder.thread(CallThread { process, tid: pid, torch_id: 0, name });
        builder.add(node, thread, CallMetric::OperatorTime, &CallStats::from_value(ns));
    }
    let tree = builder.finish();
    let groups = |by| rows(&view(&tree, &ViewOptions { by: Some(by), ..options() }));
    let of_processes = groups(Grouping::Process);
    let first = ["process 7 (program 1 of 2 with this PID: python prepare.py) 10 0", " x 10 10"];
    let second = ["process 7 (program 2 of 2 with this PID: python train.py) 5 0", " x 5 5"];
    assert_eq!(of_processes, [&first[..], &second, &["process 8 2 0", " x 2 2"]].concat());
    let of_threads = groups(Grouping::Thread);
    assert_eq!(of_threads[2], "thread 7 main of process 7 (program 2 of 2 with this PID: python train.py) 5 0");
}
