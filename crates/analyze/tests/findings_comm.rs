//! Rules about communication.

use crate::findings_support;

use crate::support::read;
use findings_support::{Program, find, text};
use serde_json::json;
use stackline_analyze::analyses::tl_coll_analysis;
use stackline_findings::{Finding, Findings, Identity, Options, merge};
use stackline_timeline::Scope;
use stackline_timeline::confidence::Confidence;
use stackline_timeline::gpu_view::Definition;

pub(crate) const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// Four steps: `inside` runs in each and gets its number.
pub(crate) fn steps(mut inside: impl FnMut(&mut Program, usize)) -> Program {
    let mut program = Program::new();
    for number in 0..4 {
        program.step(number, |p| p.python("train.py(10): step", |p| inside(p, number)));
    }
    program
}

fn collective(program: &mut Program, us: i64, stream: usize) {
    let size = json!({"In msg nelems": 1000, "Collective name": "allreduce"});
    program.op("c10d::allreduce_", |p| p.launch(("cudaLaunchKernel", "kernel"), ALL_REDUCE, us, stream, size));
}

#[test]
fn collectives_without_overlap() {
    let mut program = steps(|p, _| {
        p.op("aten::mm", |p| p.kernel("gemm", 100));
        collective(p, 300, 7);
        p.op("aten::mm", |p| p.kernel("gemm", 100));
        p.sync("cudaDeviceSynchronize");
    });
    insta::assert_snapshot!(text(&program.found("SL019")));
    let found = program.found("SL019");
    let fact = |name: &str| found[0].facts.iter().find(|fact| fact.name == name).unwrap().value;
    assert!(
        fact("time of the collective on the critical path per step") <= fact("total time of the collective per step"),
        "waits before it are no part of it"
    );
    let gain = program.found("SL019")[0].gain.unwrap();
    // Without it, a step is 300 µs shorter, less what the host takes to launch.
    assert!((250_000..=302_000).contains(&gain.likely_ns), "{gain:?}");
    assert_eq!(gain.low_ns, 0, "the other work may need the result at once");
    program = steps(|p, _| {
        collective(p, 80, 8);
        p.op("aten::mm", |p| p.kernel("gemm", 300));
        p.sync("cudaDeviceSynchronize");
    });
    assert_eq!(program.found("SL019"), []);
}

/// A stage of a pipeline waits for another rank; in an exchange of all ranks, each runs the same program.
#[test]
fn gains_of_waits_for_messages_depend_on_the_other_rank() {
    let program = |name: &str| {
        steps(|p, _| {
            p.op(&format!("c10d::{name}_"), |p| {
                let args = json!({"In msg nelems": 1000, "Collective name": name});
                p.launch(("cudaLaunchKernel", "kernel"), "ncclDevKernel_SendRecv", 500, 7, args);
            });
            p.op("aten::mm", |p| p.kernel("gemm", 300));
            p.sync("cudaDeviceSynchronize");
            p.work(200);
        })
    };
    let low_and_note = |name: &str| {
        let program = program(name);
        let gain = program.found("SL004")[0].gain.unwrap();
        assert!(gain.likely_ns > 50_000, "{name}: {gain:?}");
        let alone = Options { is_alone: true, ..Options::default() };
        let notes = |options: &Options| stackline_findings::find(&program.trace(), options).unwrap().notes;
        let is_about_messages = |note: &String| note.starts_with("sends and receives last until the other rank");
        assert!(!notes(&Options::default()).iter().any(is_about_messages), "{name}: other ranks are analyzed as well");
        (gain.low_ns, notes(&alone).iter().any(is_about_messages))
    };
    assert_eq!(low_and_note("recv"), (0, true));
    let (low, has_note) = low_and_note("all_to_all");
    assert!(low > 0 && !has_note, "{low}");
    let found = program("recv").found("SL019");
    assert!(found.len() == 1 && found[0].rule.advice.contains("irecv"), "{}", text(&found));
}

#[test]
fn search_for_unused_parameters() {
    const SEARCH: &str = "torch.distributed.ddp.reducer::search_unused_parameters";
    let searches = steps(|p, _| p.op(SEARCH, |p| p.work(400)));
    insta::assert_snapshot!(text(&searches.found("SL021")));
    let none = steps(|p, _| p.op("torch.distributed.ddp.reducer::copy_bucket_to_grad", |p| p.work(400)));
    assert_eq!(none.found("SL021"), []);
}

