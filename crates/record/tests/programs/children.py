"""Starts children in every way that PyTorch programs do, each of which runs operators."""

import os
import subprocess
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.ones(10) * index


if __name__ == "__main__":
    for context in ["fork", "spawn", "forkserver"]:
        loader = DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context=context)
        print(context, sum(batch.sum().item() for batch in loader))
    child = os.fork()
    if child == 0:
        torch.ones(3).exp()
        # Longer than the recorder waits between two writes.
        import time

        time.sleep(1)
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    sys.stdout.flush()
    subprocess.run([sys.executable, "-c", "import torch; print(torch.ones(2).sum())"], check=True)
    subprocess.run(["true"], check=True)
