"""Memory analysis: peaks by owner, wasted allocations, and savings of suggested changes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any, Literal

from . import _native
from ._read_report import ReadReport, problem
from ._run import PathLike
from ._run import open as open_run
from ._table import Table

By = Literal["place", "path", "kind", "module", "phase", "size", "operator", "dtype", "pool"]


class Memory:
    """Memory of one process over time, returned by :meth:`Run.memory`. Immutable. Sizes in bytes, times in ns.

    Calls are numbered from 0 in the order of the host. Columns such as ``call``, ``allocated_by`` and ``freed_by`` contain these
    numbers. The column ``object`` is the number of a row of :attr:`objects`.
    """

    __slots__ = ("_native", "_summary")

    def __init__(self, native: _native.Memory) -> None:
        self._native = native
        self._summary: dict[str, Any] = native.summary()

    @property
    def name(self) -> str:
        """Display name, usually that of the file."""
        return str(self._summary["name"])

    @property
    def devices(self) -> list[str]:
        """Devices, such as ``cuda:0`` and ``cpu``."""
        return list(self._summary["devices"])

    @property
    def has_accesses(self) -> bool:
        """True if the source has accesses (reads and writes) of objects. Without accesses only lifetimes are analyzed."""
        return bool(self._summary["has_accesses"])

    @property
    def saw_end(self) -> bool:
        """True if the source covers the end of the program. Otherwise objects that are live at the end are not leaks."""
        return bool(self._summary["saw_end"])

    @property
    def read_report(self) -> ReadReport:
        """Diagnostics of reading: repaired, skipped and lost records."""
        return ReadReport(problem(fields) for fields in self._native.problems())

    @property
    def peaks(self) -> Table:
        """Peaks of each device. ``P1`` is the highest peak of all devices."""
        return Table(self._native.peaks())

    def at_peak(self, by: By = "place") -> Table:
        """Bytes in use at the peaks, summed by ``by``. Raises :class:`AnalysisError` for an unknown ``by``."""
        return Table(self._native.at_peak(by))

    def alive(self, peak: str = "P1") -> Table:
        """Objects in use at a peak. Raises :class:`AnalysisError` if the peak does not exist."""
        return Table(self._native.alive(peak))

    @property
    def curve(self) -> Table:
        """Memory in use over time, with one row per call that changes it."""
        return Table(self._native.curve())

    @property
    def objects(self) -> Table:
        """All objects (allocations, from allocation to free), largest first."""
        return Table(self._native.objects())

    @property
    def calls(self) -> Table:
        """Calls of the host in order: allocations, frees, copies, fills, kernels or operators, waits."""
        return self.table("memory_calls")

    @property
    def accesses(self) -> Table:
        """Accesses: the call, the object, read or write, and the evidence."""
        return self.table("memory_accesses")

    @property
    def waste(self) -> Table:
        """Wasted memory by pattern and source location."""
        return Table(self._native.waste())

    @property
    def suggestions(self) -> Table:
        """Suggested changes, largest saving first, with the bytes saved at each peak. The notes name the best combination."""
        return Table(self._native.suggestions())

    def apply(self, numbers: Iterable[int]) -> Table:
        """Peak of each device after these suggestions, given by their numbers in :attr:`suggestions`.

        Raises :class:`AnalysisError` if a suggestion does not exist.
        """
        suggestion_numbers = list(numbers)
        return Table(self._native.apply([number if number > 0 else 0 for number in suggestion_numbers]))

    @property
    def allocator(self) -> Table | None:
        """Segments and blocks of the caching allocator; ``None`` if the source lacks them."""
        native = self._native.allocator()
        return None if native is None else Table(native)

    @property
    def out_of_memory(self) -> Table | None:
        """Failed allocations with the reason; ``None`` if none failed."""
        native = self._native.out_of_memory()
        return None if native is None else Table(native)

    def table(self, name: str) -> Table:
        """A table in the layout of run directories (docs/formats/run-directory.md): ``memory_calls``, ``memory_stacks`` ..."""
        if name not in _native.memory_tables():
            raise KeyError(f"no table {name!r}; there are {', '.join(_native.memory_tables())}")
        return Table(self._native.raw(name))

    def to_text(self) -> str:
        """Text form of the memory data, which can be edited and opened by :func:`open`."""
        return self._native.to_text()

    def save(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Write all memory data to a run directory. ``overwrite`` replaces an existing run, and no other file or directory."""
        self._native.save(os.fspath(path), overwrite)

    def __repr__(self) -> str:
        devices = ", ".join(self.devices) or "no device"
        lines = [f"Memory of {self.name} on {devices}"]
        lines += [f"  {row['peak']}: {row['bytes'] / 1e6:,.3f} MB on {row['device']}" for row in self.peaks]
        return "\n".join(lines)


def checked_peaks(peaks: int) -> int:
    """Check the number of named peaks. Raises ``ValueError`` unless it is 1 to 1000."""
    if not 1 <= peaks <= 1000:
        raise ValueError(f"peaks is {peaks}; give 1 to 1000")
    return peaks


def open_memory(path: PathLike, *, peaks: int = 2) -> Memory:
    """Deprecated alias of ``stackline.open(path).memory(peaks=peaks)``."""
    warnings.warn("open_memory is deprecated; use stackline.open(path).memory()", DeprecationWarning, stacklevel=2)
    return open_run(path).memory(peaks=peaks)
