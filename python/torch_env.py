"""A virtual environment with a stock PyTorch wheel on a machine without a GPU, made once and kept.

    python3 python/torch_env.py [--torch VERSION] [--python INTERPRETER] [--jax] [--root DIR]

prints the path of the environment's python. PyTorch's default wheel wants gigabytes of NVIDIA libraries only to be
imported, so the wheel is installed without them, and tiny stubs replace them. Stubs are shared libraries with the same
names, in which every function that PyTorch looks up returns cudaErrorNoDevice. PyTorch then behaves as on any machine
without a GPU. Nothing in the wheel is changed; a wheel built for CPUs needs no stub and gets none.

Each environment is a directory of its own. It is made at its final path, since virtual environments hold absolute
paths, under a lock, and counts as complete only with a stamp, written last: the remains of an interrupted run are removed.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

# The version tests use unless told otherwise: pinned, so that a cached environment needs no look at an index.
NEWEST = "2.15.0"
# The newest for each Python that newer wheels leave out.
NEWEST_FOR = {(3, 10): "2.14.1"}
# To be raised whenever this file makes other environments than before: those with another number are made anew.
RECIPE = 1
STAMP = "stackline-env.json"
# Programs that tests record; added to environments that lack them, without making these anew.
TOOLS = ["pytest==9.2.0", "ipykernel==6.31.0; python_version < '3.11'", "ipykernel==7.4.0; python_version >= '3.11'"]
TOOLS_STAMP = "stackline-tools.json"
# PyTorch 2.6's wheel is 0.77 GB and unpacks to 1.9 GB.
NEEDED_GB = 4
NO_DEVICE = 100
# The libraries and functions that only a machine with an NVIDIA GPU has.
NVIDIA_SONAME = re.compile(r"lib(cu|nv|nccl)")
NVIDIA_SYMBOL = re.compile(r"(cu|nv|nccl)")
# Requirements that are NVIDIA's, or of use only with a GPU, or an extra.
GPU_REQUIREMENT = re.compile(r"(nvidia|cuda|triton|pytorch-triton)\b|.*;.*\bextra\b", re.IGNORECASE)
CHECK = "import torch; x = torch.ones(3, requires_grad=True); (x * x).sum().backward(); assert x.grad.sum() == 6"


class Failure(Exception):
    """Reason for a missing environment, and its remedy, as sentences for the user."""


def print_line(text: str) -> None:
    """Progress goes to stderr: stdout holds nothing but the path."""
    print(f"torch_env: {text}", file=sys.stderr, flush=True)


# What pip says, and what its user should do. Its own words are printed too; the first that fits is explained.
PIP_HINTS = (
    (r"No space left on device", "The disk is full: free some space or pick another directory with --root."),
    (
        r"NewConnectionError|NameResolution|Temporary failure|Max retries|timed out|ProxyError|Network is unreachable",
        "pip could not reach its package index: connect the machine, or set PIP_INDEX_URL or PIP_PROXY.",
    ),
    (r"CERTIFICATE_VERIFY_FAILED", "The index' certificate is not trusted: PIP_CERT names the bundle to trust."),
    (
        r"No matching distribution|Could not find a version",
        "There is no such wheel for this interpreter and machine: pick another with --torch or --python.",
    ),
)


def run(command: Sequence[str | Path], env: dict[str, str] | None = None, keep: Sequence[int] = ()) -> str:
    """Run a command, which keeps those descriptors, and return its output; a failure shows the end of the output, with
    a hint if there is one."""
    try:
        done = subprocess.run(command, text=True, capture_output=True, check=False, env=env, pass_fds=keep)
    except OSError as error:
        raise Failure(f"{command[0]} does not start: {error}.") from error
    if done.returncode == 0:
        return str(done.stdout)
    output = (done.stdout + done.stderr).strip()
    hint = next((hint for pattern, hint in PIP_HINTS if re.search(pattern, output)), "")
    tail = "\n".join(output.splitlines()[-15:])
    raise Failure(f"{' '.join(map(str, command))} failed ({done.returncode}):\n{tail}\n{hint}".rstrip())


def python_version(interpreter: str) -> tuple[int, int]:
    """The version an interpreter has: its name may lie (a pyenv shim, a symbolic link)."""
    answer = run([interpreter, "-I", "-c", "import sys; print(*sys.version_info[:2])"])
    major, minor = map(int, answer.split())
    if (major, minor) < (3, 10):
        raise Failure(f"{interpreter} is Python {major}.{minor}, 3.10 is needed: --python picks another.")
    return major, minor


def default_root() -> Path:
    """Directory that keeps environments between runs: a CI job should cache it."""
    cache = os.environ.get("STACKLINE_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "stackline"


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Holds a lock file, and gives its descriptor: children that inherit it hold the lock as well, so that no second
    run wipes the environment below a pip whose parent was killed. The file stays: removing it would race."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_line(f"another run makes this environment, waiting ({path})")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def is_stamped(home: Path, stamp: str, recipe: object) -> bool:
    """Check if a folder exists, is complete, and has this recipe."""
    try:
        return bool(json.loads((home / stamp).read_text(encoding="utf-8")) == recipe)
    except (OSError, ValueError):
        return False


def put_stamp(home: Path, stamp: str, recipe: object) -> None:
    """Says that a folder is whole: the last thing that is written to it."""
    partial = home / f"{stamp}.partial"
    partial.write_text(json.dumps(recipe, indent=1) + "\n", encoding="utf-8")
    partial.rename(home / stamp)


def complete(home: Path, torch: str) -> bool:
    """Check if an environment exists, is complete, has this recipe, and still has its interpreter."""
    try:
        stamp = json.loads((home / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return stamp.get("recipe") == RECIPE and stamp.get("torch") == torch and (home / "bin" / "python").exists()


def check_tools(home: Path) -> None:
    """Fails before half a gigabyte is fetched, not after."""
    for tool, package in (("gcc", "gcc"), ("readelf", "binutils")):
        if shutil.which(tool) is None:
            raise Failure(f"{tool} is missing. Debian, Ubuntu: apt install {package}. Fedora: dnf install {package}.")
    free = shutil.disk_usage(home.parent).free / 1e9
    if free < NEEDED_GB:
        raise Failure(f"{home.parent} has {free:.1f} GB free, {NEEDED_GB} are needed: free some or use --root.")


def make(home: Path, interpreter: str, torch: str, jax: bool, lock: int) -> None:
    """Makes an environment; the stamp, which makes it count, comes last."""
    shutil.rmtree(home, ignore_errors=True)
    check_tools(home)
    print_line(f"making {home} (once; about a minute, 0.6 to 1 GB to fetch)")
    try:
        run([interpreter, "-I", "-m", "venv", home], keep=[lock])
    except Failure as error:
        raise Failure(f"{error}\nDebian and Ubuntu have venv in a package: apt install python3-venv.") from error
    python = home / "bin" / "python"
    # Wheels unpack beside where they go: what is left of an interrupted run is wiped with it, and one disk is enough.
    scratch = home / "tmp"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}

    def install(*what: str | Path) -> None:
        run([python, "-I", "-m", "pip", "install", "--quiet", *what], env=environment, keep=[lock])

    # Without pip's cache: the environment is the cache, and a second copy of the wheel would be half its size.
    install("--no-cache-dir", "--no-deps", "--only-binary", ":all:", f"torch=={torch}")
    site = Path(run([python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]).strip())
    requirements = scratch / "requirements.txt"
    requirements.write_text("\n".join(requirements_of_torch(site)) + "\n", encoding="utf-8")
    install("-r", requirements)
    if jax:
        install("jax")
    stubs = write_stubs(site / "torch" / "lib", scratch)
    run([python, "-I", "-c", CHECK])
    shutil.rmtree(scratch)
    stamp = {"recipe": RECIPE, "torch": torch, "interpreter": os.path.realpath(interpreter), "stubs": stubs}
    partial = home / f"{STAMP}.partial"
    partial.write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
    partial.rename(home / STAMP)


def add_tools(home: Path, lock: int) -> None:
    """Installs the programs that tests record."""
    print_line(f"adding pytest and ipykernel to {home} (once; 25 MB to fetch)")
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    pip = [home / "bin" / "python", "-I", "-m", "pip", "install", "--quiet"]
    run([*pip, "--only-binary", ":all:", *TOOLS], env=environment, keep=[lock])
    put_stamp(home, TOOLS_STAMP, TOOLS)


def requirements_of_torch(site: Path) -> list[str]:
    """Requirements of the wheel, without those for a GPU; markers are left to pip. NumPy is optional to PyTorch,
    but programs of users have it, and without it DataLoader differs."""
    metadata = next(site.glob("torch-*.dist-info")) / "METADATA"
    lines = re.findall(r"^Requires-Dist: (.*)$", metadata.read_text(encoding="utf-8"), re.MULTILINE)
    return [line for line in lines if not GPU_REQUIREMENT.match(line)] + ["numpy"]


class Library:
    """The dynamic section of a shared library, as far as stubs need it."""

    def __init__(self, path: Path) -> None:
        dynamic = run(["readelf", "-dW", path])
        self.needs = [name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic) if NVIDIA_SONAME.match(name)]
        # Version number within this library -> (soname, version node).
        self.nodes: dict[str, tuple[str, str]] = {}
        soname = ""
        for line in run(["readelf", "-VW", path]).splitlines():
            if found := re.search(r"\bFile: (\S+)", line):
                soname = found[1]
            elif found := re.search(r"\bName: (\S+)\s+Flags: .*\bVersion: (\d+)", line):
                self.nodes[found[2]] = (soname, found[1])
        self.defined: set[str] = set()
        # (symbol, version number or ""), without the weak: those may stay unresolved.
        self.undefined: list[tuple[str, str]] = []
        symbol = re.compile(r"\s*\d+: .*\b(GLOBAL|WEAK)\s+\S+\s+(\S+) ([^\s@]+)(?:@+\S+)?(?: \((\d+)\))?$")
        for line in run(["readelf", "--dyn-syms", "-W", path]).splitlines():
            if not (found := symbol.match(line)):
                continue
            if found[2] != "UND":
                self.defined.add(found[3])
            elif found[1] == "GLOBAL":
                self.undefined.append((found[3], found[4] or ""))

    def owner(self, symbol: str, version: str) -> tuple[str, str] | None:
        """NVIDIA library, and version node of it, in which a symbol is expected. Symbols without a version are assigned by
        their name only: ncclSend belongs to libnccl, cuFileRead to libcufile and not to libcuda."""
        if version:
            found = self.nodes.get(version)
            return found if found and found[0] in self.needs else None
        if not NVIDIA_SYMBOL.match(symbol):
            return None
        versioned = {soname for soname, _ in self.nodes.values()}
        candidates = [soname for soname in self.needs if soname not in versioned]
        best = max(candidates, key=lambda soname: shared_start(soname[3:], symbol), default=None)
        return (best, "") if best else None


def shared_start(soname: str, symbol: str) -> int:
    """Number of characters that two names share at their start, ignoring case."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(soname.lower(), symbol.lower(), strict=False))))


