//! Links of kernels to launches, contexts and steps, and of forward to backward operators.

use crate::forms::dump::{backward, codes, gpu, read};
use stackline_testkit::mini;

/// A line of a mini trace; times in µs, arguments as members of a JSON object.
fn complete(category: &str, name: &str, pid: u32, tid: u32, ts: f64, dur: f64, args: &str) -> String {
    format!("{pid}/{tid} {category} {name} {ts}+{dur} {{{args}}}")
}

fn call(name: &str, pid: u32, ts: f64, correlation: i64) -> String {
    format!("{pid}/1 cuda_runtime {name} {ts}+1 correlation={correlation}")
}

fn kernel(name: &str, device: u32, ts: f64, correlation: i64) -> String {
    format!("gpu{device}/7 kernel {name} {ts}+2 correlation={correlation}")
}

fn list(lines: &[String]) -> String {
    mini::trace(&format!("file -\n{}", lines.join("\n")))
}

/// Operation and its launch with the launch's process.
fn launched(json: &str) -> Vec<String> {
    let trace = read(json);
    let row = |i: usize| {
        let from = trace.gpu.launch[i].some().map_or("-".to_owned(), |e| {
            let pid = crate::forms::dump::key(&trace, trace.tracks.pid(trace.events.track[e.index()]));
            format!("{}@{} of {pid}", trace.name(e), trace.events.start[e.index()] / 1000)
        });
        format!("{} <- {from}", trace.name(trace.gpu.event[i]))
    };
    (0..trace.gpu.len()).map(row).collect()
}

#[test]
fn one_call_launches_many_kernels_and_some_kernels_have_no_call() {
    let json = list(&[
        complete("cpu_op", "op", 1, 1, 0.0, 20.0, ""),
        call("cudaGraphLaunch", 1, 5.0, 9),
        call("cudaLaunchKernel", 1, 8.0, 10),
        kernel("a", 0, 30.0, 9),
        kernel("b", 0, 33.0, 9),
        kernel("c", 0, 36.0, 9),
        kernel("orphan", 0, 40.0, 77),
        kernel("zero", 0, 43.0, 0),
        complete("kernel", "none", 0, 7, 46.0, 1.0, "\"stream\": 7"),
    ]);
    let rows = ["a", "b", "c"].map(|k| format!("{k} <- cudaGraphLaunch@5 of 1"));
    let trace = read(&json);
    assert_eq!(launched(&json)[..3], rows);
    assert_eq!(launched(&json)[3..], ["orphan <- -", "zero <- -", "none <- -"]);
    assert_eq!(trace.gpu.correlation, [9, 9, 9, 77, -1, -1]);
    assert_eq!(codes(&trace), ["no_device_record", "no_launch*3"]);
    assert_eq!(trace.gpu.operator.iter().filter(|o| o.is_some()).count(), 3);
}

#[test]
fn ranks_merged_into_one_file_share_correlation_ids() {
    // Two processes, each driving its own device, both counting from 1.
    let mut records = Vec::new();
    for (rank, pid) in [(0u32, 100u32), (1, 200)] {
        for id in 1..=3 {
            records.push(call("cudaLaunchKernel", pid, f64::from(rank) + id as f64 * 10.0, id));
            records.push(kernel(&format!("k{id} of {rank}"), rank, id as f64 * 10.0 + 5.0, id));
        }
        // IDs that only one process has identify the device's process.
        records.push(call("cudaLaunchKernel", pid, 90.0, 50 + i64::from(rank)));
        records.push(kernel(&format!("own of {rank}"), rank, 95.0, 50 + i64::from(rank)));
    }
    let rows = launched(&list(&records));
    let expected = [
        "k1 of 0 <- cudaLaunchKernel@10 of 100",
        "k2 of 0 <- cudaLaunchKernel@20 of 100",
        "k3 of 0 <- cudaLaunchKernel@30 of 100",
        "own of 0 <- cudaLaunchKernel@90 of 100",
        "k1 of 1 <- cudaLaunchKernel@11 of 200",
        "k2 of 1 <- cudaLaunchKernel@21 of 200",
        "k3 of 1 <- cudaLaunchKernel@31 of 200",
        "own of 1 <- cudaLaunchKernel@90 of 200",
    ];
    assert_eq!(rows, expected);
    assert_eq!(codes(&read(&list(&records))), ["ambiguous_launch*6"]);
}

