"""`accesslog.*`: records some of a task's calls to a store, for a stream beside the changelog.

key    the time of the call, 8 bytes of milliseconds since 1970, big-endian
value  {"op": "get", "ns": 1200, "keys": ["user-1"]}

`op` is get, put, delete, range or snapshot (of many keys, too), `ns` the duration of the call, `keys` the serialized
keys as text, the bounds for a range. Samza writes Java's own serialization there, which only Java reads.

A call of many keys may become several records with the same time and `ns`, and a long key is cut: a record that is too
large for the broker would fail the task's commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from time import perf_counter_ns
from typing import Any, TypeVar

from samzapy.api.kv import KeyValueIterator, KeyValueSnapshot
from samzapy.clock import Clock
from samzapy.storage.kv.codec import EntryCodec, entry_list, key_list
from samzapy.storage.kv.forwarding import ForwardingStore, StoreLayer

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

#: Keys that the log holds between two commits. Further calls are only counted.
_MOST_HELD = 100_000
#: The most bytes of a record's value, a tenth of a broker's default limit, and of a key. A byte of a key takes at most
#: 6 bytes of JSON, so both bounds of a range fit into one record.
_LONGEST_RECORD, _LONGEST_KEY = 100_000, 8_000


class AccessLog:
    """The chosen calls, until a commit takes them. `lost` counts chosen calls that found no room."""

    __slots__ = ("_clock", "_held", "_keys", "_percent", "_random", "lost")

    def __init__(self, percent: int, clock: Clock, random: Random | None = None) -> None:
        """`percent` of the calls are chosen, each by chance."""
        self._percent = percent
        self._clock = clock
        self._random = (random or Random()).random
        self._held: list[tuple[int, tuple[str, int, list[bytes]]]] = []
        self._keys = 0
        self.lost = 0

    def chooses(self) -> bool:
        """Whether this call goes into the log."""
        return self._random() * 100 < self._percent

    def add(self, operation: str, nanoseconds: int, keys: list[bytes]) -> None:
        """Remember a call."""
        if self._keys < _MOST_HELD:
            self._keys += max(1, len(keys))
            self._held.append((self._clock.wall_ms(), (operation, nanoseconds, keys)))
        else:
            self.lost += 1

    def take(self) -> list[tuple[bytes, bytes]]:
        """The records of everything remembered; nothing is left."""
        held = self._held
        self.forget()
        return [(time.to_bytes(8, "big", signed=True), value) for time, call in held for value in _values(*call)]

    def forget(self) -> None:
        """Drop the remembered calls."""
        self._held, self._keys = [], 0

    def metrics(self) -> dict[str, float]:
        """`access-log-lost`."""
        return {"access-log-lost": self.lost}


def _values(operation: str, nanoseconds: int, keys: list[bytes]) -> Iterator[bytes]:
    before, after = f'{{"op": "{operation}", "ns": {nanoseconds}, "keys": ['.encode(), b"]}"
    room = _LONGEST_RECORD - len(before + after)
    texts: list[bytes] = []
    size = 0
    for key in keys:
        text = json.dumps(key[:_LONGEST_KEY].decode(errors="backslashreplace"), ensure_ascii=False).encode()
        if size + len(text) > room:
            yield before + b", ".join(texts) + after
            texts, size = [], 0
        texts.append(text)
        size += len(text) + len(b", ")
    yield before + b", ".join(texts) + after


class AccessLoggedStore(ForwardingStore[K, V]):
    """Logs some of the calls. `all` and `prefix` are not logged, as in Samza."""

    __slots__ = ("_codec", "_log")

    def __init__(self, inner: StoreLayer[K, V], codec: EntryCodec, log: AccessLog) -> None:
        super().__init__(inner)
        self._codec = codec
        self._log = log

    def get(self, key: K) -> V | None:
        return self._logged("get", self._inner.get, key, [key])

    def get_all(self, keys: Iterable[K]) -> dict[K, V | None]:
        wanted = key_list(self._codec.store, keys)
        return self._logged("get", self._inner.get_all, wanted, wanted)

    def put(self, key: K, value: V) -> None:
        self._logged("put", lambda entry: self._inner.put(*entry), (key, value), [key])

    def put_all(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        pairs = entry_list(self._codec.store, entries)
        self._logged("put", self._inner.put_all, pairs, [key for key, _ in pairs])

    def delete(self, key: K) -> None:
        self._logged("delete", self._inner.delete, key, [key])

    def delete_all(self, keys: Iterable[K]) -> None:
        unwanted = key_list(self._codec.store, keys)
        self._logged("delete", self._inner.delete_all, unwanted, unwanted)

    def range(self, from_key: K, to_key: K) -> KeyValueIterator[K, V]:
        return self._logged("range", lambda bounds: self._inner.range(*bounds), (from_key, to_key), [from_key, to_key])

    def snapshot(self, from_key: K, to_key: K) -> KeyValueSnapshot[K, V]:
        bounds = (from_key, to_key)
        return self._logged("snapshot", lambda both: self._inner.snapshot(*both), bounds, [from_key, to_key])

    def discard(self) -> None:
        self._log.forget()
        self._inner.discard()

    def metrics(self) -> dict[str, float]:
        return {**self._inner.metrics(), **self._log.metrics()}

    @property
    def logs_calls(self) -> bool:
        return True

    def take_calls(self) -> list[tuple[bytes, bytes]]:
        return self._log.take()

    def _logged(self, operation: str, call: Callable[[Any], R], argument: Any, keys: list[K]) -> R:
        if not self._log.chooses():
            return call(argument)
        began = perf_counter_ns()
        result = call(argument)
        took = perf_counter_ns() - began
        self._log.add(operation, took, self._codec.encode_keys(keys))
        return result
