"""The page: an interactive view of runs in a browser or a notebook."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from types import TracebackType

from . import _native

PathLike = str | os.PathLike[str]


class Page:
    """A local HTTP server of the page. It stops at :meth:`close`, or when the object is garbage collected.

    A notebook displays the page in its output cell. As a context manager, the server stops at the end of the block.
    """

    def __init__(self, native: _native.Page) -> None:
        self._native = native

    @property
    def url(self) -> str:
        """URL of the page. It contains a random token; every user of this machine who has the token can open the page."""
        return self._native.url

    def close(self) -> None:
        """Stop the server."""
        self._native.close()

    def __enter__(self) -> Page:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<stackline.Page {self.url}>"

    def _repr_html_(self) -> str:
        """The page in an iframe, for notebooks. On a JupyterHub the address is that of jupyter-server-proxy."""
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
    """Open traces, runs or a recording as a page: overview, issues, flame graph, timeline, source.

    ``baseline``: an earlier run to compare with. ``port``: the TCP port; 0 chooses a free port. ``hosts``: host names that requests
    through a proxy carry, such as that of a JupyterHub. ``source_roots``: directories from which source text is read, in addition
    to inputs that are directories. ``no_source``: read no source text.

    Raises :class:`ReadError` if an input cannot be read, :class:`AnalysisError` if the port is in use, :class:`ValueError` if both
    ``source_roots`` and ``no_source`` are given.
    """
    if no_source and source_roots:
        raise ValueError("source_roots and no_source contradict each other: give one of them")
    paths = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    other = None if baseline is None else os.fspath(baseline)
    roots = [os.fspath(root) for root in source_roots]
    return Page(_native.view([os.fspath(path) for path in paths], other, port, list(hosts), roots, no_source))
