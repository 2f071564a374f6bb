//! Tests that any query has an answer or a refusal, and that sums of answers equal those of the trace.

use crate::common;

use common::{document, memory, numbers};
use proptest::prelude::*;
use serde_json::Value;
use stackline_engine::OpenOptions;
use stackline_query::{ALL, Answer, Arguments, OpenRun, QueryError, run_query};
use stackline_testkit::mini;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A generated training step, opened once.
fn opened() -> &'static OpenRun {
    static OPENED: OnceLock<OpenRun> = OnceLock::new();
    OPENED.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.json");
        std::fs::write(
            &path,
            stackline_testkit::demo::generate(&stackline_testkit::demo::Config { steps: 3, ..Default::default() }),
        )
        .expect("written");
        OpenRun::open(&[path], &OpenOptions::default()).expect("opens")
    })
}

fn answer(name: &str, arguments: &[(&str, &str)]) -> Result<Answer, QueryError> {
    run_query(opened(), name, &Arguments::new(arguments.iter().copied()))
}

#[test]
fn every_query_answers_or_names_missing_data() {
    for query in ALL {
        match answer(query.name, &[]) {
            Ok(answer) => assert!(!answer.to_bytes().is_empty() && document(&answer).is_object()),
            Err(QueryError::Argument { why, .. }) => assert_eq!(why, "is missing", "{}", query.name),
            Err(QueryError::Unavailable { .. }) => {
                assert!(query.name.starts_with("compare") || query.name.starts_with("memory"), "{}", query.name);
            }
            Err(error) => panic!("{}: {error}", query.name),
        }
    }
}

#[test]
fn boxes_of_calls_add_up() {
    for shape in ["top-down", "bottom-up", "flat"] {
        let all = answer("calls", &[("shape", shape), ("least", "0")]).expect("answered");
        let (parent, inclusive, exclusive) =
            (numbers(&all, "parent"), numbers(&all, "inclusive"), numbers(&all, "exclusive"));
        assert_eq!(document(&all)["left_out"], 0);
        assert_eq!(document(&all)["total"].as_f64(), Some(inclusive[0]));
        if shape == "top-down" {
            let mut sums = exclusive.clone();
            for node in (1..parent.len()).rev() {
                sums[parent[node] as usize] += sums[node];
            }
            assert_eq!(sums, inclusive, "what a node has is its own and its children's");
        }
        // A narrow view has fewer boxes, and none whose caller is missing.
        let few = answer("calls", &[("shape", shape), ("least", "0.05")]).expect("answered");
        let (row, caller) = (numbers(&few, "row"), numbers(&few, "parent"));
        assert!(row.len() < parent.len());
        assert!(caller.iter().enumerate().skip(1).all(|(node, up)| (*up as usize) < node), "callers come first");
    }
}

#[test]
fn tiles_contain_every_event_once_and_wide_ones_separately() {
    let lanes = document(&answer("lanes", &[]).expect("answered"));
    let events: u64 =
        lanes["lanes"].as_array().expect("lanes").iter().map(|lane| lane["events"].as_u64().unwrap_or(0)).sum();
    let single = answer("tiles", &[("level", "0"), ("first", "0"), ("last", "1000000")]).expect("answered");
    let lengths: Vec<f64> = numbers(&single, "busy");
    let all_time: f64 = lengths.iter().sum();
    for level in [0_u32, 8, 12, 16, 53] {
        // One tile of level 53 is longer than any trace; finer ones are asked for all at once.
        let last = if level == 53 { "0" } else { "1000000" };
        let level_text = level.to_string();
        let all = answer("tiles", &[("level", &level_text), ("first", "0"), ("last", last)]).expect("answered");
        assert_eq!(numbers(&all, "count").iter().sum::<f64>() as u64, events, "level {level}");
        assert_eq!(numbers(&all, "busy").iter().sum::<f64>(), all_time, "level {level}");
        let length = numbers(&all, "length");
        let bucket = (1_u64 << level) as f64;
        let wide = lengths.iter().filter(|&&ns| ns >= bucket).count();
        let counts = numbers(&all, "count");
        let is_wide = |at: &usize| counts[*at] == 1.0 && length[*at] >= bucket;
        let alone = (0..counts.len()).filter(is_wide).count();
        assert_eq!(alone, wide, "what is as long as a bucket has a box of its own at level {level}");
    }
}

