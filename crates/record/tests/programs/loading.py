"""One thread loads a library that waits for the GIL, which the main thread holds until another program replaces this one."""

import _thread
import ctypes
import os
import signal
import sys
import time

# Whoever waits for ever is killed.
signal.alarm(20)
sys.setswitchinterval(1000)
reader, writer = os.pipe()
os.environ["LOADING"] = str(writer)
# A function of a library is called without the GIL.
load = ctypes.CDLL(None).dlopen
_thread.start_new_thread(load, (sys.argv[1].encode(), os.RTLD_NOW))
os.read(reader, 1)
# The recorder finds it while the library is being loaded.
_thread.start_new_thread(time.sleep, (100,))
end = time.perf_counter() + 0.8
while time.perf_counter() < end:
    sum(range(100))
os.execv("/bin/sh", ["sh", "-c", "echo replaced"])
