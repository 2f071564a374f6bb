//! Detection of the memory layout of operator inputs in the loaded PyTorch. The detection uses test tensors of known
//! shapes and one operator call with known inputs.
//!
//! Tensors are created by functions with a stable C interface (the one that compiled models use). The call is
//! inspected by a separate callback on a separate thread: no data of the program are changed, and neither Python nor
//! its lock is needed. All memory is read through the kernel, so a wrong guess is an error instead of a crash.

use super::inputs::{CUSTOM_STRIDES, INLINE, INT, LISTS, Layout, NOT_PLAIN, TENSOR, Value};
use super::{DType, RecordFunctionCallback};
use crate::python::Memory;
use crate::symbols::Library;
use std::cell::Cell;
use std::ffi::{CStr, c_void};

/// `AOTITorchError`: 0 on success.
type Failed = i32;
/// `AtenTensorHandle`: an `at::Tensor *`.
type Handle = *mut *const u8;

type Empty = unsafe extern "C" fn(i64, *const i64, *const i64, i32, i32, i32, *mut Handle) -> Failed;
type Reshape = unsafe extern "C" fn(Handle, *const i64, i64, *mut Handle) -> Failed;
type Data = unsafe extern "C" fn(Handle, *mut usize) -> Failed;
type IsTensorList = unsafe extern "C" fn(*const Value) -> bool;

/// Functions of PyTorch that the detection calls.
#[derive(Clone, Copy)]
pub(super) struct Shim {
    empty: Empty,
    reshape: Reshape,
    delete: unsafe extern "C" fn(Handle) -> Failed,
    add: unsafe extern "C" fn(RecordFunctionCallback) -> u64,
    remove: unsafe extern "C" fn(u64),
    count: unsafe extern "C" fn(*const u8) -> usize,
    is_tensor_list: IsTensorList,
    data: Option<Data>,
    undefined: usize,
}

/// Types by the functions that return their numbers.
const TYPES: [(&CStr, &str); 8] = [
    (c"aoti_torch_dtype_float32", "f32"),
    (c"aoti_torch_dtype_float64", "f64"),
    (c"aoti_torch_dtype_bfloat16", "bf16"),
    (c"aoti_torch_dtype_float16", "f16"),
    (c"aoti_torch_dtype_int64", "i64"),
    (c"aoti_torch_dtype_int32", "i32"),
    (c"aoti_torch_dtype_uint8", "u8"),
    (c"aoti_torch_dtype_bool", "bool"),
];

/// Sizes and types of the test tensors: no sizes, inline sizes, and more than fit inline.
const TEST_TENSORS: [(&[i64], u8); 7] = [
    (&[], 6),
    (&[3], 4),
    (&[5, 2], 15),
    (&[2, 7, 3], 1),
    (&[2, 1, 5, 3, 2], 11),
    (&[3, 1, 2, 1, 5, 2], 7),
    (&[1, 2, 3, 2, 1, 1, 4], 0),
];

/// Bytes of a `RecordFunction` and of a `TensorImpl` that are searched.
pub(super) const RECORD_FUNCTION: usize = 384;
pub(super) const TENSOR_IMPL: usize = 256;
/// Possible offsets of the storage in a `TensorImpl`, and of the data pointer in the storage.
const STORAGE_AT: usize = 64;
const STORAGE_IMPL: usize = 64;

/// Time limit. The detection takes some milliseconds.
pub(super) const MAX_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

/// Detect the memory layout of operator inputs in the loaded PyTorch.
///
/// # Errors
/// A sentence with the reason why it is unknown.
pub(super) fn run(library: Library) -> Result<Layout, String> {
    let shim = Shim::find(library)?;
    check_types(library)?;
    let (sender, found) = std::sync::mpsc::channel();
    // The thread's own calls are not reported, because callbacks find its state in use. The receiver may be gone
    // already.
    let find_layout = move || crate::thread::with(|_| drop(sender.send(find(&shim))));
    crate::thread::without_signals(|| std::thread::Builder::new().spawn(find_layout))
        .map_err(|error| format!("cannot start the thread that determines how PyTorch stores tensors: {error}"))?;
    // The caller holds Python's lock, and an operator that the program replaced may wait for it.
    found
        .recv_timeout(MAX_WAIT)
        .map_err(|_| "detecting how PyTorch stores tensors failed or took too long".to_owned())?
}