# soname -> version node ("" for none) -> symbols.
Stubs = dict[str, dict[str, set[str]]]


def wanted_stubs(paths: Sequence[Path]) -> Stubs:
    """The NVIDIA libraries that these libraries load, with each symbol that they look up there."""
    libraries = [Library(path) for path in paths]
    defined = set().union(*(library.defined for library in libraries))
    stubs: Stubs = {soname: defaultdict(set) for library in libraries for soname in library.needs}
    for library in libraries:
        for symbol, version in library.undefined:
            if (version or symbol not in defined) and (owner := library.owner(symbol, version)):
                stubs[owner[0]][owner[1]].add(symbol)
    return stubs


def write_stubs(folder: Path, scratch: Path) -> list[str]:
    """Compiles a stub for each NVIDIA library into PyTorch's own folder of libraries, where its wheels of every version
    search first or last ($ORIGIN). A symbol without a body would not do: some are taken by address."""
    stubs = wanted_stubs(sorted(path for path in folder.glob("*.so*") if path.is_file()))
    for soname, nodes in sorted(stubs.items()):
        source = scratch / f"{soname}.c"
        symbols = sorted(set().union(*nodes.values()))
        bodies = (f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in symbols)
        source.write_text("".join(bodies), encoding="utf-8")
        command = ["gcc", "-shared", "-fPIC", "-O1", "-w", "-fno-builtin", "-nostdlib", f"-Wl,-soname,{soname}"]
        command += ["-o", str(folder / soname), str(source)]
        versioned = {node: "".join(f" {name};" for name in sorted(names)) for node, names in nodes.items() if node}
        if versioned:
            script = scratch / f"{soname}.map"
            script.write_text("".join(f"{node} {{ global:{names} }};\n" for node, names in versioned.items()))
            command.append(f"-Wl,--version-script={script}")
        run(command)
    return sorted(stubs)


