"""Spans with numbers in their names: memory does not grow with them."""

import torch
from tool import OK, load

tool = load()
assert tool.register_set(0) == OK
assert tool.init() == OK
tool.want(1, 0)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def spans(first, count):
    for number in range(first, first + count):
        with torch.profiler.record_function(f"iteration {number} " + "x" * 150):
            pass


x = torch.ones(2)
spans(0, 20_000)
before = resident()
spans(20_000, 150_000)
grown = resident() - before
with torch.profiler.record_function("iteration last"):
    x.neg_()
    path = tool.last_path().decode()
    assert "[iteration last]|" in path and path.endswith("|[aten::neg_]|"), path
assert tool.spans(0) == 170_001, tool.spans(0)
tool.finalize()
print("grown by", grown)
assert grown < 4 << 20, grown
