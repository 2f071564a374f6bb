//! Python code that the library runs in the interpreter, for information that is only available there.
//!
//! Uses the C API by symbol lookup at run time, so that no library is linked.

use crate::symbols;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

type Object = *mut c_void;
/// C function that Python code calls: `self` is null, the arguments are a tuple.
pub(crate) type Function = unsafe extern "C" fn(Object, Object) -> Object;

/// Description of a C function for Python: `PyMethodDef` of the stable ABI.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Method {
    name: *const c_char,
    function: Function,
    flags: c_int,
    doc: *const c_char,
}

// SAFETY: its pointers are to constants.
unsafe impl Sync for Method {}

impl Method {
    const METH_VARARGS: c_int = 1;

    /// Describe a C function under a name in Python.
    pub(crate) const fn new(name: &'static CStr, function: Function) -> Self {
        Self { name: name.as_ptr(), function, flags: Self::METH_VARARGS, doc: c"".as_ptr() }
    }
}

/// Embedded Python source code and, after its execution, its globals.
#[derive(Debug)]
pub(crate) struct Embedded {
    file: &'static CStr,
    source: &'static CStr,
    methods: &'static [Method],
    globals: AtomicPtr<c_void>,
}

impl Embedded {
    /// Define embedded source, which may call `methods`; `file` is its name in tracebacks.
    pub(crate) const fn new(file: &'static CStr, source: &'static CStr, methods: &'static [Method]) -> Self {
        Self { file, source, methods, globals: AtomicPtr::new(null_mut()) }
    }

    /// Call a function of the embedded source without arguments. The first call executes the source. Waits for Python's
    /// lock.
    ///
    /// # Errors
    /// A sentence: no interpreter runs, or Python raised an exception.
    pub(crate) fn call(&self, function: &CStr) -> Result<(), String> {
        let python = Python::find().ok_or("no Python interpreter runs in this process")?;
        // SAFETY: the interpreter is initialized; the state is released below.
        let state = unsafe { (python.ensure)() };
        // SAFETY: this thread holds the GIL now.
        let done = unsafe { self.call_locked(python, function) };
        // SAFETY: `state` comes from the matching call of `ensure`.
        unsafe { (python.release)(state) };
        done
    }

    /// Call a function of embedded source that was executed before, only if the calling thread holds Python's lock.
    pub(crate) fn call_if_locked(&self, function: &CStr) {
        let Some(python) = Python::find() else { return };
        // SAFETY: it takes nothing, and may be called at any time while there is an interpreter.
        if !self.globals.load(Ordering::Acquire).is_null() && unsafe { (python.check)() } != 0 {
            // SAFETY: the GIL is held.
            let _ = unsafe { self.call_locked(python, function) };
        }
    }

    /// Call a function of the embedded source without arguments, after executing the source at the first call.
    ///
    /// # Safety
    /// The caller holds the GIL.
    unsafe fn call_locked(&self, python: &Python, function: &CStr) -> Result<(), String> {
        // SAFETY: by contract; references are borrowed from the globals, which live forever.
        unsafe {
            let mut globals = self.globals.load(Ordering::Acquire);
            if globals.is_null() {
                globals = self.run(python)?;
                self.globals.store(globals, Ordering::Release);
            }
            let callable = (python.get_item)(globals, function.as_ptr());
            let result = if callable.is_null() { null_mut() } else { (python.call_object)(callable, null_mut()) };
            python.result_of(result).map(|result| (python.decrease)(result))
        }
    }

    /// Execute the embedded source, and return its globals.
    ///
    /// # Safety
    /// The caller holds the GIL.
    unsafe fn run(&self, python: &Python) -> Result<Object, String> {
        const FILE_INPUT: c_int = 257;
        // SAFETY: by contract. All texts are null-terminated, methods are static; objects that are created here are
        // released, except the globals.
        unsafe {
            let globals = python.result_of((python.new_dict)())?;
            let builtins = (python.builtins)();
            (python.set_item)(globals, c"__builtins__".as_ptr(), builtins);
            let name = python.result_of((python.new_text)(self.file.as_ptr()))?;
            (python.set_item)(globals, c"__name__".as_ptr(), name);
            (python.decrease)(name);
            for method in self.methods {
                let made = python.result_of((python.new_function)(method, null_mut(), null_mut()))?;
                (python.set_item)(globals, method.name, made);
                (python.decrease)(made);
            }
            let code = python.result_of((python.compile)(self.source.as_ptr(), self.file.as_ptr(), FILE_INPUT))?;
            let result = (python.evaluate)(code, globals, globals);
            (python.decrease)(code);
            python.result_of(result).map(|result| {
                (python.decrease)(result);
                globals
            })
        }
    }
}

/// Parse a tuple of arguments as `PyArg_ParseTuple` does; on failure, return null with Python's error set.
macro_rules! arguments {
    ($tuple:expr, $format:expr, $($place:expr),+) => {{
        let Some(parse) = crate::python::embedded::parse() else { return std::ptr::null_mut() };
        // SAFETY: the signature of `PyArg_ParseTuple`. The interpreter passes a tuple and holds its lock. The format of
        // the caller of this macro matches the types of the output arguments.
        let parsed = unsafe { parse($tuple, $format.as_ptr(), $($place),+) };
        if parsed == 0 {
            return std::ptr::null_mut();
        }
    }};
}
pub(crate) use arguments;

