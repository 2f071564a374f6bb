"""Tables: other libraries take them, units and notes stay with them, nothing changes a number on the way."""

from __future__ import annotations

import runpy
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import pytest

import stackline as sl


@pytest.fixture(scope="module")
def run(small_trace: Path) -> sl.Run:
    return sl.open(small_trace)


@pytest.mark.parametrize("name", [a.name for a in sl.analyses()])
def test_every_table_of_every_analysis_reaches_every_library(run: sl.Run, name: str) -> None:
    tables = run.tables(name)
    assert tables, f"{name} returned no table"
    for table in tables.values():
        result, rows = table, table.to_pylist()  # duckdb finds it by its name, and "table" is a word of SQL
        arrow = table.to_arrow()
        assert arrow.column_names == table.columns
        assert arrow.to_pylist() == rows
        assert table.to_polars().to_dicts() == rows
        frame = table.to_pandas()
        assert list(frame.columns) == table.columns
        assert len(frame) == len(table) == len(rows)
        if table.columns:
            assert duckdb.sql("select count(*) from result").fetchall() == [(len(rows),)]
        assert table.name in repr(table)
        assert table._repr_html_().count("<tr>") == 1 + min(len(rows), 10 if len(rows) > 12 else 12)


def test_libraries_take_tables_by_the_capsule_interface(run: sl.Run) -> None:
    events = run.events()
    assert pyarrow.table(events).num_rows == 27
    assert pyarrow.schema(events).names == events.columns
    assert polars.DataFrame(events).height == 27
    sums = "select sum(dur_ns) from events where category = 'kernel'"
    assert duckdb.sql(sums).fetchall() == [(3 * 150_250,)]
    ops = run.gpu_ops()
    joined = "select operator_name, count(*), sum(dur_ns) from ops join events using (event) group by all order by all"
    assert duckdb.sql(joined.replace("dur_ns", "ops.dur_ns")).fetchall() == [
        ("aten::addmm", 6, 450_750),
        ("aten::linear", 3, 15_000),
    ]


def test_a_table_can_be_taken_many_times_and_outlives_its_run(small_trace: Path) -> None:
    table = sl.open(small_trace).events()
    first, second = pyarrow.table(table), pyarrow.table(table)
    del table
    assert first.equals(second)
    # The same memory, not a copy of it.
    addresses = [t["start_ns"].chunk(0).buffers()[1].address for t in (first, second)]
    assert addresses[0] == addresses[1]


def test_pandas_keeps_integers_exact(run: sl.Run) -> None:
    frame = run.events().to_pandas()
    assert frame["start_ns"].dtype == "int64"
    for column in frame.columns[frame.isna().any()]:
        assert not pandas.api.types.is_float_dtype(frame[column].dtype) or column.endswith(("_us", "_percent"))
    assert frame.attrs["name"] == "events"


def test_rows_and_columns_without_any_library(run: sl.Run) -> None:
    table = run.events()
    names = table["name"]
    assert names.count("gemm") == 3 and len(names) == len(table) == table.shape[0]
    assert [row["name"] for row in table] == names == table.to_pydict()["name"]
    assert table.units["start_ns"] == "ns" and table.schema["start_ns"] == "Int64"
    with pytest.raises(KeyError, match="no column 'nme' in events"):
        table["nme"]


def test_gpu_operations_have_attributes_of_their_launch(run: sl.Run) -> None:
    row = run.gpu_ops().to_pylist()[1]
    expected = {
        "name": "relu", "kind": "kernel", "start_ns": 150_000, "dur_ns": 50_250, "device": 0, "stream": 7, "step": 0,
        "correlation": 11, "launch_name": "cudaLaunchKernel", "launch_start_ns": 60_000, "operator_name": "aten::addmm",
        "annotation_name": None, "module_name": None,
    }  # fmt: skip
    assert {key: row[key] for key in expected} == expected
    assert run.events()["name"][row["launch"]] == "cudaLaunchKernel"


def test_tracks_count_their_events(run: sl.Run) -> None:
    tracks = {row["kind"]: row for row in run.tracks()}
    assert (tracks["thread"]["process"], tracks["thread"]["thread"], tracks["thread"]["events"]) == ("100", "1", 18)
    assert (tracks["stream"]["stream"], tracks["stream"]["events"]) == (7, 9)


def test_arguments_are_columns(run: sl.Run) -> None:
    events = run.events(arguments=True)
    assert [v for v in events["args:bytes"] if v is not None] == [4096] * 3
    assert len([v for v in events["args:correlation"] if v is not None]) == 18
    assert "more columns" in repr(events)


def test_steps_and_ranks_select(two_ranks: Path) -> None:
    run = sl.open(two_ranks)
    counts = {steps: sum(run.kernels(steps=steps, rank=1)["count"]) for steps in (None, 1, (0, 1))}
    assert counts == {None: 6, 1: 2, (0, 1): 4}
    of_all = run.kernels(rank=1, whole=True)
    assert sum(of_all["count"]) == 6 and not any("whole=True" in note for note in of_all.notes)
    assert any(note.startswith("Covers steps 0 to 2") for note in run.kernels(rank=1).notes)
    assert any(note.startswith("Covers the whole trace except the last") for note in run.hta_idle_time().notes)
    idle = run.tables("hta_idle_time", rank=1)
    assert idle["idle_time"].notes[-1].startswith("Covers steps 0 to 2")
    assert idle["hta_idle_time"].notes[-1].startswith("Covers the whole trace")
    with pytest.raises(sl.AnalysisError, match="each choose a window"):
        run.kernels(steps=1, whole=True)
    both = run.kernels()
    assert both.columns[0] == "rank" and set(both["rank"]) == {0, 1}
    assert sum(both["count"]) == 12
    with pytest.raises(sl.AnalysisError, match="the steps are 0 to 2"):
        run.kernels(steps=(7, 9))
    with pytest.raises(sl.AnalysisError, match="rank 5 is not in the input; the input has ranks 0 to 1"):
        run.kernels(rank=5)
    with pytest.raises(ValueError, match="must not be after"):
        run.kernels(steps=(2, 1))


def test_errors_of_unknown_analyses_suggest_names(run: sl.Run) -> None:
    with pytest.raises(sl.AnalysisError, match="did you mean .*kernel_summary"):
        run.table("kernel_sumary")


def test_every_analysis_is_a_method(run: sl.Run) -> None:
    for analysis in sl.analyses():
        table = getattr(run, analysis.name)()
        assert table.to_pylist() == run.table(analysis.name).to_pylist()
    assert run.timeline().name == "gpu_timeline" and run.collectives().name == "coll_analysis"


def test_generated_methods_are_up_to_date() -> None:
    generator = Path(__file__).parents[1] / "generate_methods.py"
    names = runpy.run_path(str(generator))
    assert names["TARGET"].read_text() == names["generate"](), "run python -P python/generate_methods.py"


def test_long_tables_show_their_head(run: sl.Run) -> None:
    assert "... 17 more rows" in repr(run.events())
    assert "17 more rows" in run.events()._repr_html_()


def test_html_is_escaped(small_trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "markup.json"
    path.write_text(small_trace.read_text().replace("aten::linear", "<script>alert(1)</script>"))
    text = sl.open(path).events()._repr_html_()
    assert "<script>" not in text and "&lt;script&gt;" in text
