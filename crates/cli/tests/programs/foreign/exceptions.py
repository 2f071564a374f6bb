"""Exceptions through operators, backward, hooks, generators and threads; ends with an uncaught one."""

import contextlib
import threading

import torch
from harness import digest, main


class Refused(Exception):
    pass


def refuse(gradient):
    raise Refused("in backward")


def program():
    caught = []
    for shape in ((2, 3), (3, 2), (4,)):
        try:
            torch.ones(shape) @ torch.ones(3, 3)
        except RuntimeError as error:
            caught.append(str(error).splitlines()[0])
    x = torch.randn(4, requires_grad=True)
    for _ in range(3):
        y = x * 2
        y.register_hook(refuse)
        try:
            y.sum().backward()
        except Refused as error:
            caught.append(str(error))

    def values():
        try:
            while True:
                yield torch.randn(2).sum()
        finally:
            caught.append("closed")

    source = values()
    next(source)
    source.close()

    def fails():
        with contextlib.suppress(IndexError):
            x.detach()[9]
        torch.zeros(2).index_select(0, torch.tensor([0]))

    threads = [threading.Thread(target=fails) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with torch.profiler.record_function("leaves by an exception"), contextlib.suppress(Refused):
        with torch.profiler.record_function("inner"):
            torch.ones(1).neg()
            raise Refused
    print("caught", len(caught), digest(caught), digest(x))


main(program)
raise Refused("at the end")
