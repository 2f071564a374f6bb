"""NumPy, and pandas where it is installed, around PyTorch."""

import numpy as np
import torch
from harness import digest, main

try:
    import pandas
except ImportError:
    pandas = None


def program():
    generator = np.random.default_rng(3)
    table = generator.normal(size=(200, 6))
    if pandas is not None:
        frame = pandas.DataFrame(table, columns=list("abcdef"))
        frame["group"] = frame["a"].round().astype(int)
        table = frame.groupby("group").transform("mean").to_numpy()
    x = torch.from_numpy(np.ascontiguousarray(table))
    q, r = torch.linalg.qr(x)
    values = torch.linalg.svdvals(r)
    fft = np.fft.rfft(q.numpy(), axis=0)
    shared = torch.as_tensor(fft.real.copy())
    shared += 1
    print("values", digest(values), "fft", digest(shared), digest(np.sort(shared.numpy(), axis=0).tobytes()))


main(program)
