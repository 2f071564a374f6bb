"""``python -m stackline``: the program ``stackline`` that the package was installed with."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig

#: What names the recorder's file to the program.
_RECORDER = "STACKLINE_RECORDER"


def _program() -> str | None:
    """Where the program is: among the scripts of this Python, or of the user."""
    schemes = [sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")]
    folders = [sysconfig.get_path("scripts", scheme) for scheme in schemes]
    names = (os.path.join(folder, "stackline") for folder in folders)
    return next((name for name in names if os.access(name, os.X_OK)), None)


def main() -> int:
    """Becomes the program, with the recorder of this package."""
    program = _program()
    if program is None:
        print("stackline: the package was installed without its program; install the wheel again", file=sys.stderr)
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
