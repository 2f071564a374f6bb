//! Short names of C++ kernels: the distinguishing parts, without common template arguments and parameters.

use std::collections::HashMap;

/// Wrappers of C++ and kernel libraries around the functors of a kernel.
const WRAPPERS: &[&str] = &[
    "at",
    "native",
    "detail",
    "cuda",
    "std",
    "c10",
    "memory",
    "operator",
    "lambda",
    "const",
    "void",
    "array",
    "Array",
    "gpu_kernel_impl",
    "gpu_kernel_impl_nocast",
    "TensorIteratorBase",
    "TensorIterator",
    "TrivialOffsetCalculator",
    "OffsetCalculator",
    "LoadWithoutCast",
    "LoadWithCast",
    "StoreWithoutCast",
    "StoreWithCast",
    "TensorListMetadata",
    "TensorListScalarListMetadata",
    "TensorInfo",
    "binary_internal",
    "func_wrapper_t",
    "Params",
    "UnaryFunctor",
    "AUnaryFunctor",
    "BUnaryFunctor",
    "BinaryFunctor",
    "ReduceOp",
];
/// Types of elements and of indices.
const TYPES: &[&str] = &[
    "float",
    "double",
    "int",
    "long",
    "bool",
    "unsigned",
    "signed",
    "char",
    "short",
    "Half",
    "BFloat16",
    "complex",
    "float16_t",
    "bfloat16_t",
    "half_t",
    "__half",
    "__nv_bfloat16",
    "nullptr",
    "decltype",
    "true",
    "false",
];
/// Suffixes without information.
const ENDINGS: &[&str] = &["_kernel_cuda", "_kernel_impl", "_cuda_kernel", "_kernel", "_cuda", "Functor", "Kernel"];
/// Number of words after the kernel's own name, as long as they distinguish it from others.
const WORDS: usize = 2;

/// Short name for use in a sentence: the operation, without types and numbers.
#[must_use]
pub fn short_name(name: &str) -> String {
    shown_at(name, Parsed::parse(name).as_ref(), 1)
}

/// Short names for a list: C++ names are shortened, and different names stay different.
#[must_use]
pub fn short_names(names: &[String]) -> Vec<String> {
    let parsed: Vec<Option<Parsed>> = names.iter().map(|name| Parsed::parse(name)).collect();
    let mut levels = vec![0; names.len()];
    loop {
        let shown = names.iter().zip(&parsed).zip(&levels);
        let shown: Vec<String> = shown.map(|((name, parsed), &level)| shown_at(name, parsed.as_ref(), level)).collect();
        let mut of_text: HashMap<&str, Vec<usize>> = HashMap::new();
        shown.iter().enumerate().for_each(|(at, text)| of_text.entry(text).or_default().push(at));
        let same = of_text.into_values().filter(|all| all.iter().any(|&at| names[at] != names[all[0]]));
        let raised: Vec<usize> = same.flatten().filter(|&at| parsed[at].is_some() && levels[at] < LEVELS).collect();
        if raised.is_empty() {
            return shown;
        }
        raised.into_iter().for_each(|at| levels[at] += 1);
    }
}

/// Levels of detail; the last one shows the whole name.
const LEVELS: usize = 4;

/// Short kernel name at a level of detail, from 0 (shortest) to [`LEVELS`] (whole name).
fn shown_at(name: &str, parsed: Option<&Parsed>, level: usize) -> String {
    let Some(parsed) = parsed.filter(|_| level < LEVELS) else { return name.to_owned() };
    let words = match level {
        0 => &parsed.words[..parsed.words.len().min(WORDS)],
        _ => &parsed.words[..],
    };
    let types = if level >= 2 { &parsed.types[..] } else { &[] };
    let rest = if level >= 3 { &parsed.rest[..] } else { &[] };
    let all = std::iter::once(&parsed.base).chain(words).chain(types).chain(rest);
    all.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Parts of a C++ kernel name: function, operations, types and numbers.
struct Parsed {
    base: String,
    /// Operations: functors and operators, each once.
    words: Vec<String>,
    types: Vec<String>,
    /// Numbers.
    rest: Vec<String>,
}

impl Parsed {
    /// Parse a C++ kernel name; `None` if it is not a C++ name with arguments.
    fn parse(name: &str) -> Option<Self> {
        // Python frames and names of programs contain brackets, too.
        if !name.ends_with([')', '>', '}']) || !name.contains("::") && !name.contains('<') {
            return None;
        }
        let name = name.replace("(anonymous namespace)::", "");
        let name = without_return_type(&name);
        let end = name.find(['<', '('])?;
        let (path, arguments) = name.split_at(end);
        if !path.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            return None;
        }
        let base = path.rsplit("::").next().filter(|base| !base.is_empty())?;
        // Of the template arguments only; parameters repeat them.
        let arguments = &arguments[..template_end(arguments)];
        let (mut words, mut types, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for token in arguments.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|token| !token.is_empty()) {
            let kind = if TYPES.contains(&token) {
                &mut types
            } else if token.starts_with(|c: char| c.is_ascii_digit()) {
                &mut rest
            } else if WRAPPERS.contains(&token) {
                continue;
            } else {
                &mut words
            };
            let text = trimmed(token).to_owned();
            if !kind.contains(&text) {
                kind.push(text);
            }
        }
        let base = match trimmed(base) {
            // `cutlass::Kernel`: the surrounding namespace is the name.
            _ if ENDINGS.contains(&base) => path.to_owned(),
            base => base.to_owned(),
        };
        words.retain(|word| *word != base);
        Some(Self { base, words, types, rest })
    }
}

