//! The critical path of method "hta" against HTA 0.6.1's own results over the corpus: checks C1 to C7, C12 and the
//! counts of C9 and C10 of the specification, for every parameter set of every reference file.

use crate::support::{read_file, read_json};
use serde_json::Value;
use stackline_critical_path::hta;
use stackline_critical_path::hta::{CriticalPath, HtaOptions, NO_EVENT, OverlayMode};
use stackline_critical_path::{Change, CriticalPathError, EdgeKind, Edit, Instances, Resource, Selector, WarningCode};
use stackline_model::Trace;
use stackline_present::exports::overlay::write_overlay;
use stackline_testkit::corpus;
use stackline_timeline::hta_view::HtaView;
use std::collections::BTreeMap;
use std::path::Path;

fn options(params: &Value) -> HtaOptions {
    let number = |v: &Value| usize::try_from(v.as_u64().unwrap()).unwrap();
    let instance = params.get("instance_id").or(params.get("instance"));
    HtaOptions {
        annotation: params["annotation"].as_str().unwrap().to_owned(),
        instance: match instance {
            Some(Value::Array(range)) => Some(Instances::Range(number(&range[0]), number(&range[1]))),
            Some(v) if v.is_u64() => Some(Instances::One(number(v))),
            _ => None,
        },
        zero_weight_launch_edges: params
            .get("zero_weight_launch_edges")
            .or(params.get("zero_launch"))
            .is_some_and(|v| v == true),
        data_load_events: params
            .get("data_load_events")
            .map_or(Vec::new(), |v| v.as_array().unwrap().iter().map(|p| p.as_str().unwrap().to_owned()).collect()),
        include_last_profiler_step: false,
    }
}

/// Everything that differs, as lines.
#[derive(Default)]
struct Differences {
    lines: Vec<String>,
    what: String,
}

impl Differences {
    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, ours: T, theirs: T) {
        if ours != theirs {
            self.lines.push(format!("{}: {what}: ours {ours:?}, HTA {theirs:?}", self.what));
        }
    }

    fn close(&mut self, what: &str, ours: f64, theirs: f64, tolerance: f64) {
        if (ours - theirs).abs() > tolerance {
            self.lines.push(format!("{}: {what}: ours {ours}, HTA {theirs}", self.what));
        }
    }
}

fn counts(cp: &CriticalPath) -> BTreeMap<&'static str, u64> {
    cp.edges_by_type().into_iter().map(|(kind, n)| (kind.name(), n as u64)).collect()
}

/// Counts, path and breakdown of one run (C1 to C3).
fn compare_run(diff: &mut Differences, trace: &Trace, cp: &CriticalPath, run: &Value) {
    let n = |key: &str| run[key].as_u64().unwrap();
    diff.equal("rows", cp.rows as u64, n("clipped_rows"));
    diff.equal("node list", cp.graph.nodes.len() as u64, n("node_list_len"));
    diff.equal("graph nodes", cp.graph.connected_nodes() as u64, n("graph_nodes"));
    compare_edge_counts(diff, trace, cp, run);
    diff.equal("path nodes", cp.path.nodes.len() as u64, n("cp_nodes"));
    diff.equal("path edges", cp.path.edges.len() as u64, n("cp_edges"));
    diff.equal("path events", cp.path_events().len() as u64, n("cp_events"));
    diff.close("path weight", cp.path.weight_us, run["cp_weight_effective"].as_f64().unwrap(), 0.0);
    let charged: f64 = cp.path_edges().map(|e| e.weight_us).sum();
    diff.close("charged weight", charged, run["cp_weight"].as_f64().unwrap(), 0.0);
    diff.equal("window µs", cp.window_ns() / 1000, run["coverage"]["window_us"].as_i64().unwrap());
    let ends = [("cp_first_node", cp.path.nodes[0]), ("cp_last_node", *cp.path.nodes.last().unwrap())];
    for (key, node) in ends {
        let event = cp.events.index[cp.graph.nodes.event[node as usize] as usize];
        diff.equal(
            key,
            (u64::from(node), u64::from(event)),
            (run[key][0].as_u64().unwrap(), run[key][1].as_u64().unwrap()),
        );
    }
    if let Some(path) = run["cp_node_evs"].as_array() {
        let theirs: Vec<(u64, bool)> = path.iter().map(|p| (p[0].as_u64().unwrap(), p[1] == 1)).collect();
        let ours: Vec<(u64, bool)> = cp.path.nodes.iter().map(|&n| point(cp, n)).collect();
        let first = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        diff.equal("first differing point of the path", first, None);
    }
    compare_breakdown(diff, cp, run);
    for (kind, theirs) in run["cp_edges_by_type"].as_object().unwrap() {
        let on_path = cp.path_edges().filter(|e| e.kind.name() == kind).count() as u64;
        diff.equal(kind, on_path, theirs["count"].as_u64().unwrap());
    }
}

