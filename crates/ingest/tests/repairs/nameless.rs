//! Records without a name are named by their kind, so that no table has rows without text.

use crate::repairs::read;
use stackline_testkit::mini;

#[test]
fn records_without_a_name_are_named_by_their_kind() {
    let trace = read(&mini::trace(
        "1/1 user_annotation \"\" 0+100
         1/1 cpu_op \"\" 10+50
         1/1 cuda_runtime \"\" 20+10 correlation=1
         gpu0/7 kernel \"\" 40+30 correlation=1
         1/1 cpu_op aten::mm 70+10",
    ));
    let names: Vec<&str> = trace.events.ids().map(|event| trace.name(event)).collect();
    assert_eq!(
        names,
        [
            "annotation without a name",
            "operator without a name",
            "call without a name",
            "kernel without a name",
            "aten::mm"
        ]
    );
    assert_eq!(trace.report.count_of("row_without_name"), 4);
}
