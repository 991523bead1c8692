"""Describes a failure of the user's code, for people and as a dead letter: the exception, the line of the user's code,
the whole traceback.

The line comes from the innermost frame of the user's code: neither samzapy's own, nor of Python's library, nor of an
installed package. A task that is itself an installed package has none of these; then it is the outermost frame outside
of samzapy.
"""

from __future__ import annotations

import sys
import traceback
from collections import deque
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from samzapy.api.envelope import ID_HEADER, Headers, IncomingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord
from samzapy.clock import Clock
from samzapy.config.error_policy import Stage
from samzapy.container.outputs.output_ids import OutputIds
from samzapy.container.outputs.producers import RecordLimit, size_of
from samzapy.errors import FailedCall, RecordTooLarge, SamzapyError, TaskFailed
from samzapy.job.lease import LONGEST_LINE, LONGEST_TRACEBACK, MOST_HANDLED, UserFailure
from samzapy.plugins import is_installed
from samzapy.strict_json import sendable

T = TypeVar("T")
Pair = tuple[bytes | None, bytes | None]

_SAMZAPY = Path(__file__).resolve().parents[2]
#: The package's own tasks, which stand for a user's.
_EXAMPLES = str(_SAMZAPY / "examples") + "/"
_OURS = str(_SAMZAPY) + "/"


def user_line(cause: BaseException) -> str:
    """The line of the user's code that an exception comes from, as `tasks/counts.py:42`: below the folder of `sys.path`
    that has it. Empty if no frame is the user's."""
    frames = [
        frame
        for frame in traceback.extract_tb(cause.__traceback__)
        if frame.filename.startswith(_EXAMPLES) or not frame.filename.startswith(_OURS)
    ]
    for frame in reversed(frames):
        if not frame.filename.startswith("<") and not is_installed(frame.filename):
            return f"{_short(frame.filename)}:{frame.lineno}"
    return f"{_short(frames[0].filename)}:{frames[0].lineno}" if frames else ""


def line_of(task: object, call: str) -> str:
    """` (tasks/counts.py:42)` for the method of `task` that `call` begins with, in words; empty if that is unknown."""
    code = getattr(getattr(task, call.split(" ", 1)[0], None), "__code__", None)
    return f" ({_short(code.co_filename)}:{code.co_firstlineno})" if code else ""


def whole_traceback(cause: BaseException) -> str:
    """The traceback of an exception and its causes as text; of a long one the end, which has the exception."""
    text = sendable("".join(traceback.format_exception(cause)).rstrip())
    return text if len(text) <= LONGEST_TRACEBACK else f"...{text[-LONGEST_TRACEBACK:]}"


def one_line(cause: BaseException) -> str:
    """The message of an exception as one line; an exception of the user may fail to make one."""
    try:
        text = str(cause)
    except Exception as failure:  # noqa: BLE001  # of any kind
        text = f"its text cannot be made ({type(failure).__name__})"
    return sendable(" ".join(text.split())[:LONGEST_LINE])


def in_step(cause: BaseException) -> str:
    """` in step 'x' (map)` for an exception of a pipeline's step, which has that as a note."""
    return "".join(f" {note}" for note in getattr(cause, "__notes__", ()) if note.startswith("in step "))


def user_failure(error: BaseException) -> UserFailure | None:
    """The failure of the user's code, or of a message, that `error` is about; None if it is about something else."""
    call = error.call if isinstance(error, SamzapyError) else None
    if call is None:
        return None
    return failure_of(error.__cause__ or error, call.task, call.where, call.span)


def failure_of(cause: BaseException, task: str, where: str, span: tuple[str, int, int] | None) -> UserFailure:
    """`cause` for people. `span`: the partition, first and last offset of its messages, None for no message."""
    about = type(cause).__name__, one_line(cause), task, where
    return UserFailure(*about, user_line(cause), whole_traceback(cause), *(span or ("", -1, -1)))


class HandledFailures:
    """The failures that error policies have handled since the last report, `MOST_HANDLED` at most. One thread adds,
    another one takes them."""

    def __init__(self) -> None:
        self._waiting: deque[UserFailure] = deque()

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < MOST_HANDLED

    def add(self, failure: UserFailure) -> None:
        self._waiting.append(failure)

    def take(self) -> tuple[UserFailure, ...]:
        """The failures since the last call, oldest first."""
        return tuple([self._waiting.popleft() for _ in range(len(self._waiting))])


def _short(filename: str) -> str:
    """The file's path below the folder that it is imported from."""
    path = Path(filename)
    roots = [root for root in (Path(entry) if entry else Path.cwd() for entry in sys.path) if root in path.parents]
    return str(path.relative_to(max(roots, key=lambda root: len(root.parts)))) if roots else filename


PREFIX = "samzapy-error-"
#: What a system adds to a record, an upper bound.
_ENVELOPE_BYTES = 512


