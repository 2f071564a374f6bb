"""COUNT spans whose names have numbers, over SECONDS at least; prints the resident set in MB after a quarter and at the end.

    python spans.py COUNT SECONDS

Half of them are iterations, each with a batch in it. Twelve layers are called again and again: they are few.
"""

import json
import os
import sys
import time

import torch
from torch.profiler import record_function

torch.set_num_threads(1)


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main():
    iterations, seconds = int(sys.argv[1]) // 2, float(sys.argv[2])
    value, resident, start = torch.zeros(1), [], time.monotonic()
    for number in range(iterations):
        with record_function(f"iteration {number}"):
            with record_function(f"epoch {number // 1000} batch {number}"):
                value.cosh()
        if number % 100 == 0:
            for layer in range(12):
                with record_function(f"layer {layer}"):
                    value.sinh()
            ahead = seconds * number / iterations - (time.monotonic() - start)
            if ahead > 0:
                time.sleep(ahead)
        if number in (iterations // 4, iterations - 1):
            resident.append(resident_mb())
    print(json.dumps(resident))


main()
