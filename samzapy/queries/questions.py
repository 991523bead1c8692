"""The question about a store, the containers that are asked, and the answer, merged from those of several tasks.

1. Both travel as MessagePack between the driver and its containers, which have the same version of samzapy. Keys and
   values are bytes: only the driver converts them, so an answer costs a container no more than the read.
2. A task may put any key into its store, so all tasks are asked for a key. Where the keys of a store are the keys of
   the input messages (`job.query.keyed.stores`), one task has it: for each input, the reader of the partition into
   which producers put that key. Producers choose partitions as Kafka's Java producers do
   (`samzapy.system.partitioner`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from itertools import chain
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.job.model import JobModel
from samzapy.system.partitioner import partition_of

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


#: By container, the changelog partitions of the tasks that are asked; None for all of the container.
Owners = Mapping[str, "tuple[int, ...] | None"]


class StoreOwners:
    """The owners of one job's stores; `everyone` are all containers of the `model`."""

    def __init__(
        self,
        model: JobModel,
        keyed: Collection[str] = (),
        broadcast: Collection[SystemStreamPartition] = (),
    ) -> None:
        """`keyed`: the stores with keys of the input messages. `broadcast`: partitions that every task reads."""
        self.model = model
        self._keyed = frozenset(keyed)
        self._containers = {
            task.changelog_partition: container.id for container in model.containers for task in container.tasks
        }
        self.everyone: Owners = dict.fromkeys(container.id for container in model.containers)
        readers: dict[SystemStream, dict[int, int]] = defaultdict(dict)
        for task in model.tasks:
            for ssp in task.ssps - frozenset(broadcast):
                readers[ssp.system_stream][ssp.partition] = task.changelog_partition
        # By input, the task of each partition. A broadcast partition of an input that is read has no single reader.
        self._readers = [
            [tasks[number] for number in range(len(tasks))]
            for tasks in readers.values()
            if tasks.keys() == set(range(len(tasks)))
        ]
        self._complete = len(self._readers) == len(readers) and not any(
            ssp.system_stream in readers for ssp in broadcast
        )

    @property
    def partitions(self) -> Collection[int]:
        """The changelog partitions of the job's tasks."""
        return self._containers.keys()

    def of_key(self, store: str, key: bytes) -> Owners:
        """The containers that can have the key, and their tasks that can."""
        if store not in self._keyed or not self._complete or not self._readers:
            return self.everyone
        return self._of({tasks[partition_of(key, len(tasks))] for tasks in self._readers})

    def of_partition(self, partition: int) -> Owners:
        """The container of a task. Raises KeyError for a partition that is not in `partitions`."""
        return self._of([partition])

    def _of(self, partitions: Iterable[int]) -> Owners:
        owners: dict[str, tuple[int, ...]] = {}
        for partition in sorted(partitions):
            container = self._containers[partition]
            owners[container] = (*owners.get(container, ()), partition)
        return owners
