"""The page, in a browser or in a notebook."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from types import TracebackType

from . import _native

PathLike = str | os.PathLike[str]


class Page:
    """A server of the page, on this machine alone, until it is closed or nobody holds it any more.

    In a notebook it shows the page in place. As a context manager it ends with the block.
    """

    def __init__(self, native: _native.Page) -> None:
        self._native = native

    @property
    def url(self) -> str:
        """Where the page is. It holds a random token: whoever knows it on this machine can look."""
        return self._native.url

    def close(self) -> None:
        """Ends the server."""
        self._native.close()

    def __enter__(self) -> Page:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<stackline.Page {self.url}>"

    def _repr_html_(self) -> str:
        """The page in a frame, for notebooks; behind jupyter-server-proxy, by the way that the proxy knows."""
        prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX")
        port, path = self.url.removeprefix("http://127.0.0.1:").split("/", 1)
        address = f"{prefix.rstrip('/')}/proxy/{port}/{path}" if prefix else self.url
        return f'<iframe src="{html.escape(address)}" title="Stackline" width="100%" height="800" style="border: 0"></iframe>'


def view(
    inputs: PathLike | Sequence[PathLike],
    *,
    baseline: PathLike | None = None,
    port: int = 0,
    hosts: Sequence[str] = (),
    source_roots: Sequence[PathLike] = (),
    no_source: bool = False,
) -> Page:
    """Opens traces, runs or a recording as a page: overview, issues, flame graph, timeline, source.

    ``baseline`` is a run from before a change, to compare with. ``port`` 0 takes a free one. ``hosts`` are names by which
    a proxy in front asks, such as that of a JupyterHub. Source text is read below ``source_roots`` and inputs that are
    directories, and nowhere else; with ``no_source`` none is read at all.

    Raises :class:`ReadError` if an input cannot be read, :class:`AnalysisError` if the port is taken, :class:`ValueError` if both
    ``source_roots`` and ``no_source`` are given.
    """
    if no_source and source_roots:
        raise ValueError("source_roots lets source text be read, no_source does not: give one of them")
    paths = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    other = None if baseline is None else os.fspath(baseline)
    roots = [os.fspath(root) for root in source_roots]
    return Page(_native.view([os.fspath(path) for path in paths], other, port, list(hosts), roots, no_source))
