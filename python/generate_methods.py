"""Writes stackline/_analyses.py: one method per registered analysis. Run it after registering one:

    python -P python/generate_methods.py

A test compares the file with the output of this program.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import stackline

TARGET = Path(__file__).parent / "stackline" / "_analyses.py"

HEAD = '''"""One method per registered analysis. Written by generate_methods.py: do not edit."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ._table import Table

Steps = int | tuple[int, int] | None


class AnalysisMethods(ABC):
    """The registered analyses as methods of :class:`stackline.Run`; each takes ``steps``, ``rank`` and ``whole`` as
    :meth:`stackline.Run.table` does and returns the analysis' main table."""

    __slots__ = ()

    @abstractmethod
    def table(self, name: str, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """One table: of the analysis with that name, the table with the same name or else its first."""
'''

METHOD = '''
    def {name}(self, *, steps: Steps = None, rank: int | None = None, whole: bool = False) -> Table:
        """{doc}"""
        return self.table("{name}", steps=steps, rank=rank, whole=whole)
'''


def method(analysis: stackline.AnalysisInfo) -> str:
    lines = textwrap.wrap(f"{analysis.about}.", 108, break_long_words=False)
    doc = "\n        ".join(line.replace("\\", "\\\\").replace('"""', "'''") for line in lines)
    return METHOD.format(name=analysis.name, doc=doc)


def generate() -> str:
    return HEAD + "".join(method(analysis) for analysis in stackline.analyses())


if __name__ == "__main__":
    TARGET.write_text(generate(), encoding="utf-8")
    print(f"{TARGET}: {len(stackline.analyses())} methods")
