//! Inputs of operators: shapes and types of tensors, decoded from the `c10::IValue`s that PyTorch passes to callbacks.
//!
//! All data are inline in torch's objects, at offsets that depend on the version. [`super::probe`] determines the
//! offsets with its own tensors and call, and nothing is read unless it succeeded.

use super::Operator;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Memory layout of operator inputs in the loaded PyTorch: byte offsets, and other results of the detection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// In `RecordFunction`: address and number of the inputs.
    pub(super) inputs: usize,
    /// The tag of lists in `IValue`. Those of other kinds have fixed distances from it.
    pub(super) list: u32,
    /// In `c10::detail::ListImpl`: the `std::vector<IValue>`.
    pub(super) elements: usize,
    /// In `c10::TensorImpl`: the number of sizes, followed by the sizes or, if there are more than five, their
    /// address.
    pub(super) sizes: usize,
    /// In `c10::TensorImpl`: the type, two bytes.
    pub(super) dtype: usize,
    /// In `c10::TensorImpl`: the byte with [`NOT_PLAIN`].
    pub(super) flags: usize,
    /// In `c10::TensorImpl`: address of the `c10::StorageImpl`, and in that the address of the memory.
    pub(super) storage: Option<(usize, usize)>,
    /// Address of the undefined tensor.
    pub(super) undefined: usize,
    /// `c10::IValue::isTensorList() const`.
    pub(super) is_tensor_list: unsafe extern "C" fn(*const Value) -> bool,
}

/// `IValue`'s tags of None, a tensor and an integer, in every version since 2.0.
pub(super) const NONE: u32 = 0;
pub(super) const TENSOR: u32 = 1;
pub(super) const INT: u32 = 5;
/// Tags of lists: until 2.6, and since unsigned integers were added to the values.
pub(super) const LISTS: std::ops::RangeInclusive<u32> = 13..=14;
/// Number of sizes that a tensor stores inline; more are stored elsewhere.
pub(super) const INLINE: usize = 5;
/// Sizes are symbolic or come from a method (`sizes_strides_policy_`): the stored sizes are invalid.
pub(super) const NOT_PLAIN: u8 = 0b1_1000;
/// Strides come from a method. This is so for the undefined tensor, by which the position of the flags is checked.
pub(super) const CUSTOM_STRIDES: u8 = 0b100;
/// Largest number of inputs of an operator, and of sizes of a tensor, that are read.
const MAX_VALUES: usize = 4096;
/// Longer lists of numbers count as `Other`, as in PyTorch's profiler.
const MAX_SCALARS: usize = 30;

static LAYOUT: OnceLock<Layout> = OnceLock::new();
/// In `RecordFunction`: the `std::vector<IValue>` of outputs, once [`super::outputs`] verified it.
pub(super) static OUTPUTS: OnceLock<usize> = OnceLock::new();

/// Copy of a `c10::IValue`, which has 16 bytes in every version.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Value {
    pub(super) payload: usize,
    pub(super) tag: u32,
    rest: u32,
}

impl Layout {
    /// Memory layout of operator inputs, if the probe has detected it.
    #[inline]
    pub(super) fn current() -> Option<&'static Self> {
        LAYOUT.get()
    }

    /// Store this detected layout for the process, unless one is stored, and return the stored one.
    pub(super) fn set(self) -> &'static Self {
        LAYOUT.get_or_init(|| self)
    }

    /// True if a value's type tag is that of a number: floating-point, complex, integer or Boolean, or symbolic.
    /// Unsigned integers, which follow the integers in newer versions, do not count.
    #[inline]
    fn is_scalar(&self, tag: u32) -> bool {
        matches!(tag, 3..=5) || (self.list - 7..=self.list - 4).contains(&tag)
    }

    /// Description of the detected layout in one line.
    pub(super) fn describe(&self) -> String {
        let Self { inputs, sizes, dtype, list, .. } = self;
        let storage = match self.storage {
            Some((storage, data)) => format!("storage {storage} (data pointer at {data} in the storage)"),
            None => "storages not found".to_owned(),
        };
        format!(
            "byte offsets in PyTorch's objects: operator inputs {inputs}, tensor sizes {sizes}, element types {dtype}, \
             {storage}; tag of tensor lists: {list}"
        )
    }
}

