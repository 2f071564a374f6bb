//! Memory that operators allocate for themselves, in execution traces.
#![allow(clippy::unwrap_used, reason = "tests")]

use stackline_ingest::memory::read_bytes;
use stackline_memory::{Pattern, Study};

/// A workspace that an operator allocates and uses is not told among its inputs; it is no memory that nobody touches. What the same call
/// outside of an operator allocates is.
#[test]
fn workspaces_of_operators_are_not_unused() {
    let node = |id: u32, parent: u32, name: &str, inputs: &str, outputs: &str| {
        let types = |tensors: &str| if tensors.is_empty() { "" } else { "\"Tensor(float)\"" };
        format!(
            r#"{{"id": {id}, "ctrl_deps": {parent}, "name": "{name}",
            "inputs": {{"values": [{inputs}], "shapes": [[]], "types": [{}]}},
            "outputs": {{"values": [{outputs}], "shapes": [[]], "types": [{}]}}}}"#,
            types(inputs),
            types(outputs)
        )
    };
    let tensor = |storage: u32| format!(r#"[{storage},{storage},0,1024,4,"cuda:0"]"#);
    let nodes = [
        node(1, 1, "[pytorch|profiler|execution_trace|process]", "", ""),
        node(2, 1, "aten::addmm", &tensor(7), &tensor(8)),
        node(3, 2, "aten::empty", "", &tensor(9)),
        node(4, 1, "aten::empty", "", &tensor(10)),
        node(5, 1, "aten::relu", &tensor(8), &tensor(11)),
    ];
    let text = format!(r#"{{"schema": "1.1.1-chakra.0.0.4", "nodes": [{}]}}"#, nodes.join(","));
    let trace = read_bytes("workspace", text.as_bytes()).unwrap();
    let study = Study::new(&trace, 1);
    let unused = study.matches.iter().filter(|found| found.pattern == Pattern::UnusedAllocation);
    let names: Vec<String> = unused.map(|found| trace.object_name(found.object)).collect();
    assert_eq!(names, ["storage 10"]);
}
