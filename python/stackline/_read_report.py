"""What reading had to repair, skip or lose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload


@dataclass(frozen=True)
class Problem:
    """One kind of problem met while reading a trace, with how often and where first."""

    code: str
    """Stable code, such as ``bare_quote``."""
    severity: str
    """``note`` (nothing was changed), ``repaired``, ``skipped`` (a record or value left out) or ``lost`` (truncation)."""
    message: str
    """One sentence: what was met and what was done."""
    count: int
    """How often."""
    offsets: tuple[int, ...]
    """Byte offsets of the first places in the decompressed text."""
    example: str
    """The first example, shortened."""
    trace: str
    """Name of the trace."""
    rank: int
    """Its rank."""

    def __str__(self) -> str:
        places = f" (first at byte {', '.join(map(str, self.offsets))})" if self.offsets else ""
        return f"{self.severity}: {self.message}, {self.count} times{places} [{self.trace}]"


class ReadReport(Sequence[Problem]):
    """What reading had to repair, skip or lose; empty for a sound file. A sequence of :class:`Problem`."""

    __slots__ = ("_problems",)

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._problems = tuple(problems)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was repaired, skipped or lost (notes do not count)."""
        return all(p.severity == "note" for p in self._problems)

    def __len__(self) -> int:
        return len(self._problems)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Problem, ...]: ...
    def __getitem__(self, index: int | slice) -> Problem | tuple[Problem, ...]:
        return self._problems[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReadReport) and self._problems == other._problems

    def __hash__(self) -> int:
        return hash(self._problems)

    def __repr__(self) -> str:
        return "\n".join(["Read report:", *(f"  {p}" for p in self)]) if self else "Read report: nothing to report"


def problem(fields: dict[str, Any]) -> Problem:
    """A problem as the native module tells it."""
    return Problem(**{**fields, "offsets": tuple(fields["offsets"])})
