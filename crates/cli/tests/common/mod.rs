//! Helpers to run the binary and to find the corpus.
#![allow(dead_code, clippy::print_stdout, reason = "not every test file uses everything")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code outside test functions")]

use stackline_testkit::mini::MiniTrace;
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

/// Output of refused commands, run in `directory`, for snapshots: each with its standard error and exit code.
pub(crate) fn refusals(directory: &Path, commands: &[&[&str]]) -> String {
    let quoted = |word: &&str| if word.is_empty() { "''".to_owned() } else { (*word).to_owned() };
    let refused = |args: &&[&str]| {
        let output = stackline(args).current_dir(directory).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{args:?}");
        let (words, stderr) = (args.iter().map(quoted).collect::<Vec<_>>().join(" "), String::from_utf8(output.stderr));
        format!("$ stackline {words}\n{}exit code {}\n\n", stderr.unwrap(), output.status.code().unwrap())
    };
    commands.iter().map(refused).collect()
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

/// A file of the corpus, or `None` where there is no corpus.
pub(crate) fn corpus(file: &str) -> Option<String> {
    Some(stackline_testkit::corpus::file(file)?.to_str().unwrap().to_owned())
}

/// Writes a file; its path.
pub(crate) fn write(directory: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Add an iteration without a step mark: a copy and nine kernels, each launched by an operator, 50 µs apart.
pub(crate) fn add_iteration(trace: &mut MiniTrace, number: i64, start_us: i64) {
    for operation in 0..10 {
        let id = 100 * number + operation + 1;
        let work = if operation == 0 { "gpu_memcpy Memcpy HtoD (Pageable -> Device)" } else { "kernel gemm" };
        let lines = format!(
            "1/1     cpu_op        aten::mm          0+30
             1/1     cuda_runtime  cudaLaunchKernel  5+10   correlation={id}
             gpu0/7  {work}                          20+40  correlation={id}"
        );
        trace.add_at(start_us + 50 * operation, &lines);
    }
}

/// A small trace of three steps: an operator launches two kernels, a collective runs.
pub(crate) fn sample(rank: i64) -> MiniTrace {
    let mut trace = MiniTrace::new(&format!(
        r#"file deviceProperties=[{{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42505273344, "numSms": 108}}]
        file distributedInfo={{"backend": "nccl", "rank": {rank}, "world_size": 2}} hostname=secret
        process 10 name=python
        thread 10/11 name=main"#
    ));
    let nccl = "Collective name=allreduce In msg nelems=4096 Out msg nelems=4096 Group size=2 dtype=Float";
    for step in 0..3 {
        let [first, second, third, wait] = [1, 2, 3, 4].map(|call| 10 * step + call);
        let events = format!(
            "10/11    user_annotation  ProfilerStep#{step}    0+900
             10/11    cpu_op           aten::mm               10+100   Input Dims=[[4, 8], [8, 16]]
             10/11    cuda_runtime     cudaLaunchKernel       20+10    correlation={first}
             10/11    cuda_runtime     cudaLaunchKernel       40+10    correlation={second}
             10/11    cpu_op           c10d::allreduce_       150+50
             10/11    cuda_runtime     cudaLaunchKernel       160+10   correlation={third}
             10/11    cuda_runtime     cudaDeviceSynchronize  300+400  correlation={wait}
             gpu0/7   kernel           ampere_sgemm_32x32_tn  50+120   correlation={first}
             gpu0/7   kernel           void splitKreduce_kernel<32, float>(int, char*)  175+25  correlation={second}
             gpu0/20  kernel           ncclDevKernel_AllReduce_Sum_f32_RING_LL          250+400 correlation={third} {nccl}"
        );
        trace.add_at(1000 * step, &events);
    }
    trace
}

/// Writes the small trace into `directory`; its path.
pub(crate) fn write_sample(directory: &Path, rank: i64) -> String {
    write(directory, &format!("rank{rank}.json"), sample(rank).json())
}
