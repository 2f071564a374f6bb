//! Adds linker arguments for macOS, which resolve symbols of Python at load time.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
