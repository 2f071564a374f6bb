"""Inputs without traces: sums of calls, and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import stackline as sl
from recording import needs_recorder, succeeds

STACKS = "main;train;forward 30\nmain;train;backward 50\nmain;load 20\n"


CODES = {"SL050", "SL052"}
"""Of the program of memory below, as `stackline findings` has them."""


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    path = tmp_path / "stacks.txt"
    path.write_text(STACKS)
    return path


def speedscope(path: Path, unit: str) -> Path:
    path.write_text(
        '{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[{"name":"main"},{"name":"step"}]},'
        f'"profiles":[{{"type":"sampled","name":"p","unit":"{unit}","startValue":0,"endValue":7,'
        '"samples":[[0],[0,1]],"weights":[3,4]}]}'
    )
    return path


def test_a_profile_has_its_calls(stacks: Path) -> None:
    run = sl.open(stacks)
    assert run and len(run) == 0 and run.ranks == [] and run.traces == ()
    assert run.parts == ("calls",)
    assert "calls" in repr(run) and "stacks.txt" in repr(run)
    assert run.read_report.is_clean
    tree = run.call_tree()
    times = {node.name: node.time for node in tree.nodes}
    assert times == {"main": 100, "train": 80, "forward": 30, "backward": 50, "load": 20}
    assert [node.name for node in tree.search("**/train/*")] == ["forward", "backward"]
    assert tree.metric == "samples" and tree.root.metrics["samples"] == 100 and "100 of samples" in repr(tree)
    assert repr(tree.phases()["other"]) == "<CallTotals 100>"


def test_a_saved_profile_answers_the_same(tmp_path: Path, stacks: Path) -> None:
    imports = tmp_path / "imports.txt"
    imports.write_text("main (train.py:3);_find_and_load (<frozen importlib._bootstrap>:9) 5\nmain (train.py:3);step (train.py:8) 7\n")
    for number, profile in enumerate([stacks, imports, speedscope(tmp_path / "p.json", "bytes")]):
        run = sl.open(profile)
        target = tmp_path / f"{number}.stackline"
        run.save(target)
        with pytest.raises(FileExistsError):
            run.save(target)
        run.save(target, overwrite=True)
        again = sl.open(target)
        assert again.parts == ("calls",) and again.read_report.is_clean
        before, after = run.call_tree(), again.call_tree()
        assert [(node.name, node.time, node.file, node.line) for node in after.nodes] == [
            (node.name, node.time, node.file, node.line) for node in before.nodes
        ]
        assert (after.metric, after.root.metrics, repr(after)) == (before.metric, before.root.metrics, repr(before))
        with pytest.raises(sl.AnalysisError, match=r"is a profile.*use Run\.call_tree\(\) for the call tree"):
            again.events()


def test_profile_times_are_in_nanoseconds(tmp_path: Path) -> None:
    tree = sl.open(speedscope(tmp_path / "p.speedscope.json", "milliseconds")).call_tree()
    assert [(node.name, node.time) for node in tree.nodes] == [("main", 7_000_000), ("step", 4_000_000)]
    assert "7.000 ms" in repr(tree) and tree.metric == "real_time"


def test_profile_sizes_are_in_bytes(tmp_path: Path) -> None:
    tree = sl.open(speedscope(tmp_path / "p.speedscope.json", "bytes")).call_tree()
    assert [(node.name, node.time) for node in tree.nodes] == [("main", 7), ("step", 4)]
    assert "7 B of" in repr(tree)


def test_errors_of_missing_traces_name_the_existing_parts(stacks: Path) -> None:
    run = sl.open(stacks)
    for query in (
        run.events,
        run.gpu_ops,
        run.tracks,
        run.kernels,
        run.critical_path,
        run.sweep,
        lambda: run.what_if("remove kernel:*"),
    ):
        with pytest.raises(sl.AnalysisError, match=r"is a profile.*use Run\.call_tree\(\) for the call tree"):
            query()
    for query in (lambda: run.call_tree(steps=1), lambda: run.call_tree(rank=0)):
        with pytest.raises(sl.AnalysisError, match="neither ranks nor steps"):
            query()
    with pytest.raises(sl.AnalysisError, match=r"the input contains only samples"):
        run.findings()
    with pytest.raises(sl.ReadError, match="memory"):
        run.memory()


def test_profiles_are_compared(tmp_path: Path) -> None:
    before = sl.open(speedscope(tmp_path / "before.json", "milliseconds"))
    (tmp_path / "after.json").write_text((tmp_path / "before.json").read_text().replace('"weights":[3,4]', '"weights":[3,9]'))
    changed = sl.diff(before, sl.open(tmp_path / "after.json"))
    times = {row["name"]: (row["before_ns"], row["after_ns"]) for row in changed["paths"].to_pylist()}
    assert times == {"main": (7e6, 12e6), "main > step": (4e6, 9e6)}


def test_profiles_without_time_are_not_compared(stacks: Path) -> None:
    run = sl.open(stacks)
    with pytest.raises(sl.AnalysisError, match="contains no times"):
        sl.diff(run, run)


def test_python_rules_read_call_trees(tmp_path: Path, stacks: Path) -> None:
    @sl.rule(code="MY001", needs="python_frames")
    def slow_step(call_tree, run):
        for node in call_tree.search("**/step"):
            sl.flag_issue(node, "slow", gain=node.time / 2)

    @sl.rule(code="MY002", needs="gpu_work")
    def kernels(call_tree):
        raise AssertionError("there is no GPU work")

    profile = speedscope(tmp_path / "p.speedscope.json", "milliseconds")
    text = profile.read_text().replace('{"name":"step"}', '{"name":"step","file":"/srv/me/train.py","line":12}')
    profile.write_text(text)
    found = sl.open(profile).findings(rules=[slow_step, kernels])
    rows = [(row["code"], row["file"], row["line"], row["gain_ns"]) for row in found.to_pylist()]
    assert rows == [("MY001", "/srv/me/train.py", 12, 2e6)]
    # Where there are no times rules find what they find, and built-in ones nothing.
    everything = sl.rule(code="MY003")(lambda call_tree: [sl.Finding("seen", node) for node in call_tree.search("**/load")])
    assert [row["title"] for row in sl.open(stacks).findings(rules=[everything]).to_pylist()] == ["seen (load)"]


def test_memory_without_traces_opens(tmp_path: Path) -> None:
    path = tmp_path / "program.memory"
    path.write_text("a x 1048576; a y 1048576; k fill >x; d x; k add y>y; d y; f x; f y; end")
    run = sl.open(path)
    assert run.parts == ("memory",)
    memory = run.memory()
    with pytest.warns(DeprecationWarning, match=r"open\(path\)\.memory\(\)"):
        alias = sl.open_memory(path)
    assert memory.peaks.to_pylist() == alias.peaks.to_pylist()
    with pytest.raises(sl.AnalysisError, match=r"only memory data.*Run\.memory\(\)"):
        run.events()
    with pytest.raises(ValueError, match="peaks is 0"):
        run.memory(peaks=0)
    assert {row["code"] for row in run.findings().to_pylist()} == CODES
    with pytest.raises(sl.AnalysisError, match="a memory file has no steps"):
        run.findings(steps=1)
    for query in (lambda: run.findings(rank=0), lambda: run.memory(rank=0), lambda: sl.diff(run, run)):
        with pytest.raises(sl.AnalysisError, match="only memory data"):
            query()


def test_traces_without_memory_data(small_trace: Path) -> None:
    run = sl.open(small_trace)
    assert run.parts == ("traces",)
    with pytest.raises(sl.ReadError, match="no memory events"):
        run.memory()


@needs_recorder
def test_recordings_have_a_call_tree(tmp_path: Path) -> None:
    program = """
    import time

    def busy(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            sum(range(1000))

    with sl.record("run.stackline"):
        busy(0.5)
    """
    succeeds(tmp_path, program)
    run = sl.open(tmp_path / "run.stackline")
    assert run.parts == ("calls",) and run.read_report.is_clean
    tree = run.call_tree()
    assert tree.metric == "cpu_time" and "ms of cpu_time" in repr(tree)
    # Each line that a sample meets is a node. 99 of them in a second.
    busy = [node for node in tree.nodes if node.name.startswith("busy")]
    assert all(node.time == node.cpu_time for node in busy) and 0.25e9 < sum(node.time for node in busy) < 1e9
    assert all(node.file is not None and node.file.endswith("program.py") for node in busy)
    with pytest.raises(sl.AnalysisError, match=r"without individual calls.*Run\.call_tree\(\)"):
        run.events()
    paths = sl.diff(run, run)["paths"].to_pylist()
    assert any("busy" in row["name"] and row["before_ns"] == row["after_ns"] > 0 for row in paths)


@needs_recorder
def test_several_recordings_have_no_common_call_tree(tmp_path: Path) -> None:
    program = """
    for name in ("one", "two"):
        with sl.record(f"runs/{name}.stackline", sample_hz=0), sl.span(name):
            pass
    """
    (tmp_path / "runs").mkdir()
    succeeds(tmp_path, program)
    with pytest.raises(sl.ReadError, match="one.stackline is a recording without individual calls"):
        sl.open(tmp_path / "runs")


def test_damaged_profiles_raise(tmp_path: Path) -> None:
    path = speedscope(tmp_path / "p.json", "milliseconds")
    path.write_text(path.read_text()[:-3])
    run = sl.open(path)
    assert run.parts == ("calls",) and not run.read_report.is_clean
    assert "kinds of diagnostics" in repr(run) and run.read_report[0].trace == "p.json"
