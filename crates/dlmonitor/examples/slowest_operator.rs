//! Example profiler on top of `DLMonitor`, in Rust: prints the slowest operator with its inputs and call path, and
//! all compilations.
//!
//! ```text
//! cargo build --release -p stackline-dlmonitor --example slowest_operator
//! python -c 'import ctypes, torch; slowest = ctypes.CDLL("target/release/examples/libslowest_operator.so")
//! slowest.begin(); torch.ones(3) + 1; slowest.report()'
//! ```

#![allow(unsafe_code, reason = "functions that Python calls by name")]
#![allow(clippy::print_stdout, reason = "an example")]

use dlmonitor::{Compilation, Input, Observer, OpenOperator, Operator, PathFrame, Sources, Thread, call_path, clock};
use std::sync::Mutex;

/// Duration in ns, name, and call path.
static SLOWEST: Mutex<(u64, String, Vec<PathFrame>)> = Mutex::new((0, String::new(), Vec::new()));

/// Compilations with their durations in ns.
static COMPILED: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());

struct Slowest;

/// Input tensors of an operator: `f32[2, 3]; i64[4]`.
fn inputs(operator: &Operator) -> String {
    let tensors = operator.inputs().into_iter().flatten().filter_map(|input| match input {
        Input::Tensor(tensor) => Some(format!("{}{:?}", tensor.dtype(), tensor.dims().unwrap_or_default())),
        Input::Tensors(tensors) => Some(format!("{} tensors", tensors.len())),
        _ => None,
    });
    tensors.collect::<Vec<_>>().join("; ")
}

impl Observer for Slowest {
    fn operator_begins(&self, operator: &Operator, thread: &mut Thread) {
        if let Some(opened) = thread.open.last_mut() {
            let name = operator.name().text().to_string_lossy();
            let name: Box<String> = Box::new(format!("{name}({})", inputs(operator)));
            opened.client = [clock::ticks(), Box::into_raw(name) as u64, 0, 0];
        }
    }

    fn operator_ends(&self, ended: &OpenOperator, thread: &mut Thread) {
        let took = clock::ns(clock::ticks() - ended.client[0]);
        // SAFETY: `operator_begins` made this box, and an operator ends once.
        let name = unsafe { Box::from_raw(ended.client[1] as *mut String) };
        if let Ok(mut slowest) = SLOWEST.lock()
            && took > slowest.0
        {
            *slowest = (took, *name, call_path(thread, Sources { python: true, operators: false, native: true }));
        }
    }

    fn compilation_begins(&self, compilation: &Compilation<'_>, thread: &mut Thread) {
        if let Some(opened) = thread.open.last_mut().filter(|_| !compilation.is_phase) {
            let name: Box<String> = Box::new(compilation.name.to_string_lossy().into_owned());
            opened.client = [clock::ticks(), Box::into_raw(name) as u64, 0, 0];
        }
    }

    fn compilation_ends(&self, ended: &OpenOperator, _: &mut Thread) {
        if ended.client[1] != 0 {
            // SAFETY: `compilation_begins` made this box, and a compilation ends once.
            let name = unsafe { Box::from_raw(ended.client[1] as *mut String) };
            if let Ok(mut compiled) = COMPILED.lock() {
                compiled.push((*name, clock::ns(clock::ticks() - ended.client[0])));
            }
        }
    }
}

/// Begin to observe; returns 0 on success.
#[unsafe(no_mangle)]
pub extern "C" fn begin() -> i32 {
    let first = dlmonitor::init(Box::new(Slowest));
    let python = dlmonitor::start_python().state;
    let shapes = dlmonitor::start_shapes().state;
    let torch = dlmonitor::start_torch().state;
    let native = dlmonitor::start_native().state;
    dlmonitor::start_compilations();
    i32::from(!first || [python, shapes, torch, native].iter().any(Result::is_err))
}

/// Print the results.
#[unsafe(no_mangle)]
pub extern "C" fn report() {
    dlmonitor::finalize();
    if let Ok(compiled) = COMPILED.lock() {
        for (name, took) in &*compiled {
            println!("{name} took {took} ns");
        }
    }
    if let Ok(slowest) = SLOWEST.lock() {
        println!("{} took {} ns", slowest.1, slowest.0);
        for frame in &slowest.2 {
            match frame {
                PathFrame::Python(line) => println!("  {} ({}:{})", line.function, line.file, line.line),
                PathFrame::Native(native) => {
                    let library = native.module.as_ref().map(|module| module.path.display().to_string());
                    println!("  {:#x} in {}", native.address, library.unwrap_or_default());
                }
                PathFrame::Operator(_) => {}
            }
        }
    }
}
