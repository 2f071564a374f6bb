"""Comparisons of runs."""

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
    """What changed between two runs, or several of each, per step (without steps in all), and what of it is more than noise.

    The tables ``steps``, ``operators``, ``kernels``, ``paths`` (each with ``verdict``, ``before_ns``, ``after_ns``, the interval of the
    change in percent and ``q``, and all but ``steps`` the times of a call) and ``step_lengths``, by name; notes are those of ``steps``. ``level`` is the share of false alarms
    that is accepted, in percent. With several runs on a side, what differs is told from the spread between them.

    Recordings without single calls and profiles are compared by their sums, those of one run.

    Raises :class:`AnalysisError` if a side is empty, a run has no such steps, or holds memory or counts and no times.
    """
    made = _native.diff(_runs(before), _runs(after), step_range(steps), level / 100.0, _BY_FAMILY[kernels_by])
    return {table.name: table for table in map(Table, made)}


def _runs(side: Run | Sequence[Run]) -> list[_native.Run]:
    return [run._native for run in ([side] if isinstance(side, Run) else side)]
