"""Memory traces: opened, asked, applied, saved."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

import stackline as sl

PROGRAM = """a weights 4194304 name=weights kind=parameter at=train.py:10:build
a input 1048576 name=input at=train.py:20:step
a output 1048576 name=output at=train.py:21:step
h weights at=train.py:11:build
h input at=train.py:22:step
k first weights,input>input at=train.py:23:step
k second weights[0:64]>output at=train.py:24:step
k third output>output at=train.py:25:step
d output at=train.py:26:step
f input at=train.py:30:step
f output at=train.py:31:step
f weights at=train.py:32:build
end
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.memory"
    path.write_text(PROGRAM)
    return path


def test_memory_in_use(program: Path) -> None:
    memory = sl.open(program).memory()
    assert (memory.name, memory.devices) == ("program.memory", ["gpu:0"])
    assert memory.has_accesses and memory.saw_end and memory.read_report.is_clean
    peak = memory.peaks.to_pylist()[0]
    assert (peak["peak"], peak["bytes"]) == ("P1", 6 << 20)
    assert "P1: 6.291 MB on gpu:0" in repr(memory)
    assert sum(row["bytes"] for row in memory.at_peak("kind")) == 6 << 20
    assert len(memory.alive("p1")) == 3
    assert max(memory.curve["bytes"]) == 6 << 20
    assert len(memory.objects) == 3
    assert memory.allocator is None and memory.out_of_memory is None


def test_tables_are_arrow(program: Path) -> None:
    memory = sl.open(program).memory()
    calls = pyarrow.table(memory.calls)
    assert calls.column("kind").to_pylist()[:4] == ["allocate"] * 3 + ["copy to device"]
    accesses = pyarrow.table(memory.accesses)
    assert accesses.num_rows == 8
    assert set(accesses.column("evidence").to_pylist()) == {"instrumented"}
    assert memory.table("memory_ranges").to_pylist() == [{"access": 4, "begin": 0, "end": 64, "times": 1}]
    assert len(memory.table("memory_stacks")) == len(set(memory.calls["stack"]))
    with pytest.raises(KeyError, match="memory_calls"):
        memory.table("calls")


def test_suggestions_are_replayed(program: Path) -> None:
    memory = sl.open(program).memory()
    assert len(memory.waste) > 0
    suggestions = memory.suggestions.to_pylist()
    assert suggestions[0]["number"] == 1 and suggestions[0]["saved_at_p1"] > 0
    row = memory.apply(range(1, len(suggestions) + 1)).to_pylist()[0]
    assert row["peak_after"] < row["peak_before"] == 6 << 20
    # One more saves nothing at the peaks, and is not listed: it may be tried.
    unlisted = memory.apply([len(suggestions) + 1]).to_pylist()[0]
    assert unlisted["peak_after"] == unlisted["peak_before"]
    for wrong in ([0], [-1], [len(suggestions) + 2]):
        with pytest.raises(sl.AnalysisError, match="there is no suggestion"):
            memory.apply(wrong)


def test_runs_and_text_files_give_equal_tables(program: Path, tmp_path: Path) -> None:
    memory = sl.open(program).memory()
    run = tmp_path / "kept.stackline"
    memory.save(run)
    with pytest.raises(FileExistsError):
        memory.save(run)
    memory.save(run, overwrite=True)
    text = tmp_path / "again.memory"
    text.write_text(memory.to_text())
    for again in (sl.open(run).memory(), sl.open(text).memory()):
        assert again.to_text() == memory.to_text()
        assert again.suggestions.to_pylist() == memory.suggestions.to_pylist()
        assert again.peaks.to_pylist() == memory.peaks.to_pylist()
    opened = sl.open(run)
    assert opened.parts == ("memory",)
    assert opened.memory().to_text() == memory.to_text()


def test_errors_name_unreadable_memory_files(program: Path, tmp_path: Path) -> None:
    trick = tmp_path / "trick.pickle"
    trick.write_bytes(b"\x80\x02cos\nsystem\nU\x02ls\x85R.")
    with pytest.raises(sl.ReadError, match="no code was run"):
        sl.open(trick).memory()
    with pytest.raises(sl.ReadError):
        sl.open(tmp_path / "missing").memory()
    with pytest.raises(ValueError, match="1 to 1000"):
        sl.open(program).memory(peaks=0)
    with pytest.raises(sl.AnalysisError, match="P1"):
        sl.open(program).memory().alive("P9")
