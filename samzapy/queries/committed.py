"""Questions about the committed entries of a running job's stores: what is asked, the answer, and how it is read.

A client asks the driver (`samzapy.coordinator.queries`), and the driver asks containers at their ports
(`samzapy.coordinator.port`). Question and answer travel as MessagePack: both sides have the same version of samzapy.
Keys and values are bytes, so an answer costs a container no more than the read. Other threads read the stores of a
container while its tasks run:

1. A commit writes to an engine once, after its records and its checkpoint are durable. So all entries of an engine are
   committed. Readers never touch the object caches and the uncommitted bytes above it.
2. The entries and the marker of one read belong to one commit: they are of one `StorageEngine.snapshot`.
3. Tasks are read one after the other. Once their entries fill a page, the other tasks are read only up to the page's
   last key. So an answer needs the memory of a few pages, however many tasks there are.
4. The container publishes its stores when they are restored, and withdraws them before it closes them. In between,
   readers cost its tasks no lock, neither to process nor to commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from samzapy.api.engine import StorageEngine
from samzapy.errors import StoreError
from samzapy.storage.local.marker import Marker
from samzapy.storage.store import TaskStores

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

logger = logging.getLogger(__name__)

_M = TypeVar("_M")

#: The header of an answer over HTTP with the number of changelog offsets that a standby is behind.
STANDBY_LAG = "samzapy-standby-lag"

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

    def within(self, page: Answer) -> Question:
        """The same question for further tasks: if the page `page` is full, only up to its last key."""
        if not page.more or not page.entries:
            return self
        beyond = page.entries[-1].key + b"\x00"
        return replace(self, upper=beyond if self.upper is None else min(beyond, self.upper))

    def lower_of(self, partition: int) -> bytes | None:
        """The lower bound in that partition, `after` included."""
        if self.after is None:
            return self.lower
        key, last = self.after
        # The same key may be in a later partition as well.
        beyond = key + b"\x00" if partition <= last else key
        return beyond if self.lower is None else max(beyond, self.lower)


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
        return sum(len(entry.key) + len(entry.value) for entry in self.entries)


def merged(answers: Iterable[Answer], most: int, most_bytes: int) -> Answer:
    """Merge the answers of several tasks into one; the first problem, if there is one."""
    parts = list(answers)
    for answer in parts:
        if answer.problem is not None:
            return answer
    # Beyond the last entry of an answer that is cut short, others may be missing.
    known_to = min((answer.entries[-1].place for answer in parts if answer.more and answer.entries), default=None)
    entries: list[Entry] = []
    more, room = known_to is not None, most_bytes
    for entry in sorted(chain.from_iterable(answer.entries for answer in parts), key=lambda item: item.place):
        beyond = known_to is not None and entry.place > known_to
        if beyond or len(entries) >= most or (entries and room <= 0):
            more = True
            break
        entries.append(entry)
        room -= len(entry.key) + len(entry.value)
    as_of = {partition: offset for answer in parts for partition, offset in answer.as_of.items()}
    lags = [answer.lag for answer in parts if answer.lag is not None]
    return Answer(tuple(entries), dict(sorted(as_of.items())), more, max(lags, default=None))


pack = msgspec.msgpack.Encoder().encode


def unpack(kind: type[_M], body: bytes) -> _M:
    """A packed Question or Answer. Raises ValueError for other bytes."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as cause:
        raise ValueError(f"body: {cause}") from cause


#: Characters of an unexpected error in an answer.
_LONGEST_REASON = 500
#: The largest entry that is shown, in bytes of key and value.
LARGEST_ENTRY = 16_777_216

NOT_READY = Answer(problem=Problem.MOVING, message="the container has not restored its stores")


@dataclass(frozen=True)
class PublishedStore:
    """One task's part of a store. `end` returns the end of its changelog as a standby last saw it; an owner has no lag,
    so it needs no end."""

    engine: StorageEngine
    end: Callable[[], int | None] = lambda: None


