"""Exceptions of the package."""

from __future__ import annotations


class StacklineError(Exception):
    """Base of every exception that this package raises by itself."""


class ReadError(StacklineError):
    """Nothing at all could be read from the input. Anything less is a problem in :attr:`Run.read_report`.

    The message is a sentence that names the file, what is wrong and, where it helps, what to do.
    """

    path: str
    """The file or directory that could not be read."""
    byte: int | None
    """Where in the (decompressed) file, in bytes from its start; ``None`` if the place does not matter."""

    def __init__(self, message: str, path: str = "", byte: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.byte = byte

    def __reduce__(self) -> tuple[type[ReadError], tuple[str, str, int | None]]:
        # Exceptions cross process borders (multiprocessing, Ray): keep the attributes.
        return type(self), (str(self), self.path, self.byte)


class AnalysisError(StacklineError):
    """An analysis cannot answer what was asked: an unknown table, annotation or instance, or data that the trace lacks."""


class RecordError(StacklineError):
    """This process cannot be recorded: it is being recorded already, or there is no recorder for this platform."""
