"""The promise table, and the verdict on a run.

================ ======= ============================= =====================================
guarantee        loss    repeated outputs              state
================ ======= ============================= =====================================
at-most-once     some    none                          some deposits, each at most once
at-least-once    none    some                          equals the fold of the inputs
effectively-once none    under the same id only        equals the fold of the inputs
exactly-once     none    none                          equals the fold of the inputs
================ ======= ============================= =====================================

Where no transaction carries the state, at-least-once may hold more than the inputs make, and no less.

Everything else is a violation under every guarantee: another order within a key, another key or partition, a local store
that is not its changelog, a committed output that vanishes, an input that is not committed in the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.config.guarantee import Guarantee
from samzapy.verify import checkers
from samzapy.verify.checkers import Finding, state
from samzapy.verify.evidence import Evidence, fold

ALLOWED = {
    Guarantee.AT_MOST_ONCE: {"loss"},
    Guarantee.AT_LEAST_ONCE: {"duplicates"},
    Guarantee.EFFECTIVELY_ONCE: {"duplicates"},
    Guarantee.EXACTLY_ONCE: set[str](),
}
_COUNTED_APART = {"loss", "duplicates", "order"}


@dataclass(frozen=True)
class Verdict:
    """The findings with a count above 0, and those that break the guarantee."""

    guarantee: Guarantee
    findings: tuple[Finding, ...]

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that the guarantee does not allow."""
        return tuple(finding for finding in self.findings if finding.check not in ALLOWED[self.guarantee])

    def count(self, check: str) -> int:
        """How often a check found something."""
        return sum(finding.count for finding in self.findings if finding.check == check)

    @property
    def mismatches(self) -> int:
        """The count of all other findings than losses, repetitions and changes of order."""
        return sum(finding.count for finding in self.findings if finding.check not in _COUNTED_APART)


def judge(evidence: Evidence, guarantee: Guarantee, written: int, *, transactions: bool = True) -> Verdict:
    """Run every check over the evidence of a run to which `written` events were given. `transactions`: whether they carry
    the job's state."""
    oracle = fold(evidence.inputs)
    echoes = checkers.echoes_of(evidence.outputs)
    findings = [
        checkers.inputs(evidence, written),
        checkers.loss(oracle, echoes),
        checkers.duplicates(echoes),
        checkers.order(echoes),
        checkers.echo_keys(oracle, echoes),
        checkers.running_sums(oracle, echoes, guarantee, transactions=transactions),
        checkers.partitions(evidence),
        checkers.vanished(evidence),
        checkers.stores(evidence),
        state(evidence, oracle, echoes, guarantee, transactions=transactions),
        checkers.lag(evidence),
    ]
    if guarantee is Guarantee.EFFECTIVELY_ONCE:
        findings.append(checkers.output_ids(evidence, oracle, echoes))
    return Verdict(guarantee, tuple(finding for finding in findings if finding.count))
