"""The exact critical path, the default method."""

from __future__ import annotations

from pathlib import Path

import pytest

import stackline as sl


@pytest.fixture(scope="module")
def training(corpus: Path) -> sl.Run:
    return sl.open(corpus / "kineto" / "amd-mi250-toy-train.json.gz")


def test_every_ns_has_one_cause(training: sl.Run) -> None:
    path = training.critical_path()
    assert path.method == "exact"
    assert path.path_ns == path.window_ns == path.window[1] - path.window[0]
    assert sum(path.bound_by_ns.values()) == path.window_ns
    segments = path.segments.to_pandas()
    assert segments["start_ns"].iloc[0] == 0
    assert segments["end_ns"].iloc[-1] == path.window_ns
    assert (segments["start_ns"].iloc[1:].to_numpy() == segments["end_ns"].iloc[:-1].to_numpy()).all()
    assert set(segments["evidence"]) <= {"exact", "inferred"}
    assert len(path.summary.to_pandas()) <= 20


def test_old_names_of_tables_warn(training: sl.Run) -> None:
    path = training.critical_path()
    with pytest.deprecated_call(match="now called segments"):
        assert path.hops.columns == path.segments.columns
    with pytest.deprecated_call(match="now called summary"):
        assert path.story.columns == path.summary.columns


def test_windows_of_the_exact_path(training: sl.Run) -> None:
    number = training.traces[0].steps[0]
    path = training.critical_path(steps=number)
    assert 0 < path.path_ns < training.critical_path().path_ns
    by_name = training.critical_path(annotation=f"ProfilerStep#{number}")
    assert by_name.bound_by_ns == path.bound_by_ns
    with pytest.raises(sl.AnalysisError, match="each choose a window"):
        training.critical_path(steps=number, annotation="x")
    with pytest.raises(sl.AnalysisError, match="no step has a number"):
        training.critical_path(steps=10**9)
    with pytest.raises(sl.AnalysisError, match="for 'hta'"):
        training.critical_path("exact", zero_weight_launch_edges=True)  # type: ignore[call-overload]
