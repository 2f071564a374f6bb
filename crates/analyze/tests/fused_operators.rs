//! Original operators of fused kernels, in traces of real programs.

use crate::support::{read_file, read_json};
use stackline_analyze::analyses;
use stackline_model::FusionEvidence;
use stackline_testkit::corpus;
use stackline_testkit::tables::{integers, texts};
use stackline_timeline::Scope;
use std::collections::{BTreeMap, BTreeSet};

/// Kernels of `torch.compile`: as many as the file has of each name, and operators that are names of ATen by themselves.
#[test]
fn kernels_of_torch_compile_have_the_operators_of_their_names() {
    let Some(file) = corpus::file("kineto/amd-mi300-torch-compile-triton.json.gz") else { return };
    let json = read_json(&file);
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for event in json["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "kernel") {
        let name = event["name"].as_str().unwrap();
        if name.starts_with("triton_") {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    let trace = read_file(&file);
    let scope = Scope { whole: true, ..Scope::default() };
    let table = &(analyses::find("fused_operators").unwrap().run)(&trace, &scope)[0];
    let found: BTreeMap<String, i64> = texts(table, "name").into_iter().zip(integers(table, "count")).collect();
    assert_eq!(found, counts);
    let expected = [
        "_unsafe_view; add",
        "_unsafe_view; add; mean; mul; pow; rsqrt",
        "_unsafe_view; mul; silu",
        "add; mean; mul; pow; rsqrt",
    ];
    assert_eq!(texts(table, "operators").into_iter().collect::<BTreeSet<_>>(), expected.map(str::to_owned).into());
}

/// A name and the same name in the next kernel say the same: the whole diffusion model has 22 different operators, none a part of one.
#[test]
fn operators_of_a_large_model_are_names_of_aten() {
    let Some(file) = corpus::file("kineto/amd-mi300-sd3.5-diffusion.json.gz") else { return };
    let trace = read_file(&file);
    let fusions = trace.fusions();
    assert_eq!(fusions.len(), 26);
    let operators: BTreeSet<&str> =
        fusions.iter().flat_map(|fusion| fusion.operators.iter().map(String::as_str)).collect();
    let expected = "_scaled_dot_product_flash_attention _to_copy _unsafe_view add addmm arange cat clone convolution cos div exp gelu \
                    mean mul native_layer_norm permute pow rsqrt silu sin slice split transpose unsqueeze view";
    assert_eq!(operators.into_iter().collect::<Vec<_>>().join(" "), expected);
}

/// XLA's programs list fused operators.
#[test]
fn fusions_of_xla_have_the_operators_of_their_program() {
    let trace = read_file(&corpus::repository().join("fixtures/profiles-h100/jax-train.xplane.pb.gz"));
    let fusions = trace.fusions();
    assert!(!fusions.is_empty());
    for fusion in fusions {
        assert_eq!(fusion.evidence, FusionEvidence::Program, "{}", trace.strings.get(fusion.name));
        assert!(fusion.operators.iter().all(|operator| operator.starts_with("jit(")), "{:?}", fusion.operators);
    }
}
