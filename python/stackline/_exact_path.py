"""Critical paths by method ``exact``: each nanosecond of the window has exactly one cause."""

from __future__ import annotations

import warnings
from html import escape
from typing import Any, cast

from . import _native
from ._table import Table


class ExactPath:
    """A critical path as long as its window, returned by ``run.critical_path()``. Immutable."""

    __slots__ = ("_native", "_summary", "_tables")

    def __init__(self, native: _native.ExactPath) -> None:
        self._native = native
        self._summary: dict[str, Any] = native.summary()
        self._tables: dict[str, Table] | None = None

    @property
    def method(self) -> str:
        """``exact``."""
        return cast(str, self._summary["method"])

    @property
    def window_ns(self) -> int:
        """Length of the analyzed window in ns."""
        return cast(int, self._summary["window_ns"])

    @property
    def window(self) -> tuple[int, int]:
        """Start and end of the analyzed window in ns since the trace's base."""
        return cast("tuple[int, int]", self._summary["window"])

    @property
    def path_ns(self) -> int:
        """Length of the path in ns, equal to the window."""
        return cast(int, self._summary["path_ns"])

    @property
    def bound_by(self) -> dict[str, float]:
        """Share of the window by cause (``gpu_compute``, ``launch_latency`` ...) in percent, without causes that have no time."""
        return dict(self._summary["bound_by"])

    @property
    def bound_by_ns(self) -> dict[str, int]:
        """Time of the window by cause in ns."""
        return dict(self._summary["bound_by_ns"])

    @property
    def inferred_ns(self) -> int:
        """Time in ns whose cause is unknown or inferred by a rule."""
        return cast(int, self._summary["inferred_ns"])

    @property
    def inferred_by_rule_ns(self) -> dict[str, int]:
        """Time of :attr:`inferred_ns` by rule.

        ``gap`` and ``innermost_span`` are host time that may be a wait; ``wait_samples`` are waits that samples show.
        """
        return cast(dict[str, int], self._summary["inferred_by_rule_ns"])

    @property
    def edges(self) -> dict[str, int]:
        """Number of edges of the dependency graph by rule."""
        return dict(self._summary["edges"])

    @property
    def graph_nodes(self) -> int:
        """Number of nodes of the dependency graph."""
        return cast(int, self._summary["graph_nodes"])

    @property
    def path_nodes(self) -> int:
        """Number of segments of the path."""
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
        """All tables of the result by name."""
        if self._tables is None:
            self._tables = {table.name: table for table in map(Table, self._native.tables())}
        return self._tables

    @property
    def segments(self) -> Table:
        """The segments of the path in order: start and end in ns since the window's start, cause, track, event, operator,
        Python frame, and evidence of the cause with its rule."""
        return self.tables["segments"]

    @property
    def summary(self) -> Table:
        """Summary of the path in at most 20 lines; consecutive segments of one module share a line."""
        return self.tables["summary"]

    @property
    def hops(self) -> Table:
        """Deprecated name of :attr:`segments`."""
        warnings.warn("ExactPath.hops is now called segments; the old name will be removed", DeprecationWarning, stacklevel=2)
        return self.segments

    @property
    def story(self) -> Table:
        """Deprecated name of :attr:`summary`."""
        warnings.warn("ExactPath.story is now called summary; the old name will be removed", DeprecationWarning, stacklevel=2)
        return self.summary

    def __repr__(self) -> str:
        causes = sorted(self.bound_by.items(), key=lambda cause: -cause[1])
        causes_text = ", ".join(f"{name} {percent:.1f} %" for name, percent in causes[:5])
        lines = [
            f"Critical path ({self.method}) of {self.window_ns / 1000:,.0f} µs, {self.path_nodes:,} segments",
            f"  bound by: {causes_text or 'nothing'}",
        ]
        lines += [f"  note: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"
