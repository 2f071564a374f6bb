"""Everything that a program may do to its threads, frames and processes, for SECONDS; prints a digest of its results.

    python soak.py SECONDS [ROUNDS]

With ROUNDS it runs so many iterations instead, and garbage is collected in one line only, so that all runs take the same paths. The last line is JSON: `digest` of all results of an iteration (each
one has the same), their number, and the resident set in MB after every one.
"""

import asyncio
import collections
import gc
import hashlib
import json
import os
import subprocess
import sys
import threading
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


KEPT = collections.deque(maxlen=2000)


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((4,), float(index)).sinh()


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def values(count):
    for number in range(count):
        try:
            yield torch.tensor(float(number)).cos()
        finally:
            torch.tensor(1.0).exp()


def generators():
    total = sum(values(20))
    abandoned = values(20)
    return total + next(abandoned) + next(abandoned)


def exceptions():
    def fall(depth):
        if depth == 0:
            raise ArithmeticError(torch.ones(1).item())
        try:
            fall(depth - 1)
        finally:
            torch.ones(2).add_(depth)

    caught = 0
    for depth in range(12):
        try:
            fall(depth)
        except ArithmeticError:
            caught += 1
    return torch.tensor(float(caught))


def coroutines():
    async def work(number):
        value = torch.tensor(float(number))
        for _ in range(5):
            await asyncio.sleep(0)
            value = value * 0.5 + 1
        return value

    async def all_of_them():
        return sum(await asyncio.gather(*(work(number) for number in range(8))))

    return asyncio.run(all_of_them())


def recompiled():
    """Code that is compiled again and again, functions that are made again and again, modules too."""
    total = torch.zeros(1)
    for number in range(30):
        space = {"torch": torch, "total": total}
        exec(f"def f(x):\n    return x + {number}\ntotal = f(total)\n", space)
        total = space["total"]
        # As long as it lives its code has an address of its own.
        KEPT.append(space["f"])
        total = (lambda value: value.mul(0.9))(total)
        total = nn.Identity()(total) + nn.ReLU()(total)
    return total


def trained():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    # Threads share the generator of random numbers.
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(torch.linspace(-1, 1, weights.numel()).view_as(weights))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 8)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.detach()


def threaded():
    results = [None] * 6

    def work(at):
        results[at] = trained() if at % 2 else generators() + exceptions()

    threads = [threading.Thread(target=work, args=(at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return torch.stack([result.flatten().sum() for result in results])


def collected():
    class Cycle:
        def __del__(self):
            torch.ones(3).sum()

    for _ in range(20):
        cycle = Cycle()
        cycle.itself = cycle
    del cycle
    gc.collect()
    return torch.ones(1)


def forked():
    """Children that end at once, with or without saying goodbye, while others begin."""
    children = []
    for number in range(6):
        child = os.fork()
        if child == 0:
            torch.ones(4).mul_(number)
            if number % 3 == 0:
                try:
                    os.execv("/bin/true", ["true"])
                except OSError:
                    pass
            os._exit(number)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    subprocess.run(["true"], check=True)
    return torch.tensor([float(code) for code in codes])


def loaded():
    return torch.stack([batch.sum() for batch in DataLoader(Numbers(), batch_size=2, num_workers=2)])


def one_round():
    digest = hashlib.sha256()
    for part in (generators, exceptions, coroutines, recompiled, trained, threaded, collected, forked, loaded):
        digest.update(part().detach().numpy().tobytes())
    return digest.hexdigest()


def main():
    seconds, rounds = float(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else None
    digests, resident = set(), []
    if rounds:
        gc.disable()
    end = time.monotonic() + seconds
    while len(resident) < rounds if rounds else time.monotonic() < end or len(resident) < 2:
        digests.add(one_round())
        resident.append(round(resident_mb(), 1))
    print(json.dumps({"digest": sorted(digests), "rounds": len(resident), "resident_mb": resident}))


if __name__ == "__main__":
    main()
