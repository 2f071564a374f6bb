"""``python -m stackline``: run the program ``stackline`` of the installed package."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys

#: Environment variable with the path of the recorder's library.
_RECORDER = "STACKLINE_RECORDER"


def _program() -> str | None:
    """Path of the program that was installed with this package; ``None`` if the package has no program."""
    try:
        files = importlib.metadata.files("stackline") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    programs = (str(file.locate()) for file in files if file.name == "stackline" and file.parent.name == "bin")
    return next((name for name in programs if os.access(name, os.X_OK)), None)


def main() -> int:
    """Replace this process by the program, with the recorder of this package."""
    program = _program()
    if program is None:
        print("stackline: this package was installed without the program; install a wheel that `./dev dist` built", file=sys.stderr)
        return 1
    recorder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_stackline_record.so")
    if os.path.exists(recorder):
        os.environ.setdefault(_RECORDER, recorder)
    command = [program, *sys.argv[1:]]
    sys.stdout.flush()
    if os.name == "posix":
        os.execv(program, command)
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
