//! Libraries that tests compile, and their properties by binutils.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stackline_symbols::{Frame, Library, demangle};

/// A program of this folder.
pub fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// True if these tools are installed. Otherwise the test is skipped, except in CI.
pub fn have(tools: &[&str]) -> bool {
    for tool in tools {
        if tool_command(tool).arg("--version").output().is_ok_and(|output| output.status.success()) {
            continue;
        }
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs {tool}");
        println!("skipped: there is no {tool}");
        return false;
    }
    true
}

/// A tool with a reduced environment, which could change its behavior.
pub fn tool_command(tool: &str) -> Command {
    let mut command = Command::new(tool);
    for variable in ["DEBUGINFOD_URLS", "LD_LIBRARY_PATH", "CPATH", "LIBRARY_PATH", "RUSTFLAGS", "PWD"] {
        command.env_remove(variable);
    }
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Run a tool in a folder, and return its output.
pub fn run(tool: &str, folder: &Path, arguments: &[&str]) -> String {
    let mut command = tool_command(tool);
    let output = command.current_dir(folder).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} in {}: {} {error}", folder.display(), output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A folder for libraries, by its real path.
pub struct Folder {
    _temporary: tempfile::TempDir,
    pub path: PathBuf,
}

impl Folder {
    pub fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().canonicalize().unwrap();
        Self { _temporary: temporary, path }
    }

    /// Compile `plain.c` to a library of this name.
    pub fn plain(&self, name: &str, more: &[&str]) -> PathBuf {
        self.compile("gcc", "plain.c", name, more)
    }

    /// Compile a program of this folder to an optimized library with debug information.
    pub fn compile(&self, compiler: &str, source: &str, name: &str, more: &[&str]) -> PathBuf {
        let source = program(source);
        let source = source.to_str().unwrap();
        let mut arguments = match compiler {
            "rustc" => vec!["--crate-type", "cdylib", "--edition", "2024", "-g", "-O", source, "-o", name],
            _ => vec!["-g", "-O2", "-fPIC", "-shared", "-Wl,--build-id=sha1", source, "-o", name],
        };
        arguments.extend(more);
        run(compiler, &self.path, &arguments);
        self.path.join(name)
    }
}

/// Description of a library by a recorder that loads it now.
pub fn described(path: &Path) -> Library {
    Library { path: path.to_owned(), build_id: build_id(path), content: None }
}

/// The build id, as `readelf` reads it.
pub fn build_id(path: &Path) -> Vec<u8> {
    let text = run("readelf", path.parent().unwrap(), &["-n", path.to_str().unwrap()]);
    let Some((_, id)) = text.split_once("Build ID: ") else { return Vec::new() };
    let digits = id.split_whitespace().next().unwrap();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// Start and size of the functions whose names satisfy `is_included`, by `nm`.
pub fn functions(path: &Path, is_included: impl Fn(&str) -> bool) -> Vec<(String, u64, u64)> {
    let text = run("nm", path.parent().unwrap(), &["-S", "--defined-only", path.to_str().unwrap()]);
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [start, size, kind, name] = words[..] else { return None };
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        (matches!(kind, "T" | "t" | "W" | "w") && is_included(name))
            .then(|| (name.to_owned(), number(start), number(size)))
    };
    text.lines().filter_map(row).collect()
}

/// Functions at addresses by `addr2line -f -i`, outermost first; names are demangled as ours.
pub fn oracle(path: &Path, addresses: &[u64]) -> Vec<Vec<Frame>> {
    let mut command = tool_command("addr2line");
    command.args(["-a", "-f", "-i", "-e"]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{command:?}: {}", output.status);
    let mut all: Vec<Vec<Frame>> = Vec::new();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            all.push(Vec::new());
            continue;
        }
        let place = lines.next().unwrap();
        let place = place.split(" (discriminator").next().unwrap();
        let (file, line_number) = place.rsplit_once(':').unwrap();
        let known = |text: &str| if text == "??" { String::new() } else { text.to_owned() };
        let frame =
            Frame { function: demangle(&known(line)), file: known(file), line: line_number.parse().unwrap_or(0) };
        all.last_mut().unwrap().insert(0, frame);
    }
    assert_eq!(all.len(), addresses.len());
    all
}
