"""Workers of a loader that their parent ends at the end of the program, and a process that is killed by something else."""

import multiprocessing
import os
import signal
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.ones(4).cosh()


def work():
    while True:
        torch.ones(4).cosh()
        time.sleep(0.001)


if __name__ == "__main__":
    torch.set_num_threads(1)
    child = multiprocessing.Process(target=work)
    child.start()
    # Longer than the recorder waits between two writes.
    time.sleep(1.5)
    os.kill(child.pid, signal.SIGKILL)
    # Not waited for: it is dead when its parent says that it shall end.
    time.sleep(0.2)
    child.terminate()
    print(child.pid)
    # Children of the program, and of a fork server.
    loaders = []
    for context in ["fork", "forkserver"]:
        loader = iter(DataLoader(Slow(), batch_size=4, num_workers=2, persistent_workers=True, multiprocessing_context=context))
        next(loader)
        loaders.append(loader)
    time.sleep(0.7)
