"""A job whose stores are queried, and engines with committed entries."""

from samzapy.api.engine import EngineSettings
from samzapy.storage.kv import InMemoryStorageEngineFactory
from samzapy.storage.local.marker import Marker, StoreIdentity

QUERY_JOB = {
    "job.name": "j",
    "task.class": "a:B",
    "task.inputs": "m.in",
    "systems.m.samza.factory": "memory",
    "job.query.enabled": "true",
    "stores.counts.factory": "inmemory",
    "stores.counts.key.serde": "string",
    "stores.counts.msg.serde": "json",
}


def engine_with(entries, partition=0, offset=17):
    engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
    engine.write(entries, Marker(StoreIdentity("j-1", "s", partition), offset, 0).to_bytes())
    return engine
