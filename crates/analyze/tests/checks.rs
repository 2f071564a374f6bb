//! Each check on a small trace that violates its rule, and on a valid twin.

use crate::support::{for_each_trace, read};
use stackline_analyze::checks::{ALL, Outcome};
use stackline_ingest::diagnostics;
use stackline_model::{Trace, flags};
use stackline_testkit::mini::MiniTrace;

/// A trace whose times count from a second on.
fn trace(lines: &str) -> Trace {
    let mut trace = MiniTrace::new("");
    trace.add_at(1_000_000, lines);
    read(trace.json())
}

/// A kernel on stream 20, an event recorded after it at `record`, and a kernel on stream 7 that waits for `id`.
fn waiting(record: i64, id: i64) -> String {
    format!(
        "100/100  cuda_runtime  cudaLaunchKernel     -60+5        correlation=7
         gpu0/20  kernel        producer             -50+40       correlation=7
         100/100  cuda_runtime  cudaEventRecord      {record}+3   correlation=9
         100/100  cuda_runtime  cudaStreamWaitEvent  0+3          correlation=1
         100/100  cuda_runtime  cudaLaunchKernel     5+5          correlation=8
         gpu0/7   kernel        consumer             15+5         correlation=8
         gpu0/7   cuda_sync     Stream Wait Event    1+0          correlation=1 wait_on_cuda_event_record_corr_id={id}"
    )
}

/// A launch, and its kernel.
fn launched(start: i64, duration: i64) -> String {
    format!(
        "100/100  cuda_runtime  cudaLaunchKernel  0+5                 correlation=1
         gpu0/7   kernel        k                 {start}+{duration}  correlation=1"
    )
}

fn collective(fields: &str) -> String {
    format!(
        "100/100  cuda_runtime  cudaLaunchKernel                          0+5     correlation=1
         gpu0/7   kernel        ncclDevKernel_AllReduce_Sum_f32_RING_LL() 10+100  correlation=1 {fields}"
    )
}

/// A pass of the backward graph: nodes by sequence number on a thread, from `start` on.
fn backward(start: i64, thread: i64, nodes: &[(i64, &str)]) -> String {
    let line = |(number, name): &(i64, &str)| {
        let at = start + (9 - number) * 20;
        format!("100/{thread} cpu_op {name} {at}+10 Sequence number={number} Fwd thread id=1\n")
    };
    nodes.iter().map(line).collect()
}

const FIELDS: &str = "Collective name=allreduce In msg nelems=8 Out msg nelems=8 Group size=8 dtype=Float";

/// Events that follow the rule of a check, and events that break it once.
fn twins(check: &str) -> [String; 2] {
    let sound = launched(10, 15);
    let with = |lines: &str, more: &str| format!("{lines}\n{more}");
    let shifted = |by: i64| {
        let one = |i: i64| {
            let (at, id) = (100 * i, i + 1);
            let kernel = format!("gpu0/7 kernel k {}+20 correlation={id}", at + 10 + by);
            format!("100/100 cuda_runtime cudaLaunchKernel {at}+5 correlation={id}\n{kernel}\n")
        };
        (0..20).map(one).collect()
    };
    match check {
        "kernel_before_launch" => [sound, launched(-10, 15)],
        "launch_without_record" => {
            let broken = with(&sound, "100/100 cuda_runtime cudaLaunchKernel 30+5 correlation=2");
            [sound, broken]
        }
        "record_without_launch" => {
            let broken = with(&sound, "gpu0/7 kernel orphan 40+5 correlation=3");
            [sound, broken]
        }
        "wait_without_record" => [waiting(-45, 9), waiting(-45, -1)],
        "wait_on_future_record" => [waiting(-45, 9), waiting(50, 9)],
        "sync_ends_early" => {
            let wait = "100/100 cuda_runtime cudaStreamSynchronize 12+20 correlation=2
                gpu0/7 cuda_sync Stream Sync 12+20 correlation=2";
            [with(&sound, wait), with(&launched(10, 100), wait)]
        }
        "collective_fields" => [collective(FIELDS), collective("Group size=8")],
        "sequence_number_twice" => {
            let sound = "100/100  cpu_op  aten::mm     0+10    Sequence number=5 Fwd thread id=0
                         100/101  cpu_op  MmBackward0  100+10  Sequence number=5 Fwd thread id=1
                         100/101  cpu_op  MmBackward0  102+3   Sequence number=5 Fwd thread id=1";
            let again = "100/101 cpu_op MmBackward0 200+10 Sequence number=5 Fwd thread id=1";
            [sound.to_owned(), with(sound, again)]
        }
        "times_left_out" => {
            let broken = "100/100 cuda_runtime cudaLaunchKernel 30+5 correlation=2
                gpu0/7 kernel k -1000000+0 correlation=2";
            let broken = with(&sound, broken);
            [sound, broken]
        }
        "device_clock" => [shifted(0), shifted(-100_000)],
        other => panic!("the check {other} has no twins"),
    }
}

