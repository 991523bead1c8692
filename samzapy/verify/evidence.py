"""The evidence of a run, and the results that it must have.

Evidence is plain records from the logs and stores of a job that has stopped. The oracle folds the inputs into the
results that they must have; it shares no code with the stores and serdes of the job.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from samzapy.verify.workload import Chain, Event


class Record(NamedTuple):
    """One record of a log; `id` is the header `samzapy-id`, None where there is none."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    id: bytes | None = None


class LocalStore(NamedTuple):
    """The files of a store on this machine. `as_of`: the last changelog offset that its marker names, -1 without
    one."""

    entries: Mapping[bytes, bytes]
    as_of: int


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything about one finished run.

    `watched`: the outputs that a reader of committed records saw while the faults struck. `dumps`: the local store of
    each partition, per store; None where the stores are out of reach. `ends`: the input's ends by partition.
    """

    input_stream: str
    partitions: int
    inputs: Sequence[Record]
    outputs: Sequence[Record]
    watched: Sequence[Record]
    changelogs: Mapping[str, Sequence[Record]]
    dumps: Mapping[str, Sequence[LocalStore]] | None
    checkpoints: Sequence[Record]
    ends: Mapping[int, int]


def replay(changelog: Sequence[Record], partitions: int) -> list[dict[bytes, bytes]]:
    """The contents that each partition of a changelog replays to."""
    found: list[dict[bytes, bytes]] = [{} for _ in range(partitions)]
    for record in changelog:
        if record.value is None:
            found[record.partition].pop(record.key, None)
        else:
            found[record.partition][record.key] = record.value
    return found


def committed(checkpoints: Sequence[Record], input_stream: str) -> dict[int, int]:
    """The next input offset of each partition, as the newest checkpoint of each task has it."""
    newest = {record.key: record.value for record in checkpoints}
    found = {}
    for key, value in newest.items():
        if value is not None and json.loads(key).get("type") == "samzapy-checkpoint":
            for ssp, offset in json.loads(value)["inputs"].items():
                stream, _, partition = ssp.partition(".")[2].rpartition("[")
                if stream == input_stream:
                    found[int(partition.rstrip("]"))] = offset
    return found


@dataclass
class Account:
    """An open account: its balance and chain, and the ids of the deposits since it was opened."""

    sum: int = 0
    chain: Chain = field(default_factory=Chain)
    ids: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of deposits."""
        return self.chain.length


@dataclass(frozen=True)
class Applied:
    """The result of one input: the balance and the number of deposits after it, and its place in the input.

    `most_sum`, `most_count`: the same without any closing of the account.
    """

    key: bytes
    sum: int
    count: int
    partition: int
    offset: int
    most_sum: int
    most_count: int


@dataclass(frozen=True)
class Oracle:
    """The accounts open at the end, the result of each id, and all deposits ever made into each account."""

    open: dict[str, Account]
    applied: dict[int, Applied]
    deposits: dict[str, dict[int, int]]


def fold(inputs: Iterable[Record]) -> Oracle:
    """Apply every input once, in the order of its partition."""
    oracle = Oracle({}, {}, {})
    totals: dict[str, int] = {}
    for record in inputs:
        assert record.value is not None
        event = Event.decode(record.key, record.value)
        made = oracle.deposits.setdefault(event.key, {})
        if event.delta is None:
            oracle.open.pop(event.key, None)
        else:
            made[event.id] = event.delta
            totals[event.key] = totals.get(event.key, 0) + event.delta
            account = oracle.open.setdefault(event.key, Account())
            account.sum += event.delta
            account.chain = account.chain.link(event.id)
            account.ids.append(event.id)
        after = oracle.open.get(event.key) or Account()
        place = (record.partition, record.offset)
        oracle.applied[event.id] = Applied(
            record.key, after.sum, after.count, *place, totals.get(event.key, 0), len(made)
        )
    return oracle
