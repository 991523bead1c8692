"""The keys that name the classes of keys and messages."""

from __future__ import annotations

import pytest

from samzapy.config.loader import load_job
from samzapy.errors import ConfigError

BASE = {
    "job.name": "typed",
    "task.class": "my:Task",
    "task.inputs": "kafka.in",
    "systems.kafka.samza.factory": "memory",
    "streams.in.samza.system": "kafka",
    "stores.s.factory": "inmemory",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "json",
}
VIEW, IN = "my.module:PageView", "streams.in.samza.msg.type"
ANY = "json, msgpack, avro, json-schema or protobuf, it"


def load(**keys):
    return load_job({**BASE, **keys}, strict=True)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({IN: VIEW}, f"{IN}: needs streams.in.samza.msg.serde={ANY} has none, got"),
        ({IN: VIEW, "streams.in.samza.msg.serde": "string"}, f"{IN}: needs streams.in.samza.msg.serde={ANY} is string"),
        ({"stores.s.key.type": VIEW}, f"stores.s.key.type: needs stores.s.key.serde={ANY} is string, got"),
        ({"stores.s.msg.type": "PageView"}, "stores.s.msg.type: expected a class like my.module:PageView, got"),
        (
            {"serializers.registry.mine.class": "my:Serde", "stores.s.msg.serde": "mine", "stores.s.msg.type": VIEW},
            f"stores.s.msg.type: needs stores.s.msg.serde={ANY} is mine, got",
        ),
    ],
)
def test_a_class_with_another_serde_is_refused(keys, problem):
    with pytest.raises(ConfigError) as refused:
        load(**keys)
    assert str(refused.value).startswith(problem)
