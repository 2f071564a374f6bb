"""Findings from Python."""

import json
import pathlib

import pytest
import stackline as sl


def trace(folder: pathlib.Path) -> pathlib.Path:
    """Three steps, each of which waits for its kernel on line 10 of train.py."""
    events = []

    def span(cat: str, name: str, ts: int, dur: int, **args: int) -> None:
        pid, tid = (0, 7) if cat == "kernel" else (1, 1)
        events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})

    for step in range(3):
        at = 1000 + 700 * step
        span("user_annotation", f"ProfilerStep#{step}", at, 690)
        span("python_function", "train.py(10): step", at + 1, 688)
        span("cpu_op", "aten::mm", at + 2, 10)
        span("cuda_runtime", "cudaLaunchKernel", at + 4, 5, correlation=2 * step + 1)
        span("kernel", "gemm", at + 12, 300, correlation=2 * step + 1, stream=7, device=0)
        span("cpu_op", "aten::item", at + 14, 304)
        span("cuda_runtime", "cudaStreamSynchronize", at + 15, 302, correlation=2 * step + 2)
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}))
    return path


def test_findings_are_a_table(tmp_path: pathlib.Path) -> None:
    run = sl.open(trace(tmp_path))
    found = run.findings()
    first = found.to_pylist()[0]
    assert (first["code"], first["file"], first["line"]) == ("SL004", "train.py", 10)
    assert first["gain_low_ns"] <= first["gain_ns"] <= first["gain_high_ns"]
    assert any(note.startswith("SL008 was not checked: ") for note in found.notes)


def test_findings_of_ranks_are_merged(tmp_path: pathlib.Path) -> None:
    for rank in range(2):
        trace(tmp_path).rename(tmp_path / f"rank{rank}.json")
    run = sl.open(tmp_path)
    found = run.findings()
    assert (found["ranks"][0], found["rank"][0]) == ("0 1", 0)
    assert run.findings(rank=1)["gain_ns"] == found["gain_ns"]
    (tmp_path / "rank1.json").rename(tmp_path / "other.json")
    with pytest.raises(sl.AnalysisError, match=r"other.json has no rank number; select one trace with rank="):
        sl.open(tmp_path).findings()


def test_settings_and_min_gain(tmp_path: pathlib.Path) -> None:
    run = sl.open(trace(tmp_path))
    assert "SL001" not in run.findings(settings={"SL001.share": 100, "SL004.wait_us": 1e6}, min_gain=99)["code"]
    with pytest.raises(sl.AnalysisError, match="there is no rule SL999"):
        run.findings(settings={"SL999.x": 1})
    with pytest.deprecated_call(match=r"SL058\.touched is now called SL058\.accessed"):
        run.findings(settings={"SL058.touched": 50})
