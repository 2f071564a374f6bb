"""Critical paths by method ``ctda``: dependencies across threads, time by phase of training."""

from __future__ import annotations

from html import escape
from typing import Any, cast

from . import _native
from ._table import Table


class CtdaPath:
    """A critical path by the rules of CTDA-CPA, returned by ``run.critical_path("ctda")`` or :meth:`what_if`. Immutable."""

    __slots__ = ("_native", "_summary", "_tables")

    def __init__(self, native: _native.CtdaPath) -> None:
        self._native = native
        self._summary: dict[str, Any] = native.summary()
        self._tables: dict[str, Table] | None = None

    @property
    def method(self) -> str:
        """``ctda``."""
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
        """Time in which events of the path ran, in µs."""
        return cast(float, self._summary["weight_us"])

    @property
    def cpcr(self) -> float:
        """Critical path coverage ratio: :attr:`weight_us` divided by the length of the window, 0 to 1."""
        return cast(float, self._summary["cpcr"])

    @property
    def bound_by(self) -> dict[str, float]:
        """Share of the path's weight by bound, in percent: ``cpu_bound``, ``data_loading``,
        ``gpu_compute_bound``, ``gpu_communication_bound``."""
        return dict(self._summary["bound_by"])

    @property
    def bound_by_us(self) -> dict[str, float]:
        """Weight of the path by bound in µs."""
        return dict(self._summary["bound_by_us"])

    @property
    def phases_us(self) -> dict[str, float]:
        """Time of the path by phase of training in µs; ``other`` if no phase rule matches."""
        return dict(self._summary["phases_us"])

    @property
    def edges(self) -> dict[str, int]:
        """Number of edges of the graph by kind: ``SEQUENCE``, ``CALL``, ``SYNC``, ``CROSS_THREAD``."""
        return dict(self._summary["edges"])

    @property
    def path_edges(self) -> dict[str, int]:
        """Number of edges of the path by kind."""
        return dict(self._summary["path_edges"])

    @property
    def graph_nodes(self) -> int:
        """Number of nodes of the graph."""
        return cast(int, self._summary["graph_nodes"])

    @property
    def path_nodes(self) -> int:
        """Number of nodes on the path."""
        return cast(int, self._summary["path_nodes"])

    @property
    def path_events(self) -> int:
        """Number of events with time on the path."""
        return cast(int, self._summary["path_events"])

    @property
    def warnings(self) -> list[str]:
        """Warnings of the analysis, one sentence each."""
        return list(self._summary["warnings"])

    @property
    def tables(self) -> dict[str, Table]:
        """All tables of the result by name: hotspots, phases, edges, path."""
        if self._tables is None:
            self._tables = {table.name: table for table in map(Table, self._native.tables())}
        return self._tables

    @property
    def hotspots(self) -> Table:
        """Time of the path by event name: category, duration in ns, percent of the path (``proportion``) and of the window
        (``prop_in_total``)."""
        return self.tables["hotspots"]

    @property
    def path(self) -> Table:
        """Nodes of the path in order: resource, phase, track, start and end of the counted part in ns since the window's
        start, executed time, incoming edge, event with the most time."""
        return self.tables["critical_path"]

    def what_if(self, *edits: str) -> CtdaPath:
        """The critical path after edits of durations, by replay of the graph. See :meth:`CriticalPath.what_if` for the
        syntax of edits. :attr:`window_ns` of the result is the new length.

        Raises :class:`AnalysisError` for an invalid edit.
        """
        return CtdaPath(self._native.what_if(list(edits)))

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name} {percent:.1f} %" for name, percent in self.bound_by.items() if percent > 0)
        lines = [
            f"Critical path ({self.method} {self.rule_set}): {self.weight_us:,.0f} µs executed in a window of "
            f"{self.window_ns / 1000:,.0f} µs ({100 * self.cpcr:.1f} % covered), {self.path_nodes:,} nodes",
            f"  bound by: {bounds or 'nothing'}",
            *(f"  Note: {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>{self.hotspots._repr_html_()}"
