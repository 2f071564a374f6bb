"""Comparison of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from . import _native
from ._analyses import Steps
from ._run import Run
from ._table import Table
from ._window import step_range

_BY_FAMILY: dict[str, bool | None] = {"auto": None, "name": False, "family": True}


def diff(
    before: Run | Sequence[Run],
    after: Run | Sequence[Run],
    *,
    steps: Steps = None,
    level: float = 5.0,
    kernels_by: Literal["auto", "name", "family"] = "auto",
) -> dict[str, Table]:
    """Compare two runs, or several runs per side: changes per step, and whether each change is significant.

    Without steps, totals are compared. Returns the tables ``steps``, ``operators``, ``kernels``, ``paths`` and ``step_lengths`` by
    name. All but ``step_lengths`` have ``verdict``, ``before_ns``, ``after_ns``, the confidence interval of the change in percent, and
    ``q``. All of these but ``steps`` also have times per call. Notes are those of ``steps``. ``level`` is the accepted share of false
    alarms, in percent. With several runs per side, significance is computed from the spread between the runs.

    Recordings without individual calls and profiles are compared by their totals, one run per side.

    Raises :class:`AnalysisError` if a side is empty, a run has no such steps, or a run contains only memory or counts and no times.
    """
    made = _native.diff(_runs(before), _runs(after), step_range(steps), level / 100.0, _BY_FAMILY[kernels_by])
    return {table.name: table for table in map(Table, made)}


def _runs(side: Run | Sequence[Run]) -> list[_native.Run]:
    return [run._native for run in ([side] if isinstance(side, Run) else side)]
