"""`--config KEY=VALUE` and its like, as several commands take it."""

from __future__ import annotations

from collections.abc import Iterable

import click


def pairs(texts: Iterable[str], option: str = "--config") -> dict[str, str]:
    """Keys and values; of two equal keys the last one counts. Raises click's error for anything else."""
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"expected KEY=VALUE, got {text!r}", param_hint=option)
        found[key.strip()] = value
    return found
