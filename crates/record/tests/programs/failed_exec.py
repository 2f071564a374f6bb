"""Tries to start missing programs, and continues; then ends, or is killed: `killed` a while later, `killed-at-once` right after such a
call failed."""

import os
import signal
import sys
import time

import torch


def after_the_failures(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))


for _ in range(3):
    torch.ones(2).sinh()
for number in range(20):
    try:
        os.execvp("no-such-program", ["no-such-program"])
    except FileNotFoundError:
        torch.ones(2).cosh()
after_the_failures(0.5)
if sys.argv[1] == "killed-at-once":
    try:
        os.execv("/no-such-program", ["no-such-program"])
    finally:
        os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "killed":
    time.sleep(1.2)
    os.kill(os.getpid(), signal.SIGKILL)
print("went on")
