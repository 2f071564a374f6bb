"""Moves the alternate signal stack of this thread, which faulthandler allotted on the heap, right above pages that fault: a thread that
uses more than it has is killed, instead of overwriting the memory there. The new one is as small as CPython makes it where ``SIGSTKSZ`` is
a constant of 8 KiB: newer C libraries have larger ones on newer processors."""

import ctypes
import mmap

C = ctypes.CDLL(None, use_errno=True)
C.mmap.restype = ctypes.c_void_p
C.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
C.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
C.getauxval.restype = ctypes.c_ulong
C.getauxval.argtypes = [ctypes.c_ulong]
GUARD, AT_MINSIGSTKSZ = 65536, 51


class Stack(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]


def guard():
    stack = Stack()
    assert C.sigaltstack(None, ctypes.byref(stack)) == 0 and stack.size > 0, "no alternate stack"
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    size = min(stack.size, 8192 + (C.getauxval(AT_MINSIGSTKSZ) or 2048)) & ~15
    bottom = C.mmap(None, GUARD + size, protection, flags, -1, 0)
    assert C.mprotect(bottom, GUARD, 0) == 0
    assert C.sigaltstack(ctypes.byref(Stack(bottom + GUARD, 0, size)), None) == 0
