"""The way down: steps of the user's own code with a state and timers, lookups outside, and deduplication."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar

from samzapy.api.event_time import TimerClock
from samzapy.api.kv import KeyValueStore
from samzapy.operators.deduplicate import Deduplicator
from samzapy.pipeline.functions import Batch, of_batch, refuse_null_keys, refuse_unnamed, selected, with_columns
from samzapy.pipeline.step import TIMERS, Opening, Receive, Step, StoreNeed


class Handle:
    """What a `process` function works with, during its call: the message's key and event time, a state, timers."""

    def __init__(self, state: KeyValueStore[str, Any], timers: Any, step: str) -> None:
        self._state, self._timers, self._step = state, timers, step
        self.key: Any = None
        self.time_ms = -1
        self.sent: list[tuple[Any, Any, int]] = []

    @property
    def state(self) -> KeyValueStore[str, Any]:
        """The step's own store, with string keys and plain values: `handle.state.put(handle.key, 1)`."""
        return self._state

    def send(self, message: Any, key: Any = None, time_ms: int | None = None) -> None:
        """Pass a message on, by default under the key and the time of the message at hand."""
        self.sent.append((self.key if key is None else key, message, self.time_ms if time_ms is None else time_ms))

    def schedule(self, time_ms: int, clock: TimerClock = TimerClock.EVENT) -> None:
        """Call `on_timer` for this key at `time_ms`, in place of an earlier timer of the key. Raises ValueError."""
        if self._timers is None:
            raise ValueError(f"process '{self._step}': a timer needs process(..., on_timer=...)")
        self._timers.schedule([self._step, self.key], time_ms, clock)

    def cancel(self, clock: TimerClock = TimerClock.EVENT) -> bool:
        """Cancel the timer of this key; returns whether there was one."""
        return bool(self._timers.cancel([self._step, self.key], clock))


@dataclass(eq=False, kw_only=True)
class Process(Step):
    """Calls `function(message, handle)` for each message, and `on_timer(handle)` for each timer that is due."""

    kind: ClassVar[str] = "process"
    function: Callable[[Any, Handle], object]
    on_timer: Callable[[Handle], object] | None = None
    is_batched = is_everywhere = False

    @property
    def stores(self) -> Mapping[str, StoreNeed]:
        timers = {} if self.on_timer is None else {TIMERS: StoreNeed(timers=True)}
        return {self.name: StoreNeed(), **timers}

    @property
    def has_positions(self) -> bool:
        return self.on_timer is None and super().has_positions

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        timers = None if self.on_timer is None else task.context.task.timers
        handle = Handle(task.context.get_store(self.name), timers, self.name)
        function, on_timer = self.function, self.on_timer

        def flush(ssp: Any, offsets: Sequence[int]) -> None:
            sent, handle.sent = handle.sent, []
            if sent:
                keys, messages, times = zip(*sent, strict=True)
                emit(Batch(ssp, offsets, keys, messages, times))

        def receive(batch: Batch) -> None:
            # An earlier call may have failed.
            handle.sent = []
            offsets: list[int] = []
            rows = zip(batch.offsets, batch.keys, batch.messages, batch.timestamps, strict=True)
            for offset, key, message, time_ms in rows:
                handle.key, handle.time_ms = key, time_ms
                if (returned := function(message, handle)) is not None:
                    raise TypeError(f"process '{self.name}' returned {returned!r:.100}: send it with handle.send")
                offsets += repeat(offset, len(handle.sent) - len(offsets))
            flush(batch.ssp, offsets)

        def fire(key: Any, time_ms: int) -> None:
            assert on_timer is not None
            handle.key, handle.time_ms, handle.sent = key, time_ms, []
            on_timer(handle)
            flush(min(task.origins[self]), [-1] * len(handle.sent))

        task.timers[self.name] = self.guarded(fire)
        return [receive]


@dataclass(eq=False, kw_only=True)
class Deduplicate(Step):
    """Passes on the first message of each key, or of each `key(message)` within a key, among the last `capacity`."""

    kind: ClassVar[str] = "deduplicate"
    keeps_state: ClassVar[bool] = True
    key: Callable[..., Any] | None = None
    capacity: int
    is_batched = False

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        known = Deduplicator(task.context.get_store(self.name), self.capacity)
        keys_of = None if self.key is None else of_batch(self.key)

        def receive(batch: Batch) -> None:
            if keys_of is None:
                refuse_null_keys(batch, batch.keys, "deduplicate() without a function")
            keys = batch.keys if keys_of is None else keys_of(batch)
            ids = map(str, keys) if keys is batch.keys else map("{}\0{!r}".format, batch.keys, keys)
            emit(selected(batch, [known.is_new_key(name) for name in ids]))

        return [receive]


