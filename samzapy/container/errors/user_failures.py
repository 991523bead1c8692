"""Describes a failure of the user's code, for people and as a dead letter: the exception, the line of the user's code,
the whole traceback.

The line comes from the innermost frame of the user's code: neither samzapy's own, nor of Python's library, nor of an
installed package. A task that is itself an installed package has none of these; then it is the outermost frame outside
of samzapy.
"""

from __future__ import annotations

import sys
import traceback
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from inspect import isawaitable, iscoroutine
from pathlib import Path
from typing import Any, NoReturn

from samzapy.api.batch import MessageBatch
from samzapy.api.envelope import ID_HEADER, Headers, IncomingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord
from samzapy.clock import Clock
from samzapy.config.error_policy import Stage
from samzapy.container.outputs.output_ids import OutputIds
from samzapy.container.outputs.producers import RecordLimit, size_of
from samzapy.errors import FailedCall, RecordTooLarge, SamzapyError, SerdeError, StoreRefused, TaskFailed
from samzapy.job.lease import LONGEST_LINE, LONGEST_TRACEBACK, UserFailure
from samzapy.plugins import is_installed
from samzapy.strict_json import sendable

Pair = tuple[bytes | None, bytes | None]

_SAMZAPY = Path(__file__).resolve().parents[2]
#: The package's own tasks, which stand for a user's.
_EXAMPLES = str(_SAMZAPY / "examples") + "/"
_OURS = str(_SAMZAPY) + "/"


def user_line(cause: BaseException) -> str:
    """The line of the user's code that an exception comes from, as `tasks/counts.py:42`: below the folder of `sys.path`
    that has it. Empty if no frame is the user's."""
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if not _is_ours(frame.filename)]
    for frame in reversed(frames):
        if not frame.filename.startswith("<") and not is_installed(frame.filename):
            return f"{_short(frame.filename)}:{frame.lineno}"
    return f"{_short(frames[0].filename)}:{frames[0].lineno}" if frames else ""


def whole_traceback(cause: BaseException) -> str:
    """The traceback of an exception and its causes as text; of a long one the end, which has the exception."""
    text = sendable("".join(traceback.format_exception(cause)).rstrip())
    return text if len(text) <= LONGEST_TRACEBACK else f"...{text[-LONGEST_TRACEBACK:]}"


def one_line(cause: BaseException) -> str:
    """The message of an exception as one line."""
    return sendable(" ".join(str(cause).split())[:LONGEST_LINE])


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


def _is_ours(filename: str) -> bool:
    return filename.startswith(_OURS) and not filename.startswith(_EXAMPLES)


def _short(filename: str) -> str:
    """The file's path below the folder that it is imported from."""
    path = Path(filename)
    roots = [root for root in map(Path, _roots()) if root in path.parents]
    return str(path.relative_to(max(roots, key=lambda root: len(root.parts)))) if roots else filename


def _roots() -> Sequence[str]:
    return [entry or str(Path.cwd()) for entry in sys.path]


PREFIX = "samzapy-error-"
_LONGEST_REASON = 1_000
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
            if (size := size_of(letter)) > limit:
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
            "reason": " ".join(str(failure).split())[:_LONGEST_REASON],
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


#: Awaits the value that a call has returned, and gives its result.
Finish = Callable[[object], object]


#: The methods without a collector: what they return is no message.
_WITHOUT_OUTPUTS = frozenset({"init", "close"})


def as_returned(returned: object) -> object:
    """The default: nothing is awaited."""
    return returned


def task_failed(
    task_name: str, where: str, cause: BaseException, span: tuple[str, int, int] | None = None
) -> TaskFailed:
    """The error for an exception of the user's code or of a sink; names the line of the user's code. `span`: the
    messages of the call, as in `FailedCall`."""
    line = user_line(cause)
    at = f" ({line})" if line else ""
    failure = TaskFailed(f"{task_name}: {where} failed: {type(cause).__name__}: {one_line(cause)}{at}")
    failure.call = FailedCall(task_name, where, span)
    return failure


