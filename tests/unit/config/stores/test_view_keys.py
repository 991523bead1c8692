"""The keys of the engines with a query interface of their own."""

from __future__ import annotations

from samzapy.config.known_keys import ALL_KEYS, effective
from samzapy.config.loader import load_job


def test_the_keys_in_force_are_those_of_the_stores_engine():
    job = load_job(
        {
            "job.name": "keys",
            "task.class": "some.module:Task",
            "task.inputs": "memory.in",
            "systems.memory.samza.factory": "memory",
            "stores.top.factory": "heap",
            "stores.top.heap.size": "7",
            "stores.found.factory": "inverted-index",
            "stores.plain.factory": "rocksdb",
            "stores.plain.key.serde": "string",
            "stores.plain.msg.serde": "json",
        },
        strict=True,
    )
    settings = {setting.key: setting.value for setting in effective(job, ALL_KEYS)}
    found = {key for key in settings if ".heap." in key or ".index." in key or ".cube." in key or ".bloom." in key}
    assert found == {
        "stores.top.heap.size",
        "stores.top.heap.order",
        "stores.found.index.tokenizer",
    }
    assert settings["stores.top.heap.size"] == "7"
    assert job.stores["top"].base == "samzapy.storage.rocksdb:RocksDbStorageEngineFactory"
    assert job.stores["top"].key_serde == ""
