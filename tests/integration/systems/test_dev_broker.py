"""The development broker of a folder, with a real Kafka."""

from contextlib import closing

import pytest

from samzapy.api.system import StreamSpec, SystemSettings
from samzapy.devkafka import DevBroker
from samzapy.system.clients import system_factory

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def admin(bootstrap):
    clients = {side: {"bootstrap.servers": bootstrap} for side in ("consumer", "producer")}
    settings = SystemSettings("kafka", "samzapy.system.kafka:KafkaSystemFactory", **clients)
    return closing(system_factory(settings).admin(settings, "tests"))


def test_the_data_of_a_folder_with_any_name_outlive_the_broker(tmp_path):
    folder = tmp_path / "größe 😀, a"
    with DevBroker(folder, tied=True) as broker:
        with admin(broker.running.bootstrap) as client:
            client.create(StreamSpec("kept", 3))
        with admin(broker.restart()) as client:
            assert client.describe("kept").partitions == 3
    assert (folder / "data" / "meta.properties").is_file()
    assert [each.name for each in tmp_path.iterdir()] == [folder.name]