#[test]
fn each_check_detects_its_violation() {
    for check in ALL {
        let [sound, broken] = twins(check.name).map(|lines| (check.run)(&trace(&lines)));
        assert!(sound.checked > 0 && sound.breaches.is_empty(), "{}: {sound:?}", check.name);
        let Outcome { breaches, checked } = &broken;
        assert!(breaches.len() == 1 && *checked > 0, "{}: {broken:?}", check.name);
    }
}

#[test]
fn device_clock_fails_where_launches_contradict_waits() {
    let clock = ALL.iter().find(|check| check.name == "device_clock").unwrap();
    let wait = "100/100 cuda_runtime cudaDeviceSynchronize 12+20 correlation=2";
    let outcome = |start: i64, duration: i64| {
        let trace = trace(&format!("{}\n{wait}", launched(start, duration)));
        assert_eq!(trace.meta.clocks[0].is_contradictory(), !(clock.run)(&trace).breaches.is_empty());
        (clock.run)(&trace).breaches.into_iter().map(|(_, why)| why).collect::<Vec<_>>()
    };
    assert_eq!(outcome(10, 15), [""; 0]);
    let why = "the launches of device 0 require a shift of its times by at least -10000 ns, but the calls that wait for \
               it allow at most -78000 ns";
    assert_eq!(outcome(10, 100), [why]);
}

#[test]
fn checks_name_codes_that_sources_emit() {
    let emitted = |code: &str| diagnostics::ALL.iter().any(|known| known.code == code);
    for check in ALL {
        let unknown: Vec<_> = check.read_codes.iter().filter(|code| !emitted(code)).collect();
        assert!(unknown.is_empty(), "{}: no source emits {unknown:?}", check.name);
    }
}

