//! Time that no finding covers: calls, operators and functions with large times are named.

use crate::findings_support;

use crate::support::read;
use findings_support::{Program, text};
use serde_json::json;
use stackline_critical_path::exact::what_if::{Edit, predict};
use stackline_findings::{Findings, LargeGroup, LargeKind, Options, merge};
use stackline_present::findings::uncovered;
use stackline_testkit::mini::MiniTrace;
use stackline_timeline::Scope;
use stackline_timeline::steps::StepSelection;

/// Steps of one product of 2 ms that the host waits for, with the work of `inside` in each.
fn steps(mut inside: impl FnMut(&mut Program)) -> Findings {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.kernel("gemm", 2000));
                inside(p);
                p.op("aten::item", |p| p.sync("cudaStreamSynchronize"));
            });
        });
    }
    program.findings()
}

fn named(found: &Findings) -> Vec<(LargeKind, &str)> {
    found.uncovered.groups.iter().map(|group| (group.kind, group.name.as_str())).collect()
}

/// A call that no rule knows takes most of a step: removing it gains as much as it takes.
#[test]
fn dominant_call_is_reported() {
    let found = steps(|p| p.python("data.py(7): prepare", |p| p.op("my::op", |p| p.call("hipMystery", 8000))));
    let first = found.uncovered.groups.first().unwrap_or_else(|| panic!("{}", text(&found.findings)));
    assert_eq!((first.kind, first.name.as_str(), first.count), (LargeKind::Call, "hipMystery", 4), "{found:?}");
    assert_eq!(first.place.text(), "data.py:7 in prepare");
    // A step of 8,000 µs in the call and 2,000 in the kernel beside it.
    let gain = first.gain.unwrap();
    assert!((5_900_000..=8_100_000).contains(&gain.likely_ns), "{gain:?}");
    assert!(first.percent > 75.0 && first.path_percent > 75.0, "{first:?}");
    // The operator and the function around it say nothing more.
    assert!(
        !named(&found).iter().any(|(_, name)| *name == "my::op" || name.contains("prepare")),
        "{:?}",
        named(&found)
    );
}

/// A copy of a host that waits for the GPU all the time: it is named, with its small gain.
#[test]
fn waiting_call_is_reported_with_its_gain() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.op("my::decode", |p| p.kernel("spin", 9000));
            p.op("my::copy", |p| p.pageable(2, 4096));
        });
    }
    let found = program.findings();
    let call = found.uncovered.groups.iter().find(|group| group.name == "cudaMemcpyAsync");
    assert!(
        call.is_some_and(|call| call.percent > 90.0 && call.path_percent < 5.0),
        "{}\n{:?}",
        text(&found.findings),
        found.uncovered
    );
    assert!(call.unwrap().gain.is_some_and(|gain| gain.likely_ns < 500_000), "{call:?}");
}

/// The copy waits while the GPU computes, so that its removal gains nothing: entries with larger gains do not remove it from the list.
#[test]
fn large_call_is_reported_despite_larger_gains() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            (0..6).for_each(|i| p.op(&format!("my::part{i}"), |p| p.work(800)));
            p.op("my::decode", |p| p.kernel("spin", 3000));
            p.op("my::copy", |p| p.pageable(2, 4096));
        });
    }
    let found = program.findings();
    let groups = &found.uncovered.groups;
    let call = groups.iter().find(|group| group.name == "cudaMemcpyAsync");
    let call = call.unwrap_or_else(|| panic!("{:?}", named(&found)));
    assert!(call.percent > 30.0 && call.path_percent < 5.0, "{call:?}");
    assert_eq!(groups.len(), 5, "{:?}", named(&found));
    assert!(groups.iter().filter(|group| group.name.starts_with("my::part")).count() >= 3, "{:?}", named(&found));
    let gains: Vec<i64> = groups.iter().map(|group| group.gain.map_or(0, |gain| gain.likely_ns)).collect();
    assert!(gains.is_sorted_by(|a, b| a >= b), "{gains:?}");
}

