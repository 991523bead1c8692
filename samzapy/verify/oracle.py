"""Folds the inputs into the results that they must have. It shares no code with the stores and serdes of the job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from samzapy.verify.evidence import Record
from samzapy.verify.workload import Chain, Event


@dataclass
class Account:
    """An open account: its balance and chain, and the ids of the deposits since it was opened."""

    sum: int = 0
    chain: Chain = field(default_factory=Chain)
    ids: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many deposits there were."""
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