#[test]
fn late_ranks() {
    let of = |late: i64| {
        steps(|p, number| {
            collective(p, if number == 2 { late } else { 100 }, 7);
            p.sync("cudaDeviceSynchronize");
        })
    };
    let late = of(900);
    insta::assert_snapshot!(text(&late.found("SL023")));
    // 800 of four steps.
    assert_eq!(late.found("SL023")[0].gain.unwrap().likely_ns, 200_000);
    assert_eq!(of(150).found("SL023"), []);
}

/// One collective that gradients ask for, of so many elements.
fn named(program: &mut Program, (operator, kernel, name): (&str, &str, &str), elements: i64, us: i64) {
    let of = json!({"In msg nelems": elements, "Out msg nelems": elements, "Collective name": name, "Group size": 8,
        "Process Group Name": "0"});
    program.op(operator, |p| p.launch(("cudaLaunchKernel", "kernel"), kernel, us, 7, of));
}

fn all_reduce(program: &mut Program, elements: i64, us: i64) {
    named(program, ("c10d::allreduce_", ALL_REDUCE, "allreduce"), elements, us);
}

fn all_gather(program: &mut Program, elements: i64, us: i64) {
    let kernel = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    named(program, ("c10d::_allgather_base_", kernel, "_allgather_base"), elements, us);
}

