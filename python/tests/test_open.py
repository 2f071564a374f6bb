"""Opening: metadata of a trace, the read report, errors."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

import stackline as sl


def test_trace_attributes(small_trace: Path) -> None:
    run = sl.open(small_trace)
    assert len(run) == 1
    assert run.ranks == [0]
    trace = run.traces[0]
    assert (trace.name, trace.format, trace.rank, trace.rank_in_file, trace.world_size) == ("small.json", "kineto", 0, 0, 2)
    assert (trace.events, trace.gpu_ops, trace.steps) == (27, 9, (0, 1, 2))
    assert trace.span_ns == (0, 2_900_000)
    assert ("schemaVersion", "1") in trace.metadata
    assert "27 events" in repr(run)


def test_undamaged_files_have_an_empty_report(small_trace: Path) -> None:
    report = sl.open(small_trace).read_report
    assert report.is_clean
    assert [p.severity for p in report] in ([], ["note"] * len(report))


def test_damage_is_reported_with_its_position(small_trace: Path, tmp_path: Path) -> None:
    text = small_trace.read_text()
    cut = tmp_path / "cut.json"
    cut.write_text(text[: len(text) * 2 // 3])
    run = sl.open(str(cut))
    assert 0 < run.traces[0].events < 27
    assert not run.read_report.is_clean
    worst = run.read_report[0]
    assert worst.severity == "lost" and worst.count >= 1 and worst.trace == "cut.json"
    assert worst.offsets and all(0 < offset <= cut.stat().st_size for offset in worst.offsets)
    assert worst.message in repr(run.read_report)
    assert "see run.read_report" in repr(run)


def test_ranks_of_a_directory_and_of_several_files(two_ranks: Path) -> None:
    assert sl.open(two_ranks).ranks == [0, 1]
    assert sl.open([two_ranks / "rank1.json", two_ranks / "rank0.json"]).ranks == [1, 0]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    with pytest.raises(sl.ReadError, match="missing.json") as caught:
        sl.open(missing)
    assert caught.value.path == str(missing)
    assert caught.value.byte is None
    assert isinstance(caught.value, sl.StacklineError)


def test_errors_of_other_files_have_a_position(tmp_path: Path) -> None:
    path = tmp_path / "words.json"
    path.write_text("these are not the events you are looking for")
    with pytest.raises(sl.ReadError, match="words.json") as caught:
        sl.open(path)
    assert caught.value.path == str(path)
    assert caught.value.byte is None or 0 <= caught.value.byte <= 44


def test_errors_of_directories_without_traces(tmp_path: Path) -> None:
    with pytest.raises(sl.ReadError, match="no trace"):
        sl.open(tmp_path)


def test_invalid_arguments_raise(small_trace: Path) -> None:
    with pytest.raises(ValueError, match="threads"):
        sl.open(small_trace, threads=-1)
    with pytest.raises(ValueError, match="no input"):
        sl.open([])
    with pytest.raises(TypeError):
        sl.open(3)  # type: ignore[arg-type]


def test_errors_keep_their_attributes_across_processes() -> None:
    error = pickle.loads(pickle.dumps(sl.ReadError("bad", "a.json", 7)))
    assert (str(error), error.path, error.byte) == ("bad", "a.json", 7)


def test_ranks_have_equal_numbers_in_all_tables(small_trace: Path, tmp_path: Path) -> None:
    copies = [tmp_path / "a.json", tmp_path / "b.json"]
    for copy in copies:
        copy.write_text(small_trace.read_text())
    run = sl.open(copies)
    assert run.ranks == [0, 1], "both say rank 0: numbered by position"
    for table in (run.events(), run.gpu_ops(), run.tracks(), run.steps()):
        assert sorted(set(table.to_pydict()["rank"])) == [0, 1]


def test_arguments_without_a_column_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    event = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 1, "args": {f"k{i}": i for i in range(140)}}
    path.write_text(json.dumps([event]))
    run = sl.open(path)
    with pytest.warns(UserWarning, match="12 rarely used event arguments have no column in this table"):
        table = run.events(arguments=True)
    assert "12 rarely used event arguments" in table.notes[0]
    assert sum(name.startswith("args:") for name in table.columns) == 128
    assert run.events().notes == []


def test_steps_of_the_selected_rank(tmp_path: Path, small_trace: Path) -> None:
    longer = json.loads(small_trace.read_text())
    longer["distributedInfo"]["rank"] = 1
    longer["traceEvents"].append({**longer["traceEvents"][0], "name": "ProfilerStep#7", "ts": 9000})
    (tmp_path / "one.json").write_text(json.dumps(longer))
    run = sl.open([small_trace, tmp_path / "one.json"])
    assert len(run.steps(steps=7)) > 0
    with pytest.raises(sl.AnalysisError, match="0 to 2"):
        run.steps(steps=7, rank=0)
