//! Edits that change nothing, selectors that could mean several things, threads that cannot take turns.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code outside test functions"
)]

use crate::support::{for_each_small_trace, mini, read};
use serde_json::json;
use stackline_critical_path::CriticalPathError;
use stackline_critical_path::exact::what_if;
use stackline_critical_path::exact::what_if::{Edit, Prediction};
use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_model::{RECORDING, Trace};
use stackline_testkit::mini::MiniTrace;
use std::cell::Cell;

fn predict(trace: &Trace, edit: &str) -> Result<Prediction, CriticalPathError> {
    what_if::predict(trace, &WindowChoice::Whole, &[Edit::parse(edit).unwrap()])
}

fn bounds(found: &Prediction) -> [i64; 3] {
    [found.gain.low_ns, found.gain.likely_ns, found.gain.high_ns]
}

#[test]
fn scaling_by_one_has_no_gain() {
    let (done, with_other_clocks) = (Cell::new(0), Cell::new(0));
    for_each_small_trace(|name, trace| {
        for selector in ["kernel:*", "operator:*", "frame:*", "category:launch_latency", "category:host_python"] {
            // Some traces have no such thing.
            let Ok(found) = predict(trace, &format!("scale {selector} 1.0")) else { continue };
            assert_eq!(bounds(&found), [0; 3], "{name} {selector}");
            done.set(done.get() + 1);
            with_other_clocks.set(with_other_clocks.get() + u32::from(Exact::new(trace).clocks_disagree()));
        }
    });
    println!("{} edits, {} of them where clocks disagree", done.get(), with_other_clocks.get());
}

/// Findings name functions by the line that ran, and traces name frames by their first line.
#[test]
fn functions_match_without_file_and_line() {
    let trace = read(
        mini(
            "10/10  python_function  train.py(1): main      0+1000
             10/10  cpu_op           aten::mm               0+100
             10/10  python_function  data.py(5): augment    100+200
             10/10  python_function  data.py(20): A.load    300+100
             10/10  python_function  files.py(8): B.load    400+100
             10/10  cpu_op           aten::mm               900+100",
        )
        .json(),
    );
    let gain = |selector: &str| predict(&trace, &format!("remove frame:{selector}")).map(|found| found.gain.likely_ns);
    let augment = gain("data.py(5): augment");
    assert!(augment.as_ref().is_ok_and(|&ns| ns > 0), "{augment:?}");
    for name in ["augment", "data.py: augment", "data.py:7 in augment"] {
        assert_eq!(gain(name), augment, "{name}");
    }
    assert_eq!(gain("A.load"), gain("data.py(20): A.load"));
    let refused = |selector: &str| gain(selector).unwrap_err().to_string();
    assert_eq!(
        refused("load"),
        "frame:load matches 2 functions; select one of 'frame:data.py(20): A.load', 'frame:files.py(8): B.load'. To \
         change several functions, repeat the edit for each, or use * for any text"
    );
    assert!(gain("*load").is_ok());
    assert!(refused("agument").contains("'frame:data.py(5): augment'"), "{}", refused("agument"));
    assert!(refused("other.py:7 in augment").contains("'frame:data.py(5): augment'"));
}

/// An event loop runs an operator of 280 µs, waits in `select` and runs another one. A wait for a timer lasts until the
/// same time without the first operator.
#[test]
fn waits_for_timers_may_absorb_what_is_saved_before_them() {
    let trace = |event_loop: &str| {
        let events = format!(
            "10/10  python_function  {event_loop}                               0+1000
             10/10  python_function  app.py(5): handle                          0+300
             10/10  cpu_op           aten::mm                                   10+280
             10/10  python_function  selectors.py(451): EpollSelector.select    300+400
             10/10  python_function  app.py(9): respond                         700+300
             10/10  cpu_op           aten::add                                  710+280"
        );
        read(mini(&events).json())
    };
    let asyncio = trace("asyncio/base_events.py(1910): BaseEventLoop._run_once");
    let first = predict(&asyncio, "remove operator:aten::mm").unwrap();
    assert_eq!([first.gain.low_ns, first.gain.likely_ns], [0, 280_000]);
    assert!(first.notes.iter().any(|note| note.contains("asyncio.sleep")), "{:?}", first.notes);
    let second = predict(&asyncio, "remove operator:aten::add").unwrap();
    assert!(second.gain.likely_ns == 280_000 && second.gain.low_ns > 270_000, "{:?}", second.gain);
    assert!(!second.notes.iter().any(|note| note.contains("asyncio.sleep")), "{:?}", second.notes);
    let other = predict(&trace("main.py(3): serve"), "remove operator:aten::mm").unwrap();
    assert!(other.gain.low_ns > 270_000, "{:?}", other.gain);
}

/// A recording has no span of a wait in a coroutine. Of the 600 µs between two samples, the thread computed 600 µs, so
/// that it did not wait, or 400 µs.
#[test]
fn computing_threads_do_not_wait_for_timers() {
    let low = |computed_us: i64| {
        let mut events = mini(&format!(
            "10/10  python_function  asyncio/base_events.py(1910): BaseEventLoop._run_once  0+1000
             10/10  python_function  app.py(5): handle                                      0+300
             10/10  cpu_op           aten::mm                                               10+280
             10/10  python_function  app.py(9): respond                                     300+700
             10/10  cpu_op           aten::add                                              710+280
             10/10  cpu_sample       app.py(5): handle   P@200  cpu_time_ns=200000
             10/10  cpu_sample       app.py(9): respond  P@800  cpu_time_ns={}",
            computed_us * 1000
        ));
        let recording = json!({"processes": [{"pid": 10, "own": true}]});
        events.add(&format!("file {RECORDING}={recording}"));
        predict(&read(events.json()), "remove operator:aten::mm").unwrap().gain.low_ns
    };
    assert!(low(600) > 0, "{}", low(600));
    assert_eq!(low(400), 0);
}

