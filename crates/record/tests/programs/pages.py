"""Accesses new pages in one function, and none in another; prints their number."""

import mmap
import time

PAGES = 60_000


def touches():
    memory = mmap.mmap(-1, PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Large pages would be one fault for many.
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(PAGES):
        memory[page * mmap.PAGESIZE] = 1
    memory.close()


def spins(seconds):
    begin = time.thread_time()
    while time.thread_time() - begin < seconds:
        pass


spins(0.3)
for _ in range(3):
    spins(0.1)
    touches()
    # What was counted since the last sample counts at the next one.
    spins(0.1)
print(3 * PAGES)
