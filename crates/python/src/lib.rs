//! Python bindings of the engine as thin classes. The public interface is the package `python/stackline`, which wraps
//! them; the classes here are private.
#![forbid(unsafe_code)]

mod call_nodes;
mod call_tree;
mod cell;
mod critical_path;
mod ctda;
mod diff;
mod errors;
mod exact;
mod findings;
mod memory;
mod page;
mod run;
mod table;
mod views;
mod what_if;
mod worker;

/// Extension module `stackline._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::call_nodes::{NativeCallNode, NativeCallNodeIterator, NativeCallNodes, NativeCallPart, bfs};
    #[pymodule_export]
    use crate::call_tree::{NativeCallTotals, NativeCallTree, call_tree};
    #[pymodule_export]
    use crate::critical_path::{NativeCriticalPath, critical_path};
    #[pymodule_export]
    use crate::ctda::{NativeCtdaPath, ctda_path};
    #[pymodule_export]
    use crate::diff::diff;
    #[pymodule_export]
    use crate::exact::{NativeExactPath, exact_path};
    #[pymodule_export]
    use crate::findings::{finding_words, findings, missing_needs, needs, renaming_notes};
    #[pymodule_export]
    use crate::memory::{NativeMemory, memory_tables};
    #[pymodule_export]
    use crate::page::{NativePage, view};
    #[pymodule_export]
    use crate::run::{NativeRun, analyses_list, open};
    #[pymodule_export]
    use crate::table::NativeTable;
    #[pymodule_export]
    use crate::what_if::{NativePrediction, sweep, what_if};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