/// One input of an operator: a tensor, a list of tensors, or another value.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A tensor.
    Tensor(Tensor<'a>),
    /// A list of tensors.
    Tensors(Tensors<'a>),
    /// A list of another type with tensors or None as elements, such as the indices of `aten::index`. It has no shape
    /// in the profiler of `PyTorch`.
    Gaps(Tensors<'a>),
    /// A number or Boolean.
    Scalar,
    /// A list of numbers, at most 30 as in the profiler of `PyTorch`.
    Scalars,
    /// A value without shape: None, an undefined tensor, a text, a device, a longer list …
    Other,
}

/// Inputs of an operator call that begins, in the order of its arguments.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    next: *const Value,
    left: usize,
    layout: &'static Layout,
    call: PhantomData<&'a Operator>,
}

/// Input tensor of an operator, valid while the call begins.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    tensor: *const u8,
    layout: &'static Layout,
    call: PhantomData<&'a Operator>,
}

/// Iterator over the tensors of an input that is a list; `None` for undefined tensors.
#[derive(Clone, Debug)]
pub struct Tensors<'a>(Inputs<'a>);

/// Element type of a tensor: the number of a `c10::ScalarType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DType(pub u8);

impl Operator {
    /// Inputs of the operator; `None` unless [`crate::start_shapes`] found their layout. Empty if torch runs an
    /// operator without passing its inputs.
    #[must_use]
    #[inline]
    pub fn inputs(&self) -> Option<Inputs<'_>> {
        let layout = Layout::current()?;
        let (first, count) = (self.word(layout.inputs), self.word(layout.inputs + 8));
        let left = if first == 0 { 0 } else { (count as usize).min(MAX_VALUES) };
        Some(Inputs { next: first as *const Value, left, layout, call: PhantomData })
    }

    /// Outputs of an operator call that ends; `None` unless [`crate::start_outputs`] found their layout. Empty if torch
    /// passes none: for spans, for calls that throw, for calls that began before outputs were enabled.
    #[must_use]
    pub(crate) fn outputs(&self) -> Option<Inputs<'_>> {
        let (layout, at) = (Layout::current()?, *OUTPUTS.get()?);
        let (first, end) = (self.word(at), self.word(at + 8));
        let left = (end.saturating_sub(first) as usize / size_of::<Value>()).min(MAX_VALUES);
        Some(Inputs { next: first as *const Value, left, layout, call: PhantomData })
    }
}

