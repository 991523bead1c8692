from itertools import count
from types import SimpleNamespace

import pytest

from samzapy.api.system import SystemFactory, SystemSettings
from samzapy.config.reading.classes import SYSTEMS
from samzapy.errors import ConfigError
from samzapy.replay.past import PastFactory
from samzapy.system.clients import SystemClients, load_factory, system_factory, traits_of
from samzapy.system.local.factory import LocalSystemFactory, MemorySystemFactory


@pytest.mark.parametrize("factory", [MemorySystemFactory, LocalSystemFactory])
def test_a_factory_is_found_by_its_class_path(factory):
    path = f"{factory.__module__}:{factory.__name__}"
    assert isinstance(system_factory(SystemSettings("s", path)), factory)


class NeedsArguments(SystemFactory):
    def __init__(self, something):
        self.something = something

    consumer = producer = admin = None


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.such.module:Factory", "cannot import no.such.module"),
        ("samzapy.system.local.factory:MemorySystemFactry", "did you mean MemorySystemFactory?"),
        ("samzapy.system.local.factory:MemoryCluster", "must name a subclass of"),
        ("not a path", "expected an importable class like my.module:MyTask, got 'not a path'"),
        (f"{__name__}:NeedsArguments", "cannot be made without arguments"),
    ],
)
def test_what_is_no_factory_is_refused_with_the_key_in_one_line(path, message):
    with pytest.raises(ConfigError) as raised:
        system_factory(SystemSettings("orders", path))
    text = str(raised.value)
    assert text.startswith("systems.orders.samza.factory: ")
    assert message in text
    assert (text.count("got "), text.count("\n")) == (1, 0)


def test_bad_settings_are_refused_with_every_key():
    properties = {"path": " ", "synchronous": "off"}
    settings = SystemSettings("s", "samzapy.system.local.factory:LocalSystemFactory", properties=properties)
    with pytest.raises(ConfigError) as raised:
        system_factory(settings)
    assert {problem.key for problem in raised.value.problems} == {"systems.s.path", "systems.s.synchronous"}


def test_a_system_says_itself_what_it_takes_and_how_well_it_keeps_records():
    def settings(factory, **more):
        return SystemSettings("s", SYSTEMS.short[factory], **more)

    def asked(found):
        traits = traits_of(found)
        return traits.read_only, traits.max_record_bytes, [key for key, _ in traits.risks]

    limited = {"producer": {"message.max.bytes": "77"}}
    assert asked(settings("kafka")) == (False, 1_000_000, [])
    assert asked(settings("kafka", **limited)) == (False, 77, [])
    assert asked(settings("memory")) == (False, None, ["samza.factory"])
    assert asked(settings("local")) == (False, None, ["synchronous"])
    assert asked(settings("local", properties={"synchronous": "full"}, **limited)) == (False, 77, [])
    assert asked(settings("database", properties={"database.url": "sqlite:///shop.db"})) == (True, None, [])


@pytest.mark.parametrize(
    ("factory", "producer", "expected"),
    [
        ("kafka", {}, False),
        ("kafka", {"compression.type": "none"}, False),
        ("kafka", {"compression.type": "zstd"}, True),
        ("kafka", {"compression.codec": "lz4"}, True),
        ("memory", {"compression.type": "zstd"}, False),
    ],
)
def test_a_system_says_whether_its_producer_compresses(factory, producer, expected):
    settings = SystemSettings("s", SYSTEMS.short[factory], producer=producer)
    real = load_factory(settings)
    assert [each.traits(settings).compresses for each in (real, PastFactory(real, None))] == [expected] * 2


def test_closed_clients_are_made_again_and_counted_in_place_of_the_old():
    made = (SimpleNamespace(metrics=lambda n=n: {"nth": n}, close=bool) for n in count(1))
    factory = SimpleNamespace(producer=lambda *_: next(made))
    clients = SystemClients({"s": SystemSettings("s", "memory")}, lambda _: factory, "test")
    clients.producer("s")
    clients.close()
    clients.producer("s")
    assert clients.metrics() == {"s/producer/nth": 2}
