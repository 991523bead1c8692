"""A job on the memory system with a store of `long` counts, and what a test needs to migrate that store."""

import json
import struct
from contextlib import closing
from dataclasses import replace

import msgspec
from jobs.memory_job import MemoryJob

from samzapy.admin.migration import MigrationRequest, migrate_store
from samzapy.admin.running import NO_DRIVER
from samzapy.checkpoint import manager_for
from samzapy.checkpoint.records import read_owner, write_owner
from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.runner.prepare import prepare
from samzapy.system.clients import job_clients
from samzapy.system.memory.cluster import MemoryCluster

LONG, JSON = {"stores.counts.msg.serde": "long"}, {"stores.counts.msg.serde": "json"}
TRANSACTIONS = [True, False]
#: Messages as (partition, key): three keys in one partition, two in the other.
MESSAGES = [(0, "a"), (0, "b"), (0, "a"), (0, "c"), (1, "d"), (1, "e"), (1, "d")]
COUNTS = {(0, "a"): 2, (0, "b"): 1, (0, "c"): 1, (1, "d"): 2, (1, "e"): 1}


class Count(msgspec.Struct, frozen=True):
    """What the counts become with a class."""

    total: int
    since: str = "ever"


def doubled(key, value):
    """The entry of `b` is deleted, the others have new keys and values."""
    return None if key == "b" else (f"{key}{key}", value * 2)


def as_documents(key, value):
    return key, {"total": value}


def picky(key, value):
    if key in {"a", "e"}:
        raise ValueError(f"no {key}\nhere")
    return key, value


def one_key(key, value):
    return "same", value


def exchanged(key, value):
    return {"a": "b", "b": "a"}.get(key, key), value


def no_pair(key, value):
    return value


class MigratingJob:
    """The job has run once with `long` counts, and has ended."""

    def __init__(self, folder, *, transactions=True, messages=MESSAGES, **keys):
        state = {} if transactions else {"task.state.transactions": "false"}
        self.job = MemoryJob(folder, **{**LONG, **state, **keys})
        self.flat = self.job.flat
        self.send(messages)
        self.run()

    def send(self, messages):
        self.job.send(*((partition, key, {"id": number}) for number, (partition, key) in enumerate(messages)))

    def run(self, **keys):
        """Run the job to the ends of its inputs; returns the last report."""
        report = self.job.run(**keys)
        self.end_run()
        return report

    def end_run(self):
        """As if the last run's process were gone, so that tools may work on the job."""
        with self.checkpoints() as checkpoints:
            owner = read_owner(checkpoints)
            write_owner(checkpoints, replace(owner, pid=NO_DRIVER, lease_ms=0))

    def checkpoints(self):
        return _Checkpoints(self.job.config)

    def migrate(self, keys=JSON, **asked):
        """Migrate the store to what the job file says with `keys`."""
        config = load_job({**self.flat, **keys})
        return migrate_store(config, "counts", MigrationRequest(**asked), lambda _: None)

    def records(self):
        """What a restore takes from the changelog: partition and key to the bytes of the value."""
        state = {}
        for partition, key, value in self.job.read("counts-changelog"):
            state[partition, key] = value
        return {place: value for place, value in state.items() if value is not None}

    def longs(self):
        return {place: struct.unpack(">q", value)[0] for place, value in self.records().items()}

    def documents(self):
        return {place: json.loads(value) for place, value in self.records().items()}

    def compact(self):
        cluster = MemoryCluster.named(self.flat["systems.mem.cluster"])
        cluster.clean("mem", "counts-changelog")

    def starts_with(self, keys):
        """Whether a start of the job with these keys of its file passes its checks; the text of the refusal if not."""
        try:
            prepare(load_job({**self.flat, **keys}), until_end=True)
        except EnvironmentFailure as refusal:
            return str(refusal)
        finally:
            self.end_run()
        return True


class _Checkpoints:
    def __init__(self, config):
        self._clients = job_clients(config, "test")
        self._manager = manager_for(config, self._clients)

    def __enter__(self):
        return self._manager

    def __exit__(self, *_):
        with closing(self._clients), closing(self._manager):
            pass