/// Word of a name without a common ending.
fn trimmed(token: &str) -> &str {
    let cut = |ending: &&str| token.strip_suffix(*ending).filter(|rest| rest.len() > 1);
    ENDINGS.iter().find_map(cut).unwrap_or(token)
}

/// Characters of a C++ name, each with its offset and the number of enclosing brackets. A `>` within parentheses is a
/// comparison.
fn with_depths(text: &str) -> impl Iterator<Item = (usize, char, usize)> {
    let mut open = Vec::new();
    text.char_indices().map(move |(at, c)| {
        match c {
            '<' | '(' | '{' | '[' => open.push(c),
            '>' if open.last() == Some(&'<') => drop(open.pop()),
            ')' | '}' | ']' => {
                // Unmatched `<` within parentheses are comparisons.
                let from = open.iter().rposition(|&c| c != '<');
                open.truncate(from.unwrap_or(0));
            }
            _ => {}
        }
        (at, c, open.len())
    })
}

/// C++ function name without its return type, which may have template arguments itself (`std::enable_if<…>::type`).
fn without_return_type(name: &str) -> &str {
    let mut from = 0;
    for (at, c, depth) in with_depths(name) {
        match (c, depth) {
            (' ', 0) => from = at + 1,
            // Begin of the parameters.
            ('(', 1) => break,
            _ => {}
        }
    }
    &name[from..]
}

/// Offset of the `>` that closes the template arguments at the start of a text; 0 without arguments, the text's length
/// if unclosed.
fn template_end(text: &str) -> usize {
    if !text.starts_with('<') {
        return 0;
    }
    with_depths(text).find(|&(_, _, depth)| depth == 0).map_or(text.len(), |(at, ..)| at)
}

#[cfg(test)]
mod tests {
    use super::{short_name, short_names};

    fn short(names: &[&str]) -> Vec<String> {
        short_names(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn short_names_keep_the_operation() {
        let names = [
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<1>, \
             at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>, float>(at::native::X)",
            "void at::native::vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::\
             operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int, at::native::Y)",
            "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, \
             at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int)",
            "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align1>(Params)",
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type \
             vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
            "unsigned long reduce<(N>>1), float>(int)",
            "triton_poi_fused_add_0",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "<frozen importlib._bootstrap>(1027): _find_and_load",
            "models/block.py(12): forward(x::y)",
        ];
        let expected = [
            "multi_tensor_apply BinaryOpScalar multiplies",
            "vectorized_elementwise rsqrt",
            "vectorized_elementwise Mul",
            "cutlass::Kernel cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align1",
            "fused_add_rms_norm",
            "reduce N",
            "triton_poi_fused_add_0",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
            "<frozen importlib._bootstrap>(1027): _find_and_load",
            "models/block.py(12): forward(x::y)",
        ];
        assert_eq!(short(&names), expected);
    }

    #[test]
    fn short_name_of_a_single_kernel() {
        let softmax = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16, \
                       at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(c10::BFloat16*, c10::BFloat16 const*, int)";
        assert_eq!(short_name(softmax), "cunn_SoftMaxForward SoftMaxForwardEpilogue");
        assert_eq!(short_name("nn.Module: Linear_0"), "nn.Module: Linear_0");
    }

    #[test]
    fn different_kernels_keep_different_short_names() {
        let name_of = |numbers: &str, ty: &str| {
            format!("void at::native::reduce_kernel<{numbers}, at::native::ReduceOp<{ty}> >(int)")
        };
        let names = [
            name_of("512, 1", "float"),
            name_of("512, 1", "double"),
            name_of("128, 4", "float"),
            name_of("512, 1", "float"),
        ];
        let shown = short_names(&names);
        assert_eq!(shown[0], shown[3]);
        assert_eq!(shown[1], "reduce double");
        assert_eq!([&shown[0], &shown[2]], ["reduce float 512 1", "reduce float 128 4"]);
    }
}
