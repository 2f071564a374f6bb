"""Critical paths by method ``exact``: every nanosecond of the window has one cause."""

from __future__ import annotations

from html import escape
from typing import Any, cast

from . import _native
from ._table import Table


class ExactPath:
    """A critical path that is as long as its window: made by ``run.critical_path()``. Immutable."""

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
        """Length of the analysed window in ns."""
        return cast(int, self._summary["window_ns"])

    @property
    def window(self) -> tuple[int, int]:
        """Start and end of the analysed window in ns since the trace's base."""
        return cast("tuple[int, int]", self._summary["window"])

    @property
    def path_ns(self) -> int:
        """Length of the path in ns: that of the window."""
        return cast(int, self._summary["path_ns"])

    @property
    def bound_by(self) -> dict[str, float]:
        """Cause to percent of the window, such as ``gpu_compute`` or ``launch_latency``; causes without time are left out."""
        return dict(self._summary["bound_by"])

    @property
    def bound_by_ns(self) -> dict[str, int]:
        """The same in ns."""
        return dict(self._summary["bound_by_ns"])

    @property
    def inferred_ns(self) -> int:
        """Time in ns whose cause is inferred by a rule or unknown."""
        return cast(int, self._summary["inferred_ns"])

    @property
    def inferred_by_rule_ns(self) -> dict[str, int]:
        """The same by the rule that was assumed to hold.

        ``gap`` and ``innermost_span`` are host time that may have been a wait.
        """
        return cast(dict[str, int], self._summary["inferred_by_rule_ns"])

    @property
    def edges(self) -> dict[str, int]:
        """Edges of the dependency graph by the rule behind them."""
        return dict(self._summary["edges"])

    @property
    def graph_nodes(self) -> int:
        """Number of nodes of the dependency graph."""
        return cast(int, self._summary["graph_nodes"])

    @property
    def path_nodes(self) -> int:
        """Number of hops."""
        return cast(int, self._summary["path_nodes"])

    @property
    def path_events(self) -> int:
        """Number of events with time on the path."""
        return cast(int, self._summary["path_events"])

    @property
    def warnings(self) -> list[str]:
        """What was met on the way that the reader should know, a sentence each."""
        return list(self._summary["warnings"])

    @property
    def tables(self) -> dict[str, Table]:
        """All tables of the result, by name."""
        if self._tables is None:
            self._tables = {table.name: table for table in map(Table, self._native.tables())}
        return self._tables

    @property
    def hops(self) -> Table:
        """The path, hop by hop: start and end in ns since the window's start, cause, track, event, operator, Python frame,
        how sure the cause is and by which rule."""
        return self.tables["hops"]

    @property
    def story(self) -> Table:
        """The path in at most twenty lines: consecutive hops of one module are one line."""
        return self.tables["story"]

    def __repr__(self) -> str:
        causes = sorted(self.bound_by.items(), key=lambda cause: -cause[1])
        told = ", ".join(f"{name} {percent:.1f} %" for name, percent in causes[:5])
        lines = [
            f"Critical path ({self.method}) of {self.window_ns / 1000:,.0f} µs, {self.path_nodes:,} hops",
            f"  bound by: {told or 'nothing'}",
        ]
        lines += [f"  note: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"