#[test]
fn all_reduce_of_shards() {
    // Two buckets are reduced; parameters are gathered in one piece.
    let of = |gathered: i64, late: i64| {
        steps(|p, number| {
            all_reduce(p, 4 << 20, 400);
            all_reduce(p, 2 << 20, if number == 1 { 200 + late } else { 200 });
            p.op("aten::mm", |p| p.kernel("gemm", 50));
            all_gather(p, gathered, 300);
            p.sync("cudaDeviceSynchronize");
        })
    };
    let sharded = of(6 << 20, 0).found("SL020");
    insta::assert_snapshot!(text(&sharded));
    // Half of 600 µs, less the 8 µs that the host takes to launch; at least 40 %.
    let gain = sharded[0].gain.unwrap();
    assert!((280_000..=300_000).contains(&gain.likely_ns) && (220_000..=241_000).contains(&gain.low_ns), "{gain:?}");
    // One that waits for another rank would wait as long.
    let late = of(6 << 20, 800).found("SL020")[0].gain.unwrap();
    assert!((late.likely_ns - gain.likely_ns).abs() < 10_000 && late.high_ns > gain.high_ns + 90_000, "{late:?}");
    // Something else is gathered, or too little to speak of.
    assert_eq!(of(1 << 20, 0).found("SL020"), []);
    let small = steps(|p, _| {
        all_reduce(p, 1000, 400);
        all_gather(p, 1000, 400);
        p.sync("cudaDeviceSynchronize");
    });
    assert_eq!(small.found("SL020"), []);
    // Reduced by a switch, each element goes out once.
    let by_switch = steps(|p, _| {
        named(p, ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32_NVLS(args)", "allreduce"), 4 << 20, 400);
        all_gather(p, 4 << 20, 300);
        p.sync("cudaDeviceSynchronize");
    });
    assert_eq!(by_switch.found("SL020"), []);
}

#[test]
fn deepspeed_reductions_of_shards() {
    let of = |file: &str| {
        steps(|p, _| {
            p.python(&format!("{file}(1520): allreduce_bucket"), |p| all_reduce(p, 4 << 20, 400));
            p.sync("cudaDeviceSynchronize");
        })
    };
    let found = of("deepspeed/runtime/zero/stage_1_and_2.py").found("SL020");
    assert_eq!(found.len(), 1);
    assert!((190_000..=200_000).contains(&found[0].gain.unwrap().likely_ns), "{found:?}");
    assert_eq!(of("deepspeed/runtime/engine.py").found("SL020"), []);
}

/// Passes before one step of the optimizer: whether each reduces.
fn add_passes(p: &mut Program, passes: &[bool], hook: &str) {
    for &reduces in passes {
        p.annotation("DistributedDataParallel.forward", |p| p.op("aten::mm", |p| p.kernel("gemm", 50)));
        for us in [300, 200].into_iter().filter(|_| reduces) {
            p.op(hook, |p| all_reduce(p, us << 16, us));
        }
    }
    p.annotation("Optimizer.step#SGD.step", |p| p.op("aten::_foreach_add_", |p| p.kernel("foreach", 50)));
    p.sync("cudaDeviceSynchronize");
}

const HOOK: &str = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";

#[test]
fn reductions_of_incomplete_gradients() {
    fn of(passes: &[bool], hook: &str) -> Vec<Finding> {
        steps(|p, _| add_passes(p, passes, hook)).found("SL022")
    }
    let found = of(&[true, true, true], HOOK);
    insta::assert_snapshot!(text(&found));
    // Two of three passes with 500 µs each.
    assert!((995_000..=1_060_000).contains(&found[0].gain.unwrap().likely_ns), "{found:?}");
    // Repaired; one pass; others' reductions; a pass of something else.
    assert_eq!(of(&[false, false, true], HOOK), []);
    assert_eq!(of(&[true], HOOK), []);
    assert_eq!(of(&[true, true], "autograd::engine::evaluate_function: SyncBatchNormFunctionBackward"), []);
    assert_eq!(of(&[false, true, true], HOOK), []);
}

/// Findings of several ranks, as one list.
fn merged(all: Vec<(i64, Findings)>) -> Findings {
    merge(all, &Options::default(), &|_| true).unwrap()
}

/// A rank that computes for some time, then waits in a collective for so long.
fn rank(us: i64, waits: i64) -> Program {
    steps(|p, _| {
        p.op("aten::mm", |p| p.kernel("gemm", us));
        collective(p, waits, 7);
        p.op("aten::mm", |p| p.kernel("gemm", 60));
        p.sync("cudaDeviceSynchronize");
    })
}

/// Findings of two ranks of one job: each computes for its own time, then waits for the other in a collective.
fn two_ranks(computes: [i64; 2]) -> Findings {
    let slowest = computes[0].max(computes[1]);
    let rank = |us: i64| rank(us, slowest - us + 40).findings();
    let all = vec![(5, rank(computes[1])), (4, rank(computes[0]))];
    merged(all)
}

#[test]
fn optimizer_finding_without_steps() {
    let mut program = Program::new();
    add_passes(&mut program, &[true, true, true], HOOK);
    let found = program.found("SL022");
    let start = "Gradient reduction in each of 3 accumulated backward passes, although only the last needs it: ";
    let title = &found[0].title;
    assert!(title.starts_with(start) && !title.contains("per step"), "{title}");
    assert!(found[0].facts.iter().any(|fact| fact.name == "time of redundant AllReduces"), "{found:?}");
}

#[test]
fn findings_of_ranks_are_merged() {
    let found = two_ranks([300, 800]);
    let of = |code: &str| found.findings.iter().find(|f| f.rule.code == code).unwrap();
    let straggler = of("SL040");
    insta::assert_snapshot!(text(std::slice::from_ref(straggler)));
    assert_eq!((straggler.detail_rank(), straggler.gain.unwrap().likely_ns / 1000), (Some(5), 500));
    // The one that comes first waits in the collective; what it takes is what the last one sees of it.
    let communication = of("SL019");
    let ranks: Vec<i64> = communication.ranks.iter().map(|of| of.rank).collect();
    assert_eq!((ranks, communication.detail_rank()), (vec![4, 5], Some(5)));
    assert_eq!(communication.ranks[0].gain_ns, None);
    assert_eq!(communication.ranks[1].gain_ns, communication.gain.map(|gain| gain.likely_ns));
    assert_eq!(found.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(found.unchecked.iter().filter(|u| u.rule.code == "SL040").count(), 0);
    // Ranks that have other steps; ranks that are equally quick; one alone.
    let apart = |us| (us, steps(|p, _| collective(p, us, 7)).findings());
    let apart = merged(vec![apart(80), apart(800)]);
    assert!(apart.findings.iter().all(|f| f.rule.code != "SL040"));
    assert!(
        apart.notes.iter().any(|note| note.starts_with("SL040 (slowest rank) was not checked: ")),
        "{:?}",
        apart.notes
    );
    assert!(two_ranks([300, 303]).findings.iter().all(|f| f.rule.code != "SL040"));
    let program = steps(|p, _| collective(p, 80, 7));
    let alone = program.findings();
    assert!(alone.unchecked.iter().any(|u| u.rule.code == "SL040" && u.reason.sentence().contains("only one rank")));
    assert_eq!(merged(vec![(0, alone.clone())]), alone);
}

#[test]
fn straggler_finding_can_be_ignored() {
    let ranks = || vec![(0, rank(300, 540).findings()), (1, rank(800, 40).findings())];
    let is_straggler = |f: &&Finding| f.rule.code == "SL040";
    let of = |options: &Options| merge(ranks(), options, &|f| f.rule.code != "SL040").unwrap();
    let found = of(&Options::default());
    assert_eq!(
        (found.findings.iter().filter(is_straggler).count(), found.ignored.iter().filter(is_straggler).count()),
        (0, 1)
    );
    // It gains some 500 of 900 µs.
    let at_least = |percent: f64| {
        let options = Options { least_percent: percent, ..Options::default() };
        merge(ranks(), &options, &|_| true).unwrap()
    };
    let (low, high) = (at_least(40.0), at_least(70.0));
    assert_eq!(
        (low.findings.iter().filter(is_straggler).count(), high.findings.iter().filter(is_straggler).count()),
        (1, 0)
    );
    // What gains less of the slowest rank's step is left out, however much it is of its own rank's.
    for (found, percent) in [(&low, 40.0), (&high, 70.0)] {
        let gains = found.findings.iter().filter_map(|f| f.gain);
        let percents: Vec<f64> = gains.map(|gain| 100.0 * gain.likely_ns as f64 / found.step_ns as f64).collect();
        assert!(percents.iter().all(|gain| *gain >= percent), "{percents:?}");
    }
    assert!(high.small.len() > low.small.len());
    assert_eq!(high.small.len() + high.findings.len(), low.small.len() + low.findings.len());
}

#[test]
fn ranks_without_collectives_are_no_stragglers() {
    let silent = || {
        steps(|p, _| {
            p.op("aten::mm", |p| p.kernel("gemm", 900));
            p.sync("cudaDeviceSynchronize");
        })
    };
    let straggler = |found: &Findings| found.findings.iter().find(|f| f.rule.code == "SL040").cloned();
    // One waits, the other has no collectives: nothing to compare.
    let found = merged(vec![(0, rank(300, 540).findings()), (1, silent().findings())]);
    assert_eq!(straggler(&found), None);
    let note = "SL040 (slowest rank) excludes rank 1, because no collectives were recorded";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
    // Two wait, and one of them comes last; less certain than if all were known.
    let three = vec![(0, rank(300, 540).findings()), (1, silent().findings()), (2, rank(800, 40).findings())];
    let found = straggler(&merged(three)).unwrap();
    assert_eq!((found.detail_rank(), found.confidence), (Some(2), Confidence::Low));
    // No rank has any.
    let found = merged(vec![(0, silent().findings()), (1, silent().findings())]);
    assert!(found.unchecked.iter().any(|u| u.rule.code == "SL040" && u.reason.sentence().contains("no collectives")));
    assert!(found.notes.iter().all(|note| !note.contains("SL040")), "{:?}", found.notes);
}

#[test]
fn missing_ranks_of_a_job_are_named() {
    let of = |size: Option<i64>| {
        let on = |number: i64, (us, waits): (i64, i64)| {
            let mut trace = rank(us, waits).trace();
            (trace.meta.rank, trace.meta.world_size) = (Some(number), size);
            (number, find(&trace, &[]))
        };
        merged(vec![on(0, (300, 540)), on(5, (800, 40))])
    };
    let straggler = |found: &Findings| found.findings.iter().find(|f| f.rule.code == "SL040").cloned().unwrap();
    let part = of(Some(8));
    let note = "the input lacks 6 of the 8 ranks of the job (ranks 1-4, 6-7), so another rank may be slower, or arrive \
                last at collectives";
    assert!(part.notes.iter().any(|n| n == note), "{:?}", part.notes);
    let found = straggler(&part);
    assert!(found.title.starts_with("Straggler among the ranks with a trace: rank 5 "), "{}", found.title);
    assert_eq!((found.confidence, found.facts.last().map(|fact| fact.value)), (Confidence::Low, Some(8.0)));
    for whole in [of(None), of(Some(2))] {
        assert!(whole.notes.iter().all(|note| !note.contains("lacks")), "{:?}", whole.notes);
        let found = straggler(&whole);
        assert!(found.title.starts_with("Straggler: ") && found.confidence == Confidence::Medium, "{found:?}");
    }
}

#[test]
fn ranks_with_truncated_traces_are_not_compared() {
    // The collectives of its last steps are missing: it seems to wait least.
    let whole = rank(300, 540).text(json!({"id": 0}));
    let cut = find(&read(&whole[..whole.len() * 2 / 3]), &[]);
    assert!(cut.is_incomplete && cut.exposed_collectives_ns.is_some());
    let found = merged(vec![(0, rank(300, 540).findings()), (1, cut)]);
    assert!(found.findings.iter().all(|f| f.rule.code != "SL040"), "{:?}", found.findings);
    let note = "SL040 (slowest rank) excludes rank 1, because some records are missing";
    assert!(found.notes.iter().any(|n| n == note), "{:?}", found.notes);
}

/// Recorded ranks without GPU: one computes for so long, and both reduce until the other one is done.
fn gloo(compute: i64, waits: i64) -> Program {
    steps(|p, _| {
        p.op("aten::mm", |p| p.work(compute));
        p.op("c10d::allreduce_", |p| p.work(10));
        let now = p.now;
        p.thread_span(9, ("user_annotation", "gloo:all_reduce"), (now - 5, waits), json!({}));
        p.now += waits;
    })
}

/// A rank whose main thread waits in `wait` for a collective, after the other one loads for so long.
fn waits_for_rank(loads: i64, waits: i64) -> Program {
    steps(|p, _| {
        p.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", |p| {
            p.op("aten::stack", |p| p.work(loads.max(5)));
        });
        p.op("aten::mm", |p| p.work(1000));
        let now = p.now;
        p.thread_span(9, ("user_annotation", "gloo:all_reduce"), (now, waits + 4), json!({}));
        p.python("train.py(40): sync", |p| p.python("threading.py(323): Condition.wait", |p| p.work(waits)));
        p.op("aten::add", |p| p.work(100));
    })
}

