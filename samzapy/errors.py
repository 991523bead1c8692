"""The errors of samzapy, one class for each reaction.

The class decides on the next step of the runtime or its operator. The attributes name the place:

==================== ============================================= =========
class                reaction                                      exit code
==================== ============================================= =========
ConfigError          fix the job file; nothing was started         2
EnvironmentFailure   fix the machine, the broker or the rights     3
RetriableError       the same call may succeed again               1
StoreCorrupted       set the local store aside, rebuild, restart   1
StoreLocked          wait for the holder; never delete the store   3
TaskMigrated         let go: another attempt owns the task         1
JobTakenOver         end for good: another run owns the job        1
TaskFailed           the user's code failed; restart from commit   1
JobFailed            the run was given up: see its last failure    its
ForeignRecords       find the other writer, or adopt its records   3
==================== ============================================= =========

Every message is one line and names the key or the ``stream[partition]@offset``, the value and the allowed values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone


@dataclass(frozen=True)
class FailedCall:
    """The call of the user's code that failed: the task's name, the call in words (`process of kafka.in[3]@17`), and
    its messages: the partition as text with the first and the last offset, None for a call without messages."""

    task: str
    where: str
    span: tuple[str, int, int] | None = None


class SamzapyError(Exception):
    """The root of all errors that samzapy raises.

    `call`: the call of the user's code that the error is about, if any. `outage`: a system did not answer, or could not
    serve the request at the moment. Waiting for it counts against no limit of failures.
    """

    exit_code = 1
    call: FailedCall | None = None
    outage = False

    def __init__(self, *message: object, outage: bool = False) -> None:
        super().__init__(*message)
        self.outage = outage or self.outage


@dataclass(frozen=True)
class ConfigProblem:
    """One problem of a job file: the key, its value (masked if secret, None if absent) and the expected value."""

    key: str
    value: str | None
    message: str

    def __str__(self) -> str:
        shown = "" if self.value is None else f", got {self.value!r}{'; # is no comment here' * (' #' in self.value)}"
        return f"{self.key}: {self.message}{shown}"


class ConfigError(SamzapyError):
    """Raised when a configuration is not valid. Carries all its problems."""

    exit_code = 2

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    @classmethod
    def of(cls, key: str, value: str | None, message: str) -> ConfigError:
        """The error with one problem."""
        return cls([ConfigProblem(key, value, message)])


def raise_if_any(problems: Iterable[ConfigProblem]) -> None:
    """Raise ConfigError with the problems, if there are any."""
    if result := tuple(problems):
        raise ConfigError(result)


@contextmanager
def noted(problems: list[ConfigProblem]) -> Iterator[None]:
    """Add the problems of a ConfigError in the block to `problems`, and go on after the block."""
    try:
        yield
    except ConfigError as error:
        problems.extend(error.problems)


class EnvironmentFailure(SamzapyError):
    """Raised when the environment lacks something: a broker, Java, a topic, a right, disk space."""

    exit_code = 3


class Unreachable(EnvironmentFailure):
    """Raised when a system does not answer within a call's time. It may answer later. `service` names it.

    `ask` asks it again, and raises Unreachable as long as it does not answer; None for a broker."""

    outage = True
    ask: Callable[[], object] | None = None
    service = "the broker"


class TooFewFiles(EnvironmentFailure):
    """Raised when a container needs more open files than its process may have. A restart does not help."""


class UnknownStream(EnvironmentFailure):
    """Raised when a stream does not exist on its system. samzapy never creates streams by accident.

    `store`: the stream is the changelog of this store. `own`: it is what this says. Only the job may create these.
    """

    def __init__(self, system: str, stream: str, where: str = "", store: str = "", own: str = "") -> None:
        self.system, self.stream = system, stream
        own = own or (store and f"the changelog of store '{store}'")
        at = f" ({where})" if where else ""
        command = f"create it with: samzapy topic create {system}.{stream} --partitions N"
        if own:
            way = f"it is {own}, and a start of the job creates it"
        elif not where and system in {"local", "kafka"}:
            way = f"name the job file with --job, if there is one, and {command}"
        else:
            # Without a job file the command would take this system for a local one.
            way = f"{command} --job JOB.properties"
        super().__init__(f"topic '{stream}' does not exist on system '{system}'{at}; {way}")


class InputDeleted(UnknownStream):
    """Raised when an input was deleted while the job read it. `committed`: the next offset of its partitions, by
    number; the message names eight of them."""

    def __init__(self, system: str, stream: str, committed: Mapping[int, int]) -> None:
        self.system, self.stream = system, stream
        named = [f"{system}.{stream}[{number}]@{offset}" for number, offset in sorted(committed.items())]
        shown = ", ".join(named[:8]) + (f" and {len(named) - 8:,} more" if len(named) > 8 else "")
        EnvironmentFailure.__init__(
            self,
            f"input '{system}.{stream}' was deleted while the job read it; committed are {shown}; take it out of "
            "task.inputs, or create it again and run the job once with samza.reset.offset=true",
        )


class UnknownPartition(UnknownStream):
    """Raised when a stream exists but has no such partition."""

    def __init__(self, system: str, stream: str, partition: int, partitions: int) -> None:
        self.system, self.stream = system, stream
        text = f"{system}.{stream}[{partition}]: the stream has partitions 0 to {partitions - 1}"
        EnvironmentFailure.__init__(self, text)


class OffsetOutOfRange(EnvironmentFailure):
    """Raised when a committed or requested offset is no longer, or not yet, in the log."""

    def __init__(self, ssp: object, offset: int, oldest: int, upcoming: int, repair: str = "") -> None:
        self.ssp, self.offset, self.oldest, self.upcoming = ssp, offset, oldest, upcoming
        fix = f"; {repair}" if repair else ""
        super().__init__(f"{ssp}@{offset}: the log holds offsets {oldest} to {upcoming} (exclusive){fix}")


LOST_RECORDS = "it has lost records that the job has processed (unclean.leader.election.enable?), or it is another log"
DELETED_RECORDS = "its records were deleted before they were read (retention?); the next start says how to go on"


class PositionVoid(EnvironmentFailure):
    """Raised when a position means nothing in its stream any more: the stream was deleted and created again, or it has
    lost records before the position.

    `place` is the stream or the partition. `ways` are the positions at which the job can go on, by what that does.
    """

    def __init__(self, place: object, reason: str, ways: Mapping[str, object], done: str = "") -> None:
        """`done`: what the job has processed, if that is known."""
        self.place, self.reason, self.ways = place, reason, ways
        after = f"; {done}" if done else ""
        for what, position in ways.items():
            after += f"; to {what}: samzapy startpoint set JOB.properties {position} --input '{place}'"
        super().__init__(f"{place}: {reason}{after}")

    @classmethod
    def made_anew(cls, stream: object, before: str, now: str) -> PositionVoid:
        """The error for a stream that was deleted and created again. `before`, `now`: its ids."""
        reason = f"it was deleted and created again (id {before}, now {now}), so the job's positions mean nothing in it"
        return cls(stream, reason, {"read the new one from its first record": "oldest"})

    @classmethod
    def beyond_end(cls, ssp: object, position: int, end: int) -> PositionVoid:
        """The error for a log that ends before the `position`, at the offset `end`."""
        reason = f"the committed offset is {position}, but the log ends at {end}: {LOST_RECORDS}"
        return cls(ssp, reason, {f"process what follows {end} from now on": end})

    @classmethod
    def diverged(cls, ssp: object, position: tuple[int, int], end: tuple[int, int]) -> PositionVoid:
        """The error for a log that has lost records before the `position`. `position`, `end`: the offset and the leader
        epoch of the position, and those of the end that the log has in that epoch."""
        reason = (
            f"the position is {position[0]} in leader epoch {position[1]}, but the log ends at {end[0]} in leader "
            f"epoch {end[1]}: it has lost records that the job has processed (unclean.leader.election.enable?), and "
            "others may have their offsets"
        )
        return cls(ssp, reason, {f"process what follows {end[0]} now": end[0], f"go on at {position[0]}": position[0]})

    def after(self, done: str) -> PositionVoid:
        """The same error, with what the job has processed."""
        return PositionVoid(self.place, self.reason, self.ways, done)


class RetriableError(SamzapyError):
    """Raised when a repetition of the call may succeed."""


class ProducerError(SamzapyError):
    """Raised when a record was not acknowledged. The producer is poisoned, and no later work may be committed."""


class RecordRefused(ProducerError):
    """Raised when a stream does not take a record, however often it is sent."""


class RecordTooLarge(RecordRefused):
    """Raised when a record is larger than its stream accepts, in a batch. `advice` names other possible causes."""

    BATCH_BYTES = 84  # the most that a batch of one record has besides its key, value and headers

    def __init__(self, where: str, size: int, limit: int | None, advice: str = "") -> None:
        limits = "of the stream or message.max.bytes of the producer"
        allowed = f" > max.message.bytes {limit:,} {limits}" if limit else f": larger than the system takes{advice}"
        in_batch = f", {size + self.BATCH_BYTES:,} B in a batch," if limit and size <= limit else ""
        super().__init__(f"{where}: record of {size:,} B{in_batch}{allowed}")


class ProducerFenced(ProducerError):
    """Raised when a newer producer with the same transactional id has taken over. Final for this producer."""


class TransactionIndeterminate(ProducerError):
    """Raised when a transactional call timed out. Its outcome is unknown, so the producer must be rebuilt."""


class TransactionAborted(ProducerError):
    """Raised when the transaction cannot be committed, but the producer can continue after an abort."""


class HandshakeFailed(EnvironmentFailure):
    """Raised when a system and a client refuse each other: a certificate, a login. A repetition does not help."""


class NotAuthorised(EnvironmentFailure):
    """Raised when a system refuses an operation for lack of a right. A repetition does not help."""


class TransactionsRefused(NotAuthorised):
    """Raised when a system refuses a transactional id."""


class StaleEpoch(RetriableError):
    """Raised when a sink outside the job's systems has seen a later epoch than this attempt's: `newest`."""

    def __init__(self, message: str, newest: int) -> None:
        self.newest = newest
        super().__init__(message)


class StateLost(EnvironmentFailure):
    """Raised when a changelog no longer has the state of a checkpoint. `lost` describes the loss. `way_out` is the
    remedy for a start of the job; other readers of the state have other remedies."""

    def __init__(self, lost: str, way_out: str = "") -> None:
        self.lost = lost
        super().__init__(f"{lost}; {way_out}" if way_out else lost)


class ForeignRecords(EnvironmentFailure):
    """Raised when a changelog partition (`ssp`) has records of another writer, which must not become state."""

    def __init__(self, message: str, ssp: object) -> None:
        self.ssp = ssp
        super().__init__(message)


class SerdeError(SamzapyError):
    """Raised when bytes do not decode or an object does not encode; the message names serde and cause.

    `store`: the store of the key or value, empty for a stream. `late`: the task put it at any time since its last
    commit, as objects are serialized in batches; else the current call. `refused`: nothing has changed by that call.
    """

    def __init__(self, message: str, *, store: str = "", late: bool = False, refused: bool = False) -> None:
        self.store, self.late, self.refused = store, late, refused
        super().__init__(message)


class StoreError(SamzapyError):
    """Raised when a store refuses a call: a None key, a closed store, a full disk."""


class StoreRefused(StoreError):
    """Raised when a store does not accept a key or a value (None, unhashable); nothing has changed."""


class StoreClosed(StoreError):
    """Raised when a store is used after its task has closed it."""


class StoreLocked(StoreError):
    """Raised when another process holds the store's directory; never a reason to delete it."""

    exit_code = 3


