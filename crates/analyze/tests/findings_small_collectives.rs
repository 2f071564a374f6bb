//! Rules about many small collectives (SL044).

use crate::findings_comm::{ALL_REDUCE, steps};
use crate::findings_support::text;
use serde_json::json;

/// Gradients that are reduced one after the other: of a hundred latencies one is left.
#[test]
fn many_small_collectives() {
    let reduces = |calls: i64, elements: i64, us: i64| {
        steps(|p, _| {
            p.op("aten::mm", |p| p.kernel("gemm", 1000));
            for _ in 0..calls {
                let size = json!({"In msg nelems": elements, "Collective name": "allreduce"});
                p.op("c10d::allreduce_", |p| p.launch(("cudaLaunchKernel", "kernel"), ALL_REDUCE, us, 7, size));
            }
            p.sync("cudaDeviceSynchronize");
        })
    };
    let many = reduces(100, 1000, 30);
    let found = many.found("SL044");
    insta::assert_snapshot!(text(&found));
    // 99 of 100 collectives of 30 µs.
    let saved = many.findings().step_ns - reduces(1, 100_000, 30).findings().step_ns;
    let gain = found[0].gain.unwrap();
    assert!((gain.likely_ns - saved).abs() < saved / 20, "{saved}: {}", text(&found));
    assert!(gain.low_ns < saved && saved < gain.high_ns + saved / 20, "{saved}: {gain:?}");
    assert_eq!(reduces(100, 4_000_000, 900).found("SL044"), [], "they are large");
    assert_eq!(reduces(10, 1000, 30).found("SL044"), [], "they are few");
}

/// Smaller buckets would only be more of them.
#[test]
fn small_collectives_are_not_split_further() {
    let reduces = |calls: i64, elements: i64, us: i64| {
        let program = steps(|p, _| {
            p.op("aten::mm", |p| p.kernel("gemm", 1000));
            for _ in 0..calls {
                let size = json!({"In msg nelems": elements, "Collective name": "allreduce"});
                p.op("c10d::allreduce_", |p| p.launch(("cudaLaunchKernel", "kernel"), ALL_REDUCE, us, 7, size));
            }
            p.op("aten::mm", |p| p.kernel("gemm", 1000));
            p.sync("cudaDeviceSynchronize");
        });
        let found = program.found("SL019");
        (found.first().map(|found| found.rule.advice.contains("smaller buckets (bucket_cap_mb)")), found.len())
    };
    assert_eq!(reduces(48, 1024, 25), (None, 0), "SL044 has those whose latency is what they take");
    assert_eq!(reduces(8, 1024, 25), (Some(false), 1), "too few for SL044");
    assert_eq!(reduces(8, 16_000_000, 300), (Some(true), 1), "large");
    // Small ones that wait for other ranks last longer than their latency.
    let waits = steps(|p, _| {
        for number in 0..48 {
            let size = json!({"In msg nelems": 1024, "Collective name": "allreduce"});
            let us = if number == 0 { 10 } else { 100 };
            p.op("c10d::allreduce_", |p| p.launch(("cudaLaunchKernel", "kernel"), ALL_REDUCE, us, 7, size));
        }
        p.op("aten::mm", |p| p.kernel("gemm", 1000));
        p.sync("cudaDeviceSynchronize");
    });
    assert_eq!(waits.found("SL019").len(), 1, "{}", text(&waits.found("SL019")));
}

/// PyTorch's arguments do not move a collective of XLA or of an inference engine.
#[test]
fn advice_on_collectives_is_for_their_framework() {
    let advice = |kernel: &str| {
        let program = steps(|p, _| {
            p.op("aten::mm", |p| p.kernel("gemm", 1000));
            p.op("aten::add", |p| p.launch(("cudaLaunchKernel", "kernel"), kernel, 300, 7, json!({})));
            p.op("aten::mm", |p| p.kernel("gemm", 1000));
            p.sync("cudaDeviceSynchronize");
        });
        let found = program.found("SL019");
        assert_eq!(found.len(), 1, "{kernel}: {}", text(&found));
        found[0].rule.advice.clone()
    };
    let expected = [
        (ALL_REDUCE, "bucket_cap_mb"),
        ("all-reduce.3", "latency-hiding scheduler"),
        ("void vllm::cross_device_reduce_1stage<float>()", "micro-batches"),
    ];
    for (kernel, words) in expected {
        let advice = advice(kernel);
        for (_, other) in expected {
            assert_eq!(advice.contains(other), other == words, "{kernel}: {advice}");
        }
    }
}

/// Collectives whose launch takes longer than their run: the launches are removed, with the host's pauses between them.
#[test]
fn launches_of_small_collectives() {
    let reduces = |calls: i64, us: i64, pause_us: i64| {
        steps(|p, _| {
            p.op("aten::mm", |p| p.kernel("gemm", 1000));
            for _ in 0..calls {
                let size = json!({"In msg nelems": 1000, "Collective name": "allreduce"});
                p.op("c10d::allreduce_", |p| {
                    p.work(30);
                    p.launch(("cudaLaunchKernel", "kernel"), ALL_REDUCE, us, 7, size);
                });
                p.work(pause_us);
            }
            p.sync("cudaDeviceSynchronize");
        })
    };
    for (us, pause_us) in [(12, 0), (12, 10), (50, 0)] {
        let many = reduces(200, us, pause_us);
        let found = many.found("SL044");
        let saved = many.findings().step_ns - reduces(1, us, pause_us).findings().step_ns;
        let [only] = &found[..] else { panic!("{us}, {pause_us}: {}", text(&found)) };
        let gain = only.gain.unwrap();
        assert!((gain.likely_ns - saved).abs() < saved / 20, "{us}, {pause_us}: {saved}: {}", text(&found));
        assert!(gain.low_ns < saved && saved <= gain.high_ns, "{us}, {pause_us}: {saved}: {gain:?}");
    }
}

/// Buckets are counted in bytes of the recorded data type, and only if all sizes are recorded.
#[test]
fn buckets_depend_on_the_data_type() {
    // 400 collectives of 131,072 elements: 200 MiB of float32 in a step.
    let title = |dtype: Option<&str>, with_all_sizes: bool| {
        let program = steps(|p, _| {
            p.op("aten::mm", |p| p.kernel("gemm", 1000));
            for number in 0..400 {
                let mut size = json!({"Collective name": "allreduce"});
                if with_all_sizes || number % 2 == 0 {
                    size["In msg nelems"] = json!(131_072);
                }
                if let Some(dtype) = dtype {
                    size["dtype"] = json!(dtype);
                }
                p.op("c10d::allreduce_", |p| p.launch(("cudaLaunchKernel", "kernel"), ALL_REDUCE, 30, 7, size));
            }
            p.sync("cudaDeviceSynchronize");
        });
        let found = program.found("SL044");
        let [only] = &found[..] else { panic!("{dtype:?}, {with_all_sizes}: {}", text(&found)) };
        only.title.rsplit_once(" could be combined into ").unwrap().1.to_owned()
    };
    assert_eq!(title(Some("Float"), true), "9");
    assert_eq!(title(Some("BFloat16"), true), "5");
    assert_eq!(title(Some("Float"), false), "a few large ones");
    assert_eq!(title(None, true), "a few large ones");
}
