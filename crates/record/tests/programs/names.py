"""Functions, spans and modules that are new each time, many more than fit into a small tree."""

import torch
from torch import nn

value = torch.zeros(1)
for number in range(3000):
    names = {"value": value}
    exec(compile(f"def new_{number}():\n value.sinh()\n", f"new_{number}.py", "exec"), names)
    names[f"new_{number}"]()
    with torch.profiler.record_function(f"span {number}"):
        value.cosh()
    if number % 10 == 0:
        kind = type(f"Kind{number}", (nn.Module,), {"forward": lambda self, value: value.tanh()})
        kind()(value)