class StoreDiskFailed(StoreError):
    """Raised when the operating system refuses a store's files or folders: a full disk, a missing right, no folder."""

    exit_code = 3


class StoreCorrupted(StoreError):
    """Raised when a local store's files are damaged: set aside and rebuilt from the changelog."""


class RestoreError(SamzapyError):
    """Raised when a changelog cannot be read to its bound in time, or has invalid records."""


class RestoreStalled(RestoreError):
    """Raised when a changelog or a stream brings no records for too long; it may do so later."""


class TaskFailed(SamzapyError):
    """Raised when the user's code raised; the cause is chained and the message names the input's position."""


class JobFailed(SamzapyError):
    """Raised when the runner gives a job up. `exit_code` is the last failure's."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class TaskMigrated(SamzapyError):
    """Raised when this attempt must let go of its tasks: fenced, or its lease has run out."""


class JobTakenOver(TaskMigrated):
    """Raised when the job was started again elsewhere: the newest start owns it, and this run has to end."""

    @classmethod
    def by(cls, job: str, started_ms: int, host: str, pid: int) -> JobTakenOver:
        """The error for a take-over by that run, started at that time since 1970. `pid` 0: by a command on state."""
        started = datetime.fromtimestamp(started_ms / 1000, timezone.utc).isoformat(timespec="seconds")
        who, place = ("another run of", f"{host}, pid {pid}") if pid else ("a command that changes the state of", host)
        return cls(f"{who} job '{job}' (started at {started} on {place}) has taken over")


def counted(number: int, noun: str) -> str:
    """A number with its noun, as errors and reports have it: `1 commit`, `1,200 commits`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
