"""Makes a memory snapshot in PyTorch's format, with Python's own pickler: for tests and benchmarks.

    python make_snapshot.py OUT EVENTS [--protocol N] [--json] [--devices N] [--streams N] [--ring N] [--oom] [--older N]

An allocator in small (segments of 2 and 20 MiB, first fit, no splitting across streams) allocates and frees under a
seeded random workload and records the events of PyTorch's. Frames are dicts that equal call paths share, sizes are as
requested, blocks are rounded to 512 bytes. With `--ring` only the last N events are kept, as PyTorch does. Next to OUT, the
numbers that a reader must find are written to OUT.expected.json: they come from the allocator, not from the events.
"""

import argparse
import json
import pickle
import random

GRANULE = 512
MIB = 1 << 20


def frames_of(depth, seed):
    """Call paths of a made-up program, innermost first; equal ones are one list."""
    python = [
        {"name": "forward", "filename": "model.py", "line": 40 + seed % 7},
        {"name": "_call_impl", "filename": "torch/nn/modules/module.py", "line": 1787},
        {"name": "step", "filename": "train.py", "line": 88 + seed % 3},
        {"name": "<module>", "filename": "train.py", "line": 120},
    ]
    native = [{"name": f"at::native::op{(seed + level) % 9}(at::Tensor const&)", "filename": "??", "line": 0}
              for level in range(depth)]
    return native + python


