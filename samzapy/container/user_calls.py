"""Calls of the user's code, and what its failures become."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable, iscoroutine
from typing import NoReturn

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.errors import SamzapyError, StoreRefused, TaskFailed


class UserCalls:
    """Calls in the name of one task: whatever is raised and is no error of samzapy's own is a TaskFailed that names the
    task and where it was."""

    __slots__ = ()

    name: str

    def _call(self, where: str, method: Callable[..., object], *arguments: object) -> None:
        """Call a method of the user's. Raises TaskFailed naming it, unless samzapy raised something of its own."""
        try:
            returned = method(*arguments)
        except SamzapyError:
            raise
        except BaseException as cause:
            raise self._failed(where, cause) from cause
        self._refuse_awaitable(where, returned)

    def _refuse_awaitable(self, where: str, returned: object) -> None:
        """Raise TaskFailed if the user's code returned what nobody awaits, so that its work would never be done; any
        other value means nothing."""
        if not isawaitable(returned):
            return
        if iscoroutine(returned):
            returned.close()
        raise TaskFailed(
            f"{self.name}: {where} returned a {type(returned).__name__}, which nobody awaits: only a CoroutineTask's is"
        )

    def _raise(self, envelope: IncomingMessageEnvelope, cause: BaseException) -> NoReturn:
        """End the attempt over a message: what samzapy raised speaks for itself, but a store does not know which message
        it was; the rest is the task's failure."""
        if isinstance(cause, SamzapyError):
            if isinstance(cause, StoreRefused):
                cause.args = (f"{self.name}: process of {envelope.position}: {cause}",)
            raise cause
        raise self._failed(f"process of {envelope.position}", cause) from cause

    def _failed(self, where: str, cause: BaseException) -> TaskFailed:
        return TaskFailed(f"{self.name}: {where} failed: {type(cause).__name__}: {cause}")