/// No ID belongs to one process only: each rank runs the same program.
#[test]
fn ranks_of_one_program_merged_into_one_file_keep_their_kernels() {
    let mut own_numbers = Vec::new();
    let mut one_number = Vec::new();
    for (rank, pid) in [(0u32, 100u32), (1, 200)] {
        for id in 1..=3 {
            let name = format!("k{id} of {rank}");
            let launch = call("cudaLaunchKernel", pid, f64::from(rank) + id as f64 * 10.0, id);
            own_numbers.extend([launch.clone(), kernel(&name, rank, id as f64 * 10.0 + 5.0, id)]);
            // Both use device 0, and the merge has renumbered the processes of GPUs.
            let args = format!("\"device\": 0, \"stream\": 7, \"correlation\": {id}");
            one_number.extend([launch, complete("kernel", &name, 1000 + rank, 7, id as f64 * 10.0 + 5.0, 2.0, &args)]);
        }
    }
    let expected = [
        "k1 of 0 <- cudaLaunchKernel@10 of 100",
        "k2 of 0 <- cudaLaunchKernel@20 of 100",
        "k3 of 0 <- cudaLaunchKernel@30 of 100",
        "k1 of 1 <- cudaLaunchKernel@11 of 200",
        "k2 of 1 <- cudaLaunchKernel@21 of 200",
        "k3 of 1 <- cudaLaunchKernel@31 of 200",
    ];
    for records in [own_numbers, one_number] {
        assert_eq!(launched(&list(&records)), expected);
        assert_eq!(codes(&read(&list(&records))), ["ambiguous_launch*6"]);
    }
}

/// Two runs of one program, one after the other on the same device: all calls of the first run precede all kernels.
#[test]
fn runs_of_one_program_in_one_file_keep_their_kernels() {
    let mut records = Vec::new();
    for (run, pid) in [(0u32, 100u32), (1, 200)] {
        for id in 1..=3 {
            let at = f64::from(run) * 1000.0 + id as f64 * 10.0;
            records.push(call("cudaLaunchKernel", pid, at, id));
            records.push(kernel(&format!("k{id} of {run}"), 0, at + 5.0, id));
        }
    }
    let expected = [
        "k1 of 0 <- cudaLaunchKernel@10 of 100",
        "k2 of 0 <- cudaLaunchKernel@20 of 100",
        "k3 of 0 <- cudaLaunchKernel@30 of 100",
        "k1 of 1 <- cudaLaunchKernel@1010 of 200",
        "k2 of 1 <- cudaLaunchKernel@1020 of 200",
        "k3 of 1 <- cudaLaunchKernel@1030 of 200",
    ];
    assert_eq!(launched(&list(&records)), expected);
}

#[test]
fn kernels_link_to_the_last_preceding_call_with_their_id() {
    // A counter that wrapped: the same id long before and after.
    let json = list(&[
        call("first", 1, 0.0, 4),
        kernel("k1", 0, 5.0, 4),
        call("second", 1, 50.0, 4),
        kernel("k2", 0, 55.0, 4),
    ]);
    assert_eq!(launched(&json), ["k1 <- first@0 of 1", "k2 <- second@50 of 1"]);
    // No call precedes it: the clocks differ, and the first call is used.
    let json = list(&[kernel("k", 0, 1.0, 4), call("a", 1, 2.0, 4), call("b", 1, 3.0, 4)]);
    assert_eq!(launched(&json), ["k <- a@2 of 1"]);
}

#[test]
fn only_calls_launch_kernels() {
    let json = list(&[
        complete("cpu_op", "op", 1, 1, 0.0, 9.0, "\"correlation\": 4"),
        complete("cuda_sync", "sync", 0, 7, 1.0, 1.0, "\"correlation\": 4"),
        kernel("k", 0, 5.0, 4),
    ]);
    assert_eq!(launched(&json), ["k <- -"]);
}

