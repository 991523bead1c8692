"""The results that a run must have, and pure functions from its evidence to findings: each checks one thing, counts it,
and keeps the first example.

================ ======= ============================= =====================================
guarantee        loss    repeated outputs              state
================ ======= ============================= =====================================
at-most-once     some    none                          some deposits, each at most once
at-least-once    none    some                          equals the fold of the inputs
effectively-once none    under the same id only        equals the fold of the inputs
exactly-once     none    none                          equals the fold of the inputs
================ ======= ============================= =====================================

1. Where a run that has lost its tasks may come back from a stop, its last outputs in at-most-once may be late: behind
   its successor's outputs, which do not repeat them. In the other guarantees they are repetitions, or they are aborted.
2. Everything else is a violation under every guarantee: another order within a key, another key or partition, a local
   store that differs from its changelog, a committed output that vanishes, an input that is not committed in the end.

The oracle folds the inputs; it shares no code with the stores and serdes of the job.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec
from urllib.parse import unquote

from samzapy.config.task import Guarantee
from samzapy.verify.evidence import Evidence, Record, committed, replay
from samzapy.verify.workload import STORES, TAIL, Chain, Event, partition_of

ALLOWED = {
    Guarantee.AT_MOST_ONCE: {"loss"},
    Guarantee.AT_LEAST_ONCE: {"duplicates"},
    Guarantee.EFFECTIVELY_ONCE: {"duplicates"},
    Guarantee.EXACTLY_ONCE: set[str](),
}
_COUNTED_APART = {"loss", "duplicates", "order"}
#: The number of fields of the header `samzapy-id`.
_ID_FIELDS = 11


@dataclass(frozen=True)
class Account:
    """An account as the stores have it; None where a store has no entry. A closed account has none."""

    sum: int | None = None
    count: int | None = None
    chain: Chain | None = None


CLOSED = Account()


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
    totals: Counter[str] = Counter()
    for record in inputs:
        event = Event.decode(record.key, record.value or b"")
        deposits = oracle.deposits.setdefault(event.key, {})
        total = count = 0
        if event.delta is None:
            oracle.open.pop(event.key, None)
        else:
            deposits[event.id] = event.delta
            totals[event.key] += event.delta
            before = oracle.open.get(event.key, CLOSED)
            chain = (before.chain or Chain()).link(event.id)
            total, count = (before.sum or 0) + event.delta, chain.length
            oracle.open[event.key] = Account(total, count, chain)
        oracle.applied[event.id] = Applied(
            record.key, total, count, record.partition, record.offset, totals[event.key], len(deposits)
        )
    return oracle


@dataclass(frozen=True)
class Finding:
    """A check, the number of its findings, and its first example in words."""

    check: str
    count: int = 0
    example: str = ""

    def __str__(self) -> str:
        return f"{self.check}: {self.count:,}, first: {self.example}"


P = ParamSpec("P")


def _check(name: str) -> Callable[[Callable[P, Iterable[str]]], Callable[P, Finding]]:
    """Make a check of a function that yields its findings in words: it counts them and keeps the first."""

    def check_of(examples: Callable[P, Iterable[str]]) -> Callable[P, Finding]:
        @wraps(examples)
        def check(*args: P.args, **named: P.kwargs) -> Finding:
            words = list(examples(*args, **named))
            return Finding(name, len(words), next(iter(words), ""))

        return check

    return check_of


@dataclass(frozen=True)
class Verdict:
    """The findings with a count above 0, and the violations of the guarantee among them. `may_be_late`: as for
    `judge`."""

    guarantee: Guarantee
    findings: tuple[Finding, ...]
    may_be_late: bool = False

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that the guarantee does not allow."""
        late = {"order"} if self.may_be_late and self.guarantee is Guarantee.AT_MOST_ONCE else set()
        allowed = ALLOWED[self.guarantee] | late
        return tuple(finding for finding in self.findings if finding.check not in allowed)

    def count(self, check: str) -> int:
        """The number of findings of a check."""
        return sum(finding.count for finding in self.findings if finding.check == check)

    @property
    def mismatches(self) -> int:
        """The count of all other findings than losses, repetitions and changes of order."""
        return sum(finding.count for finding in self.findings if finding.check not in _COUNTED_APART)


