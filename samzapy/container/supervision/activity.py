"""Reads the activity of a thread from its stack: the call of the user's code, and the message.

The loops over messages keep no note of where they are, since that would cost something for each message. A log line and
a look for stalls are rare, so they walk up the stack instead, to a function that is known here, and read its variables.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any, NamedTuple

from samzapy.container.asynchronous.async_messages import AsyncMessages
from samzapy.container.asynchronous.executor import AsynchronousExecutor
from samzapy.container.commit.protocol import CommitProtocol
from samzapy.container.commit.state import TransactionalState
from samzapy.container.errors.halving import BatchProcessing
from samzapy.container.errors.processing import TolerantProcessing
from samzapy.container.outputs.transaction import TransactionOnDemand
from samzapy.container.tasks.synchronous import StrictProcessing
from samzapy.container.tasks.user_calls import UserCalls
from samzapy.job.facts import LONGEST_TRACEBACK

Variables = Mapping[str, Any]


class Activity(NamedTuple):
    """A call that a thread is in. `doing` is for people, as `in process of kafka.in[3]@17`; `task` and `position` are
    empty where it is of no task, or at no message; `of_user`: it is the user's code."""

    doing: str
    task: str = ""
    position: str = ""
    of_user: bool = True


def _message(name: str) -> Callable[[Variables], Activity]:
    def read(variables: Variables) -> Activity:
        # Before the first message there is none.
        at = variables.get(name)
        task = variables["self"]._task.name  # noqa: SLF001  # the variables of our own function
        return Activity(f"in process of {at.position}", task, at.position) if at else Activity("in process", task)

    return read


def _call(variables: Variables) -> Activity:
    return Activity(f"in {variables['where']}", variables["self"].name)


def _asynchronous(name: str) -> Callable[[Variables], Activity]:
    def read(variables: Variables) -> Activity:
        of: Any = variables[name]
        position = getattr(of, "work", of).envelope.position
        return Activity(f"in process of {position}", variables["self"].task.name, position)

    return read


def _own(doing: str) -> Callable[[Variables], Activity]:
    return lambda _: Activity(doing, of_user=False)


def _in_flight(variables: Variables) -> Activity | None:
    """The message that has been in flight the longest."""
    for messages in variables["self"]._all:  # noqa: SLF001  # the variables of our own function
        position = messages.oldest
        if position is not None:
            return Activity(f"in process of {position}", messages.task.name, position)
    return None


_KNOWN: dict[CodeType, Callable[[Variables], Activity]] = {
    StrictProcessing.process.__code__: _message("envelope"),
    TolerantProcessing._process_run.__code__: _message("envelope"),  # noqa: SLF001
    BatchProcessing._call.__code__: _message("part"),  # noqa: SLF001
    AsyncMessages._begin.__code__: _asynchronous("work"),  # noqa: SLF001
    AsyncMessages._run.__code__: _asynchronous("message"),  # noqa: SLF001
    UserCalls.call.__code__: _call,
    TransactionalState.commit.__code__: _own("waits for a transaction to be committed"),
    TransactionOnDemand._begin.__code__: _own("waits for a transaction to begin"),  # noqa: SLF001
    CommitProtocol._run.__code__: _own("in a commit"),  # noqa: SLF001
}
#: The loops of an asynchronous executor, during which the messages in flight are somewhere else.
_WAITS = {AsynchronousExecutor._advance.__code__, AsynchronousExecutor.settle.__code__}  # noqa: SLF001


def activity_of(frame: FrameType | None) -> Activity | None:
    """The innermost known call of a stack; None if there is none."""
    while frame is not None:
        read = _KNOWN.get(frame.f_code)
        if read is not None:
            return read(frame.f_locals)
        frame = frame.f_back
    return None


def waited_for(frame: FrameType | None) -> Activity | None:
    """The message that an asynchronous task's loop waits for; None if it waits for none."""
    while frame is not None:
        if frame.f_code in _WAITS:
            return _in_flight(frame.f_locals)
        frame = frame.f_back
    return None


def activity_here() -> Activity | None:
    """The activity of the caller's own thread."""
    return activity_of(sys._getframe(1))  # noqa: SLF001  # the documented way to a frame


def stack_of(thread_id: int) -> FrameType | None:
    """The innermost frame of a thread; None if it has ended."""
    return sys._current_frames().get(thread_id)  # noqa: SLF001  # the documented way to a thread's frame


def stack_as_text(frame: FrameType) -> str:
    """A stack for people, the innermost call last, from the innermost known call on; of a long one the end."""
    depth, above = 1, frame
    while above.f_code not in _KNOWN and above.f_back is not None:
        depth, above = depth + 1, above.f_back
    return "".join(traceback.format_stack(frame, limit=depth))[-LONGEST_TRACEBACK:].rstrip()
