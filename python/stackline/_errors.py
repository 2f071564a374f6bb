"""Exceptions of the package."""

from __future__ import annotations


class StacklineError(Exception):
    """Base class of all exceptions of this package."""


class ReadError(StacklineError):
    """The input could not be read at all. Partial damage is reported in :attr:`Run.read_report` instead.

    The message names the file, the error and, where possible, a fix.
    """

    path: str
    """The file or directory that could not be read."""
    byte: int | None
    """Offset in the decompressed file, in bytes; ``None`` if the error has no position."""

    def __init__(self, message: str, path: str = "", byte: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.byte = byte

    def __reduce__(self) -> tuple[type[ReadError], tuple[str, str, int | None]]:
        # Exceptions are pickled between processes (multiprocessing, Ray): keep the attributes.
        return type(self), (str(self), self.path, self.byte)


class AnalysisError(StacklineError):
    """An analysis cannot run: an unknown table, annotation or instance, or data that the trace lacks."""


class RecordError(StacklineError):
    """This process cannot be recorded: another recording is active, or the platform has no recorder."""