#[test]
fn codes_of_excluded_times_are_named_by_their_check() {
    let check = ALL.iter().find(|check| check.name == "times_left_out").unwrap();
    let excludes = |message: &str| {
        ["excluded from all totals", "excluded from time windows and totals"].iter().any(|text| message.contains(text))
    };
    // A message that names another code is about the records that the other code counts.
    let codes = diagnostics::ALL.iter().filter(|known| excludes(known.message) && !known.message.contains('`'));
    let unnamed: Vec<_> = codes.map(|known| known.code).filter(|code| !check.read_codes.contains(code)).collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

#[test]
fn valid_traces_pass_all_other_checks() {
    let unrelated = ["launch_without_record", "record_without_launch"];
    for twin in ALL.iter().map(|check| check.name) {
        let [sound, _] = twins(twin).map(|lines| trace(&lines));
        for check in ALL.iter().filter(|check| !unrelated.contains(&check.name)) {
            assert_eq!((check.run)(&sound).breaches, [], "{twin} breaks {}", check.name);
        }
    }
}

#[test]
fn waits_for_an_event_end_after_what_was_launched_before_its_record() {
    let early: fn(&Trace) -> Outcome = ALL.iter().find(|check| check.name == "sync_ends_early").unwrap().run;
    // What is launched after the record is not waited for.
    let waits = |returns: i64| {
        trace(&format!(
            "100/100  cuda_runtime  cudaLaunchKernel      0+5          correlation=1
             gpu0/7   kernel        k                     10+100       correlation=1
             100/100  cuda_runtime  cudaEventRecord       6+2          correlation=2
             100/100  cuda_runtime  cudaLaunchKernel      8+5          correlation=3
             gpu0/7   kernel        k                     110+500      correlation=3
             100/100  cuda_runtime  cudaEventSynchronize  20..{returns}  correlation=4
             gpu0/7   cuda_sync     Event Sync            20..{returns}  correlation=4 wait_on_stream=7 wait_on_cuda_event_record_corr_id=2"
        ))
    };
    let outcome = early(&waits(120));
    assert_eq!((outcome.checked, outcome.breaches.len()), (1, 0), "{outcome:?}");
    assert_eq!(early(&waits(60)).breaches.len(), 1);
    assert_eq!([60, 120].map(|returns| waits(returns).report.count_of("kernel_after_wait")), [1, 0]);
}

#[test]
fn early_returns_are_those_of_the_read_report() {
    let early: fn(&Trace) -> Outcome = ALL.iter().find(|check| check.name == "sync_ends_early").unwrap().run;
    let copied = trace(
        "100/100  cpu_op        aten::copy_                     90+100
         100/100  cuda_runtime  cudaMemcpyAsync                 100+5   correlation=1
         gpu0/7   gpu_memcpy    Memcpy DtoH (Device -> Pinned)  150+10  correlation=1
         100/100  cuda_runtime  cudaStreamSynchronize           106+24  correlation=2",
    );
    let outcome = early(&copied);
    assert_eq!((outcome.checked, outcome.breaches.len()), (1, 1), "it waits for the copy: {outcome:?}");
    assert_eq!(copied.report.count_of("kernel_after_wait"), 1);
}

#[test]
fn fills_without_record_and_foreign_collectives_pass() {
    let run = |name: &str, lines: &str| (ALL.iter().find(|check| check.name == name).unwrap().run)(&trace(lines));
    let fill = format!("{}\n100/100 cuda_runtime cudaMemsetAsync 20+1 correlation=2", launched(10, 5));
    assert_eq!(run("launch_without_record", &fill).breaches, []);
    let collective = "gpu0/7 kernel ncclDevKernel_AllReduce_Sum_f32_RING_LL() 10+100 correlation=1";
    assert_eq!(run("collective_fields", collective).checked, 0, "of XProf");
    let of_torch = format!("100/100 cpu_op aten::mm 0+10\n{collective}");
    assert_eq!(run("collective_fields", &of_torch).breaches.len(), 1);
}

/// Three nodes in their order, twice: two loss values share a graph, or one is differentiated twice.
#[test]
fn repeated_backward_graph_passes() {
    let nodes = [(7, "MseLossBackward0"), (6, "AddmmBackward0"), (5, "ReluBackward0")];
    let pass = |pass: i64| backward(pass * 1_000, 101, &nodes);
    let twice: fn(&Trace) -> Outcome = ALL.iter().find(|check| check.name == "sequence_number_twice").unwrap().run;
    assert_eq!(twice(&trace(&[pass(0), pass(1), pass(2)].concat())).breaches, []);
    let of_others = backward(1_000, 101, &[(7, "MulBackward0"), (6, "DivBackward0"), (5, "SubBackward0")]);
    assert_eq!(twice(&trace(&[pass(0), of_others].concat())).breaches.len(), 3);
    // A number that two others have is told beside a graph that runs again.
    let others =
        [(280, "MulBackward0"), (380, "DivBackward0")].map(|(at, name)| backward(at, 101, &[(3, name)])).concat();
    assert_eq!(twice(&trace(&[pass(0), others, pass(1)].concat())).breaches.len(), 1);
    // The same on another thread: two processes with one number.
    assert_eq!(twice(&trace(&[pass(0), backward(1_000, 102, &nodes)].concat())).breaches.len(), 3);
}

/// Events of an operator whose time is lost are in no operator, and cause no second claim.
#[test]
fn children_of_lost_operators_count_once() {
    let twice: fn(&Trace) -> Outcome = ALL.iter().find(|check| check.name == "sequence_number_twice").unwrap().run;
    let nodes = [(0, "MulBackward0"), (100, "aten::mul"), (200, "aten::mul_")];
    let mut trace = trace(&nodes.map(|(at, name)| backward(at, 101, &[(3, name)])).concat());
    assert_eq!(twice(&trace).breaches.len(), 2);
    let outer = trace.events.ids().find(|event| trace.name(*event) == "MulBackward0").unwrap();
    trace.events.flags[outer.index()] |= flags::IMPLAUSIBLE;
    assert_eq!(twice(&trace).breaches, []);
}

#[test]
fn real_traces_pass_causality_checks() {
    let sound = ["nvidia-h100-bert-small", "nvidia-b200-eager-nccl", "amd-mi300-timesformer", "nvidia-2080ti-linear"];
    for_each_trace(|name, trace| {
        if !sound.iter().any(|s| name.contains(s)) {
            return;
        }
        for check in ALL {
            assert_eq!((check.run)(trace).breaches.len(), 0, "{name}: {}", check.name);
        }
    });
}
