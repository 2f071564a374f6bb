"""Closes all files that it did not open, as daemons do, and reuses the numbers of the recorder for its own file.

    python closes_all.py FILE [LIMIT [stay]]

With LIMIT its files may not grow beyond that many bytes for a while, or, with `stay`, to the end. Prints how many operators it
called. `SIGXFSZ` has its default action, which ends the process.
"""

import os
import resource
import signal
import sys
import time

import torch

torch.set_num_threads(1)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
value, count = torch.zeros(1), 0


def work(seconds):
    global count
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(200):
            value.sinh()
        count += 200
        time.sleep(0.01)


def numbers_of_streams():
    folder = "/proc/self/fd"
    for number in os.listdir(folder):
        try:
            if os.readlink(os.path.join(folder, number)).endswith(".slr"):
                yield int(number)
        except FileNotFoundError:
            # The folder's own number.
            pass


work(0.6)
numbers = list(numbers_of_streams())
assert numbers, "nothing is recorded"
os.closerange(3, 65536)
own_file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(own_file, b"own" * 333_333)
for number in numbers:
    os.dup2(own_file, number)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), most))
work(0.8)
if "stay" not in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    work(0.8)
print(count)
