"""Children that live about 20 ms, and end in different ways; prints the number of each."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import torch


def work():
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        sum(range(100))


def operate():
    torch.ones(3).add(1)
    work()


def fork(action):
    child = os.fork()
    if child == 0:
        action()
        os._exit(3)
    os.waitpid(child, 0)
    return child


def kill():
    operate()
    os.kill(os.getpid(), signal.SIGKILL)


def leave():
    work()
    sys.exit(5)


def fail():
    operate()
    raise ValueError("on purpose")


def spawn(function):
    worker = multiprocessing.get_context("fork").Process(target=function)
    worker.start()
    worker.join()
    return worker.pid


def execute(code):
    child = subprocess.Popen([sys.executable, "-c", code])
    child.wait()
    return child.pid


def kill_without_operators():
    work()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    torch.ones(3).add(1)
    for name, pid in [
        ("exit without operators", fork(work)),
        ("exit after operators", fork(operate)),
        ("kill after operators", fork(kill)),
        ("worker without operators", spawn(work)),
        ("worker with operators", spawn(operate)),
        ("worker that is killed", spawn(kill_without_operators)),
        ("worker that fails", spawn(fail)),
        ("worker that leaves", spawn(leave)),
        ("program", execute("pass")),
        ("program that leaves", execute("import os; os._exit(4)")),
        ("program that fails", execute("import sys; sys.stderr = None; raise ValueError")),
    ]:
        print(f"{pid} {name}")
