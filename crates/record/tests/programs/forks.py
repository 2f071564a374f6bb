"""Forks from several threads at once, while others are running."""

import os
import threading

stop = threading.Event()
failed = []


def work():
    while not stop.is_set():
        sum(index * index for index in range(1000))


def fork():
    for index in range(50):
        child = os.fork()
        if child == 0:
            os._exit(index % 100)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != index % 100:
            failed.append(index)


workers = [threading.Thread(target=work) for _ in range(2)]
forkers = [threading.Thread(target=fork) for _ in range(4)]
for thread in workers + forkers:
    thread.start()
for thread in forkers:
    thread.join()
stop.set()
for thread in workers:
    thread.join()
print("200 children, %d failed" % len(failed))
