//! Samples: the time that they represent, and the functions that they show between operators.

use super::*;

#[test]
fn samples_are_instants_with_weights() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    let node = script.node(0, "def:main:4 def:work:5");
    for delta_ns in [1_500, 200] {
        script.records.push(Record::Sample { thread: 0, node, delta_ns, metric: Metric::CpuTime, value: 10 });
    }
    let trace = one(&script.end());
    let samples: Vec<EventId> = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Sample).collect();
    assert_eq!(samples.iter().map(|e| trace.events.start[e.index()]).collect::<Vec<_>>(), [500, 700]);
    assert!(samples.iter().all(|&e| trace.name(e) == "train.py(1): work"));
    assert_eq!(trace.attr("cpu_time_ns").i64(samples[0]), Some(10));
    assert_eq!(trace.attr("line").i64(samples[0]), Some(5), "the line that ran");
    // The name has the function's first line; the stack has the running one.
    let innermost =
        |sample: &EventId| trace.strings.get(trace.stacks.names(trace.stacks.of_event(*sample)).next().unwrap());
    assert!(samples.iter().all(|sample| innermost(sample) == "train.py(5): work"));
    assert_eq!(outline(&trace, 0), ["train.py(1): main* 495..705", "  train.py(1): work* 495..705"]);
}

/// A thread with operators; its samples have a separate tree, as in the recorder.
struct Watched {
    script: Script,
    last: i64,
}

impl Watched {
    fn new() -> Self {
        let mut script = Script::new(process(7, None));
        script.thread(0, 70, 1);
        script.thread(1, 70, 1);
        Self { script, last: 0 }
    }

    /// A sample that represents 100 ns.
    fn sample(&mut self, path: &str, at: i64) {
        let node = self.script.node(1, path);
        let delta_ns = at - std::mem::replace(&mut self.last, at);
        self.script.records.push(Record::Sample { thread: 1, node, delta_ns, metric: Metric::WallTime, value: 100 });
    }

    fn outline(self) -> Vec<String> {
        let trace = one(&self.script.end());
        assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
        outline(&trace, 0)
    }
}

#[test]
fn functions_without_operators_last_while_sampled() {
    let mut watched = Watched::new();
    watched.script.call(0, "def:step:4 aten::add", 2_000, 2_010);
    for at in [2_100, 2_200, 2_300] {
        watched.sample("def:step:5 def:resize:9", at);
    }
    watched.script.call(0, "def:step:6 aten::mul", 2_400, 2_410);
    let expected = [
        "train.py(1): step* 1000..1410",
        "  aten::add 1000..1010",
        "  train.py(1): resize* 1050..1350",
        "  aten::mul 1400..1410",
    ];
    assert_eq!(watched.outline(), expected);
}

#[test]
fn spans_of_samples_end_at_adjacent_samples() {
    let mut watched = Watched::new();
    watched.script.call(0, "def:step:4 aten::add", 2_000, 2_010);
    watched.sample("def:step:5 def:one:9", 2_030);
    watched.sample("def:step:6 def:two:9", 2_050);
    watched.script.call(0, "def:step:7 aten::mul", 2_055, 2_060);
    let expected = [
        "train.py(1): step* 1000..1060",
        "  aten::add 1000..1010",
        "  train.py(1): one* 1010..1040",
        "  train.py(1): two* 1040..1055",
        "  aten::mul 1055..1060",
    ];
    assert_eq!(watched.outline(), expected);
}

#[test]
fn samples_within_spans_and_operators_add_no_spans() {
    let mut watched = Watched::new();
    let span = "def:step:4 span:load";
    watched.sample(&format!("{span} def:read:8"), 2_100);
    watched.sample(&format!("{span} def:read:9 aten::empty"), 2_205);
    watched.script.call(0, &format!("{span} def:read:9 aten::empty"), 2_200, 2_210);
    watched.script.call(0, span, 2_000, 2_300);
    let expected = [
        "train.py(1): step* 1000..1300",
        "  load 1000..1300",
        "    train.py(1): read* 1050..1210",
        "      aten::empty 1200..1210",
    ];
    assert_eq!(watched.outline(), expected);
}

/// Clocks of samples and operators are read one after another: a sample may be in a span that has ended.
#[test]
fn samples_that_contradict_running_calls_are_excluded() {
    let mut watched = Watched::new();
    watched.script.call(0, "def:step:4 span:load", 2_000, 2_300);
    watched.sample("def:step:4 span:load def:read:8", 2_400);
    watched.sample("def:step:4 def:read:8", 2_250);
    assert_eq!(watched.outline(), ["train.py(1): step* 1000..1300", "  load 1000..1300"]);
}

#[test]
fn threads_without_operators_have_sampled_functions() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    script.call(0, "def:main:1 aten::add", 2_000, 2_010);
    script.thread(1, 71, 2);
    let node = script.node(1, "def:read:8");
    script.records.push(Record::Sample { thread: 1, node, delta_ns: 2_100, metric: Metric::CpuTime, value: 50 });
    let trace = one(&script.end());
    assert_eq!(outline(&trace, 1), ["train.py(1): read* 1075..1125"]);
}

#[test]
fn ambiguous_samples_belong_to_the_open_module() {
    let mut watched = Watched::new();
    watched.sample("def:step:4 mod: def:forward:7", 1_950);
    watched.script.call(0, "def:step:4 mod:blocks.0 def:forward:8 aten::add", 2_000, 2_010);
    watched.sample("def:step:4 mod: def:forward:8", 2_100);
    watched.script.call(0, "def:step:4 mod:blocks.0 def:forward:9 aten::mul", 2_200, 2_210);
    watched.script.call(0, "def:step:4 mod:blocks.1 def:forward:8 aten::add", 2_300, 2_310);
    let expected = [
        "train.py(1): step* 900..1310",
        "  nn.Module: Linear blocks.0* 900..1210",
        "    train.py(1): forward* 900..1210",
        "      aten::add 1000..1010",
        "      aten::mul 1200..1210",
        "  nn.Module: Linear blocks.1* 1300..1310",
        "    train.py(1): forward* 1300..1310",
        "      aten::add 1300..1310",
    ];
    assert_eq!(watched.outline(), expected);
}
