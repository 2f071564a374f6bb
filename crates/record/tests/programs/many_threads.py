"""More threads than the sampling limit wait; a later thread computes, and another one after some of them ended."""

import threading
import time

from thread_checks import wait_for_thread_checks

IDLE = 1100
LATER = 200


def spin():
    # It is found first.
    wait_for_thread_checks(4)
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        sum(range(100))


def too_many():
    spin()


def with_a_place():
    spin()


def run(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


threading.stack_size(64 << 10)
events = [threading.Event() for _ in range(IDLE)]
threads = [threading.Thread(target=event.wait) for event in events]
for thread in threads:
    thread.start()
wait_for_thread_checks(4)
run(too_many)
for event in events[:LATER]:
    event.set()
for thread in threads[:LATER]:
    thread.join()
# Twice a second the samples of threads that ended are taken out; their places are free then.
wait_for_thread_checks(40)
run(with_a_place)
for event in events:
    event.set()
for thread in threads:
    thread.join()
