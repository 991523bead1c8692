"""Makes JSON events of about 100 bytes with keys by Zipf's law, the same for the same seed, and writes them to a
stream."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate, islice

from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord, SystemSettings
from samzapy.config.streams.systems import new_stream
from samzapy.system.clients import system_factory

#: Events drawn at a time.
_CHUNK = 10_000
_PAGES = 500
#: The time of the first event, milliseconds since 1970; each next one is a millisecond later.
FIRST_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Events:
    """`count` events over `keys` users; the user of rank r has the weight 1 / r ** exponent. With `unique`, the key of
    event i is user i and nothing is drawn: a store of `count` entries."""

    count: int = 1_000_000
    keys: int = 100_000
    exponent: float = 1.1
    seed: int = 7
    unique: bool = False

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        """The events as (key, value)."""
        number = 0
        for users, pages, cents in self._drawn():
            for user, page, amount in zip(users, pages, cents, strict=True):
                name = b"u%07d" % user
                at = FIRST_MS + number
                value = b'{"id":%d,"user":"%b","page":"/p/%03d","amount":%d.%02d,"at":%d,"referrer":null}' % (
                    (number, name, page, *divmod(amount, 100), at)
                )
                yield name, value
                number += 1

    def _drawn(self) -> Iterator[tuple[list[int], list[int], list[int]]]:
        chance = random.Random(self.seed)
        weights = list(accumulate(1.0 / rank**self.exponent for rank in range(1, self.keys + 1)))
        population, pages, cents = range(self.keys), range(_PAGES), range(10_000)
        for first in range(0, self.count, _CHUNK):
            size = min(_CHUNK, self.count - first)
            users = (
                list(range(first, first + size))
                if self.unique
                else chance.choices(population, cum_weights=weights, k=size)
            )
            yield users, chance.choices(pages, k=size), chance.choices(cents, k=size)


#: Records a call of the producer.
BATCH = 5_000


def load_events(
    settings: SystemSettings, stream: SystemStream, events: Iterable[tuple[bytes, bytes]], *, partitions: int = 4
) -> int:
    """Create the stream if there is none, and append the (key, value) pairs; returns their number."""
    factory = system_factory(settings)
    with closing(factory.admin(settings, "bench-load")) as admin:
        admin.create(new_stream(settings, stream.stream, partitions))
    done, left = 0, iter(events)
    with closing(factory.producer(settings, "bench-load")) as producer:
        while batch := [OutgoingRecord(stream.stream, key, value) for key, value in islice(left, BATCH)]:
            producer.send(batch)
            done += len(batch)
        producer.flush()
    return done
