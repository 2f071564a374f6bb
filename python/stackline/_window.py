"""Checks of the arguments that select a window: steps, annotation, instance, whole trace."""

from __future__ import annotations

from ._analyses import Steps
from ._errors import AnalysisError


def exact_window(
    annotation: str, instance: int | tuple[int, int] | None, steps: Steps, whole: bool
) -> tuple[tuple[int, int] | None, tuple[int, int] | None, bool]:
    """Instances and steps of a window of method ``exact``, and true for the whole trace."""
    if (steps is not None) + bool(annotation) + whole > 1:
        raise AnalysisError("steps, annotation and whole each choose a window: give one of them")
    if isinstance(instance, int):
        instance = (instance, instance)
    if instance is not None and min(instance) < 0:
        raise AnalysisError(f"instance is {instance}; instances count from 0")
    return instance, step_range(steps), whole


def is_whole_trace(steps: Steps, whole: bool) -> bool:
    """True if a table covers the whole trace. Raises :class:`AnalysisError` if steps are given, too."""
    if whole and steps is not None:
        raise AnalysisError("steps and whole each choose a window: give one of them")
    return whole


def step_range(steps: Steps) -> tuple[int, int] | None:
    """First and last step, both included; ``None`` if no steps are given."""
    if steps is None:
        return None
    first, last = (steps, steps) if isinstance(steps, int) else steps
    if first > last:
        raise ValueError(f"steps is ({first}, {last}); the first must not be after the last")
    return first, last
