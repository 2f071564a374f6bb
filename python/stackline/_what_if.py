"""What-if: what changes would gain."""

from __future__ import annotations

from html import escape
from typing import Any, cast

from . import _native
from ._table import Table


class Prediction:
    """What edits would do to a window: made by :meth:`Run.what_if`. Immutable. Times in ns."""

    __slots__ = ("_summary", "_tables")

    def __init__(self, native: _native.Prediction) -> None:
        self._summary: dict[str, Any] = native.summary()
        self._tables: dict[str, Table] = {table.name: table for table in map(Table, native.tables())}

    @property
    def before_ns(self) -> int:
        """Length of the window as it was."""
        return cast(int, self._summary["before_ns"])

    @property
    def after_ns(self) -> int:
        """Length of the window after the edits."""
        return cast(int, self._summary["after_ns"])

    @property
    def gain_ns(self) -> int:
        """What is gained; negative where the window would be longer."""
        return cast(int, self._summary["gain_ns"])

    @property
    def gain_bounds_ns(self) -> tuple[int, int]:
        """The least and the most: what the trace does not tell taken against and in favour of the edits."""
        return cast("tuple[int, int]", self._summary["gain_bounds_ns"])

    @property
    def bound_by_ns(self) -> dict[str, int]:
        """The path after the edits: time by cause."""
        return dict(self._summary["bound_by_ns"])

    @property
    def bound_by_ns_before(self) -> dict[str, int]:
        """The path before the edits: time by cause."""
        return dict(self._summary["bound_by_ns_before"])

    @property
    def next_bound(self) -> str | None:
        """The cause with most time on the path after the edits: what to look at next."""
        return cast("str | None", self._summary["next_bound"])

    @property
    def edits(self) -> list[tuple[str, int]]:
        """The edits, each with the number of events that it is about."""
        return list(self._summary["edits"])

    @property
    def notes(self) -> list[str]:
        """What the reader should know, a sentence each."""
        return list(self._summary["notes"])

    @property
    def tables(self) -> dict[str, Table]:
        """``bound_by`` (causes before and after) and ``top`` (names with most time on the path after)."""
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
