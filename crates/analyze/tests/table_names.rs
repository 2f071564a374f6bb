//! Names of tables: analyses and the exact path return the tables that they declare, and no others.

use stackline_analyze::analyses;
use stackline_critical_path::exact;
use stackline_critical_path::exact::WindowChoice;
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{Table, Trace};
use stackline_testkit::mini;
use stackline_timeline::Scope;
use std::collections::BTreeSet;

fn read(text: &str) -> Trace {
    read_bytes("t", mini::trace(text).as_bytes(), &ReadOptions::default()).unwrap()
}

/// A step with a module, whose operator launches a kernel: tables by module are there only then.
fn trace() -> Trace {
    read(
        "1/1     user_annotation  ProfilerStep#0    0..200
         1/1     python_function  nn.Module: Net_0  0..100
         1/1     cpu_op           aten::mul         0..20
         1/1     cuda_runtime     cudaLaunchKernel  5..10   correlation=1
         gpu0/7  kernel           product           30..40  correlation=1",
    )
}

fn table_names(tables: &[Table]) -> BTreeSet<&str> {
    tables.iter().map(|table| &*table.name).collect()
}

#[test]
fn analyses_declare_their_tables() {
    let (trace, empty) = (trace(), read("1/1 cpu_op aten::mul 0..20"));
    for analysis in analyses::ALL {
        let declared: BTreeSet<&str> = analysis.tables.iter().copied().collect();
        assert_eq!(table_names(&(analysis.run)(&trace, &Scope::default())), declared, "{}", analysis.name);
        let of_nothing = (analysis.run)(&empty, &Scope::default());
        assert!(table_names(&of_nothing).is_subset(&declared), "{}", analysis.name);
    }
}

#[test]
fn the_exact_path_declares_its_tables() {
    let trace = trace();
    let graph = exact::Exact::new(&trace);
    let path = graph.path(&WindowChoice::Whole).unwrap();
    let tables = exact::tables(&graph.report(&path), &[], &[]);
    let all: BTreeSet<&str> = table_names(&tables).into_iter().chain(exact::ON_DEMAND).collect();
    assert_eq!(all, BTreeSet::from(exact::TABLES));
}
