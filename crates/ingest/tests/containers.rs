//! Traces in any container and state give the trace or an error.

use crate::common;

use stackline_ingest::{Error, ReadOptions, read_bytes, read_paths};
use stackline_model::{Trace, TraceSet};
use stackline_testkit::io::gzip;
use stackline_testkit::mini::{self, MiniTrace};
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A document with one event, whose name identifies it.
fn document(name: &str) -> Vec<u8> {
    mini::trace(&format!("file -\n1/1 - {name} 1+2")).into_bytes()
}

fn tar(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

fn zip(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (i, (name, bytes)) in members.iter().enumerate() {
        let method = if i % 2 == 0 { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A folder with these files.
fn folder(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

fn read(path: &Path) -> Result<TraceSet, Error> {
    read_paths(&[path.to_owned()], &ReadOptions::default())
}

/// Label and names of events of each trace.
fn shown(set: &TraceSet) -> Vec<String> {
    let names = |t: &Trace| t.events.ids().map(|e| t.name(e)).collect::<Vec<_>>().join(" ");
    set.traces.iter().map(|t| format!("{}: {}", t.meta.name, names(t))).collect()
}

fn reason(path: &Path) -> String {
    let reason = read(path).expect_err("nothing to read").to_string();
    assert!(reason.starts_with(&path.display().to_string()) && !reason.contains('\n'), "{reason}");
    reason
}

#[test]
fn packing_is_detected_from_content() {
    let a = document("a");
    let zst = zstd::encode_all(&a[..], 3).unwrap();
    let two_members = [gzip(&a[..20]), gzip(&a[20..])].concat();
    let two_frames = [zstd::encode_all(&a[..20], 3).unwrap(), zstd::encode_all(&a[20..], 3).unwrap()].concat();
    let packed = [a.clone(), gzip(&a), two_members, zst.clone(), two_frames, gzip(&zst)];
    for bytes in &packed {
        for name in ["t.json", "t.json.gz", "t.zip", "t"] {
            let dir = folder(&[(name, bytes.clone())]);
            let set = read(&dir.path().join(name)).unwrap();
            assert_eq!(shown(&set), [format!("{name}: a")]);
            assert!(set.traces[0].report.problems.is_empty(), "{:?}", set.traces[0].report.problems);
            assert_eq!(set.traces[0].report.bytes, a.len() as u64);
        }
        assert_eq!(read_bytes("x", bytes, &ReadOptions::default()).unwrap().events.len(), 1);
    }
}

#[test]
fn archives_of_ranks() {
    let members = [
        ("run/rank1.json", document("b")),
        ("run/rank0.json.gz", gzip(&document("a"))),
        ("run/notes.txt", b"hi".to_vec()),
    ];
    let tarball = tar(&members);
    for bytes in [tarball.clone(), gzip(&tarball), zip(&members), gzip(&zip(&members))] {
        let dir = folder(&[("run.pack", bytes)]);
        let set = read(&dir.path().join("run.pack")).unwrap();
        assert_eq!(shown(&set), ["run.pack/run/rank1.json: b", "run.pack/run/rank0.json.gz: a"]);
        assert_eq!(set.traces.iter().map(|t| t.meta.rank).collect::<Vec<_>>(), [Some(1), Some(0)]);
        // A member that is not a trace is counted once, with its name.
        let problem = set.traces[0].report.problems.iter().find(|p| p.code == "skipped_file").unwrap();
        assert!(problem.count == 1 && problem.example.starts_with("run.pack/run/notes.txt: "), "{}", problem.example);
        assert_eq!(set.traces[1].report.count_of("skipped_file"), 0);
    }
}

#[test]
fn hidden_members_and_archives_in_archives() {
    let inner = zip(&[("deep.json", document("deep"))]);
    let members = [
        ("._rank0.json", document("no")),
        ("__MACOSX/x.json", document("no")),
        ("inner.zip", inner),
        ("b.json", document("b")),
    ];
    let dir = folder(&[("outer.tar", tar(&members))]);
    let set = read(&dir.path().join("outer.tar")).unwrap();
    assert_eq!(shown(&set), ["outer.tar/inner.zip/deep.json: deep", "outer.tar/b.json: b"]);
}

/// All members of an archive determine if it is a memory archive; settings and unknown texts do not matter.
#[test]
fn memory_archives_are_detected_from_all_members() {
    let memory = |name: &'static str| (name, b"a x 1024; f x; end".to_vec());
    let notes = || ("notes.txt", b"hello".to_vec());
    let trace = || ("t.json", document("a"));
    let packed = |name, bytes| tar(&[memory("a.memory"), (name, bytes)]);
    let within = tar(&[memory("b.memory"), notes()]);
    for (name, bytes, count) in [
        ("one", tar(&[memory("a.memory"), notes()]), Some(1)),
        ("two", gzip(&tar(&[memory("a.memory"), memory("b.memory")])), Some(2)),
        ("two in a zip", zip(&[memory("a.memory"), memory("b.memory")]), Some(2)),
        ("a tar of memory within", packed("b.tar.gz", gzip(&within)), Some(2)),
        ("a tar of notes within", packed("notes.tar", tar(&[notes()])), Some(1)),
        ("a trace", packed("t.json.gz", gzip(&document("a"))), None),
        ("a tar of memory and a trace within", packed("b.tar", tar(&[memory("b.memory"), trace()])), None),
        // A zip within an archive is not opened.
        ("a zip within", packed("t.json.zip", zip(&[trace()])), None),
        ("a database", packed("t.sqlite", b"SQLite format 3\0".to_vec()), None),
    ] {
        let folder = folder(&[("archive.tar", bytes)]);
        let path = folder.path().join("archive.tar");
        let is_memory = stackline_ingest::memory::is_memory_file(&path).unwrap();
        let counted = is_memory.then(|| stackline_ingest::memory::count_memory_files(&path).unwrap());
        assert_eq!(counted, count, "{name}");
    }
}

#[test]
fn nested_packing_is_limited() {
    let mut bytes = document("a");
    let mut depths = Vec::new();
    for depth in 1..8 {
        bytes = gzip(&bytes);
        match read_bytes("bomb", &bytes, &ReadOptions::default()) {
            Ok(trace) => assert_eq!((trace.events.len(), depths.len()), (1, 0), "{depth}"),
            Err(error) => {
                assert!(error.to_string().contains("nested more than 4 levels deep"), "{error}");
                depths.push(depth);
            }
        }
    }
    assert_eq!(depths, [5, 6, 7]);
}

#[test]
fn directory_with_unrelated_files() {
    let dir = folder(&[
        ("b.json", document("b")),
        ("a/rank0.json.gz", gzip(&document("a"))),
        ("a/README.md", b"# hello".to_vec()),
        ("links.md", b"[a link](to nowhere) and [another](one)".to_vec()),
        ("package.json", br#"{"name": "x"}"#.to_vec()),
        ("list.json", br#"[{"id": 1}, {"id": 2}]"#.to_vec()),
        ("numbers.json", b"[1, 2, 3]".to_vec()),
        ("empty.json", Vec::new()),
        ("image.png", b"\x89PNG\r\n".to_vec()),
        (".hidden.json", document("no")),
    ]);
    let set = read(dir.path()).unwrap();
    assert_eq!(shown(&set), ["a/rank0.json.gz: a", "b.json: b"]);
    assert_eq!(set.traces[0].report.count_of("skipped_file"), 5);
    // Given by name, they produce errors.
    assert!(reason(&dir.path().join("package.json")).contains("without \"traceEvents\""));
    assert!(reason(&dir.path().join("list.json")).contains("contains no trace event"));
    assert!(reason(&dir.path().join("numbers.json")).contains("contains no trace event"));
    assert!(reason(&dir.path().join("links.md")).contains("contains no trace event"));
}

#[cfg(unix)]
#[test]
fn links_are_followed_to_files_only() {
    let dir = folder(&[("a/rank0.json", document("a"))]);
    std::os::unix::fs::symlink(dir.path(), dir.path().join("a/circle")).unwrap();
    std::os::unix::fs::symlink("rank0.json", dir.path().join("a/same.json")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("a/dangling.json")).unwrap();
    assert_eq!(shown(&read(dir.path()).unwrap()), ["a/rank0.json: a", "a/same.json: a"]);
}

#[test]
fn several_files_keep_their_order() {
    let dir = folder(&[("z.json", document("z")), ("a.json", document("a")), ("sub/m.json", document("m"))]);
    let paths: Vec<PathBuf> = ["z.json", "sub", "a.json"].iter().map(|p| dir.path().join(p)).collect();
    for threads in [1, 2, 8] {
        let options = ReadOptions { threads, ..ReadOptions::default() };
        assert_eq!(shown(&read_paths(&paths, &options).unwrap()), ["z.json: z", "m.json: m", "a.json: a"]);
    }
    // An unreadable file that was given by name fails the call.
    let paths = [paths[0].clone(), dir.path().join("missing.json")];
    let error = read_paths(&paths, &ReadOptions::default()).unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path.ends_with("missing.json")), "{error}");
}

#[test]
fn unreadable_inputs_report_the_reason() {
    let dir =
        folder(&[("empty.json", Vec::new()), ("blank.json", b" \n ".to_vec()), ("none/readme.txt", b"x".to_vec())]);
    fs::create_dir(dir.path().join("hollow")).unwrap();
    assert!(reason(&dir.path().join("missing.json")).contains("No such file"));
    assert!(reason(&dir.path().join("empty.json")).contains("the profiler wrote nothing"));
    assert!(reason(&dir.path().join("blank.json")).contains("the profiler wrote nothing"));
    assert!(reason(&dir.path().join("none")).contains("no trace found"));
    assert!(reason(&dir.path().join("hollow")).contains("no trace found"));
    assert!(reason(&dir.path().join("empty.json/below")).contains("cannot read"));
}

#[cfg(unix)]
#[test]
fn a_file_without_permission() {
    use std::os::unix::fs::PermissionsExt;
    let dir = folder(&[("locked.json", document("a"))]);
    let path = dir.path().join("locked.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    if fs::File::open(&path).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    assert!(reason(&path).contains("Permission denied"));
}

#[test]
fn empty_archives() {
    for bytes in
        [zip(&[]), gzip(&zip(&[])), gzip(b""), tar(&[("notes.txt", b"x".to_vec()), ("more.txt", b"y".to_vec())])]
    {
        let dir = folder(&[("t", bytes)]);
        reason(&dir.path().join("t"));
    }
}

/// Many events, so that the decompressor returns data before the end of the stream.
fn long_document() -> Vec<u8> {
    let mut trace = MiniTrace::new("file -");
    for i in 0..20_000_u32 {
        let noise = i.wrapping_mul(2_654_435_761);
        trace.add(&format!("1/1 - n{noise:x} {i}+1"));
    }
    trace.json().into_bytes()
}

#[test]
fn truncated_streams_keep_their_first_events() {
    let text = long_document();
    let zst = zstd::encode_all(&text[..], 1).unwrap();
    for (name, bytes) in [("gz", gzip(&text)), ("zst", zst), ("tgz", gzip(&tar(&[("t.json", text.clone())])))] {
        let cut = bytes.len() * 2 / 3;
        let mut flipped = bytes.clone();
        flipped[cut] ^= 0x55;
        for damaged in [bytes[..cut].to_vec(), flipped] {
            let dir = folder(&[("t", damaged)]);
            let set = read(&dir.path().join("t")).unwrap();
            let trace = &set.traces[0];
            assert!((5_000..20_000).contains(&trace.events.len()), "{name}: {} events", trace.events.len());
            assert!(!trace.report.is_clean(), "{name}: {:?}", trace.report.problems);
            let count = trace.report.count_of("damaged_compression") + trace.report.count_of("skipped_file");
            assert!(count > 0, "{name}: {:?}", trace.report.problems);
            let row = |i: usize| (trace.events.start[i], trace.events.dur[i]);
            assert_eq!((row(0), row(4_999)), ((0, 1_000), (4_999_000, 1_000)));
        }
    }
}

#[test]
fn truncated_archives_keep_their_first_members() {
    let members = [("a.json", document("a")), ("b.json", long_document()), ("c.json", document("c"))];
    let tarball = tar(&members);
    let dir = folder(&[("t.tar", tarball[..tarball.len() / 2].to_vec())]);
    let set = read(&dir.path().join("t.tar")).unwrap();
    assert_eq!((set.traces.len(), set.traces[0].events.len()), (2, 1));
    let cut = &set.traces[1];
    assert!((5_000..15_000).contains(&cut.events.len()) && cut.report.count_of("truncated") == 1, "{:?}", cut.report);
    // The directory of a zip is at its end: without it, no member can be found.
    let packed = zip(&members);
    let dir = folder(&[("t.zip", packed[..packed.len() / 2].to_vec())]);
    reason(&dir.path().join("t.zip"));
}

#[test]
fn damaged_members_affect_no_others() {
    let members = [("a.json", document("a")), ("b.json", document("b")), ("c.json", document("c"))];
    let mut packed = zip(&members);
    // The second member is stored: its text can be found, and broken beyond the first bracket.
    let at = packed.windows(4).position(|w| w == b"\"b\",").unwrap();
    packed[at + 1] = b'B';
    let dir = folder(&[("t.zip", packed)]);
    let set = read(&dir.path().join("t.zip")).unwrap();
    let names = shown(&set);
    assert_eq!((names[0].as_str(), names.last().unwrap().as_str()), ("t.zip/a.json: a", "t.zip/c.json: c"));
    // The checksum shows the change.
    let count_of = |code: &str| set.traces.iter().map(|t| t.report.count_of(code)).sum::<u64>();
    assert!(count_of("damaged_compression") + count_of("skipped_file") > 0, "{names:?}");
}

#[test]
fn eight_ranks_of_the_corpus() {
    let Some(corpus) = common::corpus() else { return };
    let set = read(&corpus.join("bundles/param-dlrm_kineto.tar.gz")).unwrap();
    let ranks: Vec<Option<i64>> = set.traces.iter().map(|t| t.meta.rank).collect();
    assert_eq!(ranks, [2, 4, 7, 0, 5, 3, 6, 1].map(Some));
    for trace in &set.traces {
        assert!(trace.events.len() > 1_000 && trace.report.is_clean(), "{}: {:?}", trace.meta.name, trace.report);
        assert_eq!(trace.meta.world_size, Some(8));
    }
    // Launches and operations, counted by another program: ranks 3 and 1 have 64 operations from before the recording.
    let expected = [(262, 262), (273, 273), (262, 262), (261, 261), (261, 261), (273, 337), (262, 262), (262, 326)];
    let launched = |t: &Trace| (t.gpu.launch.iter().filter(|l| l.is_some()).count(), t.gpu.len());
    let counts: Vec<(usize, usize)> = set.traces.iter().map(launched).collect();
    assert_eq!(counts, expected);
}

#[test]
fn cancellation_before_and_during_reading() {
    let dir = folder(&[
        ("a.json", long_document()),
        ("b.json", gzip(&long_document())),
        ("c.tar", tar(&[("t.json", long_document())])),
    ]);
    for name in ["a.json", "b.json", "c.tar", ""] {
        let path = dir.path().join(name);
        let before = ReadOptions { cancel: Some(Arc::new(AtomicBool::new(true))), ..ReadOptions::default() };
        assert!(matches!(read_paths(std::slice::from_ref(&path), &before), Err(Error::Cancelled)), "{name}");
        // Stopped by the first progress report.
        let flag = Arc::new(AtomicBool::new(false));
        let raised = flag.clone();
        let progress: Arc<dyn Fn(u64) + Send + Sync> = Arc::new(move |_| raised.store(true, Ordering::Relaxed));
        let during = ReadOptions { cancel: Some(flag), progress: Some(progress), ..ReadOptions::default() };
        assert!(matches!(read_paths(&[path], &during), Err(Error::Cancelled)), "{name}");
    }
}

#[test]
fn progress_adds_up_to_the_bytes_of_the_files() {
    let dir = folder(&[
        ("a.json", long_document()),
        ("b.json", gzip(&long_document())),
        ("c.zip", zip(&[("t", document("c"))])),
    ]);
    let size: u64 = ["a.json", "b.json", "c.zip"].iter().map(|f| dir.path().join(f).metadata().unwrap().len()).sum();
    for threads in [1, 4] {
        let sum = Arc::new(AtomicU64::new(0));
        let counter = sum.clone();
        let progress: Arc<dyn Fn(u64) + Send + Sync> = Arc::new(move |n| {
            counter.fetch_add(n, Ordering::Relaxed);
        });
        let options = ReadOptions { threads, progress: Some(progress), ..ReadOptions::default() };
        assert_eq!(read_paths(&[dir.path().to_owned()], &options).unwrap().traces.len(), 3);
        assert_eq!(sum.load(Ordering::Relaxed), size);
    }
}

#[cfg(unix)]
#[test]
fn a_named_pipe() {
    let dir = folder(&[]);
    let path = dir.path().join("pipe");
    if !std::process::Command::new("mkfifo").arg(&path).status().is_ok_and(|s| s.success()) {
        println!("skipped: no mkfifo");
        return;
    }
    let target = path.clone();
    let writer = std::thread::spawn(move || fs::write(target, gzip(&document("piped"))));
    assert_eq!(shown(&read(&path).unwrap()), ["pipe: piped"]);
    writer.join().unwrap().unwrap();
}

/// Read standard input, if the test below starts this one in a separate process.
#[test]
#[ignore = "the other half of standard_input"]
fn standard_input_child() {
    match read(Path::new("-")) {
        Ok(set) => println!("read {:?}", shown(&set)),
        Err(error) => println!("failed {error}"),
    }
}

#[test]
fn standard_input() {
    // One after the other: each child holds a pipe that the next must not inherit.
    static ONE: Mutex<()> = Mutex::new(());
    let _guard = ONE.lock();
    for (bytes, expected) in [
        (document("in"), "read [\"-: in\"]"),
        (gzip(&document("packed")), "read [\"-: packed\"]"),
        (zip(&[("a.json", document("zipped"))]), "read [\"-/a.json: zipped\"]"),
        (Vec::new(), "failed -: not a trace: the file is empty"),
    ] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "containers::standard_input_child", "--nocapture"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        let output = String::from_utf8_lossy(&output.stdout);
        assert!(output.contains(expected), "{output}");
    }
}
