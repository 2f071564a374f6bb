"""The tool of these tests: `tool.c`, compiled; its path is the first argument."""

import ctypes
import sys

OK, UNSUPPORTED, FULL, UNAVAILABLE, NOT_FOUND, RUNNING = 0, 2, 3, 4, 5, 6


def load():
    tool = ctypes.CDLL(sys.argv[1])
    for name in ("begins", "ends", "spans", "unmatched", "running"):
        getattr(tool, name).restype = ctypes.c_long
    for name in ("last_path", "last_outputs"):
        getattr(tool, name).restype = ctypes.c_char_p
    return tool
