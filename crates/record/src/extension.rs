//! Python extension module `_stackline_record`, by the plain C API: no header, one file for all versions.
//!
//! The functions take at most a few arguments and never raise. Functions that begin a recording return a text if they
//! fail.

mod exec;

use crate::options::Options;
use crate::recorder::Recorder;
use crate::session::Session;
use crate::standard_error::{self, print_message};
use stackline_recording::{BEGIN, Begin, TensorPart, boot};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `PyMethodDef` of the stable ABI.
#[repr(C)]
struct Method {
    name: *const c_char,
    function: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void>,
    flags: c_int,
    doc: *const c_char,
}

/// `PyModuleDef` of the stable ABI: two words of object head, three of module head, then the fields that are set here.
#[repr(C)]
struct Definition {
    head: [usize; 5],
    name: *const c_char,
    doc: *const c_char,
    size: isize,
    methods: *mut Method,
    slots: [*mut c_void; 4],
}

type WithKeywords = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> *mut c_void;

/// Static variable to which Python keeps pointers for the rest of the process.
struct Static<T>(std::cell::UnsafeCell<T>);

// SAFETY: only the interpreter touches the contents, under its own lock.
unsafe impl<T> Sync for Static<T> {}

const METH_VARARGS: c_int = 1;
const METH_KEYWORDS: c_int = 2;
const METH_NOARGS: c_int = 4;
const METH_O: c_int = 8;

/// Entry of the method table for a function without arguments and documentation.
const fn method(
    name: &'static CStr,
    function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void,
) -> Method {
    Method { name: name.as_ptr(), function: Some(function), flags: METH_NOARGS, doc: c"".as_ptr() }
}

static METHODS: Static<[Method; 19]> = Static(std::cell::UnsafeCell::new([
    method(c"begin_text", begin_text),
    method(c"start", start),
    method(c"start_without_python", start_without_python),
    method(c"torch_imported", torch_imported),
    method(c"stop", stop),
    method(c"frames", frames),
    Method { flags: METH_O, ..method(c"watch_calls", watch_calls) },
    Method { flags: METH_VARARGS, ..method(c"collecting", collecting) },
    Method { flags: METH_VARARGS, ..method(c"put_module", put_module) },
    Method { flags: METH_VARARGS, ..method(c"forget_module", forget_module) },
    Method { flags: METH_VARARGS, ..method(c"name_tensor", name_tensor) },
    Method { flags: METH_VARARGS, ..method(c"name_thread", name_thread) },
    method(c"start_in_child", start_in_child),
    method(c"resume_in_child", resume_in_child),
    Method {
        name: c"_exit".as_ptr(),
        // SAFETY: with METH_KEYWORDS, the interpreter passes three arguments.
        function: Some(unsafe { std::mem::transmute::<WithKeywords, unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void>(exit) }),
        flags: METH_VARARGS | METH_KEYWORDS,
        // The signature and text of the interpreter's own function.
        doc: c"_exit($module, /, status)\n--\n\nExit to the system with specified status, without normal exit processing.".as_ptr(),
    },
    Method { flags: METH_VARARGS, ..method(c"watch_exec", exec::store_originals) },
    exec::EXECV,
    exec::EXECVE,
    Method { name: std::ptr::null(), function: None, flags: 0, doc: std::ptr::null() },
]));

static DEFINITION: Static<Definition> = Static(std::cell::UnsafeCell::new(Definition {
    head: [1, 0, 0, 0, 0],
    name: c"_stackline_record".as_ptr(),
    doc: c"The recorder of Stackline.".as_ptr(),
    size: -1,
    methods: METHODS.0.get().cast(),
    slots: [null_mut(); 4],
}));

