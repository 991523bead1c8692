"""The classes that a task's own code names, and those that are for the type checker alone."""

from __future__ import annotations

from typing import Annotated, Generic, NewType, TypeAlias, TypeVar

import pytest
from jobs import typed_views
from jobs.typed_views import PageView, Place
from typing_extensions import TypeAliasType

from samzapy import IncomingMessageEnvelope, StreamTask
from samzapy.api.stream import SystemStream
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError
from samzapy.operators import DeduplicatingTask
from samzapy.operators.windows import WindowedBatchTask, WindowedTask
from samzapy.serializers import StreamSerdes, message_types, task_serdes

V = TypeVar("V")
NAMED = [
    ("Counting", None, PageView),
    ("ByParameter", None, PageView),
    ("ByText", None, PageView),
    ("ThroughAnother", None, PageView),
    ("ThroughAList", None, list[PageView]),
    ("Inheriting", None, PageView),
    ("Asynchronous", Place, PageView),
    ("Coroutine", None, PageView),
    ("ByBatch", None, PageView),
    ("ForTheChecker", None, None),
    ("Silent", None, None),
    ("Sending", None, None),
    ("Middle", None, None),
]


@pytest.mark.parametrize(("task", "key", "message"), NAMED)
def test_a_task_names_the_classes_of_its_messages(task, key, message):
    assert message_types(getattr(typed_views, task)) == (key, message)


def test_a_class_that_is_made_in_a_function_is_found_by_the_brackets_of_the_base():
    class Local(StreamTask[str, PageView]):
        def process(self, envelope: IncomingMessageEnvelope[str, PageView], collector, coordinator): ...

    assert message_types(Local).message is PageView


@pytest.mark.parametrize("base", [WindowedTask, WindowedBatchTask, DeduplicatingTask])
def test_the_brackets_of_an_operators_task_name_the_classes_too(base):
    class Local(base[str, PageView]): ...

    assert message_types(Local) == (None, PageView)
    assert message_types(base) == (None, None)


View = NewType("View", PageView)
Views = TypeAliasType("Views", list[PageView])
Pair = TypeAliasType("Pair", tuple[V, PageView], type_params=(V,))
Listed = TypeAliasType("Listed", list[V], type_params=(V,))


@pytest.mark.parametrize(
    "kind", [View, Views, Pair[int], Listed[PageView], Annotated[PageView, "seen"], NewType("Again", View)]
)
def test_another_name_of_a_class_names_it_too(kind):
    class Local(StreamTask[str, kind]):
        def process(self, envelope, collector, coordinator): ...

    assert message_types(Local) == (None, kind)


Envelope: TypeAlias = IncomingMessageEnvelope[Place, PageView]


def test_an_annotation_without_brackets_may_be_for_the_checker_alone():
    class Local(StreamTask):
        def process(self, envelope: Missing, collector, coordinator): ...  # noqa: F821

    assert message_types(Local) == (None, None)


def test_a_base_without_brackets_leaves_the_classes_to_the_next():
    class Mixin(StreamTask): ...

    class Typed(StreamTask[str, PageView]):
        def process(self, envelope, collector, coordinator): ...

    class Both(Mixin, Typed): ...

    class Again(StreamTask[str, Place], Generic[V]): ...

    class First(Both, Again[V]): ...

    assert message_types(Both).message is PageView
    assert message_types(First).message is PageView


def test_a_name_that_is_not_there_when_the_code_runs_is_refused():
    with pytest.raises(ConfigError, match=r"OfAbsentName.process: .*'Missing' is not defined.*TYPE_CHECKING"):
        message_types(typed_views.OfAbsentName)


def test_a_name_in_the_brackets_that_is_not_there_when_the_code_runs_is_refused():
    class Local(StreamTask[str, "Missing"]):
        def process(self, envelope, collector, coordinator): ...

    class Inheriting(Local): ...

    expected = r"^task.class: Local, in the brackets of StreamTask: the annotation 'Missing' .*TYPE_CHECKING"
    for task in (Local, Inheriting):
        with pytest.raises(ConfigError, match=expected):
            message_types(task)


def serdes(task, **keys):
    pairs = {
        "job.name": "typed",
        "task.class": f"jobs.typed_views:{task}",
        "task.inputs": "kafka.in,kafka.plain,kafka.text",
        "systems.kafka.samza.factory": "memory",
        "systems.kafka.samza.key.serde": "string",
        "systems.kafka.samza.msg.serde": "json",
        "systems.kafka.streams.plain.samza.msg.serde": "msgpack",
        "systems.kafka.streams.text.samza.msg.serde": "string",
    }
    config = load_job({**pairs, **keys})
    return StreamSerdes(config, task_serdes(config), getattr(typed_views, task))


def kinds(found, *streams):
    return [tuple(serde.object_type for serde in found(SystemStream("kafka", name))) for name in streams]


def test_inputs_with_json_or_msgpack_have_the_class_of_the_code_and_no_other_stream_has():
    found = serdes("Counting")
    assert kinds(found, "in", "plain", "text", "out") == [
        (None, PageView),
        (None, PageView),
        (None, None),
        (None, None),
    ]


def test_the_class_in_the_job_file_wins():
    found = serdes("Counting", **{"systems.kafka.streams.in.samza.msg.type": "jobs.typed_views:StrictView"})
    assert kinds(found, "in", "plain") == [(None, typed_views.StrictView), (None, PageView)]


def test_a_class_that_json_cannot_be_decoded_to_is_refused():
    with pytest.raises(ConfigError, match=r"^task.class: OfPlain names a class for kafka.in: Plain is none of"):
        serdes("OfPlain")
