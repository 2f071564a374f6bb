"""Fixtures: the corpus of real traces (see CONTRIBUTING.md), and a small trace with numbers that one can check by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Directory of the corpus; without one the test is skipped, in CI it fails."""
    path = Path(os.environ.get("STACKLINE_CORPUS") or REPOSITORY / ".." / "shared" / "corpus").resolve()
    if not path.is_dir():
        message = f"no corpus at {path} (STACKLINE_CORPUS says where it is)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return path


def complete(name: str, cat: str, ts: float, dur: float, tid: int, **args: Any) -> dict[str, Any]:
    """A complete event of process 100 (threads) or, for GPU categories, of device 0; times in µs."""
    gpu = cat in ("kernel", "gpu_memcpy")
    return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "pid": 0 if gpu else 100, "tid": tid, "args": args}


def training_steps(steps: int, first_us: int = 0, rank: int = 0) -> dict[str, Any]:
    """A Kineto trace of `steps` steps, 1000 µs each: an operator launches two kernels (100 µs and 50.25 µs) and a copy."""
    events: list[dict[str, Any]] = []
    for step in range(steps):
        t, c = first_us + step * 1000, 10 * (step + 1)
        events += [
            complete(f"ProfilerStep#{step}", "user_annotation", t, 900, 1),
            complete("aten::linear", "cpu_op", t + 10, 200, 1, **{"External id": c, "Input Dims": [[8, 16], [32, 16]]}),
            complete("aten::addmm", "cpu_op", t + 20, 100, 1, **{"External id": c + 1}),
            complete("cudaLaunchKernel", "cuda_runtime", t + 30, 10, 1, correlation=c, **{"External id": c + 1}),
            complete("cudaLaunchKernel", "cuda_runtime", t + 60, 10, 1, correlation=c + 1, **{"External id": c + 1}),
            complete("cudaMemcpyAsync", "cuda_runtime", t + 150, 20, 1, correlation=c + 2, **{"External id": c}),
            complete("gemm", "kernel", t + 50, 100, 7, device=0, stream=7, correlation=c, **{"External id": c + 1}),
            complete("relu", "kernel", t + 150, 50.25, 7, device=0, stream=7, correlation=c + 1),
            complete("Memcpy DtoH (Device -> Pageable)", "gpu_memcpy", t + 210, 5, 7, device=0, stream=7, correlation=c + 2, bytes=4096),
        ]
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}


@pytest.fixture(scope="session")
def small_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps of one rank."""
    path = tmp_path_factory.mktemp("small") / "small.json"
    path.write_text(json.dumps(training_steps(3)))
    return path


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two ranks."""
    path = tmp_path_factory.mktemp("ranks")
    for rank in range(2):
        (path / f"rank{rank}.json").write_text(json.dumps(training_steps(3, rank=rank)))
    return path


@pytest.fixture(scope="session")
def big_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 900,000 events, 130 MB: enough for a second of reading."""
    path = tmp_path_factory.mktemp("big") / "big.json"
    block = training_steps(1000)["traceEvents"]
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for copy in range(100):
            for event in block:
                event["ts"] += 1_000_000
                if "correlation" in event["args"]:
                    event["args"]["correlation"] += 100_000
            text = ",\n".join(json.dumps(event) for event in block)
            file.write(text if copy == 0 else ",\n" + text)
        file.write("\n]}\n")
    return path


@pytest.fixture(scope="session")
def cli() -> Path:
    """The binary `stackline`, as `./dev test` builds it; without one the test is skipped, in CI it fails."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target")
    path = Path(os.environ.get("STACKLINE_BINARY") or target / "release" / "stackline")
    if not path.is_file():
        message = f"no stackline at {path} (cargo build --release -p stackline-cli; STACKLINE_BINARY says where it is)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return path