class Allocator:
    """One device: segments that hold blocks, each a list [address, size, requested, state, frames]."""

    def __init__(self, device, events):
        self.device, self.events = device, events
        self.segments, self.next_address = [], 0x7F0000000000 + (device << 40)
        self.allocated = self.requested = self.reserved = self.peak = 0

    def event(self, clock, action, addr, size, stream, frames, **more):
        self.events.append({"action": action, "addr": addr, "size": size, "stream": stream, "time_us": clock,
                            "compile_context": "N/A", "user_metadata": "", "frames": frames, "pool_id": tuple([0, 0]), **more})

    def allocate(self, clock, size, stream, frames):
        rounded = max(GRANULE, -(-size // GRANULE) * GRANULE)
        small = rounded <= MIB
        for segment in self.segments:
            if segment["stream"] != stream or segment["small"] != small:
                continue
            for at, block in enumerate(segment["blocks"]):
                if block[3] == "inactive" and block[1] >= rounded:
                    return self.take(clock, segment, at, rounded, size, frames)
        total = 2 * MIB if small else max(20 * MIB, -(-rounded // (2 * MIB)) * 2 * MIB)
        segment = {"address": self.next_address, "size": total, "stream": stream, "small": small, "frames": frames,
                   "blocks": [[self.next_address, total, 0, "inactive", []]]}
        self.next_address += total + 2 * MIB
        self.segments.append(segment)
        self.reserved += total
        self.event(clock, "segment_alloc", segment["address"], total, stream, frames)
        return self.take(clock, segment, 0, rounded, size, frames)

    def take(self, clock, segment, at, rounded, size, frames):
        block = segment["blocks"][at]
        rest = block[1] - rounded
        if rest >= (GRANULE if segment["small"] else MIB):
            segment["blocks"].insert(at + 1, [block[0] + rounded, rest, 0, "inactive", []])
            block[1] = rounded
        block[2], block[3], block[4] = size, "active_allocated", frames
        self.allocated += block[1]
        self.requested += size
        self.peak = max(self.peak, self.allocated)
        self.event(clock, "alloc", block[0], size, segment["stream"], frames)
        return segment, block

    def free(self, clock, segment, block, frames, completed=True):
        self.event(clock, "free_requested", block[0], block[2], segment["stream"], frames)
        self.allocated -= block[1]
        self.requested -= block[2]
        if not completed:
            block[3] = "active_pending_free"
            return
        self.event(clock, "free_completed", block[0], block[2], segment["stream"], frames)
        block[3], block[2], block[4] = "inactive", 0, []
        blocks = segment["blocks"]
        at = next(i for i, other in enumerate(blocks) if other is block)
        for left in (at, at - 1):
            if 0 <= left < len(blocks) - 1 and blocks[left][3] == blocks[left + 1][3] == "inactive":
                blocks[left][1] += blocks[left + 1][1]
                del blocks[left + 1]

    def snapshot(self):
        def block(b):
            return {"address": b[0], "size": b[1], "requested_size": b[2] or b[1], "state": b[3], "frames": b[4]}

        return [{"device": self.device, "address": s["address"], "total_size": s["size"], "stream": s["stream"],
                 "segment_type": "small" if s["small"] else "large", "segment_pool_id": (0, 0), "is_expandable": False,
                 "allocated_size": sum(b[1] for b in s["blocks"] if b[3] == "active_allocated"),
                 "active_size": sum(b[1] for b in s["blocks"] if b[3] != "inactive"),
                 "requested_size": sum(b[2] for b in s["blocks"] if b[3] != "inactive"),
                 "blocks": [block(b) for b in s["blocks"]], "frames": s["frames"]} for s in self.segments]


def make(args):
    rng = random.Random(args.seed)
    stacks = [frames_of(depth, seed) for seed in range(40) for depth in (2, 6, 10)]
    traces = [[] for _ in range(args.devices)]
    allocators = [Allocator(device, events) for device, events in enumerate(traces)]
    alive, clock, count = [[] for _ in range(args.devices)], 1_700_000_000_000_000, 0
    while count < args.events:
        clock += rng.randrange(1, 40)
        device = rng.randrange(args.devices)
        allocator, here = allocators[device], alive[device]
        before = len(traces[device])
        if here and (len(here) > args.alive or rng.random() < 0.48):
            segment, block = here.pop(rng.randrange(len(here)))
            allocator.free(clock, segment, block, rng.choice(stacks))
        else:
            size = rng.choice([rng.randrange(1, 4096), rng.randrange(4096, 300_000), rng.randrange(MIB, 8 * MIB)])
            here.append(allocator.allocate(clock, size, rng.randrange(args.streams), rng.choice(stacks)))
        count += len(traces[device]) - before
    first = allocators[0]
    if args.oom:
        clock += 5
        traces[0].append({"action": "oom", "device_free": 3 * MIB, "size": 64 << 30, "stream": 0, "time_us": clock,
                          "compile_context": "N/A", "user_metadata": "", "frames": stacks[0], "pool_id": (0, 0)})
    traces[0].append({"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": clock + 1,
                      "compile_context": "N/A", "user_metadata": "", "frames": [], "pool_id": (0, 0)})
    if args.ring:
        traces = [trace[-args.ring:] for trace in traces]
    snapshot = {"segments": [s for a in allocators for s in a.snapshot()], "device_traces": traces,
                "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
                                       "garbage_collection_threshold": 0.0, "expandable_segments": False,
                                       "roundup_power2_divisions": {"1": 0, "512": 0}},
                "external_annotations": []}
    expected = {"devices": [{"allocated": a.allocated, "requested": a.requested, "reserved": a.reserved, "peak": a.peak,
                             "alive": len(alive[a.device]), "segments": len(a.segments)} for a in allocators],
                "events": sum(map(len, traces)), "first_requested": first.requested}
    return snapshot, expected


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("events", type=int)
    for name, default in [("protocol", 4), ("devices", 1), ("streams", 2), ("ring", 0), ("alive", 400), ("seed", 1)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--oom", action="store_true")
    args = parser.parse_args()
    snapshot, expected = make(args)
    if args.json:
        with open(args.out, "w") as out:
            json.dump(snapshot, out)
    else:
        with open(args.out, "wb") as out:
            pickle.dump(snapshot, out, protocol=args.protocol)
    with open(args.out + ".expected.json", "w") as out:
        json.dump(expected, out)


if __name__ == "__main__":
    main()
