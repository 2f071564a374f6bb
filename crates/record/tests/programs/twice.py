"""Records itself twice, by hand, with a thread that lives through both."""

import _imp
import os
import queue
import sys
import threading
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
for index, count in enumerate([5, 7]):
    os.environ["STACKLINE_RECORD"] = os.path.join(sys.argv[2], str(index))
    recorder.start()
    recorder.torch_imported()
    jobs.put(count)
    done.get()
    for _ in range(count):
        torch.ones(3).cosh()
    recorder.stop()
    torch.ones(3).tanh()
jobs.put(None)
thread.join()
