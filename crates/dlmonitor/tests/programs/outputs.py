"""Outputs of operators are those that PyTorch returned."""

import torch
from tool import OK, UNAVAILABLE, load

tool = load()
tool.want(0, 1)
x = torch.ones(3, 5)
assert tool.register_set(0) == OK
assert tool.init() == OK
x + 1
assert tool.last_outputs() == b"status %d" % UNAVAILABLE, "off by default"
before = tool.begins(0)
assert tool.enable_outputs() == OK
assert tool.begins(0) == before, "calls of DLMonitor's own are not reported"


def outputs(function):
    try:
        function()
    except RuntimeError:
        pass
    return tool.last_outputs().decode()


one = torch.ones(1)
large = torch.ones(1, 2, 1, 2, 1, 2, 1, dtype=torch.float64)
print("unbind", outputs(lambda: x.unbind(1)))
cases = {
    "add": (lambda: x + 1, "0:f32=3x5;"),
    "topk": (lambda: torch.topk(x, 2), "0:f32=3x2;0:i64=3x2;"),
    "unbind": (lambda: x.unbind(1), "1:;" + "0:f32=3;" * 5),
    "item": (lambda: one.item(), "2:;"),
    "seven": (lambda: large * 2, "0:f64=1x2x1x2x1x2x1;"),
    "half": (lambda: x.bfloat16(), "0:bf16=3x5;"),
    "in place": (lambda: x.mul_(1), "0:f32=3x5;"),
    "throws": (lambda: x @ x, ""),
    "span": (lambda: torch.profiler.record_function("span").__enter__().__exit__(None, None, None), None),
}
for name, (function, expected) in cases.items():
    got = outputs(function)
    assert expected is None or got == expected, (name, got, expected)
weights = torch.ones(5, requires_grad=True)
y = (x * weights).sum()
y.backward()
assert torch.equal(weights.grad, torch.full((5,), 3.0))
tool.finalize()
assert tool.register_set(0) == OK
assert tool.init() == OK
x + 1
assert tool.last_outputs() == b"status %d" % UNAVAILABLE, "finalize ends it"
tool.finalize()
print("outputs")
