//! Round-trip tests of profile exports: valid by the format, with the weights of the tree.

use super::pprof_proto::{Profile, ValueType};
use super::*;
use prost::Message;
use serde_json::Value;
use stackline_model::{CallProcess, CallThread, CallingContextTreeBuilder};
use stackline_testkit::recording::{Config, streams};
use std::io::Write;

fn tree() -> CallingContextTree {
    let files = streams(&Config { ranks: 2, ..Config::default() });
    stackline_ingest::recording::read_streams(files.iter().map(|(name, file)| (name.as_str(), file.as_slice())))
}

type Writer = fn(&CallingContextTree, CallMetric, &mut dyn Write) -> std::io::Result<()>;

fn written(write: Writer, metric: CallMetric) -> Vec<u8> {
    let mut out = Vec::new();
    write(&tree(), metric, &mut out).unwrap();
    let mut again = Vec::new();
    write(&tree(), metric, &mut again).unwrap();
    assert_eq!(out, again, "the same tree gives the same bytes");
    out
}

fn total(metric: CallMetric) -> u64 {
    weighted_stacks(&tree(), metric).iter().map(|stack| stack.stats.sum).sum()
}

#[test]
fn collapsed_stacks_add_up() {
    for metric in [CallMetric::OperatorTime, CallMetric::CallTime, CallMetric::Allocated] {
        let text = String::from_utf8(written(write_collapsed, metric)).unwrap();
        let sum: u64 = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
        assert_eq!(sum, total(metric));
    }
    let text = String::from_utf8(written(write_collapsed, CallMetric::OperatorTime)).unwrap();
    let line = text.lines().find(|line| line.contains("cross_entropy_loss")).unwrap();
    assert!(line.starts_with("<module> (train.py:88);main (train.py:71);train_step (train.py:49);"), "{line}");
}

#[test]
fn a_flame_graph_is_drawn() {
    let svg = String::from_utf8(written(write_flamegraph, CallMetric::OperatorTime)).unwrap();
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    for name in ["aten::addmm", "AddmmBackward0", "train_step (train.py:48)"] {
        assert!(svg.contains(name), "{name}");
    }
}