def _named(returned: object) -> str:
    kind = type(returned).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


class UserCalls:
    """The calls of one task. Any exception but samzapy's errors becomes a TaskFailed."""

    name: str
    #: Awaits the value that a call has returned, if it has to.
    _finish: Finish

    def call(self, where: object, method: Callable[..., object], *arguments: object) -> None:
        """Call a method of the user. Raises TaskFailed naming it by the text of `where`, or samzapy's errors
        unchanged."""
        try:
            returned = self._finish(method(*arguments))
        except SerdeError as failure:
            placed = self._placed(failure, f"in {where}")
            placed.call = FailedCall(self.name, str(where))
            raise placed from failure
        except SamzapyError:
            raise
        except BaseException as cause:
            raise task_failed(self.name, str(where), cause) from cause
        if returned is not None:
            (self.refuse_awaitable if where in _WITHOUT_OUTPUTS else self.refuse_returned)(where, returned)

    def refuse_returned(self, where: object, returned: object) -> None:
        """Raise TaskFailed for what a method that may send has returned: it goes nowhere, so a result would be lost."""
        self.refuse_awaitable(where, returned)
        self._fail(where, f"returned {_named(returned)}, which goes nowhere: call collector.send(...), return nothing")

    def refuse_awaitable(self, where: object, returned: object) -> None:
        """Raise TaskFailed for an awaitable, which is never awaited, so its work would be lost; ignore other values."""
        if isawaitable(returned):
            if iscoroutine(returned):
                returned.close()
            what = f"returned {_named(returned)}, which is never awaited"
            self._fail(where, f"{what}: only a CoroutineTask's is, and not what that returns")

    def _fail(self, where: object, what: str) -> NoReturn:
        failure = TaskFailed(f"{self.name}: {where} {what}")
        failure.call = FailedCall(self.name, str(where))
        raise failure

    def raise_failure(self, of: IncomingMessageEnvelope | MessageBatch[Any, Any], cause: BaseException) -> NoReturn:
        raise self.failure_of(of, cause)

    def failure_of(self, of: IncomingMessageEnvelope | MessageBatch[Any, Any], cause: BaseException) -> SamzapyError:
        """The error that ends the attempt over a message or a batch: samzapy's own errors unchanged, any other as a
        TaskFailed."""
        where = f"{'process_batch' if isinstance(of, MessageBatch) else 'process'} of {of.position}"
        last = of[-1] if isinstance(of, MessageBatch) else of
        first = of[0].offset if isinstance(of, MessageBatch) else of.offset
        span = (str(last.ssp), first, last.offset)
        call = FailedCall(self.name, where, span)
        failure: SamzapyError
        if isinstance(cause, SerdeError):
            failure = self._placed(cause, f"while processing {of.position}", last)
            failure.call = call
        elif isinstance(cause, StoreRefused):
            # A store does not know the message at hand.
            cause.args = (f"{self.name}: {where}: {cause}",)
            cause.call = call
            return cause
        elif isinstance(cause, SamzapyError):
            if isinstance(cause, TaskFailed):
                cause.call = call
            return cause
        else:
            failure = task_failed(self.name, where, cause, span)
        failure.__cause__ = cause
        return failure

    def _placed(self, failure: SerdeError, where: str, envelope: IncomingMessageEnvelope | None = None) -> SerdeError:
        """The failure; for a key or value of a store with the place: the call that raises, or the messages since the
        stores last serialized their objects. `envelope`: the message at hand."""
        if not failure.store:
            return SerdeError(str(failure))
        return SerdeError(f"{failure} ({self._unserialized(envelope) if failure.late else where})")

    @abstractmethod
    def _unserialized(self, envelope: IncomingMessageEnvelope | None) -> str:
        """The messages that may have put an object that no store has serialized yet, for people."""
