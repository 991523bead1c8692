"""Chooses the transactions that carry a job's state, and their transactional ids.

If one system has all changelogs and checkpoints of a job, and supports transactions, each container writes them in one
transaction. Then a successor that takes a container over fences its predecessor, and state, changelog and checkpoint
always agree. `task.guarantee` affects outputs and positions, not these transactions.

A transactional id is `<job name>-<job id>-<member>`: the member is the container's id, the same in every attempt and on
every host, or a word for a tool that writes state. No member contains a hyphen, nor does the job's key after its last
one, so no two jobs share an id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from samzapy.api.system import SystemSettings
from samzapy.config.guarantee_warnings import GuaranteeWarning
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.errors import ConfigError, ConfigProblem


def transactional_id(job_key: str, member: str) -> str:
    """The id under which a member of the job writes state."""
    if "-" in member:
        raise ValueError(f"a member of job {job_key} must not contain a hyphen: {member!r}")
    return f"{job_key}-{member}"


@dataclass(frozen=True)
class StateTransactions:
    """`system`: its transactions carry the job's state. None: no transactions do, for the `reason` at `key`."""

    system: str | None
    key: str = ""
    reason: str = ""


def state_transactions(job: JobConfig, has_transactions: Callable[[SystemSettings], bool]) -> StateTransactions:
    """The transactions that the job file and its systems allow. Raises ConfigError if the guarantee needs more."""
    problems = list(_obstacles(job, has_transactions))
    system = job.task.checkpoint.system if job.task.checkpoint else None
    if not problems:
        return StateTransactions(system)
    if job.task.guarantee.transactional:
        raise ConfigError(problems)
    first = problems[0]
    return StateTransactions(None, first.key, first.message)


def refused(system: str, detail: str) -> StateTransactions:
    """No transactions, since the system refuses the transactional ids."""
    return StateTransactions(None, f"systems.{system}.samza.factory", detail)


def weakened_state(stores: Mapping[str, StoreConfig], state: StateTransactions) -> tuple[GuaranteeWarning, ...]:
    """The warning for a job that keeps state without a transaction; empty for any other job."""
    if state.system is not None or not any(store.changelog for store in stores.values()):
        return ()
    message = (
        f"{state.reason or 'no transactions'}: changelogs and checkpoints are not one transaction, so state may hold "
        "inputs twice, and may go back while two runs overlap"
    )
    return (GuaranteeWarning(state.key, message),)


def _obstacles(job: JobConfig, has_transactions: Callable[[SystemSettings], bool]) -> Iterator[ConfigProblem]:
    needs = f"{job.task.guarantee.value} needs " if job.task.guarantee.transactional else ""
    if not job.task.state_transactions:
        yield ConfigProblem("task.state.transactions", "false", f"{needs}transactions")
        return
    kept = job.task.checkpoint
    system = kept.system if kept else None
    if kept is None or system is None:
        message = f"{needs}checkpoints in a topic, which can be part of a transaction"
        yield ConfigProblem("task.checkpoint.factory", None, message)
        return
    if not has_transactions(job.systems[system]):
        message = f"{needs}a system with transactions for checkpoints, '{system}' has none"
        yield ConfigProblem("task.checkpoint.system", system, message)
    for store in job.stores.values():
        if store.changelog is not None and store.changelog.system != system:
            message = f"{needs}every changelog on system '{system}', where the checkpoints are"
            yield ConfigProblem(f"stores.{store.name}.changelog", str(store.changelog), message)
    letters = job.task.errors.dead_letters
    if job.task.guarantee.outputs_in_transaction and letters is not None and letters.system != system:
        message = f"{needs}dead letters on system '{system}', where the checkpoints are"
        yield ConfigProblem("task.dead.letter.stream", str(letters), message)
