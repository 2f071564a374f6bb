"""A run directory opens with DuckDB, Polars and pandas, without this package, and contains the data of the trace."""

from __future__ import annotations

import importlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

# By hand from `training_steps` in conftest.py: three steps per rank, 100 µs and 50.25 µs of kernels each.
KERNELS = {"gemm": 300_000, "relu": 150_750}


def reader(module: str) -> Any:
    """A tool that reads Parquet; without it the test is skipped, in CI it fails."""
    return importlib.import_module(module) if os.environ.get("CI") == "true" else pytest.importorskip(module)


@pytest.fixture(scope="module")
def run(two_ranks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory of two ranks, made by the binary in STACKLINE_BIN, or else by the package."""
    path = tmp_path_factory.mktemp("runs") / "two.stackline"
    binary = os.environ.get("STACKLINE_BIN")
    if binary:
        subprocess.run([binary, "import", str(two_ranks), "-o", str(path)], check=True, capture_output=True)
    else:
        import stackline as sl

        sl.open(two_ranks).save(path)
    return path


def test_duckdb(run: Path) -> None:
    duckdb = reader("duckdb")
    options = "hive_partitioning = true, union_by_name = true"
    with duckdb.connect() as db:
        db.execute(f"CREATE VIEW events AS SELECT * FROM read_parquet('{run}/*/events.parquet', {options})")
        db.execute(f"CREATE VIEW gpu AS SELECT * FROM read_parquet('{run}/*/gpu.parquet', {options})")
        kernels = db.execute(
            "SELECT trace, name, sum(dur_ns)::BIGINT FROM events WHERE kind = 'kernel' GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        assert kernels == [(rank, name, ns) for rank in range(2) for name, ns in KERNELS.items()]
        # Who launched it: by row number, which is the same in all tables.
        owners = db.execute(
            """SELECT k.name, op.name, count(*) FROM gpu JOIN events k USING (trace, event)
            LEFT JOIN events op ON op.trace = gpu.trace AND op.event = gpu.operator
            GROUP BY ALL ORDER BY ALL"""
        ).fetchall()
        assert ("gemm", "aten::addmm", 6) in owners
        assert ("Memcpy DtoH (Device -> Pageable)", "aten::linear", 6) in owners
        dims = db.execute("""SELECT DISTINCT "args:Input Dims" FROM events WHERE name = 'aten::linear'""").fetchall()
        assert dims == [("[[8,16],[32,16]]",)]


def test_polars(run: Path) -> None:
    polars = reader("polars")
    events = polars.scan_parquet(f"{run}/*/events.parquet", hive_partitioning=True)
    kernels = (
        events.filter(polars.col("kind").cast(polars.String) == "kernel")
        .group_by(polars.col("name").cast(polars.String))
        .agg(polars.col("dur_ns").sum(), polars.col("stream").first(), polars.col("args:correlation").count())
        .sort("name")
        .collect()
    )
    assert kernels.rows() == [(name, 2 * ns, 7, 6) for name, ns in KERNELS.items()]
    steps = polars.read_parquet(run / "trace=1" / "steps.parquet")
    assert steps["number"].to_list() == [0, 1, 2]
    assert (steps["end_ns"] - steps["start_ns"]).to_list() == [900_000] * 3


def test_pandas(run: Path) -> None:
    pandas = reader("pandas")
    columns = ["event", "name", "kind", "dur_ns", "parent", "args:bytes"]
    events = pandas.read_parquet(run / "trace=0" / "events.parquet", columns=columns)
    assert (events["event"] == range(len(events))).all()
    kernels = events[events["kind"] == "kernel"].groupby("name", observed=True)["dur_ns"].sum()
    assert kernels.to_dict() == KERNELS
    names = events["name"].astype(str)
    launch = events[names == "aten::addmm"]
    assert set(names[launch["parent"].astype(int)]) == {"aten::linear"}
    assert events["args:bytes"].dropna().astype(int).tolist() == [4096] * 3
    # Every table opens.
    tables = {path.stem: pandas.read_parquet(path) for path in sorted((run / "trace=0").glob("*.parquet"))}
    assert {"events", "gpu", "strings", "tracks", "processes", "steps", "shapes", "track_order"} <= set(tables)
    assert sorted(tables["track_order"]["event"]) == list(range(len(events)))
