"""A tool that starts before PyTorch is imported receives all operators from the import on."""

import sys

from tool import OK, UNAVAILABLE, load

tool = load()
assert "torch" not in sys.modules
assert tool.enable_outputs() == UNAVAILABLE
if sys.argv[2] != "again":
    assert tool.register_set(0) == OK
assert tool.init() == UNAVAILABLE, "PyTorch is not there yet"
assert tool.init() == UNAVAILABLE
if sys.argv[2] == "stopped":
    tool.finalize()
if sys.argv[2] == "again":
    tool.finalize()
    assert tool.enable_outputs() == UNAVAILABLE
    assert tool.register_set(0) == OK
    assert tool.init() == UNAVAILABLE
tool.want(1, 1)
import torch  # noqa: E402

first = tool.begins(0)
x = torch.empty(3).neg()
if sys.argv[2] == "stopped":
    assert tool.begins(0) == 0
else:
    assert tool.begins(0) - first == 2, tool.begins(0) - first
    assert tool.last_outputs() == b"0:f32=3;", tool.last_outputs()
    assert tool.last_path() == b"<module>:25|[aten::neg]|", tool.last_path()
    assert tool.init() == OK
    assert torch._C.__loader__.__class__.__name__ == "ExtensionFileLoader"
print("began before")
