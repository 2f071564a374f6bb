"""Result tables in Arrow memory, with conversions to pandas, polars and pyarrow."""

from __future__ import annotations

import html
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from . import _native

_HEAD_ROWS = 10
_CELL_WIDTH = 48
_LINE_WIDTH = 180


class Table:
    """A result table with named columns in Arrow memory.

    Tables implement the Arrow PyCapsule interface, so pyarrow, polars, duckdb, pandas 3 and others read it directly and
    without copies: ``pyarrow.table(t)``, ``polars.DataFrame(t)``, ``duckdb.sql("select * from t")``. None of these libraries
    is required for ``print(t)``, ``t.to_pylist()`` and ``t["name"]``.

    :attr:`units` has the unit of each column; most column names end in it (``_ns``, ``_us``, ``_percent``).
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """Stable name, such as ``kernel_summary``."""
        return self._native.name

    @property
    def title(self) -> str:
        """Description of the table in one line."""
        return self._native.title

    @property
    def notes(self) -> list[str]:
        """Notes on the numbers, one sentence each: coverage, definitions, values that could not be computed."""
        return self._native.notes

    @property
    def columns(self) -> list[str]:
        """Column names in display order."""
        return self._native.columns

    @property
    def units(self) -> dict[str, str]:
        """Unit by column name (``ns``, ``µs``, ``ms``, ``B``, ``%``, ``GB/s`` ...), without columns that have none."""
        return {name: unit for name, unit in zip(self._native.columns, self._native.units, strict=True) if unit}

    @property
    def schema(self) -> dict[str, str]:
        """Arrow type by column name, as text."""
        return dict(zip(self._native.columns, self._native.types, strict=True))

    @property
    def nbytes(self) -> int:
        """Memory of the columns in bytes."""
        return self._native.nbytes

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        return len(self._native), len(self._native.columns)

    def __len__(self) -> int:
        return len(self._native)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over rows as dictionaries, in batches of 1000."""
        names, size = self._native.columns, len(self._native)
        for start in range(0, size, 1000):
            for row in self._native.rows(start, start + 1000):
                yield dict(zip(names, row, strict=True))

    def __getitem__(self, column: str) -> list[Any]:
        """Values of one column as a list of Python objects, ``None`` for rows without a value."""
        names = self._native.columns
        if column not in names:
            raise KeyError(f"no column {column!r} in {self.name}; it has {', '.join(names)}")
        return self._native.column(names.index(column))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule interface (a stream of record batches, shared without copies)."""
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The Arrow PyCapsule interface (the schema)."""
        return self._native.__arrow_c_schema__()

    def to_arrow(self) -> pyarrow.Table:
        """Convert to a ``pyarrow.Table`` over the same memory. Requires pyarrow."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> polars.DataFrame:
        """Convert to a ``polars.DataFrame``. Requires polars."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Convert to a ``pandas.DataFrame``. Requires pandas and pyarrow.

        Integer and Boolean columns with missing values get pandas' nullable types (``Int64``, ``boolean``): pandas'
        default, floating point, cannot represent large integers exactly. Text columns with repeated values (names, categories) become
        ``category`` columns. ``frame.attrs`` contains the table's name, title, notes and units.
        """
        import pandas
        import pyarrow
        import pyarrow.types as kinds

        table = self.to_arrow()
        nullable = {
            pyarrow.int8(): pandas.Int8Dtype(),
            pyarrow.int16(): pandas.Int16Dtype(),
            pyarrow.int32(): pandas.Int32Dtype(),
            pyarrow.int64(): pandas.Int64Dtype(),
            pyarrow.uint8(): pandas.UInt8Dtype(),
            pyarrow.uint16(): pandas.UInt16Dtype(),
            pyarrow.uint32(): pandas.UInt32Dtype(),
            pyarrow.uint64(): pandas.UInt64Dtype(),
            pyarrow.bool_(): pandas.BooleanDtype(),
        }
        exact = [c.null_count > 0 and not kinds.is_floating(c.type) for c in table.columns]
        names = table.column_names
        with_nulls = [name for name, is_exact in zip(names, exact, strict=True) if is_exact]
        frame = table.drop_columns(with_nulls).to_pandas()
        if with_nulls:
            frame = frame.join(table.select(with_nulls).to_pandas(types_mapper=nullable.get))[names]
        frame.attrs.update({"name": self.name, "title": self.title, "notes": self.notes, "units": self.units})
        return frame

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dictionaries. Requires no other library."""
        return list(self)

    def to_pydict(self) -> dict[str, list[Any]]:
        """All columns as lists. Requires no other library."""
        return {name: self._native.column(i) for i, name in enumerate(self._native.columns)}

    def _shown(self) -> tuple[list[str], list[list[str]], int]:
        """Headers, the first rows as text, and the number of rows left out."""
        size = len(self._native)
        shown = size if size <= _HEAD_ROWS + 2 else _HEAD_ROWS
        cells = [[_text(value) for value in row] for row in self._native.rows(0, shown)]
        return self._native.columns, cells, size - shown

    def __repr__(self) -> str:
        names, rows, more = self._shown()
        names = [_with_unit(name, self.units.get(name, "")) for name in names]
        lines = [f"{self.name}: {self.title} ({len(self)} rows)" if self.title else f"{self.name} ({len(self)} rows)"]
        if names:
            widths = [max(len(name), *(len(row[i]) for row in rows), 0) for i, name in enumerate(names)]
            fits = sum(total <= _LINE_WIDTH for total in accumulate(width + 2 for width in widths)) or 1
            numeric = [_is_number(kind) for kind in self._native.types]
            for row in [names, *rows]:
                cells = [
                    text.rjust(width) if right else text.ljust(width)
                    for text, width, right in zip(row[:fits], widths, numeric)  # noqa: B905 - cut to what fits
                ]
                lines.append("  ".join(cells).rstrip())
            if fits < len(names):
                lines.append(f"... {len(names) - fits} more columns: see .columns")
        if more:
            lines.append(f"... {more} more rows")
        lines.extend(f"Note: {note}" for note in self.notes)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names, rows, more = self._shown()
        units = self.units
        align = ["right" if _is_number(kind) else "left" for kind in self._native.types]
        head = "".join(
            f'<th style="text-align:{side}">{html.escape(name)}'
            + (f" <small>[{html.escape(units[name])}]</small>" if name in units else "")
            + "</th>"
            for name, side in zip(names, align, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:{side}">{html.escape(text)}</td>' for text, side in zip(row, align, strict=True)
            )
            + "</tr>"
            for row in rows
        )
        notes = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in self.notes)
        tail = f"<p>{more} more rows</p>" if more else ""
        return (
            f"<div><b>{html.escape(self.title or self.name)}</b> <small>{len(self)} rows</small>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{tail}{notes}</div>"
        )


_ENDINGS = {"ns": "ns", "µs": "us", "ms": "ms", "B": "bytes", "%": "percent"}


def _with_unit(name: str, unit: str) -> str:
    """Header of a column: its name, with the unit unless the name ends in it."""
    return name if not unit or name.endswith(_ENDINGS.get(unit, unit)) else f"{name} [{unit}]"


def _is_number(kind: str) -> bool:
    return kind.startswith(("Int", "UInt", "Float"))


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.1f}"
    text = " ".join(str(value).split())
    return text if len(text) <= _CELL_WIDTH else text[: _CELL_WIDTH - 1] + "…"
