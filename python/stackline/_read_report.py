"""Diagnostics of reading an input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload


@dataclass(frozen=True)
class Problem:
    """One kind of problem in a trace, with its number and first positions."""

    code: str
    """Stable code, such as ``bare_quote``."""
    severity: str
    """``note`` (data unchanged), ``repaired``, ``skipped`` (a record or value is left out) or ``lost`` (the file is truncated)."""
    message: str
    """The problem and its handling, in one sentence."""
    count: int
    """Number of occurrences."""
    offsets: tuple[int, ...]
    """Byte offsets of the first occurrences in the decompressed text."""
    example: str
    """Text of the first occurrence, shortened."""
    trace: str
    """Name of the trace."""
    rank: int
    """Rank of the trace."""

    def __str__(self) -> str:
        places = f" (first at byte {', '.join(map(str, self.offsets))})" if self.offsets else ""
        return f"{self.severity}: {self.message}, {self.count} times{places} [{self.trace}]"


class ReadReport(Sequence[Problem]):
    """Repaired, skipped and lost records of an input as a sequence of :class:`Problem`; empty for an intact file."""

    __slots__ = ("_problems",)

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._problems = tuple(problems)

    @property
    def is_clean(self) -> bool:
        """True if no record was repaired, skipped or lost. Notes do not count."""
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
    """Convert a problem from the fields of the native module."""
    return Problem(**{**fields, "offsets": tuple(fields["offsets"])})