fn point(cp: &CriticalPath, node: u32) -> (u64, bool) {
    let event = cp.graph.nodes.event[node as usize];
    (cp.events.index[event as usize].into(), cp.graph.nodes.is_start[node as usize])
}

/// Counts per type are equal, except that HTA's unstable sorts may call a launch delay a kernel delay and back: then
/// its count lies between those for "launch first" (ours) and "kernel first" at equal times.
fn compare_edge_counts(diff: &mut Differences, trace: &Trace, cp: &CriticalPath, run: &Value) {
    let ours = counts(cp);
    let theirs = |kind: &str| run["edges_by_type"][kind]["count"].as_u64().unwrap_or(0);
    for kind in ["OPERATOR_KERNEL", "DEPENDENCY", "SYNC_DEPENDENCY"] {
        diff.equal(kind, ours[kind], theirs(kind));
    }
    let (launch, gap) = ("KERNEL_LAUNCH_DELAY", "KERNEL_KERNEL_DELAY");
    if cp.options.zero_weight_launch_edges {
        // Every launched kernel has a launch edge, whatever the delay is called.
        diff.equal(launch, ours[launch], theirs(launch));
    } else {
        diff.equal("launch and kernel delays", ours[launch] + ours[gap], theirs(launch) + theirs(gap));
        diff.equal("graph edges", cp.graph.edges.len() as u64, run["graph_edges"].as_u64().unwrap());
    }
    if ours[gap] != theirs(gap) {
        let other = hta::analyze(&kernels_first(trace), &cp.options).unwrap();
        let bounds = [ours[gap], counts(&other)[gap]];
        let between = (bounds[0].min(bounds[1])..=bounds[0].max(bounds[1])).contains(&theirs(gap));
        diff.equal(&format!("kernel delays {} between {bounds:?}", theirs(gap)), between, true);
    }
}

/// The trace with times rounded as by HTA, and GPU work a nanosecond earlier, so that it precedes a launch at the same µs.
fn kernels_first(trace: &Trace) -> Trace {
    let mut trace = trace.clone();
    let view = HtaView::load(&trace, true);
    for row in 0..view.len() {
        let event = view.event[row].index();
        let earlier = i64::from(view.stream[row] != -1);
        trace.events.start[event] = view.start[row] - earlier;
        trace.events.dur[event] = view.end[row] - view.start[row] + earlier;
    }
    trace.meta.fractional_ts = false;
    trace
}

