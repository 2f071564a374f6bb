//! Trace with known findings, for tests of `findings`.
#![allow(dead_code, reason = "not every test file uses everything")]

use crate::common::{stackline, write};
use stackline_testkit::mini::MiniTrace;
use std::path::Path;
use std::process::Output;

/// Three steps, each of which computes for `kernel_us`, waits for it on line 10 of train.py, and works on the host.
pub(crate) fn trace(folder: &Path, name: &str, (waits, kernel_us): (bool, i64)) -> String {
    let mut trace = MiniTrace::new(r#"file deviceProperties=[{"id": 0}]"#);
    let length = if waits { kernel_us + 320 } else { kernel_us.max(340) };
    for step in 0..3_i64 {
        let (at, launch, wait) = (1000 + step * (length + 10), 2 * step + 1, 2 * step + 2);
        let events = format!(
            "1/1     user_annotation  ProfilerStep#{step}    0+{length}
             1/1     python_function  train.py(10): step     1+{}
             1/1     cpu_op           aten::mm               2+10
             1/1     cuda_runtime     cudaLaunchKernel       4+5             correlation={launch}
             gpu0/7  kernel           gemm                   12+{kernel_us}  correlation={launch}",
            length - 2
        );
        trace.add_at(at, &events);
        if waits {
            let events = format!(
                "1/1  cpu_op        aten::item             14+{}
                 1/1  cuda_runtime  cudaStreamSynchronize  15+{}  correlation={wait}",
                kernel_us + 4,
                kernel_us + 2
            );
            trace.add_at(at, &events);
        }
    }
    write(folder, name, trace.json())
}

/// Three steps of one function, which logs at lines of it for so many µs, and computes after each.
pub(crate) fn logging(lines: &[(i64, i64)]) -> String {
    let mut trace = MiniTrace::new("");
    let mut at = 1000;
    for step in 0..3 {
        let from = at;
        for (line, us) in lines {
            let events = format!(
                "1/1  python_function  train.py({line}): step                    0+{us}
                 1/1  python_function  logging/__init__.py(1489): Logger.info  1+{}
                 1/1  cpu_op           aten::mm                                {}+280",
                us - 2,
                us + 10
            );
            trace.add_at(at, &events);
            at += us + 300;
        }
        trace.add(&format!("1/1 user_annotation ProfilerStep#{step} {from}..{at}"));
    }
    trace.json()
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    stackline(&[&["findings"], arguments].concat()).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) struct Case {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) waits: String,
    pub(crate) repaired: String,
}

impl Case {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let waits = trace(folder.path(), "waits.json", (true, 300));
        let repaired = trace(folder.path(), "repaired.json", (false, 300));
        Self { folder, waits, repaired }
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        write(self.folder.path(), name, content)
    }
}
