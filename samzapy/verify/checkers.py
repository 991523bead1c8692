"""Pure functions from evidence to findings: each looks for one thing, counts it, and keeps the first example.

A finding is a fact; `promises` decides whether it breaks a promise. Sums and state are the exception, because the
guarantee changes the right answer: at-most-once may fall short, and at-least-once may exceed it where no transaction
carries the state.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from samzapy.config.task import Guarantee
from samzapy.verify.evidence import Account, Evidence, Oracle, Record, committed, replay
from samzapy.verify.workload import STORES, TAIL, Chain, partition_of

#: The number of fields of the header `samzapy-id`.
_ID_FIELDS = 11


@dataclass(frozen=True)
class Finding:
    """A check, the number of its findings, and its first example in words."""

    check: str
    count: int = 0
    example: str = ""

    def __str__(self) -> str:
        return f"{self.check}: {self.count:,}, first: {self.example}"


def found(check: str, examples: Iterable[str]) -> Finding:
    """Count the examples, keep the first."""
    found_examples = list(examples)
    return Finding(check, len(found_examples), found_examples[0] if found_examples else "")


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
    found_echoes = []
    for record in outputs:
        value = json.loads(record.value or b"{}")
        found_echoes.append(Echo(record, value["id"], value["sum"], value["count"]))
    return found_echoes


def loss(oracle: Oracle, echoes: Sequence[Echo]) -> Finding:
    """Inputs without an output."""
    missing = oracle.applied.keys() - {echo.id for echo in echoes}
    return found("loss", (f"input id {number} has no output" for number in sorted(missing)))


def duplicates(echoes: Sequence[Echo]) -> Finding:
    """Outputs beyond the first of an input."""
    times = Counter(echo.id for echo in echoes)
    extra = sum(times.values()) - len(times)
    example = next((f"id {number} came {n} times" for number, n in times.items() if n > 1), "")
    return Finding("duplicates", extra, example)


def order(echoes: Sequence[Echo]) -> Finding:
    """First outputs of a key that come after one of a later input of that key."""

    def late() -> Iterator[str]:
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

    return found("order", late())


def echo_keys(oracle: Oracle, echoes: Sequence[Echo]) -> Finding:
    """Outputs of inputs that never were, or under another key than their input's."""
    return found(
        "echo",
        (
            f"{echo} under {echo.record.key!r}"
            for echo in echoes
            if echo.id not in oracle.applied or oracle.applied[echo.id].key != echo.record.key
        ),
    )


def running_sums(oracle: Oracle, echoes: Sequence[Echo], guarantee: Guarantee, *, transactions: bool = True) -> Finding:
    """Sums and counts in outputs that differ from the fold of the inputs before them. A repeated output has the same.

    At-most-once may not exceed all deposits so far, because a closing may be lost, too. At-least-once may exceed the
    oracle without `transactions`.
    """

    def wrong() -> Iterator[str]:
        for echo in echoes:
            due = oracle.applied.get(echo.id)
            if due is None:
                continue
            if guarantee is Guarantee.AT_MOST_ONCE:
                right = echo.sum <= due.most_sum and echo.count <= due.most_count
            elif guarantee is Guarantee.AT_LEAST_ONCE and not transactions:
                right = echo.sum >= due.sum and echo.count >= due.count
            else:
                right = (echo.sum, echo.count) == (due.sum, due.count)
            if not right:
                yield f"{echo}: sum {echo.sum}, count {echo.count}; the inputs make {due.sum}, {due.count}"

    return found("running-sum", wrong())


def output_ids(evidence: Evidence, oracle: Oracle, echoes: Sequence[Echo]) -> Finding:
    """Outputs with an id header that names another input or another sender: a receiver could not drop their
    repetitions."""

    def wrong() -> Iterator[str]:
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

    return found("output-id", wrong())


def _id_fields(record: Record) -> list[str]:
    """The eleven fields of an id; empty ones where there is none."""
    fields = [unquote(field) for field in (record.id or b"").decode().split(":")]
    return fields if len(fields) == _ID_FIELDS else [""] * _ID_FIELDS


def partitions(evidence: Evidence) -> Finding:
    """Records of inputs, outputs and changelogs that are not in the partition of their key."""
    count = evidence.partitions
    logs = {"input": evidence.inputs, "output": evidence.outputs, **evidence.changelogs}
    due: dict[bytes, int] = {}

    def misplaced() -> Iterator[str]:
        for name, log in logs.items():
            for record in log:
                if record.key not in due:
                    due[record.key] = partition_of(record.key, count)
                if due[record.key] != record.partition:
                    yield f"{record.key!r} in {name}[{record.partition}]@{record.offset}, not in {due[record.key]}"

    return found("partition", misplaced())


def vanished(evidence: Evidence) -> Finding:
    """Outputs that a reader of committed records saw during the run and that are missing in the end."""
    there = {(record.partition, record.offset, record.key, record.value) for record in evidence.outputs}
    return found(
        "aborted-read",
        (
            f"output[{record.partition}]@{record.offset} was read as {record.value!r}"
            for record in evidence.watched
            if (record.partition, record.offset, record.key, record.value) not in there
        ),
    )


