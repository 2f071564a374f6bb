"""Recording by ``sl.record`` with PyTorch, in an environment that has both (``STACKLINE_TORCH``)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import REPOSITORY
from recording import make_torch_python, needs_recorder, streams, succeeds

pytestmark = needs_recorder


@pytest.fixture(scope="session")
def torch_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with PyTorch and this package; without PyTorch the test is skipped, in CI it fails."""
    torch = os.environ.get("STACKLINE_TORCH")
    if not torch:
        message = "STACKLINE_TORCH names no Python with PyTorch (python/torch_env.py makes one)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return make_torch_python(tmp_path_factory.mktemp("torch") / "env", torch)


def test_operators_are_recorded_before_and_after_pytorch_is_imported(tmp_path: Path, torch_python: str) -> None:
    program = """
    import sys
    with sl.record("before.stackline"):
        assert "torch" not in sys.modules
    with sl.record("during.stackline"):
        import torch
        torch.ones(3).exp()
    torch.ones(3).sin()
    finders = list(sys.meta_path)
    with sl.record("after.stackline"):
        torch.ones(3).cos()
    assert sys.meta_path == finders, "nothing waits for imports any more"
    """
    succeeds(tmp_path, program, python=torch_python)
    before, during, after = (streams(tmp_path / f"{run}.stackline")[0] for run in ("before", "during", "after"))
    assert b"aten::" not in before
    assert b"aten::exp" in during and b"aten::sin" not in during and b"aten::cos" not in during
    assert b"aten::cos" in after and b"aten::sin" not in after and b"aten::exp" not in after


def test_modules_made_before_and_after_the_begin_have_names(tmp_path: Path, torch_python: str) -> None:
    program = """
    import torch
    def model(name):
        return torch.nn.Sequential(torch.nn.ModuleDict({name: torch.nn.Linear(2, 2)})[name])
    class Net(torch.nn.Module):
        def __init__(self, name):
            super().__init__()
            self.parts = torch.nn.ModuleDict({name: torch.nn.Linear(2, 2)})
        def forward(self, x):
            for part in self.parts.values():
                x = part(x)
            return x
    early = Net("early")
    for run in range(2):
        with sl.record(f"{run}.stackline"):
            early(torch.ones(2))
            late = Net("late")
            late(torch.ones(2)).sum().backward()
    from torch.nn.modules import module
    assert not module._global_module_registration_hooks
    """
    succeeds(tmp_path, program, python=torch_python)
    for run in range(2):
        [stream] = streams(tmp_path / f"{run}.stackline")
        assert b"parts.early" in stream and b"parts.late" in stream


def test_spans_are_recorded_and_seen_by_the_profiler(tmp_path: Path, torch_python: str) -> None:
    program = """
    import torch
    from torch.profiler import profile, ProfilerActivity

    @sl.span("a decorated span")
    def work(again=sl.span("a span inside")):
        with again, again:
            return torch.ones(3).exp()

    with sl.record("run.stackline"):
        work()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        work()
    assert {"a decorated span", "a span inside"} <= {event.name for event in profiler.events()}
    torch.ops.profiler._record_function_enter_new = None
    work()  # nobody watches
    """
    succeeds(tmp_path, program, python=torch_python)
    [stream] = streams(tmp_path / "run.stackline")
    assert b"a decorated span" in stream and b"a span inside" in stream


def test_spans_do_not_break_compilation(tmp_path: Path, torch_python: str) -> None:
    program = """
    import torch

    @torch.compile(backend="eager")
    def work(x):
        with sl.span("compiled"):
            return x.exp().sum()

    print(work(torch.zeros(3)).item())
    with sl.record("run.stackline"):
        print(work(torch.zeros(3)).item())
    """
    assert succeeds(tmp_path, program, python=torch_python) == "3.0\n3.0\n"


def test_workers_and_forks_are_recorded(tmp_path: Path, torch_python: str) -> None:
    program = """
    import os, sys, torch
    from torch.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self):
            return 8
        def __getitem__(self, index):
            return torch.full((4,), index).cumsum(0)

    if __name__ == "__main__":
        with sl.record("run.stackline"):
            for context in ("fork", "spawn"):
                loader = DataLoader(Numbers(), batch_size=2, num_workers=2, multiprocessing_context=context)
                print(sum(int(batch.sum()) for batch in loader))
            child = os.fork()
            if child == 0:
                torch.ones(3).exp()
                sys.exit(3)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert succeeds(tmp_path, program, python=torch_python) == "280\n280\n3\n"
    found = streams(tmp_path / "run.stackline")
    assert sum(b"aten::cumsum" in stream for stream in found) == 4, "two workers by fork, two by spawn"
    assert sum(b"aten::exp" in stream for stream in found) == 1, "the child that ended inside the recording"


def test_a_trace_is_larger_than_a_profile(tmp_path: Path, torch_python: str) -> None:
    program = """
    import torch
    for mode in ("profile", "trace"):
        with sl.record(f"{mode}.stackline", mode=mode, sample_hz=0):
            for _ in range(5000):
                torch.ones(3).exp()
    """
    succeeds(tmp_path, program, python=torch_python)
    profile, trace = (sum(map(len, streams(tmp_path / f"{mode}.stackline"))) for mode in ("profile", "trace"))
    assert trace > profile + 20_000


def test_documented_recording_examples_run(tmp_path: Path, torch_python: str) -> None:
    page = (REPOSITORY / "docs" / "python" / "README.md").read_text()
    blocks = re.findall(r"^```py\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert blocks
    succeeds(tmp_path, "\n".join(blocks), python=torch_python)
    assert (tmp_path / "run.stackline" / "streams").is_dir()


def test_memory_waste_is_found(tmp_path: Path, torch_python: str) -> None:
    program = """
    import torch
    with sl.record("run.stackline", mode="trace", memory=True):
        unused = torch.empty(1 << 20)
        for _ in range(20):
            torch.mm(torch.ones(4, 4), torch.ones(4, 4))
        del unused
    found = sl.open("run.stackline").findings()
    wasted = [row for row in found.to_pylist() if row["gain_bytes"] == 4 << 20]
    assert wasted and wasted[0]["code"].startswith("SL05"), found.to_pylist()
    one = sl.open("run.stackline").findings(rank=0).to_pylist()
    assert [row["title"] for row in one] == [row["title"] for row in found.to_pylist()]
    """
    succeeds(tmp_path, program, python=torch_python)