/// An operator has most of the call's time on the path, which is little: it does not describe all of the call's time.
#[test]
fn large_call_is_not_represented_by_an_operator() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.work(400);
            p.op("my::decode", |p| p.kernel("spin", 4500));
            // On the path are only the ends of the copies; of the second one, which is short, all of it.
            p.pageable(2, 4096);
            p.op("my::copy", |p| p.pageable(60, 4096));
        });
    }
    let found = program.findings();
    let call = found.uncovered.groups.iter().find(|group| group.name == "cudaMemcpyAsync");
    assert!(call.is_some_and(|call| call.percent > 80.0), "{:?}", named(&found));
}

/// Large times of one of several ranks are reported for that rank, although another one is the slowest.
#[test]
fn large_calls_of_other_ranks_state_the_rank() {
    let of = |call: &str, work: i64| {
        let mut program = Program::new();
        for number in 0..4 {
            program.step(number, |p| {
                p.op("aten::mm", |p| p.kernel("gemm", 200));
                p.op("my::op", |p| p.call(call, 5000));
                p.op("my::part", |p| p.work(work));
            });
        }
        program.findings()
    };
    let all = || vec![(0, of("hipMystery", 100)), (1, of("hipOther", 9000)), (2, of("hipMystery", 2000))];
    let merged = merge(all(), &Options::default(), &|_| true).unwrap();
    let ranks: Vec<_> = merged.uncovered.groups.iter().map(|group| (group.rank, group.name.as_str())).collect();
    assert!(ranks.contains(&(Some(1), "hipOther")), "the slowest one: {ranks:?}");
    // Of rank 0 it takes most.
    assert_eq!(ranks.last(), Some(&(Some(0), "hipMystery")), "{ranks:?}");
    assert_eq!(ranks.iter().filter(|(rank, _)| *rank != Some(1)).count(), 1, "{ranks:?}");
    let single = merge(all().into_iter().take(1).collect(), &Options::default(), &|_| true).unwrap();
    assert!(single.uncovered.groups.iter().all(|group| group.rank.is_none()), "{:?}", single.uncovered);
}

/// Of several ranks the list begins with the slowest; others have a sentence of their own, and alone it is the only one.
#[test]
fn groups_of_other_ranks_have_their_own_heading() {
    let of = |call: &str, us: i64| steps(|p| p.op("my::op", |p| p.call(call, us)));
    let all = vec![(0, of("hipMystery", 6000)), (1, of("hipOther", 9000))];
    let mut merged = merge(all, &Options::default(), &|_| true).unwrap();
    let heads =
        |found: &Findings| uncovered(found).into_iter().filter(|line| !line.starts_with("- ")).collect::<Vec<_>>();
    let lines = uncovered(&merged);
    assert!(lines[0].contains("on rank 1, the slowest") && lines[1].starts_with("- hipOther (4 "), "{lines:?}");
    assert_eq!(heads(&merged)[1..], ["Large parts of the time of other ranks that no finding covers:"]);
    let last = lines.last().unwrap();
    assert!(last.starts_with("- hipMystery (4 ") && last.contains(", rank 0): "), "{lines:?}");
    merged.uncovered.groups.retain(|group| group.rank == Some(0));
    assert_eq!(heads(&merged), ["Large parts of the time of other ranks that no finding covers:"]);
    merged.uncovered.groups.clear();
    assert_eq!(uncovered(&merged), Vec::<String>::new());
}

/// A blocking copy after a collective lasts until the last rank arrives: the straggler's finding reports that for its rank.
#[test]
fn copies_waiting_for_a_straggler_are_no_groups() {
    let of = |works: i64, waits: i64| {
        let mut program = Program::new();
        for number in 0..4 {
            program.step(number, |p| {
                p.op("aten::mm", |p| p.kernel("gemm", 50));
                p.op("my::load", |p| p.work(works));
                let args = json!({"In msg nelems": 1000, "Collective name": "allreduce"});
                let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
                p.op("c10d::allreduce_", |p| p.launch(("cudaLaunchKernel", "kernel"), name, waits, 7, args));
                p.op("aten::_local_scalar_dense", |p| p.pageable(2, 4));
            });
        }
        program.findings()
    };
    let is_copy = |group: &&LargeGroup| group.name == "cudaMemcpyAsync";
    let waiting = of(100, 8000);
    let alone = waiting.uncovered.groups.iter().find(is_copy);
    assert!(alone.is_some_and(|copy| copy.percent > 80.0), "of one rank it is what is large: {:?}", named(&waiting));
    let merged = merge(vec![(0, waiting), (1, of(8000, 100))], &Options::default(), &|_| true).unwrap();
    let mut found = merged.findings.iter().chain(&merged.small);
    assert!(found.any(|found| found.rule.code == "SL040"), "{}", text(&merged.findings));
    assert!(!merged.uncovered.groups.iter().any(|group| is_copy(&group)), "{:?}", merged.uncovered.groups);
}

