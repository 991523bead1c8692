"""Entries are read with the serdes they were written with."""

import pytest
from rigs.store_rig import LOGGED, store_job

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.serde import Serde
from samzapy.api.system import SystemSettings
from samzapy.config.loader import load_job
from samzapy.config.reading.classes import SCHEMA_SERDES
from samzapy.config.streams.serdes import key_identity, serde_identity
from samzapy.errors import ConfigError
from samzapy.serializers import serde_registry
from samzapy.storage.local.directory import set_asides
from samzapy.storage.local.marker import Marker
from samzapy.storage.spec import check_checkpoints, store_specs
from samzapy.system.local.factory import MemoryCluster
from samzapy.testing import open_store

JOB = store_job(LOGGED | {"msg.serde": "long"})


@pytest.fixture
def opened_as(tmp_path):
    """Opens the store with other keys of the job file, always on the same changelog and disk."""
    MemoryCluster.reset_all()
    settings = SystemSettings("changelogs", "samzapy.system.local.factory:MemorySystemFactory")
    return lambda **keys: open_store(
        {key: value for key, value in (JOB | keys).items() if value is not None}, "s", tmp_path, changelogs=settings
    )


def test_a_local_store_with_other_serdes_is_an_error_that_names_both_and_is_left_alone(opened_as):
    with opened_as() as opened:
        opened.store.put("a", 10)
        opened.commit()
        directory = opened.directory
    message = r"stores\.s\.msg\.serde: the store was written with long, this is double: .*, got 'double'"
    with pytest.raises(ConfigError, match=message) as caught, opened_as(**{"stores.s.msg.serde": "double"}):
        pass
    assert caught.value.exit_code == 2
    assert set_asides(directory) == []
    with opened_as() as opened:
        assert opened.store.get("a") == 10


def test_the_marker_says_what_the_entries_are_written_with_whatever_the_job_file_calls_it(opened_as):
    renamed = {
        "serializers.registry.mine.class": "org.apache.samza.serializers.LongSerdeFactory",
        "stores.s.msg.serde": "mine",
    }
    for keys in ({}, renamed):
        with opened_as(**keys) as opened:
            opened.store.put("a", 10)
            opened.commit()
            held = opened.stores.held["s"]
            assert Marker.from_bytes(held.engine.marker()).identity.serdes == ("string", "long")
            assert opened.stores.serdes == {"s": ("string", "long")}


def test_a_checkpoint_names_every_store_whose_serdes_differ_once():
    keys = {
        key.replace("stores.s.", f"stores.{name}."): value.replace("memory.s-log", f"memory.{name}")
        for key, value in JOB.items()
        for name in ("s", "t", "u")
    }
    config = load_job(keys)
    written = Checkpoint({}, serdes={"s": ("string", "double"), "t": ("json", "double"), "u": ("string", "long")})
    with pytest.raises(ConfigError) as caught:
        check_checkpoints(store_specs(config), [written, None, written, Checkpoint({})])
    found = [problem.key for problem in caught.value.problems]
    assert found == ["stores.s.msg.serde", "stores.t.key.serde", "stores.t.msg.serde"]


def test_a_store_without_a_changelog_may_get_other_serdes():
    config = load_job({key: value for key, value in JOB.items() if not key.endswith("changelog")})
    check_checkpoints(store_specs(config), [Checkpoint({}, serdes={"s": ("json", "json")})])


class OwnSerde(Serde):
    def to_bytes(self, value):
        return value

    def from_bytes(self, data):
        return data


def test_every_built_in_serde_goes_by_one_name_however_it_is_reached():
    classes = load_job(JOB).serdes
    for name, path in classes.items():
        identity = serde_identity(name, classes)
        assert identity == ("bytes" if name in {"byte", "bytebuffer"} else name)
        module, _, simple = path.rpartition(":")
        assert serde_identity("mine", {"mine": f"{module}.{simple}"}) == identity
        url = {f"serializers.registry.{name}.url": "mock://identity"} if path in SCHEMA_SERDES else {}
        assert serde_identity(serde_registry({**JOB, **url})[name], classes) == identity


def test_a_serde_of_the_users_goes_by_its_class():
    own = f"{__name__}:OwnSerde"
    assert serde_identity("mine", {"mine": own}) == own
    assert serde_identity("mine", {"mine": f"{__name__}.OwnSerde"}) == own
    assert serde_identity(OwnSerde(), {}) == own


def test_json_whose_keys_are_sorted_is_another_serde_for_keys_alone():
    sorting = {"serializers.registry.json.sort.keys": "true"}
    classes = load_job(JOB).serdes
    assert key_identity("json", classes, sorting) != key_identity("json", classes, {})
    config = load_job(JOB | sorting | {"stores.s.msg.serde": "json"})
    assert store_specs(config)["s"].serde_names == ("string", "json")
