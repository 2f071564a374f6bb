"""Critical paths by method ``ctda`` from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import stackline as sl


@pytest.fixture(scope="module")
def training(corpus: Path) -> sl.Run:
    return sl.open(corpus / "kineto" / "amd-mi250-toy-train.json.gz")


def test_the_path_covers_the_window_across_threads(training: sl.Run) -> None:
    path = training.critical_path("ctda")
    hta = training.critical_path("hta")
    assert path.cpcr >= 0.9 > hta.weight_us * 1e3 / hta.window_ns
    assert path.path_edges["CROSS_THREAD"] > 0
    assert sum(path.phases_us.values()) == pytest.approx(path.weight_us)
    assert sum(path.hotspots["duration"]) == pytest.approx(path.weight_us * 1e3)
    assert len(path.path) == path.path_nodes
    assert "covered" in repr(path)


def test_what_if_changes_the_window(training: sl.Run) -> None:
    path = training.critical_path("ctda")
    assert path.what_if("cpu=x1").window_ns == path.window_ns
    assert path.what_if("cpu:hipLaunchKernel=0").window_ns < path.window_ns


def test_steps_rules_and_invalid_arguments(training: sl.Run, tmp_path: Path) -> None:
    step = training.critical_path("ctda", steps=1)
    assert step.window_ns < training.critical_path("ctda").window_ns
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": [{"phase": "data_load", "name": "aten::randn"}]}')
    assert training.critical_path("ctda", phase_rules=rules).phases_us["data_load"] > 0
    rules.write_text('{"rules": [\n{"phase": "dta_load", "name": "x"}]}')
    with pytest.raises(sl.AnalysisError, match="line 2"):
        training.critical_path("ctda", phase_rules=rules)
    with pytest.raises(sl.AnalysisError, match="for 'hta'"):
        training.critical_path("ctda", data_load_events="x")  # type: ignore[call-overload]
    with pytest.raises(sl.AnalysisError, match="name steps by annotation"):
        training.critical_path("hta", steps=1)  # type: ignore[call-overload]