/// Covered time is not reported again, and of short times only a large call is reported.
#[test]
fn covered_time_is_not_reported_again() {
    let covered = steps(|p| p.op("aten::nonzero", |p| p.sync("cudaStreamSynchronize")));
    assert!(!named(&covered).iter().any(|(_, name)| *name == "cudaStreamSynchronize"), "{:?}", named(&covered));
    let mut short = Program::new();
    short.step(0, |p| p.op("my::op", |p| p.call("hipMystery", 400)));
    let short = short.findings();
    assert_eq!(named(&short), [(LargeKind::Call, "hipMystery")]);
    assert_eq!(short.uncovered.covered_percent, None, "in so short a window nobody looks for the rest");
    let mut quick = Program::new();
    quick.step(0, |p| p.op("my::op", |p| p.work(400)));
    assert_eq!(named(&quick.findings()), []);
}

/// If rules cover most of the time, small groups are not named.
#[test]
fn small_groups_are_reported_only_with_low_coverage() {
    let found = steps(|p| {
        p.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", |p| {
            p.op("aten::stack", |p| p.work(20_000));
        });
        p.python("train.py(40): log", |p| p.work(1500));
    });
    assert!(found.findings.iter().any(|f| f.rule.code == "SL009"));
    assert!(!found.uncovered.is_most() && named(&found).is_empty(), "{:?}", found.uncovered);
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| (0..5).for_each(|i| p.op(&format!("my::part{i}"), |p| p.work(3000))));
    }
    let found = program.findings();
    assert!(found.uncovered.is_most(), "{:?} {}", found.uncovered, text(&found.findings));
    let operators = named(&found).iter().filter(|(kind, _)| *kind == LargeKind::Operator).count();
    assert_eq!(operators, 5, "{:?}", found.uncovered);
    let gains: Vec<i64> = found.uncovered.groups.iter().map(|one| one.gain.map_or(0, |gain| gain.likely_ns)).collect();
    assert!(gains.is_sorted_by(|a, b| a >= b) && gains[0] > 2_500_000, "{gains:?}");
}

/// The real file of the report: one call of 463 of 474 ms.
#[test]
fn large_copy_of_a_real_trace_is_reported() {
    let file = "kineto/amd-mi300-sglang-decode-graph-replay.json.gz";
    let Some(path) = stackline_testkit::corpus::file(file) else { return };
    let trace = crate::support::read_file(&path);
    let found = findings_support::find(&trace, &[]);
    assert!(found.uncovered.is_most() && found.findings.is_empty());
    let call = found.uncovered.groups.iter().find(|group| group.name == "hipMemcpyWithStream").unwrap();
    assert!((97.0..99.0).contains(&call.percent) && call.count == 1, "{call:?}");
    // What the GPU waits for meanwhile is not recorded: it is not the kernel of 6.6 µs that comes after it.
    assert!(call.wait_percent > 97.0 && call.path_percent < 1.0 && call.is_wait(), "{call:?}");
    // Of AMD's runtime, whatever the category says.
    assert!(!call.advice.contains("cuda_sync"), "{call:?}");
    assert!(found.uncovered.groups.iter().all(|group| group.kind != LargeKind::Gpu), "{:?}", found.uncovered);
}

/// A kernel of 100 µs that starts 9 ms after its launch, and nothing says why.
fn delayed_by_unknown(after_launch: impl FnOnce(&mut Program)) -> Program {
    delayed_kernel("cudaLaunchKernel", after_launch)
}