def judge(evidence: Evidence, guarantee: Guarantee, written: int, *, may_be_late: bool = False) -> Verdict:
    """Run every check over the evidence of a run with `written` events. `may_be_late`: whether a run that had lost its
    tasks may have come back from a stop."""
    oracle = fold(evidence.inputs)
    echoes = echoes_of(evidence.outputs)
    findings = [
        inputs(evidence, written),
        loss(oracle, echoes),
        duplicates(echoes),
        order(echoes),
        echo_keys(oracle, echoes),
        running_sums(oracle, echoes, guarantee),
        partitions(evidence),
        vanished(evidence),
        stores(evidence),
        state(evidence, oracle, guarantee),
        lag(evidence),
    ]
    if guarantee is Guarantee.EFFECTIVELY_ONCE:
        findings.append(output_ids(evidence, oracle, echoes))
    return Verdict(guarantee, tuple(finding for finding in findings if finding.count), may_be_late)


@dataclass(frozen=True)
class Echo:
    """One output."""

    record: Record
    id: int
    sum: int
    count: int

    def __str__(self) -> str:
        return f"id {self.id} in output[{self.record.partition}]@{self.record.offset}"


def echoes_of(outputs: Sequence[Record]) -> list[Echo]:
    """The outputs, decoded, in the order of each partition."""
    values = (json.loads(record.value or b"{}") for record in outputs)
    return [
        Echo(record, value["id"], value["sum"], value["count"]) for record, value in zip(outputs, values, strict=True)
    ]


@_check("loss")
def loss(oracle: Oracle, echoes: Sequence[Echo]) -> Iterator[str]:
    """Inputs without an output."""
    for number in sorted(oracle.applied.keys() - {echo.id for echo in echoes}):
        yield f"input id {number} has no output"


def duplicates(echoes: Sequence[Echo]) -> Finding:
    """Outputs beyond the first of an input."""
    times = Counter(echo.id for echo in echoes)
    extra = sum(times.values()) - len(times)
    example = next((f"id {number} came {n} times" for number, n in times.items() if n > 1), "")
    return Finding("duplicates", extra, example)


@_check("order")
def order(echoes: Sequence[Echo]) -> Iterator[str]:
    """First outputs of a key that come after one of a later input of that key."""
    newest: dict[bytes, int] = {}
    seen: set[int] = set()
    for echo in echoes:
        if echo.id in seen:
            continue
        seen.add(echo.id)
        before = newest.get(echo.record.key, -1)
        if echo.id < before:
            yield f"{echo} after id {before} of the same key"
        newest[echo.record.key] = max(before, echo.id)


@_check("echo")
def echo_keys(oracle: Oracle, echoes: Sequence[Echo]) -> Iterator[str]:
    """Outputs of inputs that never were, or under another key than their input's."""
    for echo in echoes:
        if echo.id not in oracle.applied or oracle.applied[echo.id].key != echo.record.key:
            yield f"{echo} under {echo.record.key!r}"


@_check("running-sum")
def running_sums(oracle: Oracle, echoes: Sequence[Echo], guarantee: Guarantee) -> Iterator[str]:
    """Sums and counts in outputs that differ from the fold of the inputs before them. A repeated output has the same.

    At-most-once may not exceed all deposits so far, because a closing may be lost, too.
    """
    for echo in echoes:
        due = oracle.applied.get(echo.id)
        if due is None:
            continue
        if guarantee is Guarantee.AT_MOST_ONCE:
            right = echo.sum <= due.most_sum and echo.count <= due.most_count
        else:
            right = (echo.sum, echo.count) == (due.sum, due.count)
        if not right:
            yield f"{echo}: sum {echo.sum}, count {echo.count}; the inputs make {due.sum}, {due.count}"


@_check("output-id")
def output_ids(evidence: Evidence, oracle: Oracle, echoes: Sequence[Echo]) -> Iterator[str]:
    """Outputs with an id header that names another input or another sender: a receiver could not drop their
    repetitions."""
    first: tuple[str, ...] | None = None
    for echo in echoes:
        due = oracle.applied.get(echo.id)
        if due is None:
            continue
        version, *sender, stream, stream_id, partition, task, kind, offset, number = _id_fields(echo.record)
        first = first or (*sender, stream_id)
        named = (version, *sender, stream_id, stream, partition, task, kind, offset, number)
        at = (str(due.partition), "", "out", str(due.offset), "0")
        if named != ("2", *first, evidence.input_stream, *at):
            expected = ":".join(("2", *first[:-1], evidence.input_stream, first[-1], *at))
            yield f"{echo}: header samzapy-id is {echo.record.id!r}, expected {expected!r}"


def _id_fields(record: Record) -> list[str]:
    """The eleven fields of an id; empty ones where there is none."""
    fields = [unquote(field) for field in (record.id or b"").decode().split(":")]
    return fields if len(fields) == _ID_FIELDS else [""] * _ID_FIELDS


