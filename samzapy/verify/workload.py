"""The events: deposits into accounts that are closed now and then, "bank and append" in one.

Accounts follow Zipf's law. Amounts are positive, so that a sum can only be too large if something was applied twice.
Each account is also a hash chain over the ids of its deposits, h = H(h, id): one number that proves no loss, no
repetition and no reordering since the account was opened.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

KEYS = 1_000
EXPONENT = 1.1
#: Of all events, how many close their account.
CLOSING = 0.05
#: How many ids of an account's newest deposits are kept beside the hash.
TAIL = 8
#: The stores: an account's balance, how many deposits it had, and their chain.
STORES = ("sum", "count", "chain")

_LARGEST = 100
_CHUNK = 5_000


class Event(NamedTuple):
    """Event `id` pays `delta` into the account `key`; None closes it."""

    id: int
    key: str
    delta: int | None

    def encode(self) -> tuple[bytes, bytes]:
        """The record's key and value."""
        delta = "null" if self.delta is None else str(self.delta)
        return self.key.encode(), f'{{"id":{self.id},"delta":{delta}}}'.encode()

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Event:
        """The inverse of `encode`."""
        found = json.loads(value)
        return cls(found["id"], key.decode(), found["delta"])


class Chain(NamedTuple):
    """The deposits into one account: their hash chain, how many there were, and the ids of the newest `TAIL`."""

    hash: str = ""
    length: int = 0
    tail: tuple[int, ...] = ()

    def link(self, number: int) -> Chain:
        """The chain with one more deposit."""
        digest = blake2b(f"{self.hash}/{number}".encode(), digest_size=8).hexdigest()
        return Chain(digest, self.length + 1, (*self.tail, number)[-TAIL:])


def events(count: int, seed: str) -> Iterator[Event]:
    """`count` events with the ids 0, 1, ...; the same ones for the same seed."""
    chance = random.Random(seed)
    weights = list(accumulate(1.0 / rank**EXPONENT for rank in range(1, KEYS + 1)))
    names = [f"account-{number:04d}" for number in range(KEYS)]
    chance.shuffle(names)
    for first in range(0, count, _CHUNK):
        keys = chance.choices(names, cum_weights=weights, k=min(_CHUNK, count - first))
        for number, key in enumerate(keys, first):
            closes = chance.random() < CLOSING
            yield Event(number, key, None if closes else chance.randint(1, _LARGEST))
