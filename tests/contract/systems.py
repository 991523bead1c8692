"""The systems that the contract suites run over. A system is added here, nowhere else."""

import pytest

from samzapy.api.system import SystemSettings
from samzapy.system.local.factory import MemoryCluster


def memory_settings(request):
    request.addfinalizer(MemoryCluster.reset_all)
    return SystemSettings("memory", "samzapy.system.local.factory:MemorySystemFactory")


def local_log(request):
    path = request.getfixturevalue("tmp_path") / "state" / "local.db"
    return SystemSettings("local", "samzapy.system.local.factory:LocalSystemFactory", properties={"path": str(path)})


def kafka_settings(request):
    return request.getfixturevalue("kafka_settings")


def kafka_settings_without_the_extension(request):
    for module in ("fetching", "queue"):
        request.getfixturevalue("monkeypatch").setattr(f"samzapy.system.kafka.{module}.extension", None)
    return request.getfixturevalue("kafka_settings")


SYSTEMS = {
    "memory": pytest.param(memory_settings, id="memory"),
    "local": pytest.param(local_log, id="local"),
    "kafka": pytest.param(kafka_settings, id="kafka", marks=pytest.mark.kafka),
    "kafka, not compiled": pytest.param(
        kafka_settings_without_the_extension, id="kafka, not compiled", marks=[pytest.mark.kafka, pytest.mark.slow]
    ),
}