/// `PyArg_ParseTuple`.
pub(crate) type Parse = unsafe extern "C" fn(Object, *const c_char, ...) -> c_int;

/// Python's function `PyArg_ParseTuple`, which parses the arguments of a C function; `None` before embedded source ran.
pub(crate) fn parse() -> Option<Parse> {
    PYTHON.get().map(|python| python.parse)
}

/// Create a Python integer, as the result of a C function ([`Function`]).
pub(crate) fn number(value: u64) -> Object {
    // SAFETY: the interpreter that called holds its lock.
    PYTHON.get().map_or(null_mut(), |python| unsafe { (python.number)(value) })
}

/// Functions of the C API, looked up once: a lookup takes the lock of the dynamic linker, which another thread may
/// hold while it loads a library whose constructor waits for Python's lock.
struct Python {
    running: unsafe extern "C" fn() -> c_int,
    parse: Parse,
    number: unsafe extern "C" fn(u64) -> Object,
    /// Address of the class `KeyboardInterrupt`.
    interrupt: *const Object,
    is_error: unsafe extern "C" fn(Object) -> c_int,
    set_interrupt: unsafe extern "C" fn(),
    ensure: unsafe extern "C" fn() -> c_int,
    release: unsafe extern "C" fn(c_int),
    check: unsafe extern "C" fn() -> c_int,
    new_dict: unsafe extern "C" fn() -> Object,
    get_item: unsafe extern "C" fn(Object, *const c_char) -> Object,
    set_item: unsafe extern "C" fn(Object, *const c_char, Object) -> c_int,
    new_text: unsafe extern "C" fn(*const c_char) -> Object,
    new_function: unsafe extern "C" fn(*const Method, Object, Object) -> Object,
    builtins: unsafe extern "C" fn() -> Object,
    compile: unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> Object,
    evaluate: unsafe extern "C" fn(Object, Object, Object) -> Object,
    call_object: unsafe extern "C" fn(Object, Object) -> Object,
    clear_error: unsafe extern "C" fn(),
    decrease: unsafe extern "C" fn(Object),
}

// SAFETY: its one pointer is to a variable of the interpreter that is set before a library can be loaded by it.
unsafe impl Send for Python {}
// SAFETY: as above; the variable is never written.
unsafe impl Sync for Python {}

static PYTHON: OnceLock<Python> = OnceLock::new();

impl Python {
    /// Look up Python's C interface; `None` if no interpreter runs in this process or if the interpreter is finalizing.
    fn find() -> Option<&'static Self> {
        let python = match PYTHON.get() {
            Some(python) => python,
            None => {
                let found = Self::look_up()?;
                PYTHON.get_or_init(|| found)
            }
        };
        // SAFETY: it takes nothing and may be called at any time.
        (unsafe { (python.running)() } != 0).then_some(python)
    }

    /// Look up all functions of the C API by name; `None` if one is missing.
    fn look_up() -> Option<Self> {
        // SAFETY: the signatures of the stable ABI, of functions that every supported version exports.
        unsafe {
            Some(Self {
                running: function(c"Py_IsInitialized")?,
                parse: function(c"PyArg_ParseTuple")?,
                number: function(c"PyLong_FromUnsignedLongLong")?,
                interrupt: symbols::global(c"PyExc_KeyboardInterrupt")?.as_ptr().cast(),
                is_error: function(c"PyErr_ExceptionMatches")?,
                set_interrupt: function(c"PyErr_SetInterrupt")?,
                ensure: function(c"PyGILState_Ensure")?,
                release: function(c"PyGILState_Release")?,
                check: function(c"PyGILState_Check")?,
                new_dict: function(c"PyDict_New")?,
                get_item: function(c"PyDict_GetItemString")?,
                set_item: function(c"PyDict_SetItemString")?,
                new_text: function(c"PyUnicode_FromString")?,
                new_function: function(c"PyCFunction_NewEx")?,
                builtins: function(c"PyEval_GetBuiltins")?,
                compile: function(c"Py_CompileString")?,
                evaluate: function(c"PyEval_EvalCode")?,
                call_object: function(c"PyObject_CallObject")?,
                clear_error: function(c"PyErr_Clear")?,
                decrease: function(c"Py_DecRef")?,
            })
        }
    }

    /// Result of a call of Python's C API. For null, an error; the Python exception is cleared, except
    /// `KeyboardInterrupt`, which is raised again.
    ///
    /// # Safety
    /// The caller holds the GIL.
    unsafe fn result_of(&self, object: Object) -> Result<Object, String> {
        if object.is_null() {
            // SAFETY: by contract; the class is set while there is an interpreter.
            unsafe {
                // Ctrl-C was pressed at this moment: the program must receive it.
                let is_interrupt = (self.is_error)(*self.interrupt) != 0;
                (self.clear_error)();
                if is_interrupt {
                    (self.set_interrupt)();
                }
            }
            return Err("Python raised an error".into());
        }
        Ok(object)
    }
}

/// Look up a function of Python's C API by name, as a function pointer of type `F`; `None` if no library exports it.
///
/// # Safety
/// `F` is the type of the function with this name.
pub(super) unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
    // SAFETY: by contract; a function pointer is as large as any other, as asserted.
    symbols::global(name).map(|address| unsafe { std::mem::transmute_copy(&address) })
}