/// Functions of the interpreter, looked up once while it loads this library: `dlsym` takes the lock of the dynamic
/// linker, which another thread may hold while it loads a library whose constructor waits for the GIL.
struct Api {
    none: usize,
    increment: unsafe extern "C" fn(*mut c_void),
    parse: unsafe extern "C" fn(*mut c_void, *const c_char, ...) -> c_int,
    parse_keywords: ParseKeywords,
    text: unsafe extern "C" fn(*const c_char) -> *mut c_void,
    delete: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    clear: unsafe extern "C" fn(),
    number: unsafe extern "C" fn(*mut c_void) -> u64,
    call: WithKeywords,
}

type ParseKeywords = unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_char, *const *const c_char, ...) -> c_int;

static API: OnceLock<Api> = OnceLock::new();

impl Api {
    /// Look up all functions in the loaded interpreter; `None` if one is missing.
    fn find() -> Option<Self> {
        let find = |name: &CStr| {
            // SAFETY: the name is null-terminated.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        // SAFETY: these are the signatures of `void Py_IncRef(PyObject *)`, `int PyArg_ParseTuple(PyObject *, const char
        // *, ...)`, `int PyArg_ParseTupleAndKeywords(PyObject *, PyObject *, const char *, char **, ...)`, `PyObject *PyUnicode_FromString(const char *)`, `int PyDict_DelItem(PyObject *, PyObject *)`, `void
        // PyErr_Clear(void)`, `unsigned long long PyLong_AsUnsignedLongLong(PyObject *)` and `PyObject *PyObject_Call(PyObject *, PyObject *,
        // PyObject *)`, all of the stable ABI.
        unsafe {
            Some(Self {
                none: find(c"_Py_NoneStruct")? as usize,
                increment: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(find(c"Py_IncRef")?),
                parse: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, *const c_char, ...) -> c_int>(
                    find(c"PyArg_ParseTuple")?,
                ),
                parse_keywords: std::mem::transmute::<*mut c_void, ParseKeywords>(find(
                    c"PyArg_ParseTupleAndKeywords",
                )?),
                text: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> *mut c_void>(find(
                    c"PyUnicode_FromString",
                )?),
                delete: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>(
                    find(c"PyDict_DelItem")?,
                ),
                clear: std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(find(c"PyErr_Clear")?),
                number: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> u64>(find(
                    c"PyLong_AsUnsignedLongLong",
                )?),
                call: std::mem::transmute::<*mut c_void, WithKeywords>(find(c"PyObject_Call")?),
            })
        }
    }
}

/// Entry point of the extension module, which the interpreter calls at its import: create and return the module.
///
/// # Safety
/// Only an interpreter that holds its lock may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PyInit__stackline_record() -> *mut c_void {
    // SAFETY: the name is null-terminated.
    let create = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PyModule_Create2".as_ptr()) };
    let Some(api) = Api::find().filter(|_| !create.is_null()) else { return null_mut() };
    let _ = API.set(api);
    standard_error::take_over();
    // SAFETY: the signature of `PyObject *PyModule_Create2(PyModuleDef *, int)`.
    let create =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void>(create) };
    const PYTHON_ABI_VERSION: c_int = 3;
    // SAFETY: the definition has the layout of the stable ABI and lives forever; the caller holds the GIL.
    unsafe { create(DEFINITION.0.get().cast(), PYTHON_ABI_VERSION) }
}

/// Python's `None`, with a new reference to it.
fn none() -> *mut c_void {
    let Some(api) = API.get() else { return null_mut() };
    // SAFETY: `_Py_NoneStruct` lives forever; the caller holds the GIL.
    unsafe { (api.increment)(api.none as *mut c_void) };
    api.none as *mut c_void
}

/// Run `action` without letting a panic out, and return Python's `None`. Errors are printed as one line on stderr.
fn catch_panics(action: impl FnOnce() -> Result<(), String>) -> *mut c_void {
    match std::panic::catch_unwind(AssertUnwindSafe(action)) {
        Ok(Ok(())) => {}
        Ok(Err(reason)) => print_message(&format!("not recording this process: {reason}")),
        Err(_) => print_message("not recording this process: internal error in the recorder"),
    }
    none()
}

