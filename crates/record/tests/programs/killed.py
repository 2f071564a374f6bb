"""Children that are killed during their work: loader workers, and processes of multiprocessing and of fork."""

import multiprocessing
import os
import signal
import time

import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
# Seconds between two looks whether workers live.
torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 0.2


class Slow(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.ones(4).cosh()


def work(ready):
    for number in range(10**9):
        torch.ones(4).cosh()
        if number == 2000:
            # Longer than the recorder waits between two writes.
            time.sleep(1.5)
            ready.set()


def kill(pid):
    os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    for context in ["fork", "spawn"]:
        chosen = multiprocessing.get_context(context)
        ready = chosen.Event()
        child = chosen.Process(target=work, args=(ready,))
        child.start()
        ready.wait()
        kill(child.pid)
        child.join()
        print(context, child.exitcode)
        loader = iter(DataLoader(Slow(), batch_size=4, num_workers=2, multiprocessing_context=context))
        next(loader)
        time.sleep(1.5)
        # The loader's handler raises wherever the program is just then, once for each worker: without it `next` finds them dead.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for worker in list(loader._workers):
            kill(worker.pid)
        try:
            while True:
                next(loader)
        except Exception as error:
            # Of the kill, or of the connection to who is dead.
            print(context, "ended", not isinstance(error, StopIteration))
        del loader
