"""Threads with names of all kinds, each of which computes long enough to be sampled; prints a traceback of one."""

import threading
import time
import traceback


def compute(ms=200):
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        sum(range(1000))


def rename():
    compute(100)
    threading.current_thread().name = "renamed by itself"
    compute(100)


class Overriding(threading.Thread):
    def run(self):
        compute()


def fail():
    compute()
    raise ValueError("on purpose")


LONG = "a very long name of a thread that no system call would take " * 4
threads = [
    threading.Thread(target=compute, name="loader"),
    threading.Thread(target=compute, name="loader"),
    threading.Thread(target=compute, name="Ladevorgang für Größe 数"),
    threading.Thread(target=compute, name=LONG),
    threading.Thread(target=compute, name="lone surrogate \ud800"),
    threading.Thread(target=rename, name="before"),
    Overriding(name="subclass"),
    threading.Thread(target=fail, name="failing"),
]
seen = []
threading.excepthook = lambda hook: seen.append([frame.name for frame in traceback.extract_tb(hook.exc_traceback)])
for thread in threads:
    thread.start()
compute()
for thread in threads:
    thread.join()
print(seen)
