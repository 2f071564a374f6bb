"""Time to walk a call tree of a million nodes: `python benches/rules/walk.py [NODES]`.

Makes a trace whose call paths all differ (a tree that branches eight ways, operators down to a depth of seven), opens it, and goes
through all nodes level by level, reading the name and time of each. The issue asks for less than 2 s (release build).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import stackline as sl

BRANCHES = 8


def write(path: Path, nodes: int) -> None:
    """A trace of so many operators, each of another call path."""
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [')
        starts, ends = [0.0] * nodes, [0.0] * nodes
        # The node `i` calls those from `8i + 1` to `8i + 8`; each part of a caller's time is a child's.
        ends[0] = 8.0**8
        for node in range(1, nodes):
            caller, part = divmod(node - 1, BRANCHES)
            length = (ends[caller] - starts[caller]) / (BRANCHES + 1)
            starts[node] = starts[caller] + length * (part + 0.5)
            ends[node] = starts[node] + length
        for node in range(nodes):
            name = f"aten::op{node % BRANCHES}_{node % 1000}"
            duration = ends[node] - starts[node]
            separator = "," if node else ""
            file.write(
                f'{separator}\n{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{starts[node]:.3f},"dur":{duration:.3f}}}'
            )
        file.write("]}\n")


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.json"
        write(path, nodes)
        run = sl.open(path, progress=False)
    begin = time.perf_counter()
    tree = run.call_tree()
    made = time.perf_counter()
    total = length = count = 0
    for n in sl.bfs(tree.nodes):
        total += n.time
        length += len(n.name)
        count += 1
    walked = time.perf_counter()
    print(f"{count:,} nodes of {nodes:,} events: tree made in {made - begin:.2f} s, walked in {walked - made:.2f} s")


if __name__ == "__main__":
    main()