#[test]
fn adjacent_tiles_equal_one_tile_of_both() {
    let tiles = |first: &str, last: &str| {
        let all = answer("tiles", &[("level", "12"), ("first", first), ("last", last)]).expect("answered");
        let events = numbers(&all, "event").into_iter().map(|event| event as u64);
        events.collect::<std::collections::BTreeSet<_>>()
    };
    let (one, other, both) = (tiles("0", "0"), tiles("1", "1"), tiles("0", "1"));
    assert!(both.iter().all(|event| one.contains(event) || other.contains(event)));
    // What lasts over the edge is in both: a step does.
    assert!(one.intersection(&other).count() > 0);
}

#[test]
fn narrow_events_become_one_box() {
    let boxes = |level: &str| {
        let all = answer("tiles", &[("level", level), ("first", "0"), ("last", "1000000")]);
        numbers(&all.expect("answered"), "count").len()
    };
    assert!(boxes("30") < boxes("0") / 4, "{} against {}", boxes("30"), boxes("0"));
}

/// A trace of spans at the limits of times.
fn extreme() -> &'static OpenRun {
    static OPENED: OnceLock<OpenRun> = OnceLock::new();
    OPENED.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("extreme.json");
        let lines = "1/1  cpu_op               first   -9000000000000000+1
                     1/1  cpu_op               zero    0+0
                     1/1  cpu_op               epoch   1600000000000000.128+7
                     1/1  cpu_op               inside  1600000000000001.128+2
                     1/7  kernel               last    9000000000000000+9000000000000000
                     1/7  gpu_user_annotation  step    1600000000000000+1000";
        std::fs::write(&path, mini::trace(lines)).expect("written");
        OpenRun::open(&[path], &OpenOptions::default()).expect("opens")
    })
}

#[test]
fn times_far_from_the_start_keep_their_ns() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("epoch.json");
    let lines = "1/1 cpu_op a 1600000000000000.001+0.007\n1/1 cpu_op a 1600000000000000.012+0.007";
    std::fs::write(&path, mini::trace(lines)).expect("written");
    let opened = OpenRun::open(&[path], &OpenOptions::default()).expect("opens");
    let tiles = run_query(&opened, "tiles", &Arguments::new([("level", "0"), ("first", "0"), ("last", "0")]))
        .expect("answered");
    assert_eq!((numbers(&tiles, "start"), numbers(&tiles, "length")), (vec![0.0, 11.0], vec![7.0, 7.0]));
}

#[test]
fn memory_and_counters_are_curves() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("counters.json");
    let lines = r#"
        1/1  cpu_op  a                  0..100
        1/1  -       [memory]           @1    Total Allocated=10 Total Reserved=0 Bytes=1 Device Id=0 Device Type=1
        1/1  -       [memory]           @2    Total Allocated=30 Total Reserved=0 Bytes=1 Device Id=0 Device Type=1
        1/1  -       [memory]           @60   Total Allocated=20 Total Reserved=0 Bytes=1 Device Id=0 Device Type=1
        1/2  -       [memory]           @5    Bytes=4 Device Id=-1 Device Type=0
        1/2  -       [memory]           @6    Bytes=-3 Device Id=-1 Device Type=0
        0    -       GPU 0 Utilization  C@0   GPU Utilization=0.5
        0    -       GPU 0 Utilization  C@50  GPU Utilization=1
        0    -       GPU 0 Utilization  C@51  GPU Utilization=x"#;
    std::fs::write(&path, mini::trace(lines)).expect("written");
    let opened = OpenRun::open(&[path], &OpenOptions::default()).expect("opens");
    let counters = |level: &str, first: &str, last: &str| {
        run_query(&opened, "counters", &Arguments::new([("level", level), ("first", first), ("last", last)]))
            .expect("answered")
    };
    let exact = counters("0", "0", "1000");
    let names: Vec<_> =
        document(&exact)["counters"].as_array().expect("counters").iter().map(|c| c["name"].clone()).collect();
    assert_eq!(
        names,
        [
            "Memory allocated · GPU 0 · process 1",
            "Memory allocated minus freed since the start of the trace · CPU · process 1",
            "GPU 0 Utilization · process 0"
        ]
    );
    assert_eq!(numbers(&exact, "counter"), [0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
    assert_eq!(numbers(&exact, "last"), [10.0, 30.0, 20.0, 4.0, 1.0, 0.5, 1.0]);
    assert_eq!(numbers(&exact, "start"), [1e3, 2e3, 60e3, 5e3, 6e3, 0.0, 50e3]);
    // A bucket of some 4 µs holds the least and the highest; a window begins with the value that holds then.
    let coarse = counters("12", "0", "0");
    assert_eq!((numbers(&coarse, "low")[0], numbers(&coarse, "high")[0]), (10.0, 30.0));
    let late = counters("0", "100", "1000");
    assert_eq!(numbers(&late, "last"), [30.0, 20.0, 1.0, 1.0]);
}

#[test]
fn timeline_shows_only_the_outermost_frame_of_an_import() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("imports.json");
    let lines = r#"
        1/1  python_function  train.py(1): <module>                                   0..1000
        1/1  python_function  <frozen importlib._bootstrap>(9): _find_and_load        100..500
        1/1  python_function  <frozen importlib._bootstrap>(8): _load_unlocked        150..450
        1/1  python_function  site-packages/numpy/__init__.py(1): <module>            200..400"#;
    std::fs::write(&path, mini::trace(lines)).expect("written");
    let opened = OpenRun::open(&[path], &OpenOptions::default()).expect("opens");
    let ask = |query: &str, pairs: &[(&str, &str)]| {
        run_query(&opened, query, &Arguments::new(pairs.iter().copied())).expect("answered")
    };
    let rows = |view: &[(&str, &str)]| {
        let boxes = ask("tiles", &[&[("level", "0"), ("first", "0"), ("last", "1000")], view].concat());
        let texts = document(&boxes)["texts"].clone();
        let names =
            numbers(&boxes, "name").into_iter().map(|at| texts[at as usize].as_str().expect("a name").to_owned());
        let rows: Vec<(u32, String)> =
            numbers(&boxes, "depth").into_iter().map(|depth| depth as u32).zip(names).collect();
        (rows, document(&ask("lanes", view))["lanes"][0]["rows"].clone())
    };
    let (folded, count) = rows(&[]);
    let names: Vec<(u32, &str)> = folded.iter().map(|(depth, name)| (*depth, &**name)).collect();
    let module = "site-packages/numpy/__init__.py(1): <module>";
    assert_eq!((names, count), (vec![(0, "train.py(1): <module>"), (1, "imports"), (2, module)], 3.into()));
    let (all, count) = rows(&[("imports", "all")]);
    assert_eq!((all.len(), count), (4, 4.into()));
    assert!(all.iter().all(|(_, name)| name != "imports"), "{all:?}");
    assert_eq!(document(&ask("lanes", &[]))["has_imports"], true);
    assert_eq!(document(&answer("lanes", &[]).expect("answered"))["has_imports"], false);
    let detail = document(&ask("event", &[("event", "1")]));
    let expected = serde_json::json!(["imported module", "site-packages/numpy/__init__.py"]);
    assert!(detail["arguments"].as_array().is_some_and(|pairs| pairs.contains(&expected)), "{detail}");
}

