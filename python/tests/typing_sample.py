"""Checked with mypy --strict by test_typing.py: what users write must type-check with the shipped annotations."""

from __future__ import annotations

from pathlib import Path

import stackline as sl


@sl.record("run.stackline", memory=True)
@sl.span("named")
def named(number: int) -> int:
    return number


def sample(path: Path) -> float:
    run: sl.Run = sl.open([path, "other.json"], threads=2, progress=lambda done, total: print(done, total))
    for problem in run.read_report:
        places: tuple[int, ...] = problem.offsets
        print(problem.severity, places)
    table: sl.Table = run.table("kernel_summary", steps=(1, 3), rank=0)
    units: dict[str, str] = table.units
    rows = [row["name"] for row in table]
    try:
        sl.open("missing")
    except sl.ReadError as error:
        where: int | None = error.byte
        print(error.path, where)
    with sl.record("run.stackline", mode="trace", steps=(1, 3), after="5s") as recording:
        recorded: str = recording.path
    number: int = named(len(recorded))
    print(number)
    return len(rows) + len(units) + run.traces[0].events
