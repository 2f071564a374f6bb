"""Compare the gains that `stackline findings` predicts from the traces of `gains.py` with the measured gains.

    python benches/gpu/compare.py STACKLINE OUT

prints a table in Markdown: the step and the measured gain (with the minimum and maximum of the repetitions). For each
trace it has the finding of the injected problem, with its rank, bounds, and line.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

SOURCES = [Path(__file__).parent / name for name in ("models.py", "problems.py", "collectives.py")]
MARK = re.compile(r"# finding( anywhere)?: (SL\d+)")


def injected_problems() -> dict[str, tuple[str, int | None]]:
    """The code and the line of each problem, by its name: from its function, or from the callees of the function."""
    names: dict[str, str] = {}
    marks: dict[str, tuple[str, int | None]] = {}
    for source in SOURCES:
        names |= re.findall(r'^    "(.+)": (\w+)', source.read_text(), re.MULTILINE)
        function = ""
        for number, line in enumerate(source.read_text().splitlines(), start=1):
            if begun := re.match(r"(?:def|class) (\w+)", line):
                function = begun[1]
            if found := MARK.search(line):
                marks[function + (":" + found[2] if function == "Attention" else "")] = (found[2], None if found[1] else number)
    marks |= {"manual_attention": marks["Attention:SL014"], "inline_mask": marks["Attention:SL045"]}
    return {name: marks[function] for name, function in names.items() if function in marks}


def findings(stackline: str, trace: Path) -> list[dict[str, object]]:
    done = subprocess.run([stackline, "findings", str(trace), "--format", "json", "--min-gain", "0"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["tables"]["findings"]["rows"]


def describe_prediction(rows: list[dict[str, object]], code: str, line: int | None) -> str:
    for rank, row in enumerate(rows, start=1):
        if row["code"] == code and row["gain_ns"] is not None:
            place = "" if line is None else ", at the line" if row["line"] == line else f", at {row['file']}:{row['line']}"
            low, high = (row[key] for key in ("gain_low_ns", "gain_high_ns"))
            return f"{row['gain_ns'] / 1e6:.2f} ({low / 1e6:.2f} to {high / 1e6:.2f}), {rank}.{place}"
    first = [f"{row['code']} {row['gain_ns'] / 1e6:.2f}" for row in rows if row["gain_ns"]]
    return "not found; first " + ", ".join(first[:2]) if first else "nothing found"


def main() -> None:
    stackline, out = sys.argv[1], Path(sys.argv[2])
    measured = json.loads((out / "gains.json").read_text())
    marks = injected_problems()
    print(f"{measured['device']}, PyTorch {measured['torch']}\n")
    print("| problem | rule | step, ms | measured gain, ms | predicted, defaults | predicted, shapes and stacks | once mended |")
    print("|---|---|---|---|---|---|---|")
    for name, result in measured["problems"].items():
        code, line = marks.get(name, ("", None))
        if "failed" in result:
            print(f"| {name} | {code} | {result['failed']} | | | | |")
            continue
        rounds = result["gain_ms_of_rounds"]
        gain = f"{result['gain_ms']:.2f} ({min(rounds):.2f} to {max(rounds):.2f})"
        columns = [describe_prediction(findings(stackline, out / f"{result['slug']}.{kind}.json"), code, line) for kind in ("plain", "full", "mended")]
        print(f"| {name} | {code} | {result['step_ms']:.2f} | {gain} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
