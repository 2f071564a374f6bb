//! Demangling of C++ and Rust names, with size limits.

use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt::{self, Write};

/// Longest demangled name in bytes, because names can be crafted to grow.
const MAX_NAME: usize = 16 << 10;
/// Longer mangled names are not demangled.
const MAX_MANGLED: usize = 64 << 10;

/// Demangle a C++ or Rust symbol name; other names are returned unchanged, except that long ones are cut.
#[must_use]
pub fn demangle(name: &str) -> String {
    if name.len() <= MAX_MANGLED {
        // Rust first, because its older names look like those of C++.
        if let Ok(rust) = rustc_demangle::try_demangle(name) {
            let mut out = Bounded::default();
            if write!(out, "{rust:#}").is_ok() {
                return out.0;
            }
        }
        if name.starts_with("_Z")
            && let Ok(symbol) = Symbol::new(name)
        {
            let mut out = Bounded::default();
            if symbol.structured_demangle(&mut out, &DemangleOptions::default()).is_ok() {
                return out.0;
            }
        }
    }
    name.chars().take(MAX_NAME).collect()
}

/// Text buffer with a size limit, beyond which writes fail.
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME, demangle};
    use proptest::prelude::*;

    #[test]
    fn demangled_names_equal_the_source() {
        let names = [
            ("malloc", "malloc"),
            ("_ZN2at6native10add_kernelERKNS_6TensorE", "at::native::add_kernel(at::Tensor const&)"),
            ("_ZN12_GLOBAL__N_13runEi", "(anonymous namespace)::run(int)"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back(int&&)"),
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_Znot a name", "_Znot a name"),
            ("", ""),
        ];
        for (mangled, name) in names {
            assert_eq!(demangle(mangled), name);
        }
    }

    #[test]
    fn explosive_names_are_bounded() {
        // Each substitution doubles the previous one.
        let mut bomb = "_Z1fI".to_owned();
        bomb.push_str("1AIS_S_E");
        for level in 0..30 {
            let digit = char::from_digit(level % 36, 36).unwrap_or('0').to_ascii_uppercase();
            bomb.push_str(&format!("1AIS{digit}_S{digit}_E"));
        }
        bomb.push_str("Evv");
        assert!(demangle(&bomb).len() <= MAX_NAME);
        let deep = format!("_Z{}", "N".repeat(50_000));
        assert_eq!(demangle(&deep).len(), MAX_NAME.min(deep.len()));
        assert!(demangle(&"x".repeat(1 << 20)).len() <= MAX_NAME);
    }

    proptest! {
        #[test]
        fn any_mangled_name_has_a_result(name in "(_Z|_R|_ZN|_RNv|)[A-Za-z0-9_.$]{0,80}") {
            prop_assert!(demangle(&name).len() <= MAX_NAME);
        }

        #[test]
        fn any_text_has_a_result(name in ".{0,60}") {
            prop_assert!(demangle(&name).len() <= MAX_NAME * 4);
        }
    }
}
