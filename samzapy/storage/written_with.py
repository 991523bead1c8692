"""What a store's entries are written with, and that it does not change during a store's life.

Bytes that one serde has written another one may read without an error, and wrongly: the long 10 is the double 4.9e-323.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.engine import EngineSettings, StorageEngineFactory
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.config.streams.serdes import key_identity, serde_identity
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.storage.views.engine import chosen_serdes

#: The serdes of a store's keys and values, by their identities; empty where an older version has not written them down.
SerdePair = tuple[str, str]


def entry_serde_names(config: JobConfig, store: StoreConfig, factory: StorageEngineFactory) -> SerdePair:
    """What the store's keys and values are written with, as the job file and the store's engine have it."""
    settings = EngineSettings(store.name, store.properties)
    key, value = chosen_serdes(store, factory, settings)
    return key_identity(key, config.serdes, config.resolved), serde_identity(value, config.serdes)


def check_checkpoints(
    config: JobConfig, engines: Mapping[str, StorageEngineFactory], checkpoints: Iterable[Checkpoint | None]
) -> None:
    """Raise ConfigError if a store has a changelog that was written with other serdes, as a task's checkpoint says."""
    logged = [store for store in config.stores.values() if store.changelog is not None]
    now = {store.name: entry_serde_names(config, store, engines[store.name]) for store in logged}
    problems: dict[ConfigProblem, None] = {}
    for checkpoint in filter(None, checkpoints):
        for store in logged:
            written = checkpoint.serdes.get(store.name, ("", ""))
            problems.update(dict.fromkeys(serde_changes(store, written, now[store.name])))
    if problems:
        raise ConfigError(problems)


def serde_changes(store: StoreConfig, written: SerdePair, now: SerdePair) -> Iterator[ConfigProblem]:
    """What is wrong with giving the serdes `now` to a store that was written with others."""
    named = (("key.serde", store.key_serde), ("msg.serde", store.msg_serde))
    for (leaf, configured), before, after in zip(named, written, now, strict=True):
        if before and before != after:
            again = "give it that serde again" if configured else "give it the engine it had"
            message = f"the store was written with {before}, this is {after}: {again}, or the store another changelog"
            yield ConfigProblem(f"stores.{store.name}.{leaf}", configured or after, message)
