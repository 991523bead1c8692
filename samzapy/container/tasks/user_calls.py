"""Calls the user's code, and turns its failures into errors that name the task and the place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from inspect import isawaitable, iscoroutine
from typing import Any, NoReturn

from samzapy.api.batch import MessageBatch
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.container.errors.user_failures import one_line, user_line
from samzapy.errors import FailedCall, SamzapyError, SerdeError, StoreRefused, TaskFailed

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

    __slots__ = ()

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
        """End the attempt over a message or a batch."""
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
