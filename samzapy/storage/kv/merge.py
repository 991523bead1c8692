"""Two sorted sources as one: changes over committed pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Pair = tuple[bytes, bytes]
Change = tuple[bytes, "bytes | None"]


def merged(overlay: Sequence[Change], below: Iterator[Pair]) -> Iterator[Pair]:
    """`below` as it reads with `overlay` on top: a change replaces the pair of its key, None hides it.

    Both are sorted by key, and each holds a key at most once.
    """
    return _merged(overlay, below) if overlay else below


def _merged(overlay: Sequence[Change], below: Iterator[Pair]) -> Iterator[Pair]:
    pair = next(below, None)
    for key, value in overlay:
        while pair is not None and pair[0] < key:
            yield pair
            pair = next(below, None)
        if pair is not None and pair[0] == key:
            pair = next(below, None)
        if value is not None:
            yield key, value
    if pair is not None:
        yield pair
        yield from below
