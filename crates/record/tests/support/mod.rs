//! Running programs under the recorder, and reading their streams.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::iter_over_hash_type, reason = "tests")]

use stackline_recording::{Cost, FrameKey, Metric, Overhead, Processors, Reader, Record, Stats, StepEnds};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Path of the recorder that was built with this test.
pub fn recorder() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join("libstackline_record.so")
}

/// A Python with PyTorch, from `python/torch_env.py`. Without it the tests are skipped, except in CI.
pub fn torch() -> Option<PathBuf> {
    let python = std::env::var_os("STACKLINE_TORCH").map(PathBuf::from);
    if python.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs STACKLINE_TORCH (python/torch_env.py)");
        println!("skipped: STACKLINE_TORCH names no Python with PyTorch (python/torch_env.py makes one)");
    }
    python
}

/// Interpreters on the PATH and in pyenv, by version.
pub fn interpreters(version: &str) -> Vec<PathBuf> {
    let mut candidates: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).map(|folder| folder.join(format!("python{version}"))).collect())
        .unwrap_or_default();
    let pyenv = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    if let Some(versions) = pyenv.and_then(|root| root.join("versions").read_dir().ok()) {
        candidates.extend(versions.flatten().map(|entry| entry.path().join(format!("bin/python{version}"))));
    }
    candidates.retain(|path| runs(path, version));
    candidates
}

/// A pyenv shim of an unselected version fails; so may others.
fn runs(python: &Path, version: &str) -> bool {
    let code = format!("import sys; sys.exit('{version}' != '%d.%d' % sys.version_info[:2])");
    python.is_file() && Command::new(python).args(["-c", &code]).output().is_ok_and(|output| output.status.success())
}

/// A file of this package.
pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compile a C file of `programs/` into a library in `folder`; `None` without a compiler.
pub fn compile(folder: &Path, name: &str) -> Option<PathBuf> {
    let library = folder.join(format!("lib{name}.so"));
    let mut command = Command::new("cc");
    command.args(["-g", "-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(here(&format!("tests/programs/{name}.c")));
    match command.status() {
        Ok(status) => assert!(status.success()),
        Err(_) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs a C compiler");
            println!("skipped: no C compiler");
            return None;
        }
    }
    Some(library)
}

/// A command that records itself into `run`.
pub fn recorded(python: &Path, run: &Path) -> Command {
    let mut command = Command::new(python);
    command
        .env("STACKLINE_RECORD", run)
        .env("STACKLINE_RECORDER", recorder())
        .env("PYTHONPATH", here("bootstrap"))
        .env("STACKLINE_SAMPLE_HZ", "0");
    command
}

/// The streams of a run, in the order of their names.
pub fn streams(run: &Path) -> Vec<Stream> {
    let mut paths: Vec<PathBuf> = run.join("streams").read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "slr"));
    paths.sort();
    paths.iter().map(|path| Stream::read(path)).collect()
}

/// All records of a run with one stream.
pub fn all_records(run: &Path) -> Vec<Record> {
    let paths: Vec<PathBuf> = run.join("streams").read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(paths.len(), 1);
    let bytes = std::fs::read(&paths[0]).unwrap();
    let mut reader = Reader::new(&bytes).unwrap();
    let records = reader.by_ref().collect();
    assert!(reader.damage().is_none());
    records
}

/// Stream of one process.
#[derive(Debug, Default)]
pub struct Stream {
    pub process: stackline_recording::Process,
    texts: HashMap<u32, String>,
    libraries: HashMap<u32, u32>,
    pub threads: HashMap<u32, stackline_recording::Thread>,
    frames: HashMap<u32, FrameKey>,
    nodes: HashMap<(u32, u32), (u32, u32)>,
    pub stats: HashMap<(u32, u32, Metric), Stats>,
    pub sources: HashMap<String, (bool, String)>,
    /// Individual calls: thread, node, ns.
    pub events: Vec<(u32, u32, u64)>,
    pub processors: Option<Processors>,
    /// CPU usage of threads: time, threads, running time in ns.
    pub loads: Vec<(i64, u32, u64)>,
    pub cost: Option<Cost>,
    pub overhead: Option<Overhead>,
    pub step_ends: Option<StepEnds>,
    /// True for an open window: initially, and after each change. For recordings in `trace` mode.
    pub windows: Vec<bool>,
    /// Missing records by kind, with counts.
    pub lost: HashMap<String, u64>,
    pub ended: bool,
    /// End of the process in ns since its begin.
    pub end_ns: Option<u64>,
    /// Argument of `os._exit`.
    pub exit: Option<i32>,
    /// True if another program replaced the process.
    pub replaced: bool,
    pub damaged: bool,
}

