//! Memory that operators allocate for themselves in execution traces, and accesses of operators that nested ones lack.

use stackline_ingest::memory::read_bytes;
use stackline_memory::{MemoryAnalysis, Pattern, curve::curves};
use stackline_model::MemoryTrace;

/// Operator: number, parent, name, schema, input and output storages.
type Operator<'a> = (u32, u32, &'a str, &'a str, &'a [u32], &'a [u32]);

/// Execution trace of operators.
fn trace(nodes: &[Operator<'_>]) -> MemoryTrace {
    let tensor = |storage: &u32| format!(r#"[{storage},{storage},0,1024,4,"cuda:0"]"#);
    let node = |(id, parent, name, schema, takes, gives): &Operator<'_>| {
        let part = |storages: &[u32]| {
            let values: Vec<String> = storages.iter().map(tensor).collect();
            let types = vec!["\"Tensor(float)\""; storages.len()].join(",");
            format!(
                r#"{{"values": [{}], "shapes": [{}], "types": [{types}]}}"#,
                values.join(","),
                vec!["[]"; storages.len()].join(",")
            )
        };
        format!(
            r#"{{"id": {id}, "ctrl_deps": {parent}, "name": "{name}", "inputs": {}, "outputs": {},
            "attrs": [{{"name": "op_schema", "type": "string", "value": "{schema}"}}]}}"#,
            part(takes),
            part(gives)
        )
    };
    let nodes: Vec<String> = nodes.iter().map(node).collect();
    let text = format!(r#"{{"schema": "1.1.1-chakra.0.0.4", "nodes": [{}]}}"#, nodes.join(","));
    let trace = read_bytes("operators", text.as_bytes()).unwrap();
    trace.check().unwrap();
    trace
}

fn touched(trace: &MemoryTrace, operator: &str) -> Vec<String> {
    let is_it = |call: &stackline_model::MemoryCallId| {
        trace.strings.get(trace.calls.name[call.index()]) == operator && !trace.access_rows(*call).is_empty()
    };
    let accesses = trace.calls.ids().filter(is_it).flat_map(|call| trace.accesses_of(call));
    accesses.map(|access| format!("{} {}", access.mode.name(), trace.object_name(access.object))).collect()
}

/// `x * 2` copies the number in a nested operator, but reads x and writes the product itself.
#[test]
fn operators_access_tensors_that_no_nested_operator_lists() {
    let trace = trace(&[
        (2, 1, "aten::empty", "aten::empty(SymInt[] size) -> Tensor", &[], &[5]),
        (3, 1, "aten::fill_", "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", &[5], &[5]),
        (4, 1, "aten::relu", "aten::relu(Tensor self) -> Tensor", &[6], &[7]),
        (8, 1, "aten::mul", "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", &[5, 15], &[23]),
        (9, 8, "aten::to", "aten::to.dtype(Tensor(a) self) -> Tensor(a)", &[15], &[20]),
        (10, 9, "aten::empty_strided", "aten::empty_strided(SymInt[] size) -> Tensor", &[], &[20]),
        (11, 9, "aten::copy_", "aten::copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)", &[20, 15], &[20]),
        (12, 1, "aten::relu", "aten::relu(Tensor self) -> Tensor", &[23], &[24]),
    ]);
    assert_eq!(touched(&trace, "aten::mul"), ["read storage 5", "write storage 23"]);
    assert_eq!(touched(&trace, "aten::copy_"), ["write storage 20", "read storage 15"]);
    assert_eq!(touched(&trace, "aten::fill_"), ["write storage 5"]);
    // Only 6 and 15 are older; 5 lives up to the product, which begins there.
    assert_eq!(trace.report.count_of("older_than_records"), 2);
    let object = |name: &str| trace.objects.ids().find(|object| trace.object_name(*object) == name).unwrap();
    let product = trace.objects.allocated_by[object("storage 23").index()];
    assert!(trace.objects.freed_by[object("storage 5").index()] > product);
    assert_eq!(curves(&trace)[0].peak().bytes, 4 * 4096);
}

/// A result of an outer operator that a nested one takes as first input was allocated within it.
#[test]
fn results_filled_by_nested_operators_are_not_preexisting() {
    let trace = trace(&[
        (2, 1, "aten::relu", "aten::relu(Tensor self) -> Tensor", &[4], &[5]),
        (3, 1, "aten::sum", "aten::sum(Tensor self) -> Tensor", &[5], &[81]),
        (6, 3, "aten::fill_", "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", &[81], &[81]),
    ]);
    assert_eq!(trace.report.count_of("older_than_records"), 1);
    // Further accesses of sum after the fill are unknown; it may write the storage.
    assert_eq!(touched(&trace, "aten::sum"), ["read storage 5", "unknown storage 81"]);
}

/// A workspace that an operator allocates and uses is not among its inputs, but is not unused. Memory of the same call
/// outside of an operator is.
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
    let analysis = MemoryAnalysis::new(&trace, 1);
    let unused = analysis.matches.iter().filter(|found| found.pattern == Pattern::UnusedAllocation);
    let names: Vec<String> = unused.map(|found| trace.object_name(found.object)).collect();
    assert_eq!(names, ["storage 10"]);
}

/// A fill of a part of a storage keeps the rest, so it does not produce the content. A fill of all of it does.
#[test]
fn filled_views_do_not_fill_their_storage() {
    let trace_of = |target: &str| {
        let node = |id: u32, name: &str, schema: &str, inputs: &[String], outputs: &[String]| {
            let part = |tensors: &[String]| {
                let (types, shapes) = (vec!["\"Tensor(float)\""; tensors.len()], vec!["[]"; tensors.len()]);
                format!(
                    r#"{{"values": [{}], "shapes": [{}], "types": [{}]}}"#,
                    tensors.join(","),
                    shapes.join(","),
                    types.join(",")
                )
            };
            format!(
                r#"{{"id": {id}, "ctrl_deps": 1, "name": "{name}", "inputs": {}, "outputs": {},
                "attrs": [{{"name": "op_schema", "type": "string", "value": "{schema}"}}]}}"#,
                part(inputs),
                part(outputs)
            )
        };
        let tensor = |storage: u32, place: &str| format!(r#"[{storage},{storage},{place},4,"cuda:0"]"#);
        let (all, part) = (tensor(5, "0,1024"), tensor(5, target));
        let nodes = [
            node(1, "[pytorch|profiler|execution_trace|process]", "", &[], &[]),
            node(2, "aten::relu", "aten::relu(Tensor self) -> Tensor", &[tensor(4, "0,1024")], &[all]),
            node(
                3,
                "aten::copy_",
                "aten::copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)",
                &[part.clone(), tensor(6, "0,512")],
                &[part],
            ),
        ];
        let text = format!(r#"{{"schema": "1.1.1-chakra.0.0.4", "nodes": [{}]}}"#, nodes.join(","));
        read_bytes("views", text.as_bytes()).unwrap()
    };
    for (target, expected) in
        [("0,1024", "write storage 5"), ("0,512", "both storage 5"), ("512,512", "both storage 5")]
    {
        assert_eq!(touched(&trace_of(target), "aten::copy_"), [expected, "read storage 6"], "{target}");
    }
}
