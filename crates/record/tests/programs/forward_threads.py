"""The main thread runs the backward passes of a thread: one while it lives, one after it has ended and another thread runs. As
many threads as the argument says ended before."""

import os
import sys
import threading
import time

import torch

torch.set_num_threads(1)
weight = torch.ones(4, requires_grad=True)
losses = []


def start(function):
    """Run a function on a thread that then waits. Returns a function that ends the thread."""
    done, end = threading.Event(), threading.Event()

    def run():
        function()
        done.set()
        end.wait()

    thread = threading.Thread(target=run)
    thread.start()
    done.wait()

    def finish():
        end.set()
        thread.join()
        # Python's part of a thread ends before the thread.
        while os.path.exists(f"/proc/self/task/{thread.native_id}"):
            time.sleep(0.001)

    return finish


def products():
    for _ in range(2):
        losses.append((weight * 3).sum())


def other_operators():
    for _ in range(8):
        weight.cosh()


for _ in range(int(sys.argv[1])):
    start(lambda: weight * 2)()
finish = start(products)
losses[0].backward()
finish()
finish = start(other_operators)
losses[1].backward()
finish()
