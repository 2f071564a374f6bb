"""Threads that handle signals on small alternate stacks; prints the number of bytes written to these, including those of the kernel."""

import ctypes
import sys
import threading
import time

C = ctypes.CDLL(sys.argv[1])
for function in (C.least_size, C.touched, C.kernel_frame):
    function.restype = ctypes.c_size_t
C.set_stack.argtypes = [ctypes.c_size_t]
C.spin.argtypes = [ctypes.c_int, ctypes.c_double]
C.spin.restype = ctypes.c_double
SECONDS = float(sys.argv[2])


def deep(n):
    return C.spin(20, 0.001) if n == 0 else deep(n - 1) + 1


def numbers():
    yield from (sum(range(50)) for _ in range(200))


def work(name, size, results):
    assert C.set_stack(size) == 0
    kernel = C.kernel_frame()
    C.paint()
    end = time.thread_time() + SECONDS
    step = 0
    while time.thread_time() < end:
        sum(numbers())
        deep(30)
        # Code that nobody met before: its name is copied.
        names = {}
        exec(compile(f"def f():\n    return sum(range({step}))\nfor _ in range(50): f()", f"<{step}>", "exec"), names)
        step += 1
    results[name] = (size, kernel, C.touched())


results = {}
least = C.least_size()
sizes = {"faulthandler's": 9968, "smallest": least + 2048, "large": 65536}
threads = [threading.Thread(target=work, args=(name, size, results)) for name, size in sizes.items()]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for name, (size, kernel, touched) in sorted(results.items()):
    print(f"{name} {size} {kernel} {touched}".replace("'s", ""))
