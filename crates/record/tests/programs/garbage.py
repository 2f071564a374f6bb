"""Collects garbage by hand, before and after the first operator."""

import gc

import torch


def by_hand():
    gc.collect()


gc.disable()
by_hand()
torch.ones(2).add(1)
for _ in range(3):
    by_hand()
print(gc.callbacks != [])
