"""Critical paths: equal to HTA's reference results, and all that can be done with one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import stackline as sl

SIMPLE_ADD = "nvidia-a100-simple-add-cuda-sync.json.gz"
FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
# The slow ones are left to the Rust tests, which hold every trace to its reference.
REFERENCES = ["nvidia-a100-simple-add-cuda-sync", "nvidia-a100-alexnet-cuda-sync", "nvidia-a100-event-sync", "amd-mi250-toy-train"]


@pytest.fixture(scope="module")
def simple_add(corpus: Path) -> sl.Run:
    return sl.open(corpus / "kineto" / SIMPLE_ADD)


@pytest.mark.parametrize("name", REFERENCES)
def test_results_equal_hta(corpus: Path, name: str) -> None:
    with gzip.open(corpus / "reference" / "hta" / f"{name}.json.gz", "rt") as file:
        reference: dict[str, Any] = json.load(file)
    run = sl.open(corpus / "kineto" / Path(reference["trace"]).name)
    compared = 0
    for expected in reference["reference"]["runs"]:
        params = expected["params"]
        if not expected["success"]:
            continue
        instance = params.get("instance_id")
        path = run.critical_path(
            "hta",
            annotation=params["annotation"],
            instance=tuple(instance) if isinstance(instance, list) else instance,
            zero_weight_launch_edges=params.get("zero_weight_launch_edges", False),
            include_last_profiler_step=params.get("include_last_profiler_step", False),
            data_load_events=params.get("data_load_events") or (),
        )
        assert (path.path_nodes, path.path_events, path.weight_us) == (
            expected["cp_nodes"],
            expected["cp_events"],
            expected["cp_weight"],
        ), params
        assert len(path.path) == path.path_nodes
        compared += 1
    assert compared > 0


def test_all_attributes_of_a_path(simple_add: sl.Run) -> None:
    path = simple_add.critical_path("hta", annotation=FORWARD, instance=1)
    assert (path.method, path.rule_set) == ("hta", "0.6.1")
    assert path.window_ns == path.window[1] - path.window[0] > 0
    assert path.edges == {
        "OPERATOR_KERNEL": 350,
        "DEPENDENCY": 23,
        "KERNEL_LAUNCH_DELAY": 15,
        "KERNEL_KERNEL_DELAY": 25,
        "SYNC_DEPENDENCY": 2,
    }
    assert sum(path.path_edges.values()) == path.path_nodes - 1 == 314
    assert path.bound_by["cpu_bound"] == pytest.approx(99.779, abs=1e-3)
    assert sum(path.bound_by.values()) == pytest.approx(100)
    assert sum(path.bound_by_us.values()) == pytest.approx(path.weight_us) == 241_724
    assert path.top["name"][0] == "cudaMalloc"
    assert path.path.to_pandas()["at"].isin(["start", "end"]).all()
    assert sum(row["percent"] for row in path.breakdown) == pytest.approx(100)
    assert "cpu_bound 99.8 %" in repr(path) and "cpu_bound" in path._repr_html_()


def test_what_if_with_the_hta_method(simple_add: sl.Run) -> None:
    path = simple_add.critical_path("hta", annotation=FORWARD, instance=1)
    without = path.what_if("cpu:cudaMalloc=0")
    assert without.weight_us == 6306
    assert sum(without.bound_by_us.values()) == pytest.approx(6306)
    assert path.weight_us == 241_724, "the original stays as it was"
    assert path.what_if("all=x2").weight_us == pytest.approx(2 * 241_724)
    assert path.what_if("cpu=0", "gpu=0", "gap=0").bound_by["gpu_kernel_launch_overhead"] == 100
    with pytest.raises(sl.AnalysisError, match="WHAT"):
        path.what_if("half of it")


def test_overlay_files_mark_the_path(simple_add: sl.Run, corpus: Path, tmp_path: Path) -> None:
    path = simple_add.critical_path("hta", annotation=FORWARD, instance=1)
    summary = path.overlay(tmp_path)
    assert summary.path == str(tmp_path / f"overlaid_critical_path_{SIMPLE_ADD}")
    assert (summary.marked, summary.flow_events, summary.truncated) == (159, 42, False)
    with gzip.open(summary.path, "rt") as file:
        events = json.load(file)["traceEvents"]
    assert sum(1 for e in events if e["ph"] == "X" and e["args"].get("critical") == 1) == 159
    assert sum(1 for e in events if e.get("cat") == "critical_path") == 42
    small = path.overlay(tmp_path / "small.json", only_critical=True, all_edges=True)
    assert small.left_out > 0 and len(json.loads(Path(small.path).read_text())["traceEvents"]) < len(events)
    assert sorted(p.name for p in tmp_path.iterdir()) == [Path(summary.path).name, "small.json"]
    with pytest.raises(ValueError, match="the trace itself"):
        path.overlay(corpus / "kineto" / SIMPLE_ADD)
    with pytest.raises(OSError, match="cannot write"):
        path.overlay(tmp_path / "nowhere" / "a.json")


def test_overlays_over_other_traces_are_refused(small_trace: Path, tmp_path: Path) -> None:
    path = sl.open(small_trace).critical_path(method="hta")
    text = small_trace.read_text()
    assert "gemm" in text
    other = tmp_path / "other.json"
    other.write_text(text.replace("gemm", "other"))
    target = tmp_path / "overlay.json"
    with pytest.raises(sl.AnalysisError, match="the critical path is from another trace"):
        path.overlay(target, source=other)
    assert sorted(p.name for p in tmp_path.iterdir() if "overlay" in p.name or "partial" in p.name) == []


def test_save_and_restore(simple_add: sl.Run, corpus: Path, tmp_path: Path) -> None:
    path = simple_add.critical_path("hta", annotation=FORWARD, instance=1)
    path.save(tmp_path / "path.json")
    restored = sl.CriticalPath.restore(tmp_path / "path.json")
    assert (restored.weight_us, restored.bound_by, restored.edges) == (path.weight_us, path.bound_by, path.edges)
    assert restored.path.to_pylist() == path.path.to_pylist()
    with pytest.raises(ValueError, match="source="):
        restored.overlay(tmp_path / "a.json")
    assert restored.overlay(tmp_path / "a.json", source=corpus / "kineto" / SIMPLE_ADD).marked == 159
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(sl.ReadError, match="bad.json") as caught:
        sl.CriticalPath.restore(tmp_path / "bad.json")
    assert caught.value.path == str(tmp_path / "bad.json")
    with pytest.raises(OSError, match="missing"):
        sl.CriticalPath.restore(tmp_path / "missing")


def test_errors_suggest_similar_names(simple_add: sl.Run, two_ranks: Path) -> None:
    with pytest.raises(sl.AnalysisError, match="the most similar annotations are '\\[param"):
        simple_add.critical_path("hta", annotation="param|pytorch.model.alexnet")
    with pytest.raises(sl.AnalysisError, match="the 16 instances"):
        simple_add.critical_path("hta", annotation="aten::add", instance=99)
    with pytest.raises(sl.AnalysisError, match="count from 0"):
        simple_add.critical_path("hta", annotation="aten::add", instance=-1)
    with pytest.raises(sl.AnalysisError, match="no method 'magic'"):
        simple_add.critical_path("magic")
    with pytest.raises(ValueError, match="2 ranks"):
        sl.open(two_ranks).critical_path()


def test_path_of_one_rank_of_a_directory(two_ranks: Path, tmp_path: Path) -> None:
    path = sl.open(two_ranks).critical_path("hta", rank=1)
    assert path.weight_us > 0
    assert path.overlay(tmp_path).path == str(tmp_path / "overlaid_critical_path_rank1.json")


def test_what_if_predicts_the_gain(simple_add: sl.Run) -> None:
    found = simple_add.what_if("scale kernel:* 0.5")
    low, high = found.gain_bounds_ns
    assert low <= found.gain_ns <= high
    assert found.before_ns - found.after_ns == found.gain_ns
    assert sum(found.bound_by_ns.values()) == found.after_ns
    assert set(found.tables) == {"bound_by", "top"}
    with pytest.raises(sl.AnalysisError, match="no event of the trace matches"):
        simple_add.what_if(["remove kernel:no-such"])
    with pytest.raises(sl.AnalysisError, match="conflict because"):
        simple_add.what_if(["scale kernel:* 0.5", "remove kernel:*"])
    gains = simple_add.sweep(candidates=10).to_pylist()
    assert 0 < len(gains) <= 10
    assert [g["gain_ns"] for g in gains] == sorted((g["gain_ns"] for g in gains), reverse=True)
