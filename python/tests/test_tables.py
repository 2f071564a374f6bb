"""Tables: other libraries take them, units and notes stay with them, nothing changes a number on the way."""

from __future__ import annotations

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
    for result in tables.values():
        table = result
        rows = table.to_pylist()
        arrow = table.to_arrow()
        assert arrow.column_names == table.columns
        assert arrow.to_pylist() == rows
        assert table.to_polars().to_dicts() == rows
        frame = table.to_pandas()
        assert list(frame.columns) == table.columns
        assert len(frame) == len(table) == len(rows)
        if table.columns:
            assert duckdb.sql("select count(*) from result").fetchone() == (len(rows),)
        assert table.name in repr(table)
        assert table._repr_html_().count("<tr>") == 1 + min(len(rows), 10 if len(rows) > 12 else 12)


def test_libraries_take_tables_by_the_capsule_interface(run: sl.Run) -> None:
    table = run.events()
    assert pyarrow.table(table).num_rows == 27
    assert pyarrow.schema(table).names == table.columns
    assert polars.DataFrame(table).height == 27
    sums = "select sum(dur_ns) from events where category = 'kernel'"
    assert duckdb.sql(sums).fetchone() == (3 * 150_250,)


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


def test_long_tables_show_their_head(run: sl.Run) -> None:
    assert "... 17 more" in repr(run.events())
    assert "17 more rows" in run.events()._repr_html_()


def test_html_is_escaped(small_trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "markup.json"
    path.write_text(small_trace.read_text().replace("aten::linear", "<script>alert(1)</script>"))
    text = sl.open(path).events()._repr_html_()
    assert "<script>" not in text and "&lt;script&gt;" in text
