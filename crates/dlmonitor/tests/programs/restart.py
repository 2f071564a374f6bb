"""Stops and starts a tool repeatedly, also during operators, and checks the reported events."""

import threading

from tool import OK, load

tool = load()
import torch  # noqa: E402

x = torch.ones(4)


def work():
    return x.neg()


def seen(of, action):
    before = [tool.begins(0), tool.begins(1), tool.ends(0), tool.ends(1)]
    action()
    after = [tool.begins(0), tool.begins(1), tool.ends(0), tool.ends(1)]
    now = [b - a for a, b in zip(before, after)]
    print(of, now)
    return now


assert tool.register_set(0) == OK
assert tool.init() == OK
assert seen("first", work) == [1, 0, 1, 0]
tool.finalize()
assert seen("stopped", work) == [0, 0, 0, 0]
assert tool.init() == OK
assert seen("no callback", work) == [0, 0, 0, 0], "finalize unregisters"
tool.finalize()
for _ in range(50):
    assert tool.register_set(1) == OK
    assert tool.init() == OK
    assert tool.init() == OK, "on is on"
    assert seen("another set", work) == [0, 1, 0, 1]
    tool.finalize()

# An operator that is open while all is stopped and started: its end is nobody's, and the path still has it.
assert tool.register_set(0) == OK
assert tool.init() == OK
tool.want(1, 0)
ready, go_on, done = threading.Event(), threading.Event(), []


def with_open_span():
    with torch.profiler.record_function("outer span"):
        ready.set()
        go_on.wait()
        tool.forget_begins()
        work()
        done.append(tool.last_path().decode())
    work()
    done.append(tool.last_path().decode())


thread = threading.Thread(target=with_open_span, daemon=True)
thread.start()
ready.wait()
with torch.profiler.record_function("begins, and ends while stopped"):
    tool.finalize()
    inner = torch.profiler.record_function("begins while stopped")
    inner.__enter__()
assert tool.register_set(0) == OK
assert tool.init() == OK
ends = tool.ends(0)
inner.__exit__(None, None, None)
go_on.set()
thread.join()
assert tool.unmatched(0) == 0, tool.unmatched(0)
assert tool.ends(0) - ends == 2, "two calls of neg, and no span"
assert done[0].count("[") == 2 and "[outer span]" in done[0] and done[0].endswith("|work:14|[aten::neg]|"), done[0]
assert done[1].count("[") == 1 and done[1].endswith("|work:14|[aten::neg]|"), done[1]
work()
assert "stopped" not in tool.last_path().decode(), tool.last_path()
tool.finalize()
print("restarted")