/// Check the speedscope export against the schema's rules for sampled profiles, and its weights against the tree.
#[test]
fn speedscope_files_match_their_schema() {
    let file: Value = serde_json::from_slice(&written(write_speedscope, CallMetric::OperatorTime)).unwrap();
    let frames = file["shared"]["frames"].as_array().unwrap();
    assert!(frames.iter().all(|frame| frame["name"].is_string()));
    let mut sum = 0;
    for profile in file["profiles"].as_array().unwrap() {
        assert_eq!((&profile["type"], &profile["unit"]), (&"sampled".into(), &"nanoseconds".into()));
        let (samples, weights) = (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
        assert_eq!(samples.len(), weights.len());
        let known = |index: &Value| (index.as_u64().unwrap() as usize) < frames.len();
        assert!(samples.iter().all(|sample| sample.as_array().unwrap().iter().all(known)));
        let all: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
        assert_eq!(profile["endValue"].as_u64(), Some(all));
        sum += all;
    }
    assert_eq!(sum, total(CallMetric::OperatorTime));
}

/// Check ids and string indices of the pprof export by the rules of pprof's `CheckValid`, and its values against the
/// tree.
#[test]
fn pprof_references_are_valid() {
    let profile = Profile::decode(written(write_pprof, CallMetric::OperatorTime).as_slice()).unwrap();
    let texts = profile.string_table.len() as i64;
    assert_eq!(profile.string_table[0], "");
    let text = |id: i64| (0..texts).contains(&id);
    assert!(profile.sample_type.iter().all(|kind| text(kind.r#type) && text(kind.unit)));
    for (id, location) in (1..).zip(&profile.location) {
        assert_eq!(location.id, id);
        assert!(location.mapping_id as usize <= profile.mapping.len());
        assert!(location.line.iter().all(|line| (1..=profile.function.len() as u64).contains(&line.function_id)));
    }
    assert!(profile.function.iter().all(|function| text(function.name) && text(function.filename)));
    for sample in &profile.sample {
        assert_eq!(sample.value.len(), profile.sample_type.len());
        assert!(sample.location_id.iter().all(|id| (1..=profile.location.len() as u64).contains(id)));
        assert!(sample.label.iter().all(|label| label.key > 0 && text(label.key) && text(label.str)));
    }
    let name = |kind: &ValueType| profile.string_table[kind.r#type as usize].clone();
    // Allocated bytes have Go's name.
    for (metric, known) in [
        (CallMetric::OperatorTime, "operator_time"),
        (CallMetric::CpuTime, "cpu_time"),
        (CallMetric::Allocated, "alloc_space"),
    ] {
        let column = profile.sample_type.iter().position(|kind| name(kind) == known).unwrap();
        let sum: i64 = profile.sample.iter().map(|sample| sample.value[column]).sum();
        assert_eq!(sum as u64, total(metric));
    }
}

/// Check that functions inlined into each other at one address become one location with several lines, innermost first.
#[test]
fn pprof_has_inlined_lines() {
    let mut builder = CallingContextTreeBuilder::new();
    let process = builder.process(CallProcess::default());
    let name = builder.text("main");
    let thread = builder.thread(CallThread { process, tid: 1, torch_id: 0, name });
    let texts = ["/lib/x.so", "content:12", "outer", "middle", "inner", "a.c"].map(|text| builder.text(text));
    let [library, build_id, .., file] = texts;
    let native = |offset, function, inlined| Frame::Native {
        library,
        build_id,
        offset,
        function,
        file,
        line: 10 + inlined,
        inlined,
    };
    let unnamed = Frame::native(library, build_id, 64);
    let path = [unnamed, native(32, texts[2], 0), native(32, texts[3], 1), native(32, texts[4], 2)];
    let node = path.into_iter().fold(CallingContextTree::ROOT, |node, frame| {
        let frame = builder.frame(frame);
        builder.child(node, frame)
    });
    builder.add(node, thread, CallMetric::CpuTime, &CallStats::from_value(5));
    let tree = builder.finish();

    let mut out = Vec::new();
    write_pprof(&tree, CallMetric::CpuTime, &mut out).unwrap();
    let profile = Profile::decode(out.as_slice()).unwrap();
    let text = |id: i64| profile.string_table[id as usize].as_str();
    let lines = |id: &u64| {
        let location = &profile.location[*id as usize - 1];
        let function = |id: u64| text(profile.function[id as usize - 1].name);
        let lines = location.line.iter().map(|line| format!("{}:{}", function(line.function_id), line.line));
        (location.address, lines.collect::<Vec<_>>())
    };
    assert_eq!(profile.sample.len(), 1);
    let stack: Vec<_> = profile.sample[0].location_id.iter().map(lines).collect();
    let inlined = vec!["inner:12".to_owned(), "middle:11".to_owned(), "outer:10".to_owned()];
    assert_eq!(stack, [(32, inlined), (64, vec!["x.so+0x40:0".to_owned()])]);
    let [mapping] = profile.mapping.as_slice() else { panic!("one library, one mapping") };
    assert_eq!((text(mapping.filename), text(mapping.build_id)), ("/lib/x.so", ""));
    assert!(mapping.has_functions && mapping.has_line_numbers && mapping.has_inline_frames);

    let mut collapsed = Vec::new();
    write_collapsed(&tree, CallMetric::CpuTime, &mut collapsed).unwrap();
    assert_eq!(String::from_utf8(collapsed).unwrap(), "x.so+0x40;outer;middle;inner 5\n");
}

#[test]
fn firefox_has_a_track_per_thread() {
    let file: Value = serde_json::from_slice(&written(write_firefox, CallMetric::OperatorTime)).unwrap();
    let threads = file["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 6, "two ranks: main, autograd, worker");
    let mut sum = 0.0;
    for thread in threads {
        let samples = &thread["samples"];
        let length = samples["length"].as_u64().unwrap() as usize;
        assert_eq!(samples["weightType"], "tracing-ms");
        for column in ["weight", "stack"] {
            assert_eq!(samples[column].as_array().unwrap().len(), length, "{column}");
        }
        let stacks = thread["stackTable"]["length"].as_u64().unwrap();
        assert!(samples["stack"].as_array().unwrap().iter().all(|stack| stack.as_u64().unwrap() < stacks));
        sum += samples["weight"].as_array().unwrap().iter().map(|weight| weight.as_f64().unwrap()).sum::<f64>();
    }
    assert!((sum - total(CallMetric::OperatorTime) as f64 / 1e6).abs() < 1e-6);
}
