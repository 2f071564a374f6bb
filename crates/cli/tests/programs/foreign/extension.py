"""An extension in C whose threads call PyTorch, through ctypes: `extension.c`, compiled here."""

import ctypes
import pathlib
import subprocess
import tempfile

import torch
from harness import digest, main


def program():
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder, "extension.so")
        source = pathlib.Path(__file__).with_name("extension.c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", source, "-o", library, "-lpthread"], check=True)
        extension = ctypes.CDLL(str(library))
        sums = [torch.zeros(4) for _ in range(8)]

        @ctypes.CFUNCTYPE(None, ctypes.c_int)
        def work(number):
            x = torch.full((4,), number + 1.0, requires_grad=True)
            (x**2).sum().backward()
            sums[number] += x.grad

        for count in (1, 4, 8):
            assert extension.in_threads(work, count) == 0
    print("sums", digest(*sums))


main(program)
