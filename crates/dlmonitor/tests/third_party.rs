//! Tests of external tools on top of `DLMonitor`: the examples, in a real PyTorch.

use crate::support::{built, run, tool_in_c, torch};
use std::path::{Path, PathBuf};
use std::process::Command;

const COUNT_OPERATORS: &str = "examples/count_operators.c";

/// Text after `label` in its line.
fn line<'a>(stdout: &'a str, label: &str) -> &'a str {
    let found = stdout.lines().find_map(|line| line.split_once(label).map(|(_, rest)| rest));
    found.unwrap_or_else(|| panic!("no {label:?} in {stdout}"))
}

#[test]
fn a_tool_in_c() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let stdout = run(&python, "small_model.py", &tool_in_c(folder.path(), COUNT_OPERATORS), &[]);
    let mut words = stdout.split_whitespace();
    assert_eq!(words.next(), Some("result"), "{stdout}");
    let (ours, theirs) = (
        stdout.lines().find(|line| line.contains(" operators")).unwrap(),
        stdout.lines().find(|line| line.starts_with("expected")).unwrap(),
    );
    let number = |line: &str| line.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap();
    assert_eq!(number(ours), number(theirs), "{stdout}");
    assert!(!ours.contains(" 0 allocations"), "{ours}");
    assert!(stdout.contains("0 compilations, 0 of them unfinished"), "{stdout}");
    assert!(stdout.contains("\ncalled with 0:f32=1600x1600 0:f32=1600x1600\n"), "{stdout}");
}

/// Python frames first, then native frames from the interpreter on, with operators below the functions that called
/// them.
#[test]
fn a_call_path_of_three_sources() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let stdout = run(&python, "small_model.py", &tool_in_c(folder.path(), COUNT_OPERATORS), &[]);
    let path: Vec<&str> = line(&stdout, "first aten::mm: > ").split(" > ").collect();
    let at = |name: &str| path.iter().position(|frame| *frame == name).unwrap_or_else(|| panic!("{name}: {path:?}"));
    let (product, matmul, mm) = (at("product:14"), at("aten::matmul"), at("aten::mm"));
    assert_eq!(path[..=product], ["<module>:28", "work:19", "product:14"]);
    assert_eq!(mm + 1, path.len(), "nothing runs in an operator that begins: {path:?}");
    // The binding of torch.matmul is in libtorch_python; the dispatcher and the kernels are in libtorch_cpu.
    let libraries = |frames: &[&str]| -> Vec<String> {
        frames.iter().map(|frame| frame.rsplit_once('+').unwrap_or_else(|| panic!("{path:?}")).0.to_owned()).collect()
    };
    let (binding, inside) = (libraries(&path[product + 1..matmul]), libraries(&path[matmul + 1..mm]));
    assert!(binding.iter().any(|name| name == "libtorch_python.so"), "{path:?}");
    assert!(!inside.is_empty() && inside.iter().all(|name| name == "libtorch_cpu.so"), "{path:?}");
    for frame in &path[product + 1..] {
        assert!(!frame.contains("dlmonitor") && !frame.contains("libtool"), "{path:?}");
    }
    // Offsets are those of the functions that the path is about.
    let names = functions(&python, "libtorch_cpu.so", &path[matmul + 1..mm]);
    assert!(names.iter().any(|name| name.contains("matmul")), "{names:#?}");
    assert!(names.iter().all(|name| name.contains("at::") || name.contains("c10::")), "{names:#?}");
}

/// Functions of a PyTorch library at addresses of the form `library+0xoffset`.
fn functions(python: &Path, library: &str, frames: &[&str]) -> Vec<String> {
    let code = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])";
    let output = Command::new(python).args(["-c", code]).output().unwrap();
    let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()).join("lib").join(library);
    let content = stackline_symbols::content_hash(&path);
    let library = stackline_symbols::Library { path, build_id: Vec::new(), content };
    let offset = |frame: &&str| u64::from_str_radix(frame.rsplit_once("+0x").unwrap().1, 16).unwrap();
    let offsets: Vec<u64> = frames.iter().map(offset).collect();
    let names = stackline_symbols::Symbolizer::new().names(&library, &offsets).frames;
    names.into_iter().map(|frames| frames.into_iter().next().unwrap_or_default().function).collect()
}

#[test]
fn compilations_begin_and_end() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let stdout = run(&python, "compiled_model.py", &tool_in_c(folder.path(), COUNT_OPERATORS), &[]);
    assert_eq!(
        line(&stdout, "compilations, "),
        "0 of them unfinished; last: Compile 0/0: double (compiled_model.py:12)"
    );
    // `double` twice, `refused` and what is left of it as often as Dynamo tries, `double` once more.
    let count: u32 = stdout.lines().find_map(|line| line.split_once(" compilations")?.0.parse().ok()).unwrap();
    assert!((3..12).contains(&count), "{stdout}");
    assert!(stdout.contains("refused 2.0"), "{stdout}");

    let stdout = run(&python, "compiled_model.py", &built().join("examples/libslowest_operator.so"), &[]);
    let compiled: Vec<&str> =
        stdout.lines().filter(|line| line.contains("double (compiled_model.py:12) took")).collect();
    let names: Vec<&str> = compiled.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(names, ["Compile 0/0", "Recompile 0/1", "Compile 0/0"], "{stdout}");
}

#[test]
fn a_tool_in_rust() {
    let Some(python) = torch() else { return };
    let stdout = run(&python, "small_model.py", &built().join("examples/libslowest_operator.so"), &[]);
    assert!(stdout.contains("(f32[1600, 1600]; f32[1600, 1600]) took") && stdout.contains("  product ("), "{stdout}");
    assert!(stdout.contains("in ") && stdout.contains("libtorch_python.so"), "{stdout}");
}
