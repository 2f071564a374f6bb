"""Compiles code repeatedly, each time for another function, and drops it, so that its addresses are reused.

Prints how often a code object lay where one of another function, file or line had been, and how often the recorder would
have taken it for that one.
"""

import _imp
import sys
from importlib.machinery import ModuleSpec

recorder = _imp.create_dynamic(ModuleSpec("_stackline_record", None, origin=sys.argv[1]))
NAME = "co_qualname" if sys.version_info >= (3, 11) else "co_name"
# What was seen last at an address, and under an address and a fingerprint.
at_address = {}
by_identity = {}
reused = taken_for_another = 0


def check():
    global reused, taken_for_another
    code = sys._getframe(1).f_code
    fingerprint = recorder.frames().splitlines()[1].split("\t")[4]
    truth = (getattr(code, NAME), code.co_filename, tuple(code.co_lines()))
    reused += at_address.get(id(code), truth) != truth
    at_address[id(code)] = truth
    identity = (id(code), fingerprint)
    taken_for_another += by_identity.get(identity, truth) != truth
    by_identity[identity] = truth


for number in range(int(sys.argv[2])):
    kind = number * 7 % 4 if number % 2 else number // 1000 % 4
    name, file, gap = "function", "<string>", 0
    if kind == 0:
        name = "function_%d" % number
    elif kind == 1:
        file = "file_%d.py" % number
    elif kind == 2:
        gap = number % 50
    source = "def %s():\n%s check()\n" % (name, "\n" * gap)
    if kind == 3:
        source = "class C%d:\n @staticmethod\n def m():\n  check()\nfunction = C%d.m\n" % (number, number)
    names = {"check": check}
    exec(compile(source, file, "exec"), names)
    names[name]()
    del names
print(reused, taken_for_another)
