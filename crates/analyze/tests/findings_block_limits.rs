//! Kernels without a fault of their own: blocks limited on purpose, and whole CUDA graphs.

use crate::findings_support;

use findings_support::steps;
use serde_json::{Value, json};
use stackline_findings::Finding;

#[test]
fn kernels_with_intended_block_limits() {
    let of = |name: &'static str, call: &'static str, sizes: &'static [i64]| {
        let mut launches = 0;
        steps(move |p| {
            let size = sizes[launches % sizes.len()];
            launches += 1;
            let args = json!({"grid": [16, 1, 1], "block": [512, 1, 1]});
            p.op_with("aten::mul", json!({"Input Dims": [[size, 64]]}), |p| {
                p.launch((call, "kernel"), name, 400, 7, args);
            });
        })
    };
    let plain = "cudaLaunchKernel";
    assert_eq!(of("mul", plain, &[1024]).found("SL041").len(), 1, "it may well be a choice that does not fit");
    assert_eq!(of("mul", plain, &[1024, 4096]).found("SL041"), [], "one grid for all sizes: a persistent kernel");
    assert_eq!(of("matmul_persistent_tma", plain, &[1024]).found("SL041"), []);
    assert_eq!(of("flash_fwd_splitkv_kernel", plain, &[1024]).found("SL041"), []);
    assert_eq!(of("mul", "cudaLaunchCooperativeKernel", &[1024]).found("SL041"), []);
}

/// A graph that Nsight Systems recorded as a whole is no kernel that could be sped up.
#[test]
fn hotspot_of_a_whole_graph_asks_for_its_kernels() {
    let found = |args: &Value| {
        let program = steps(|p| {
            p.op("aten::mm", |p| p.launch(("cudaGraphLaunch", "kernel"), "CUDA graph 3", 900, 7, args.clone()));
            p.sync("cudaDeviceSynchronize");
        });
        program.found("SL001").remove(0)
    };
    let graph = found(&json!({"graph exec id": 5}));
    assert!(graph.rule.advice.starts_with("Record the kernels of the graph"), "{}", graph.rule.advice);
    let share = |found: &Finding| found.facts.iter().find(|fact| fact.name.starts_with("share ")).unwrap().name.clone();
    assert_eq!(share(&graph), "share of the CUDA graph in GPU time");
    let kernel = found(&json!({}));
    assert!(kernel.rule.advice.starts_with("Speed up the kernel"), "{}", kernel.rule.advice);
    assert_eq!(share(&kernel), "share of the kernel in GPU time");
}
