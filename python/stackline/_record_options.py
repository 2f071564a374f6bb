"""Options of a recording, passed as environment variables so that child processes inherit them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ._analyses import Steps

_UNITS_S = {"": 1.0, "s": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0}
# At higher rates sampling takes most of the program's time.
_MOST_HZ = 10_000
# Equal to the recorder's LEAST_UNRECORDED_STEPS.
_FEWEST_OVERHEAD_STEPS = 24
# Sources of data that can be disabled.
SOURCES = ("python", "pytorch", "compilations", "kernels")
# Equal to the recorder's list of counters.
COUNTERS = (
    "page-faults", "major-faults", "context-switches", "cpu-migrations", "cycles", "instructions", "cache-references",
    "cache-misses", "branches", "branch-misses",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """Options of a recording (see :func:`stackline.record`). ``None`` keeps the value of the environment."""

    python: bool | None = None
    pytorch: bool | None = None
    compilations: bool | None = None
    kernels: bool | None = None
    memory: bool | None = None
    native: bool | None = None
    shapes: bool | None = None
    sample_hz: int | None = None
    wall_hz: int | None = None
    wait_hz: int | None = None
    counters: Sequence[str] | None = None
    mode: Literal["profile", "trace"] | None = None
    steps: Steps | str = None
    every: int | None = None
    after: float | str | None = None
    duration: float | str | None = None
    max_nodes: int | None = None
    overhead_steps: int | None = None

    def environment(self) -> dict[str, str]:
        """Environment variables to set. Raises ``ValueError`` for invalid options."""
        found: dict[str, str] = {}
        if any(getattr(self, name) is not None for name in SOURCES):
            found["STACKLINE_DISABLE"] = self._disabled()
        for name, switch in (("MEMORY", self.memory), ("NATIVE", self.native), ("SHAPES", self.shapes)):
            if switch is not None:
                found[f"STACKLINE_{name}"] = "1" if switch else "0"
        for name in ("sample_hz", "wall_hz", "wait_hz"):
            hz = getattr(self, name)
            if hz is not None:
                found[f"STACKLINE_{name.upper()}"] = str(_number(name, hz, 0, _MOST_HZ))
        if self.counters is not None:
            found["STACKLINE_COUNTERS"] = _counters(self.counters)
        if self.mode is not None:
            if self.mode not in ("profile", "trace"):
                raise ValueError(f"mode is {self.mode!r}; there are 'profile' and 'trace'")
            found["STACKLINE_MODE"] = self.mode
        if self.steps is not None:
            found["STACKLINE_STEPS"] = _steps(self.steps)
        if self.every is not None:
            found["STACKLINE_EVERY"] = str(_number("every", self.every, 1, 2**63))
        for name, time in (("after", self.after), ("duration", self.duration)):
            if time is not None:
                found[f"STACKLINE_{name.upper()}"] = _time(name, time)
        if self.overhead_steps is not None:
            found["STACKLINE_OVERHEAD_STEPS"] = _overhead_steps(self.overhead_steps)
        if self.max_nodes is not None:
            found["STACKLINE_MAX_NODES"] = str(_number("max_nodes", self.max_nodes, 1, 2**31))
        return found

    def _disabled(self) -> str:
        """Disabled sources: those of the environment, changed by the options that are given."""
        # STACKLINE_WITHOUT is the former name.
        inherited = os.environ.get("STACKLINE_DISABLE", os.environ.get("STACKLINE_WITHOUT", ""))
        disabled = [name for name in inherited.split(",") if name]
        for name in SOURCES:
            switch = getattr(self, name)
            if switch is not None:
                disabled = [other for other in disabled if other != name] + ([] if switch else [name])
        return ",".join(disabled)


def _number(name: str, value: int, least: int, most: int) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}; give an integer from {least} to {most}")
    return value


def _overhead_steps(steps: int) -> str:
    """Check the number of unrecorded steps. With too few, the overhead stays unknown although their data are lost."""
    if steps in range(1, _FEWEST_OVERHEAD_STEPS):
        raise ValueError(f"overhead_steps is {steps}; give {_FEWEST_OVERHEAD_STEPS} or more, or 0 to measure none")
    return str(_number("overhead_steps", steps, 0, 2**31))


def _counters(counters: Sequence[str]) -> str:
    unknown = [name for name in ([counters] if isinstance(counters, str) else counters) if name not in COUNTERS]
    if unknown or isinstance(counters, str):
        raise ValueError(f"counters is {counters!r}; give a list of some of {', '.join(COUNTERS)}")
    return ",".join(counters)


def _steps(steps: int | tuple[int, int] | str) -> str:
    """Format steps as ``A..B``, both included, for the recorder. Steps count from 0."""
    if isinstance(steps, str):
        found = re.fullmatch(r"(\d*)\.\.(\d*)", steps.strip())
        if not found:
            raise ValueError(f"steps is {steps!r}; give (10, 19), or '10..20' as on the command line")
        first, last = int(found[1] or 0), int(found[2]) if found[2] else None
    else:
        first, last = (steps, steps) if isinstance(steps, int) else steps
    if first < 0 or (last is not None and last < first):
        raise ValueError(f"steps is {steps!r}, which selects no step; steps count from 0")
    return f"{first}..{'' if last is None else last}"


def _time(name: str, time: float | str) -> str:
    """Format a time (seconds, or a text with a unit) for the recorder."""
    text = time.strip() if isinstance(time, str) else f"{time:f}"
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)([a-z]*)", text)
    if not found or found[2] not in _UNITS_S:
        raise ValueError(f"{name} is {time!r}; give seconds, or a text such as '30s', '500ms' or '2m'")
    if name == "duration" and float(found[1]) == 0:
        raise ValueError(f"duration is {time!r}; give a time longer than 0")
    if float(found[1]) * _UNITS_S[found[2]] > 1e9:
        raise ValueError(f"{name} is {time!r}; give a time of at most 30 years")
    return text
