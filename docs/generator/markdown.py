"""Reads Markdown as far as the site and its tests need it: links, anchors, fences."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

_FENCE = re.compile(r"^(?P<marks>```+|~~~+)(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=marks)[ ]*$", re.MULTILINE | re.DOTALL)
#: A link, or code within a line, which has no links.
_LINK = re.compile(r"`[^`\n]+`|\]\(([^)\s]+)\)")
#: Characters with a meaning in Markdown, also between tags of HTML.
_MARKUP = frozenset("|[]()*_`\\")
_OF_ANOTHER_PLACE = re.compile(r"[a-z]+:")


def fences(text: str) -> list[tuple[str, str, str]]:
    """The code blocks between fences: the language (empty if none is named), the code, and the last line before the
    block."""
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()].rstrip().rpartition("\n")[2]
        found.append((match["info"].strip(), match["text"], before))
    return found


def links(text: str) -> list[str]:
    """The relative links of a page, those in code left out."""
    return [link for link in _LINK.findall(_FENCE.sub("", text)) if link and not _OF_ANOTHER_PLACE.match(link)]


def relinked(text: str, change: Callable[[str], str]) -> str:
    """The page with each relative link changed, those in code left alone."""

    def changed(match: re.Match[str]) -> str:
        link = match[1]
        return match[0] if link is None or _OF_ANOTHER_PLACE.match(link) else f"]({change(link)})"

    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(changed, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(changed, text[end:])])


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as the usual hosts of repositories and the site make them."""
    heads = re.findall(r"^#+ (.*)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def target(page: Path, link: str) -> tuple[Path, str]:
    """The file that a link of a page leads to, and the anchor (empty if none)."""
    path, _, anchor = link.partition("#")
    return ((page.parent / path).resolve() if path else page), anchor


def cell(text: str) -> str:
    """Text with code between backticks, for a cell of a table."""
    parts = re.split(r"`([^`]+)`", " ".join(text.split()))
    return "".join(code(part) if number % 2 else part.replace("|", "&#124;") for number, part in enumerate(parts))


def code(text: str) -> str:
    """Code for a cell of a table. A line may break after each dot."""
    plain = "".join(f"&#{ord(char)};" if char in _MARKUP else char for char in html.escape(text, quote=False))
    return f"<code>{plain.replace('.', '.<wbr>')}</code>"


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table of cells."""
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