impl Shim {
    /// Look up the functions that the detection calls in the loaded PyTorch.
    pub(super) fn find(library: Library) -> Result<Self, String> {
        let symbol_of = |library: Library, name: &CStr| {
            let symbol = library.symbol(name).map(std::ptr::NonNull::as_ptr);
            symbol.ok_or_else(|| format!("this version of PyTorch does not export {}", name.to_string_lossy()))
        };
        let symbol = |name| symbol_of(library, name);
        let c10 = Library::loaded(c"libc10.so").ok_or("libc10 is not loaded")?;
        let c10 = symbol_of(c10, c"_ZN3c1019UndefinedTensorImpl10_singletonE")?;
        let [empty, delete] = [c"aoti_torch_empty_strided", c"aoti_torch_delete_tensor_object"].map(symbol);
        let reshape = symbol(c"aoti_torch_cpu_reshape")?;
        let add = symbol(c"_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE")?;
        let remove = symbol(c"_ZN2at14removeCallbackEm")?;
        let count = symbol(c"_ZNK2at14RecordFunction10num_inputsEv")?;
        let is_tensor_list = symbol(c"_ZNK3c106IValue12isTensorListEv")?;
        let data = symbol(c"aoti_torch_get_data_ptr").ok();
        // SAFETY: the signatures of torch's `shim.h` and `c_shim_cpu.h` (C interfaces) and of the C++ functions with
        // these mangled names, with `this` as first argument; a 40-byte struct is passed by value on the stack.
        unsafe {
            Ok(Self {
                empty: std::mem::transmute::<*mut c_void, Empty>(empty?),
                reshape: std::mem::transmute::<*mut c_void, Reshape>(reshape),
                delete: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(Handle) -> Failed>(delete?),
                add: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(RecordFunctionCallback) -> u64>(add),
                remove: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u64)>(remove),
                count: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const u8) -> usize>(count),
                is_tensor_list: std::mem::transmute::<*mut c_void, IsTensorList>(is_tensor_list),
                data: data.map(|data| std::mem::transmute::<*mut c_void, Data>(data)),
                undefined: c10 as usize,
            })
        }
    }
}

impl Shim {
    /// Run `run` while `callback` is registered for the operators of this thread, and return the result.
    pub(super) fn run_watched<R>(&self, callback: RecordFunctionCallback, run: impl FnOnce() -> R) -> R {
        // SAFETY: callbacks live as long as the process; the handle is the one of this callback.
        unsafe {
            let handle = (self.add)(callback);
            let result = run();
            (self.remove)(handle);
            result
        }
    }
}

/// Check that PyTorch's numeric codes of data types match the known names; an error names the first mismatch.
fn check_types(library: Library) -> Result<(), String> {
    for (function, name) in TYPES {
        let symbol = library
            .symbol(function)
            .ok_or("this version of PyTorch does not export the numeric codes of its data types")?;
        // SAFETY: a function of torch's C interface that takes nothing and returns a number.
        let number = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> i32>(symbol.as_ptr())() };
        if u8::try_from(number).ok().and_then(|number| DType(number).name()) != Some(name) {
            return Err(format!(
                "data type {name} has an unexpected numeric code in this version of PyTorch: {number}"
            ));
        }
    }
    Ok(())
}

