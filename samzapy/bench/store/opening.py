"""From a case to what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from samzapy.api.engine import EngineSettings
from samzapy.bench.store.baselines import DictStore, RawTarget, WriteThroughStore
from samzapy.bench.store.material import Material
from samzapy.bench.store.plan import Case
from samzapy.bench.store.targets import StoreTarget, Target
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.serializers.registry import serde_registry
from samzapy.storage.engines import load_engines
from samzapy.storage.rocksdb.options import RocksDbOptions

_LOCAL = "systems.local.samza.factory"
_BYTES = "bytes"


@dataclass(frozen=True)
class Opener:
    """`job`: the `systems.*` and `serializers.*` of the plan; everything on disk is below `folder`."""

    job: Mapping[str, str]
    folder: Path
    seed: int

    def open(self, case: Case) -> tuple[Target, Material]:
        """The target, empty, and the material that it takes. Raises ConfigError."""
        config = self._config(case)
        store = config.stores[case.store]
        folder = self.folder / case.name.replace("/", "--")
        if case.target == "store":
            material = Material(store.key_serde, store.msg_serde, self.seed)
            settings = None if store.changelog is None else config.systems[store.changelog.system]
            return StoreTarget(config, case.store, folder, settings, case.tasks_in_container), material
        load_engines(config)
        if "rocksdb" not in store.factory:
            raise ConfigError(
                [ConfigProblem(f"{case.prefix}target", case.target, "needs a store with factory rocksdb")]
            )
        settled = EngineSettings(case.store, store.properties, case.tasks_in_container)
        options = RocksDbOptions.parse(settled.properties, settled.tasks_in_container)
        if case.target == "raw":
            return RawTarget(folder, options), Material(_BYTES, _BYTES, self.seed)
        serdes = serde_registry(config)
        kind = DictStore if case.target == "dict" else WriteThroughStore
        over = partial(kind, key_serde=serdes[store.key_serde], msg_serde=serdes[store.msg_serde])
        return RawTarget(folder, options, over), Material(store.key_serde, store.msg_serde, self.seed)

    def _config(self, case: Case) -> JobConfig:
        """A job that has nothing but this store."""
        defaults = {"factory": "rocksdb", "key.serde": _BYTES, "msg.serde": _BYTES}
        keys = {leaf: value for leaf, value in {**defaults, **case.store_keys}.items() if value}
        job = {
            "job.name": "bench-store",
            "task.class": "samzapy.bench.tasks:KeyedCountTask",
            "task.inputs": "local.none",
            _LOCAL: "local",
            **self.job,
            **{f"stores.{case.store}.{leaf}": value for leaf, value in keys.items()},
        }
        if job[_LOCAL] == "local":
            job.setdefault("systems.local.path", str(self.folder / "local.db"))
        return load_job(job)
