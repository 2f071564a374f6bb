"""A thread that waits with a timeout and, after an interruption, restarts the wait with the full timeout, as NCCL's threads do."""

import ctypes
import threading
import time

C = ctypes.CDLL(None, use_errno=True)
WAITS, LIMIT_MS = 4, 300


def polled():
    while C.poll(None, 0, LIMIT_MS) == -1:
        pass


def wait():
    time.sleep(0.2)
    for _ in range(WAITS):
        polled()


began = time.monotonic()
thread = threading.Thread(target=wait, daemon=True)
thread.start()
thread.join(10)
print(thread.is_alive(), round(time.monotonic() - began, 3))