fn compare_breakdown(diff: &mut Differences, cp: &CriticalPath, run: &Value) {
    let bounds = cp.breakdown().bound_by;
    let ours: BTreeMap<&str, (f64, usize)> = bounds.iter().map(|s| (s.name.as_str(), (s.weight_us, s.edges))).collect();
    let theirs = run["breakdown_us"].as_object().unwrap();
    diff.equal("bounds", ours.keys().copied().collect::<Vec<_>>(), theirs.keys().map(String::as_str).collect());
    for share in &bounds {
        let name = share.name.as_str();
        diff.close(
            &format!("µs of '{name}'"),
            share.weight_us,
            run["breakdown_us"][name].as_f64().unwrap_or(-1.0),
            0.0,
        );
        diff.close(&format!("% of '{name}'"), share.percent, run["breakdown_pct"][name].as_f64().unwrap_or(-1.0), 1e-5);
        let edges = run["breakdown_edge_count"][name].as_u64().unwrap_or(0);
        diff.equal(&format!("edges of '{name}'"), share.edges as u64, edges);
    }
}

/// The whole graph, edge by edge, and the numbers of the nodes (C4, C5).
fn compare_graph(diff: &mut Differences, cp: &CriticalPath, graph: &Value, ties_matter: bool) {
    let nodes = graph["nodes"].as_array().unwrap();
    diff.equal("nodes", cp.graph.nodes.len(), nodes.len());
    let base = cp.graph.nodes.time_ns[0] / 1000 - nodes[0][3].as_i64().unwrap();
    for (i, node) in nodes.iter().enumerate() {
        let (event, is_start) = point(cp, i as u32);
        let ours = (i as u64, event, u64::from(is_start), cp.graph.nodes.time_ns[i] / 1000 - base);
        let u = |k: usize| node[k].as_u64().unwrap();
        diff.equal("node", ours, (u(0), u(1), u(2), node[3].as_i64().unwrap()));
    }
    type Ends = ((u64, bool), (u64, bool));
    let on_path: std::collections::BTreeSet<u32> = cp.path.edges.iter().copied().collect();
    let mut ours: BTreeMap<Ends, (String, f64, f64, Option<u64>, bool)> = BTreeMap::new();
    for (i, edge) in cp.graph.edges.iter().enumerate() {
        let charged = (edge.attributed != NO_EVENT).then(|| u64::from(cp.events.index[edge.attributed as usize]));
        let value = (
            edge.kind.name().to_owned(),
            edge.weight_us,
            edge.search_weight_us(),
            charged,
            on_path.contains(&(i as u32)),
        );
        assert!(ours.insert((point(cp, edge.from), point(cp, edge.to)), value).is_none(), "one edge per pair");
    }
    let edges = graph["edges"].as_array().unwrap();
    diff.equal("edges", ours.len(), edges.len());
    for e in edges {
        let at = |k: usize| (e[k].as_u64().unwrap(), e[k + 1] == 1);
        let kind = e[4].as_str().unwrap().to_owned();
        let theirs = (kind.clone(), e[5].as_f64().unwrap(), e[6].as_f64().unwrap(), e[7].as_u64(), e[8] == 1);
        let found = ours.get(&(at(0), at(2))).cloned();
        let may_differ = ties_matter && kind.ends_with("_DELAY");
        if !may_differ {
            diff.equal(&format!("edge {:?} {:?}", at(0), at(2)), found, Some(theirs));
        }
    }
}