/// Launches and kernels; those of the second stream start `early` µs before their call.
fn two_streams(early: i64) -> MiniTrace {
    let mut t = mini("10/10  cpu_op  aten::mm  0+200");
    for i in 0..5_i64 {
        let events = format!(
            "10/10   cuda_runtime  cudaLaunchKernel  0+5    correlation=1{i}
             gpu0/7  kernel        gemm              10+8   correlation=1{i}
             10/10   cuda_runtime  cudaLaunchKernel  7+5    correlation=2{i}
             gpu0/9  kernel        gemm_tail         {}+15  correlation=2{i}",
            20 - early
        );
        t.add_at(20 * i, &events);
    }
    t.add("10/10 cuda_runtime cudaDeviceSynchronize 150+20 correlation=30");
    t
}

#[test]
fn clock_disagreement_adds_no_gain() {
    let trace = read(two_streams(40).json());
    assert!(Exact::new(&trace).clocks_disagree());
    assert_eq!(bounds(&predict(&trace, "scale kernel:* 1").unwrap()), [0; 3]);
    let changed = predict(&trace, "scale kernel:* 0.5").unwrap();
    assert!(changed.gain.low_ns < changed.gain.high_ns, "{changed:?}");
}

/// Ten kernels, and waits that return this many µs after the end of each.
fn waits(late: i64) -> Trace {
    let mut t = mini("");
    for i in 0..10_i64 {
        let events = format!(
            "10/10   cuda_runtime  cudaLaunchKernel       50+10   correlation=1{i}
             gpu0/7  kernel        gemm                   70+300  correlation=1{i}
             10/10   cuda_runtime  cudaDeviceSynchronize  200+{}  correlation=2{i}",
            170 + late
        );
        t.add_at(1000 * i, &events);
    }
    read(t.json())
}

/// Times in whole µs and clocks that differ a little let a wait return at the end of the awaited work, or before.
#[test]
fn waits_may_return_at_the_end_of_their_work() {
    let found = |late: i64| predict(&waits(late), "remove wait:cudaDeviceSynchronize").unwrap();
    let usual = found(1);
    for late in [0, -1] {
        let found = found(late);
        assert_eq!(found.edits[0].1, 10, "{late}");
        // Nine waits save time; after the last one nothing follows.
        let difference = usual.gain.likely_ns - found.gain.likely_ns;
        assert!(found.gain.likely_ns > 1_400_000 && difference.abs() <= 30_000, "{late}: {found:?}");
    }
}

#[test]
fn full_name_selects_exactly_one() {
    let mut t = two_streams(0);
    t.add(
        "10/10    cuda_runtime  cudaLaunchKernel             101+5  correlation=40
         gpu0/7   kernel        copy<a*>                     110+5  correlation=40
         10/10    cuda_runtime  cudaLaunchKernel             107+5  correlation=41
         gpu0/7   kernel        copy<ab>                     120+5  correlation=41
         10/10    cuda_runtime  cudaLaunchKernel             113+5  correlation=50
         gpu0/11  kernel        ncclDevKernel_AllReduce      130+5  correlation=50
         10/10    cuda_runtime  cudaLaunchKernel             120+5  correlation=51
         gpu0/11  kernel        ncclDevKernel_AllReduce_Sum  140+5  correlation=51
         10/10    cuda_runtime  cudaLaunchKernel             127+5  correlation=52
         gpu0/11  kernel        ncclDevKernel_AllReduce_Max  150+5  correlation=52",
    );
    let trace = read(t.json());
    let events = |edit: &str| predict(&trace, edit).unwrap().edits[0].1;
    assert_eq!(events("scale kernel:copy<a*> 0.5"), 1);
    assert_eq!(events("scale kernel:copy<* 0.5"), 2);
    assert_eq!(events("scale collective:ncclDevKernel_AllReduce 0.5"), 1);
    assert_eq!(events("scale collective:AllReduce 0.5"), 3);
}

#[test]
fn names_of_other_kinds_are_suggested() {
    let trace = read(two_streams(0).json());
    let message = |edit: &str| predict(&trace, edit).unwrap_err().to_string();
    assert!(
        message("scale kernel:aten::mm 0.5").contains("'operator:aten::mm'"),
        "{}",
        message("scale kernel:aten::mm 0.5")
    );
    assert!(message("scale operator:gemm 0.5").contains("'kernel:gemm'"), "{}", message("scale operator:gemm 0.5"));
    assert!(message("scale kernel:gemn 0.5").contains("'gemm'"), "{}", message("scale kernel:gemn 0.5"));
}

/// Many threads in Python at once: their spans do not show which one holds the interpreter. Bounds stay within reason.
#[test]
fn concurrent_threads_do_not_alternate() {
    let mut t = mini("");
    for thread in 0..32_i64 {
        for i in 0..40_i64 {
            let events = format!(
                "10/{0}  python_function  train.py(1): work  0+{1}
                 10/{0}  cpu_op           aten::mm           5+40",
                10 + thread,
                60 + thread
            );
            t.add_at(7 * thread + 100 * i, &events);
        }
    }
    let trace = read(t.json());
    let found = predict(&trace, "scale operator:aten::mm 0.5").unwrap();
    let [low, gain, high] = bounds(&found);
    assert!(0 < gain && gain <= high && high <= found.before_ns(), "{found:?}");
    assert!(low > -found.before_ns() / 2, "{low} of {}", found.before_ns());
}