fn delayed_kernel(call: &str, after_launch: impl FnOnce(&mut Program)) -> Program {
    let mut program = Program::new();
    program.step(0, |p| {
        p.op("aten::mm", |p| {
            p.delay_stream(9000);
            p.launch((call, "kernel"), "gemm", 100, 7, serde_json::json!({}));
        });
        after_launch(p);
    });
    program
}

/// A wait whose cause is not recorded is reported by itself, and not as time of the kernel that follows it.
#[test]
fn wait_of_unknown_cause_is_a_group() {
    let found = delayed_by_unknown(|_| ()).findings();
    let [wait] = &found.uncovered.groups[..] else { panic!("{:?}", found.uncovered) };
    assert_eq!((wait.kind, wait.count, wait.gain), (LargeKind::Wait, 1, None), "{wait:?}");
    assert!(wait.path_percent > 95.0 && wait.advice.contains("processes that use this GPU"), "{wait:?}");
    assert!(found.findings.iter().all(|finding| finding.gain_ns() < 100_000), "{}", text(&found.findings));
}

/// A call of the program that is in progress all the while: the wait is reported for it.
#[test]
fn wait_of_unknown_cause_counts_for_the_call_in_progress() {
    let found = delayed_by_unknown(|p| p.pageable(2, 4096)).findings();
    let [call] = &found.uncovered.groups[..] else { panic!("{:?}", found.uncovered) };
    assert_eq!((call.kind, call.name.as_str()), (LargeKind::Call, "cudaMemcpyAsync"), "{call:?}");
    assert!(call.wait_percent > 95.0 && call.percent > 95.0 && call.path_percent < 5.0, "{call:?}");
}

/// Removing an operation may remove the cause of its delay, but need not.
#[test]
fn removing_a_kernel_keeps_the_wait_before_it() {
    let trace = delayed_by_unknown(|p| p.pageable(2, 4096)).trace();
    let choice = StepSelection::select(&trace, &Scope::default()).choice;
    let edits = Edit::parse_all("remove kernel:gemm").unwrap();
    let gain = predict(&trace, &choice, &edits).unwrap().gain;
    assert!(gain.likely_ns < 200_000 && gain.low_ns < 200_000, "{gain:?}");
    assert!(gain.high_ns > 8_000_000, "{gain:?}");
}

/// Time of a Python thread in which nothing is recorded is named as that.
#[test]
fn time_without_recorded_calls_is_reported() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.op("aten::mm", |p| p.work(2000));
            p.work(4000);
        });
    }
    let found = program.findings();
    let group = found.uncovered.groups.iter().find(|group| group.kind == LargeKind::UnrecordedPython).unwrap();
    assert!((60.0..70.0).contains(&group.path_percent) && group.gain.is_none(), "{group:?}");
    assert!(group.advice.contains("with_stack=True"), "{group:?}");
}

/// The innermost annotation with most of this time is named, and not that of a step; the rest has no name.
#[test]
fn time_without_recorded_calls_names_its_annotation() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.op("aten::mm", |p| p.work(1000));
            p.annotation("iteration", |p| {
                p.annotation("sleepy", |p| p.work(6000));
                p.work(500);
            });
            p.work(700);
        });
    }
    let groups = program.findings().uncovered.groups;
    let gaps: Vec<&LargeGroup> = groups.iter().filter(|group| group.kind == LargeKind::UnrecordedPython).collect();
    let names: Vec<&str> = gaps.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["Python time without recorded calls in sleepy", "Python time without recorded calls"]);
    assert!((72.0..=75.0).contains(&gaps[0].path_percent), "{gaps:?}");
}

