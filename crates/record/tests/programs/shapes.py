"""Runs small programs, alone or under PyTorch's own profiler with shapes, which then lists each operator's inputs.

`shapes.py NAME…` runs; `shapes.py NAME… profile` runs and prints `COUNT<tab>NAME<tab>DIMS<tab>TYPES` a line for each operator in
the span `measured`, as the profiler writes them into a trace.
"""

import json
import os
import sys
import tempfile
from collections import Counter

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../python/examples"))

torch.manual_seed(0)
torch.set_num_threads(1)


def gpt():
    """The training program that the project shows its recorder with."""
    from train_gpt import GPT, VOCABULARY, train_step

    model = GPT(2, 32, 16)
    tokens = torch.randint(0, VOCABULARY, (4, 16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return lambda: train_step(model, optimizer, tokens, tokens)


class Half(torch.autograd.Function):
    """Two outputs, of which one is not used: its gradient is a tensor that is not defined."""

    @staticmethod
    def forward(context, value):
        context.set_materialize_grads(False)
        return value * 2, value * 3

    @staticmethod
    def backward(context, first, second):
        assert second is None
        return first


class Text(torch.Tensor):
    """A class of the program."""


def lists():
    rows = [torch.ones(n, 3) for n in range(4)]
    torch.cat(rows)
    torch.stack([torch.ones(2, 2)] * 3, dim=1)
    torch._foreach_add_(rows, rows)
    torch._foreach_mul(rows, [1.0, 2.0, 3.0, 4.0])
    torch.meshgrid(torch.ones(2), torch.ones(3), indexing="ij")
    torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 4))
    picked = torch.arange(24).view(2, 3, 4)
    picked[:, torch.tensor([0, 2])], picked[None, 1, torch.tensor([True, False, True])]
    picked[torch.tensor([0])] = 1
    torch.block_diag(torch.ones(1, 2), torch.ones(2, 1))
    torch.ones(2, 3).split([1, 2], dim=1)
    torch.ones(31).view([1] * 30 + [31]).sum(list(range(30)))


def numbers():
    value = torch.ones(3, 4)
    value + 1, value * 2.5, value * 2j, value > 0, value + True
    torch.full((2, 2), 3), torch.empty(0), torch.empty(0, 3, 0)
    torch.tensor(4.0) + torch.tensor(5), torch.tensor(3).item()
    torch.arange(5), torch.linspace(0, 1, 4), torch.where(value > 0, value, 0.0)
    torch.clamp(value, max=2), value.to(torch.float64), value.to("meta") + value.to("meta")


def layouts():
    value = torch.ones(4, 6)
    value.t() + value.t(), value[:, ::2].contiguous(), value.expand(3, 4, 6).sum()
    images = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
    nn.functional.conv2d(images, torch.ones(5, 3, 3, 3)), nn.functional.max_pool2d(images, 2)
    nn.functional.conv3d(torch.ones(1, 2, 3, 3, 3), torch.ones(2, 2, 1, 1, 1), torch.ones(2))
    six = torch.ones(1, 2, 1, 3, 1, 2)
    six + six, six.sum(), torch.ones(2, 1, 1, 1, 1, 1, 1, 1, 3).mul_(2), six.permute(5, 4, 3, 2, 1, 0) * 2
    six.squeeze() + six.squeeze(), torch.cat([six, six])
    nn.functional.layer_norm(value, (6,)), nn.functional.layer_norm(value, (6,), torch.ones(6), torch.ones(6))
    nn.functional.linear(value, torch.ones(2, 6)), nn.functional.embedding(torch.tensor([1, 2]), value)
    value.resize_(2, 12), value.view(2, 2, 3, 2, 1, 1).resize_(24)
    sparse = torch.eye(4).to_sparse()
    sparse + sparse, torch.sparse.mm(sparse, torch.ones(4, 2)), sparse.coalesce().values(), sparse.to_dense()
    torch.eye(3).to_sparse_csr() @ torch.ones(3, 2)
    torch.quantize_per_tensor(torch.ones(3, 2), 0.1, 0, torch.qint8).dequantize()
    torch.ones(3, 2).as_subclass(Text) + 1, nn.Parameter(torch.ones(2)) * 2
    torch.vmap(lambda row: row * 2)(torch.ones(3, 2))
    with torch.inference_mode():
        torch.ones(2, 2) @ torch.ones(2, 2)


def types():
    names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 uint16 uint32 uint64"
    for name in names.split() + ["float8_e4m3fn", "float8_e5m2", "complex32"]:
        value = torch.zeros(2, 3, dtype=getattr(torch, name))
        value.clone(), value.reshape(6)


def gradients():
    value = torch.ones(3, 2, requires_grad=True)
    first, second = Half.apply(value)
    (first.sum() + value.unbind()[0].sum() + value.split(1)[1].sum()).backward()
    torch.autograd.grad((value * value).sum(), value, create_graph=True)
    nn.GRU(2, 3)(torch.ones(4, 1, 2))[0].sum().backward()
    nn.functional.dropout(value, 0.5).sum().backward()


def every():
    """Inputs that are rare in training programs."""

    def step():
        lists(), numbers(), layouts(), types(), gradients()

    return step


def nested():
    """Inputs that PyTorch's profiler does not describe."""

    def step():
        rows = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
        rows + rows, torch.nested.to_padded_tensor(rows, 0.0)
        jagged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
        jagged * 2, torch.ones(1)

    return step


def listing(path):
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    span = next(event for event in events if event.get("name") == "measured" and event.get("ph") == "X")
    begin, end = float(span["ts"]), float(span["ts"]) + float(span["dur"])
    found = Counter()
    for event in events:
        if event.get("cat") == "cpu_op" and begin <= float(event["ts"]) <= end:
            args = event.get("args", {})
            compact = [json.dumps(args.get(key, []), separators=(",", ":")) for key in ("Input Dims", "Input type")]
            found["\t".join([event["name"], *compact])] += 1
    for line, count in sorted(found.items()):
        print(f"{count}\t{line}")


def measured(steps):
    with torch.profiler.record_function("measured"):
        for step in steps:
            step()
            step()


if __name__ == "__main__":
    steps = [globals()[program]() for program in sys.argv[1:] if program != "profile"]
    for step in steps:
        step()
    if sys.argv[-1] == "profile":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
            measured(steps)
        with tempfile.TemporaryDirectory() as folder:
            profile.export_chrome_trace(os.path.join(folder, "trace.json"))
            listing(os.path.join(folder, "trace.json"))
    else:
        measured(steps)
