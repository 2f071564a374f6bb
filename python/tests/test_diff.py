"""Comparisons from Python."""

import json
import pathlib

import pytest
import stackline as sl


def trace(folder: pathlib.Path, name: str, kernel_us: list[int]) -> sl.Run:
    """Steps of 1000 µs, each with one kernel."""
    events = []

    def span(cat: str, name: str, ts: int, dur: int, **args: int) -> None:
        pid, tid = (0, 7) if cat == "kernel" else (1, 1)
        events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})

    for step, dur in enumerate(kernel_us):
        at = 1000 + 1000 * step
        span("user_annotation", f"ProfilerStep#{step}", at, 1000)
        span("cpu_op", "aten::mm", at + 2, 10)
        span("cuda_runtime", "cudaLaunchKernel", at + 4, 5, correlation=step + 1)
        span("kernel", "gemm", at + 12, dur, correlation=step + 1, stream=7, device=0)
    path = folder / name
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}))
    return sl.open(path)


def test_changes_are_distinguished_from_noise(tmp_path: pathlib.Path) -> None:
    before = trace(tmp_path, "a.json", [300, 302, 298])
    after = trace(tmp_path, "b.json", [360, 363, 358])
    tables = sl.diff(before, after)
    assert list(tables) == ["steps", "operators", "kernels", "paths", "step_lengths"]
    (kernel,) = tables["kernels"].to_pylist()
    assert (kernel["name"], kernel["verdict"], kernel["before_ns"]) == ("gemm", "slower", 300_000.0)
    assert kernel["low_percent"] < kernel["change_percent"] < kernel["high_percent"]
    assert sl.diff(before, before)["kernels"].to_pylist()[0]["verdict"] == "noise"
    assert sl.diff([before, before], [after])["kernels"].to_pylist()[0]["verdict"] == "slower"


def test_incomparable_runs_raise(tmp_path: pathlib.Path) -> None:
    run = trace(tmp_path, "a.json", [300, 302, 298])
    for level in (0.0, 90.0, float("nan")):
        with pytest.raises(sl.AnalysisError, match="rate of false alarms"):
            sl.diff(run, run, level=level)
    with pytest.raises(sl.AnalysisError, match="nothing to compare"):
        sl.diff(run, [])
    with pytest.raises(sl.AnalysisError):
        sl.diff(run, run, steps=99)
