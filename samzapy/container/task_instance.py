"""One running task: the user's object, its stores, its position."""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NoReturn

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import SystemProducer
from samzapy.api.task import ClosableTask, EndOfStreamListenerTask, InitableTask, StreamTask, WindowableTask
from samzapy.container.collector import BufferingCollector
from samzapy.container.coordinator_requests import CoordinatorRequests
from samzapy.container.identify import IdentifiedProcess
from samzapy.errors import SamzapyError, TaskFailed
from samzapy.storage.manager import TaskStores

_offset = attrgetter("offset")


class TaskInstance:
    """Calls the user's methods, and knows which input is processed up to where.

    `offsets` holds the next offset to process of each partition; `touched` says whether the user's code has run since
    the last commit, so whether a commit would say anything new.
    """

    __slots__ = (
        "_process",
        "changelog_offsets",
        "collector",
        "name",
        "offsets",
        "processed",
        "producer_of",
        "requests",
        "stores",
        "task",
        "touched",
    )

    def __init__(
        self,
        name: str,
        task: StreamTask,
        stores: TaskStores,
        collector: BufferingCollector,
        producer_of: Callable[[str], SystemProducer],
        offsets: dict[SystemStreamPartition, int],
        *,
        identify: bool = False,
    ) -> None:
        """`producer_of` gives the producer of the task's changelogs and checkpoint on a system; `identify`: outputs
        carry the id of the input they came from."""
        if inspect.iscoroutinefunction(task.process):
            raise TaskFailed(
                f"{type(task).__name__}.process is a coroutine function; a StreamTask's process is not awaited"
            )
        self.name = name
        self.task = task
        self.stores = stores
        self.collector = collector
        self._process = IdentifiedProcess(task, collector).process if identify else task.process
        self.producer_of = producer_of
        self.offsets = offsets
        self.touched = False
        self.changelog_offsets: dict[str, int] = {}
        self.requests = CoordinatorRequests()
        self.processed = 0

    @property
    def visible_stores(self) -> Mapping[str, KeyValueStore[Any, Any]]:
        """The stores as the user's code gets them, by name."""
        return self.stores.stores

    def init(self, context: Context) -> None:
        """Call the user's `init`, if there is one."""
        if isinstance(self.task, InitableTask):
            try:
                self.task.init(context)
            except SamzapyError:
                raise
            except BaseException as cause:
                raise self._failed("init", cause) from cause

    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        """Process messages of one partition until the task asks for something; returns how many were processed.

        Raises TaskFailed, naming the message's position, when the user's code raises; the position stays before it.
        """
        process, collector, requests = self._process, self.collector, self.requests
        self.touched = True
        envelope = envelopes[0]
        try:
            for envelope in envelopes:  # the handler and the position need the last one
                process(envelope, collector, requests)
                if requests.pending:
                    break
        except BaseException as cause:  # noqa: BLE001  # told where
            self._raise(envelope, cause)
        self.offsets[ssp] = envelope.offset + 1
        done = bisect_right(envelopes, envelope.offset, key=_offset) if requests.pending else len(envelopes)
        self.processed += done
        return done

    def window(self) -> None:
        """Call the user's `window`."""
        assert isinstance(self.task, WindowableTask)
        self.touched = True
        try:
            self.task.window(self.collector, self.requests)
        except SamzapyError:
            raise
        except BaseException as cause:
            raise self._failed("window", cause) from cause

    def end_of_stream(self) -> None:
        """Tell a task that listens that all its partitions have ended."""
        if isinstance(self.task, EndOfStreamListenerTask):
            self.touched = True
            try:
                self.task.on_end_of_stream(self.collector, self.requests)
            except SamzapyError:
                raise
            except BaseException as cause:
                raise self._failed("on_end_of_stream", cause) from cause

    def publish(self, metrics: MetricsRegistry) -> None:
        """Set the task's gauges: what it processed and sent, and its stores' own."""
        metrics.gauge(self.name, "processed").set(self.processed)
        metrics.gauge(self.name, "sent").set(self.collector.sent)
        for name, value in self.stores.metrics().items():
            metrics.gauge(self.name, f"store.{name}").set(value)

    def close(self) -> None:
        """Call the user's `close`, if there is one."""
        if isinstance(self.task, ClosableTask):
            try:
                self.task.close()
            except Exception as cause:
                raise self._failed("close", cause) from cause

    def _raise(self, envelope: IncomingMessageEnvelope, cause: BaseException) -> NoReturn:
        """End the attempt over a message: what samzapy raised speaks for itself, the rest is the task's failure."""
        if isinstance(cause, SamzapyError):
            raise cause
        raise self._failed(f"process of {envelope.position}", cause) from cause

    def _failed(self, where: str, cause: BaseException) -> TaskFailed:
        return TaskFailed(f"{self.name}: {where} failed: {type(cause).__name__}: {cause}")
