"""Keys and messages have classes for type checkers, and none at run time: the envelope stays the tuple it was."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from samzapy import (
    AsyncStreamTask,
    CoroutineTask,
    IncomingMessageEnvelope,
    KeyValueStore,
    StreamTask,
    SystemStreamPartition,
)
from samzapy.api.envelope import envelopes_of

EXAMPLE = """
from dataclasses import dataclass
from typing import Any

from typing_extensions import reveal_type

from samzapy import (
    BatchTask,
    Context,
    IncomingMessageEnvelope,
    InitableTask,
    KeyValueStore,
    MessageBatch,
    MessageCollector,
    StreamTask,
    SystemStreamPartition,
    TaskCoordinator,
)


@dataclass
class PageView:
    user: str


Viewed = IncomingMessageEnvelope[str, PageView]


class Typed(StreamTask[str, PageView], InitableTask):
    def init(self, context: Context) -> None:
        self.store: KeyValueStore[str, int] = context.get_store("views")

    def process(self, envelope: Viewed, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        reveal_type(envelope.message)  # PageView
        reveal_type(envelope.key)  # str
        reveal_type(envelope.offset)  # int
        reveal_type(self.store.get(envelope.key))  # int | None


class Batches(BatchTask[str, PageView]):
    def process_batch(
        self, batch: MessageBatch[str, PageView], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        reveal_type(batch.messages[0])  # PageView
        reveal_type(batch[0].message)  # PageView
        reveal_type(batch[1:][0].key)  # str
        for each in batch:
            reveal_type(each.message)  # PageView


class Untyped(StreamTask):
    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        reveal_type(envelope.message)  # Any
        envelope.message["user"].title()


envelope = IncomingMessageEnvelope(SystemStreamPartition("kafka", "views", 0), 0, "ann", PageView("ann"))
reveal_type(envelope.message)  # PageView
"""

ROOT = Path(__file__).parents[3]
WANTED = re.findall(r"reveal_type\(.*\)  # (.*)", EXAMPLE)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "example.py"
    path.write_text(EXAMPLE)
    return path


def test_mypy_in_strict_mode_knows_the_class_of_a_message(example: Path) -> None:
    """With the cache that the check of all types fills: without it this takes a quarter of a minute."""
    run = _checked("mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), str(example))
    assert [found.rpartition(".")[2] for found in re.findall(r'Revealed type is "(.*)"', run.stdout)] == WANTED
    assert run.returncode == 0, run.stdout


def _checked(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", tool, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=150
    )


def test_an_envelope_with_classes_is_made_and_pickled_as_a_plain_tuple() -> None:
    envelope = IncomingMessageEnvelope(SystemStreamPartition("kafka", "views", 3), 17, "ann", {"page": "/"})
    assert tuple(envelope) == (("kafka", "views", 3), 17, "ann", {"page": "/"}, None, -1, -1, 0)
    assert pickle.loads(pickle.dumps(envelope)) == envelope
    assert type(envelope._replace(key="gus")) is IncomingMessageEnvelope
    assert not hasattr(envelope, "__dict__")
    assert repr(envelope).startswith("IncomingMessageEnvelope(ssp=")


def test_an_envelope_of_a_row_is_the_one_that_its_fields_make() -> None:
    row = (SystemStreamPartition("kafka", "views", 3), 17, "ann", {"page": "/"}, [("a", b"1")], 5, 6, 7)
    (envelope,) = envelopes_of([row])
    assert type(envelope) is IncomingMessageEnvelope
    rest = dict(zip(envelope._fields[4:], row[4:], strict=True))
    assert envelope == IncomingMessageEnvelope(*row[:4], **rest) == row
    assert (envelope.key, envelope.headers, envelope.size) == ("ann", [("a", b"1")], 7)
    assert copy.copy(envelope) == envelope
    with pytest.raises(TypeError, match="'message'"):
        IncomingMessageEnvelope(row[0], 17, "ann")  # type: ignore[call-arg]


def test_the_fields_of_an_envelope_are_read_by_c() -> None:
    for field in ("key", "message", "offset"):
        (getter,) = [vars(each)[field] for each in IncomingMessageEnvelope.__mro__ if field in vars(each)]
        assert type(getter).__name__ == "_tuplegetter"


@pytest.mark.parametrize(
    "generic", [StreamTask, AsyncStreamTask, CoroutineTask, IncomingMessageEnvelope, KeyValueStore]
)
def test_tasks_envelopes_and_stores_take_the_classes_of_keys_and_messages(generic: type) -> None:
    assert generic[str, int].__args__ == (str, int)  # type: ignore[index]
