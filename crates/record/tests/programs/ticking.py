"""Runs operators until it is killed, and says all the time how many ran since when."""

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
