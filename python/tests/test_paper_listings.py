"""The listings of DeepContext (section 4.3), word for word, over real traces."""

from __future__ import annotations

import copy
import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
from rules_trace import training

import stackline as sl
from stackline import bfs, flag_issue
from stackline._zero import ZERO

hotspot_threshold, gpu_threshold, cpu_threshold, stall_threshold = 0.1, 5_000, 3, 10
flag_hotspot_message = "Hotspot"


def flag_hotspot(n: sl.CallNode) -> None:
    flag_issue(n, flag_hotspot_message)


# fmt: off
@sl.rule(code="DC001")
def hotspot(call_tree: sl.CallTree) -> None:
    total_time = call_tree.root.time
    for n in call_tree.kernels:
        if n.time / total_time > hotspot_threshold:
            flag_hotspot(n)


@sl.rule(code="DC002")
def kernel_fusion(call_tree: sl.CallTree) -> None:
    for n in bfs(call_tree.nodes):
        if n.gpu_time / n.count < gpu_threshold:
            flag_issue(n, "Small GPU kernels")


@sl.rule(code="DC003")
def forward_backward(call_tree: sl.CallTree) -> None:
    for n in call_tree.operators:
        if n.backward.time / n.forward.time > 2:
            flag_issue(n, "Backward abnormality")


@sl.rule(code="DC005")
def cpu_latency(call_tree: sl.CallTree) -> None:
    for n in bfs(call_tree.nodes):
        if n.cpu_time / n.gpu_time > cpu_threshold:
            flag_issue(n, "CPU time abnormality")
# fmt: on


def hotspot_analysis(call_tree: sl.CallTree) -> list[sl.CallNode]:
    total_time = call_tree.root.time
    return [n for n in call_tree.kernels if n.time / total_time > hotspot_threshold]


def topk(stalls: list[sl.CallNode]) -> str:
    return ", ".join(c.name for c in sorted(stalls, key=lambda c: -c.stalls)[:3])


@sl.rule(code="DC004", needs="instruction_samples")
def stall_reasons_of_hotspots(call_tree: sl.CallTree) -> None:
    hotspots = hotspot_analysis(call_tree)
    stalls = []
    for n in hotspots:
        for c in n.children:
            if c.stalls > stall_threshold:
                stalls.append(c)
    stall_reasons = topk(stalls)
    flag_issue(n, f"Kernel is mainly stalled by {stall_reasons}")


LISTINGS = [hotspot, kernel_fusion, forward_backward, stall_reasons_of_hotspots, cpu_latency]
TRACES = [
    "nvidia-h100-bert-small.json.gz",
    "amd-mi300-bert-small.json.gz",
    "nvidia-a100-ddp-nccl.json.gz",
    "amd-mi250-toy-train.json.gz",
    "nvidia-a100-alexnet-cuda-sync.json.gz",
    "schema-2021-v100-resnet50.json.gz",
]


def by_code(rows: list[dict[str, Any]], code: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["code"] == code]


def share(node: sl.CallNode) -> str:
    return f"{node.kind} {node.name} {node.gpu_time} {node.cpu_time}"


@pytest.mark.filterwarnings("error:rule DC00[1-5]. the rule raised:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:rule DC00[25]. it found:RuntimeWarning")
@pytest.mark.parametrize("name", TRACES)
def test_listings_run_on_real_traces(corpus: Path, name: str) -> None:
    run = sl.open(corpus / "kineto" / name)
    tree = run.call_tree()
    table = run.findings(rules=LISTINGS, min_gain=0)
    rows = table.to_pylist()
    assert not any("the rule raised" in note for note in table.notes), table.notes
    hot = by_code(rows, "DC001")
    assert len(hot) == sum(n.time > hotspot_threshold * tree.root.time for n in tree.kernels)
    # What has no GPU time has no ratio: of nothing else the listings speak.
    flagged = {code: len(by_code(rows, code)) for code in ("DC002", "DC003", "DC005")}
    small = sum(n.count > 0 and n.gpu_time < gpu_threshold * n.count for n in tree.nodes)
    slow = sum(n.gpu_time > 0 and n.cpu_time > cpu_threshold * n.gpu_time for n in tree.nodes)
    back = sum(n.forward.time > 0 and n.backward.time > 2 * n.forward.time for n in tree.operators)
    assert flagged["DC002"] <= min(small, 1000) and flagged["DC003"] <= back and flagged["DC005"] <= min(slow, 1000)
    assert (flagged["DC002"] > 0, flagged["DC003"] > 0, flagged["DC005"] > 0) == (small > 0, back > 0, slow > 0)


def test_callers_with_the_same_time_are_omitted(tmp_path: Path) -> None:
    run = sl.open(training(tmp_path))
    kept: dict[float, list[str]] = {}
    for alike in (0.0, 1.0):

        @sl.rule(code="MY001", alike=alike)
        def all_of_it(call_tree: sl.CallTree) -> None:
            [kernel] = [n for n in call_tree.kernels if n.name == "IndexBackward0_kernel"]
            for n in kernel.path:
                flag_issue(n, "hot")

        titles = [row["title"] for row in run.findings(rules=[all_of_it]).to_pylist() if row["code"] == "MY001"]
        kept[alike] = titles
    [kernel] = [n for n in run.call_tree().kernels if n.name == "IndexBackward0_kernel"]
    same = [n for n in kernel.path if n.gpu_time <= 1.01 * kernel.gpu_time]
    assert len(same) > 1, "the trace has callers with the time of the kernel"
    assert len(kept[0.0]) == len(kernel.path)
    assert len(kept[1.0]) < len(kept[0.0]) and "hot (IndexBackward0_kernel)" in kept[1.0]
    assert len(kept[0.0]) - len(kept[1.0]) >= len(same) - 1


def test_callers_with_other_messages_or_more_cpu_time_are_kept(tmp_path: Path) -> None:
    run = sl.open(training(tmp_path))

    @sl.rule(code="MY001")
    def two_messages(call_tree: sl.CallTree) -> None:
        [kernel] = [n for n in call_tree.kernels if n.name == "IndexBackward0_kernel"]
        flag_issue(kernel, "kernel")
        assert kernel.parent is not None
        flag_issue(kernel.parent, "caller")

    titles = {row["title"].split(" (")[0] for row in run.findings(rules=[two_messages]).to_pylist() if row["code"] == "MY001"}
    assert titles == {"kernel", "caller"}
    for wrong in (-1.0, 100.0, math.nan):
        with pytest.raises(sl.AnalysisError, match="alike"):
            sl.rule(code="MY002", alike=wrong)(lambda: None)


def test_division_by_zero_metrics_gives_nan(tmp_path: Path) -> None:
    node = sl.open(training(tmp_path)).call_tree().kernels[0]
    assert type(node.gpu_time) is int and node.gpu_time > 0
    zero = node.cpu_time
    assert zero == 0 and isinstance(zero, int) and f"{zero:,}" == "0" and json.dumps(zero) == "0"
    assert math.isnan(5 / zero) and math.isnan(0 / zero) and math.isnan(zero / zero) and math.isnan(5 % zero) and math.isnan(5 // zero)
    assert zero / 5 == 0.0 and zero + 1 == 1 and zero // 5 == 0
    assert not 5 / zero > 3 and not 5 / zero < 3
    for copied in (pickle.loads(pickle.dumps(ZERO)), copy.deepcopy(ZERO)):
        assert copied == 0
    with pytest.raises(TypeError):
        "a" / zero  # type: ignore[operator]
