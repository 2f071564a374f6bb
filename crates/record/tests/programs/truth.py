"""Runs small programs, alone or under PyTorch's own profiler with stacks, which then lists each operator's call path.

`truth.py NAME…` runs; `truth.py NAME… profile` runs and prints `COUNT<tab>PATH` a line: the frames between the function
`measured` and the operator, as `function@file` and names of operators, joined by ` > `. First comes the function of the program's
name.
"""

import sys
from collections import Counter

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.set_num_threads(1)


START = "measured@truth.py"


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0) for _ in range(2))
        self.head = nn.Linear(16, 40)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())

    def forward(self, image):
        return self.body(image) + image


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        context.save_for_backward(value)
        return value * torch.sigmoid(value)

    @staticmethod
    def backward(context, gradient):
        (value,) = context.saved_tensors
        sigmoid = torch.sigmoid(value)
        return gradient * (sigmoid + value * sigmoid * (1 - sigmoid))


def trained(model, batch, target, loss):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss(model(batch), target).backward()
        optimizer.step()

    return step


def transformer():
    tokens = torch.randint(0, 40, (2, 8))
    return trained(Transformer(), tokens, tokens, lambda out, target: nn.functional.cross_entropy(out.flatten(0, 1), target.flatten()))


def resnet():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), Residual(8), Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    return trained(model, torch.randn(2, 3, 12, 12), torch.tensor([1, 2]), nn.functional.cross_entropy)


def recurrent():
    cell, start = nn.GRUCell(6, 6), torch.zeros(3, 6)

    def states(inputs):
        state = start
        for value in inputs:
            state = cell(value, state)
            yield state

    def step():
        try:
            total = sum(state.sum() for state in states(torch.randn(4, 3, 6)))
            if total.item() > -1e9:
                raise ArithmeticError
        except ArithmeticError:
            total.backward()

    return step


def custom():
    first, second = nn.Linear(5, 5), nn.Linear(5, 5)
    first.register_forward_hook(lambda module, inputs, output: output * 2)
    second.weight.register_hook(lambda gradient: gradient.clamp(-1, 1))

    def step():
        hidden = Swish.apply(first(torch.randn(3, 5)))
        checkpoint(second, hidden, use_reentrant=False).sum().backward()

    return step


def inference():
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).eval()

    def step():
        with torch.inference_mode(), torch.profiler.record_function("user"):
            scores = model(torch.randn(4, 8)).softmax(-1)
            return sorted(scores.unbind(), key=lambda row: row.max().item())

    return step


def named(program):
    """A step of a program, as a function of the program's name."""
    step = globals()[program]()
    names = ("co_name", "co_qualname") if sys.version_info >= (3, 11) else ("co_name",)
    step.__code__ = step.__code__.replace(**dict.fromkeys(names, program))
    return step


def measured(steps):
    for step in steps:
        for _ in range(3):
            step()


def listing(events):
    paths = Counter()

    def visit(event, path):
        tag = event.tag
        kinds = torch._C._profiler._EventType
        if tag == kinds.PyCall:
            frame = event.typed[1].callsite
            path = path + [f"{frame.function_name}@{frame.file_name.rsplit('/')[-1]}"]
        elif tag == kinds.TorchOp:
            path = path + [event.name]
            if START in path:
                paths[" > ".join(path[path.index(START) + 1 :])] += 1
        for child in event.children:
            visit(child, path)

    for event in events:
        visit(event, [])
    for path, count in sorted(paths.items()):
        print(f"{count}\t{path}")


if __name__ == "__main__":
    steps = [named(program) for program in sys.argv[1:] if program != "profile"]
    for step in steps:
        step()
    if sys.argv[-1] == "profile":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True) as profile:
            measured(steps)
        listing(profile.profiler.kineto_results.experimental_event_tree())
    else:
        measured(steps)
