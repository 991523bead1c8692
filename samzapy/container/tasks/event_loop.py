"""The thread of asynchronous tasks: one asyncio loop per container, run a little at a time, and stores for this
thread."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from samzapy.api.kv import KeyValueIterator, KeyValueSnapshot, KeyValueStore

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

_LONGEST_CANCELLATION_S = 5.0


class EventLoop:
    """An event loop that the thread of the tasks makes, runs and closes."""

    def __init__(self) -> None:
        # Most jobs have no asynchronous tasks, and their starts need not import this.
        import asyncio  # noqa: PLC0415

        self._asyncio = asyncio
        #: The exception of a cancelled call.
        self.cancelled: type[BaseException] = asyncio.CancelledError
        self._loop = asyncio.new_event_loop()
        self._thread = threading.get_ident()
        self._running = False
        self._news = False

    def run(self, timeout_s: float) -> None:
        """Run coroutines and the calls of other threads, until there is news or the time is over."""
        loop = self._loop
        timer = loop.call_later(0.0 if self._news else timeout_s, loop.stop)
        self._running = True
        try:
            loop.run_forever()
        finally:
            self._running = self._news = False
            timer.cancel()

    def time(self) -> float:
        """The real time in seconds, for the waits of `run`; a test may move the job's clock."""
        return self._loop.time()

    def news(self) -> None:
        """A message has ended: `run` returns soon, or at once if it is not running."""
        self._news = True
        if self._running:
            self._loop.stop()

    def hand_over(self, call: Callable[..., object], *arguments: object) -> None:
        """Call `call` on the loop's thread: now if this is the thread, else by `run`."""
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
        return self._loop.create_task(coroutine)

    def finish(self, returned: object) -> object:
        """Wait for `returned` if it is awaitable, and give its result."""
        return self._loop.run_until_complete(returned) if inspect.isawaitable(returned) else returned

    def cancel(self, tasks: list[asyncio.Task[None]]) -> None:
        """Cancel coroutines and let them clean up, for a few seconds at most."""
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(self._asyncio.wait(tasks, timeout=_LONGEST_CANCELLATION_S))

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.cancel(list(self._asyncio.all_tasks(self._loop)))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


Store = KeyValueStore[Any, Any]


class LoopThreadStore(KeyValueStore[Any, Any]):
    """A store as an asynchronous task gets it. A call from any other thread raises RuntimeError, since it could come in
    the middle of a commit."""

    __slots__ = ("_is_here", "_name", "_store")

    def __init__(self, name: str, store: Store, is_here: Callable[[], bool]) -> None:
        self._name = name
        self._store = store
        self._is_here = is_here

    def _checked(self) -> Store:
        if not self._is_here():
            raise RuntimeError(
                f"store '{self._name}' is for the task's thread: use it in process_async, or in callback.complete(then)"
            )
        return self._store

    def get(self, key: Any) -> Any:
        return self._checked().get(key)

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        return self._checked().get_all(keys)

    def put(self, key: Any, value: Any) -> None:
        self._checked().put(key, value)

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        self._checked().put_all(entries)

    def merge_all(self, entries: Mapping[Any, Any], combine: Callable[[Any, Any], Any]) -> None:
        self._checked().merge_all(entries, combine)

    def delete(self, key: Any) -> None:
        self._checked().delete(key)

    def delete_all(self, keys: Iterable[Any]) -> None:
        self._checked().delete_all(keys)

    def range(self, from_key: Any, to_key: Any) -> KeyValueIterator[Any, Any]:
        return self._checked().range(from_key, to_key)

    def prefix(self, prefix: Any) -> KeyValueIterator[Any, Any]:
        return self._checked().prefix(prefix)

    def all(self) -> KeyValueIterator[Any, Any]:
        return self._checked().all()

    def snapshot(self, from_key: Any, to_key: Any) -> KeyValueSnapshot[Any, Any]:
        return self._checked().snapshot(from_key, to_key)

    def flush(self) -> None:
        self._checked().flush()

    def close(self) -> None:
        self._checked().close()