/// One rank loads data, the other waits for it in a collective: one gain, that of the cause on the guilty rank.
#[test]
fn wait_for_another_rank_is_an_effect() {
    let alone = waits_for_rank(0, 3000).found("SL039");
    assert!(alone[0].title.starts_with("Waiting for other ranks: "), "{}", text(&alone));
    let found = merged(vec![(0, waits_for_rank(0, 3000).findings()), (1, waits_for_rank(2900, 100).findings())]);
    let of = |code: &str| found.findings.iter().filter(|f| f.rule.code == code).collect::<Vec<_>>();
    let cause = &waits_for_rank(2900, 100).found("SL009")[0];
    let [listed] = of("SL009")[..] else { panic!("{}", text(&found.findings)) };
    assert_eq!((listed.detail_rank(), listed.gain, &listed.edits), (Some(1), cause.gain, &cause.edits));
    assert_eq!(listed.facts.last().map(|fact| fact.value), Some(2900.0), "{:?}", listed.facts);
    // The rank that is late is named, without a gain of its own. A cause that moves, or is mended, makes it no other
    // finding.
    let [straggler] = of("SL040")[..] else { panic!("{}", text(&found.findings)) };
    assert_eq!((straggler.detail_rank(), straggler.gain, &straggler.edits), (Some(1), None, &Vec::new()));
    assert!(
        straggler.title.ends_with("; finding SL009 on the same rank is the cause of this wait and states the gain"),
        "{}",
        straggler.title
    );
    let without = merged(vec![(0, gloo(1000, 2500).findings()), (1, gloo(3000, 500).findings())]);
    let without = without.findings.iter().find(|f| f.rule.code == "SL040").unwrap();
    assert_eq!(Identity::from_finding(straggler), Identity::from_finding(without));
    assert_eq!(of("SL039"), Vec::<&Finding>::new(), "{}", text(&found.findings));
    let has_note =
        |start: &str, end: &str| found.notes.iter().any(|note| note.starts_with(start) && note.ends_with(end));
    assert!(has_note("findings of SL039 on other ranks are not listed", "(see SL009)"), "{:?}", found.notes);
    // Waits for something else stay.
    let other = steps(|p, _| {
        p.op("aten::mm", |p| p.work(1000));
        p.python("train.py(40): fetch", |p| p.python("queue.py(154): Queue.get", |p| p.work(2900)));
        p.op("c10d::allreduce_", |p| p.work(10));
        p.thread_span(9, ("user_annotation", "gloo:all_reduce"), (p.now - 5, 100), json!({}));
        p.now += 100;
    });
    let alone = other.found("SL039");
    assert!(alone[0].title.starts_with("Waiting for a queue: "), "{}", text(&alone));
}

