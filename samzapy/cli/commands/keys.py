"""`samzapy keys`: list the keys of job files."""

from __future__ import annotations

import click

from samzapy.cli.output import table


@click.command()
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--unsupported", "other", is_flag=True, help="Samza's keys without effect here, with the reasons.")
def keys(words: tuple[str, ...], *, other: bool) -> None:
    """List the keys of job files with their defaults and meanings; with WORDs, those that have all of them."""
    if other:
        _show_unsupported(words)
        return
    from samzapy.config.known_keys import ALL_KEYS

    rows = [
        (key.name, key.default_text, key.kind.allowed, key.doc)
        for key in ALL_KEYS
        if all(word.lower() in f"{key.name} {key.doc}".lower() for word in words)
    ]
    table("Keys of job files", ("key", "default", "value", "meaning"), rows)


def _show_unsupported(words: tuple[str, ...]) -> None:
    from samzapy.config.known_keys import unsupported

    rows = [row for row in unsupported() if all(word.lower() in " ".join(row).lower() for word in words)]
    table("Keys of Samza without a meaning here", ("key", "a job with it", "why"), rows)
