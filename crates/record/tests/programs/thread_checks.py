"""Number of times that the recorder searched for threads, and waits for more of them."""

import os
import time


def thread_checks(before_start=None):
    """Number of waits of the recorder's thread that searches for threads; ``before_start`` if there is no such thread."""
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/status") as status:
                lines = dict(line.rstrip("\n").split(":\t", 1) for line in status)
        except (FileNotFoundError, ProcessLookupError):
            continue  # The thread ended after the list was made.
        if lines["Name"] == "stackline-cpu":
            return int(lines["voluntary_ctxt_switches"])
    if before_start is None:
        raise SystemExit("no thread looks for threads")
    return before_start


def wait_for_thread_checks(count, before_start=None):
    """Wait for ``count`` more checks. With ``before_start``, the thread that checks may start later."""
    end = thread_checks(before_start) + count
    while thread_checks(before_start) < end:
        time.sleep(0.02)