def stores(evidence: Evidence) -> Finding:
    """Keys with another value in the local store than the changelog had at the store's own commit.

    That commit may be an earlier one: a container that was killed, and not started again before the job stopped, leaves
    its files as of their last write to the disk.
    """

    def different() -> Iterator[str]:
        for name, dumps in (evidence.dumps or {}).items():
            committed_at = {number: as_of for number, (_, as_of) in enumerate(dumps)}
            log = [r for r in evidence.changelogs[name] if r.offset <= committed_at.get(r.partition, -1)]
            replayed = replay(log, evidence.partitions)
            for number, ((dump, _), due) in enumerate(zip(dumps, replayed, strict=True)):
                for key in sorted(dump.keys() | due.keys()):
                    if dump.get(key) != due.get(key):
                        yield f"{name}[{number}] {key!r}: store {dump.get(key)!r}, changelog {due.get(key)!r}"

    return found("store", different())


def lag(evidence: Evidence) -> Finding:
    """Input partitions with a committed offset short of their end."""
    reached = committed(evidence.checkpoints, evidence.input_stream)
    return found(
        "lag",
        (
            f"input[{number}]: committed {reached.get(number)}, end {end}"
            for number, end in evidence.ends.items()
            if reached.get(number) != end
        ),
    )


def inputs(evidence: Evidence, written: int) -> Finding:
    """Inputs that are not in the log exactly once: no other check means anything then."""
    times = Counter(json.loads(record.value or b"{}")["id"] for record in evidence.inputs)
    return found(
        "input",
        (f"id {n} is {times[n]} times in the input" for n in sorted({*range(written), *times}) if times[n] != 1),
    )


@dataclass(frozen=True)
class Kept:
    """An account as the stores have it; None where a store has no entry."""

    sum: int | None
    count: int | None
    chain: Chain | None


NOTHING = Kept(None, None, None)

#: Says why a kept account is wrong; None if it is right.
Rule = Callable[[str, Kept], "str | None"]


def accounts(evidence: Evidence) -> dict[str, Kept]:
    """The accounts, by key, out of the changelogs alone."""
    merged: dict[str, dict[str, bytes]] = {}
    for store in STORES:
        for part in replay(evidence.changelogs[store], evidence.partitions):
            for key, value in part.items():
                merged.setdefault(key.decode(), {})[store] = value
    return {key: _kept(values) for key, values in merged.items()}


def state(
    evidence: Evidence, oracle: Oracle, echoes: Sequence[Echo], guarantee: Guarantee, *, transactions: bool = True
) -> Finding:
    """Accounts that the guarantee does not allow.

    exactly-once, effectively-once, at-least-once: equal to the oracle's. at-least-once without `transactions`: open
    exactly if the oracle's is, ending in the same deposit, with no less than the oracle and no more than was echoed
    since it was opened. at-most-once: made of some of its deposits, each at most once, in order.
    """
    kept = accounts(evidence)
    rule = _rule(oracle, echoes, guarantee, transactions=transactions)

    def wrong() -> Iterator[str]:
        for key in sorted(kept.keys() | oracle.open.keys()):
            reason = rule(key, kept.get(key, NOTHING))
            if reason is not None:
                yield f"{key}: {reason}"

    return found("state", wrong())


def _kept(values: Mapping[str, bytes]) -> Kept:
    decoded = {store: json.loads(value) for store, value in values.items()}
    chain = decoded.get("chain")
    return Kept(
        decoded.get("sum"), decoded.get("count"), None if chain is None else Chain(chain[0], chain[1], tuple(chain[2]))
    )


def _rule(oracle: Oracle, echoes: Sequence[Echo], guarantee: Guarantee, *, transactions: bool) -> Rule:
    if guarantee is Guarantee.AT_MOST_ONCE:
        return lambda key, kept: _at_most_once(oracle.deposits.get(key, {}), kept)
    if guarantee is Guarantee.AT_LEAST_ONCE and not transactions:
        times = Counter(echo.id for echo in echoes)
        return lambda key, kept: _at_least_once(oracle.open.get(key), kept, times, oracle.deposits.get(key, {}))
    return lambda key, kept: _exact(oracle.open.get(key), kept)


def _exact(account: Account | None, kept: Kept) -> str | None:
    due = NOTHING if account is None else Kept(account.sum, account.count, account.chain)
    return None if kept == due else f"{kept}, the inputs make {due}"


def _at_least_once(account: Account | None, kept: Kept, times: Counter[int], made: Mapping[int, int]) -> str | None:
    if account is None:
        return None if kept == NOTHING else f"{kept}, but its last input closed it"
    if kept.sum is None or kept.count is None or kept.chain is None:
        return f"{kept}, the inputs make a sum of {account.sum}"
    most_count = sum(times[number] for number in account.ids)
    most_sum = sum(times[number] * made[number] for number in account.ids)
    if not account.count <= kept.count <= most_count or not account.count <= kept.chain.length <= most_count:
        return f"{kept}, must be between {account.count} and {most_count} deposits"
    if not account.sum <= kept.sum <= most_sum:
        return f"{kept}, the sum must be between {account.sum} and {most_sum}"
    if kept.chain.tail[-1] != account.ids[-1]:
        return f"{kept}, its last deposit was id {account.ids[-1]}"
    return None


def _at_most_once(made: Mapping[int, int], kept: Kept) -> str | None:
    if (kept.count or 0) > len(made) or (kept.sum or 0) > sum(made.values()):
        return f"{kept}, all deposits ever are {len(made)}, {sum(made.values())}"
    if kept.chain is None:
        return None
    tail = kept.chain.tail
    if not made.keys() >= set(tail) or list(tail) != sorted(set(tail)):
        return f"{kept}, its ids are not deposits once each, in order"
    if kept.chain.length <= TAIL:
        again = Chain()
        for number in tail:
            again = again.link(number)
        if again != kept.chain:
            return f"{kept}, its ids make {again}"
    return None