#[test]
fn comparison_of_a_run_with_itself_has_no_changes() {
    let open = || {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.json");
        let demo = stackline_testkit::demo::Config { steps: 3, ..Default::default() };
        std::fs::write(&path, stackline_testkit::demo::generate(&demo)).expect("written");
        OpenRun::open(&[path], &OpenOptions::default()).expect("opens")
    };
    let both = open().compared_with(open());
    let compared = document(&run_query(&both, "compare", &Arguments::default()).expect("answered"));
    let rows = compared["tables"]["steps"]["rows"].as_array().expect("steps");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["change_ns"].as_f64() == Some(0.0)), "{rows:?}");
    let calls = run_query(&both, "calls", &Arguments::new([("baseline", "before")])).expect("answered");
    assert_eq!(numbers(&calls, "before"), numbers(&calls, "inclusive"));
    let before = run_query(&both, "lanes", &Arguments::new([("run", "before")])).expect("answered");
    assert_eq!(before, run_query(&both, "lanes", &Arguments::default()).expect("answered"));
}

#[test]
fn steps_equal_those_of_the_command_line() {
    let steps = |text: &str| document(&answer("overview", &[("steps", text)]).expect("answered"));
    let (all, one) = (steps("10..12"), steps("11"));
    let rows = |overview: &Value| overview["tables"]["steps"]["rows"].as_array().map_or(0, Vec::len);
    assert_eq!((rows(&all), rows(&one)), (3, 1));
    let default = document(&answer("overview", &[]).expect("answered"));
    assert_eq!(default["tables"], all["tables"], "all of them are looked at where none warms up");
    assert!(steps("10..99").to_string().contains("steps 10 to 99 are selected, but the trace has only steps 10 to 12"));
    let length = |overview: &Value| overview["critical_path"][0]["exact"]["window_ns"].as_i64().expect("a path");
    assert!(length(&default) < length(&steps("whole")));
    // Its tree of calls has as many steps, and the time of these alone.
    let calls = |text: &str| answer("calls", &[("steps", text), ("metric", "host_time")]).expect("answered");
    let total = |text: &str| document(&calls(text))["total"].as_f64().expect("a sum");
    assert!(total("11") < total("10..99") && total("10..99") <= total("whole"));
    for wrong in ["x", "5..", "8..5"] {
        assert!(matches!(answer("calls", &[("steps", wrong)]), Err(QueryError::Argument { name: "steps", .. })));
        assert!(matches!(answer("overview", &[("steps", wrong)]), Err(QueryError::Argument { name: "steps", .. })));
    }
    for query in ["calls", "overview", "source"] {
        assert!(matches!(answer(query, &[("steps", "77")]), Err(QueryError::Missing { .. })), "{query}");
    }
}

