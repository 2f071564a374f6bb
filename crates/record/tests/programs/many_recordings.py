"""Records itself many times, with threads that live through all recordings and threads of each. Prints how many mappings and how many
bytes of memory the process has: before, after the first recording, and then after each hundred."""

import json
import os
import queue
import sys
import threading
import time

import torch

import _stackline_bootstrap as bootstrap

RUNS, COUNT = sys.argv[1], int(sys.argv[2])
LIVING, SHORT, CALLS = 6, 2, 5
torch.set_num_threads(1)
jobs: "queue.Queue[bool]" = queue.Queue()
done: "queue.Queue[None]" = queue.Queue()


def work():
    for _ in range(CALLS):
        torch.ones(3).sinh()
    # Long enough for samples.
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        sum(range(100))


def live():
    while jobs.get():
        work()
        done.put(None)


def round_of_work():
    threads = [threading.Thread(target=work) for _ in range(SHORT)]
    for thread in threads:
        thread.start()
    for _ in range(LIVING):
        jobs.put(True)
    for _ in range(LIVING):
        done.get()
    for thread in threads:
        thread.join()


def record(number):
    os.environ["STACKLINE_RECORD"] = os.path.join(RUNS, str(number))
    bootstrap.begin()
    try:
        round_of_work()
    finally:
        bootstrap.end()


def memory():
    with open("/proc/self/maps") as file:
        mappings = len(file.readlines())
    with open("/proc/self/statm") as file:
        return mappings, int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


living = [threading.Thread(target=live) for _ in range(LIVING)]
for thread in living:
    thread.start()
for _ in range(20):
    round_of_work()
seen = [memory()]
for number in range(COUNT):
    record(number)
    if number == 0 or (number + 1) % 100 == 0:
        seen.append(memory())
for _ in living:
    jobs.put(False)
for thread in living:
    thread.join()
print(json.dumps({"calls": (LIVING + SHORT) * CALLS, "memory": seen}))
