"""The stores of a container's tasks, opened together: what that asks of the system, and what a failure leaves."""

from collections import Counter
from pathlib import Path

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec, change_columns
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure, StoreError
from samzapy.serializers.registry import serde_registry
from samzapy.storage.local.directory import set_asides, store_directory
from samzapy.storage.opening import StoreOpener, StoreOwner, close_all
from samzapy.storage.spec import store_specs
from samzapy.storage.store import StoreState
from samzapy.system.clients import system_factory

TASKS = 20


class CountingAdmin:
    """Counts what it is asked for, and by which threads."""

    def __init__(self, admin):
        self._admin = admin
        self.calls = Counter()

    def create_all(self, specs):
        return self._admin.create_all(specs)

    def describe_all(self, streams):
        self.calls["describe"] += 1
        return {stream: self._admin.describe(stream) for stream in streams}

    def offsets(self, ssps):
        self.calls["offsets"] += 1
        return self._admin.offsets(ssps)


class Rig:
    def __init__(self, folder, **overrides):
        self.config = load_job(
            {
                "job.name": "many",
                "task.class": "a:B",
                "task.inputs": "mem.in",
                "systems.mem.samza.factory": "memory",
                "stores.s.factory": "rocksdb",
                "stores.s.key.serde": "string",
                "stores.s.msg.serde": "string",
                "stores.s.changelog": f"mem.s-{folder.name}",
                "job.logged.store.base.dir": str(folder),
                **overrides,
            }
        )
        settings = self.config.systems["mem"]
        self._factory, self._settings = system_factory(settings), settings
        self.stream = self.config.stores["s"].changelog.stream
        self.admin = CountingAdmin(self._factory.admin(settings, "test"))
        self.admin._admin.create(StreamSpec(self.stream, TASKS, {"cleanup.policy": "compact"}))

    def write(self, partition, key, value):
        producer = self._factory.producer(self._settings, "test")
        producer.send_columns(change_columns(self.stream, partition, [(key, value)]))
        producer.flush()
        producer.close()

    def opener(self):
        return StoreOpener(
            self.config,
            store_specs(self.config),
            serde_registry(self.config),
            admin_of=lambda _: self.admin,
            clock=SYSTEM_CLOCK,
            lock_wait_s=0.0,
        )

    def begin(self, partitions=range(TASKS)):
        return self.opener().open([StoreOwner(f"Partition {number}", number) for number in partitions])

    def restored(self):
        opener = self.opener()
        opened = opener.open([StoreOwner(f"Partition {number}", number) for number in range(TASKS)])
        return opener.restore(opened, lambda _: self._factory.consumer(self._settings, "test"))

    def directory(self, number):
        return store_directory(self.config.logged_store_base_dir, self.config.job_name, "s", f"Partition {number}")


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def test_a_changelog_and_a_folder_are_looked_at_once_for_all_tasks(rig, monkeypatch):
    looks = []
    monkeypatch.setattr(Path, "iterdir", lambda path, real=Path.iterdir: looks.append(path) or real(path))
    for number in (0, 7):
        rig.write(number, b"k", b"%d" % number)
    stores = rig.restored()
    assert rig.admin.calls == {"describe": 1, "offsets": 1}
    assert looks.count(rig.directory(0).parent) == 1
    assert [dict(each.stores["s"].all()) for each in stores] == [
        {"k": str(number)} if number in {0, 7} else {} for number in range(TASKS)
    ]
    close_all([each.held for each in stores])


def test_if_one_store_fails_none_stays_open(rig):
    path = rig.directory(11)
    path.parent.mkdir(parents=True)
    path.write_text("no directory")
    with pytest.raises((StoreError, OSError), match="Partition_11"):
        rig.begin()
    path.unlink()
    close_all(rig.begin())


def test_a_task_without_a_partition_of_the_changelog_fails_before_any_store_is_opened(rig):
    with pytest.raises(EnvironmentFailure, match=f"has {TASKS} partitions, the task needs partition {TASKS}"):
        rig.begin([*range(TASKS), TASKS])
    close_all(rig.begin())


def test_engines_that_are_bound_to_a_thread_are_opened_on_the_callers(tmp_path):
    rig = Rig(tmp_path, **{"stores.s.factory": "memory"})
    stores = rig.restored()
    assert len(stores) == TASKS
    assert rig.admin.calls == {"describe": 1, "offsets": 1}
    close_all([each.held for each in stores])


def test_offsets_of_every_task_are_those_of_its_own_partition(rig):
    rig.write(3, b"k", b"v")
    opened = rig.begin()
    restores = [stores["s"].restore() for stores in opened]
    assert [restore.ssp for restore in restores if restore] == [SystemStreamPartition("mem", rig.stream, 3)]
    close_all(opened)


def test_a_store_prints_its_state_on_its_way(rig, caplog):
    rig.write(0, b"k", b"v")
    opener = rig.opener()
    opened = opener.open([StoreOwner("Partition 0", 0)])
    store = opened[0]["s"]
    assert str(store) == "Store Partition 0/s OPENED: nothing"
    with caplog.at_level("DEBUG"):
        (stores,) = opener.restore(opened, lambda _: rig._factory.consumer(rig._settings, "test"))
    assert store.state is StoreState.READY
    assert "Store Partition 0/s READY: changelog, 1 records in" in caplog.text
    stores.refuse(store.changelog, "another writer")
    assert store.state is StoreState.REFUSED
    stores.close()
    assert [aside.suffix.partition("-")[0] for aside in set_asides(rig.directory(0))] == [".foreign"]
