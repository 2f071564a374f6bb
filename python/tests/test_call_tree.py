"""Call trees: callers, callees and costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from rules_trace import STEPS, training

import stackline as sl

US = 1000 * STEPS


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> sl.CallTree:
    return sl.open(training(tmp_path_factory.mktemp("tree"))).call_tree()


def one(tree: sl.CallTree, pattern: str) -> sl.CallNode:
    found = tree.search(pattern)
    assert len(found) == 1, list(found)
    return found[0]


def test_times_cover_only_the_steps(tree: sl.CallTree) -> None:
    assert (tree.steps, tree.metric, tree.is_training) == (STEPS, "gpu_time", True)
    assert tree.root.time == (10 + 100 + 24 + 450 + 20) * US
    assert sum(kernel.time for kernel in tree.kernels) == tree.root.time
    assert {kernel.name: kernel.calls for kernel in tree.kernels}["small"] == 12 * STEPS
    step = one(tree, "**/train_step train.py:5")
    assert (step.kind, step.file, step.line, step.calls) == ("python", "train.py", 5, STEPS)
    assert step.count == 17 * STEPS, "all kernels, those of the backward thread included"
    assert step.cpu_time == (1890 + 30) * US, "what runs backward, too, and each moment once"
    assert one(tree, "**/aten::item").exclusive["cpu_time"] == 100 * US


def test_backward_nodes_are_below_their_forward_operators(tree: sl.CallTree) -> None:
    index = one(tree, "**/forward/aten::index")
    assert (index.forward.time, index.backward.time, index.time) == (10 * US, 300 * US, 310 * US)
    assert [(n.name, n.kind, n.phase) for n in index.children if n.kind == "backward"] == [
        ("IndexBackward0", "backward", "backward")
    ]
    kernel = one(tree, "**/IndexBackward0_kernel")
    assert kernel.place[:3] == ("train.py", 10, "forward"), "the place of what it differentiates"
    assert (kernel.backward.time, kernel.forward.count) == (0, STEPS)


def test_nodes_are_hashable_handles(tree: sl.CallTree) -> None:
    mm = one(tree, "**/aten::mm")
    assert mm == one(tree, "**/aten::mm") and hash(mm) == hash(one(tree, "**/aten::mm")) and mm != mm.parent
    assert [n.name for n in mm.path] == ["ProfilerStep", "train_step", "forward", "aten::mm"]
    assert mm.parent is not None and mm in list(mm.parent.children)
    assert tree.root.parent is None and tree.root.kind == "root" and tree.root.name == ""
    assert "aten::mm at train.py:10" in repr(mm)
    assert mm.metrics["gpu_time"] == 250 * US and mm.metrics["stalls"] == 100 * STEPS
    assert len(mm.events) == STEPS
    nodes = tree.nodes
    assert len(nodes) == len(tree) and nodes[0] == next(iter(nodes)) and nodes[-1] == list(nodes)[-1]
    assert [n.name for n in nodes[:2]] == [nodes[0].name, nodes[1].name]
    with pytest.raises(IndexError):
        nodes[len(nodes)]


def test_breadth_first_traversal(tree: sl.CallTree) -> None:
    depths = [len(n.path) for n in sl.bfs(tree.nodes)]
    assert depths == sorted(depths) and len(depths) == len(tree)
    below = sl.bfs(one(tree, "**/loss_fn"))
    assert [n.name for n in below][:2] == ["loss_fn", "aten::add"]
    assert [n.name for n in sl.bfs([below[1], below[0]])] == ["aten::add", "loss_fn", "cudaLaunchKernel", "small"]
    with pytest.raises(TypeError, match="nodes of a call tree"):
        sl.bfs([1])  # type: ignore[list-item]


def test_search_and_loops(tree: sl.CallTree) -> None:
    def names(pattern: str) -> set[str]:
        return {n.name for n in tree.search(pattern)}

    assert names("**/train_step/**/aten::*") == {"aten::index", "aten::mm", "aten::add", "aten::_foreach_add_", "aten::item"}
    assert names("**/train.py:20/*") == {"aten::add"}
    assert names("**/~^aten::(mm|index)$") == {"aten::mm", "aten::index"}
    assert names("ProfilerStep") == {"ProfilerStep"} and names("train_step") == set()
    assert names("**/nothing") == set()
    for bad, expected in [("", "empty part"), ("a//b", "empty part"), ("**/~(", "regular expression"), ("/".join("a" * 64), "64 parts")]:
        with pytest.raises(sl.AnalysisError, match=expected):
            tree.search(bad)
    assert [n.name for n in tree.loops(at_least=12)] == ["aten::add"]


def test_phases_and_operators(tree: sl.CallTree) -> None:
    phases = {name: total.time for name, total in tree.phases().items() if total.time}
    assert phases == {"backward": 450 * US, "forward": 110 * US, "other": 24 * US, "update": 20 * US}
    assert list(phases.values()) == sorted(phases.values(), reverse=True)
    operators = tree.by_operator()
    index = operators["aten::index"]
    assert (index.time, index.calls, index.phases) == (310 * US, STEPS, {"forward": 10 * US, "backward": 300 * US})
    assert list(operators)[0] == "aten::index" and operators["aten::add"].count == 12 * STEPS
    assert not any(name.startswith("autograd") for name in operators), "their time is that of what they differentiate"


def test_call_tree_of_selected_steps(tmp_path: Path) -> None:
    run = sl.open(training(tmp_path))
    assert run.call_tree(steps=1).root.time == run.call_tree().root.time // STEPS
    with pytest.raises(sl.AnalysisError):
        run.call_tree(steps=9)


def test_call_tree_of_a_trace_without_gpu(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    path.write_text(
        """{"traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": 0, "dur": 10},
        {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 2, "dur": 5}]}"""
    )
    tree = sl.open(path).call_tree()
    assert (tree.metric, tree.steps, tree.root.time, tree.root.gpu_time) == ("cpu_time", 0, 10_000, 0)
    assert (tree.operators[0].time, tree.operators[0].exclusive["time"], len(tree.operators)) == (10_000, 5_000, 1)
    assert not tree.is_training and len(tree.kernels) == 0
