"""Zero times that rules can divide by."""

from __future__ import annotations

import math


class NoTime(int):
    """Zero time of a call-tree node. Division by it gives ``nan``, which is neither above nor below any threshold.

    Otherwise it behaves as the ``int`` 0. A ``float`` divided by it still raises, because Python calls the reflected operator of an
    ``int`` subclass only if the left operand is an ``int``.
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
