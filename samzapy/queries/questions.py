"""Defines the question about a store and its answer, and merges the answers of several tasks.

Both travel as MessagePack between the driver and its containers, which have the same version of samzapy. Keys and
values are bytes: only the driver converts them, so an answer costs a container no more than the read.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import chain
from typing import TypeVar

import msgspec
from msgspec.structs import replace

_M = TypeVar("_M")

#: The header of an answer over HTTP with the number of changelog offsets that a standby is behind.
STANDBY_LAG = "samzapy-standby-lag"

#: Bytes of keys and values in the answers that a container hands over at once. The last answer may exceed this; the sum
#: is still below the driver's limit for a request.
HANDED_BYTES = 8_388_608

#: A key, and the partition of the task that has it: the order of entries.
Place = tuple[bytes, int]


class Question(msgspec.Struct, frozen=True, array_like=True):
    """The entries with lower <= key < upper (None: no bound) of one store, in the order of their places.

    The answer ends after `most` entries or `most_bytes` bytes, but has at least one entry if there is any.
    `partitions`: the tasks that are asked, by changelog partition; None for all of the container. `after`: only entries
    beyond this place.
    """

    store: str
    lower: bytes | None
    upper: bytes | None
    most: int
    most_bytes: int
    partitions: tuple[int, ...] | None = None
    after: Place | None = None

    @property
    def is_of_a_key(self) -> bool:
        """Whether the question is for a single key."""
        return self.lower is not None and self.upper == self.lower + b"\x00"

    def within(self, found: Answer) -> Question:
        """The same question for further tasks: if the page `found` is full, only up to its last key."""
        if not found.more or not found.entries:
            return self
        beyond = found.entries[-1].key + b"\x00"
        return replace(self, upper=beyond if self.upper is None else min(beyond, self.upper))

    def lower_of(self, partition: int) -> bytes | None:
        """The lower bound in that partition, `after` included."""
        if self.after is None:
            return self.lower
        key, last = self.after
        # The same key may be in a later partition as well.
        beyond = key + b"\x00" if partition <= last else key
        return beyond if self.lower is None else max(beyond, self.lower)


#: Bytes of the answers about one key.
_KEY_BYTES = 65_536


def question_of_key(store: str, key: bytes, partitions: int) -> Question:
    """The question about one key, which up to `partitions` partitions may have."""
    return Question(store, key, key + b"\x00", partitions, _KEY_BYTES)


class Problem(Enum):
    """The reason why there is no answer."""

    MOVING = "moving"
    """The tasks have no owner now, or it is not ready: ask again."""
    REFUSED = "refused"
    """Asking again would not help."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One committed entry, of the task with that changelog partition."""

    partition: int
    key: bytes
    value: bytes

    @property
    def place(self) -> Place:
        """The entry's place in the order of entries."""
        return self.key, self.partition


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """Entries in the order of their places. `more`: more may follow.

    `as_of`: by partition the changelog offset up to which the state is complete, -1 without a changelog or before its
    first record. `lag`: the changelog offsets that a standby is behind, None for an owner. With a `problem` there are
    no entries, and `message` is one line about it.
    """

    entries: tuple[Entry, ...] = ()
    as_of: dict[int, int] = {}  # msgspec copies it
    more: bool = False
    lag: int | None = None
    problem: Problem | None = None
    message: str = ""

    @property
    def size(self) -> int:
        """The bytes of its keys and values."""
        return sum(len(entry.key) + len(entry.value) for entry in self.entries)


def unanswered(container: str, timeout_s: float) -> Answer:
    """The answer in place of a container that did not answer in time."""
    message = f"container {container} has not answered for {timeout_s:g} s (job.query.timeout.ms)"
    return Answer(problem=Problem.MOVING, message=message)


def merged(answers: Iterable[Answer], most: int, most_bytes: int) -> Answer:
    """Merge the answers of several tasks into one; the first problem, if there is one."""
    found = list(answers)
    for answer in found:
        if answer.problem is not None:
            return answer
    # Beyond the last entry of an answer that is cut short, others may be missing.
    known_to = min((answer.entries[-1].place for answer in found if answer.more and answer.entries), default=None)
    entries: list[Entry] = []
    more, room = known_to is not None, most_bytes
    for entry in sorted(chain.from_iterable(answer.entries for answer in found), key=lambda each: each.place):
        beyond = known_to is not None and entry.place > known_to
        if beyond or len(entries) >= most or (entries and room <= 0):
            more = True
            break
        entries.append(entry)
        room -= len(entry.key) + len(entry.value)
    as_of = {partition: offset for answer in found for partition, offset in answer.as_of.items()}
    lags = [answer.lag for answer in found if answer.lag is not None]
    return Answer(tuple(entries), dict(sorted(as_of.items())), more, max(lags, default=None))


class Handed(msgspec.Struct, array_like=True):
    """The body of a container's request: the epoch of its attempt, and its answers by the number of the question.
    `busy`: the container still has questions to answer, and takes no new ones."""

    epoch: int
    answers: list[tuple[int, Answer]]
    busy: bool = False


class Asked(msgspec.Struct, array_like=True):
    """The driver's reply: the next questions with their numbers. `owned`: whether the attempt has the container."""

    questions: list[tuple[int, Question]]
    owned: bool = True


pack = msgspec.msgpack.Encoder().encode
_handed = msgspec.msgpack.Decoder(Handed)
_asked = msgspec.msgpack.Decoder(Asked)


def read_handed(body: bytes) -> Handed:
    """A container's body. Raises ValueError for other bytes."""
    return _read(_handed, body)


def read_asked(body: bytes) -> Asked:
    """The driver's reply. Raises ValueError for other bytes."""
    return _read(_asked, body)


def _read(decoder: msgspec.msgpack.Decoder[_M], body: bytes) -> _M:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as cause:
        raise ValueError(f"body: {cause}") from cause
