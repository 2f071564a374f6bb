"""Recording by ``sl.record``, without PyTorch: every program runs in a process of its own."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from recording import PACKAGE, environment, needs_recorder, run_program, streams, succeeds

import stackline as sl
from stackline._record_options import _FEWEST_OVERHEAD_STEPS, COUNTERS, Options

pytestmark = needs_recorder

# Burns CPU time, which samples show.
BUSY = """
def busy(seconds=0.3):
    import time
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))
"""


def test_a_part_of_a_program_is_recorded(tmp_path: Path) -> None:
    program = (
        BUSY
        + """
    import os
    before = dict(os.environ)
    with sl.record("run.stackline") as recording:
        assert recording.path == "run.stackline" and not recording.has_ended
        busy()
    assert recording.has_ended and dict(os.environ) == before
    print(os.getpid())
    """.replace("\n    ", "\n")
    )
    pid = int(succeeds(tmp_path, program))
    files = list((tmp_path / "run.stackline" / "streams").iterdir())
    assert [file.name for file in files] == [f"{pid}-0.slr"]
    assert b"busy" in files[0].read_bytes(), "samples name the function that was busy"


def test_a_decorated_function_is_recorded_at_each_call(tmp_path: Path) -> None:
    program = """
    import asyncio, os

    @sl.record("run.stackline", sample_hz=0)
    def double(number):
        "Doubles."
        return 2 * number

    @sl.record("later.stackline")
    async def later():
        await asyncio.sleep(0.01)
        return "later"

    assert double.__name__ == "double" and double.__doc__ == "Doubles." and not os.path.exists("run.stackline")
    assert [double(1), double(number=2), double(3)] == [2, 4, 6]
    assert asyncio.run(later()) == "later"
    try:
        @sl.record("never.stackline")
        def numbers():
            yield 1
    except TypeError as error:
        assert "numbers is a generator function" in str(error)
    print(*sorted(name for name in os.listdir() if name.endswith(".stackline")))
    """
    assert succeeds(tmp_path, program) == "later.stackline run-2.stackline run-3.stackline run.stackline\n"


def test_nested_recordings_are_refused_and_the_outer_one_continues(tmp_path: Path) -> None:
    program = """
    import os
    with sl.record("outer.stackline") as outer:
        try:
            with sl.record("inner.stackline"):
                raise SystemExit("not refused")
        except sl.RecordError as error:
            print(error)
        assert "STACKLINE_RECORD" in os.environ and not outer.has_ended
    assert outer.has_ended and not os.path.exists("inner.stackline")
    """
    assert succeeds(tmp_path, program).startswith("this process is being recorded into outer.stackline: end that recording")


def test_exceptions_pass_and_end_the_recording(tmp_path: Path) -> None:
    program = """
    import os, sys
    try:
        with sl.record("run.stackline") as first:
            raise KeyError("mine")
    except KeyError as error:
        assert error.args == ("mine",) and first.has_ended and "STACKLINE_RECORD" not in os.environ
    with sl.record("exit.stackline"):
        sys.exit(7)
    """
    done = run_program(tmp_path, program)
    assert (done.returncode, done.stderr) == (7, "")
    assert [len(streams(tmp_path / run)) for run in ("run.stackline", "exit.stackline")] == [1, 1]


def test_a_second_recording_in_one_process(tmp_path: Path) -> None:
    program = (
        BUSY
        + """
for run in ("first", "second"):
    with sl.record(f"{run}.stackline"):
        exec(f"def {run}_alone(): busy()\\n{run}_alone()")