/// The same where frames are recorded, and where nothing says that it is a program of Python.
#[test]
fn time_without_recorded_calls_is_python_if_known() {
    let gap = |program: Program, kind: LargeKind| {
        let found = program.findings();
        found.uncovered.groups.iter().find(|group| group.kind == kind).cloned().unwrap_or_else(|| panic!("{found:?}"))
    };
    let mut framed = Program::new();
    for number in 0..4 {
        framed.step(number, |p| {
            p.python("train.py(3): part", |p| p.op("aten::mm", |p| p.work(500)));
            p.work(3000);
        });
    }
    let framed = gap(framed, LargeKind::UnrecordedPython);
    assert!(!framed.advice.contains("with_stack") && framed.advice.contains("samples"), "{framed:?}");
    let mut service = Program::new();
    for _ in 0..4 {
        service.op("aten::mm", |p| p.work(500));
        service.work(3000);
    }
    let profiled = |option: &str| {
        let text = service.text(json!({"id": 0, "name": "NVIDIA A100", "numSms": 108}));
        let trace = read(text.replacen('{', &format!("{{\"{option}\": 1, "), 1));
        findings_support::find(&trace, &[]).uncovered.groups
    };
    // What torch.profiler's Python interface writes, and no other.
    let groups = profiled("record_shapes");
    let python = groups.iter().find(|group| group.kind == LargeKind::UnrecordedPython);
    assert!(python.is_some_and(|group| group.advice.starts_with("record Python frames: torch.profiler")), "{groups:?}");
    assert!(profiled("schemaVersion").iter().all(|group| group.kind != LargeKind::UnrecordedPython));
    let service = gap(service, LargeKind::UnrecordedHost);
    assert_eq!(service.name, "host time without recorded calls");
    // The file lacks frames: `perf record` is no first advice.
    assert!(
        service.advice.starts_with("for a Python program, record with torch.profiler and with_stack=True"),
        "{service:?}"
    );
}

/// A wait in a loader's annotation is Python's, whether or not its frames are recorded.
#[test]
fn loading_without_recorded_calls_is_python() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", |p| p.work(3000));
            p.op("aten::mm", |p| p.work(500));
        });
    }
    let found = program.findings();
    let groups = &found.uncovered.groups;
    assert!(groups.iter().all(|group| group.kind != LargeKind::UnrecordedNative), "{groups:?}");
}

/// Waits of streams are recorded by CUPTI alone: not advised where they are recorded, nor of calls of other vendors.
#[test]
fn advice_requests_missing_stream_waits() {
    let advice = |program: Program| program.findings().uncovered.groups[0].advice;
    assert!(advice(delayed_by_unknown(|_| ())).contains("enable_cuda_sync_events"));
    let recorded = delayed_by_unknown(|p| p.span("cuda_sync", "Stream Sync", p.now, 1, serde_json::json!({})));
    assert!(!advice(recorded).contains("enable_cuda_sync_events"));
    let amd = delayed_kernel("hipLaunchKernel", |_| ());
    assert!(!advice(amd).contains("enable_cuda_sync_events"));
}

/// The longest single one is elsewhere.
#[test]
fn calls_are_located_at_most_of_their_time() {
    let found = steps(|p| {
        p.python("data.py(7): prepare", |p| (0..4).for_each(|_| p.op("my::op", |p| p.call("hipMystery", 1500))));
        p.python("loss.py(3): measure", |p| p.op("my::op", |p| p.call("hipMystery", 2000)));
    });
    let of = |found: &Findings, name: &str| found.uncovered.groups.iter().find(|group| group.name == name).cloned();
    let group = of(&found, "hipMystery").unwrap_or_else(|| panic!("{:?}", named(&found)));
    assert_eq!((group.count, group.place.text().as_str()), (20, "data.py:7 in prepare"));
    // 6 of 8 ms.
    let part = group.place_percent.unwrap() / group.percent;
    assert!((0.74..=0.76).contains(&part), "{group:?}");
}

