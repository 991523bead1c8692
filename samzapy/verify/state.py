"""The accounts in the changelogs against the oracle's, each guarantee by its own rule."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from samzapy.config.guarantee import Guarantee
from samzapy.verify.checkers import Echo, Finding, found
from samzapy.verify.evidence import Evidence, replay
from samzapy.verify.oracle import Account, Oracle
from samzapy.verify.workload import STORES, TAIL, Chain


@dataclass(frozen=True)
class Kept:
    """What the stores say about an account; None where a store has nothing."""

    sum: int | None
    count: int | None
    chain: Chain | None


NOTHING = Kept(None, None, None)

#: Says what is wrong with what is kept of an account; None if nothing is.
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
    """Accounts that are not what the guarantee allows.

    exactly-once, effectively-once, at-least-once: equal to the oracle's. at-least-once without `transactions`: open
    exactly if the oracle's is, ending in the same deposit, with no less than the oracle and no more than was echoed since
    it was opened. at-most-once: made of some of its deposits, each at most once, in order.
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
