//! Any bytes as the files of DrGPUM's collector, with a byte of 0 between one and the next: reading ends without panic, and the result
//! keeps its rules.

use stackline_ingest::memory::read_path;

const FILES: [&str; 3] = ["memory_liveness.txt", "memory_size_list.txt", "operation_stream_info.txt"];

/// Panics where it does not hold.
pub(crate) fn check(data: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    for (name, text) in FILES.iter().zip(data.splitn(FILES.len(), |&byte| byte == 0)) {
        if std::fs::write(folder.path().join(name), text).is_err() {
            return;
        }
    }
    if let Ok(trace) = read_path(folder.path())
        && let Err(rule) = trace.check()
    {
        panic!("{rule}");
    }
}