#: By store, and by the changelog partition of the task.
Published = Mapping[str, Mapping[int, PublishedStore]]


def published_stores(tasks: Iterable[TaskStores]) -> Published:
    """The stores of the tasks of a container that owns them."""
    published: dict[str, dict[int, PublishedStore]] = {}
    for stores in tasks:
        for name, (partition, engine) in stores.engines.items():
            published.setdefault(name, {})[partition] = PublishedStore(engine)
    return published


class CommittedStores:
    """Answers questions about published stores; any thread."""

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._stores: Published | None = None

    def publish(self, stores: Published) -> None:
        """Answer from these stores from now on."""
        with self._reading:
            self._stores = stores

    def withdraw(self) -> None:
        """Answer no more; returns when no read is under way, so that the engines may be closed. May be called twice."""
        with self._reading:
            self._stores = None

    async def endpoint(self, request: Request) -> Response:
        # Only a container with a port needs them.
        from starlette.concurrency import run_in_threadpool  # noqa: PLC0415
        from starlette.responses import PlainTextResponse, Response  # noqa: PLC0415

        try:
            question = unpack(Question, await request.body())
        except ValueError as cause:
            return PlainTextResponse(f"{cause}\n", 400)
        answer = await run_in_threadpool(self.answer, question)
        return Response(pack(answer), media_type="application/msgpack")

    def answer(self, question: Question) -> Answer:
        """The entries asked for, or the problem."""
        with self._reading:
            if self._stores is None:
                return NOT_READY
            parts = self._stores.get(question.store, {})
            partitions = sorted(parts) if question.partitions is None else question.partitions
            if not all(partition in parts for partition in partitions):
                return Answer(problem=Problem.MOVING, message="the container does not have these tasks")
            try:
                return _page(question, [(partition, parts[partition]) for partition in partitions])
            except (StoreError, ValueError) as cause:
                return Answer(problem=Problem.REFUSED, message=f"store '{question.store}': {cause}")
            except Exception as cause:
                logger.exception("A question about store '%s' failed", question.store)
                reason = " ".join(f"{type(cause).__name__}: {cause}".split())[:_LONGEST_REASON]
                return Answer(problem=Problem.REFUSED, message=f"store '{question.store}': {reason}")


def _page(question: Question, parts: Iterable[tuple[int, PublishedStore]]) -> Answer:
    most, most_bytes = question.most, question.most_bytes
    answers: list[Answer] = []
    count = size = 0
    bounded = question
    for partition, store in parts:
        answer = _read(bounded, partition, store)
        answers.append(answer)
        count, size = count + len(answer.entries), size + answer.size
        if answer.entries and (count > 2 * most or size > 2 * most_bytes):  # a merge sorts a whole page
            full = merged(answers, most, most_bytes)
            answers, count, size = [full], len(full.entries), full.size
            bounded = question.within(full)
    return merged(answers, most, most_bytes)


def _read(question: Question, partition: int, store: PublishedStore) -> Answer:
    pairs: list[tuple[bytes, bytes]] = []
    more, room = False, question.most_bytes
    with closing(store.engine.snapshot()) as snapshot:
        marker = snapshot.marker()
        with snapshot.iterate(question.lower_of(partition), question.upper) as cursor:
            for pair in cursor:
                if len(pairs) >= question.most or (pairs and room <= 0):
                    more = True
                    break
                pairs.append(pair)
                room -= len(pair[0]) + len(pair[1])
    offset = -1 if marker is None else Marker.from_bytes(marker).changelog_offset
    end = store.end()
    lag = None if end is None else max(0, end - offset - 1)
    for key, value in pairs:
        if len(key) + len(value) > LARGEST_ENTRY:
            raise StoreError(f"an entry has {len(key) + len(value):,} B, expected at most {LARGEST_ENTRY:,} B")
    entries = tuple(Entry(partition, key, value) for key, value in pairs)
    return Answer(entries, {partition: offset}, more, lag)