/// Begin a recording. Returns `None`, or a sentence with the reason why nothing is recorded.
fn begin_recording(begin: impl FnOnce() -> Result<(), String>) -> *mut c_void {
    let reason = match std::panic::catch_unwind(AssertUnwindSafe(begin)) {
        Ok(Ok(())) => return none(),
        Ok(Err(reason)) => reason,
        Err(_) => "the recorder failed".to_owned(),
    };
    let (Ok(reason), Some(api)) = (CString::new(reason), API.get()) else { return none() };
    // SAFETY: a null-terminated text; the caller holds the GIL.
    unsafe { (api.text)(reason.as_ptr()) }
}

/// Text of the recording's begin, for processes that start later: the begin that this process received, unless it came
/// from another machine, otherwise now. Empty if the system does not identify its clock.
unsafe extern "C" fn begin_text(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    let begin = std::panic::catch_unwind(|| {
        let given = std::env::var(BEGIN).ok().and_then(|text| Begin::parse(&text));
        let now = || Some(Begin { monotonic_ns: dlmonitor::clock::monotonic_ns(), boot: boot()? });
        given.filter(|given| given.begin_on_this_clock().is_some()).or_else(now)
    });
    let text = begin.ok().flatten().map_or_else(String::new, |begin| begin.to_string());
    let (Ok(text), Some(api)) = (CString::new(text), API.get()) else { return none() };
    // SAFETY: a null-terminated text; the caller holds the GIL.
    unsafe { (api.text)(text.as_ptr()) }
}

/// Begin the recording with the options of the environment; nothing happens if recording is off.
unsafe extern "C" fn start(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    begin_recording(|| {
        Options::from_environment().map_or(Ok(()), |options| Session::begin(options, Box::new(Recorder)))
    })
}

/// Begin the recording without Python frames, for an interpreter whose frames the recorder cannot read.
unsafe extern "C" fn start_without_python(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    begin_recording(|| {
        let Some(options) = Options::from_environment() else { return Ok(()) };
        print_message(
            "recording without Python frames: the recorder does not support the frame objects of this Python \
             interpreter",
        );
        Session::begin(Options { python: false, ..options }, Box::new(Recorder))
    })
}

/// Start the requested sources of PyTorch (operators, memory, compilations), after Python has imported it.
unsafe extern "C" fn torch_imported(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    catch_panics(|| {
        if let Some(session) = Session::hold() {
            session.torch_imported();
        }
        Ok(())
    })
}

/// End the recording of this process, and write the remaining data.
unsafe extern "C" fn stop(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    catch_panics(|| {
        Session::end();
        Ok(())
    })
}

/// Set the code object (the argument) of the method by which `nn.Module`s are called, to record calls of modules.
unsafe extern "C" fn watch_calls(_module: *mut c_void, code: *mut c_void) -> *mut c_void {
    dlmonitor::Interpreter::watch_calls(code as usize);
    none()
}

/// Callback for `gc.callbacks`: report the begin (`start`) or the end of a garbage collection as a span. The second
/// argument, a dictionary, is ignored, and no Python code runs.
unsafe extern "C" fn collecting(_module: *mut c_void, arguments: *mut c_void) -> *mut c_void {
    /// Only one collection runs at a time.
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    let (mut phase, mut info) = (std::ptr::null::<c_char>(), null_mut::<c_void>());
    let Some(api) = API.get() else { return null_mut() };
    // SAFETY: the format requires a text and an object. The caller holds the GIL and the tuple.
    if unsafe { (api.parse)(arguments, c"sO".as_ptr(), &raw mut phase, &raw mut info) } == 0 {
        // Python's error is set.
        return null_mut();
    }
    // SAFETY: a null-terminated text that the tuple keeps alive.
    let begins = unsafe { CStr::from_ptr(phase) } == c"start";
    catch_panics(|| {
        let is_recording_python = Session::hold().is_some_and(|session| session.records_python());
        let now = if begins && is_recording_python { dlmonitor::collection_begins() } else { 0 };
        dlmonitor::collection_ends(RUNNING.swap(now, Ordering::Relaxed));
        Ok(())
    })
}

