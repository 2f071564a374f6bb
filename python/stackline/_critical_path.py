"""Critical paths: the chain of host and GPU work that decides how long a window takes."""

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
    """What :meth:`CriticalPath.overlay` wrote."""

    path: str
    """The file."""
    events: int
    """Events of the original met."""
    marked: int
    """Events marked with ``"critical": 1`` among their arguments."""
    left_out: int
    """Events left out (``only_critical``)."""
    flow_events: int
    """Arrow events added, two per arrow."""
    truncated: bool
    """Whether the original ended early; what was complete has been written and closed."""


class CriticalPath:
    """A critical path: made by :meth:`Run.critical_path`, :meth:`what_if` or :meth:`restore`. Immutable.

    Weights are in µs, as the method's rules count them; they need not add up to the window (HTA's rules give gaps
    between top-level operators no weight).
    """

    __slots__ = ("_native", "_source", "_summary", "_tables")

    def __init__(self, native: _native.CriticalPath, source: str | None = None) -> None:
        self._native = native
        self._source = source
        self._summary: dict[str, Any] = native.summary()
        self._tables: dict[str, Table] | None = None

    @property
    def method(self) -> str:
        """How the path was found, such as ``hta``."""
        return cast(str, self._summary["method"])

    @property
    def rule_set(self) -> str:
        """Version of the method's rules."""
        return cast(str, self._summary["rule_set"])

    @property
    def window_ns(self) -> int:
        """Length of the analysed window in ns."""
        return cast(int, self._summary["window_ns"])

    @property
    def window(self) -> tuple[int, int]:
        """Start and end of the analysed window in ns since the trace's base."""
        return cast("tuple[int, int]", self._summary["window"])

    @property
    def weight_us(self) -> float:
        """Weight of the path in µs."""
        return cast(float, self._summary["weight_us"])

    @property
    def bound_by(self) -> dict[str, float]:
        """What the path's time is bound by, in percent of its weight: ``cpu_bound``, ``data_loading``,
        ``gpu_compute_bound``, ``gpu_communication_bound``, ``gpu_kernel_kernel_overhead``,
        ``gpu_kernel_launch_overhead``; the empty name stands for dependencies and synchronisation, which weigh nothing."""
        return dict(self._summary["bound_by"])

    @property
    def bound_by_us(self) -> dict[str, float]:
        """The same in µs."""
        return dict(self._summary["bound_by_us"])

    @property
    def edges(self) -> dict[str, int]:
        """Edges of the whole graph by type (``OPERATOR_KERNEL``, ``DEPENDENCY``, ``KERNEL_LAUNCH_DELAY`` ...)."""
        return dict(self._summary["edges"])

    @property
    def path_edges(self) -> dict[str, int]:
        """Edges of the path by type."""
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
        """What was met on the way that the reader should know, a sentence each."""
        return list(self._summary["warnings"])

    @property
    def tables(self) -> dict[str, Table]:
        """All tables of the result, by name: breakdown, names, edges, path."""
        if self._tables is None:
            self._tables = {table.name: table for table in map(Table, self._native.tables())}
        return self._tables

    @property
    def path(self) -> Table:
        """The points of the path in order: event (position in the file's event list), start or end, time in ns since
        the window's start, name, track."""
        return self.tables["critical_path_nodes"]

    @property
    def breakdown(self) -> Table:
        """What the path is bound by: weight in µs, percent, edges."""
        return self.tables["critical_path_breakdown"]

    @property
    def top(self) -> Table:
        """Events with the largest share of the path, by name."""
        return self.tables["critical_path_names"]

    def what_if(self, *edits: str) -> CriticalPath:
        """The critical path if some of its parts took less (or more) time; edits apply one after the other.

        An edit is ``WHAT[:NAME]=CHANGE``. WHAT is ``cpu``, ``gpu``, ``launch`` (launch delays), ``gap`` (gaps between
        kernels) or ``all``; NAME an event name in which ``*`` stands for any text; CHANGE is ``x0.5`` (times), ``-20%``
        or ``0`` (sets it, in µs).

        ``path.what_if("cpu:cudaMalloc=0", "gpu:*gemm*=x0.5").weight_us``

        Raises :class:`AnalysisError` for an edit that cannot be understood.
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
        """Writes the trace file with the path on top, to look at in Perfetto or Chrome: events on the path get
        ``"critical": 1`` among their arguments, and arrows show how they depend on each other.

        ``target``: the file to write (compressed if it ends in ``.gz``), or a directory, where it gets the name
        ``overlaid_critical_path_`` + the original's. ``source``: the trace file, needed where the run was not opened
        from a plain or compressed file. ``only_critical``: leave out complete events that are neither on the path nor
        annotations nor Python frames. ``all_edges``: arrows for the whole graph, not only for the path.

        Raises ``OSError`` if it cannot be written, :class:`ReadError` if the source is damaged,
        :class:`AnalysisError` if the events at the path's places have other names or starts: another trace.
        """
        origin = os.fspath(source) if source is not None else self._source
        if origin is None:
            raise ValueError("say with source= which trace file to lay the path over")
        file = os.fspath(target)
        if os.path.isdir(file):
            file = os.path.join(file, f"overlaid_critical_path_{os.path.basename(origin)}")
        if os.path.exists(file) and os.path.samefile(file, origin):
            raise ValueError(f"{file} is the trace itself; choose another name for the overlay")
        events, marked, left_out, flows, truncated = self._native.overlay(origin, file, only_critical, all_edges)
        return OverlaySummary(file, events, marked, left_out, flows, truncated)

    def save(self, target: PathLike) -> None:
        """Writes graph, path and settings to a JSON file, for :meth:`restore`. Raises ``OSError``."""
        self._native.save(os.fspath(target))

    @classmethod
    def restore(cls, source: PathLike) -> CriticalPath:
        """Reads what :meth:`save` (or ``stackline critical-path --save``) wrote; never runs anything from the file.

        Raises ``OSError`` if there is no such file, :class:`ReadError` if it is damaged.
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
