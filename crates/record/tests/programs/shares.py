"""Uses CPU time in known shares, in Python and in C, on two threads; prints the used time as JSON."""

import ctypes
import json
import sys
import threading
import time

used = {}


def spin(rounds):
    x = 0
    for i in range(rounds):
        x += i * i
    return x


def burn(name, seconds):
    before = time.thread_time()
    while time.thread_time() - before < seconds:
        spin(2000)
    used[name] = used.get(name, 0) + time.thread_time() - before


def python_a(seconds):
    burn("python_a", seconds)


def python_b(seconds):
    burn("python_b", seconds)


def python_c(seconds):
    burn("python_c", seconds)


def main(scale):
    for _ in range(20):
        python_a(0.025 * scale)
        python_b(0.015 * scale)
        python_c(0.010 * scale)


def in_thread(scale):
    burn("thread", scale / 2)


def in_c(library, scale):
    before = time.thread_time()
    while time.thread_time() - before < scale:
        library.outer(200)
    names = ["burn_a", "burn_b", "burn_c"]
    used.update({name: library.used_by(index) / 1e9 for index, name in enumerate(names)})


def offset(address):
    """Offset of a function within its library. The recorder maps libraries a second time, elsewhere: only this mapping counts."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, end = (int(bound, 16) for bound in line.split()[0].split("-"))
            if start <= address < end:
                return address - start + int(line.split()[2], 16)


scale = float(sys.argv[1])
thread = threading.Thread(target=in_thread, args=(scale,))
thread.start()
main(scale)
thread.join()
symbols = {}
if len(sys.argv) > 2:
    library = ctypes.CDLL(sys.argv[2])
    library.used_by.restype = ctypes.c_uint64
    in_c(library, scale)
    for name in ["burn_a", "burn_b", "burn_c", "outer", "used_by"]:
        symbols[name] = offset(ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
print(json.dumps({"used": used, "symbols": symbols}))