class DeadLetters:
    """Writes the dead letters of one task among its outputs: an input that failed, with its position and the reason.

    The record has the input's key and value bytes and headers, and on top, all as UTF-8 text:

        samzapy-error-stage       deserialize, process, serialize or produce
        samzapy-error-reason      the exception's message, a kilobyte at most
        samzapy-error-exception   the exception's class
        samzapy-error-traceback   where it was raised, eight kilobytes at most
        samzapy-error-topic       the input's stream, partition and offset
        samzapy-error-partition
        samzapy-error-offset
        samzapy-error-task        the task's name
        samzapy-error-time-ms     when, in milliseconds since 1970

    If the letter is larger than its stream takes, the traceback is cut as much as needed. The policy of `produce`
    decides about one that is still too large.

    The letter about an output that does not serialize, or is refused, carries the input of that output. Outputs of
    `window` or `on_end_of_stream` come from no input: their letters have no key, value or position.
    """

    def __init__(
        self,
        stream: SystemStream,
        task_name: str,
        raw: Callable[[SystemStreamPartition, int], Pair],
        clock: Clock,
        deliver: Callable[[str, OutgoingRecord], None],
        limit_of: Callable[[SystemStream], RecordLimit],
        *,
        ids: OutputIds | None = None,
    ) -> None:
        """`deliver` takes a letter for a system. `limit_of` gives what a stream takes; called once.
        With `ids` letters carry ids, of another kind than the task's outputs."""
        self._deliver = deliver
        self.stream = stream
        self._task_name = task_name
        self._raw = raw
        self._clock = clock
        self._ids = ids
        self._limit_of = cache(limit_of)

    def write(
        self, stage: Stage, failure: BaseException, envelope: IncomingMessageEnvelope | None, number: int = 0
    ) -> None:
        """Write the letter about `envelope` (None: no input), its `number`-th; under ids no two have the same id.
        Raises RecordTooLarge for a letter that its stream would refuse for the size of the input."""
        letter = self._letter(stage, failure, envelope, number)
        if (limit := self._limit_of(self.stream).record_bytes) is not None:
            if (excess := size_of(letter) - limit + _ENVELOPE_BYTES) > 0:
                *headers, (name, text) = letter.headers or ()  # the traceback is the last one
                letter = letter._replace(headers=[*headers, (name, (text or b"")[excess:])])
            if (size := size_of(letter)) + RecordTooLarge.BATCH_BYTES > limit:
                about = "no input" if envelope is None else envelope.position
                larger = "message.max.bytes of the producer, and max.message.bytes of the stream"
                advice = f"(raise {larger}, or set task.error.produce.policy=skip)"
                raise RecordTooLarge(f"{self.stream}: the dead letter about {about} does not fit {advice}", size, limit)
        self._deliver(self.stream.system, letter)

    def _letter(
        self, stage: Stage, failure: BaseException, envelope: IncomingMessageEnvelope | None, number: int
    ) -> OutgoingRecord:
        kind = type(failure)
        about = {
            "stage": stage.value,
            "reason": one_line(failure),
            "exception": kind.__qualname__
            if kind.__module__ == "builtins"
            else f"{kind.__module__}.{kind.__qualname__}",
            "task": self._task_name,
            "time-ms": str(self._clock.wall_ms()),
        }
        key: bytes | None = None
        value: bytes | None = None
        original: Headers = ()
        if envelope is not None:
            ssp = envelope.ssp
            about |= {"topic": ssp.stream, "partition": str(ssp.partition), "offset": str(envelope.offset)}
            undecoded = stage is Stage.DESERIALIZE
            key, value = (envelope.key, envelope.message) if undecoded else self._raw(ssp, envelope.offset)
            original = envelope.headers or ()
        headers = [*original, *((PREFIX + name, text.encode(errors="replace")) for name, text in about.items())]
        place: bytes | None = None
        if self._ids is not None and envelope is not None:
            headers = [(name, value) for name, value in headers if name != ID_HEADER]
            headers.append((ID_HEADER, self._ids.letter(envelope, number)))
            if key is None:
                place = b"%d:%d" % (envelope.offset, number)  # a repeated letter belongs where the first one went
        headers.append((PREFIX + "traceback", whole_traceback(failure).encode(errors="replace")))
        return OutgoingRecord(self.stream.stream, key, value, partition_key=place, headers=headers)


def instance_of(kind: type[T], task_name: str) -> T:
    """A new object of a class of the user. Raises TaskFailed naming the class, or samzapy's errors unchanged."""
    try:
        return kind()
    except SamzapyError:
        raise
    except BaseException as cause:
        raise task_failed(task_name, f"{kind.__name__}()", cause) from cause


def task_failed(task_name: str, where: str, cause: BaseException) -> TaskFailed:
    """The error for an exception of the user's code or of a sink; names the line of the user's code."""
    line, text = user_line(cause), one_line(cause)
    what = f"{type(cause).__name__}{text and ': '}{text}{line and f' ({line})'}"
    failure = TaskFailed(f"{task_name}: {where}{in_step(cause)} failed: {what}")
    failure.call = FailedCall(task_name, where)
    return failure
