//! Frames of the recorder in traces, and threads with inherited names.

use super::{Script, one, outline, process};
use stackline_recording::{Record, Thread};

#[test]
fn recorder_frames_are_not_spans() {
    let own = "def@/run.stackline/inject/_stackline_bootstrap.py:_Watched.exec_module:61";
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    script.call(0, &format!("def:main:10 {own} def:load:2 aten::outer {own} aten::inner"), 1_110, 1_190);
    script.call(0, &format!("def:main:10 {own} def:load:2 aten::outer"), 1_100, 1_200);
    script.call(0, &format!("def:main:10 {own} aten::relu"), 1_300, 1_400);
    let trace = one(&script.end());
    let expected = [
        "train.py(1): main* 100..400",
        "  train.py(1): load* 100..200",
        "    aten::outer 100..200",
        "      aten::inner 110..190",
        "  aten::relu 300..400",
    ];
    assert_eq!(outline(&trace, 0), expected);
    assert!(trace.strings.find("_Watched.exec_module").is_none(), "in no stack either");
    assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
}

#[test]
fn threads_named_after_their_program_are_numbered() {
    let mut script = Script::new(process(7, None));
    let own = "def@/run.stackline/inject/_stackline_bootstrap.py:_Watched.exec_module:61";
    let own = format!("{own} aten::mm");
    for (id, tid, name, path) in [
        (0, 70, "python", "aten::mm"),
        (1, 71, "python", own.as_str()),
        (2, 72, "python", "def:work:3 aten::mm"),
        (3, 73, "loader", "def:work:3 aten::mm"),
        (4, 74, "loader", "aten::mm"),
    ] {
        script.thread(id, tid, 0);
        script.records.push(Record::Thread(Thread { id, tid, torch_id: 0, name: name.to_owned() }));
        script.call(id, path, 1_100, 1_200);
    }
    let trace = one(&script.end());
    let names: Vec<String> = trace.tracks.ids().map(|track| trace.track_name(track)).collect();
    let of_loader = "native thread 74 of loader";
    assert_eq!(names, ["native thread 70", "native thread 71", "unnamed thread 72", "loader", of_loader]);
}