fn compare_overlay(diff: &mut Differences, cp: &CriticalPath, original: &[u8], reference: &Value) {
    for (mode, theirs) in reference.as_object().unwrap() {
        let mode = OverlayMode {
            only_critical: mode.contains("only_critical=True"),
            all_edges: mode.contains("all_edges=True"),
        };
        let mut out = Vec::new();
        let overlay = cp.overlay(mode);
        let summary = write_overlay(original, &mut out, &overlay).unwrap();
        diff.equal("marked", summary.marked as usize, overlay.critical.len());
        let file: Value = serde_json::from_slice(&out).unwrap();
        let events = file["traceEvents"].as_array().unwrap();
        let count = |f: &dyn Fn(&Value) -> bool| events.iter().filter(|e| f(e)).count() as u64;
        let ours_flow = |e: &Value, ph: &str| e["ph"] == ph && e["cat"] == "critical_path";
        let pairs = [
            ("events", events.len() as u64),
            ("X", count(&|e| e["ph"] == "X")),
            ("critical_X", count(&|e| e["ph"] == "X" && e["args"]["critical"] == 1)),
            ("flows_s", count(&|e| ours_flow(e, "s"))),
            ("flows_f", count(&|e| ours_flow(e, "f"))),
            ("flows_f_critical", count(&|e| ours_flow(e, "f") && e["args"]["critical"] == true)),
        ];
        for (key, ours) in pairs {
            diff.equal(&format!("{mode:?} {key}"), ours, theirs[key].as_u64().unwrap());
        }
        for (kind, n) in theirs["flow_types"].as_object().unwrap() {
            diff.equal(
                kind,
                count(&|e| e["cat"] == "critical_path" && e["args"]["type"] == **kind),
                n.as_u64().unwrap(),
            );
        }
        // HTA walks a set of edges: the example is one of our arrows, but not the first one.
        for example in theirs["example"].as_array().unwrap() {
            let mut example = example.clone();
            let same = events.iter().any(|e| {
                example["id"] = e["id"].clone();
                *e == example
            });
            diff.equal(&format!("{mode:?} has {example}"), same, true);
        }
    }
}

fn save_and_restore(diff: &mut Differences, cp: &CriticalPath) {
    let mut file = Vec::new();
    cp.save(&mut file).unwrap();
    let mut again = CriticalPath::restore(&file[..]).unwrap();
    diff.equal("restored path", again == *cp, true);
    again.path.nodes.clear();
    again.recompute();
    diff.equal("recomputed path", again.path == cp.path, true);
}

fn edit(kinds: &[EdgeKind], resource: Option<Resource>, name: Option<&str>, change: Change) -> Edit {
    Edit { select: Selector { kinds: kinds.to_vec(), resource, name: name.map(str::to_owned) }, change }
}

/// Path and weight after each edit, and a breakdown that sums to the weight (C12).
fn compare_what_if(diff: &mut Differences, cp: &CriticalPath, reference: &Value) {
    let (op, gap, launch) = (EdgeKind::OperatorKernel, EdgeKind::KernelKernelDelay, EdgeKind::KernelLaunchDelay);
    let edits = [
        ("base", vec![]),
        ("gpu_kernels_x0.5", vec![edit(&[op], Some(Resource::Gpu), None, Change::Scale(0.5))]),
        ("launch_and_kernel_gaps_0", vec![edit(&[launch, gap], None, None, Change::Set(0.0))]),
        ("cpu_x0.5", vec![Edit::parse("cpu=x0.5").unwrap()]),
        ("cudaMalloc_0", vec![edit(&[op], None, Some("cudaMalloc"), Change::Set(0.0))]),
    ];
    for (key, edits) in edits {
        let edited = cp.apply(&edits);
        diff.equal(&format!("{key} nodes"), edited.path.nodes.len() as u64, reference[key]["nodes"].as_u64().unwrap());
        diff.equal(
            &format!("{key} events"),
            edited.path_events().len() as u64,
            reference[key]["events"].as_u64().unwrap(),
        );
        diff.close(&format!("{key} weight"), edited.path.weight_us, reference[key]["weight"].as_f64().unwrap(), 0.0);
        let sum: f64 = edited.breakdown().bound_by.iter().map(|s| s.weight_us).sum();
        diff.close(&format!("{key} breakdown sums to the weight"), sum, edited.path.weight_us, 1e-6);
    }
}

