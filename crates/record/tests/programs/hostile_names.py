"""Optimizers whose own code fails, some of it for a signal; and PyTorch is removed from ``sys.modules`` when the program ends."""

import signal
import sys

import torch
from torch import nn


class Late(Exception):
    pass


class Closed(torch.optim.SGD):
    """An optimizer whose state raises when it is read outside of its steps."""

    steps = False
    raised_error = RuntimeError("closed")

    @property
    def state(self):
        if not self.steps:
            if self.raised_error is None:
                signal.raise_signal(signal.SIGUSR1)
            raise self.raised_error
        return self.__dict__["state"]

    @state.setter
    def state(self, value):
        self.__dict__["state"] = value

    def step(self):
        self.steps = True
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data -= group["lr"] * parameter.grad
        self.steps = False


def late(number, frame):
    raise Late


def step(raised_error):
    optimizer.raised_error = raised_error
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    try:
        optimizer.step()
    except Exception as error:
        return type(error).__name__
    return "stepped"


Closed.steps = True
model = nn.Linear(4, 4)
optimizer = Closed(model.parameters(), lr=0.1)
Closed.steps = optimizer.steps = False
print([step(error) for error in (RuntimeError("closed"), OSError("closed"), ZeroDivisionError())])
if "--signal" in sys.argv:
    # Only who reads the state has the signal come: it stands for one that comes just then.
    signal.signal(signal.SIGUSR1, late)
    print(step(None))
for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
    del sys.modules[name]
sys.stdout.flush()
