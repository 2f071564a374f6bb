"""Touches pages for the first time in one function, and none in another; prints how many."""

import mmap
import time

PAGES = 20_000


def touches():
    memory = mmap.mmap(-1, PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Large pages would be one fault for many.
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(PAGES):
        memory[page * mmap.PAGESIZE] = 1
    return memory


def spins(seconds):
    begin = time.thread_time()
    while time.thread_time() - begin < seconds:
        pass


kept = []
for _ in range(4):
    spins(0.1)
    kept.append(touches())
    # What was counted since the last sample counts at the next one.
    spins(0.1)
print(4 * PAGES)
