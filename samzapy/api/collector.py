"""The collector, the coordinator and the sinks of a task: it sends outputs and control messages, writes to other
stores, and requests commits and stops.

Control messages go from the tasks of one stage of a pipeline to the tasks of the next, between the messages of an
intermediate stream:

1. A task sends one with `collector.send_control(stream, message)`. It goes to every partition of the stream, behind
   everything that the task has sent before.
2. The reading task never gets it in `process`. The container combines the messages of all senders of a partition: the
   lowest watermark counts, and the partition has ended when all of its senders have ended.
3. A stream is intermediate if `streams.ID.samza.intermediate` is true. The sending and the reading job must both set
   it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import repeat
from typing import Any, TypeAlias

from samzapy.api.envelope import Headers, IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition

#: The header that distinguishes control messages from messages of the user.
CONTROL_HEADER = "samzapy-control"


@dataclass(frozen=True)
class Watermark:
    """The sender will send nothing more with an event time before `time_ms`, milliseconds since 1970."""

    time_ms: int


@dataclass(frozen=True)
class EndOfStream:
    """The sender will send nothing more in this run; another run may send again."""


@dataclass(frozen=True)
class Drain:
    """The sender is drained: it sends nothing more until it is started again."""


ControlMessage: TypeAlias = Watermark | EndOfStream | Drain


class MessageCollector(ABC):
    """Takes the outputs of one task; valid only during the call that got it."""

    @property
    def undecided(self) -> bool:
        """Whether this call is undone when it returns, and made again with fewer messages: an output failed, and which
        message it came from is unknown. A task that keeps state outside of stores undoes its change, too."""
        return False

    @abstractmethod
    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        """Serialize and queue one output. The task's next commit waits for its acknowledgement.

        Raises SerdeError if key or message do not serialize, RecordTooLarge if the system refuses the size.
        """

    def send_message(self, stream: SystemStream, message: Any, key: Any = None) -> None:
        """Like `send(OutgoingMessageEnvelope(stream, message, key))`, without an envelope."""
        self.send(OutgoingMessageEnvelope(stream, message, key))

    def send_batch(
        self,
        stream: SystemStream,
        keys: Sequence[Any] | None,
        messages: Sequence[Any],
        *,
        partition_keys: Sequence[Any] | None = None,
        timestamps: Sequence[int | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        inputs: Sequence[int] | None = None,
    ) -> None:
        """Send one output for each message, in order, as `send` does; columns are serialized as a whole.

        1. The columns have the length of `messages`. A column of None, or a None in it, has the same meaning as in an
           OutgoingMessageEnvelope.
        2. `inputs` are the offsets in the batch at hand that the outputs come from; one may occur several times.
           Effectively-once makes ids of them, and then outputs leave in the order of their inputs.

        Raises as `send` does, naming the output by its index, and ValueError for columns of other lengths.
        """
        for keyed in columns_of(keys, messages, partition_keys, headers, timestamps, inputs):
            key, message, partition_key, carried, timestamp, _ = keyed
            self.send(OutgoingMessageEnvelope(stream, message, key, partition_key, carried, timestamp))

    def send_arrow(
        self,
        stream: SystemStream,
        table: Any,
        *,
        key: str | None = None,
        message: str | None = None,
        timestamp: str | None = None,
        inputs: str | None = None,
    ) -> None:
        """Like `send_batch`, for the rows of a pyarrow Table or RecordBatch, or of a DataFrame of pandas or polars.
        `key`, `message`, `timestamp` and `inputs` name columns. The named levels of a pandas index count as columns,
        unless a column or a later level has the name.

        Without `message` a message is the dict of its row, the key included, without the columns `timestamp` and
        `inputs`. Needs `samzapy[arrow]`. Raises as `send_batch` does, KeyError for a column that the table does not
        have, and ValueError, without `message`, for two columns of one name.
        """
        from samzapy.arrow.columns import rows_of  # noqa: PLC0415  # it needs an extra

        rows = rows_of(table, key=key, message=message, timestamp=timestamp, inputs=inputs)
        self.send_batch(stream, rows.keys, rows.messages, timestamps=rows.timestamps, inputs=rows.inputs)

    def from_input(self, offset: int) -> MessageCollector:
        """The collector for code that sends envelopes while a batch is processed: its outputs come from the input at
        `offset`, as with `inputs`. Where nothing asks for inputs it is this collector itself. Valid as long as this
        one."""
        return self

    @abstractmethod
    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        """Queue a control message to every partition of an intermediate stream, behind all earlier outputs.

        Raises ConfigError for a stream that is not declared intermediate, and UnknownStream.
        """


def columns_of(keys: Sequence[Any] | None, messages: Sequence[Any], *others: Sequence[Any] | None) -> Iterator[Any]:
    """Rows of the columns of a `send_batch`, None for each absent column. Raises ValueError for other lengths."""
    columns = (keys, messages, *others)
    for column in columns:
        if column is not None and not hasattr(column, "__len__"):
            raise TypeError(f"expected columns that have a length, such as lists, got {type(column).__name__}")
    lengths = {len(column) for column in columns if column is not None}
    if len(lengths) > 1:
        raise ValueError(f"expected columns of one length, got {len(messages)} messages and {sorted(lengths)}")
    return zip(*(repeat(None) if column is None else column for column in columns), strict=False)


class RequestScope(Enum):
    """The tasks that a request concerns."""

    CURRENT_TASK = "current task"
    ALL_TASKS_IN_CONTAINER = "all tasks in the container"


class TaskCoordinator(ABC):
    """Takes requests of a task. They take effect when the current call returns, commits before shutdowns."""

    @abstractmethod
    def commit(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Commit before the next message.

        The state of all tasks in a container is one transaction, so both scopes commit all of them. The commit waits
        for messages in flight of asynchronous tasks, at most `task.commit.max.delay.ms`.
        """

    @abstractmethod
    def shutdown(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Stop. ALL_TASKS_IN_CONTAINER stops the container at once, with a final commit. CURRENT_TASK is a vote: the
        container stops when every task in it has voted. Until then a task that has voted continues to process.
        """


@dataclass(frozen=True)
class TaskAttempt:
    """The task that opens a sink, with the attempt's fencing token.

    `job` is `<job.name>-<job.id>`, `task` the task's name: together the same in every attempt. `epoch` only grows: a
    sink that was opened under an epoch must refuse every smaller one. `ssps` are the task's inputs, `input_ids` the ids
    of their streams, where the system gives them: a stream that is deleted and created again gets another id.
    """

    job: str
    task: str
    epoch: int
    ssps: frozenset[SystemStreamPartition]
    input_ids: Mapping[SystemStream, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.job}/{self.task}"


class Sink(ABC):
    """A store outside the job's systems that a task writes to, and that commits with the task. It belongs to one task,
    which makes it and registers it in `init`. One thread.

    1. A sink keeps the input offsets next to its rows, in one transaction.
    2. It commits in step 3 of the task's commit, before the changelog and the checkpoint. So after a crash it may be
       ahead of the checkpoint, and is never behind.
    3. The task processes the inputs between the two again, because the stores (and outputs in an aborted transaction)
       need them. Their rows are in the sink. The sink recognises these inputs by its own offsets, and drops the rows.

    So every row must come from an input. If an input always gives the same rows (a deterministic task), they are in the
    sink exactly once under every guarantee but at-most-once, and so is what they contain from a store. Under
    at-most-once the rows of an input may be missing after a crash, and its changes in what comes from a store.

    An exception of any method ends the attempt without a commit. Raise TaskMigrated if a newer attempt has the sink,
    RetriableError if a restart in place may help (a lost connection).
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the sink in messages and metrics; unique within the task."""

    @abstractmethod
    def open(self, attempt: TaskAttempt) -> Mapping[SystemStreamPartition, int]:
        """Take the sink over from earlier attempts, and return for each partition the first offset that it lacks.

        1. Called once, after `init` and before the first message.
        2. Read the offsets after earlier attempts are locked out, or a late commit of one of them would be missing.
        3. Leave out partitions that the sink has never committed, or has committed under another stream id: those
           offsets are not offsets of the present stream. A sink without offsets returns an empty mapping, and is
           at-least-once.
        4. A partition without a checkpoint, for which `init` sets no offset, starts at the sink's offset.
        """

    @abstractmethod
    def commit(self, offsets: Mapping[SystemStreamPartition, int]) -> None:
        """Make the written rows and `offsets`, the next input of every partition, durable; both or neither.

        Only rows from inputs before `offsets` may become durable. While inputs are processed again, `offsets` are
        smaller than the sink's, and the sink keeps its own.
        """

    def forget(self, envelope: IncomingMessageEnvelope) -> None:
        """Take back the rows of a failed message, before the job's error policy repeats it, skips it or writes its dead
        letter. A sink that does not override this keeps the rows."""

    def mark(self) -> int | None:
        """The place where the rows of the next batch begin, for `back_to`. With None, the default, the sink keeps no
        such places. Then `forget` takes back the rows of a failed batch message by message, and rows without a message
        stay."""
        return None

    def back_to(self, mark: int) -> None:
        """Take back all rows since `mark`. A sink that overrides `mark` must also override this."""
        raise TypeError(f"{type(self).__name__} overrides mark, so it must override back_to as well")

    def full(self) -> bool:
        """Whether the task should commit early, because many rows wait for a commit; called about every 50 ms."""
        return False

    def metrics(self) -> Mapping[str, float]:
        """Values to publish at each commit, by name. Called on the task's thread, so it should not query the database.
        A failure is logged once, and does not end the job."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Release resources without a commit; after a failure that is the roll-back. Closing twice is allowed."""
