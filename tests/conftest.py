"""What several suites share: the real development broker, started once and only if a test asks for it."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from samzapy.admin import user_code
from samzapy.api.system import StreamSpec, SystemAdmin, SystemSettings
from samzapy.container.supervision.outage import OUTAGES
from samzapy.devkafka import DevBroker
from samzapy.errors import EnvironmentFailure
from samzapy.java import SPARK, find_java

#: A file system in memory, and the free bytes that the files of the quick tests may need there.
MEMORY, ROOM = Path("/dev/shm"), 4 << 30  # pytest makes a folder for this user only


def pytest_configure(config: pytest.Config) -> None:
    """The files of the quick tests (`-m "not slow"`) are in memory, if there is room. To open, flush and close a
    RocksDB store takes two dozen waits for the disk, and they were half of the time of these tests. No test sees a
    difference: a kill loses nothing that was written, on either. All other runs have their files on disk, as jobs
    do."""
    with suppress(ImportError):
        from hypothesis import settings  # the tests on other versions of packages do without

        # No test depends on the speed of its machine.
        settings.register_profile("unhurried", deadline=None)
        settings.load_profile("unhurried")
    if config.option.markexpr == "not slow" and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture(autouse=True)
def _no_outage_of_another_test() -> None:
    """The outages of a process outlast the objects that have noticed them, and a process runs many tests."""
    OUTAGES.__init__()  # type: ignore[misc]


@pytest.fixture(autouse=True)
def _no_code_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process runs the jobs of one folder with modules, and a process runs many tests."""
    monkeypatch.setattr(user_code, "_first_folder", None)


@pytest.fixture(autouse=True)
def _only_the_tests_own_garbage() -> None:
    """Collects the garbage of the test before, and nothing else that the suite has loaded: that takes half a second. A
    container does so at its start, unless the collector is off, which was half of the time of the containers' tests."""
    gc.set_threshold(0)
    gc.collect(1)
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _the_java_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Leads Spark's own scripts, and sessions that tests start by themselves, to the Java that samzapy finds."""
    with suppress(EnvironmentFailure):
        java = find_java(SPARK)
        os.environ.update(java.environment(tmp_path_factory.mktemp("java")))


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevBroker]:
    """A broker of this test run on a free port; it ends with the run."""
    folder: Path = tmp_path_factory.mktemp("kafka")
    broker = DevBroker(folder, tied=True)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def kafka(kafka_broker: DevBroker) -> str:
    """The bootstrap string of the run's broker."""
    return kafka_broker.start()


@pytest.fixture(scope="session")
def kafka_settings(kafka: str) -> SystemSettings:
    """A system named `kafka` on the run's broker."""
    return SystemSettings("kafka", "samzapy.system.kafka:KafkaSystemFactory", consumer={"bootstrap.servers": kafka})


@pytest.fixture(scope="session")
def kafka_admin(kafka_settings: SystemSettings) -> Iterator[SystemAdmin]:
    """An admin of the run's broker."""
    from samzapy.system.kafka import KafkaSystemFactory

    admin = KafkaSystemFactory().admin(kafka_settings, "tests")
    yield admin
    admin.close()


@pytest.fixture
def clients() -> Iterator[Callable[[Any], Any]]:
    """`clients(client)` gives the client back, and closes it after the test, the last one first."""
    made: list[Any] = []

    def keep(client: Any) -> Any:
        made.append(client)
        return client

    yield keep
    for client in reversed(made):
        client.close()


_topics = count()


@pytest.fixture
def unique_topic(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Names no other test uses: `unique_topic()`, `unique_topic("changelog")`."""

    def name(what: str = "topic") -> str:
        return f"{request.node.originalname or 'test'}-{what}-{next(_topics)}"[-200:]

    return name


@pytest.fixture
def topic(kafka_admin: SystemAdmin, unique_topic: Callable[..., str]) -> Callable[..., str]:
    """`topic(partitions)` creates a topic on the run's broker."""

    def create(partitions: int = 1) -> str:
        name = unique_topic()
        kafka_admin.create(StreamSpec(name, partitions))
        return name

    return create