#[test]
fn launch_contexts_enclose_the_launch_call() {
    let json = list(&[
        complete("user_annotation", "ProfilerStep#1", 1, 1, 0.0, 50.0, ""),
        complete("user_annotation", "ProfilerStep#2", 1, 1, 50.0, 50.0, ""),
        complete("python_function", "nn.Module: Block_0", 1, 1, 1.0, 40.0, ""),
        complete("python_function", "model.py(3): forward", 1, 1, 2.0, 38.0, ""),
        complete("user_annotation", "attention", 1, 1, 3.0, 30.0, ""),
        complete("cpu_op", "outer", 1, 1, 4.0, 20.0, ""),
        complete("cpu_op", "inner", 1, 1, 5.0, 10.0, ""),
        call("cudaLaunchKernel", 1, 6.0, 1),
        // The kernel runs in the second step; an operator of another thread is not its context.
        complete("cpu_op", "elsewhere", 1, 2, 0.0, 100.0, ""),
        kernel("k", 0, 60.0, 1),
        call("cudaLaunchKernel", 1, 45.0, 2),
        kernel("late", 0, 64.0, 2),
    ]);
    let rows = [
        "k 1 0/7 launch=cudaLaunchKernel op=inner py=model.py(3): forward module=nn.Module: Block_0 annotation=attention step=1",
        "late 2 0/7 launch=cudaLaunchKernel op=- py=- module=- annotation=- step=1",
    ];
    assert_eq!(gpu(&read(&json)), rows);
}

#[test]
fn external_id_names_the_operator_without_a_call() {
    let json = list(&[
        complete("user_annotation", "ProfilerStep#3", 1, 1, 0.0, 50.0, ""),
        complete("cpu_op", "outer", 1, 1, 1.0, 20.0, "\"External id\": 6"),
        complete("cpu_op", "inner", 1, 1, 2.0, 10.0, "\"External id\": 7"),
        complete("kernel", "k", 0, 7, 10.0, 2.0, "\"External id\": 7, \"correlation\": 5, \"stream\": 7"),
        complete("kernel", "old spelling", 0, 7, 13.0, 2.0, "\"external id\": 6, \"stream\": 7"),
        complete("kernel", "unknown id", 0, 7, 16.0, 2.0, "\"External id\": 99, \"stream\": 7"),
    ]);
    let rows = [
        "k 5 0/7 launch=- op=inner py=- module=- annotation=- step=3",
        "old spelling -1 0/7 launch=- op=outer py=- module=- annotation=- step=3",
        "unknown id -1 0/7 launch=- op=- py=- module=- annotation=- step=-",
    ];
    assert_eq!(gpu(&read(&json)), rows);
}

#[test]
fn forward_to_backward_by_sequence_number() {
    let op = |name: &str, tid: u32, ts: f64, sequence: i64, forward_thread: i64| {
        let args = format!("\"Sequence number\": {sequence}, \"Fwd thread id\": {forward_thread}");
        complete("cpu_op", name, 1, tid, ts, 1.0, &args)
    };
    let json = list(&[
        op("linear", 1, 0.0, 10, 0),
        op("addmm", 1, 0.2, 10, 0),
        op("relu", 1, 2.0, 11, 0),
        op("no grad", 1, 4.0, -1, 0),
        op("ReluBackward", 2, 10.0, 11, 1),
        op("AddmmBackward", 2, 12.0, 10, 1),
        op("NoPartner", 2, 14.0, 99, 1),
        op("NoNumber", 2, 16.0, -1, 1),
    ]);
    // The last (innermost) operator with the number is the one that autograd recorded.
    assert_eq!(backward(&read(&json)), ["relu -> ReluBackward", "addmm -> AddmmBackward"]);
}

