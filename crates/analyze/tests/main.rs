//! Integration tests of this crate, in one binary: linked once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::iter_over_hash_type,
    reason = "tests fail by panicking, and say what they skip"
)]

mod call_metrics;
mod call_shares;
mod call_trees;
mod call_views_upwards;
mod checks;
mod critical_path_cost;
mod critical_path_reference;
mod critical_path_robust;
mod critical_path_rules;
mod ctda_corpus;
mod ctda_figures;
mod demo_snapshots;
mod diff;
mod diff_steps;
mod diff_without_steps;
mod exact_corpus;
mod exact_segment_names;
mod exact_slack;
mod exact_summary;
mod exact_uncertainty;
mod exact_unlaunched;
mod findings_block_limits;
mod findings_comm;
mod findings_compilations;
mod findings_core;
mod findings_cpu;
mod findings_damaged;
mod findings_docs;
mod findings_eager;
mod findings_embeddings;
mod findings_host;
mod findings_inference;
mod findings_kernels;
mod findings_measured_on_gpu;
mod findings_real;
mod findings_recordings;
mod findings_repeated;
mod findings_samples;
mod findings_scale;
mod findings_small_collectives;
mod findings_steps;
mod findings_support;
mod findings_uncovered;
mod findings_waits;
mod full_queue;
mod fused_operators;
mod gpu_records;
mod gpu_time_and_coverage;
mod gpu_traces;
mod hta_exact;
mod hta_support;
mod hta_tables;
mod imports;
mod inferred_steps;
mod logical_parents;
mod odd_steps;
mod step_windows;
mod steps;
mod support;
mod table_names;
mod tl_cases;
mod tl_invariants;
mod tl_reference;
mod tl_support;
mod tl_xplane;
mod what_if_corpus;
mod what_if_findings;
mod what_if_loaders;
mod what_if_no_effect;
mod what_if_overlap;
mod what_if_recordings;
mod xpu;
