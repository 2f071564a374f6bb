"""Compare the gains that `stackline findings` predicts with measured gains, for programs with one problem each.

Each program of `programs/` is recorded; of its findings, the one is taken whose code is named in the program by a comment
`# finding: CODE` (or `# finding anywhere: CODE`). In each repetition it is recorded, and runs without recorder, unchanged
and `--mended`, so that other work on the machine affects all three equally. The table has medians over the repetitions.

    python benches/findings/measure.py --stackline target/release/stackline

prints a table in Markdown; with `--calls` the programs are recorded as sums of calls, the default of `stackline record`.
Needs torch 2.4 or later; the recorder is found as `stackline record` finds it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
MARK = re.compile(r"# finding( anywhere)?: (SL\d+)")
#: What else a program needs recorded.
ALSO = re.compile(r"^# recorded with: (.*)$", re.MULTILINE)
#: Steps that are not measured: allocators fill up, compilers compile.
WARM_UP = 3
#: Waiting is seen by samples of wall-clock time alone.
RECORD = ["--mode", "trace", "--wall-hz", "499"]


def expected(program: Path) -> tuple[str, int | None]:
    """The code of the injected problem, and its line, if it has one."""
    for number, line in enumerate(program.read_text().splitlines(), start=1):
        if found := MARK.search(line):
            return found[2], None if found[1] else number
    raise SystemExit(f"{program} does not say which finding it is about: # finding: CODE")


def environment() -> dict[str, str]:
    # Processes that compile would import torch, beside the steps that are measured.
    return {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def run(arguments: list[str]) -> None:
    done = subprocess.run(arguments, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr}")


def predicted(options: argparse.Namespace, program: Path, folder: Path) -> tuple[dict[str, object] | None, int]:
    """The finding that belongs to the program's problem, if there is one, and its position among all."""
    code, line = expected(program)
    folder.mkdir(exist_ok=True)
    recording = folder / f"{program.stem}.stackline"
    command = [sys.executable, str(program), "--steps", str(options.steps)]
    also = [option for found in ALSO.findall(program.read_text()) for option in found.split()]
    how = [] if options.calls else RECORD
    run([options.stackline, "record", *how, *also, "-o", str(recording), "--", *command])
    listing = subprocess.run(
        [options.stackline, "findings", str(recording), "--format", "json"], capture_output=True, text=True, check=True
    )
    rows = json.loads(listing.stdout)["tables"]["findings"]["rows"]
    for rank, row in enumerate(rows, start=1):
        if row["code"] == code and (line is None or (Path(row["file"] or "").name, row["line"]) == (program.name, line)):
            return row, rank
    return None, 0


def step_ms(program: Path, folder: Path, steps: int, *options: str) -> float:
    times = folder / "times.json"
    run([sys.executable, str(program), "--steps", str(steps), "--times", str(times), *options])
    return statistics.mean(json.loads(times.read_text())[WARM_UP:]) * 1e3


def measure(program: Path, options: argparse.Namespace, folder: Path) -> str:
    findings, before, after = [], [], []
    for number in range(options.rounds):
        findings.append(predicted(options, program, folder / str(number)))
        before.append(step_ms(program, folder, options.steps))
        after.append(step_ms(program, folder, options.steps, "--mended"))
    step, gained = statistics.median(before), statistics.median(b - a for b, a in zip(before, after))
    code, line = expected(program)
    predicted_ms = [row["gain_ns"] / 1e6 for row, _ in findings if row]
    ranks = "/".join(str(rank) for rank in sorted({rank for row, rank in findings if row}))
    head = f"| {program.stem} | {code} | {f'line {line}' if line else 'anywhere'} |"
    if len(predicted_ms) < options.rounds:
        return f"{head} **found in {len(predicted_ms)} of {options.rounds}** | {step:.2f} | | {gained:.2f} | |"
    gain = statistics.median(predicted_ms)
    spread = f"{gain:.2f} ({min(predicted_ms):.2f} to {max(predicted_ms):.2f})"
    return f"{head} {ranks} | {step:.2f} | {spread} | {gained:.2f} | {gain / gained:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stackline", default="stackline")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", action="store_true", help="record sums of calls, no single ones")
    parser.add_argument("programs", nargs="*", help="only these, by name")
    options = parser.parse_args()
    print("| program | finding | at | rank | step, ms | predicted gain, ms | measured gain, ms | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for program in sorted(PROGRAMS.glob("*.py")):
            is_selected = not options.programs or program.stem in options.programs
            if is_selected and MARK.search(program.read_text()):
                print(measure(program, options, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
