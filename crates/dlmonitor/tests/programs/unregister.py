"""Callbacks are unregistered, while operators run on other threads, too."""

import threading

import torch
from tool import FULL, NOT_FOUND, OK, load

tool = load()
x = torch.ones(4)
assert tool.init() == OK
assert tool.unregister_set(0) == NOT_FOUND
assert tool.register_set(0) == OK and tool.register_set(1) == OK
x.neg()
assert (tool.begins(0), tool.begins(1)) == (1, 1)
assert tool.unregister_set(0) == OK
assert tool.unregister_set(0) == NOT_FOUND
x.neg()
assert (tool.begins(0), tool.begins(1)) == (1, 2)
assert tool.unregister_set(1) == OK
x.neg()
assert (tool.begins(0), tool.begins(1)) == (1, 2)
# All places are free again, often.
for _ in range(100):
    assert [tool.register_set(0) for _ in range(9)] == [OK] * 8 + [FULL]
    assert [tool.unregister_set(0) for _ in range(9)] == [OK] * 8 + [NOT_FOUND]

stop = threading.Event()


def work():
    y = torch.ones(4)
    while not stop.is_set():
        y.neg_()


threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(5):
    assert tool.register_slow(0) == OK
    while tool.running(0) == 0:
        pass
    assert tool.unregister_slow(0) == OK
    assert tool.running(0) == 0, "no callback runs any more"
assert tool.register_slow(0) == OK
while tool.running(0) == 0:
    pass
tool.finalize()
assert tool.running(0) == 0, "no callback runs any more"
stop.set()
for thread in threads:
    thread.join()
print("unregistered")
