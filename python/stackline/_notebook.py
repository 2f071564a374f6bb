"""The magic ``%%stackline`` of IPython and Jupyter: ``%load_ext stackline``."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from typing import Any, NoReturn

from ._record import free_name, record
from ._record_options import SOURCES

_ABOUT = """Records a cell, or with a single % a statement. Options of the latter end with a double dash:

  %%stackline -o step.stackline --memory
  %stackline model(batch)
  %stackline --mode trace -- model(batch)
"""


class _Stop(Exception):
    """Ends a cell. What there is to say has been said."""

    def _render_traceback_(self) -> list[str]:
        return []


def _wrong(message: str) -> NoReturn:
    from IPython.core.error import UsageError

    raise UsageError(f"{message} (%%stackline --help lists the options)") from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _wrong(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _Stop(message)


def _parser() -> _Parser:
    parser = _Parser(
        prog="%%stackline", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    option = parser.add_argument
    option("-o", "--output", default="notebook.stackline", metavar="RUN", help="run directory; numbered if it is taken")
    option("--without", default="", metavar="SOURCES", help=f"what to leave out: {', '.join(SOURCES)}")
    option("--memory", action="store_true", default=None, help="allocations of tensors, too")
    option("--native", action="store_true", default=None, help="frames of native code, too")
    option("--shapes", action="store_true", default=None, help="operators by shapes and types of their inputs")
    option("--sample-hz", type=int, metavar="N", help="samples per second of CPU time, 0 for none")
    option("--mode", choices=["profile", "trace"], help="trace: each single call, too")
    option("--steps", metavar="A..B", help="only these training steps, without B")
    option("--every", type=int, metavar="N", help="one training step of so many")
    option("--after", metavar="TIME", help="only from so long after the start on, such as 5s")
    option("--duration", metavar="TIME", help="only for so long")
    option("--max-nodes", type=int, metavar="N", help="call paths that one thread's tree may have")
    return parser


def _split(line: str) -> tuple[str, str]:
    """The options and the statement of a line magic."""
    if not line.lstrip().startswith("-"):
        return "", line
    options, *statement = re.split(r"(?:^|\s)--(?:\s|$)", line, maxsplit=1)
    return options, statement[0] if statement else ""


def register(shell: Any) -> None:
    """Makes the magic known to a shell of IPython."""

    def stackline(line: str, cell: str | None = None) -> None:
        options, code = _split(line) if cell is None else (line, cell)
        arguments = vars(_parser().parse_args(shlex.split(options)))
        if not code.strip():
            _wrong("there is nothing to run")
        left_out = {name for name in arguments.pop("without").split(",") if name}
        if left_out - set(SOURCES):
            unknown = ", ".join(sorted(left_out - set(SOURCES)))
            _wrong(f"--without knows {', '.join(SOURCES)}, not {unknown}")
        arguments |= {name: False for name in left_out}
        path = free_name(arguments.pop("output"))
        try:
            recording = record(path, **arguments)
        except ValueError as error:
            _wrong(str(error))
        with recording:
            result = shell.run_cell(code)
        if recording.has_ended:
            print(f"stackline: recorded into {path}. Next: stackline findings {path}", file=sys.stderr)
        if not result.success:
            raise _Stop("the cell failed")

    stackline.__doc__ = _parser().format_help()
    shell.register_magic_function(stackline, "line_cell", "stackline")
