"""Real traces: Python shows the data of the file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import stackline as sl

TRACES = ["nvidia-h100-bert-small.json.gz", "amd-mi300-torch-compile-triton.json.gz", "old-category-names.json.gz", "mtia-inference.json.gz"]


@pytest.mark.parametrize("name", TRACES)
def test_events_equal_those_of_the_file(corpus: Path, name: str) -> None:
    path = corpus / "kineto" / name
    with gzip.open(path, "rt") as file:
        document: Any = json.load(file, parse_float=str)
    source = document["traceEvents"] if isinstance(document, dict) else document
    run = sl.open(path)
    events = run.events()
    frame = events.to_pandas()
    assert frame["start_ns"].dtype == "int64" and frame["dur_ns"].dtype == "int64"
    complete = frame[frame["phase"] == "complete"]
    assert len(complete) == sum(1 for e in source if e["ph"] == "X")
    for row, index in zip(complete.itertuples(), complete["source_index"], strict=True):
        assert source[index]["name"] == row.name
    assert len(events.to_polars()) == len(frame) == run.traces[0].events


@pytest.mark.parametrize("name", TRACES)
def test_saved_runs_give_equal_results(corpus: Path, tmp_path: Path, name: str) -> None:
    run = sl.open(corpus / "kineto" / name)
    target = tmp_path / "saved.stackline"
    run.save(target)
    saved = sl.open(target)
    assert saved.read_report == run.read_report
    assert saved.events(arguments=True).to_arrow().equals(run.events(arguments=True).to_arrow())
    assert saved.gpu_ops().to_arrow().equals(run.gpu_ops().to_arrow())
    for analysis in sl.analyses():
        expected, got = run.tables(analysis.name), saved.tables(analysis.name)
        assert {n: t.to_pylist() for n, t in expected.items()} == {n: t.to_pylist() for n, t in got.items()}
    with pytest.raises(FileExistsError, match="saved.stackline"):
        run.save(target)
    run.save(target, overwrite=True)


def test_errors_name_damaged_runs(small_trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "saved.stackline"
    sl.open(small_trace).save(target)
    (target / "manifest.json").write_text("{")
    with pytest.raises(sl.ReadError, match="manifest.json") as caught:
        sl.open(target)
    assert caught.value.path.startswith(str(target))
