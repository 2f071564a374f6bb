"""Time and memory that a large SQLite export of Nsight Systems takes: `python benches/nsys/large_export.py EXPORT --stackline PATH`.

Repeats a real export, as a longer recording would, until the file has so many bytes: each copy of its timed rows starts after the
previous one and has fresh correlation ids. Names, processes and streams stay. Prints wall time, CPU time and peak memory of `report`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

TIMES = ("start", "end")


def columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]


def timed_tables(database: sqlite3.Connection) -> dict[str, list[str]]:
    """Columns of the tables whose rows have times, by name."""
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {table: columns(database, table) for table in tables if "start" in columns(database, table)}


def largest(database: sqlite3.Connection, tables: dict[str, list[str]], column: str) -> int:
    tables_with_column = [table for table, names in tables.items() if column in names]
    return max(database.execute(f'SELECT max("{column}") FROM "{table}"').fetchone()[0] or 0 for table in tables_with_column)


def smallest_start(database: sqlite3.Connection, tables: dict[str, list[str]]) -> int:
    starts = [database.execute(f'SELECT min(start) FROM "{table}"').fetchone()[0] for table in tables]
    return min(start for start in starts if start is not None)


def shifted(column: str, span: int, ids: int) -> str:
    """The column of the k-th copy, as SQL; k is bound."""
    if column in TIMES:
        return f'"{column}" + :k * {span}'
    return f'"{column}" + :k * {ids}' if column == "correlationId" else f'"{column}"'


def write(source: Path, into: Path, least: int) -> int:
    """Writes the large export and returns how many timed rows it has."""
    shutil.copyfile(source, into)
    into.chmod(0o600)
    with sqlite3.connect(into) as database:
        database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        tables = timed_tables(database)
        span = largest(database, tables, "end") - smallest_start(database, tables) + 1
        ids = largest(database, tables, "correlationId") + 1
        originals = {table: database.execute(f'SELECT max(rowid) FROM "{table}"').fetchone()[0] or 0 for table in tables}
        copy = 0
        while into.stat().st_size < least:
            copy += 1
            for table, names in tables.items():
                values = ", ".join(shifted(name, span, ids) for name in names)
                statement = f'INSERT INTO "{table}" SELECT {values} FROM "{table}" WHERE rowid <= :last'
                database.execute(statement, {"k": copy, "last": originals[table]})
            database.commit()
        return (copy + 1) * sum(originals.values())


def measure(command: list[str]) -> str:
    """Wall and CPU seconds, most memory, and the exit status."""
    before = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall, cpu = time.perf_counter() - before, usage.ru_utime + usage.ru_stime
    return f"{wall:.1f} s, {cpu:.1f} CPU s, {usage.ru_maxrss / 1024:,.0f} MiB, exit status {os.waitstatus_to_exitcode(status)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export", type=Path)
    parser.add_argument("--stackline", default="stackline")
    parser.add_argument("--bytes", type=int, nargs="+", default=[100_000_000, 1_000_000_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.sqlite"
        for least in options.bytes:
            rows = write(options.export, large, least)
            print(f"{large.stat().st_size:,} bytes, {rows:,} rows with times", flush=True)
            for threads in ("1", "2"):
                command = [options.stackline, "report", "--threads", threads, str(large)]
                print(f"  {' '.join(command[1:4])}: {measure(command)}", flush=True)


if __name__ == "__main__":
    main()
