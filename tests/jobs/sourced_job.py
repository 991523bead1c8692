"""A job with a store of each kind that comes back without a full changelog: `rates` is filled from side inputs, `seen`
from an input that is read again, `counts` from snapshots and the changelog's tail. Run as a script it is one start."""

import json
import sys
from pathlib import Path

from samzapy import ClosableTask, InitableTask, SideInputsProcessor, StreamTask

COMMITS_EVERY = 25


class Sums(SideInputsProcessor):
    """What is processed twice, or not at all, shows."""

    def process(self, message, store):
        return [(message.key, (store.get(message.key) or 0) + message.message)]


class Occurrences(SideInputsProcessor):
    """Makes of the input what the task makes of it."""

    def process(self, message, store):
        return [(message.key, (store.get(message.key) or 0) + 1)]


class Ledger(StreamTask, InitableTask, ClosableTask):
    """Counts by key in two stores, and writes down at its end what all of them hold."""

    def init(self, context):
        self._stores = {name: context.get_store(name) for name in ("rates", "seen", "counts")}
        self._told = Path(context.job.config["test.told"], context.task.task_name)
        self._processed = 0

    def process(self, envelope, collector, coordinator):
        for name in ("seen", "counts"):
            store = self._stores[name]
            store.put(envelope.key, (store.get(envelope.key) or 0) + 1)
        self._processed += 1
        if self._processed % COMMITS_EVERY == 0:
            coordinator.commit()

    def close(self):
        found = {}
        for name, store in self._stores.items():
            with store.all() as entries:
                found[name] = dict(entries)
        self._told.parent.mkdir(exist_ok=True)
        self._told.write_text(json.dumps(found))


def job(folder: Path, **keys: str) -> dict[str, str]:
    """The job's file, but for its system `log` and its inputs."""
    stores = {
        f"stores.{name}.{key}": value
        for name in ("rates", "seen", "counts")
        for key, value in {"factory": "rocksdb", "key.serde": "string", "msg.serde": "json"}.items()
    }
    return {
        "job.name": "sourced",
        "job.default.system": "log",
        "job.logged.store.base.dir": str(folder / "state"),
        "job.non-logged.store.base.dir": str(folder / "state"),
        "task.class": f"{__name__}:Ledger",
        "task.guarantee": "exactly-once",
        "task.commit.ms": "5000",
        "task.poll.batch.size": "50",
        "systems.log.default.stream.samza.key.serde": "string",
        "systems.log.default.stream.samza.msg.serde": "json",
        "systems.log.default.stream.samza.offset.default": "oldest",
        "stores.rates.side.inputs.processor.factory": f"{__name__}:Sums",
        "stores.rates.uncommitted.max.bytes": "1",
        "stores.rates.object.cache.size": "0",
        "stores.seen.restore.inputs.processor.factory": f"{__name__}:Occurrences",
        "stores.seen.uncommitted.max.bytes": "1000",
        "stores.counts.backup.path": (folder / "backup").as_uri(),
        "stores.counts.backup.interval.ms": "0",
        "test.told": str(folder / "told"),
        **stores,
        **keys,
    }


def run(flat: dict[str, str]) -> object:
    """Run the job in this process to the ends of its inputs; returns the container's report."""
    from samzapy.config.loader import load_job
    from samzapy.container.restart import build_container
    from samzapy.coordinator.coordinator import Coordinator, LocalLease
    from samzapy.coordinator.wire import JobSpec
    from samzapy.runner.prepare import prepare

    config = load_job(flat)
    prepared = prepare(config, until_end=True)
    coordinator = Coordinator(config.name, JobSpec(prepared.model, config.raw, prepared.ends), 60.0)
    lease = LocalLease(coordinator, "0")
    container = build_container(config, prepared.model.containers[0], lease, ends=prepared.ends, run_id=prepared.run_id)
    return container.run()


if __name__ == "__main__":
    run(job(Path(sys.argv[1]), **json.loads(sys.argv[2])))
