"""Memory: who holds it, what of it is for nothing, what a change would save."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal

from . import _native
from ._read_report import ReadReport, problem
from ._run import PathLike
from ._table import Table

By = Literal["place", "path", "kind", "module", "phase", "size", "operator", "dtype", "pool"]


class Memory:
    """The memory of one process over time, made by :func:`open_memory` or :meth:`Run.memory`. Immutable. Sizes are bytes, times ns.

    Calls are numbered from 0 in the order in which the host made them; columns such as ``call``, ``allocated_by`` and
    ``freed_by`` are such numbers, and ``object`` is a row of :attr:`objects` by that number.
    """

    __slots__ = ("_native", "_summary")

    def __init__(self, native: _native.Memory) -> None:
        self._native = native
        self._summary: dict[str, Any] = native.summary()

    @property
    def name(self) -> str:
        """What people know it by: usually the file's name."""
        return str(self._summary["name"])

    @property
    def devices(self) -> list[str]:
        """Devices, such as ``cuda:0`` and ``cpu``."""
        return list(self._summary["devices"])

    @property
    def has_accesses(self) -> bool:
        """Whether the source says who touches memory. If not, only lifetimes can be judged."""
        return bool(self._summary["has_accesses"])

    @property
    def saw_end(self) -> bool:
        """Whether the source saw the program end. If not, what is alive at the end is no leak yet."""
        return bool(self._summary["saw_end"])

    @property
    def read_report(self) -> ReadReport:
        """What reading had to repair, skip or lose."""
        return ReadReport(problem(fields) for fields in self._native.problems())

    @property
    def peaks(self) -> Table:
        """The peaks of each device: ``P1`` is the highest of all."""
        return Table(self._native.peaks())

    def at_peak(self, by: By = "place") -> Table:
        """Who is in use at the peaks, summed by ``by``. Raises :class:`AnalysisError` if it is no such word."""
        return Table(self._native.at_peak(by))

    def alive(self, peak: str = "P1") -> Table:
        """The objects in use at a peak, one by one. Raises :class:`AnalysisError` if there is no such peak."""
        return Table(self._native.alive(peak))

    @property
    def curve(self) -> Table:
        """Memory in use over time: a row for each call that changes it."""
        return Table(self._native.curve())

    @property
    def objects(self) -> Table:
        """All objects, largest first: pieces of memory from their allocation to their free."""
        return Table(self._native.objects())

    @property
    def calls(self) -> Table:
        """What the host called, in its order: allocations, frees, copies, sets, kernels or operators, waits."""
        return self.table("memory_calls")

    @property
    def accesses(self) -> Table:
        """Which call touched which object, in which direction, and how that is known."""
        return self.table("memory_accesses")

    @property
    def waste(self) -> Table:
        """What is held for nothing, by pattern and place."""
        return Table(self._native.waste())

    @property
    def suggestions(self) -> Table:
        """What to change, best first, with the bytes that each saves at each peak. The notes say which save most together."""
        return Table(self._native.suggestions())

    def apply(self, numbers: Iterable[int]) -> Table:
        """The peak of each device if these suggestions (by their numbers in :attr:`suggestions`) were followed.

        Raises :class:`AnalysisError` if there is no such suggestion.
        """
        wanted = list(numbers)
        return Table(self._native.apply([number if number > 0 else 0 for number in wanted]))

    @property
    def allocator(self) -> Table | None:
        """Segments and blocks of the caching allocator; ``None`` where the source does not tell of them."""
        native = self._native.allocator()
        return None if native is None else Table(native)

    @property
    def out_of_memory(self) -> Table | None:
        """Requests that failed, and why; ``None`` if none did."""
        native = self._native.out_of_memory()
        return None if native is None else Table(native)

    def table(self, name: str) -> Table:
        """A table as run directories have it (docs/formats/run-directory.md): ``memory_calls``, ``memory_stacks`` ..."""
        if name not in _native.memory_tables():
            raise KeyError(f"no table {name!r}; there are {', '.join(_native.memory_tables())}")
        return Table(self._native.raw(name))

    def to_text(self) -> str:
        """The text form, for people to read and change; :func:`open_memory` reads it back."""
        return self._native.to_text()

    def save(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Writes a run directory that keeps all of it. ``overwrite`` replaces a run, and never anything else."""
        self._native.save(os.fspath(path), overwrite)

    def __repr__(self) -> str:
        devices = ", ".join(self.devices) or "no device"
        lines = [f"Memory of {self.name} on {devices}"]
        lines += [f"  {row['peak']}: {row['bytes'] / 1e6:,.3f} MB on {row['device']}" for row in self.peaks]
        return "\n".join(lines)


def checked_peaks(peaks: int) -> int:
    """The number of peaks that get a name, if it is 1 to 1000; else raises ``ValueError``."""
    if not 1 <= peaks <= 1000:
        raise ValueError(f"peaks is {peaks}; give 1 to 1000")
    return peaks


def open_memory(path: PathLike, *, peaks: int = 2) -> Memory:
    """Opens whatever tells of memory: a snapshot of PyTorch, a recording made with ``memory=True``, a trace of ``torch.profiler``
    with ``profile_memory=True``, a run directory that keeps one of these, and what else docs/reference/memory.md lists.

    ``peaks``: so many peaks of each device get a name.

    Pickles are read without running anything in them. Releases the GIL; Ctrl-C ends it. Raises :class:`ReadError` if the
    input cannot be read or tells nothing of memory.
    """
    return Memory(_native.open_memory(os.fspath(path), checked_peaks(peaks)))