"""
    )
    succeeds(tmp_path, program)
    for run, other in (("first", "second"), ("second", "first")):
        [stream] = streams(tmp_path / f"{run}.stackline")
        assert f"{run}_alone".encode() in stream and f"{other}_alone".encode() not in stream


def test_environment_is_restored(tmp_path: Path) -> None:
    program = """
    import os, re, subprocess, sys
    before = dict(os.environ)
    with sl.record("run.stackline", python=False, memory=True, sample_hz=50, mode="trace", steps=(2, 3), after=0.5):
        set_ = {name: os.environ[name] for name in os.environ if name.startswith("STACKLINE_")}
        assert os.environ["PYTHONPATH"].split(os.pathsep)[1:] == ["mine"]
        tell = "import os; print(os.environ['STACKLINE_BEGIN'], end='')"
        output_text = subprocess.run([sys.executable, "-c", tell], text=True, capture_output=True, check=True).stdout
        os.environ["STACKLINE_MODE"] = "changed"
        os.environ["OTHER"] = "kept"
    assert set_.pop("STACKLINE_RECORD") == os.path.abspath("run.stackline") and set_.pop("STACKLINE_RECORDER")
    begin = set_.pop("STACKLINE_BEGIN")
    assert re.fullmatch("[0-9]+:[0-9a-f]{16}", begin) and output_text == begin, (begin, output_text)
    print(set_ == {
        "STACKLINE_DISABLE": "pytorch,python", "STACKLINE_MEMORY": "1", "STACKLINE_SAMPLE_HZ": "50",
        "STACKLINE_MODE": "trace", "STACKLINE_STEPS": "2..3", "STACKLINE_AFTER": "0.500000",
    })
    print(dict(os.environ) == before | {"OTHER": "kept", "STACKLINE_MODE": "changed"})
    """
    printed = succeeds(tmp_path, program, PYTHONPATH="mine", STACKLINE_DISABLE="pytorch", STACKLINE_SAMPLE_HZ="0")
    assert printed == "True\nTrue\n"


def test_errors_name_invalid_run_directories(tmp_path: Path) -> None:
    (tmp_path / "taken.stackline").mkdir()
    (tmp_path / "file").touch()
    program = """
    for run in ("taken.stackline", "file/run.stackline", "missing/run.stackline"):
        try:
            with sl.record(run):
                print("not refused")
        except OSError as error:
            print(type(error).__name__, error)
    """
    lines = succeeds(tmp_path, program).splitlines()
    assert "FileExistsError" in lines[0] and "exists already" in lines[0] and "'taken.stackline'" in lines[0]
    assert "NotADirectoryError" in lines[1] and "cannot make a run directory here" in lines[1]
    assert "FileNotFoundError" in lines[2] and "'missing/run.stackline'" in lines[2]
    assert list((tmp_path / "taken.stackline").iterdir()) == []


def test_errors_name_a_missing_recorder(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    program = """
    import os
    try:
        with sl.record("run.stackline"):
            print("not refused")
    except sl.RecordError as error:
        print(error)
    assert not os.path.exists("run.stackline") and "STACKLINE_RECORD" not in os.environ
    """
    assert "no recorder at nowhere.so" in succeeds(tmp_path, program, STACKLINE_RECORDER="nowhere.so")
    assert "text.so cannot be loaded" in succeeds(tmp_path, program, STACKLINE_RECORDER=str(tmp_path / "text.so"))


def test_recordings_after_a_failed_begin_are_complete(tmp_path: Path) -> None:
    program = (
        BUSY
        + """
import os
from stackline import _record
before, make, threads = dict(os.environ), _record._make_run, os.listdir("/proc/self/task")

def make_without_streams(run, given):
    # Gone again before the recorder comes.
    make(run, given)
    os.rmdir(os.path.join(run, "streams"))
    open(os.path.join(run, "streams"), "w").close()

_record._make_run = make_without_streams
try:
    with sl.record("never.stackline") as recording:
        print("not refused")
except sl.RecordError as error:
    print(error)
assert dict(os.environ) == before and os.listdir("/proc/self/task") == threads
_record._make_run = make
with sl.record("run.stackline") as recording:
    busy()