impl Stream {
    fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let mut reader = Reader::new(&bytes).unwrap();
        let mut stream = Self::default();
        for record in reader.by_ref() {
            stream.take(record);
        }
        stream.damaged = reader.damage().is_some();
        stream
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Process(process) => self.process = *process,
            Record::Text { id, text } => drop(self.texts.insert(id, text)),
            Record::Library { id, path, .. } => drop(self.libraries.insert(id, path)),
            Record::Thread(thread) => drop(self.threads.insert(thread.id, thread)),
            Record::Frame { id, key } => drop(self.frames.insert(id, key)),
            Record::Node { thread, id, parent, frame } => drop(self.nodes.insert((thread, id), (parent, frame))),
            Record::Stats { thread, node, metric, stats } => drop(self.stats.insert((thread, node, metric), stats)),
            Record::Source(source) => drop(self.sources.insert(source.name, (source.on, source.detail))),
            Record::Call { thread, node, duration_ns, .. } => self.events.push((thread, node, duration_ns)),
            Record::Processors(processors) => self.processors = Some(processors),
            Record::Load { at_ns, threads, ran_ns, .. } => self.loads.push((at_ns, threads, ran_ns)),
            Record::Cost(cost) => self.cost = Some(cost),
            Record::Overhead(overhead) => self.overhead = Some(overhead),
            Record::Lost { what, count } => drop(self.lost.insert(what, count)),
            Record::StepEnds(ends) => self.step_ends = Some(ends),
            Record::Window { open, .. } => self.windows.push(open),
            Record::End { at_ns } => (self.ended, self.end_ns) = (true, Some(at_ns)),
            Record::Exit { code } => self.exit = Some(code),
            Record::Replaced => self.replaced = true,
            _ => {}
        }
    }

    /// Frames from the root to a node.
    pub fn path(&self, thread: u32, node: u32) -> Vec<&FrameKey> {
        let mut path = Vec::new();
        let mut at = node;
        while let Some(&(parent, frame)) = self.nodes.get(&(thread, at)) {
            path.push(&self.frames[&frame]);
            at = parent;
        }
        path.reverse();
        path
    }

    /// Number of nodes below a Python function (or of that function) in the trees of operators; trees of samples are
    /// random.
    pub fn nodes_below(&self, function: &str) -> usize {
        let threads: Vec<u32> =
            self.stats.keys().filter(|key| key.2 == Metric::CallTime).map(|&(thread, ..)| thread).collect();
        let is =
            |key: &&FrameKey| matches!(key, FrameKey::Python { function: name, .. } if self.text(*name) == function);
        let below = |&&(thread, node): &&(u32, u32)| self.path(thread, node).iter().any(is);
        self.nodes.keys().filter(|(thread, _)| threads.contains(thread)).filter(below).count()
    }

    pub fn text(&self, id: u32) -> &str {
        &self.texts[&id]
    }

    /// Path of a library.
    pub fn library(&self, id: u32) -> &str {
        self.text(self.libraries[&id])
    }

    /// Paths with the number of garbage collections at their end.
    pub fn collections(&self) -> Vec<(Vec<&FrameKey>, u64)> {
        let collections = self.stats.iter().filter(|(key, _)| key.2 == Metric::GcTime);
        collections.map(|(&(thread, node, _), stats)| (self.path(thread, node), stats.count)).collect()
    }

    /// Paths with the number of calls of the operator at their end.
    pub fn calls(&self) -> Vec<(Vec<&FrameKey>, u64)> {
        let calls = self.stats.iter().filter(|(key, _)| key.2 == Metric::CallTime);
        calls.map(|(&(thread, node, _), stats)| (self.path(thread, node), stats.count)).collect()
    }
}
