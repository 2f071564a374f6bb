"""The environments that the recorder is tested in: stubs replace libraries, half-made environments do not count.

None of this needs PyTorch or a network; a library made here replaces PyTorch's."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "torch_env.py"
spec = importlib.util.spec_from_file_location("torch_env", PROGRAM)
assert spec and spec.loader
torch_env = importlib.util.module_from_spec(spec)
spec.loader.exec_module(torch_env)

needs_linker = pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("gcc") and shutil.which("readelf")), reason="needs gcc and readelf"
)


def build(folder: Path, name: str, source: str, *flags: str) -> None:
    command = ["gcc", "-shared", "-fPIC", "-w", "-o", folder / name, "-x", "c", "-", "-x", "none", *flags]
    subprocess.run(command, input=source, text=True, check=True)


@needs_linker
def test_stubs_replace_missing_libraries(tmp_path: Path) -> None:
    real, lib, scratch = tmp_path / "real", tmp_path / "lib", tmp_path / "scratch"
    for folder in (real, lib, scratch):
        folder.mkdir()
    (real / "map").write_text("NODE_1 { global: cudaOne; }; NODE_2 { global: cudaTwo; };", encoding="utf-8")
    versions = f"-Wl,--version-script={real / 'map'}"
    build(real, "libcudart.so.9", "int cudaOne() {} int cudaTwo() {}", "-Wl,-soname,libcudart.so.9", versions)
    build(real, "libnccl.so.2", "int ncclSend() {}", "-Wl,-soname,libnccl.so.2")
    build(real, "libcufile.so.0", "int cuFileRead() {}", "-Wl,-soname,libcufile.so.0")
    calls = "int use() { return cudaOne() + cudaTwo() + ncclSend() + cuFileRead(); } void *taken() { return cudaTwo; }"
    links = [f"-L{real}", "-l:libcudart.so.9", "-l:libnccl.so.2", "-l:libcufile.so.0", "-Wl,-rpath,$ORIGIN"]
    build(lib, "libtorch_like.so", f"int cudaTwo(); {calls}", *links)
    with pytest.raises(OSError):
        ctypes.CDLL(str(lib / "libtorch_like.so"))

    assert torch_env.write_stubs(lib, scratch) == ["libcudart.so.9", "libcufile.so.0", "libnccl.so.2"]
    library = ctypes.CDLL(str(lib / "libtorch_like.so"), mode=os.RTLD_NOW)
    assert library.use() == 4 * torch_env.NO_DEVICE
    assert ctypes.CDLL(str(lib / "libcufile.so.0")).cuFileRead() == torch_env.NO_DEVICE
    assert ctypes.CDLL(str(lib / "libnccl.so.2")).ncclSend() == torch_env.NO_DEVICE


def test_environments_without_stamp_are_incomplete(tmp_path: Path) -> None:
    home = tmp_path / "torch-2.15.0-py311"
    assert not torch_env.complete(home, "2.15.0")
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").symlink_to(sys.executable)
    stamp = home / torch_env.STAMP
    assert not torch_env.complete(home, "2.15.0")
    stamp.write_text(f'{{"recipe": {torch_env.RECIPE}, "torch": "2.15.0"}}', encoding="utf-8")
    assert torch_env.complete(home, "2.15.0")
    assert not torch_env.complete(home, "2.6.0")
    (home / "bin" / "python").unlink()
    assert not torch_env.complete(home, "2.15.0"), "its interpreter was removed"


def test_requirements_exclude_gpu_packages(tmp_path: Path) -> None:
    info = tmp_path / "torch-9.dist-info"
    info.mkdir()
    lines = ["sympy==1.13.1; python_version >= '3.9'", "nvidia-nccl-cu12==2; platform_system == 'Linux'", "triton==3"]
    lines += ["cuda-toolkit[cublas]==13", "filelock", "optree>=0.13; extra == 'optree'"]
    (info / "METADATA").write_text("".join(f"Requires-Dist: {line}\n" for line in lines), encoding="utf-8")
    assert torch_env.requirements_of_torch(tmp_path) == [lines[0], "filelock", "numpy"]


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--torch", "../evil"], "not a version"),
        (["--python", "no-such-python"], "does not start"),
        (["--root", "/proc/nowhere"], "give a writable directory with --root"),
    ],
)
def test_failures_have_advice(options: list[str], advice: str) -> None:
    done = subprocess.run([sys.executable, PROGRAM, *options], text=True, capture_output=True, check=False)
    assert done.returncode != 0 and not done.stdout
    assert advice in done.stderr


def test_missing_tools_are_named_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(torch_env.Failure, match="gcc is missing"):
        torch_env.check_tools(tmp_path / "home")