/// All ranks sleep at one line, one of them for longer: the finding that all have is also the cause of the waits.
#[test]
fn cause_of_a_straggler_counts_once() {
    let sleeps = |us: i64, waits: i64| {
        let program = steps(|p, _| {
            p.op("aten::mm", |p| p.kernel("gemm", 60));
            p.python("train.py(40): poll", |p| p.python("<built-in function sleep>", |p| p.work(us)));
            collective(p, waits, 7);
            p.sync("cudaDeviceSynchronize");
        });
        program.findings()
    };
    let last = sleeps(3000, 100);
    let found = merged(vec![(0, sleeps(500, 2600)), (1, last.clone())]);
    let of = |code: &str| found.findings.iter().filter(|f| f.rule.code == code).collect::<Vec<_>>();
    let [cause] = of("SL039")[..] else { panic!("{}", text(&found.findings)) };
    assert_eq!((cause.ranks.len(), cause.detail_rank()), (2, Some(1)));
    // The gain is that of its edits on its rank, and the waits, 2,600 - 100 µs, are a fact.
    let alone = last.findings.iter().find(|f| f.rule.code == "SL039").unwrap();
    assert_eq!((cause.gain, &cause.edits), (alone.gain, &alone.edits));
    assert_eq!(cause.facts.last().map(|fact| fact.value), Some(2500.0), "{:?}", cause.facts);
    let [straggler] = of("SL040")[..] else { panic!("{}", text(&found.findings)) };
    assert_eq!((straggler.gain, found.combined), (None, last.combined), "{}", text(&found.findings));
}

