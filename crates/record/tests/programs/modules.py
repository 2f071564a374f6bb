"""Modules whose names change, that contain each other, and that are created and freed repeatedly."""

import torch
from torch import nn


class Leaf(nn.Module):
    def forward(self, value):
        return value.sinh()


class Outer(nn.Module):
    def forward(self, value):
        return self.inner(value)


class Holder(nn.Module):
    pass


value = torch.zeros(1)

# Named anew: what counts is the name of the moment. Always called from the same line.
model = Outer()
model.inner = Leaf()
for name in ("before", "after"):
    top = Holder()
    setattr(top, name, model)
    model(value)

# Two that hold each other.
first, second = Outer(), Outer()
first.second = second
second.first = first
second.inner = Leaf()
first.inner = second
first(value)

# Dropped at once: the next ones often lie at the same addresses.
for number in range(40):
    holder = Holder()
    setattr(holder, f"number{number}", Leaf())
    for leaf in holder.children():
        leaf(value)
    del holder, leaf

# Held by nobody, where some that were held have been.
for _ in range(20):
    Leaf()(value)
