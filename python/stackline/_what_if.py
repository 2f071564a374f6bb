"""What-if predictions: estimated gains of edits."""

from __future__ import annotations

from html import escape
from typing import Any, cast

from . import _native
from ._table import Table


class Prediction:
    """Predicted effect of edits on a window, returned by :meth:`Run.what_if`. Immutable. Times in ns."""

    __slots__ = ("_summary", "_tables")

    def __init__(self, native: _native.Prediction) -> None:
        self._summary: dict[str, Any] = native.summary()
        self._tables: dict[str, Table] = {table.name: table for table in map(Table, native.tables())}

    @property
    def before_ns(self) -> int:
        """Length of the window before the edits."""
        return cast(int, self._summary["before_ns"])

    @property
    def after_ns(self) -> int:
        """Length of the window after the edits."""
        return cast(int, self._summary["after_ns"])

    @property
    def gain_ns(self) -> int:
        """Estimated gain; negative if the window becomes longer."""
        return cast(int, self._summary["gain_ns"])

    @property
    def gain_bounds_ns(self) -> tuple[int, int]:
        """Lower and upper bound of the gain. Facts that the trace lacks count against the edits in one and for them in the other."""
        return cast("tuple[int, int]", self._summary["gain_bounds_ns"])

    @property
    def bound_by_ns(self) -> dict[str, int]:
        """Time on the critical path after the edits, by cause."""
        return dict(self._summary["bound_by_ns"])

    @property
    def bound_by_ns_before(self) -> dict[str, int]:
        """Time on the critical path before the edits, by cause."""
        return dict(self._summary["bound_by_ns_before"])

    @property
    def next_bound(self) -> str | None:
        """The cause with most time on the critical path after the edits: the next bottleneck."""
        return cast("str | None", self._summary["next_bound"])

    @property
    def edits(self) -> list[tuple[str, int]]:
        """The edits, each with the number of events that it changes."""
        return list(self._summary["edits"])

    @property
    def notes(self) -> list[str]:
        """Notes on the prediction, one sentence each."""
        return list(self._summary["notes"])

    @property
    def tables(self) -> dict[str, Table]:
        """``bound_by`` (time by cause before and after) and ``top`` (names with most time on the path after the edits)."""
        return dict(self._tables)

    def __repr__(self) -> str:
        low, high = self.gain_bounds_ns
        share = 100 * self.gain_ns / self.before_ns if self.before_ns else 0.0
        lines = [
            f"What if: {self.before_ns / 1e6:,.3f} ms before, {self.after_ns / 1e6:,.3f} ms after",
            f"  gain {self.gain_ns / 1e6:,.3f} ms ({share:.1f} %), from {low / 1e6:,.3f} to {high / 1e6:,.3f} ms",
            *(f"  {edit} ({count:,} events)" for edit, count in self.edits),
            *(f"  Note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"