/// Remove a freed `nn.Module` (second argument: its `id`) from the dictionary that is the first argument and from the
/// recorder's tables. A third argument, the weak reference that calls this, is ignored.
///
/// The function runs no Python code: an exception that a signal handler raised here would be lost in the weak reference.
unsafe extern "C" fn forget_module(_module: *mut c_void, arguments: *mut c_void) -> *mut c_void {
    let [mut known, mut module, mut reference] = [null_mut::<c_void>(); 3];
    let Some(api) = API.get() else { return null_mut() };
    // SAFETY: the format requires two or three objects. The caller holds the GIL and the tuple.
    let parsed =
        unsafe { (api.parse)(arguments, c"OO|O".as_ptr(), &raw mut known, &raw mut module, &raw mut reference) };
    if parsed == 0 {
        // Python's error is set.
        return null_mut();
    }
    // SAFETY: both objects live as long as the tuple. An object that is not a dictionary, has no such key or is not a
    // number sets an error, which is cleared. The caller holds the GIL.
    let address = unsafe {
        if (api.delete)(known, module) != 0 {
            (api.clear)();
        }
        let address = (api.number)(module);
        if address == u64::MAX {
            (api.clear)();
        }
        address
    };
    catch_panics(|| {
        if let Some(session) = Session::hold() {
            session.process.modules.forget(address as usize);
        }
        Ok(())
    })
}

/// Record that an `nn.Module` (first argument) has a child module (third) as attribute with a name (second).
unsafe extern "C" fn put_module(_module: *mut c_void, arguments: *mut c_void) -> *mut c_void {
    let (mut parent, mut name, mut child) = (null_mut::<c_void>(), std::ptr::null::<c_char>(), null_mut::<c_void>());
    let Some(api) = API.get() else { return null_mut() };
    // SAFETY: the format requires two objects and a text in between. The caller holds the GIL and the tuple, which
    // keeps them alive.
    let parsed = unsafe { (api.parse)(arguments, c"OsO".as_ptr(), &raw mut parent, &raw mut name, &raw mut child) };
    if parsed == 0 {
        // Python's error is set.
        return null_mut();
    }
    catch_panics(|| {
        if let Some(session) = Session::hold() {
            // SAFETY: a null-terminated text that the tuple keeps alive.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            session.process.modules.put(parent as usize, &name, child as usize);
        }
        Ok(())
    })
}

/// Record the Python name of a thread, given by its system number.
unsafe extern "C" fn name_thread(_module: *mut c_void, arguments: *mut c_void) -> *mut c_void {
    let (mut tid, mut name) = (0_u64, std::ptr::null::<c_char>());
    let Some(api) = API.get() else { return null_mut() };
    // SAFETY: the format requires an unsigned number and a text. The caller holds the GIL and the tuple, which keeps
    // them alive.
    let parsed = unsafe { (api.parse)(arguments, c"Ks".as_ptr(), &raw mut tid, &raw mut name) };
    if parsed == 0 {
        // Python's error is set.
        return null_mut();
    }
    catch_panics(|| {
        if let (Some(session), Ok(tid)) = (Session::hold(), u32::try_from(tid)) {
            // SAFETY: a null-terminated text that the tuple keeps alive.
            session.process.name_thread(tid, &unsafe { CStr::from_ptr(name) }.to_string_lossy());
        }
        Ok(())
    })
}

/// Start the stream of a forked child that continues to run, such as a worker of `multiprocessing`.
unsafe extern "C" fn start_in_child(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    catch_panics(|| {
        if let Some(session) = Session::hold() {
            session.start_in_child();
        }
        Ok(())
    })
}

/// After a fork by Python (`os.fork`), in the child: report operators again, if the parent had paused the reports.
unsafe extern "C" fn resume_in_child(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    catch_panics(|| {
        if let Some(session) = Session::hold() {
            session.resume_in_child();
        }
        Ok(())
    })
}

