"""Ends the recording while a thread is in a call of `os.execv` that fails: `exit` by `os._exit`, `stop` as `sl.record` does. Prints the
recorder's threads that are left.

    python ends_in_exec.py exit | stop
"""

import os
import sys
import threading
import time

entered, leave = threading.Event(), threading.Event()


def hook(event, _):
    if event == "os.exec":
        entered.set()
        leave.wait()


def replace():
    try:
        os.execv("/no-such-program", ["no-such-program"])
    except FileNotFoundError:
        pass


def ours():
    names = []
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm") as name:
                names.append(name.read().strip())
        except FileNotFoundError:
            # It ended meanwhile.
            pass
    return sorted(name for name in names if name.startswith("stackline"))


sys.addaudithook(hook)
thread = threading.Thread(target=replace)
thread.start()
entered.wait()
if sys.argv[1] == "exit":
    os._exit(7)
sys.modules["_stackline_bootstrap"].end()
leave.set()
thread.join()
end = time.monotonic() + 5
while ours() and time.monotonic() < end:
    time.sleep(0.01)
print(ours())
