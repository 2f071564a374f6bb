"""Runs operators until it is killed, and prints their number with times."""

import time

import torch

torch.set_num_threads(1)
value, result = torch.ones(1), torch.ones(1)
print("ready", flush=True)
start, count = time.monotonic(), 0
while True:
    for _ in range(100):
        torch.add(value, value, out=result)
    count += 100
    print(time.monotonic() - start, count, flush=True)
    time.sleep(0.005)