/// Detect the memory layout of operator inputs with test tensors and calls.
fn find(shim: &Shim) -> Result<Layout, String> {
    let memory = Memory::of_this_thread();
    if !memory.works() {
        return Err("the kernel does not allow this process to read its own memory through a system call".into());
    }
    let tensor = Fields::find(shim, &memory)?;
    let first = CallLayout::watch(shim, memory, [3, 2])?;
    let second = CallLayout::watch(shim, memory, [2, 5])?;
    if first != second {
        return Err(format!(
            "operator inputs are not recorded: PyTorch stored them at different byte offsets in two calls: {first:?}, \
             {second:?}"
        ));
    }
    Ok(Layout {
        inputs: first.inputs,
        list: first.list,
        elements: first.elements,
        sizes: tensor.sizes,
        dtype: tensor.dtype,
        flags: tensor.flags,
        storage: storage(shim, &memory),
        undefined: shim.undefined,
        is_tensor_list: shim.is_tensor_list,
    })
}

/// Test tensor that is freed when this value is dropped.
pub(super) struct Owned<'a>(Handle, &'a Shim);

impl<'a> Owned<'a> {
    /// Create a dense, uninitialized test tensor on the CPU.
    pub(super) fn new(shim: &'a Shim, sizes: &[i64], dtype: u8) -> Result<Self, String> {
        let strides = strides(sizes);
        let mut handle = std::ptr::null_mut();
        // SAFETY: `shim.h`: number of sizes, sizes and strides, a type, the CPU (0), and the address for the new
        // tensor.
        let failed = unsafe {
            (shim.empty)(sizes.len() as i64, sizes.as_ptr(), strides.as_ptr(), dtype.into(), 0, 0, &raw mut handle)
        };
        if failed != 0 || handle.is_null() {
            Err("could not create a test tensor".into())
        } else {
            Ok(Self(handle, shim))
        }
    }

    /// Create a view of the test tensor with other sizes; `None` on failure.
    pub(super) fn reshaped(&self, sizes: &[i64]) -> Option<Self> {
        let mut view = std::ptr::null_mut();
        // SAFETY: a tensor, sizes and their number, and the address for the result.
        let failed = unsafe { (self.1.reshape)(self.0, sizes.as_ptr(), sizes.len() as i64, &raw mut view) };
        (failed == 0 && !view.is_null()).then(|| Self(view, self.1))
    }

    /// Address of the test tensor's first element, the start of its memory; `None` if PyTorch does not provide it.
    fn data(&self) -> Option<usize> {
        let (data, mut address) = (self.1.data?, 0);
        // SAFETY: a tensor, and the address for the result.
        let failed = unsafe { data(self.0, &raw mut address) };
        (failed == 0 && address != 0).then_some(address)
    }

    /// Address of the test tensor's `TensorImpl`.
    pub(super) fn address(&self) -> usize {
        // SAFETY: an `at::Tensor` is a pointer to the `TensorImpl`.
        unsafe { *self.0 as usize }
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from the shim and is not used again.
        unsafe { (self.1.delete)(self.0) };
    }
}

/// Strides of a dense tensor with these sizes, in elements.
fn strides(sizes: &[i64]) -> Vec<i64> {
    (0..sizes.len()).map(|at| sizes[at + 1..].iter().product()).collect()
}

/// Read the 8-byte word at an offset of `bytes`; `None` beyond the end.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The only offset in `found`; an error with the name of the field if there are none or several.
fn only_match(mut found: impl Iterator<Item = usize>, what: &str) -> Result<usize, String> {
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(format!("this version of PyTorch stores the {what} of tensors at an unknown position")),
    }
}

/// Offsets of fields in `TensorImpl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    sizes: usize,
    dtype: usize,
    flags: usize,
}