/// Record that a module (first argument) has a tensor under a name (second). The third argument is its role:
/// `parameter`, `buffer`, `gradient` of the parameter with that name, or an optimizer's name of a state after a dot.
/// The fourth one is the address of its `TensorImpl`.
unsafe extern "C" fn name_tensor(_module: *mut c_void, arguments: *mut c_void) -> *mut c_void {
    let (mut module, mut tensor) = (null_mut::<c_void>(), 0_u64);
    let (mut name, mut part) = (std::ptr::null::<c_char>(), std::ptr::null::<c_char>());
    let Some(api) = API.get() else { return null_mut() };
    // SAFETY: the format requires an object, two texts and an unsigned number. The caller holds the GIL and the
    // tuple, which keeps them alive.
    let parsed = unsafe {
        (api.parse)(arguments, c"OssK".as_ptr(), &raw mut module, &raw mut name, &raw mut part, &raw mut tensor)
    };
    if parsed == 0 {
        // Python's error is set.
        return null_mut();
    }
    catch_panics(|| {
        // SAFETY: null-terminated texts that the tuple keeps alive.
        let [name, part] = [name, part].map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy());
        // SAFETY: the caller took the address from a live tensor.
        let memory = unsafe { dlmonitor::storage_at(tensor as usize) };
        if let (Some(session), Some(memory)) = (Session::hold(), memory) {
            let part = match &*part {
                "parameter" => TensorPart::Parameter,
                "buffer" => TensorPart::Buffer,
                "gradient" => TensorPart::Gradient,
                state => TensorPart::State(state.trim_start_matches('.').to_owned()),
            };
            let process = &session.process;
            process.tensors.name((&process.modules, &process.live), module as usize, &name, part, memory);
        }
        Ok(())
    })
}

/// Replacement for `os._exit`, which runs no exit handlers and does not wait for threads: the recording is written
/// first.
unsafe extern "C" fn exit(_module: *mut c_void, arguments: *mut c_void, keywords: *mut c_void) -> *mut c_void {
    let Some(api) = API.get() else { return null_mut() };
    let names = [c"status".as_ptr(), std::ptr::null()];
    let mut code: c_int = 0;
    // SAFETY: the format requires one named number. The caller holds the GIL, the tuple and the dictionary.
    let parsed =
        unsafe { (api.parse_keywords)(arguments, keywords, c"i:_exit".as_ptr(), names.as_ptr(), &raw mut code) };
    if parsed == 0 {
        // Python's error is set.
        return null_mut();
    }
    // A panic was reported on stderr; the program ends as requested.
    let _ = std::panic::catch_unwind(|| {
        if let Some(session) = Session::hold() {
            session.exit(code);
        }
    });
    // SAFETY: the purpose of this function.
    unsafe { libc::_exit(code) }
}

/// Python frames of the caller as the recorder reads them, one per line, newest first: function, file, line, first
/// line of the function, and fingerprint of the code, separated by tabs. For self-tests.
unsafe extern "C" fn frames(_module: *mut c_void, _arguments: *mut c_void) -> *mut c_void {
    let listing = std::panic::catch_unwind(|| {
        let Ok(interpreter) = dlmonitor::Interpreter::find() else { return String::new() };
        let mut listing = String::new();
        let mut next = interpreter.newest();
        while let Some(frame) = next {
            let line = interpreter.describe(frame);
            let fingerprint = interpreter.fingerprint(frame);
            let (function, file, first_line) = (line.function, line.file, line.first_line);
            let _ = writeln!(listing, "{function}\t{file}\t{}\t{first_line}\t{fingerprint}", line.line);
            next = interpreter.caller(frame);
        }
        listing
    });
    let (Ok(Ok(listing)), Some(api)) = (listing.map(CString::new), API.get()) else { return none() };
    // SAFETY: a null-terminated text; the caller holds the GIL.
    unsafe { (api.text)(listing.as_ptr()) }
}
