"""Shared by the foreign programs: prints hashes of results, and counts operators with PyTorch's profiler on request.

FOREIGN_PROFILE=path runs the program under torch.profiler and writes calls per operator name to the path as JSON (of a
rank R of a job to path.R). FOREIGN_EMPTY=1 runs all but the program: the operators of imports.
"""

import collections
import hashlib
import json
import os

import torch


def digest(*values):
    """A hash of the bits of tensors, and of the texts of other values."""
    found = hashlib.sha256()
    for value in values:
        if isinstance(value, torch.Tensor):
            found.update(value.detach().contiguous().numpy().tobytes())
        else:
            found.update(repr(value).encode())
    return found.hexdigest()[:16]


def main(program):
    """Run the program as the environment says."""
    torch.set_num_threads(1)
    torch.manual_seed(7)
    if os.environ.get("FOREIGN_EMPTY"):
        return
    path = os.environ.get("FOREIGN_PROFILE")
    if not path:
        program()
        return
    every_thread = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], experimental_config=every_thread
    ) as profile:
        program()
    names = (event.name() for event in profile.profiler.kineto_results.events())
    counts = collections.Counter(name for name in names if name.startswith("aten::"))
    rank = os.environ.get("RANK")
    with open(path if rank is None else f"{path}.{rank}", "w") as file:
        json.dump(counts, file)