/// Cases in which HTA fails: ours gives a result or a reason.
fn compare_failure(
    diff: &mut Differences,
    result: &Result<CriticalPath, CriticalPathError>,
    options: &HtaOptions,
    error: &str,
) {
    let fits = match result {
        Err(CriticalPathError::AnnotationNotFound { .. }) => error == "returned None",
        Err(CriticalPathError::LastStepLeftOut { .. }) => {
            error == "returned None" || error.contains("'nan' is not defined")
        }
        Err(CriticalPathError::InstanceOutOfRange { .. }) => error.contains("'nan' is not defined"),
        // Steps of a host-only trace may hold nothing but annotations.
        Err(CriticalPathError::EmptyGraph { .. }) => error.contains("Queue length") && !options.annotation.is_empty(),
        Err(_) => false,
        Ok(cp) if error.contains("Queue length") => cp.warnings.iter().any(|w| w.code == WarningCode::NoGpuWork),
        Ok(_) => error.contains("Could not find runtime index") || error.contains("list indices"),
    };
    diff.equal(&format!("HTA: {error}; ours: {:?}", result.as_ref().map(|cp| cp.path.nodes.len())), fits, true);
}

#[test]
fn every_reference_run_is_reproduced() {
    let Some(corpus) = corpus::folder() else { return };
    let folder = corpus.join("reference/hta");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_file()).collect();
    files.sort();
    let mut diff = Differences::default();
    let (mut succeeded, mut failed, mut graphs, mut overlays, mut saved, mut what_ifs) = (0, 0, 0, 0, 0, 0);
    for file in &files {
        let reference = read_json(file);
        let source = corpus.join(reference["trace"].as_str().unwrap());
        let trace = read_file(&source);
        for run in reference["reference"]["runs"].as_array().unwrap() {
            let params = &run["params"];
            diff.what = format!("{} {params}", file.file_name().unwrap().display());
            let result = hta::analyze(&trace, &options(params));
            if run["success"] != true {
                compare_failure(&mut diff, &result, &options(params), run["error"].as_str().unwrap());
                failed += 1;
                continue;
            }
            let cp = match result {
                Ok(cp) => cp,
                Err(e) => {
                    diff.equal(&e.to_string(), false, true);
                    continue;
                }
            };
            compare_run(&mut diff, &trace, &cp, run);
            succeeded += 1;
            // Not every graph that the references name was kept.
            let graph = run["graph_file"].as_str().map(|name| graph_path(&folder, name)).filter(|path| path.is_file());
            if let Some(path) = graph {
                let ties_matter = run["edges_by_type"]["KERNEL_KERNEL_DELAY"]["count"].as_u64()
                    != Some(counts(&cp)["KERNEL_KERNEL_DELAY"]);
                compare_graph(&mut diff, &cp, &read_json(&path), ties_matter);
                graphs += 1;
            }
            if run["overlay"].is_object() {
                compare_overlay(&mut diff, &cp, &corpus::unpacked(&source), &run["overlay"]);
                overlays += 1;
            }
            if run["save_restore"].is_object() {
                save_and_restore(&mut diff, &cp);
                saved += 1;
            }
        }
        for what_if in reference.get("what_if").and_then(Value::as_array).unwrap_or(&Vec::new()) {
            diff.what = format!("{} what-if {}", file.file_name().unwrap().display(), what_if["annotation"]);
            compare_what_if(&mut diff, &hta::analyze(&trace, &options(what_if)).unwrap(), what_if);
            what_ifs += 1;
        }
    }
    println!(
        "{succeeded} runs of HTA reproduced, {failed} of its failures met, {graphs} graphs, {overlays} overlays, \
         {saved} saved paths, {what_ifs} what-if sets, from {} files",
        files.len()
    );
    assert!(
        diff.lines.is_empty(),
        "{} differences:\n{}",
        diff.lines.len(),
        diff.lines[..diff.lines.len().min(60)].join("\n")
    );
    assert!(succeeded >= 69 && failed >= 46 && graphs >= 25 && overlays >= 11 && saved >= 4 && what_ifs >= 18);
}

/// The graph's file without the tool's version in its name.
fn graph_path(folder: &Path, name: &str) -> std::path::PathBuf {
    folder.join(name.replace(".hta-0.6.1+pandas-2.2.3", ""))
}
