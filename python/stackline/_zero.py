"""No time at all, which a rule can divide by."""

from __future__ import annotations

import math


class NoTime(int):
    """Zero, as nodes of call trees give it: divided by it, a number has no ratio (``nan``), which is neither more nor less than any
    threshold. Otherwise an ``int`` like any other; what is computed with it is one, too.

    A ``float`` divided by it still raises: Python asks an ``int`` only where the other one is an ``int``, too.
    """

    def __rtruediv__(self, other: object) -> float:
        return math.nan if isinstance(other, (int, float)) else NotImplemented

    def __truediv__(self, other: object) -> float:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return 0.0 if other else math.nan

    def __floordiv__(self, other: object) -> float:  # type: ignore[override]
        return self / other if not other else int(self) // other  # type: ignore[operator]

    def __mod__(self, other: object) -> float:  # type: ignore[override]
        return self / other if not other else int(self) % other  # type: ignore[operator]

    __rfloordiv__ = __rtruediv__  # type: ignore[assignment]
    __rmod__ = __rtruediv__  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return (int, (0,))


ZERO = NoTime(0)
