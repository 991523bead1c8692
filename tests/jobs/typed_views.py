"""Classes of keys and messages of every kind, and tasks over them."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import attrs
import msgspec
import pydantic

from samzapy import IncomingMessageEnvelope, InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.api.envelope import MessageBatch
from samzapy.api.task import AsyncStreamTask, BatchTask, CoroutineTask

OUT = SystemStream("kafka", "out")
V = TypeVar("V")


class PageView(msgspec.Struct):
    user: str
    page: str = "/"


class StrictView(msgspec.Struct, forbid_unknown_fields=True):
    user: str


class Place(msgspec.Struct, frozen=True, order=True):
    site: str
    page: str


class Visits(msgspec.Struct):
    count: int


class VisitsSince(msgspec.Struct):
    count: int
    since_ms: int | None = None
    pages: list[str] = []


class NamedVisits(msgspec.Struct):
    count: str


@dataclasses.dataclass
class DataView:
    user: str
    page: str = "/"


@attrs.define
class AttrsView:
    user: str
    page: str = "/"


class DictView(TypedDict):
    user: str
    page: str


class TupleView(NamedTuple):
    user: str
    page: str = "/"


class ModelView(pydantic.BaseModel):
    user: str
    page: str = "/"


class Click(msgspec.Struct, tag=True):
    user: str


class Scroll(msgspec.Struct, tag=True):
    depth: int


class Plain:
    """Nothing can be decoded to it."""


Event = Click | Scroll
UserMap = dict[str, int]
Models = list[ModelView]


class Counting(StreamTask[str, PageView], InitableTask):
    """Counts by user, and sends what it has got."""

    def init(self, context):
        self.visits = context.get_store("visits")

    def process(self, envelope, collector, coordinator):
        view = envelope.message
        held = self.visits.get(view.user) or Visits(0)
        held.count += 1
        self.visits.put(view.user, held)
        collector.send(OutgoingMessageEnvelope(OUT, view, key=envelope.key))


class Sending(StreamTask):
    """Sends its message as it is."""

    def process(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(OUT, envelope.message, key=envelope.key))


class ByParameter(StreamTask):
    def process(self, envelope: IncomingMessageEnvelope[str, PageView], collector, coordinator): ...


class ByText(StreamTask["str", "PageView"]):
    def process(self, envelope, collector, coordinator): ...


class Middle(StreamTask[str, V], Generic[V]):
    def process(self, envelope, collector, coordinator): ...


class ThroughAnother(Middle[PageView]): ...


class ThroughAList(Middle[list[PageView]]): ...


class Inheriting(ByParameter): ...


class Asynchronous(AsyncStreamTask):
    def process_async(self, envelope: IncomingMessageEnvelope[Place, PageView], collector, coordinator, callback): ...


class Coroutine(CoroutineTask[str, PageView]):
    async def process(self, envelope, collector, coordinator): ...


class ByBatch(BatchTask):
    def process_batch(self, batch: MessageBatch[str, PageView], collector, coordinator): ...


class ForTheChecker(StreamTask[str, dict[str, Any]]):
    def process(self, envelope: IncomingMessageEnvelope[int, list[float]], collector, coordinator): ...


class Silent(StreamTask):
    def process(self, envelope: IncomingMessageEnvelope, collector, coordinator): ...


class OfAbsentName(StreamTask):
    def process(self, envelope: IncomingMessageEnvelope[str, Missing], collector, coordinator): ...  # noqa: F821


class OfPlain(StreamTask[str, Plain]):
    def process(self, envelope, collector, coordinator): ...
