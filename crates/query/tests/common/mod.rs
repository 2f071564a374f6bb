//! Helpers for tests of queries: a memory file, and checks of answers.

use serde_json::Value;
use stackline_engine::OpenOptions;
use stackline_query::{Answer, Column, OpenRun};
use std::sync::OnceLock;

/// A file of only memory data: waste of several kinds, accesses.
pub(crate) fn memory() -> &'static OpenRun {
    static OPENED: OnceLock<OpenRun> = OnceLock::new();
    OPENED.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program.memory");
        std::fs::write(&path, PROGRAM).expect("written");
        OpenRun::open(&[path], &OpenOptions::default()).expect("opens")
    })
}

const PROGRAM: &str = "a weights 4194304 name=weights kind=parameter at=train.py:10:build
a input 1048576 name=input at=train.py:20:step
a output 1048576 name=output at=train.py:21:step
a never 65536 at=train.py:22:step
h weights at=train.py:11:build
h input at=train.py:22:step
k first weights,input>input at=train.py:23:step
k second weights>output at=train.py:24:step
k third output>output at=train.py:25:step
k fourth output>output at=train.py:25:step
d output at=train.py:26:step
f input at=train.py:30:step
f output at=train.py:31:step
f never
a leaked 4096 at=train.py:40:step
k fifth leaked>leaked
k sixth weights>weights
end
";

/// The document of an answer.
pub(crate) fn document(answer: &Answer) -> Value {
    serde_json::from_str(&answer.json).expect("a document is JSON")
}

/// A column of an answer.
pub(crate) fn numbers(answer: &Answer, name: &str) -> Vec<f64> {
    match &answer.columns.iter().find(|(column, _)| *column == name).expect("a column").1 {
        Column::U8(values) => values.iter().map(|&value| f64::from(value)).collect(),
        Column::U16(values) => values.iter().map(|&value| f64::from(value)).collect(),
        Column::U32(values) => values.iter().map(|&value| f64::from(value)).collect(),
        Column::F64(values) => values.clone(),
    }
}
