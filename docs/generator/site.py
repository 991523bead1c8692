"""Copies the pages, fills in what the code says, and brings the linked files of the project along."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from docs.generator.commands import commands
from docs.generator.errors import errors
from docs.generator.keys import keys, unsupported_keys
from docs.generator.markdown import relinked, target
from docs.generator.metrics import alerts, metrics

GENERATED = {
    "alerts": alerts,
    "commands": commands,
    "errors": errors,
    "keys": keys,
    "metrics": metrics,
    "unsupported-keys": unsupported_keys,
}
_MARK = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)
#: A name of the Python interface that leads to its module; the site shows its docstring in that place.
_NAME = re.compile(r"^- \[(samzapy[\w.]*)\]\([^)\s]+\)$", re.MULTILINE)
#: Files that are copied as they are.
_PICTURES = {".png", ".svg", ".css"}
_LANGUAGES = {
    ".py": "python",
    ".properties": "properties",
    ".json": "json",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}


class Site:
    """The pages of one project."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._docs = project / "docs"

    def write(self, folder: Path) -> None:
        """Write all pages into `folder`, which is emptied first. Raises ValueError for an unknown `generated` mark and
        FileNotFoundError for a link to a file that does not exist."""
        shutil.rmtree(folder, ignore_errors=True)
        waiting = sorted(self._own())
        seen = set(waiting)
        while waiting:
            path = waiting.pop()
            place = folder / self._place(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix in _PICTURES:
                shutil.copy(path, place)
                continue
            text, linked = self._page(path)
            place.write_text(text, encoding="utf-8")
            waiting += sorted(linked - seen)
            seen |= linked

    def _own(self) -> Iterator[Path]:
        for path in self._docs.rglob("*"):
            if path.is_file() and path.suffix in {".md", *_PICTURES}:
                yield path

    def _place(self, path: Path) -> Path:
        """Where a file of the project is in the site."""
        if path.is_relative_to(self._docs) and not path.is_dir():
            return path.relative_to(self._docs)
        inside = Path("project") / path.relative_to(self._project)
        if path.is_dir():
            return inside / "index.md"
        return inside if path.suffix in {".md", *_PICTURES} else inside.with_name(f"{inside.name}.md")

    def _page(self, path: Path) -> tuple[str, set[Path]]:
        """The text of a page, and the files that it links to."""
        name = path.relative_to(self._project)
        if path.is_dir():
            text = f"# {name}\n\n" + "".join(f"- [{each.name}]({each.name})\n" for each in _files(path))
            # The links are those of a page inside the folder.
            return self._relinked(path / "index.md", text)
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".md":
            fence = "`" * 8
            return f"# {name}\n\n{fence}{_LANGUAGES.get(path.suffix, 'text')}\n{text}{fence}\n", set()
        if path.parent == self._docs / "reference" / "api":
            text = _NAME.sub(r"::: \1\n", text)
        text, linked = self._relinked(path, text)
        return _MARK.sub(lambda mark: _generated(mark[1]), text), linked

    def _relinked(self, page: Path, text: str) -> tuple[str, set[Path]]:
        linked: set[Path] = set()
        here = self._place(page).parent

        def change(link: str) -> str:
            found, anchor = target(page, link)
            if found == page:
                return link
            if not found.exists():
                raise FileNotFoundError(f"{page.relative_to(self._project)}: {link} leads nowhere")
            linked.add(found)
            place = os.path.relpath(self._place(found), here)
            return f"{place}#{anchor}" if anchor else place

        return relinked(text, change), linked


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name != "__init__.py")


def _generated(name: str) -> str:
    if name not in GENERATED:
        raise ValueError(f"<!-- generated: {name} -->: expected one of {', '.join(GENERATED)}")
    return GENERATED[name]()
