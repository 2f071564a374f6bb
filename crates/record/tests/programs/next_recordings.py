"""Records itself three times: with more threads than the limits of sampling and counters, then without them and without samples, then with samples."""

import os
import sys
import threading
import time

import _stackline_bootstrap as bootstrap

IDLE = 1100


def record(number, hz, work):
    os.environ["STACKLINE_RECORD"] = os.path.join(sys.argv[1], str(number))
    os.environ["STACKLINE_SAMPLE_HZ"] = hz
    bootstrap.begin()
    try:
        work()
    finally:
        bootstrap.end()


def thread_checks():
    """Number of waits of the recorder's thread that searches for threads; 0 if it did not begin yet."""
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/status") as status:
                lines = dict(line.rstrip("\n").split(":\t", 1) for line in status)
        except (FileNotFoundError, ProcessLookupError):
            continue  # The thread ended after the list was made.
        if lines["Name"] == "stackline-cpu":
            return int(lines["voluntary_ctxt_switches"])
    return 0


def wait_for_thread_checks():
    end = thread_checks() + 4
    while thread_checks() < end:
        time.sleep(0.02)


threading.stack_size(64 << 10)
event = threading.Event()
threads = [threading.Thread(target=event.wait) for _ in range(IDLE)]
for thread in threads:
    thread.start()
record(0, "99", wait_for_thread_checks)
event.set()
for thread in threads:
    thread.join()
record(1, "0", lambda: None)
record(2, "99", wait_for_thread_checks)
