"""Collects garbage explicitly, before and after the first operator."""

import gc

import torch


def by_hand():
    gc.collect()


class Finalized:
    """Runs operators when it is collected."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        for _ in range(20):
            torch.mm(LARGE, LARGE)


def with_finalizer():
    Finalized()
    gc.collect()


gc.disable()
by_hand()
LARGE = torch.ones(300, 300)
for _ in range(3):
    by_hand()
with_finalizer()
print(gc.callbacks != [])
