//! Working memory that PyTorch allocates for CUDA libraries, by the names of the allocating C++ functions.
//!
//! cuBLAS and cuBLASLt keep one workspace per pair of handle (thread and device) and stream until the process ends. Its
//! call path shows the first work that needed it (a forward pass, a backward pass, the capture of a graph), which does
//! not own it.

use crate::native_names::qualified;

/// CUDA library that needs working memory: name, allocating functions, and advice on the size.
#[derive(Debug, PartialEq, Eq)]
pub struct WorkspaceLibrary {
    /// Name.
    pub name: &'static str,
    /// Advice on the size of the workspace.
    pub sized_by: &'static str,
    /// Functions that allocate only workspaces, without arguments.
    functions: &'static [&'static str],
}

/// Libraries. `getNewWorkspace` is the name in older versions of PyTorch.
static LIBRARIES: [WorkspaceLibrary; 3] = [
    WorkspaceLibrary {
        name: "cuBLAS",
        sized_by: "each pair of thread and stream has its own workspace, whose size CUBLAS_WORKSPACE_CONFIG sets \
                   (:4096:2:16:8 means 8.1 MiB, :0:0 means no workspace). The default is 32 MiB on Hopper and later \
                   GPUs",
        functions: &[
            "at::cuda::setWorkspaceForHandle",
            "at::cuda::getNewWorkspace",
            "at::cuda::getCurrentCUDABlasHandle",
        ],
    },
    WorkspaceLibrary {
        name: "cuBLASLt",
        sized_by: "the environment variable CUBLASLT_WORKSPACE_SIZE sets the size of the workspace in KiB",
        functions: &["at::cuda::getCUDABlasLtWorkspace"],
    },
    WorkspaceLibrary {
        name: "cuDNN",
        sized_by: "the size of the workspace depends on the algorithm that cuDNN chooses; \
                   torch.backends.cudnn.benchmark and torch.backends.cudnn.deterministic influence the choice",
        functions: &["at::native::run_conv_plan", "at::native::run_conv_plan_fused", "at::native::run_single_conv"],
    },
];

/// Library whose workspace a C++ function allocates. None for other functions.
pub fn workspace_library(function: &str) -> Option<&'static WorkspaceLibrary> {
    let name = qualified(function);
    LIBRARIES.iter().find(|library| library.functions.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::workspace_library;

    #[test]
    fn functions_that_allocate_workspaces_name_their_library() {
        let name = |function| workspace_library(function).map(|library| library.name);
        assert_eq!(name("at::cuda::setWorkspaceForHandle(cublasContext*, c10::cuda::CUDAStream)"), Some("cuBLAS"));
        assert_eq!(name("at::cuda::getNewWorkspace()"), Some("cuBLAS"));
        assert_eq!(name("at::cuda::getCUDABlasLtWorkspace()"), Some("cuBLASLt"));
        assert_eq!(name("void at::native::run_conv_plan(cudnnContext*, at::Tensor const&)"), Some("cuDNN"));
        assert_eq!(name("at::_ops::mm::call(at::Tensor const&, at::Tensor const&)"), None);
        assert_eq!(name("my_getNewWorkspace()"), None);
    }
}