#[test]
fn parts_of_calls_add_up_to_all() {
    for by in ["thread", "phase", "module"] {
        let groups = answer("calls", &[("shape", "flat"), ("by", by), ("least", "0")]).expect("answered");
        let names = document(&groups);
        let name = |at: f64| names["labels"][at as usize][1].as_str().expect("a name").to_owned();
        let labels = numbers(&groups, "label");
        assert!(labels.len() > 1, "{by}");
        for (row, own) in labels.iter().zip(numbers(&groups, "inclusive")).skip(1) {
            let part = answer("calls", &[(by, &name(*row)), ("least", "0")]).expect("answered");
            assert_eq!(document(&part)["total"].as_f64(), Some(own), "{by} {}", name(*row));
            assert_eq!(numbers(&part, "inclusive")[0], own);
        }
    }
}

#[test]
fn frame_details_equal_their_box_for_every_metric() {
    for shape in ["top-down", "bottom-up", "flat"] {
        let all = answer("calls", &[("shape", shape)]).expect("answered");
        let (rows, inclusive, exclusive) =
            (numbers(&all, "row"), numbers(&all, "inclusive"), numbers(&all, "exclusive"));
        for at in [0, 1, rows.len() / 2, rows.len() - 1] {
            let row = rows[at].to_string();
            let frame = document(&answer("frame", &[("shape", shape), ("root", &row)]).expect("answered"));
            let metrics = frame["metrics"].as_array().expect("metrics");
            assert_eq!(metrics.len(), document(&all)["metrics"].as_array().map_or(0, Vec::len));
            let own = metrics.iter().find(|one| one["name"] == document(&all)["metric"]).expect("its own metric");
            assert_eq!(
                (own["inclusive"].as_f64(), own["exclusive"].as_f64()),
                (Some(inclusive[at]), Some(exclusive[at]))
            );
        }
    }
}

#[test]
fn first_overview_equals_the_complete_one() {
    for steps in ["whole", "10..11"] {
        let first = document(&answer("overview", &[("steps", steps), ("only", "first")]).expect("answered"));
        let whole = document(&answer("overview", &[("steps", steps)]).expect("answered"));
        let tables = first["tables"].as_object().expect("tables");
        assert!(tables.contains_key("steps_spread") && tables.contains_key("gpu_time"));
        assert!(!tables.contains_key("steps"), "a row for each of thousands of steps");
        assert!(tables.iter().all(|(name, table)| whole["tables"][name] == *table), "{steps}");
    }
}

#[test]
fn launched_work_names_the_call_as_its_launch() {
    let mut launched: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut launched_by_call: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for event in 0.. {
        let Ok(answer) = answer("event", &[("event", &event.to_string())]) else { break };
        let document = document(&answer);
        if let Some(launch) = document["launch"]["event"].as_u64() {
            launched.entry(launch).or_default().push(event);
        }
        let list = document["launched"].as_array().expect("a list").iter();
        let list: Vec<u64> = list.filter_map(|one| one["event"].as_u64()).collect();
        if !list.is_empty() {
            launched_by_call.insert(event, list);
        }
    }
    assert!(launched.len() > 50);
    assert_eq!(launched_by_call, launched);
}

#[test]
fn findings_below_the_threshold_list_the_nearest() {
    let found = document(&answer("findings", &[]).expect("answered"));
    let left_out = found["left_out"].as_u64().expect("a number");
    let nearest = found["nearest"].as_array().expect("a list");
    let parts: Vec<f64> = nearest.iter().map(|one| one["percent"].as_f64().expect("a number")).collect();
    assert!(!parts.is_empty() && parts.len() as u64 == left_out.min(5), "{parts:?} of {left_out}");
    assert!(parts.is_sorted_by(|a, b| a >= b) && parts[0] < 0.5);
}

#[test]
fn unknown_names_list_the_nearest() {
    let found = document(&answer("search", &[("text", "aten::gelo")]).expect("answered"));
    let nearest = found["nearest"].as_array().expect("a list");
    assert!(nearest.iter().any(|name| name == "aten::gelu"), "{nearest:?}");
    let found = document(&answer("search", &[("text", "aten::")]).expect("answered"));
    assert_eq!(found["nearest"].as_array().map(Vec::len), Some(0), "nothing was missed");
}

