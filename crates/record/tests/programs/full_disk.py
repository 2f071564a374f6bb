"""Calls operators for some seconds; in the middle of them its files may not grow, if LIMIT is given. Prints how many it called.

    python full_disk.py [LIMIT [stay | exit]]

`SIGXFSZ` and `SIGPIPE` have their default actions, which end the process: Python ignores them otherwise. With `stay` the limit
stays to the end. With `exit` the program ends by `os._exit`.
"""

import os
import resource
import signal
import sys
import time

import torch

torch.set_num_threads(1)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
value, count = torch.zeros(1), 0
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)


def work(seconds):
    global count
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(200):
            value.sinh()
        count += 200
        time.sleep(0.01)


print("ready", flush=True)
work(1.2)
if len(sys.argv) > 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), most))
work(2.2)
if "stay" not in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    work(1.2)
print(count, flush=True)
if "exit" in sys.argv:
    os._exit(0)
