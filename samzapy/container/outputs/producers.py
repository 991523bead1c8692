"""The producers of a container. The guarantee chooses the producer of a record.

==================  =========================================  ======================================
guarantee           outputs                                    changelogs and checkpoints
==================  =========================================  ======================================
at-most-once        the container's producer                   the container's transaction
at-least-once       the container's producer                   the container's transaction
effectively-once    the container's producer, with ids         the container's transaction
exactly-once        the container's transaction                the container's transaction
==================  =========================================  ======================================

A container has one transactional producer, whatever the number of its tasks. Transactions carry the state if one system
has all changelogs and checkpoints of the job, and supports transactions. Then a successor that takes a container over
fences its predecessor, and state, changelog and checkpoint always agree. Otherwise changelogs and checkpoints go to the
container's producer as well, and each step of a commit waits for its records.

A transactional id is `<job name>-<job id>-<member>`: the member is the container's id, the same in every attempt and on
every host, or a word for a tool that writes state. No member contains a hyphen, nor does the job's key after its last
one, so no two jobs share an id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from samzapy.api.context import Counter, MetricsRegistry
from samzapy.api.stream import SystemStream
from samzapy.api.system import ColumnProducer, OutgoingColumns, OutgoingRecord, SystemProducer, send_columns
from samzapy.clock import Clock
from samzapy.config.guarantee_warnings import GUARANTEE, GuaranteeWarning
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.errors import ConfigError, ConfigProblem, RecordRefused, RecordTooLarge
from samzapy.system.clients import SystemClients, limits_of, traits_of


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


def state_transactions(job: JobConfig) -> StateTransactions:
    """The transactions that the job file and its systems allow. Raises ConfigError if the guarantee needs more."""
    problems = list(_obstacles(job))
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


def _obstacles(job: JobConfig) -> Iterator[ConfigProblem]:
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
    if not traits_of(job.systems[system]).transactional:
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


class ForwardingProducer(ColumnProducer):
    """Passes every call on; the base of producers that add something to some of them."""

    def __init__(self, producer: SystemProducer) -> None:
        self._producer = producer

    def send_columns(self, columns: OutgoingColumns) -> None:
        send_columns(self._producer, columns)

    def flush(self, timeout_s: float = 60.0) -> Mapping[tuple[str, int], int]:
        return self._producer.flush(timeout_s)

    def close(self) -> None:
        self._producer.close()

    def init_transactions(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> bool:
        return self._producer.begin()

    def commit(self) -> None:
        self._producer.commit()

    def abort(self) -> None:
        self._producer.abort()


class TransactionOnDemand(ForwardingProducer):
    """Begins with the first record after a commit or an abort, so an idle task holds no transaction open.

    A producer may have to take over from itself to begin. If a successor was started in between, that fences the
    successor. So `must_own` is called after the take-over: an attempt that is not the owner ends, and the successor
    restarts in place.
    """

    def __init__(self, producer: SystemProducer, must_own: Callable[[], object]) -> None:
        """`producer` was made with a transactional id. `must_own` raises when another attempt owns the tasks by now."""
        super().__init__(producer)
        self._must_own = must_own
        self._open = False

    def send_columns(self, columns: OutgoingColumns) -> None:
        self._begin()
        send_columns(self._producer, columns)

    def flush(self, timeout_s: float = 60.0) -> Mapping[tuple[str, int], int]:
        return self._producer.flush(timeout_s) if self._open else {}

    def begin(self) -> bool:
        self._begin()
        return False

    def commit(self) -> None:
        if self._open:
            self._producer.commit()
            self._open = False

    def abort(self) -> None:
        if self._open:
            self._producer.abort()
            self._open = False

    def _begin(self) -> None:
        if not self._open:
            if self._producer.begin():
                self._must_own()
            self._open = True


logger = logging.getLogger(__name__)

_MOST_FENCED_AT_ONCE = 32


def check_transaction_timeout(timeout_ms: int, clients: SystemClients, system: str | None) -> None:
    """Raise ConfigError if the system with the transactions of the state ends them before the job's `timeout_ms`."""
    limit = None if system is None else limits_of(clients.admin(system)).transaction_ms
    if limit is not None and timeout_ms > limit:
        message = f"must be at most {limit}, the transaction.max.timeout.ms of system '{system}'"
        raise ConfigError.of("task.transaction.timeout.ms", str(timeout_ms), message)


def fence(clients: SystemClients, system: str, transactional_ids: Iterable[str]) -> None:
    """Abort the open transactions of the ids and fence their producers; every client is closed at once.

    Raises TransactionsRefused where the system does not grant an id.
    """

    def fence_one(name: str) -> None:
        with clients.fencing(system, name) as producer:
            producer.init_transactions()

    with ThreadPoolExecutor(_MOST_FENCED_AT_ONCE, thread_name_prefix="samzapy-fence") as pool:
        list(pool.map(fence_one, dict.fromkeys(transactional_ids)))