impl<'a> Inputs<'a> {
    /// Next value without decoding; `None` after the last one.
    #[inline]
    fn value(&mut self) -> Option<&'a Value> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: torch keeps the values while callbacks for the begin of the call run, which `'a` does not outlive;
        // `count` of them remain.
        let value = unsafe { &*self.next };
        // SAFETY: at most one past the last.
        self.next = unsafe { self.next.add(1) };
        Some(value)
    }

    /// Tensor of a value; `None` for other values and for the undefined tensor.
    #[inline]
    fn tensor(&self, value: &Value) -> Option<Tensor<'a>> {
        let defined = value.tag == TENSOR && value.payload != 0 && value.payload != self.layout.undefined;
        defined.then_some(Tensor { tensor: value.payload as *const u8, layout: self.layout, call: PhantomData })
    }

    /// Classify an input that is a list: tensors (or None) are decoded, of numbers only the kind is kept.
    #[inline]
    fn list(&self, value: &'a Value) -> Input<'a> {
        let elements = self.elements(value);
        let first = elements.clone().value();
        // Only such lists may contain tensors, which their type decides: there are lists of tensors or None.
        if first.is_none_or(|first| first.tag == TENSOR) {
            // SAFETY: a function of torch that reads the value, which is a list.
            if unsafe { (self.layout.is_tensor_list)(value) } {
                return Input::Tensors(Tensors(elements));
            }
        }
        let is_tensor_or_none = |value: &Value| value.tag == TENSOR || value.tag == NONE;
        match first {
            None => Input::Scalars,
            Some(first) if is_tensor_or_none(first) && elements.all_elements(is_tensor_or_none) => {
                Input::Gaps(Tensors(elements))
            }
            Some(first) if self.layout.is_scalar(first.tag) && elements.left <= MAX_SCALARS => Input::Scalars,
            Some(_) => Input::Other,
        }
    }

    /// True if all remaining values of a list satisfy a condition; `false` for very long lists, which are not read.
    fn all_elements(&self, is_such: impl Fn(&Value) -> bool) -> bool {
        let mut rest = self.clone();
        self.left <= MAX_VALUES && std::iter::from_fn(|| rest.value()).all(is_such)
    }

    /// Elements of an operator input that is a list.
    #[inline]
    fn elements(&self, list: &'a Value) -> Inputs<'a> {
        // SAFETY: the payload of a list is the address of a `ListImpl`, which lives as long as the value and has the
        // begin and the end of its elements at this offset.
        let [begin, end] = unsafe { *(list.payload as *const u8).add(self.layout.elements).cast::<[usize; 2]>() };
        let left = end.saturating_sub(begin) / size_of::<Value>();
        Inputs { next: begin as *const Value, left, layout: self.layout, call: PhantomData }
    }
}

impl<'a> Iterator for Inputs<'a> {
    type Item = Input<'a>;

    #[inline]
    fn next(&mut self) -> Option<Input<'a>> {
        let value = self.value()?;
        Some(match value.tag {
            TENSOR => self.tensor(value).map_or(Input::Other, Input::Tensor),
            tag if tag == self.layout.list => self.list(value),
            tag if self.layout.is_scalar(tag) => Input::Scalar,
            _ => Input::Other,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Inputs<'_> {}

impl<'a> Iterator for Tensors<'a> {
    type Item = Option<Tensor<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Option<Tensor<'a>>> {
        let value = self.0.value()?;
        Some(self.0.tensor(value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Tensors<'_> {}

impl<'a> Tensor<'a> {
    /// Element type of the tensor.
    #[must_use]
    #[inline]
    pub fn dtype(&self) -> DType {
        // SAFETY: `tensor` is a `TensorImpl`, which the value that it came from keeps alive.
        DType(unsafe { self.tensor.add(self.layout.dtype).read() })
    }

    /// Sizes of the tensor; `None` if the tensor does not store them, as nested tensors, symbolic shapes, and classes
    /// that compute sizes by a method.
    #[must_use]
    #[inline]
    pub fn dims(&self) -> Option<&'a [i64]> {
        // SAFETY: as in `dtype`: one byte and one word of the object.
        let (flags, count) = unsafe {
            (
                self.tensor.add(self.layout.flags).read(),
                self.tensor.add(self.layout.sizes).cast::<usize>().read_unaligned(),
            )
        };
        if flags & NOT_PLAIN != 0 || count > MAX_VALUES {
            return None;
        }
        // SAFETY: the number of sizes is followed by the sizes or by their address. The tensor owns both. If a
        // program resizes it on another thread at this moment, PyTorch itself would read freed memory, too.
        unsafe {
            let held = self.tensor.add(self.layout.sizes + 8);
            let sizes = if count <= INLINE { held.cast() } else { held.cast::<*const i64>().read_unaligned() };
            (!sizes.is_null()).then(|| std::slice::from_raw_parts(sizes, count))
        }
    }
}

/// Address of the first byte of a tensor's memory ([`Tensor::storage`]), and the total size of its elements in bytes;
/// `None` without memory or with unknown sizes or type. The elements may be a part of that memory. `tensor` is the
/// address of its `TensorImpl` (`_cdata` in Python).
///
/// # Safety
/// A tensor is at the address, and stays alive during the call.
#[must_use]
pub unsafe fn storage_at(tensor: usize) -> Option<(usize, u64)> {
    let layout = Layout::current().filter(|_| tensor != 0)?;
    let tensor = Tensor { tensor: tensor as *const u8, layout, call: PhantomData };
    Some((tensor.storage()?, tensor.bytes()?))
}

impl Tensor<'_> {
    /// Address of the first byte of a tensor's memory, which all views of the tensor share. `None` without memory
    /// (meta, sparse and empty tensors), or if the layout of this version is unknown.
    #[must_use]
    #[inline]
    pub fn storage(&self) -> Option<usize> {
        let (storage, data) = self.layout.storage?;
        // SAFETY: as in `dtype`: one word of the tensor, and, as it keeps its storage alive, one of that.
        unsafe {
            let storage = self.tensor.add(storage).cast::<*const u8>().read_unaligned();
            if storage.is_null() {
                return None;
            }
            Some(storage.add(data).cast::<usize>().read_unaligned()).filter(|&address| address != 0)
        }
    }

    /// Total size of a tensor's elements in bytes; `None` if the sizes or the type are unknown.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let each = self.dtype().bytes()?;
        self.dims()?.iter().try_fold(each, |bytes, &size| bytes.checked_mul(u64::try_from(size).ok()?))
    }
}

/// Names by number.
const DTYPES: [Option<&CStr>; 46] = {
    let mut names = [None; 46];
    let known = [
        c"u8",
        c"i8",
        c"i16",
        c"i32",
        c"i64",
        c"f16",
        c"f32",
        c"f64",
        c"c32",
        c"c64",
        c"c128",
        c"bool",
        c"qi8",
        c"qu8",
        c"qi32",
        c"bf16",
        c"qu4x2",
        c"qu2x4",
        c"bits1x8",
        c"bits2x4",
        c"bits4x2",
        c"bits8",
        c"bits16",
        c"f8_e5m2",
        c"f8_e4m3fn",
        c"f8_e5m2fnuz",
        c"f8_e4m3fnuz",
        c"u16",
        c"u32",
        c"u64",
    ];
    let mut at = 0;
    while at < known.len() {
        names[at] = Some(known[at]);
        at += 1;
    }
    names[44] = Some(c"f8_e8m0fnu");
    names[45] = Some(c"f4_e2m1fn_x2");
    names
};

impl DType {
    /// Short name of the element type, such as `f32`, `bf16`, `i64` or `bool`; `None` for unknown types.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        DTYPES.get(usize::from(self.0)).copied().flatten().and_then(|name| name.to_str().ok())
    }

    /// Bytes per element; `None` for unknown types and for types smaller than a byte.
    #[must_use]
    pub fn bytes(self) -> Option<u64> {
        let name = self.name()?;
        if name == "bool" {
            return Some(1);
        }
        // Several elements share a byte if a name has their number: `qu4x2`.
        let bits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let digits = bits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(bits.len());
        bits[..digits].parse::<u64>().ok().filter(|_| !name.contains('x')).map(|bits| bits / 8)
    }

    /// Name of the element type as a C string, empty for unknown types.
    pub(crate) fn c_name(self) -> &'static CStr {
        DTYPES.get(usize::from(self.0)).copied().flatten().unwrap_or(c"")
    }

    /// All tensor element types that have names.
    pub fn named() -> impl Iterator<Item = Self> {
        (0..DTYPES.len() as u8).map(Self).filter(|dtype| dtype.name().is_some())
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "dtype{}", self.0),
        }
    }
}
