"""Waits of each kind, in separate functions, on a thread that runs operators; prints the results of C calls that are not restarted."""

import ctypes
import os
import queue
import select
import signal
import socket
import struct
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
    near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 5, 0))
    later(far.send, b"x")
    if C.recv(near.fileno(), ctypes.create_string_buffer(1), 1, 0) != 1:
        faults.append("recv was interrupted")


def gathered():
    near, far = socket.socketpair()
    far.send(b"x")
    later(far.send, b"x")
    if C.recv(near.fileno(), ctypes.create_string_buffer(2), 2, socket.MSG_WAITALL) != 2:
        faults.append("recv gave a part")


def written():
    ends, text = os.pipe(), b"x" * (1 << 20)
    later(lambda: [os.read(ends[0], 1 << 12) for _ in range(1 << 8)])
    if C.write(ends[1], text, len(text)) != len(text):
        faults.append("write wrote a part")


def blocked():
    """Real-time signals queue up where they are blocked, and a user may have so many only."""
    every = signal.valid_signals()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, every)
    for _ in range(20):
        time.sleep(0.02)
        torch.ones(2).add(1)
    queued = 0
    while (info := signal.sigtimedwait(every, 0)) is not None:
        queued += info.si_code == -1  # SI_QUEUE
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if queued > 0:
        faults.append(f"{queued} signals waited to be delivered")


torch.ones(2).add(1)
# The recorder looks for new threads from time to time.
time.sleep(0.3)
for wait in (slept, queued, read, child, nanosleep, polled, limited, gathered, written, blocked):
    began = time.monotonic()
    wait()
    took = time.monotonic() - began
    if took < SECONDS * 0.95:
        faults.append(f"{wait.__name__} took {took} s")
    torch.ones(2).add(1)
print(faults)
