//! Running the binary, and finding the corpus.
#![allow(dead_code, clippy::print_stderr, clippy::print_stdout, reason = "not every test file uses everything")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code outside test functions")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command, with an environment that does not depend on the caller's terminal.
pub(crate) fn stackline(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stackline"));
    command.args(args).env("COLUMNS", "110").env_remove("NO_COLOR");
    command
}

/// Runs it.
pub(crate) fn run(args: &[&str]) -> Output {
    stackline(args).output().unwrap()
}

/// Standard output of a run that must succeed.
pub(crate) fn stdout(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Exit code and standard error of a run that must print nothing on standard output.
pub(crate) fn failure(args: &[&str]) -> (Option<i32>, String) {
    let output = run(args);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{args:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A Python with PyTorch, as `python/torch_env.py` makes it; where there is none the test is skipped, but not in CI.
pub(crate) fn torch() -> Option<PathBuf> {
    let python = std::env::var_os("STACKLINE_TORCH").map(PathBuf::from);
    if python.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs STACKLINE_TORCH (python/torch_env.py)");
        println!("skipped: STACKLINE_TORCH names no Python with PyTorch (python/torch_env.py makes one)");
    }
    python
}

/// The recorder that was built with this test, of which its package is a dependency.
pub(crate) fn recorder() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libstackline_record.so")
}

/// A trace of the corpus, or `None` where there is no corpus (an error in CI).
pub(crate) fn corpus(file: &str) -> Option<String> {
    let default = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let root = std::env::var_os("STACKLINE_CORPUS").map_or(default, PathBuf::from);
    if root.is_dir() {
        let path = root.join(file);
        assert!(path.exists(), "{} is not in the corpus", path.display());
        return Some(path.to_str().unwrap().to_owned());
    }
    assert!(std::env::var_os("CI").is_none(), "the corpus is missing: set STACKLINE_CORPUS");
    eprintln!("skipped: no corpus at {}; set STACKLINE_CORPUS", root.display());
    None
}

/// A small trace of two steps written into `directory`: an operator launches two kernels, a collective runs.
pub(crate) fn write_sample(directory: &Path, rank: i64) -> String {
    let mut events = vec![
        r#"{"ph": "M", "name": "process_name", "pid": 10, "args": {"name": "python"}}"#.to_owned(),
        r#"{"ph": "M", "name": "thread_name", "pid": 10, "tid": 11, "args": {"name": "main"}}"#.to_owned(),
    ];
    for step in 0..3 {
        let at = 1000 * step;
        let cpu = |name: &str, cat: &str, ts: i64, dur: i64, args: &str| {
            format!(
                r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": 10, "tid": 11, "ts": {ts}, "dur": {dur}, "args": {{{args}}}}}"#
            )
        };
        let gpu = |name: &str, stream: i64, ts: i64, dur: i64, correlation: i64, args: &str| {
            format!(
                r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": {stream}, "ts": {ts}, "dur": {dur}, "args": {{"device": 0, "stream": {stream}, "correlation": {correlation}{args}}}}}"#
            )
        };
        let c = 10 * step;
        events.push(cpu(&format!("ProfilerStep#{step}"), "user_annotation", at, 900, ""));
        events.push(cpu("aten::mm", "cpu_op", at + 10, 100, r#""Input Dims": [[4, 8], [8, 16]]"#));
        events.push(cpu("cudaLaunchKernel", "cuda_runtime", at + 20, 10, &format!(r#""correlation": {}"#, c + 1)));
        events.push(cpu("cudaLaunchKernel", "cuda_runtime", at + 40, 10, &format!(r#""correlation": {}"#, c + 2)));
        events.push(cpu("c10d::allreduce_", "cpu_op", at + 150, 50, ""));
        events.push(cpu("cudaLaunchKernel", "cuda_runtime", at + 160, 10, &format!(r#""correlation": {}"#, c + 3)));
        events.push(cpu(
            "cudaDeviceSynchronize",
            "cuda_runtime",
            at + 300,
            400,
            &format!(r#""correlation": {}"#, c + 4),
        ));
        events.push(gpu("ampere_sgemm_32x32_tn", 7, at + 50, 120, c + 1, ""));
        events.push(gpu("void splitKreduce_kernel<32, float>(int, char*)", 7, at + 175, 25, c + 2, ""));
        let nccl = r#", "Collective name": "allreduce", "In msg nelems": 4096, "Out msg nelems": 4096, "Group size": 2, "dtype": "Float""#;
        events.push(gpu("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, at + 250, 400, c + 3, nccl));
    }
    let text = format!(
        r#"{{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42505273344, "numSms": 108}}], "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": 2}}, "hostname": "secret", "traceEvents": [{}]}}"#,
        events.join(",\n")
    );
    let path = directory.join(format!("rank{rank}.json"));
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}