#[test]
fn sequence_numbers_count_per_thread_and_process() {
    let op = |name: &str, pid: u32, tid: u32, ts: f64, sequence: i64, forward_thread: i64| {
        let args = format!("\"Sequence number\": {sequence}, \"Fwd thread id\": {forward_thread}");
        complete("cpu_op", name, pid, tid, ts, 1.0, &args)
    };
    let json = list(&[
        op("a0", 1, 10, 0.0, 0, 0),
        op("a1", 1, 10, 2.0, 1, 0),
        op("a2", 1, 10, 4.0, 2, 0),
        op("b1", 1, 20, 2.5, 1, 0),
        op("b2", 1, 20, 4.5, 2, 0),
        op("b3", 1, 20, 6.0, 3, 0),
        op("other process", 2, 10, 5.0, 1, 0),
        // Numbers 0 and 3 show that forward thread 1 is thread 10, and 2 is thread 20.
        op("B3", 1, 99, 20.0, 3, 2),
        op("B1", 1, 99, 22.0, 1, 2),
        op("A1", 1, 99, 24.0, 1, 1),
        op("A0", 1, 99, 26.0, 0, 1),
        op("Other", 2, 99, 28.0, 1, 1),
        // Before any forward operator with the number: no partner.
        op("Early", 1, 99, 1.0, 2, 1),
    ]);
    assert_eq!(backward(&read(&json)), ["b3 -> B3", "b1 -> B1", "a1 -> A1", "a0 -> A0", "other process -> Other"]);
}

#[test]
fn recorded_arrows_take_precedence_over_sequence_numbers() {
    let op = |name: &str, tid: u32, ts: f64, args: &str| complete("cpu_op", name, 1, tid, ts, 2.0, args);
    let arrow = |phase: &str, tid: u32, ts: f64| format!("1/{tid} fwdbwd fwdbwd {phase}@{ts} .id=5 .bp=e");
    let json = list(&[
        op("forward", 1, 0.0, "\"Sequence number\": 1, \"Fwd thread id\": 0"),
        op("decoy", 1, 4.0, "\"Sequence number\": 2, \"Fwd thread id\": 0"),
        op("backward", 2, 10.0, "\"Sequence number\": 2, \"Fwd thread id\": 1"),
        arrow("f", 2, 10.0),
        arrow("s", 1, 0.0),
    ]);
    assert_eq!(backward(&read(&json)), ["forward -> backward"]);
}

#[test]
fn arrows_to_backward_stay_within_a_process() {
    let op = |name: &str, pid: u32, tid: u32, ts: f64| complete("cpu_op", name, pid, tid, ts, 2.0, "");
    let arrow =
        |phase: &str, pid: u32, tid: u32, ts: f64| format!("{pid}/{tid} fwdbwd fwdbwd {phase}@{ts} .id=1 .bp=e");
    let json = list(&[
        op("forward of 1", 1, 1, 0.0),
        op("forward of 2", 2, 1, 1.0),
        op("backward of 1", 1, 2, 10.0),
        op("backward of 2", 2, 2, 11.0),
        arrow("s", 1, 1, 0.0),
        arrow("s", 2, 1, 1.0),
        arrow("f", 1, 2, 10.0),
        arrow("f", 2, 2, 11.0),
    ]);
    assert_eq!(backward(&read(&json)), ["forward of 1 -> backward of 1", "forward of 2 -> backward of 2"]);
}

#[test]
fn steps_and_external_ids_stay_within_a_process() {
    let json = list(&[
        complete("user_annotation", "ProfilerStep#1", 1, 1, 0.0, 90.0, ""),
        complete("user_annotation", "ProfilerStep#7", 2, 1, 5.0, 90.0, ""),
        complete("cpu_op", "of 1", 1, 1, 10.0, 9.0, "\"External id\": 3"),
        complete("cpu_op", "of 2", 2, 1, 10.0, 9.0, "\"External id\": 3"),
        call("cudaLaunchKernel", 1, 11.0, 21),
        call("cudaLaunchKernel", 2, 12.0, 22),
        kernel("k1", 0, 30.0, 21),
        kernel("k2", 1, 30.0, 22),
        // Both processes have an operator 3, so the ID is ambiguous.
        complete("kernel", "k3", 0, 7, 40.0, 2.0, "\"External id\": 3, \"device\": 0, \"stream\": 7"),
    ]);
    let rows = [
        "k1 21 0/7 launch=cudaLaunchKernel op=of 1 py=- module=- annotation=- step=1",
        "k2 22 1/7 launch=cudaLaunchKernel op=of 2 py=- module=- annotation=- step=7",
        "k3 -1 0/7 launch=- op=- py=- module=- annotation=- step=-",
    ];
    assert_eq!(gpu(&read(&json)), rows);
}