@_check("partition")
def partitions(evidence: Evidence) -> Iterator[str]:
    """Records of inputs, outputs and changelogs that are not in the partition of their key."""
    due: dict[bytes, int] = {}
    for name, log in {"input": evidence.inputs, "output": evidence.outputs, **evidence.changelogs}.items():
        for record in log:
            if record.key not in due:
                due[record.key] = partition_of(record.key, evidence.partitions)
            if due[record.key] != record.partition:
                yield f"{record.key!r} in {name}[{record.partition}]@{record.offset}, not in {due[record.key]}"


@_check("aborted-read")
def vanished(evidence: Evidence) -> Iterator[str]:
    """Outputs that a reader of committed records saw during the run and that are missing in the end."""
    # Without the header, which says nothing about the place.
    there = {record[:4] for record in evidence.outputs}
    for record in evidence.watched:
        if record[:4] not in there:
            yield f"output[{record.partition}]@{record.offset} was read as {record.value!r}"


@_check("store")
def stores(evidence: Evidence) -> Iterator[str]:
    """Keys with another value in the local store than the changelog had at the store's own commit.

    That commit may be an earlier one: a container that was killed, and not started again before the job stopped, leaves
    its files as of their last write to the disk.
    """
    for name, dumps in (evidence.dumps or {}).items():
        committed_at = {number: as_of for number, (_, as_of) in enumerate(dumps)}
        log = [r for r in evidence.changelogs[name] if r.offset <= committed_at.get(r.partition, -1)]
        replayed = replay(log, evidence.partitions)
        for number, ((dump, _), due) in enumerate(zip(dumps, replayed, strict=True)):
            for key in sorted(dump.keys() | due.keys()):
                if dump.get(key) != due.get(key):
                    yield f"{name}[{number}] {key!r}: store {dump.get(key)!r}, changelog {due.get(key)!r}"


@_check("lag")
def lag(evidence: Evidence) -> Iterator[str]:
    """Input partitions with a committed offset short of their end."""
    reached = committed(evidence.checkpoints, evidence.input_stream)
    for number, end in evidence.ends.items():
        if reached.get(number) != end:
            yield f"input[{number}]: committed {reached.get(number)}, end {end}"


@_check("input")
def inputs(evidence: Evidence, written: int) -> Iterator[str]:
    """Inputs that are not in the log exactly once: no other check means anything then."""
    times = Counter(json.loads(record.value or b"{}")["id"] for record in evidence.inputs)
    for number in sorted({*range(written), *times}):
        if times[number] != 1:
            yield f"id {number} is {times[number]} times in the input"


def accounts(evidence: Evidence) -> dict[str, Account]:
    """The accounts, by key, out of the changelogs alone."""
    merged: dict[str, dict[str, bytes]] = {}
    for store in STORES:
        for contents in replay(evidence.changelogs[store], evidence.partitions):
            for key, value in contents.items():
                merged.setdefault(key.decode(), {})[store] = value
    return {key: _account(values) for key, values in merged.items()}


def _account(values: Mapping[str, bytes]) -> Account:
    decoded = {store: json.loads(value) for store, value in values.items()}
    chain = decoded.get("chain")
    return Account(
        decoded.get("sum"), decoded.get("count"), None if chain is None else Chain(chain[0], chain[1], tuple(chain[2]))
    )


@_check("state")
def state(evidence: Evidence, oracle: Oracle, guarantee: Guarantee) -> Iterator[str]:
    """Accounts that differ from the oracle's; in at-most-once, accounts that are not made of some of their deposits,
    each at most once, in order."""
    kept = accounts(evidence)
    for key in sorted(kept.keys() | oracle.open.keys()):
        account, due = kept.get(key, CLOSED), oracle.open.get(key, CLOSED)
        if guarantee is Guarantee.AT_MOST_ONCE:
            reason = _at_most_once(oracle.deposits.get(key, {}), account)
        else:
            reason = "" if account == due else f"{account}, the inputs make {due}"
        if reason:
            yield f"{key}: {reason}"


def _at_most_once(deposits: Mapping[int, int], kept: Account) -> str:
    """The reason why an account is wrong; empty if it is right."""
    if (kept.count or 0) > len(deposits) or (kept.sum or 0) > sum(deposits.values()):
        return f"{kept}, all deposits ever are {len(deposits)}, {sum(deposits.values())}"
    if kept.chain is None:
        return ""
    tail = kept.chain.tail
    if not deposits.keys() >= set(tail) or list(tail) != sorted(set(tail)):
        return f"{kept}, its ids are not deposits once each, in order"
    if kept.chain.length <= TAIL:
        again = Chain()
        for number in tail:
            again = again.link(number)
        if again != kept.chain:
            return f"{kept}, its ids make {again}"
    return ""
