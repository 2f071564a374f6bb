"""Records itself three times: with more threads than the limits of sampling and counters, then without them and without samples, then with samples."""

import os
import sys
import threading

import _stackline_bootstrap as bootstrap
from thread_checks import wait_for_thread_checks

IDLE = 1100


def record(number, hz, work):
    os.environ["STACKLINE_RECORD"] = os.path.join(sys.argv[1], str(number))
    os.environ["STACKLINE_SAMPLE_HZ"] = hz
    bootstrap.begin()
    try:
        work()
    finally:
        bootstrap.end()


def work():
    wait_for_thread_checks(4, before_start=0)


threading.stack_size(64 << 10)
event = threading.Event()
threads = [threading.Thread(target=event.wait) for _ in range(IDLE)]
for thread in threads:
    thread.start()
record(0, "99", work)
event.set()
for thread in threads:
    thread.join()
record(1, "0", lambda: None)
record(2, "99", work)
