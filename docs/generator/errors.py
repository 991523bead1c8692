"""The classes of errors, from their declarations."""

from __future__ import annotations

from collections.abc import Iterator

from docs.generator.markdown import cell, code, table
from samzapy.errors import SamzapyError


def errors() -> str:
    """A row for each class, a class below its base."""
    return table(("class", "exit code", "meaning"), list(_rows(SamzapyError, 0)))


def _rows(error: type[SamzapyError], depth: int) -> Iterator[tuple[str, ...]]:
    if error.__module__ != SamzapyError.__module__:
        return
    indent = "&nbsp;" * 4 * depth
    yield indent + code(error.__name__), str(error.exit_code), cell((error.__doc__ or "").split("\n\n")[0])
    for each in sorted(error.__subclasses__(), key=lambda found: found.__name__):
        yield from _rows(each, depth + 1)
