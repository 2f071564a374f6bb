//! Kernels that limit their blocks on purpose are no finding.

use crate::findings_support;

use findings_support::steps;
use serde_json::json;

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
