"""An interrupt exactly when a module that the recorder knows is freed: it must reach the program."""

import ctypes
import functools
import gc
import signal
import sys
import weakref

import _stackline_bootstrap


class Module:
    pass


# Raises a signal in C, and does not care for what else it is called with: nothing is in between it and what comes next.
interrupt = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.py_object)(("raise", ctypes.CDLL(None)))
gc.disable()
caught = 0
for _ in range(50):
    parent, child = Module(), Module()
    _stackline_bootstrap._put_module(parent, "child", child)
    known = len(_stackline_bootstrap._modules)
    # Callbacks run from the newest to the oldest, which is the recorder's.
    last = weakref.ref(child, functools.partial(interrupt, signal.SIGINT))
    try:
        del child
        # Interpreters look for signals where loops go back.
        for _ in range(3):
            pass
    except KeyboardInterrupt:
        caught += 1
    if len(_stackline_bootstrap._modules) != known - 1:
        sys.exit("the module is not forgotten")
    del parent, last
print(caught)
