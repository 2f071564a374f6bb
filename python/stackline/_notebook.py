"""The magic ``%%stackline`` for IPython and Jupyter (``%load_ext stackline``)."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from typing import Any, NoReturn

from ._record import free_name, record
from ._record_options import SOURCES

_ABOUT = """Record a cell, or with a single % a statement. Separate options from the statement with a double dash:

  %%stackline -o step.stackline --memory
  %stackline model(batch)
  %stackline --mode trace -- model(batch)
"""


class _Stop(Exception):
    """Ends a cell without a traceback, after its message was printed."""

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
    option("-o", "--output", default="notebook.stackline", metavar="RUN", help="run directory; numbered if it exists [default: notebook.stackline]")
    option("--disable", default="", metavar="SOURCES", help=f"disable sources, separated by commas: {', '.join(SOURCES)}")
    option("--without", default="", metavar="SOURCES", help=argparse.SUPPRESS)  # the former name of --disable
    option("--memory", action="store_true", default=None, help="also record tensor allocations")
    option("--native", action="store_true", default=None, help="also record native frames")
    option("--shapes", action="store_true", default=None, help="distinguish operators by shapes and types of their inputs")
    option("--sample-hz", type=int, metavar="N", help="sampling rate in Hz of CPU time; 0 disables it [default: 99]")
    option("--mode", choices=["profile", "trace"], help="profile: sums per call path; trace: also every call with timestamps [default: profile]")
    option("--steps", metavar="A..B", help="record only training steps A to B-1, counted from 0")
    option("--every", type=int, metavar="N", help="record one of N training steps")
    option("--after", metavar="TIME", help="begin to record after this time, such as 5s")
    option("--duration", metavar="TIME", help="record for this time, such as 30s")
    option("--max-nodes", type=int, metavar="N", help="largest number of call paths in the call tree of one thread")
    return parser


def _split(line: str) -> tuple[str, str]:
    """Split a line magic into options and statement."""
    if not line.lstrip().startswith("-"):
        return "", line
    options, *statement = re.split(r"(?:^|\s)--(?:\s|$)", line, maxsplit=1)
    return options, statement[0] if statement else ""


def register(shell: Any) -> None:
    """Register the magic with a shell of IPython."""

    def stackline(line: str, cell: str | None = None) -> None:
        options, code = _split(line) if cell is None else (line, cell)
        arguments = vars(_parser().parse_args(shlex.split(options)))
        if not code.strip():
            _wrong("no code to run: write a statement or a cell")
        disabled, former = arguments.pop("disable"), arguments.pop("without")
        if disabled and former:
            _wrong("--without is the former name of --disable; give --disable only")
        if former:
            print("stackline: --without is now called --disable; the old name will be removed", file=sys.stderr)
        left_out = {name for name in (disabled or former).split(",") if name}
        if left_out - set(SOURCES):
            unknown = ", ".join(sorted(left_out - set(SOURCES)))
            _wrong(f"--disable {unknown}: no such source; choose from {', '.join(SOURCES)}")
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
