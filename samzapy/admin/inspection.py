"""Answers the page's questions about committed records: a key of a store, a message of an input."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import islice

from samzapy.admin.store_queries import Question, store_entries
from samzapy.admin.streams import Literal, Range, Record, as_text, records
from samzapy.api.stream import SystemStream
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.coordinator.views import LONGEST, Inspector
from samzapy.coordinator.views import Record as Shown
from samzapy.errors import ConfigError, ConfigProblem, OffsetOutOfRange
from samzapy.serializers import serde_registry

#: Seconds without progress after which the search for a message ends: the readers of a page wait for one another.
_PATIENCE_S = 10.0


class JobInspector(Inspector):
    """Reads the changelogs and inputs of one job, with new clients for each question.

    Stores without a changelog are left out: their entries are only on the hosts of their containers.
    """

    about_stores = "A store is read from its changelog, which may take some seconds."

    def __init__(self, config: JobConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        self._config = config
        self._clock = clock
        self.stores = sorted(name for name, store in config.stores.items() if store.changelog is not None)
        self.streams = sorted({str(stream) for stream in config.task.inputs})

    def entries(self, store: str, key: str) -> Sequence[Shown]:
        if store not in self.stores:
            allowed = f"the stores with a changelog are {', '.join(self.stores)}"
            raise ConfigError([ConfigProblem("store", store, allowed)])
        with store_entries(Question(self._config, store)) as entries:
            return [
                _found(f"store {store}, partition {entry.partition}", *entries.values(entry))
                for entry in entries.of_keys([key])
            ]

    def message(self, stream: str, partition: str, offset: str) -> Sequence[Shown]:
        if stream not in self.streams:
            raise ConfigError([ConfigProblem("stream", stream, f"the inputs are {', '.join(self.streams)}")])
        if not partition.isdecimal() or len(partition) > 9:
            raise ConfigError([ConfigProblem("partition", partition, "expected a number from 0")])
        place = SystemStream.parse(stream)
        wanted = Range(offset, (int(partition),), patience_s=_PATIENCE_S)
        settings = self._config.systems[place.system]
        try:
            with closing(records(settings, place, wanted, self._clock)) as matches:
                return [self._shown(place, record) for record in islice(matches, 1)]
        except OffsetOutOfRange as cause:
            raise ConfigError([ConfigProblem("offset", offset, str(cause))]) from cause

    def _shown(self, stream: SystemStream, record: Record) -> Shown:
        registry = serde_registry(self._config)
        known = self._config.stream(stream)
        place = f"{record.ssp}@{record.offset}"

        def decoded(serde: str | None, data: bytes | None, part: str) -> object:
            return Literal(serde or "bytes", registry[serde or "bytes"]).decode(data, place, part)

        return _found(
            place, decoded(known.key_serde, record.key, "key"), decoded(known.msg_serde, record.value, "message")
        )


def _found(place: str, key: object, value: object) -> Shown:
    return Shown(place, as_text(key)[:LONGEST], as_text(value)[:LONGEST])