def environment(interpreter: str, torch: str | None, jax: bool, root: Path) -> Path:
    """The python of the environment, which is made if it is not there."""
    version = python_version(interpreter)
    torch = torch or NEWEST_FOR.get(version, NEWEST)
    home = root / f"torch-{torch}-py{version[0]}{version[1]}{'-jax' if jax else ''}"
    python = home / "bin" / "python"
    if complete(home, torch) and is_stamped(home, TOOLS_STAMP, TOOLS):
        return python
    try:
        root.mkdir(parents=True, exist_ok=True)
        with locked(root / f"{home.name}.lock") as lock:
            if not complete(home, torch):
                make(home, interpreter, torch, jax, lock)
            if not is_stamped(home, TOOLS_STAMP, TOOLS):
                add_tools(home, lock)
    except OSError as error:
        raise Failure(f"{error}: give a writable directory with --root (or STACKLINE_CACHE).") from error
    return python


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Makes or finds a virtual environment with a stock PyTorch wheel.")
    parser.add_argument("--torch", metavar="VERSION", help=f"default: the newest that was tried, {NEWEST}")
    parser.add_argument("--python", metavar="INTERPRETER", default=sys.executable, help="default: this one")
    parser.add_argument("--jax", action="store_true", help="with JAX (in an environment of its own)")
    parser.add_argument("--root", metavar="DIR", type=Path, default=default_root(), help="default: %(default)s")
    options = parser.parse_args()
    if options.torch and not re.fullmatch(r"\d+(\.\w+)+", options.torch):
        parser.error(f"--torch {options.torch}: not a version like {NEWEST}")
    return options


def main() -> int:
    """Print the path, or the error."""
    options = arguments()
    try:
        print(environment(options.python, options.torch, options.jax, options.root.absolute()))
    except Failure as failure:
        print_line(str(failure))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
