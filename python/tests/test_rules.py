"""Rules of one's own, run in process."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rules_trace import training

import stackline as sl
from stackline import bfs, flag_issue


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> sl.Run:
    return sl.open(training(tmp_path_factory.mktemp("rules")))


# The listings of DeepContext (section 4.3), nearly word for word.

hotspot_threshold = 0.4
gpu_threshold = 5_000
cpu_threshold = 3
stall_threshold = 150


def hotspot_analysis(call_tree: sl.CallTree) -> list[sl.CallNode]:
    total_time = call_tree.root.time
    return [n for n in call_tree.kernels if n.time / total_time > hotspot_threshold]


@sl.rule(code="DC001", name="paper-hotspot", needs="gpu_work", advice="Make it faster.")
def hotspot(call_tree: sl.CallTree) -> None:
    """A kernel takes much of the time.

    And more lines.
    """
    for n in hotspot_analysis(call_tree):
        flag_issue(n, "Hotspot", gain=n.time / call_tree.steps / 2)


@sl.rule(code="DC002", name="paper-fusion")
def fusion(call_tree: sl.CallTree) -> None:
    for n in bfs(call_tree.nodes):
        if n.count and n.gpu_time / n.count < gpu_threshold:
            flag_issue(n, "Small GPU kernels")


@sl.rule(code="DC003", name="paper-backward")
def backward(call_tree: sl.CallTree) -> None:
    for n in call_tree.operators:
        if n.forward.time and n.backward.time / n.forward.time > 2:
            flag_issue(n, "Backward abnormality", evidence={"times": n.backward.time / n.forward.time})


@sl.rule(code="DC004", name="paper-stalls", needs=["instruction_samples"])
def stalls(call_tree: sl.CallTree) -> None:
    for n in [n for n in call_tree.kernels if n.children]:
        stalls = []
        for c in n.children:
            if c.stalls > stall_threshold:
                stalls.append(c)
        stall_reasons = ", ".join(c.name for c in sorted(stalls, key=lambda c: -c.stalls)[:3])
        flag_issue(n, f"Kernel is mainly stalled by {stall_reasons}")


@sl.rule(code="DC005", name="paper-cpu")
def cpu(call_tree: sl.CallTree) -> None:
    for n in bfs(call_tree.nodes):
        if n.gpu_time and n.cpu_time / n.gpu_time > cpu_threshold:
            flag_issue(n, "CPU time abnormality")


def test_listings_of_the_paper(run: sl.Run) -> None:
    found = run.findings(rules=[hotspot, fusion, backward, stalls, cpu]).to_pylist()
    by_code = {code: [row for row in found if row["code"] == code] for code in ["DC001", "DC002", "DC003", "DC004", "DC005"]}
    [hot] = by_code["DC001"]
    assert (hot["name"], hot["title"], hot["file"], hot["line"]) == (
        "paper-hotspot",
        "Hotspot (IndexBackward0_kernel)",
        "train.py",
        10,
    )
    assert (hot["gain_ns"], hot["gain_low_ns"], hot["method"], hot["area"]) == (150_000, 150_000, "rule", "own")
    assert (hot["advice"], hot["evidence"], hot["events"]) == ("Make it faster.", "GPU time per step 300.0 µs; calls 3", 3)
    assert {row["operator"] for row in by_code["DC002"]} >= {"aten::add"}
    assert [(row["operator"], row["title"]) for row in by_code["DC003"]] == [("aten::index", "Backward abnormality (aten::index)")]
    assert "times 30" in by_code["DC003"][0]["evidence"]
    assert [row["title"] for row in by_code["DC004"]] == ["Kernel is mainly stalled by memory_dependency (gemm)"]
    # The span of the step takes as long as the function in it, which says it all.
    assert {row["function"] for row in by_code["DC005"]} == {"train_step", "loss_fn"}


def test_findings_are_ranked_together(run: sl.Run) -> None:
    @sl.rule(code="MY001")
    def by_hand(call_tree: sl.CallTree) -> Iterator[sl.Finding]:
        yield sl.Finding("much", gain=(1, 1_000_000, 1_500_000), node=call_tree.search("**/aten::item")[0])
        yield sl.Finding("nowhere", file="other.py", line=3, evidence={"part": (12.5, "%")}, confidence="low", support="inferred")
        yield sl.Finding("too much", gain=10**15)

    rows = run.findings(rules=[by_hand]).to_pylist()
    assert [row["gain_ns"] or 0 for row in rows] == sorted((row["gain_ns"] or 0 for row in rows), reverse=True)
    mine = [row for row in rows if row["code"] == "MY001"]
    assert [row["title"] for row in mine] == ["too much", "much (aten::item)", "nowhere"] and mine[0] == rows[0]
    assert mine[0]["gain_percent"] <= 100, "nothing gains more than a step takes"
    assert (mine[1]["gain_low_ns"], mine[1]["gain_high_ns"], mine[1]["operator"]) == (1, 1_500_000, "aten::item")
    assert (mine[2]["file"], mine[2]["line"], mine[2]["evidence"]) == ("other.py", 3, "part 12.5 %")
    assert (mine[2]["confidence"], mine[2]["support"], mine[2]["gain_ns"]) == ("low", "inferred", None)
    assert {row["code"] for row in rows} > {"MY001"}, "with the built-in ones"


def test_evidence_is_per_step_of_the_node(run: sl.Run) -> None:
    def node_of_steps(first: int, last: int) -> sl.CallNode:
        return run.call_tree(steps=(first, last)).search("**/gemm")[0]

    @sl.rule(code="MY020")
    def queries_the_run(run: sl.Run) -> None:
        flag_issue(run.call_tree().search("**/gemm")[0], "all")
        flag_issue(node_of_steps(1, 1), "one")

    assert node_of_steps(0, 2).steps == 3
    table = run.findings(rules=[queries_the_run])
    evidence_texts = [evidence for code, evidence in zip(table["code"], table["evidence"], strict=True) if code == "MY020"]
    assert len(evidence_texts) == 2 and all("GPU time per step 100.0 µs" in text for text in evidence_texts), evidence_texts


def test_gains_by_what_if_are_replayed(run: sl.Run) -> None:
    @sl.rule(code="MY001")
    def faster(run: sl.Run, call_tree: sl.CallTree) -> None:
        [n] = [n for n in call_tree.kernels if n.name == "IndexBackward0_kernel"]
        flag_issue(n, "could be faster", gain=run.what_if("scale kernel:IndexBackward0_kernel 0.1"))

    [row] = [row for row in run.findings(rules=[faster]).to_pylist() if row["code"] == "MY001"]
    assert (row["method"], row["edits"]) == ("replay", "scale kernel:IndexBackward0_kernel 0.1")
    assert 0 < row["gain_low_ns"] <= row["gain_ns"] <= row["gain_high_ns"] <= 300_000


def test_other_rules_run_after_a_rule_that_raises(run: sl.Run) -> None:
    @sl.rule(code="MY001")
    def broken(call_tree: sl.CallTree) -> None:
        flag_issue(call_tree.root, "before")
        call_tree.root.nothing  # type: ignore[attr-defined]

    @sl.rule(code="MY002")
    def ends() -> None:
        sys.exit(3)

    @sl.rule(code="MY003")
    def works() -> sl.Finding:
        return sl.Finding("fine")

    with pytest.warns(RuntimeWarning) as warned:
        table = run.findings(rules=[broken, ends, works])
    assert [row["title"] for row in table.to_pylist() if row["code"].startswith("MY")] == ["before", "fine"]
    texts = [str(warning.message) for warning in warned]
    assert len(texts) == 2 and "in broken\n    call_tree.root.nothing" in texts[0] and "_rules_run.py" not in texts[0] and "_rules.py" not in texts[0].replace("test_rules.py", "")
    assert any("MY001 was not checked: the rule raised AttributeError" in note and "test_rules.py:" in note for note in table.notes)
    assert any("MY002 was not checked: the rule raised SystemExit: 3" in note for note in table.notes)


def test_endless_rules_are_stopped(run: sl.Run) -> None:
    @sl.rule(code="MY001")
    def forever() -> None:
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                pass

    @sl.rule(code="MY002")
    def works() -> list[sl.Finding]:
        return [sl.Finding("fine")]

    with pytest.warns(RuntimeWarning, match="did not end within 2 s"):
        table = run.findings(rules=[forever, works], rule_timeout=2.0)
    assert "MY002" in table["code"]
    assert any(note.startswith("MY001 was not checked: the rule did not end within 2 s and was stopped") for note in table.notes)


def test_rules_without_their_needs_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    path.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 10}]}')

    @sl.rule(code="MY001", needs=["operators", "gpu_work"])
    def needs_gpu() -> None:
        raise AssertionError("it must not look")

    table = sl.open(path).findings(rules=[needs_gpu])
    assert "MY001 was not checked: the trace has no GPU operations" in table.notes
    with pytest.raises(sl.AnalysisError, match="needs 'gpu', which is not a known requirement; choose from gpu_work, "):
        sl.rule(code="MY001", needs="gpu")


def test_invalid_rules_are_refused(run: sl.Run) -> None:
    for code in ["SL001", "sl999", "", "MY 1"]:
        with pytest.raises(sl.AnalysisError, match="code"):
            sl.rule(code=code)
    with pytest.raises(sl.AnalysisError, match="MY001: unknown parameter 'trace'; a rule can have call_tree, run"):
        sl.rule(code="MY001")(lambda trace: None)
    with pytest.raises(sl.AnalysisError, match="is for functions"):
        sl.rule(code="MY001")(print)
    with pytest.raises(sl.AnalysisError, match="no rule; give functions"):
        run.findings(rules=[print])
    with pytest.raises(sl.AnalysisError, match=r"two rules have the code my001: .*test_rules.py:\d+ and .*test_rules.py:\d+"):
        run.findings(rules=[sl.rule(code="MY001")(lambda: None), sl.rule(code="my001")(lambda: None)])
    with pytest.raises(sl.AnalysisError, match="flag_issue is for rules"):
        flag_issue(None, "outside")


@pytest.mark.parametrize(
    ("wrong", "expected_message"),
    [
        ("flag_issue(None, 'x', gain=float('nan'))", "give ns per step"),
        ("flag_issue(None, 'x', gain=(3, 2, 1))", "the least comes first"),
        ("flag_issue(None, 'x', evidence={'a': 'b'})", "a number and its unit"),
        ("flag_issue(None, 'x', evidence={'a': (1, 'miles')})", "units are ns"),
        ("flag_issue(None, 'x', support='surely')", "there is no support 'surely'"),
        ("flag_issue(None, 'x', confidence='maybe')", "there is no confidence 'maybe'"),
        ("flag_issue(None, ' ')", "its message is empty"),
        ("flag_issue(3, 'x')", "give a node of the call tree"),
        ("return stackline.Finding('x', line=0)", "lines count from 1"),
        ("return stackline.Finding('x', file=3)", "give a text"),
        ("return 3", "yields or returns stackline.Finding"),
        ("yield 'x'", "yields or returns stackline.Finding"),
    ],
)
def test_invalid_findings_are_refused(run: sl.Run, tmp_path: Path, wrong: str, expected_message: str) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(f"import stackline\n@stackline.rule(code='MY001')\ndef wrong(flag_issue):\n    {wrong}\n")
    with pytest.warns(RuntimeWarning, match=expected_message):
        run.findings(rules=[path])


def test_rule_files_are_loaded(run: sl.Run, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("TITLE = 'from beside'\n")
    good = tmp_path / "my_rules.py"
    good.write_text(
        "import stackline as sl, beside\n"
        "@sl.rule(code='MY001')\ndef first(flag_issue):\n    flag_issue(None, beside.TITLE)\n"
        "@sl.rule(code='MY002')\ndef second(): ...\n"
    )
    assert "from beside" in run.findings(rules=[good])["title"]
    assert [function.__name__ for function in sl.load_rules(good)] == ["first", "second"]
    for text, expected_message in [
        ("x = 1\ndef broken(:\n", r"bad.py:2: syntax error"),
        ("x = 1\n", "no rules in it"),
        ("\0", "cannot be read|syntax error"),
    ]:
        bad = tmp_path / "bad.py"
        bad.write_text(text)
        with pytest.raises(sl.AnalysisError, match=expected_message):
            sl.load_rules(bad)
    with pytest.raises(sl.AnalysisError, match="no such file of rules"):
        sl.load_rules(tmp_path / "missing.py")


def test_rules_of_installed_packages_are_loaded(run: sl.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "packaged_rules.py").write_text(
        "import stackline as sl\n@sl.rule(code='PK001')\ndef packaged():\n    return sl.Finding('packaged')\n"
    )
    info = tmp_path / "packaged_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: packaged-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stackline.rules]\nall = packaged_rules\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "packaged" in run.findings(rules=sl.load_rules())["title"]
    (info / "entry_points.txt").write_text("[stackline.rules]\nall = packaged_rules:nothing\n")
    with pytest.raises(sl.AnalysisError, match="entry point all = packaged_rules:nothing cannot be loaded"):
        sl.load_rules()