assert recording.has_ended
"""
    )
    [message_text] = succeeds(tmp_path, program).splitlines()
    assert message_text.startswith("nothing is recorded: cannot make ") and "never.stackline/streams" in message_text, message_text
    [stream] = streams(tmp_path / "run.stackline")
    assert b"busy" in stream


def test_invalid_options_are_refused_immediately() -> None:
    wrong: list[dict[str, Any]] = [
        {"mode": "all"}, {"steps": "5"}, {"steps": "7..3"}, {"steps": (4, 2)}, {"steps": -1}, {"every": 0},
        {"after": "3 parsecs"}, {"duration": -1.0}, {"sample_hz": -1}, {"sample_hz": 10**6}, {"max_nodes": 0}, {"overhead_steps": -1},
        {"overhead_steps": 3}, {"duration": "0s"},
        {"wall_hz": -5}, {"wait_hz": -1}, {"counters": ["page-fault"]}, {"counters": "cycles"},
    ]  # fmt: skip
    for options in wrong:
        [name] = options
        with pytest.raises(ValueError, match=f"^{name} is "):
            sl.record("never.stackline", **options)


def test_the_former_name_of_wall_hz_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="^real_hz is now called wall_hz; the old name will be removed$") as warned:
        recording = sl.record("never.stackline", real_hz=7)
    assert [warning.filename for warning in warned] == [__file__], "the line that has the keyword"
    assert recording._options.environment() == {"STACKLINE_WALL_HZ": "7"}
    with pytest.raises(ValueError, match="give wall_hz only"):
        sl.record("never.stackline", wall_hz=7, real_hz=7)


def test_counter_names_equal_those_of_the_recorder() -> None:
    source = Path(__file__).parents[2] / "crates" / "recording" / "src" / "record.rs"
    listed = source.read_text().split("pub const COUNTERS: &[&str] = &[")[1].split("];")[0]
    assert tuple(re.findall(r'"([^"]+)"', listed)) == COUNTERS
    assert Options(counters=["cycles", "page-faults"]).environment() == {"STACKLINE_COUNTERS": "cycles,page-faults"}


def test_least_unrecorded_steps_equal_those_of_the_recorder() -> None:
    source = Path(__file__).parents[2] / "crates" / "recording" / "src" / "record.rs"
    assert f"pub const LEAST_UNRECORDED_STEPS: u32 = {_FEWEST_OVERHEAD_STEPS};" in source.read_text()


def test_options_become_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STACKLINE_DISABLE", "STACKLINE_WITHOUT"):
        monkeypatch.delenv(name, raising=False)
    assert Options().environment() == {}
    assert Options(steps=3).environment() == {"STACKLINE_STEPS": "3..3"}
    assert Options(steps="..5", every=10).environment() == {"STACKLINE_STEPS": "0..5", "STACKLINE_EVERY": "10"}
    assert Options(steps="5..").environment() == {"STACKLINE_STEPS": "5.."}
    assert Options(kernels=False).environment() == {"STACKLINE_DISABLE": "kernels"}
    assert Options(native=False, duration="2m").environment() == {"STACKLINE_NATIVE": "0", "STACKLINE_DURATION": "2m"}
    assert Options(shapes=True, memory=False).environment() == {"STACKLINE_SHAPES": "1", "STACKLINE_MEMORY": "0"}
    monkeypatch.setenv("STACKLINE_WITHOUT", "compilations")
    assert Options(kernels=False).environment() == {"STACKLINE_DISABLE": "compilations,kernels"}, "the former name"
    monkeypatch.setenv("STACKLINE_DISABLE", "python,native")
    assert Options(python=True, pytorch=False).environment() == {"STACKLINE_DISABLE": "native,pytorch"}


CHILDREN = """
import multiprocessing, os, subprocess, sys

def work():
    print("worked", flush=True)

if __name__ == "__main__":
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    other = sys.argv[1:]
    with sl.record("run.stackline"):
        clean["STACKLINE_RECORD"] = os.environ["STACKLINE_RECORD"]
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
        subprocess.run([sys.executable, "-c", "pass"], check=True, env=clean)
        subprocess.run([sys.executable, "-S", "-c", "pass"], check=True)
        subprocess.run(["true"], check=True)
        # Without this package: found by PYTHONPATH.
        subprocess.run([sys._base_executable, "-c", "import sys; assert 'stackline' not in sys.modules"], check=True)
        worker = multiprocessing.get_context("spawn").Process(target=work)
        worker.start()
        worker.join()
        assert worker.exitcode == 0
    subprocess.run([sys.executable, "-c", "pass"], check=True)
"""


def test_children_are_recorded(tmp_path: Path) -> None:
    assert succeeds(tmp_path, CHILDREN) == "worked\n"
    # Itself; as is, isolated, with a cleaned environment, without this package; and two by `spawn`: the worker, and what
    # tracks its resources. Once each, although the ones find the recorder in two ways; not without `site`, not after it.
    assert len(streams(tmp_path / "run.stackline")) == 7


def test_programs_under_the_launcher_are_recorded_once(tmp_path: Path) -> None:
    run = tmp_path / "outer.stackline"
    program = """
    import os, warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            with sl.record("inner.stackline") as recording:
                pass
    assert not recording.has_ended and not os.path.exists("inner.stackline") and "STACKLINE_RECORD" in os.environ
    print(*(f"{warning.filename}: {warning.message}" for warning in caught), sep="\\n")
    """
    both = {"PYTHONPATH": str(PACKAGE / "_bootstrap"), "STACKLINE_RECORDER": str(PACKAGE / "_stackline_record.so")}
    for injection in ({}, both):
        [message_text] = succeeds(tmp_path, program, STACKLINE_RECORD=str(run), **injection).splitlines()
        assert "program.py: this process is being recorded already" in message_text
    assert len(streams(run)) == 2


SUBINTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    interpreters = __import__("pytest").importorskip("_xxsubinterpreters")
other = interpreters.create()
interpreters.run_string(other, "import sys; assert '_stackline_record' not in sys.modules")
interpreters.destroy(other)
busy()
"""


def test_subinterpreters_do_not_change_the_recording(tmp_path: Path) -> None:
    succeeds(tmp_path, BUSY + SUBINTERPRETER, STACKLINE_RECORD="run.stackline")
    [stream] = streams(tmp_path / "run.stackline")
    assert b"busy" in stream