class TaskProducers:
    """The producers of one container: for its tasks' outputs, and for their state."""

    def __init__(
        self,
        clients: SystemClients,
        metrics: MetricsRegistry,
        system: str | None,
        transactional_id: str,
        *,
        outputs_inside: bool,
        inside: Collection[SystemStream] = (),
    ) -> None:
        """`system`: the system whose transactions carry the state, None for none; `outputs_inside`: outputs to it join
        the transactions. `inside`: the streams that do in any case. `metrics` count the outputs outside of
        transactions."""
        self._inside = [item.stream for item in inside if item.system == system]
        self._metrics = metrics
        self._clients = clients
        #: The system with the transactions that carry the state.
        self.system = system
        self._id = transactional_id
        self._outputs_inside = outputs_inside
        self._outside: dict[str, SystemProducer] = {}
        #: The container's transaction, None where none carries the state.
        self.transaction: TransactionOnDemand | None = None

    def take_over(self, must_own: Callable[[], object]) -> None:
        """Abort the transaction that the container's predecessor left open, and fence it. `must_own` raises when
        another attempt owns the container by now; it is asked when the producer has taken over from itself."""
        if self.system is not None:
            self.transaction = TransactionOnDemand(self._clients.transactional(self.system, self._id), must_own)
            self.transaction.init_transactions()

    def state(self, system: str) -> SystemProducer:
        if self.transaction is not None and system == self.system:
            return self.transaction
        return self._clients.producer(system)

    def outputs(self, system: str) -> SystemProducer:
        if self.transaction is not None and self._outputs_inside:
            return self.transaction if system == self.system else self._outside_producer(system)
        producer = self._clients.producer(system)
        splits = self._inside and system == self.system
        return SplitProducer(producer, self.state(system), self._inside) if splits else producer

    def _outside_producer(self, system: str) -> SystemProducer:
        if system not in self._outside:
            logger.warning(
                "Outputs to system '%s' are outside the transaction on '%s': they are at-least-once",
                system,
                self.system,
            )
            counter = self._metrics.counter(GUARANTEE, "outside-transaction")
            self._outside[system] = CountingProducer(self._clients.producer(system), counter)
        return self._outside[system]


class SplitProducer(ForwardingProducer):
    """Sends to the `inside` streams in the container's transaction, and elsewhere with another producer."""

    def __init__(self, producer: SystemProducer, transaction: SystemProducer, inside: Collection[str]) -> None:
        super().__init__(producer)
        self._transaction = transaction
        self._inside = frozenset(inside)

    def send_columns(self, columns: OutgoingColumns) -> None:
        send_columns(self._transaction if columns.stream in self._inside else self._producer, columns)


class CountingProducer(ForwardingProducer):
    """Counts the records that it passes on. For outputs outside of the transaction."""

    def __init__(self, producer: SystemProducer, counter: Counter) -> None:
        super().__init__(producer)
        self._counter = counter

    def send_columns(self, columns: OutgoingColumns) -> None:
        super().send_columns(columns)
        self._counter.count += columns.size


class RecordLimit(NamedTuple):
    """What a stream takes: records of `record_bytes` at most, with a key if `keyed`, and with time stamps from
    `before_ms` before now to `after_ms` after it. None: no limit."""

    record_bytes: int | None
    keyed: bool
    before_ms: int | None
    after_ms: int | None

    def refusal(self, stream: SystemStream, record: OutgoingRecord, clock: Clock) -> RecordRefused | None:
        """The error for a record that the stream would refuse, None for one that it takes."""
        size = size_of(record)
        if self.record_bytes is not None and size + RecordTooLarge.BATCH_BYTES > self.record_bytes:
            return RecordTooLarge(str(stream), size, self.record_bytes)
        if self.keyed and record.key is None:
            return RecordRefused(f"{stream}: a record of a compacted stream needs a key, got None")
        if record.timestamp is None:
            return None
        ahead_ms = record.timestamp - clock.wall_ms()
        for which, limit_ms, distance_ms in (("before", self.before_ms, -ahead_ms), ("after", self.after_ms, ahead_ms)):
            if limit_ms is not None and distance_ms > limit_ms:
                allowed = f"{distance_ms:,} ms {which} now > message.timestamp.{which}.max.ms {limit_ms:,}"
                return RecordRefused(f"{stream}: record with the time stamp {record.timestamp}, {allowed}")
        return None


def record_limit(clients: SystemClients, stream: SystemStream) -> RecordLimit:
    """What a stream takes; asks the system.

    The largest record is the smaller of the limits of the producer and of the stream, or of the system where the stream
    does not exist. If the producer compresses, only its own limit is one of records as they are here: the other is for
    compressed batches.
    """
    traits, admin = clients.traits(stream.system), clients.admin(stream.system)
    description = admin.describe(stream.stream)
    settings = {} if description is None else description.config

    def whole(name: str) -> int | None:
        text = settings.get(name, "")
        return int(text) if text.isdigit() else None

    least = traits.max_record_bytes
    if not traits.compresses:
        own = whole("max.message.bytes") if settings else limits_of(admin).record_bytes
        least = min((limit for limit in (least, own) if limit is not None), default=None)
    keyed = "compact" in settings.get("cleanup.policy", "")
    if settings.get("message.timestamp.type") == "LogAppendTime":  # the broker's own time counts
        return RecordLimit(least, keyed, None, None)
    return RecordLimit(least, keyed, *(whole(f"message.timestamp.{which}.max.ms") for which in ("before", "after")))


def size_of(record: OutgoingRecord | OutgoingColumns) -> int:
    """The bytes of the keys, values and headers of a record or of columns."""
    if isinstance(record, OutgoingColumns):
        return sum(map(size_of, record.records()))
    size = len(record.key or b"") + len(record.value or b"")
    return size + sum(len(name.encode()) + len(held or b"") for name, held in record.headers or ())
