//! Records without a name are named by their kind, so that no table has rows without text.

use crate::repairs::{list, read};

#[test]
fn records_without_a_name_are_named_by_their_kind() {
    let lines = [
        "1/1 user_annotation \"\" 0+100",
        "1/1 cpu_op \"\" 10+50",
        "1/1 cuda_runtime \"\" 20+10 correlation=1",
        "gpu0/7 kernel \"\" 40+30 correlation=1",
        "1/1 cpu_op aten::mm 70+10",
    ];
    let trace = read(&list(&lines.map(str::to_owned)));
    let names: Vec<&str> = trace.events.ids().map(|event| trace.name(event)).collect();
    assert_eq!(
        names,
        ["", "operator without a name", "call without a name", "kernel without a name", "aten::mm"],
        "tables of work have no annotations"
    );
    assert_eq!(trace.report.count_of("row_without_name"), 3);
}