def test_relative_run_directories_become_absolute(tmp_path: Path) -> None:
    program = "import os, subprocess, sys; subprocess.run([sys.executable, '-c', 'pass'], cwd='/', check=True)"
    succeeds(tmp_path, program, STACKLINE_RECORD="run.stackline")
    assert len(streams(tmp_path / "run.stackline")) == 2


def test_unrecorded_processes_are_unchanged(tmp_path: Path) -> None:
    modules = "import sys; print([name for name in sys.modules if 'stackline' in name])"
    done = subprocess.run([sys.executable, "-c", modules], env=environment(), text=True, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
    timing = """
import site, sys, time
def once():
    start = time.perf_counter_ns()
    site.addpackage(sys.argv[1], "stackline.pth", None)
    return time.perf_counter_ns() - start
print(min(once() for _ in range(100)))
"""
    command = [sys.executable, "-c", timing, str(PACKAGE.parent)]
    done = subprocess.run(command, env=environment(), text=True, capture_output=True, check=True)
    assert int(done.stdout) < 1_000_000, "ns that the start of an interpreter takes longer"


def test_the_wheel_ships_the_recorder() -> None:
    files = {str(file): file for file in importlib.metadata.files("stackline") or []}
    assert {
        "stackline.pth", "_stackline_start.py", "stackline/_stackline_record.so",
        "stackline/_bootstrap/sitecustomize.py", "stackline/_bootstrap/_stackline_bootstrap.py",
    } <= set(files)  # fmt: skip
    for name in ("sitecustomize.py", "_stackline_bootstrap.py"):
        source = REPOSITORY / "crates" / "record" / "bootstrap" / name
        assert (PACKAGE / "_bootstrap" / name).read_text() == source.read_text(), "the wheel is out of date"
    # What ships has no debug information.
    limit = 30_000_000 if os.environ.get("STACKLINE_PROFILE") == "dev" else 3_000_000
    assert (PACKAGE / "_stackline_record.so").stat().st_size < limit


def test_the_magic_records_cells_and_statements(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    program = """
    import os
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "stackline")
    cell = "%%stackline -o cell.stackline --sample-hz 50\\nimport os\\nanswer = os.environ['STACKLINE_SAMPLE_HZ']\\nanswer"
    assert shell.run_cell(cell).success and shell.run_cell(cell).success and shell.user_ns["answer"] == "50"
    assert shell.run_cell("%stackline twice = 2 * 3").success and shell.user_ns["twice"] == 6
    assert shell.run_cell("%stackline --mode trace -- thrice = 3 * 3").success and shell.user_ns["thrice"] == 9
    assert not shell.run_cell("%%stackline\\n1 / 0").success
    assert not shell.run_cell("%%stackline --mode all\\n1").success
    assert not shell.run_cell("%%stackline --disable all\\n1").success
    assert shell.run_cell("%%stackline -o former.stackline --without pytorch\\n1").success
    assert not shell.run_cell("%%stackline --disable python --without python\\n1").success
    assert not shell.run_cell("%%stackline --steps 5\\n1").success
    assert not shell.run_cell("%stackline").success
    assert "STACKLINE_RECORD" not in os.environ
    print(*sorted(name for name in os.listdir() if name.endswith(".stackline")))
    """
    home = {"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
    done = run_program(tmp_path, program, env=environment(**home))
    assert done.returncode == 0, done.stdout + done.stderr
    *message_text, runs = done.stdout.splitlines()
    assert runs == "cell-2.stackline cell.stackline former.stackline notebook-2.stackline notebook-3.stackline notebook.stackline"
    assert done.stderr.splitlines()[0] == "stackline: recorded into cell.stackline. Next: stackline findings cell.stackline"
    assert "Next: stackline findings notebook-2.stackline" in done.stderr, "individual calls were recorded"
    assert "\n".join(message_text).count("Traceback") == 1, "the failure of the cell is shown, once"
    assert done.stderr.count("stackline: --without is now called --disable; the old name will be removed\n") == 1
    for usage in ("invalid choice: 'all'", "no such source; choose from", "give --disable only", "steps is '5'", "no code to run"):
        assert usage in done.stderr


def test_spans_without_pytorch_do_nothing(tmp_path: Path) -> None:
    @sl.span("named")
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    with pytest.raises(KeyError), sl.span("outer"):
        assert add(1, b=2) == 3 and add.__doc__ == "Adds."
        raise KeyError
    with pytest.raises(TypeError, match="does not run in one go"):

        @sl.span("never")
        async def wait() -> None:
            pass

    assert "torch" not in sys.modules and os.environ.get("STACKLINE_RECORD") is None
