"""Critical paths by method ``hta``: the sequence of host and GPU work that determines the end of a window."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from typing import Any, cast

from . import _native
from ._table import Table

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class OverlaySummary:
    """Summary of the file that :meth:`CriticalPath.overlay` wrote."""

    path: str
    """Path of the written file."""
    events: int
    """Number of events in the original trace."""
    marked: int
    """Number of events that got the argument ``"critical": 1``."""
    left_out: int
    """Number of events left out (``only_critical``)."""
    flow_events: int
    """Number of added flow events, two per arrow."""
    truncated: bool
    """True if the original trace is truncated. Its complete records are written, as valid JSON."""


class CriticalPath:
    """A critical path by HTA's rules, returned by :meth:`Run.critical_path`, :meth:`what_if` or :meth:`restore`. Immutable.

    Weights are in µs, by the rules of the method. Their sum may differ from the length of the window, because HTA gives no
    weight to gaps between top-level operators.
    """

    __slots__ = ("_native", "_source", "_summary", "_tables")

    def __init__(self, native: _native.CriticalPath, source: str | None = None) -> None:
        self._native = native
        self._source = source
        self._summary: dict[str, Any] = native.summary()
        self._tables: dict[str, Table] | None = None

    @property
    def method(self) -> str:
        """Method of the path, such as ``hta``."""
        return cast(str, self._summary["method"])

    @property
    def rule_set(self) -> str:
        """Version of the method's rules."""
        return cast(str, self._summary["rule_set"])

    @property
    def window_ns(self) -> int:
        """Length of the analyzed window in ns."""
        return cast(int, self._summary["window_ns"])

    @property
    def window(self) -> tuple[int, int]:
        """Start and end of the analyzed window in ns since the trace's base."""
        return cast("tuple[int, int]", self._summary["window"])

    @property
    def weight_us(self) -> float:
        """Weight of the path in µs."""
        return cast(float, self._summary["weight_us"])

    @property
    def bound_by(self) -> dict[str, float]:
        """Share of the path's weight by bound, in percent: ``cpu_bound``, ``data_loading``,
        ``gpu_compute_bound``, ``gpu_communication_bound``, ``gpu_kernel_kernel_overhead``,
        ``gpu_kernel_launch_overhead``. The empty name is that of dependencies and synchronization, which have no weight."""
        return dict(self._summary["bound_by"])

    @property
    def bound_by_us(self) -> dict[str, float]:
        """Weight of the path by bound in µs."""
        return dict(self._summary["bound_by_us"])

    @property
    def edges(self) -> dict[str, int]:
        """Number of edges of the graph by type (``OPERATOR_KERNEL``, ``DEPENDENCY``, ``KERNEL_LAUNCH_DELAY`` ...)."""
        return dict(self._summary["edges"])

    @property
    def path_edges(self) -> dict[str, int]:
        """Number of edges of the path by type."""
        return dict(self._summary["path_edges"])

    @property
    def path_nodes(self) -> int:
        """Number of nodes (starts and ends of events) on the path."""
        return cast(int, self._summary["path_nodes"])

    @property
    def path_events(self) -> int:
        """Number of events with a node on the path."""
        return cast(int, self._summary["path_events"])

    @property
    def warnings(self) -> list[str]:
        """Warnings of the analysis, one sentence each."""
        return list(self._summary["warnings"])

    @property
    def tables(self) -> dict[str, Table]:
        """All tables of the result by name: breakdown, names, edges, path."""
        if self._tables is None:
            self._tables = {table.name: table for table in map(Table, self._native.tables())}
        return self._tables

    @property
    def path(self) -> Table:
        """Nodes of the path in order: event (position in the file's event list), start or end, time in ns since
        the window's start, name, track."""
        return self.tables["critical_path_nodes"]

    @property
    def breakdown(self) -> Table:
        """Weight of the path by bound in µs and percent, with the number of edges."""
        return self.tables["critical_path_breakdown"]

    @property
    def top(self) -> Table:
        """Event names with the largest share of the path."""
        return self.tables["critical_path_names"]

    def what_if(self, *edits: str) -> CriticalPath:
        """The critical path after edits of durations, applied in order.

        An edit is ``WHAT[:NAME]=CHANGE``. WHAT is ``cpu``, ``gpu``, ``launch`` (launch latencies), ``gap`` (gaps between
        kernels) or ``all``. NAME is an event name, in which ``*`` matches any text. CHANGE is ``x0.5`` (a factor), ``-20%``
        or ``0`` (the new duration in µs).

        ``path.what_if("cpu:cudaMalloc=0", "gpu:*gemm*=x0.5").weight_us``

        Raises :class:`AnalysisError` for an invalid edit.
        """
        return CriticalPath(self._native.what_if(list(edits)), self._source)

    def overlay(
        self,
        target: PathLike,
        *,
        source: PathLike | None = None,
        only_critical: bool = False,
        all_edges: bool = False,
    ) -> OverlaySummary:
        """Write a copy of the trace that highlights the path, for Perfetto or Chrome. Events on the path get the argument
        ``"critical": 1``, and arrows show their dependencies.

        ``target``: the file to write (compressed if its name ends in ``.gz``), or a directory, in which the file is named
        ``overlaid_critical_path_`` + the original's name. ``source``: the trace file, required if the run was not opened
        from a plain or compressed file. ``only_critical``: leave out complete events that are neither on the path nor
        annotations nor Python frames. ``all_edges``: draw arrows for the whole graph instead of only the path.

        Raises ``OSError`` if the file cannot be written, :class:`ReadError` if the source is damaged, and :class:`AnalysisError` if
        the source is a different trace, in which events of the path have other names or start times.
        """
        origin = os.fspath(source) if source is not None else self._source
        if origin is None:
            raise ValueError("the trace file of this path is unknown: name it by source=")
        file = os.fspath(target)
        if os.path.isdir(file):
            file = os.path.join(file, f"overlaid_critical_path_{os.path.basename(origin)}")
        if os.path.exists(file) and os.path.samefile(file, origin):
            raise ValueError(f"{file} is the trace itself: choose another name for the overlay")
        events, marked, left_out, flows, truncated = self._native.overlay(origin, file, only_critical, all_edges)
        return OverlaySummary(file, events, marked, left_out, flows, truncated)

    def save(self, target: PathLike) -> None:
        """Write graph, path and settings to a JSON file, for :meth:`restore`. Raises ``OSError``."""
        self._native.save(os.fspath(target))

    @classmethod
    def restore(cls, source: PathLike) -> CriticalPath:
        """Read a file written by :meth:`save` or ``stackline critical-path --save``. No code of the file is executed.

        Raises ``OSError`` if the file does not exist, :class:`ReadError` if it is damaged.
        """
        return cls(_native.CriticalPath.restore(os.fspath(source)))

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name} {percent:.1f} %" for name, percent in self.bound_by.items() if percent > 0)
        lines = [
            f"Critical path ({self.method} {self.rule_set}): {self.weight_us:,.0f} µs over a window of "
            f"{self.window_ns / 1000:,.0f} µs, {self.path_events:,} events",
            f"  bound by: {bounds or 'nothing'}",
            *(f"  Note: {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>{self.breakdown._repr_html_()}{self.top._repr_html_()}"
