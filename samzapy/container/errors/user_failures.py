"""Describes a failure of the user's code: the exception, the line of the user's code, the whole traceback.

The line comes from the innermost frame of the user's code: neither samzapy's own, nor of Python's library, nor of an
installed package. A task that is itself an installed package has none of these; then it is the outermost frame outside
of samzapy.
"""

from __future__ import annotations

import sys
import traceback
from abc import abstractmethod
from collections.abc import Callable, Sequence
from inspect import isawaitable, iscoroutine
from pathlib import Path
from typing import Any, NoReturn

from samzapy.api.batch import MessageBatch
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.errors import FailedCall, SamzapyError, SerdeError, StoreRefused, TaskFailed
from samzapy.job.lease import LONGEST_LINE, LONGEST_TRACEBACK, UserFailure
from samzapy.plugins import is_installed
from samzapy.strict_json import sendable

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
    cause = error.__cause__ or error
    partition, first, last = call.span or ("", -1, -1)
    return UserFailure(
        type(cause).__name__,
        one_line(cause),
        call.task,
        call.where,
        user_line(cause),
        whole_traceback(cause),
        partition,
        first,
        last,
    )


def handled_failure(
    task: str, where: str, envelope: IncomingMessageEnvelope | None, failure: BaseException
) -> UserFailure:
    """A failure that a policy has handled, of the message `envelope` (None: of none)."""
    partition, offset = ("", -1) if envelope is None else (str(envelope.ssp), envelope.offset)
    about = type(failure).__name__, one_line(failure), task, where
    return UserFailure(*about, user_line(failure), whole_traceback(failure), partition, offset, offset)


def _is_ours(filename: str) -> bool:
    return filename.startswith(_OURS) and not filename.startswith(_EXAMPLES)


def _short(filename: str) -> str:
    """The file's path below the folder that it is imported from."""
    path = Path(filename)
    roots = [root for root in map(Path, _roots()) if root in path.parents]
    return str(path.relative_to(max(roots, key=lambda root: len(root.parts)))) if roots else filename


def _roots() -> Sequence[str]:
    return [entry or str(Path.cwd()) for entry in sys.path]


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
        self._fail(
            where, f"returned {_named(returned)}, which goes nowhere: call collector.send(...), and return nothing"
        )

    def refuse_awaitable(self, where: object, returned: object) -> None:
        """Raise TaskFailed if the user's code returned an awaitable: it is never awaited, so its work would be lost.
        Any other value is ignored."""
        if not isawaitable(returned):
            return
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
