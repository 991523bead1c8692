"""The run loop's thread as seen by coroutines and callbacks: one asyncio loop a container, run a little at a time."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

logger = logging.getLogger(__name__)

_LONGEST_CANCELLATION_S = 5.0


class EventLoop:
    """Made, run and closed by the thread that runs the tasks."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.get_ident()
        self._running = False
        self._news = False

    def run(self, timeout_s: float) -> None:
        """Run coroutines and what other threads handed over, until there is news or the time is over."""
        loop = self._loop
        timer = loop.call_later(0.0 if self._news else timeout_s, loop.stop)
        self._running = True
        try:
            loop.run_forever()
        finally:
            self._running = self._news = False
            timer.cancel()

    def news(self) -> None:
        """A message has ended: `run` returns soon, or at once if it is not running."""
        self._news = True
        if self._running:
            self._loop.stop()

    def hand_over(self, call: Callable[..., object], *arguments: object) -> None:
        """Have `call` called on this thread: now if this is the thread, else by `run`."""
        if self.is_here():
            call(*arguments)
            return
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            logger.warning("A message's callback came after its container had closed; it is ignored.")

    def is_here(self) -> bool:
        """Whether the caller is on the tasks' thread."""
        return threading.get_ident() == self._thread

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a coroutine; it runs during `run`."""
        return self._loop.create_task(coroutine)

    def finish(self, result: object) -> None:
        """Wait for `result` if it is awaitable."""
        if inspect.isawaitable(result):
            self._loop.run_until_complete(result)

    def cancel(self, tasks: list[asyncio.Task[None]]) -> None:
        """Cancel coroutines and let them clean up, for a few seconds at most."""
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=_LONGEST_CANCELLATION_S))

    def close(self) -> None:
        """Cancel whatever is left and close; closing twice is allowed."""
        if self._loop.is_closed():
            return
        self.cancel(list(asyncio.all_tasks(self._loop)))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
