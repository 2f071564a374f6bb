//! Python packages: whose code a file is, from its path alone.

use super::FRAMEWORKS;

/// Folders in which packages are installed, and Python's own modules.
pub const INSTALLED: &[&str] = &["site-packages/", "dist-packages/", "lib/python3"];

/// The folder that PyTorch's source is checked out to. PyTorch is below all frameworks here, and has names of its own in [`crate::names`].
const PYTORCH: &str = "/pytorch/";

/// The folders of the packages of all frameworks.
pub fn packages() -> impl Iterator<Item = &'static str> {
    FRAMEWORKS.iter().flat_map(|framework| framework.packages).copied()
}

/// Whether a file is a framework's, wherever it is installed.
#[must_use]
pub fn is_framework_code(file: &str) -> bool {
    packages().any(|package| is_in_package(file, package))
}

/// Whether a file is in the folder of a package such as `torch/`: below where packages are installed. Traces may shorten paths to what
/// lies below that; names that are not shortened begin at the root, or with `./` (of files below the folder that the program ran in).
#[must_use]
pub fn is_in_package(file: &str, package: &str) -> bool {
    let installed = INSTALLED[..2].iter().filter_map(|folder| Some(file.rfind(folder)? + folder.len())).max();
    match installed {
        Some(at) => file[at..].starts_with(package),
        None if file.starts_with('/') => is_checked_out(file, package),
        None => file.starts_with(package),
    }
}

/// Whether a file is in the folder of a package in a checkout of the source that has it.
fn is_checked_out(file: &str, package: &str) -> bool {
    let of_frameworks = FRAMEWORKS.iter().flat_map(|framework| framework.checkouts).copied();
    let mut checkouts = std::iter::once(PYTORCH).chain(of_frameworks);
    checkouts.any(|folder| file.match_indices(folder).any(|(at, _)| file[at + folder.len()..].starts_with(package)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_known_where_they_are_installed_checked_out_or_shortened() {
        for file in [
            "megatron/core/transformer/mlp.py",
            "/opt/Megatron-LM/megatron/core/transformer/mlp.py",
            "/venv/lib/python3.11/site-packages/megatron/core/transformer/mlp.py",
        ] {
            assert!(is_framework_code(file), "{file}");
        }
        // What people change when they train with Megatron-LM, and folders that are called like libraries.
        for file in
            ["megatron/training/training.py", "pretrain_gpt.py", "/data/me/transformers/train.py", "src/jax/a.py"]
        {
            assert!(!is_framework_code(file), "{file}");
        }
        assert!(is_in_package("/opt/pytorch/torch/nn/modules/linear.py", "torch/"));
        assert!(!is_in_package("/opt/torch/nn/modules/linear.py", "torch/"));
    }
}
