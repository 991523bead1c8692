"""What a guarantee means for a container: which producer a task's records go to, and which protocol commits them.

==================  ===============================  ===============================
guarantee           outputs                          changelog and checkpoint
==================  ===============================  ===============================
at-most-once        the container's producer         the container's producer
at-least-once       the container's producer         the container's producer
effectively-once    the container's producer, ids    the task's transaction
exactly-once        the task's transaction           the task's transaction
==================  ===============================  ===============================
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from samzapy.api.system import SystemProducer
from samzapy.config.guarantee import Guarantee
from samzapy.config.job import JobConfig
from samzapy.container.clients import SystemClients
from samzapy.container.commit.at_least_once import AtLeastOnce
from samzapy.container.commit.at_most_once import AtMostOnce
from samzapy.container.commit.exactly_once import EffectivelyOnce, ExactlyOnce
from samzapy.container.commit.protocol import CommitProtocol, CommitSettings
from samzapy.container.transaction import TransactionOnDemand
from samzapy.errors import ConfigError, ConfigProblem

logger = logging.getLogger(__name__)

_TRANSACTIONAL = {Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE}
_MOST_TAKEOVERS_AT_ONCE = 8


def transactional_id(job: JobConfig, task_name: str) -> str:
    """The id that fences a task's predecessors: the same for every attempt, host and container count."""
    return f"{job.name}-{job.id}-{task_name}"


def transaction_system(job: JobConfig) -> str | None:
    """The system whose transactions carry the job's guarantee, None for a guarantee without transactions.

    Checkpoints and changelogs must all be there, since no transaction spans two systems. Raises ConfigError.
    """
    guarantee = job.task.guarantee
    if guarantee not in _TRANSACTIONAL:
        return None
    system = job.task.checkpoint.system if job.task.checkpoint else None
    if system is None:
        message = f"{guarantee.value} needs checkpoints in a topic, which can be part of a transaction"
        raise ConfigError([ConfigProblem("task.checkpoint.factory", None, message)])
    elsewhere = [
        ConfigProblem(
            f"stores.{store.name}.changelog",
            str(store.changelog),
            f"{guarantee.value} needs every changelog on system '{system}', where the checkpoints are",
        )
        for store in job.stores.values()
        if store.changelog is not None and store.changelog.system != system
    ]
    letters = job.task.errors.dead_letters
    if guarantee is Guarantee.EXACTLY_ONCE and letters is not None and letters.system != system:
        message = f"exactly-once needs dead letters on system '{system}', where the checkpoints are"
        elsewhere.append(ConfigProblem("task.dead.letter.stream", str(letters), message))
    if elsewhere:
        raise ConfigError(elsewhere)
    return system


def check_transaction_timeout(job: JobConfig, clients: SystemClients) -> None:
    """Raise ConfigError if the system ends transactions sooner than the job asks for."""
    system = transaction_system(job)
    limit = None if system is None else clients.admin(system).longest_transaction_ms()
    timeout_ms = job.task.transaction_timeout_ms
    if limit is not None and timeout_ms > limit:
        message = f"must be at most {limit}, the transaction.max.timeout.ms of system '{system}'"
        raise ConfigError([ConfigProblem("task.transaction.timeout.ms", str(timeout_ms), message)])


class Delivery:
    """The producers and the protocol of one container."""

    def __init__(self, job: JobConfig, clients: SystemClients) -> None:
        self._job = job
        self._clients = clients
        self._system = transaction_system(job)
        self._transactions: dict[str, TransactionOnDemand] = {}

    def take_over(self, task_names: Iterable[str]) -> None:
        """Abort what predecessors of the tasks left open and refuse what they still try; side by side, as each waits."""
        system = self._system
        if system is None:
            return
        self._transactions = {
            name: TransactionOnDemand(self._clients.transactional(system, transactional_id(self._job, name)))
            for name in task_names
        }
        with ThreadPoolExecutor(_MOST_TAKEOVERS_AT_ONCE, thread_name_prefix="samzapy-takeover") as pool:
            list(pool.map(TransactionOnDemand.init_transactions, self._transactions.values()))

    def state_producer(self, task_name: str) -> Callable[[str], SystemProducer]:
        """The producers of a task's changelogs and checkpoint, by system."""
        if self._system is None:
            return self._clients.producer
        return self._in_transaction(self._transactions[task_name])

    def output_producer(self, task_name: str) -> Callable[[str], SystemProducer]:
        """The producers of a task's outputs, by system."""
        if self._job.task.guarantee is Guarantee.EXACTLY_ONCE:
            return self._in_transaction(self._transactions[task_name])
        return self._clients.producer

    def protocol(self, settings: CommitSettings) -> CommitProtocol:
        """The commit protocol of the guarantee."""
        guarantee = self._job.task.guarantee
        if guarantee is Guarantee.AT_MOST_ONCE:
            return AtMostOnce(settings)
        if self._system is None:
            return AtLeastOnce(settings)
        return (ExactlyOnce if guarantee is Guarantee.EXACTLY_ONCE else EffectivelyOnce)(settings, self._system)

    def _in_transaction(self, transaction: TransactionOnDemand) -> Callable[[str], SystemProducer]:
        def producer_of(system: str) -> SystemProducer:
            return transaction if system == self._system else self._outside(system)

        return producer_of

    def _outside(self, system: str) -> SystemProducer:
        logger.warning(
            "Outputs to system '%s' are outside the transaction on '%s': they are at-least-once.", system, self._system
        )
        return self._clients.producer(system)