/// All ranks wait for the GPU in each step, and only one runs a slow function: the function is the cause, although the
/// wait gains more on that rank than on the other, which waits in the collective.
#[test]
fn cause_of_a_straggler_is_what_other_ranks_lack() {
    let rank = |us: i64, waits: i64| {
        let program = steps(|p, _| {
            if us > 0 {
                p.python("aug.py(17): tokenize", |p| p.work(us));
            }
            p.op("aten::mm", |p| p.kernel("gemm", 2000));
            collective(p, waits, 7);
            p.op("aten::_local_scalar_dense", |p| p.sync("cudaStreamSynchronize"));
        });
        program.findings()
    };
    let found = merged(vec![(0, rank(0, 3100)), (1, rank(3000, 100))]);
    let of = |code: &str| found.findings.iter().find(|f| f.rule.code == code);
    // The others wait for 3,100 - 100 µs, and the gain of the function assumes that half of its 3,000 µs are saved.
    let waits = |code: &str| of(code).and_then(|f| f.facts.last()).map(|fact| (fact.name.contains("wait"), fact.value));
    assert_eq!(waits("SL005"), Some((true, 3000.0)), "{}", text(&found.findings));
    assert_ne!(waits("SL004").map(|(_, value)| value), Some(3000.0), "{}", text(&found.findings));
    let straggler = of("SL040").unwrap();
    assert!(
        straggler.title.ends_with("; finding SL005 on the same rank is the cause of this wait and states the gain"),
        "{}",
        straggler.title
    );
    assert_eq!(straggler.gain, None);
}

#[test]
fn cpu_collectives_identify_the_last_rank() {
    let found = merged(vec![(0, gloo(1000, 2500).findings()), (1, gloo(3000, 500).findings())]);
    let straggler = found.findings.iter().find(|f| f.rule.code == "SL040");
    assert_eq!(straggler.and_then(Finding::detail_rank), Some(1), "{}", text(&found.findings));
    assert_eq!(straggler.map(|f| f.gain_ns() / 1000), Some(2000));
    assert!(!found.unchecked.iter().any(|u| u.rule.code == "SL040"));
    let table = tl_coll_analysis::table(&gloo(1000, 2500).trace(), &Scope::default(), Definition::Exact);
    let is = |name: &str, expected: &str| {
        assert!(format!("{:?}", table.column(name).unwrap()).contains(expected), "{table:?}");
    };
    assert_eq!(table.rows(), 1);
    is("collective", "gloo:all_reduce");
    is("family", "\"all_reduce\"");
}