#[test]
fn names_are_searched_everywhere() {
    let found = document(&answer("search", &[("text", "ATEN::")]).expect("answered"));
    let names = |query: &str| {
        let rows = found[query].as_array().expect("a list").iter();
        rows.map(|row| row["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert!(!names("names").is_empty() && names("names").iter().all(|name| name.contains("aten::")));
    assert!(!names("frames").is_empty() && names("frames").iter().all(|name| name.contains("aten::")));
}

#[test]
fn several_ranks_are_merged_as_by_the_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths: Vec<PathBuf> = [1, 0]
        .map(|rank| {
            let path = folder.path().join(format!("rank{rank}.json"));
            let config = stackline_testkit::demo::Config { steps: 3, rank, ..Default::default() };
            std::fs::write(&path, stackline_testkit::demo::generate(&config)).expect("written");
            path
        })
        .into();
    let opened = OpenRun::open(&paths, &OpenOptions::default()).expect("opens");
    let all = document(&run_query(&opened, "findings", &Arguments::default()).expect("answered"));
    assert_eq!(all["ranks"].as_array().map(Vec::len), Some(2));
    let rows = all["tables"]["findings"]["rows"].as_array().expect("findings");
    assert!(rows.iter().any(|row| row["ranks"] == "0 1"), "{rows:?}");
    let first = document(&run_query(&opened, "finding", &Arguments::new([("at", "0")])).expect("answered"));
    assert_eq!(first["rank"], rows[0]["rank"]);
    let one = document(&run_query(&opened, "findings", &Arguments::new([("rank", "1")])).expect("answered"));
    assert_eq!(one["ranks"].as_array().map(Vec::len), Some(0));
}

#[test]
fn missing_runs_are_refused() {
    assert!(OpenRun::open(&[PathBuf::from("nothing-here.json")], &OpenOptions::default()).is_err());
}

/// Values of an argument, valid and invalid.
fn value(name: &'static str) -> BoxedStrategy<String> {
    let known = match name {
        "shape" => vec!["top-down", "bottom-up", "flat", "callers", "callees"],
        "steps" => vec!["whole", "10..11", "11", "1..0", "-3..9223372036854775807"],
        "phase" => vec!["backward", "forward pass and other work"],
        "merge" => vec!["name"],
        "recursion" => vec!["collapsed"],
        "by" => vec!["thread", "phase", "operator", "module", "file", "place", "path", "kind"],
        "order" => vec!["size", "waste", "first"],
        "alive" => vec!["P1", "p2", "P9"],
        "apply" => vec!["1", "1,2,3", "2,2", "0", "99999"],
        "metric" => vec!["host_time", "gpu_time"],
        "file" => vec!["train.py", "/etc/passwd", ".."],
        "run" | "baseline" => vec!["before"],
        "focus" | "hide" | "of" | "text" => vec!["aten", "(", ".*", "step"],
        "tracks" => vec!["0", "0,1,2", "0,0,0", "99999"],
        "least" => vec!["0", "0.5", "nan", "-1", "inf"],
        _ => vec!["0", "1", "3", "20", "53", "-1", "9223372036854775807", "-9223372036854775808"],
    };
    prop_oneof![
        6 => prop::sample::select(known).prop_map(str::to_owned),
        2 => any::<i64>().prop_map(|number| number.to_string()),
        1 => ".{0,20}",
    ]
    .boxed()
}

fn question() -> impl Strategy<Value = (&'static str, Vec<(&'static str, String)>)> {
    prop::sample::select(ALL).prop_flat_map(|query| {
        let given = |name: &&'static str| prop::option::weighted(0.8, value(name));
        let run = prop::option::weighted(0.1, value("run"));
        (query.arguments.iter().map(given).collect::<Vec<_>>(), run).prop_map(move |(values, run)| {
            let pairs = query.arguments.iter().zip(values).filter_map(|(argument, value)| Some((*argument, value?)));
            (query.name, pairs.chain(run.map(|run| ("run", run))).collect::<Vec<_>>())
        })
    })
}

proptest! {
    /// Any query to any run: an answer, or a refusal with a message; never a panic.
    #[test]
    fn any_query_has_an_answer_or_a_refusal((name, arguments) in question()) {
        for run in [opened(), extreme(), memory()] {
            match run_query(run, name, &Arguments::new(arguments.clone())) {
                Ok(answer) => prop_assert!(serde_json::from_str::<Value>(&answer.json).is_ok()),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
