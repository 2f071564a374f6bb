//! Shortening of C++ and Rust symbol names: template arguments and long lists of tensors are removed.

/// Minimum length of names to shorten.
const MIN_LENGTH: usize = 48;

/// Replace bracketed parts of a long name by `…`: `at::native::add<…>(…)`. Operator names and placeholders for names
/// (`(anonymous namespace)`, `{lambda(int)#1}`, Rust's `<T as Trait>`) stay.
pub(super) fn shorten(name: &str) -> String {
    if name.chars().count() <= MIN_LENGTH {
        return name.to_owned();
    }
    let mut out = String::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let taken = operator_length(&out, rest).or_else(|| placeholder_length(&out, rest));
        if let Some(length) = taken {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
        } else if let Some(length) = bracket_length(rest) {
            let last = if first == '<' { '>' } else { ')' };
            out.extend([first, '…', last]);
            rest = &rest[length..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Number of tensors to show per list.
const MAX_TENSORS: usize = 3;

/// Shorten an operator's inputs to the first tensors of each list: `(f32[8], f32[4], f32[2], …145), f32[8]`.
pub(super) fn shorten_inputs(inputs: &str) -> String {
    let mut out = String::new();
    for (at, part) in inputs.split('(').enumerate() {
        if at > 0 {
            out.push('(');
        }
        let Some((list, rest)) = part.split_once(')').filter(|_| at > 0) else {
            out.push_str(part);
            continue;
        };
        let mut tensors: Vec<&str> = list.split(", ").collect();
        // Tensors that were not recorded individually.
        let more: usize = tensors.last().and_then(|last| last.strip_prefix('+')?.parse().ok()).unwrap_or(0);
        tensors.truncate(tensors.len() - usize::from(more > 0));
        let left = tensors.len().saturating_sub(MAX_TENSORS).saturating_add(more);
        if more > 0 || left > 1 {
            let left = format!("…{left}");
            tensors.truncate(MAX_TENSORS);
            tensors.push(&left);
            out.push_str(&tensors.join(", "));
        } else {
            out.push_str(list);
        }
        out.extend([")", rest]);
    }
    out
}

/// Length in bytes of a C++ operator name such as `operator<` or `operator()` at the start of `rest`; `None` if there
/// is none.
fn operator_length(before: &str, rest: &str) -> Option<usize> {
    let after = rest.strip_prefix("operator")?;
    if before.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '_') {
        return None;
    }
    let symbols = ["<<=", ">>=", "<=>", "->*", "<<", ">>", "<=", ">=", "->", "()", "<", ">"];
    let symbol = symbols.iter().find(|symbol| after.starts_with(**symbol))?;
    Some("operator".len() + symbol.len())
}

/// Length in bytes of a placeholder such as `(anonymous namespace)` at the start of `rest`; `None` if there is none.
fn placeholder_length(before: &str, rest: &str) -> Option<usize> {
    if rest.starts_with("(anonymous namespace)") {
        return Some("(anonymous namespace)".len());
    }
    // Brackets at the start of a path are no arguments: `<T as Trait>::f`, `{lambda(int)#1}`, `(…)::f`.
    let begins_path = before.is_empty() || before.ends_with("::") || before.ends_with(' ');
    let braces = rest.starts_with('{').then(|| rest.find('}').map(|end| end + 1)).flatten();
    let qualified = (begins_path && rest.starts_with('<')).then_some(1);
    braces.or(qualified)
}

/// Length in bytes of a bracketed part at the start of `rest`, including brackets; `None` if it is empty or
/// unterminated.
fn bracket_length(rest: &str) -> Option<usize> {
    let mut open = 0_usize;
    let mut before = ' ';
    if !rest.starts_with(['<', '(']) {
        return None;
    }
    for (at, letter) in rest.char_indices() {
        match letter {
            '<' | '(' | '[' | '{' => open += 1,
            // An arrow is no bracket.
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => open = open.checked_sub(1)?,
            _ => {}
        }
        if open == 0 {
            return (at > 1).then_some(at + 1);
        }
        before = letter;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{shorten, shorten_inputs};
    use proptest::prelude::*;

    #[test]
    fn long_tensor_lists_are_shortened() {
        for (inputs, folded) in [
            ("f32[4], i64[]", "f32[4], i64[]"),
            ("(a[1], b[2], c[3], d[4]), e[]", "(a[1], b[2], c[3], d[4]), e[]"),
            ("x[], (a[1], b[2], c[3], d[4], e[5]), (y[]), z[]", "x[], (a[1], b[2], c[3], …2), (y[]), z[]"),
            ("(a[1], b[2], c[3], d[4], +7)", "(a[1], b[2], c[3], …8)"),
            ("(+7)", "(…7)"),
            ("(+18446744073709551615)", "(…18446744073709551615)"),
            ("(a[1", "(a[1"),
        ] {
            assert_eq!(shorten_inputs(inputs), folded);
        }
    }

    #[test]
    fn template_arguments_are_shortened() {
        let cases = [
            ("add(int, int)", "add(int, int)"),
            (
                "at::native::(anonymous namespace)::add_kernel<float, long>(at::TensorIteratorBase&, c10::Scalar const&)",
                "at::native::(anonymous namespace)::add_kernel<…>(…)",
            ),
            (
                "std::map<std::string, int, std::less<std::string> >::operator[](std::string const&)",
                "std::map<…>::operator[](…)",
            ),
            (
                "bool shapes::Block<float, 4ul>::operator< <int>(shapes::Block<float, 4ul> const&) const",
                "bool shapes::Block<…>::operator< <int>(…) const",
            ),
            (
                "c10::function_ref<void (char**, long const*)>::operator()(char**, long const*, long) const",
                "c10::function_ref<…>::operator()(…) const",
            ),
            (
                "void run<entry::{lambda(int)#1}>(entry::{lambda(int)#1}, std::vector<int, std::allocator<int> >)",
                "void run<…>(…)",
            ),
            (
                "<alloc::vec::Vec<areas::Circle> as core::iter::FromIterator<areas::Circle>>::from_iter",
                "<alloc::vec::Vec<…> as core::iter::FromIterator<…>>::from_iter",
            ),
            (
                "a_function_of_c_whose_name_alone_is_longer_than_that_limit",
                "a_function_of_c_whose_name_alone_is_longer_than_that_limit",
            ),
        ];
        for (name, folded) in cases {
            assert_eq!(shorten(name), folded);
        }
    }

    proptest! {
        #[test]
        fn never_panics(name in "[-a<>(){}:é \\[\\]]{40,90}") {
            prop_assert!(shorten(&name).chars().count() <= name.chars().count());
        }

        #[test]
        fn never_panics_on_operators(name in "(operator|<|>|\\(|\\)|::|a){10,40}") {
            prop_assert!(!shorten(&name).is_empty());
        }
    }
}
