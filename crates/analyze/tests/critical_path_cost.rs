//! Cost of the analysis on the largest trace of the corpus, once the trace is read.

use crate::support::{mini, read, read_file};
use stackline_critical_path::ctda;
use stackline_critical_path::ctda::CtdaOptions;
use stackline_critical_path::hta;
use stackline_critical_path::hta::HtaOptions;
use stackline_testkit::corpus;
use stackline_timeline::hta_view::HtaView;

/// CPU time of this thread in ms, if the system reports it.
fn cpu_ms() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? / 1e6)
}

#[test]
fn quarter_million_events_within_cpu_budget() {
    let Some(corpus) = corpus::folder() else { return };
    let trace = read_file(&corpus.join("kineto/amd-mi300-sd3.5-diffusion.json.gz"));
    let Some(mut before) = cpu_ms() else { return };
    let mut lap = |what: &str| {
        let now = cpu_ms().unwrap();
        println!("{what}: {:.1} ms of CPU time", now - before);
        let elapsed_ms = now - before;
        before = now;
        elapsed_ms
    };
    let view = HtaView::load(&trace, false);
    lap("loading view");
    let cp = hta::analyze(&trace, &HtaOptions::default()).unwrap();
    let mut elapsed_ms = lap("analysis, loading view included");
    for _ in 0..4 {
        hta::analyze(&trace, &HtaOptions::default()).unwrap();
        elapsed_ms = elapsed_ms.min(lap("again"));
    }
    let report = cp.summary();
    lap("summary");
    cp.report();
    lap("report with all points");
    assert_eq!((view.len(), cp.rows, report.path_nodes), (200_513, 82_572, 48_444));
    // A release build takes about a third of a test build; the bound is there to catch what grows with the square.
    assert!(elapsed_ms < 250.0, "{elapsed_ms} ms");
}

#[test]
fn ctda_with_many_streams_and_waits_within_cpu_budget() {
    let mut t = mini("");
    for stream in 0..20_000 {
        let correlation = 3 * stream + 2;
        let events = format!(
            "10/1           cuda_runtime  cudaStreamWaitEvent  0+1   correlation={}
             10/1           cuda_runtime  cudaLaunchKernel     1+2   correlation={correlation}
             gpu0/{stream}  kernel        k                    5+10  correlation={correlation}",
            correlation - 1
        );
        t.add_at(20 * stream, &events);
        if stream % 10 == 0 {
            let wait = format!("10/1 cuda_runtime cudaDeviceSynchronize 5+12 correlation={}", correlation + 1);
            t.add_at(20 * stream, &wait);
        }
    }
    let trace = read(t.json());
    let Some(before) = cpu_ms() else { return };
    let path = ctda::analyze(&trace, &CtdaOptions::default()).unwrap();
    let elapsed_ms = cpu_ms().unwrap() - before;
    println!("{} edges, {elapsed_ms:.0} ms", path.graph.edges.len());
    assert!(path.graph.edges.len() < 70 * 20_000);
    // Every stream for every wait took 19 s.
    assert!(elapsed_ms < 5_000.0, "{elapsed_ms} ms");
}
