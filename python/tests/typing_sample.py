"""Checked with mypy --strict by test_typing.py: programs of users must type-check with the shipped annotations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import stackline as sl


@sl.record("run.stackline", memory=True)
@sl.span("named")
def named(number: int) -> int:
    return number


@sl.rule(code="MY001", needs=["gpu_work"], advice="Do it otherwise.")
def my_rule(call_tree: sl.CallTree, run: sl.Run) -> Iterator[sl.Finding]:
    for n in sl.bfs(call_tree.nodes):
        if n.backward.time > 2 * n.forward.time and n.parent is not None:
            place: str | None = n.file
            yield sl.flag_issue(n, f"slow at {place}:{n.line}", gain=run.what_if("remove sync:item()"), evidence={"a": (1.5, "%")})
    totals: dict[str, sl.CallTotals] = call_tree.by_operator()
    yield sl.Finding("slow", node=call_tree.search("**/aten::*")[0], gain=(1, 2, totals["aten::mm"].time))


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
    table = run.findings(rules=[my_rule, "my_rules.py", *sl.load_rules()], rule_timeout=5)
    number: int = named(len(recorded))
    print(number)
    return len(rows) + len(units) + run.traces[0].events
