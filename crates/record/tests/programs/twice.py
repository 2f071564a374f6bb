"""Records itself three times, explicitly, with a thread that lives during all: with all kinds of frames, without frames, without PyTorch."""

import _imp
import os
import queue
import sys
import threading
import time
from importlib.machinery import ModuleSpec

import torch

recorder = _imp.create_dynamic(ModuleSpec("_stackline_record", None, origin=sys.argv[1]))
jobs: "queue.Queue[int | None]" = queue.Queue()
done: "queue.Queue[None]" = queue.Queue()


def work():
    while (count := jobs.get()) is not None:
        for _ in range(count):
            torch.ones(3).sinh()
        done.put(None)


thread = threading.Thread(target=work)
thread.start()
for index, (count, native, disabled) in enumerate([(5, "1", ""), (7, "0", "python"), (2, "0", "pytorch")]):
    os.environ["STACKLINE_RECORD"] = os.path.join(sys.argv[2], str(index))
    os.environ.update(STACKLINE_NATIVE=native, STACKLINE_DISABLE=disabled)
    recorder.start()
    recorder.torch_imported()
    jobs.put(count)
    done.get()
    for _ in range(count):
        torch.ones(3).cosh()
    # For samples.
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        sum(range(100))
    recorder.stop()
    torch.ones(3).tanh()
jobs.put(None)
thread.join()
