"""A headless Chromium for the tests of the page: the distribution's, unpacked outside of the system, made once and kept.

    python3 python/browser_env.py [--root DIR]

prints the path of a program that starts it. Nothing is installed: packages are fetched by apt-get, which checks their
signatures, and unpacked with dpkg, so that no right to change the system is needed. Where STACKLINE_CHROMIUM or a
`chromium` on the PATH is at hand, that is taken. The folder is made under a lock, and counts as complete only with a
stamp, written last.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from torch_env import Failure, default_root, is_stamped, locked, put_stamp, run

PACKAGE = "chromium-headless-shell"
PROGRAM = Path("usr/lib/chromium/chromium-headless-shell")
STAMP = "stackline-browser.json"
# To be raised whenever this file makes another folder than before.
RECIPE = {"recipe": 1, "package": PACKAGE}
WITHOUT_APT = "Tests of the page need a Chromium: set STACKLINE_CHROMIUM to one, or put `chromium` on the PATH."


def packages(options: list[str]) -> list[str]:
    """The package and its dependencies that the system lacks."""
    output = run(["apt-get", *options, "install", "--print-uris", "--yes", "--no-install-recommends", PACKAGE])
    files = [line.split()[1] for line in output.splitlines() if line.startswith("'")]
    return [file.split("_")[0] for file in files]


def needed(scratch: Path) -> tuple[list[str], list[str]]:
    """What to fetch, and the options of apt-get to fetch it with: lists of its own where the system has none."""
    try:
        return packages([]), []
    except Failure:
        lists = scratch / "lists"
        (lists / "partial").mkdir(parents=True)
        options = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={scratch / 'cache'}"]
        (scratch / "cache" / "archives" / "partial").mkdir(parents=True)
        run(["apt-get", *options, "update"])
        return packages(options), options


def starter(home: Path) -> Path:
    """The program that starts the browser with the libraries that were unpacked with it."""
    folders = sorted({str(file.parent) for file in (home / "usr/lib").rglob("*.so*")})
    script = home / "chromium"
    libraries = ":".join(folders)
    script.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" exec "{home / PROGRAM}" "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    return script


def make(home: Path) -> None:
    """Makes the folder; the stamp, which makes it count, comes last."""
    shutil.rmtree(home, ignore_errors=True)
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise Failure(f"{tool} is missing, and with it the way to fetch a browser. {WITHOUT_APT}")
    print(f"browser_env: making {home} (once; 90 MB to fetch)", file=sys.stderr, flush=True)
    scratch = home / "tmp"
    scratch.mkdir(parents=True)
    names, options = needed(scratch)
    before = Path.cwd()
    os.chdir(scratch)
    try:
        run(["apt-get", *options, "download", *names])
    finally:
        os.chdir(before)
    for package in sorted(scratch.glob("*.deb")):
        run(["dpkg", "-x", package, home])
    script = starter(home)
    output = run([script, "--no-sandbox", "--dump-dom", "data:text/html,<p>ready</p>"])
    if "ready" not in output:
        raise Failure(f"{script} does not show a page; its output: {output[:400]}")
    shutil.rmtree(scratch)
    put_stamp(home, STAMP, RECIPE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--root", type=Path, default=default_root(), help="where it is kept (default: %(default)s)")
    home = parser.parse_args().root / "browser"
    if given := os.environ.get("STACKLINE_CHROMIUM") or shutil.which("chromium"):
        print(given)
        return 0
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with locked(home.with_suffix(".lock")):
            if not is_stamped(home, STAMP, RECIPE):
                make(home)
    except (Failure, OSError) as error:
        print(f"browser_env: {error}", file=sys.stderr)
        return 1
    print(home / "chromium")
    return 0


if __name__ == "__main__":
    sys.exit(main())
