"""Waits of each kind, in functions of their own, on a thread that runs operators; what calls of C return that are not restarted."""

import ctypes
import os
import queue
import select
import socket
import subprocess
import threading
import time

import torch

C = ctypes.CDLL(None, use_errno=True)
SECONDS = 0.4
faults = []


def later(action, *arguments):
    threading.Timer(SECONDS, action, arguments).start()


def slept():
    time.sleep(SECONDS)


def queued():
    things = queue.Queue()
    later(things.put, 1)
    things.get()


def read():
    ends = os.pipe()
    later(os.write, ends[1], b"x")
    os.read(ends[0], 1)


def child():
    subprocess.run(["sleep", str(SECONDS)], check=True)


class Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("ns", ctypes.c_long)]


def nanosleep():
    # Interrupted, it would return at once, with -1.
    if C.nanosleep(ctypes.byref(Time(0, int(SECONDS * 1e9))), None) != 0:
        faults.append("nanosleep was interrupted")


def polled():
    if C.poll(None, 0, int(SECONDS * 1000)) != 0:
        faults.append("poll was interrupted")


def limited():
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, b"\0" * 16)
    later(far.send, b"x")
    if near.recv(1) != b"x" or select.select([], [], [], 0) != ([], [], []):
        faults.append("recv was interrupted")


torch.ones(2).add(1)
# The recorder looks for new threads from time to time.
time.sleep(0.3)
for wait in (slept, queued, read, child, nanosleep, polled, limited):
    began = time.monotonic()
    wait()
    took = time.monotonic() - began
    if took < SECONDS * 0.98:
        faults.append(f"{wait.__name__} took {took} s")
    torch.ones(2).add(1)
print(faults)
