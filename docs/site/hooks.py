"""MkDocs hooks: folders in the navigation, links to folders, and links to files outside of docs."""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

INDEX = "README.md"
LINK = re.compile(r"(?P<label>\[(?:[^\[\]]|\[[^\[\]]*\])*\])\((?P<target>[^()\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def on_config(config):
    """Replace each folder in the navigation by its pages, its index first."""
    docs = Path(config.docs_dir)
    config.nav = [_expanded(docs, entry) for entry in config.nav]
    config.nav = [page for entry in config.nav for page in (entry if isinstance(entry, list) else [entry])]
    return config


def on_files(files, config):
    """Add an index to each folder in the navigation that has none."""
    for folder in sorted(_listed_folders(config.nav)):
        if files.get_file_from_path(f"{folder}/{INDEX}") is None:
            pages = _pages(Path(config.docs_dir), folder)
            lines = [f"- [{_title(Path(config.docs_dir) / page)}]({posixpath.basename(page)})" for page in pages]
            name = folder.replace("-", " ").capitalize()
            content = f"# {name}\n\n" + "\n".join(lines) + "\n"
            files.append(File.generated(config, f"{folder}/{INDEX}", content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Point links of folders at their index, and show links to files outside of docs as text."""
    folder = posixpath.dirname(page.file.src_uri)

    def link(match):
        target, _, anchor = match["target"].partition("#")
        if not target or ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path.startswith("../"):
            return match["label"][1:-1]
        if (Path(config.docs_dir) / path).is_dir():
            return f"{match['label']}({target.rstrip('/')}/{INDEX}{'#' + anchor if anchor else ''})"
        return match[0]

    # Examples in fences keep their brackets.
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(link, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(link, markdown[end:])])


def _expanded(docs, entry):
    """An entry of the navigation; a list of pages for a folder without a title."""
    if isinstance(entry, str):
        return [entry] if not entry.endswith("/") else [f"{entry}{INDEX}", *_pages(docs, entry.rstrip("/"))]
    ((title, inside),) = entry.items()
    inside = [inside] if isinstance(inside, str) else inside
    flat = []
    for part in inside:
        expanded = _expanded(docs, part)
        flat += expanded if isinstance(expanded, list) else [expanded]
    return {title: flat}


def _listed_folders(nav):
    """Folders whose index is in the navigation."""
    for entry in nav:
        for inside in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(inside, list):
                yield from _listed_folders(inside)
            elif "/" in inside and posixpath.basename(inside) == INDEX:
                yield posixpath.dirname(inside)


def _pages(docs, folder):
    """Pages of a folder but its index, by title."""
    pages = (path for path in (docs / folder).glob("*.md") if path.name != INDEX)
    return [path.relative_to(docs).as_posix() for path in sorted(pages, key=lambda path: _title(path).lower())]


def _title(path):
    """Heading of a page."""
    heading = re.search(r"^# +(.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return heading[1].replace("`", "") if heading else path.stem
