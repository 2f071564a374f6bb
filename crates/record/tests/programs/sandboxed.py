"""A program that may not read memory through the kernel, as in some sandboxes, before PyTorch is imported."""

import ctypes
import platform
import struct

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
PROCESS_VM_READV = {"x86_64": 310, "aarch64": 270}[platform.machine()]
# Load the number of the call; if it is that one go on, else skip one; fail with EPERM; allow.
LOAD, JUMP_EQUAL, RETURN, FAIL, ALLOW = 0x20, 0x15, 0x06, 0x00050001, 0x7FFF0000

code = b"".join(
    struct.pack("<HBBI", *instruction)
    for instruction in ((LOAD, 0, 0, 0), (JUMP_EQUAL, 0, 1, PROCESS_VM_READV), (RETURN, 0, 0, FAIL), (RETURN, 0, 0, ALLOW))
)
kept = ctypes.create_string_buffer(code, len(code))
filters = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(kept)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, ctypes.get_errno()
assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filters), 0, 0) == 0, ctypes.get_errno()

import torch  # noqa: E402

print(torch.ones(2, 3).sum().item())
