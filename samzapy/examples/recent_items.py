"""A store engine of your own, which keeps the last N items of each key, and a job that uses it.

    stores.NAME.factory=samzapy.examples.recent_items:RecentItemsFactory
    stores.NAME.recent.size=3

selects it in a job file. The engine is a view: it stores its structure as entries, and offers methods to tasks.
Changelog, restore, rollback and caching work on the entries. Here each item is an entry, so a commit sends only the new
items:

    n <key>          the number of items that the key ever had
    i <key> <place>  item number n, at place n modulo the size
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.engine import EngineSettings, EntrySerdes, StoreViewFactory
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.examples.flight_engines import ReportingTask

_SIZE = "recent.size"


class RecentItems:
    """The object that `context.get_store(NAME, RecentItems)` returns. All its data is in the store's entries."""

    def __init__(self, store: KeyValueStore[str, Any], size: int) -> None:
        self._store = store
        self._size = size

    def append(self, key: str, item: Any) -> None:
        """Add an item; beyond the size, it replaces the oldest."""
        count = self._store.get(f"n {key}") or 0
        self._store.put(f"i {key} {count % self._size}", item)
        self._store.put(f"n {key}", count + 1)

    def last(self, key: str) -> list[Any]:
        """The items, newest first."""
        count = self._store.get(f"n {key}") or 0
        places = [f"i {key} {n % self._size}" for n in range(count - 1, max(count - self._size, 0) - 1, -1)]
        found = self._store.get_all(places)
        return [found[place] for place in places]


class RecentItemsFactory(StoreViewFactory):
    """The factory that the job file names."""

    def entry_serdes(self, settings: EngineSettings) -> EntrySerdes:
        """Keys are strings; items use the serde of `stores.NAME.msg.serde`, json by default."""
        return EntrySerdes("string", None)

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> RecentItems:
        """See `StoreViewFactory.view`."""
        return RecentItems(store, int(settings.properties[_SIZE]))

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        """The size is required. A store with a new size needs a new changelog."""
        size = settings.properties.get(_SIZE)
        if size is None or not size.isdecimal() or not int(size):
            yield _SIZE, size, "an integer >= 1"


class LatestFlightsTask(ReportingTask):
    """Keeps the destinations of each plane's last flights in `latest`, and reports the planes of
    `latest.flights.planes`."""

    _latest: RecentItems
    _planes: list[str]

    def init(self, context: Context) -> None:
        super().init(context)
        self._latest = context.get_store("latest", RecentItems)
        self._planes = context.job.config["latest.flights.planes"].split(",")

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        flight = envelope.message
        if flight["tailnum"] is not None:
            self._latest.append(flight["tailnum"], flight["dest"])

    def report(self) -> Iterator[tuple[str, Any]]:
        for plane in self._planes:
            yield plane, self._latest.last(plane)