impl Fields {
    /// Detect the offsets of sizes, type and flags in test tensors; an error unless each has exactly one match.
    fn find(shim: &Shim, memory: &Memory) -> Result<Self, String> {
        let mut tensors = Vec::new();
        for (sizes, dtype) in TEST_TENSORS {
            tensors.push((Owned::new(shim, sizes, dtype)?, sizes, dtype));
        }
        let read = |address: usize| {
            let mut bytes = vec![0; TENSOR_IMPL];
            let length = memory.read(address, &mut bytes);
            bytes.truncate(length);
            bytes
        };
        let images: Vec<(usize, Vec<u8>, &[i64], u8)> = tensors
            .iter()
            .map(|(tensor, sizes, dtype)| (tensor.address(), read(tensor.address()), *sizes, *dtype))
            .collect();
        let has_sizes = |at: &usize| images.iter().all(|image| has_sizes(memory, &image.1, *at, image.2));
        let sizes = only_match((8..TENSOR_IMPL).step_by(8).filter(has_sizes), "sizes")?;
        let has_type = |at: &usize| images.iter().all(|image| image.1.get(*at..at + 2) == Some(&[image.3, 0]));
        let dtype = only_match((sizes + 8..TENSOR_IMPL).step_by(2).filter(has_type), "types")?;
        // The type is followed by the device, its index and a flag for its presence, then by a byte of flags and the
        // byte that is needed.
        let (device, flags) = (dtype + 2, dtype + 6);
        let plain = |bytes: &[u8]| {
            bytes.get(device) == Some(&0)
                && bytes.get(device + 2) == Some(&1)
                && bytes.get(flags).is_some_and(|flags| flags & (NOT_PLAIN | CUSTOM_STRIDES) == 0)
        };
        let undefined = read(shim.undefined);
        let known = undefined.get(device + 2) == Some(&0)
            && undefined.get(flags).is_some_and(|flags| flags & (NOT_PLAIN | CUSTOM_STRIDES) == CUSTOM_STRIDES);
        if !known || !images.iter().all(|image| plain(&image.1)) {
            return Err("this version of PyTorch stores the flags of tensors at an unknown position".into());
        }
        Ok(Self { sizes, dtype, flags })
    }
}

/// Detect the byte offset of the storage in a `TensorImpl`, and of the data pointer in the storage; `None` unless
/// exactly one storage offset fits.
fn storage(shim: &Shim, memory: &Memory) -> Option<(usize, usize)> {
    let mut tensors = Vec::new();
    for (sizes, dtype) in TEST_TENSORS {
        let tensor = Owned::new(shim, sizes, dtype).ok()?;
        let data = tensor.data()?;
        tensors.push((tensor, data));
    }
    let leads_to_memory = |&(storage, data): &(usize, usize)| {
        tensors.iter().all(|(tensor, expected)| {
            let storage = memory.word(tensor.address() + storage).filter(|&address| address != 0);
            storage.and_then(|storage| memory.word(storage.wrapping_add(data))) == Some(*expected)
        })
    };
    let places =
        (8..STORAGE_AT).step_by(8).flat_map(|storage| (8..STORAGE_IMPL).step_by(8).map(move |data| (storage, data)));
    let mut found = places.filter(leads_to_memory);
    // The deleter of the memory follows and contains the same address.
    let first = found.next()?;
    found.all(|(storage, data)| storage == first.0 && data > first.1).then_some(first)
}

/// True if a tensor has these sizes at this offset of its memory.
pub(super) fn has_sizes(memory: &Memory, tensor: &[u8], at: usize, sizes: &[i64]) -> bool {
    if word(tensor, at) != Some(sizes.len()) {
        return false;
    }
    let expected: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
    if sizes.len() <= INLINE {
        return tensor.get(at + 8..at + 8 + expected.len()) == Some(&expected);
    }
    let mut held = vec![0; expected.len()];
    word(tensor, at + 8).is_some_and(|address| memory.read(address, &mut held) == held.len()) && held == expected
}

/// Memory layout of operator calls: offset of the inputs, type tag of lists, and offset of the elements in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallLayout {
    inputs: usize,
    list: u32,
    elements: usize,
}

/// Tensor and sizes that the test call on this thread is expected to have as inputs.
#[derive(Clone, Copy)]
struct Expected {
    memory: Memory,
    shim: Shim,
    tensor: usize,
    sizes: [i64; 2],
}

thread_local! {
    static EXPECTED: Cell<Option<Expected>> = const { Cell::new(None) };
    static FOUND: Cell<Option<CallLayout>> = const { Cell::new(None) };
}