/// Threads wait concurrently: a share of the window is that of one of them.
#[test]
fn call_location_is_on_the_thread_of_its_share() {
    let mut trace = MiniTrace::new("");
    for step in 0..4 {
        let [a, b] = [2 * step + 1, 2 * step + 2];
        let lines = format!(
            "1/1     user_annotation  ProfilerStep#{step}  0+1000
             1/1     python_function  a.py(10): wait       100+700
             1/1     cuda_runtime     cudaLaunchKernel     101+5    correlation={a}
             gpu0/7  kernel           gemm                 110+30   correlation={a}
             1/1     cuda_runtime     hipMystery           150+600
             1/2     python_function  b.py(20): wait       100+700
             1/2     cuda_runtime     cudaLaunchKernel     101+5    correlation={b}
             gpu0/8  kernel           gemm                 110+30   correlation={b}
             1/2     cuda_runtime     hipMystery           150+590"
        );
        trace.add_at(1000 + 1000 * step, &lines);
    }
    let found = findings_support::find(&read(trace.json()), &[]);
    let group = found.uncovered.groups.iter().find(|group| group.name == "hipMystery").unwrap();
    assert_eq!((group.count, group.place.text().as_str()), (8, "a.py:10 in wait"));
    assert!((59.0..=61.0).contains(&group.percent) && group.place_percent == Some(group.percent), "{group:?}");
    assert!(uncovered(&found).iter().any(|line| line.contains("hipMystery (8 GPU API calls at a.py:10 in wait)")));
}

#[test]
fn covered_operators_are_excluded() {
    let mut program = Program::new();
    for number in 0..6 {
        let node = json!({"Sequence number": number, "Fwd thread id": 0});
        let back = json!({"Sequence number": number, "Fwd thread id": 1});
        program.step(number, |p| {
            p.python("train.py(30): train_step", |p| {
                p.python("nn.Module: Linear_0", |p| p.op_with("aten::linear", node, |p| p.work(2000)));
                p.op_with("autograd::engine::evaluate_function: AddmmBackward0", back, |p| p.work(1000));
            });
            p.python("train.py(12): evaluate", |p| {
                p.python("nn.Module: Linear_0", |p| {
                    (0..2).for_each(|_| p.op_with("aten::linear", json!({}), |p| p.work(600)));
                });
            });
        });
    }
    let found = program.findings();
    assert!(found.findings.iter().any(|finding| finding.rule.code == "SL047"), "{}", text(&found.findings));
    let group = found.uncovered.groups.iter().find(|group| group.name == "aten::linear");
    let group = group.unwrap_or_else(|| panic!("{:?}", named(&found)));
    assert_eq!((group.count, group.place.text().as_str()), (6, "train.py:30 in train_step"), "{group:?}");
    // 2.0 of 4.2 ms a step.
    assert!((46.0..=49.0).contains(&group.percent) && (46.0..=49.0).contains(&group.path_percent), "{group:?}");
}

/// A thread that waits for another one shows no call of its own: the other one's is named.
#[test]
fn concurrent_span_of_another_thread_is_reported() {
    let of = |part: i64| {
        let mut program = Program::new();
        for number in 0..4 {
            program.step(number, |p| {
                p.op("aten::mm", |p| p.work(500));
                p.thread_span(2, ("user_annotation", "gloo:all_reduce"), (p.now, 9_000 * part / 10), json!({}));
                p.work(9_000);
            });
        }
        let found = program.findings();
        let group = found.uncovered.groups.iter().find(|group| group.kind == LargeKind::UnrecordedPython).cloned();
        group.unwrap_or_else(|| panic!("{:?}", found.uncovered)).concurrent_span
    };
    let (name, percent) = of(8).unwrap();
    assert!(name == "gloo:all_reduce" && (75.0..=81.0).contains(&percent), "{name} {percent}");
    assert_eq!(of(3), None, "for less than half of it");
}

/// The user's function is spent in one of a library: that one is named, with the line that calls it.
#[test]
fn dominant_library_function_is_reported() {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| {
            p.python("train.py(10): step", |p| {
                p.op("aten::mm", |p| p.work(300));
                p.python("torch/serialization.py(700): _save", |p| p.work(8_000));
            });
        });
    }
    let found = program.findings();
    let first = found.uncovered.groups.first().unwrap_or_else(|| panic!("{}", text(&found.findings)));
    assert_eq!(
        (first.kind, first.name.as_str()),
        (LargeKind::Frame, "torch/serialization.py(700): _save"),
        "{found:?}"
    );
    assert_eq!(first.place.text(), "train.py:10 in step");
    assert!(first.gain.is_some_and(|gain| (7_900_000..=8_100_000).contains(&gain.likely_ns)), "{first:?}");
}