@dataclass(eq=False, kw_only=True)
class Lookups(Step):
    """Asks somebody outside for each message: `function(message)`, several at a time, in the order of the messages.

    A coroutine function runs on an event loop, any other in threads. A call that has failed `retry` more times is the
    message's failure. `cache_ms`: a store keeps plain results by `key(message)` for so long, also over a restart.
    """

    kind: ClassVar[str] = "map-async"
    ask: Callable[[Any], Any | Awaitable[Any]]
    concurrency: int
    timeout_s: float
    retry: int
    per_second: float | None
    cache_ms: int = 0
    key: Callable[..., Any] | None = None
    is_batched = False
    together = ()

    @property
    def stores(self) -> Mapping[str, StoreNeed]:
        return {self.name: StoreNeed(ttl_ms=self.cache_ms)} if self.cache_ms else {}

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        cache = task.context.get_store(self.name) if self.cache_ms else None
        keys_of = None if self.key is None else of_batch(self.key)
        ask = self._asker(task)

        def receive(batch: Batch) -> None:
            if cache is None:
                emit(with_columns(batch, messages=ask(batch.messages)))
                return
            given = batch.keys if keys_of is None else keys_of(batch)
            refuse_null_keys(batch, given, "the cache of map_async, by key=... or of the message,")
            keys = list(map(str, given))
            known = cache.get_all(dict.fromkeys(keys))
            first = dict(zip(reversed(keys), reversed(batch.messages), strict=True))
            asked = {key: first[key] for key, held in known.items() if held is None}
            matches = dict(zip(asked, ask(list(asked.values())), strict=True))
            cache.put_all({key: [result] for key, result in matches.items()})
            results = {key: matches[key] if held is None else held[0] for key, held in known.items()}
            answered = with_columns(batch, messages=[results[key] for key in keys])
            refuse_unnamed(answered)
            emit(answered)

        return [receive]

    def _asker(self, task: Opening) -> Callable[[Sequence[Any]], list[Any]]:
        pace, loop = Pace(self.per_second), asyncio.new_event_loop()
        pool = ThreadPoolExecutor(self.concurrency + 1, thread_name_prefix=f"samzapy-{self.name}")
        task.closers += [lambda: pool.shutdown(wait=False, cancel_futures=True), loop.close]

        async def answer(message: Any) -> Any:
            if inspect.iscoroutinefunction(self.ask):
                return await self.ask(message)
            result = await loop.run_in_executor(pool, self.ask, message)
            return await result if inspect.isawaitable(result) else result

        wait = loop.run_until_complete  # in the pool: this thread may be in a notebook's loop
        return lambda messages: pool.submit(lambda: wait(self._all_of(answer, messages, pace))).result()

    async def _all_of(self, answer: Callable[[Any], Awaitable[Any]], messages: Sequence[Any], pace: Pace) -> list[Any]:
        places = asyncio.Semaphore(self.concurrency)

        async def one(message: Any) -> Any:
            async with places:
                for left in range(self.retry, -1, -1):
                    await asyncio.sleep(pace.wait_s())
                    try:
                        return await asyncio.wait_for(answer(message), self.timeout_s)
                    except Exception as failure:
                        if not left and isinstance(failure, asyncio.TimeoutError) and not failure.args:
                            raise TimeoutError(f"no answer within timeout={self.timeout_s:g} s") from failure
                        if not left:
                            raise
                raise AssertionError

        # All of them end before a failure is raised: nobody works on after the call.
        results = await asyncio.gather(*map(one, messages), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results


class Pace:
    """At most so many calls per second."""

    def __init__(self, per_second: float | None) -> None:
        self._between_s = 0.0 if per_second is None else 1.0 / per_second
        self._next_at = 0.0

    def wait_s(self) -> float:
        """The seconds that the next call has to wait; it is then that call's turn."""
        now = time.monotonic()
        turn_at = max(self._next_at, now)
        self._next_at = turn_at + self._between_s
        return turn_at - now