impl CallLayout {
    /// Detect the layout from one test call: `aten::view` with a tensor and new sizes, whose operators are inspected.
    fn watch(shim: &Shim, memory: Memory, [rows, columns]: [i64; 2]) -> Result<Self, String> {
        let tensor = Owned::new(shim, &[rows, columns], 6)?;
        let sizes = [columns, rows];
        EXPECTED.set(Some(Expected { memory, shim: *shim, tensor: tensor.address(), sizes }));
        FOUND.set(None);
        let mut callback = RecordFunctionCallback::new(on_call, on_end, super::OPERATORS);
        callback.needs_inputs = 1;
        let view = shim.run_watched(callback, || tensor.reshaped(&sizes));
        EXPECTED.set(None);
        drop(view.ok_or("could not call an operator")?);
        FOUND.take().ok_or_else(|| {
            "operator inputs are not recorded: this version of PyTorch stores them at an unknown position".into()
        })
    }

    /// Search a `RecordFunction` for the expected inputs, by their number and content; `None` unless there is exactly
    /// one match.
    fn search(function: usize, count: usize, expected: &Expected) -> Option<Self> {
        let mut object = [0; RECORD_FUNCTION];
        let length = expected.memory.read(function, &mut object);
        let object = object.get(..length)?;
        let mut calls = (0..length).step_by(8).filter_map(|at| {
            let address = word(object, at).filter(|_| word(object, at + 8) == Some(count))?;
            let (list, elements) = Self::inputs(address, expected)?;
            Some(Self { inputs: at, list, elements })
        });
        let found = calls.next();
        found.filter(|_| calls.next().is_none())
    }

    /// Type tag of lists and offset of their elements; `None` unless the expected inputs are at this address.
    fn inputs(address: usize, expected: &Expected) -> Option<(u32, usize)> {
        let [tensor, (list, tag)] = values(&expected.memory, address)?;
        if tensor != (expected.tensor, TENSOR) || !LISTS.contains(&tag) {
            return None;
        }
        let has_elements = |at: &usize| {
            let [begin, end] = [0, 8].map(|more| expected.memory.word(list + at + more).unwrap_or(0));
            let sizes = expected.sizes.map(|size| (size as usize, INT));
            end == begin + size_of_val(&sizes) && values(&expected.memory, begin) == Some(sizes)
        };
        // The table of methods is followed by one reference counter or two.
        Some((tag, only_match([16, 24].into_iter().filter(has_elements), "elements").ok()?))
    }
}

/// Read `N` consecutive `IValue`s from memory, each as payload and tag; `None` if they are unreadable.
pub(super) fn values<const N: usize>(memory: &Memory, address: usize) -> Option<[(usize, u32); N]> {
    let mut bytes = vec![0; N * size_of::<Value>()];
    if memory.read(address, &mut bytes) != bytes.len() {
        return None;
    }
    let mut found = [(0, 0); N];
    for (at, value) in found.iter_mut().enumerate() {
        *value = (word(&bytes, at * 16)?, word(&bytes, at * 16 + 8)? as u32);
    }
    Some(found)
}

/// Callback for the begin of a test call's operator: search the expected inputs, and store the layout if it is unique.
unsafe extern "C" fn on_call(context: *mut *mut c_void, function: *const u8) -> *mut *mut c_void {
    // SAFETY: torch passes space for the `unique_ptr` to return; there is no context.
    unsafe { context.write(std::ptr::null_mut()) };
    let inspect_operator = || {
        let expected = EXPECTED.get()?;
        // SAFETY: torch passed this `RecordFunction`, whose number of arguments the function reads.
        let count = unsafe { (expected.shim.count)(function) };
        let found = CallLayout::search(function as usize, count, &expected)?;
        FOUND.set(FOUND.get().filter(|known| *known != found).is_none().then_some(found));
        Some(())
    };
    let _ = std::panic::catch_unwind(inspect_operator);
    context
}

/// Callback for the end of an operator, which does nothing.
pub(super) unsafe extern "C" fn on_end(_function: *const u8, _context: *mut c_void) {}
